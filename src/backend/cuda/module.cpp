// Compiles through the cache on disk, and loads code on the device.
#include "backend/cuda/module.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace everkernel::backend::cuda {
namespace {

// Enough for programs that alternate between a few kernels.
constexpr std::size_t kMaxModules = 16;

jit::CodeKey key_of(const Nvrtc& nvrtc, const CompileRequest& request, int driver_version) {
  const std::string versions = fmt::format("nvrtc {} driver {} architecture {}", nvrtc.version(),
                                           driver_version, request.architecture);
  std::vector<jit::CodeKeyPart> parts{{"cuda", versions},
                                      {request.source.name, request.source.text}};
  for (const SourceText& header : request.headers) parts.push_back({header.name, header.text});
  for (const std::string& option : request.options) parts.push_back({"option", option});
  return jit::make_code_key(parts);
}

// The instructions that ptxas is known to miscompile. values.cuh explains them: its text is part of
// the code key, this function is not. The search begins with a tab, because NVVM writes an
// instruction at the start of a line and atomic instructions have the operation in the middle.
bool has_unsafe_instruction(std::string_view ptx) {
  constexpr std::string_view kUnsafe[] = {"\tabs.s32", "\tmin.s32", "\tmax.s32"};
  return std::ranges::any_of(kUnsafe,
                             [&](auto instruction) { return ptx.find(instruction) != ptx.npos; });
}

}  // namespace

Result<CompiledCode> compile_for_ptxas(const Nvrtc& nvrtc, CompileRequest request) {
  request.keeps_ptx = true;
  CompiledCode code = EVERKERNEL_TRY(nvrtc.compile(request));
  if (!has_unsafe_instruction(code.ptx)) return code;
  std::vector<std::string> options(request.options.begin(), request.options.end());
  options.emplace_back("-DEVERKERNEL_OPAQUE_ARITHMETIC");
  request.options = options;
  return nvrtc.compile(request);
}

Result<CompiledModule> compile_module(const Nvrtc& nvrtc, jit::CodeCache* cache,
                                      const CompileRequest& request, int driver_version) {
  CompiledModule module{
      .bytes = {}, .key = key_of(nvrtc, request, driver_version), .is_from_cache = false};
  if (cache != nullptr) {
    if (auto found = cache->get(module.key)) {
      module.bytes = std::move(*found);
      module.is_from_cache = true;
      return module;
    }
  }
  CompiledCode compiled = EVERKERNEL_TRY(compile_for_ptxas(nvrtc, request));
  module.bytes = std::move(compiled.bytes);
  if (cache != nullptr) cache->put(module.key, module.bytes);
  return module;
}

Module::Module(std::shared_ptr<const Context> context, CuModule module)
    : context_(std::move(context)), module_(module) {}
Module::Module(Module&& other) noexcept
    : context_(std::move(other.context_)),
      module_(std::exchange(other.module_, nullptr)),
      key_(other.key_),
      is_from_cache_(other.is_from_cache_) {}
Module& Module::operator=(Module&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(module_, other.module_);
  std::swap(key_, other.key_);
  std::swap(is_from_cache_, other.is_from_cache_);
  return *this;
}

Module::~Module() {
  if (module_ != nullptr) context_->unload(module_);
}

Result<Module> Module::load(std::shared_ptr<const Context> context, const Nvrtc& nvrtc,
                            jit::CodeCache* cache, const CompileRequest& request) {
  EVERKERNEL_TRY(context->check_alive());
  const int driver_version = context->driver().version;
  CompiledModule code = EVERKERNEL_TRY(compile_module(nvrtc, cache, request, driver_version));
  auto module = load_bytes(context, code);
  if (module || !code.is_from_cache || context->is_lost()) return module;
  // The driver refuses the cached code. Any reason makes this a miss, not an error.
  cache->reject(code.key, module.error().message);
  code = EVERKERNEL_TRY(compile_module(nvrtc, cache, request, driver_version));
  return load_bytes(std::move(context), code);
}

Result<Module> Module::load_bytes(std::shared_ptr<const Context> context,
                                  const CompiledModule& code) {
  const Current current = EVERKERNEL_TRY(context->enter());
  context->reserve_place_to_keep();
  CuModule loaded = nullptr;
  const auto done = context->check(context->driver().cuModuleLoadData(&loaded, code.bytes.data()),
                                   "cuModuleLoadData");
  if (!done) context->return_place_to_keep();
  EVERKERNEL_TRY(done);
  Module module(std::move(context), loaded);
  module.key_ = code.key;
  module.is_from_cache_ = code.is_from_cache;
  return module;
}

// cuModuleGetFunction loads the function even if the driver loads lazily, so that the first launch
// has nothing to load.
Result<CuFunction> Module::function(const char* name) const {
  const Current current = EVERKERNEL_TRY(context_->enter());
  CuFunction function = nullptr;
  EVERKERNEL_TRY(context_->check(context_->driver().cuModuleGetFunction(&function, module_, name),
                                 fmt::format("cuModuleGetFunction of {}", name)));
  return function;
}

ModuleCache::ModuleCache(Nvrtc nvrtc, std::optional<jit::CodeCacheOptions> cache)
    : nvrtc_(std::move(nvrtc)), cache_options_(std::move(cache)) {}

std::shared_ptr<const Module> ModuleCache::find(const jit::CodeKey& key) {
  const std::scoped_lock lock(lock_);
  const auto found =
      std::ranges::find(modules_, key, [](const auto& module) { return module->key(); });
  if (found == modules_.end()) return nullptr;
  std::rotate(found, found + 1, modules_.end());
  return modules_.back();
}

void ModuleCache::put(std::shared_ptr<const Module> module) {
  const std::scoped_lock lock(lock_);
  if (modules_.size() == kMaxModules) modules_.erase(modules_.begin());
  modules_.push_back(std::move(module));
}

jit::CodeCache* ModuleCache::cache() {
  const std::scoped_lock lock(lock_);
  if (const auto options = std::exchange(cache_options_, std::nullopt)) {
    if (auto opened = jit::CodeCache::open(*options)) cache_ = std::move(*opened);
  }
  return cache_ ? &*cache_ : nullptr;
}

jit::CodeKey ModuleCache::key(const Context& context, const CompileRequest& request) const {
  return key_of(nvrtc_, request, context.driver().version);
}

Result<CompiledModule> ModuleCache::compile(const Context& context, const CompileRequest& request) {
  EVERKERNEL_TRY(context.check_alive());
  return compile_module(nvrtc_, cache(), request, context.driver().version);
}

Result<std::shared_ptr<const Module>> ModuleCache::load(
    const std::shared_ptr<const Context>& context, const CompiledModule& code) {
  if (auto found = find(code.key)) return found;
  auto loaded = Module::load_bytes(context, code);
  if (!loaded && code.is_from_cache && !context->is_lost()) {
    cache()->reject(code.key, loaded.error().message);  // the next time it is compiled
  }
  auto module = std::make_shared<const Module>(EVERKERNEL_TRY(std::move(loaded)));
  put(module);
  return module;
}

// The lock is not held while compiling. Two threads that request the same module at the same time
// both compile it.
Result<std::shared_ptr<const Module>> ModuleCache::get(
    const std::shared_ptr<const Context>& context, const CompileRequest& request) {
  if (auto found = find(key(*context, request))) return found;
  auto module = std::make_shared<const Module>(
      EVERKERNEL_TRY(Module::load(context, nvrtc_, cache(), request)));
  put(module);
  return module;
}

}  // namespace everkernel::backend::cuda
