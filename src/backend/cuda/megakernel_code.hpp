// The device code of a kernel: the megakernel's source with the handlers of a program, and the
// compiler options that fit them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/crew_grid.hpp"
#include "backend/cuda/module.hpp"

namespace everkernel::backend::cuda {

// The megakernel is compiled into a module for each part, so that they can be compiled at the same
// time, and the last one only for those who start sessions.
enum class CodePart : Word {
  drain,  // drains rings
  graph,  // runs planned work
  live,   // serves live queues
};

// Text that is ready to compile.
class MegakernelCode {
 public:
  // Generates the text of the handlers. Fails with `unsupported` and `invalid_argument` if the
  // options cannot be compiled.
  static Result<MegakernelCode> generate(const KernelOptions& options);

  // Compiles a part for the context's device, or takes it from the cache; ends early once
  // `is_cancelled` is true. Fails as ModuleCache::get does.
  Result<std::shared_ptr<const Module>> load(const std::shared_ptr<const Context>& context,
                                             ModuleCache& module_cache, CodePart part,
                                             const std::atomic<bool>* is_cancelled) const;
  // The first step of load(), for a caller that must not load code yet: ModuleCache::load is the
  // second.
  Result<CompiledModule> compile(const Context& context, ModuleCache& module_cache, CodePart part,
                                 const std::atomic<bool>* is_cancelled) const;
  // The key of the module that load() returns.
  jit::CodeKey key(const Context& context, const ModuleCache& module_cache, CodePart part) const;
  // A kernel of a module that load() has returned. Fails as the driver does. The context is
  // current.
  Result<CrewKernel> find_kernel(const Context& context, const Module& module,
                                 const char* name) const;
  // How the crews of its kernels are shaped, without a function.
  const CrewKernel& shape() const { return shape_; }
  // Whether an item may run for long: its handler has a loop, or is a trusted handler that does
  // not declare itself short.
  bool has_long_items() const { return has_long_items_; }

 private:
  MegakernelCode() = default;

  // Calls `use` with the request of a part.
  auto with_request(const Context& context, CodePart part, const auto& use) const;

  std::string handlers_;
  std::vector<std::string> common_options_;  // of all parts
  std::string schedule_option_;              // of the part that drains rings
  std::string occupancy_option_;             // of the parts that share a multiprocessor with more
  CrewKernel shape_;                         // without a function
  bool has_long_items_ = false;
};

}  // namespace everkernel::backend::cuda
