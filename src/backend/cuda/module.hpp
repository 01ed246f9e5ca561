// Compiled code on a device. It comes from the cache on disk, or from NVRTC.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/context.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "everkernel/jit/code_cache.hpp"

namespace everkernel::backend::cuda {

// Code that is compiled but not loaded.
struct CompiledModule {
  std::vector<std::byte> bytes = {};
  jit::CodeKey key = {};
  bool is_from_cache = false;
};

// Compiles, and returns the PTX too. If the PTX has an instruction that ptxas is known to
// miscompile, the source is compiled again in a form that avoids it (decision 0012). Text of
// trusted handlers that has the instruction itself keeps it. Fails as Nvrtc::compile does.
Result<CompiledCode> compile_for_ptxas(const Nvrtc& nvrtc, CompileRequest request);

// Takes the code from the cache, or compiles it and stores it there. `cache` may be null. The key
// is made of all source texts, the architecture, the options, and the versions of NVRTC and of the
// driver, which compiles PTX. Fails as Nvrtc::compile does.
Result<CompiledModule> compile_module(const Nvrtc& nvrtc, jit::CodeCache* cache,
                                      const CompileRequest& request, int driver_version);

// Code that is loaded on the device.
class Module {
 public:
  // Loads the result of compile_module. If the driver refuses code from the cache, the code is
  // removed from the cache and compiled again. Fails as compile_module and the driver do.
  static Result<Module> load(std::shared_ptr<const Context> context, const Nvrtc& nvrtc,
                             jit::CodeCache* cache, const CompileRequest& request);
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();

  // Looks a kernel up by its name, and loads it. Fails with `invalid_argument` if there is none.
  Result<CuFunction> function(const char* name) const;
  // Whether the code came from the cache on disk.
  bool is_from_cache() const { return is_from_cache_; }
  // Identifies the code: equal keys, equal code.
  const jit::CodeKey& key() const { return key_; }

 private:
  friend class ModuleCache;
  Module(std::shared_ptr<const Context> context, CuModule module);
  static Result<Module> load_bytes(std::shared_ptr<const Context> context,
                                   const CompiledModule& code);

  std::shared_ptr<const Context> context_;
  CuModule module_;
  jit::CodeKey key_ = {};
  bool is_from_cache_ = false;
};

// The modules that a backend has used last. Kernels of one program share them: kernels that differ
// only in slots or workers have the same code, and kernels that differ only in schedule have the
// same code for planned work. Thread-safe.
class ModuleCache {
 public:
  // Without `cache`, or if its folder cannot be opened, no code is kept on disk.
  ModuleCache(Nvrtc nvrtc, std::optional<jit::CodeCacheOptions> cache);
  // Returns the module of the request, and loads it if it is not in the cache. Fails as
  // Module::load does.
  Result<std::shared_ptr<const Module>> get(const std::shared_ptr<const Context>& context,
                                            const CompileRequest& request);
  // The steps of get(), for a caller that must not load code yet. find() gives null if it is not
  // loaded.
  std::shared_ptr<const Module> find(const jit::CodeKey& key);
  Result<CompiledModule> compile(const Context& context, const CompileRequest& request);
  Result<std::shared_ptr<const Module>> load(const std::shared_ptr<const Context>& context,
                                             const CompiledModule& code);
  // The key of the module that get() returns.
  jit::CodeKey key(const Context& context, const CompileRequest& request) const;

 private:
  void put(std::shared_ptr<const Module> module);
  jit::CodeCache* cache();

  const Nvrtc nvrtc_;
  std::mutex lock_;
  std::optional<jit::CodeCacheOptions> cache_options_;  // empty once the first get() has opened it
  std::optional<jit::CodeCache> cache_;
  std::vector<std::shared_ptr<const Module>> modules_;  // by last use, the latest at the end
};

}  // namespace everkernel::backend::cuda
