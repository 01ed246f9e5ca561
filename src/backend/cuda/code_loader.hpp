// Compiles and loads the modules of a kernel beside the thread that waits for them.
#pragma once

#include <atomic>
#include <future>
#include <memory>

#include "backend/cuda/megakernel_code.hpp"
#include "base/thread.hpp"

namespace everkernel::backend::cuda {

// The modules of a kernel.
struct KernelModules {
  std::shared_ptr<const Module> drain = {};  // null for a kernel of planned work only
  std::shared_ptr<const Module> graph = {};
};

// One compilation of the modules of a kernel, one thread for each. Destroying it cancels what is
// under way: NVRTC 12.8 and newer then ends within tenths of a second, an older one when it is
// done.
class CodeLoader {
 public:
  // Starts the threads; where the system refuses one, the call compiles. The module cache must
  // outlive it.
  CodeLoader(const std::shared_ptr<Context>& context, ModuleCache& module_cache,
             MegakernelCode code, bool is_planned);
  CodeLoader(const CodeLoader&) = delete;  // its threads refer to it
  CodeLoader& operator=(const CodeLoader&) = delete;
  ~CodeLoader();

  // Waits until the modules are there; false if the deadline comes first.
  bool wait(const Deadline& deadline) const;
  // The modules, once wait() has returned true. Fails as MegakernelCode::load does.
  Result<KernelModules> take();

  // The text that is compiled.
  const MegakernelCode& code() const { return code_; }

 private:
  using Loaded = Result<std::shared_ptr<const Module>>;
  // One part of the code.
  struct Part {
    std::packaged_task<Loaded()> task;
    std::future<Loaded> loaded;
    Thread thread;
  };

  const MegakernelCode code_;
  std::atomic<bool> is_cancelled_{false};
  Part drain_;
  Part graph_;
};

}  // namespace everkernel::backend::cuda
