// Compiled code on a device: from the cache on disk, or from NVRTC.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/context.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "everkernel/jit/code_cache.hpp"

namespace everkernel::backend::cuda {

// Code as bytes.
struct CompiledModule {
  std::vector<std::byte> bytes = {};
  jit::CodeKey key = {};
  bool is_from_cache = false;
};

// Compiles, a second time if ptxas would make something wrong of what NVVM has made (decision
// 0012); trusted handlers that have it in their own text keep it. Gives the PTX too. Fails as
// Nvrtc::compile does.
Result<CompiledCode> compile_for_ptxas(const Nvrtc& nvrtc, CompileRequest request);

// Takes the code from the cache, which may be null, or compiles it and stores it there. The key has
// every text, the architecture, the options, and the versions of NVRTC and of the driver, which
// compiles what is PTX. Fails as Nvrtc::compile does.
Result<CompiledModule> compile_module(const Nvrtc& nvrtc, jit::CodeCache* cache,
                                      const CompileRequest& request, int driver_version);

// Loaded code. It is all on the device before a function of it is handed out.
class Module {
 public:
  // Loads what compile_module gives. Bytes of the cache that the driver refuses are removed there
  // and compiled anew. Fails as compile_module and the driver do.
  static Result<Module> load(std::shared_ptr<const Context> context, const Nvrtc& nvrtc,
                             jit::CodeCache* cache, const CompileRequest& request);
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();

  // A kernel by its name. Fails with `invalid_argument`.
  Result<CuFunction> function(const char* name) const;
  // Whether it was compiled by an earlier process, or an earlier call.
  bool is_from_cache() const { return is_from_cache_; }
  // Names the code.
  const jit::CodeKey& key() const { return key_; }

 private:
  Module(std::shared_ptr<const Context> context, CuModule module);
  static Result<Module> load_bytes(std::shared_ptr<const Context> context,
                                   const CompiledModule& code);

  std::shared_ptr<const Context> context_;
  CuModule module_;
  jit::CodeKey key_ = {};
  bool is_from_cache_ = false;
};

// The modules a backend has loaded last: kernels of one program that differ in slots or workers
// are the same code, and those that differ in schedule have the same for planned work. Thread-safe.
class ModuleShelf {
 public:
  // Without options nothing is kept on disk; nor is it where the cache cannot be opened.
  ModuleShelf(Nvrtc nvrtc, std::optional<jit::CodeCacheOptions> cache);
  // A module that is there, or a new one. Fails as Module::load does.
  Result<std::shared_ptr<const Module>> get(const std::shared_ptr<const Context>& context,
                                            const CompileRequest& request);

 private:
  std::shared_ptr<const Module> find(const jit::CodeKey& key);
  void put(std::shared_ptr<const Module> module);
  jit::CodeCache* cache();

  const Nvrtc nvrtc_;
  std::mutex lock_;
  std::optional<jit::CodeCacheOptions> cache_options_;  // until it is opened, by the first who asks
  std::optional<jit::CodeCache> cache_;
  std::vector<std::shared_ptr<const Module>> modules_;  // the one used last is the last
};

}  // namespace everkernel::backend::cuda
