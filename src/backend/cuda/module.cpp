// Compiling through the cache, and loading.
#include "backend/cuda/module.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace everkernel::backend::cuda {
namespace {

// Programs alternate between a few kernels.
constexpr std::size_t kMostModules = 16;

jit::CodeKey key_of(const Nvrtc& nvrtc, const CompileRequest& request, int driver_version) {
  const std::string versions = fmt::format("nvrtc {} driver {} architecture {}", nvrtc.version(),
                                           driver_version, request.architecture);
  std::vector<jit::CodeKeyPart> parts{{"cuda", versions},
                                      {request.source.name, request.source.text}};
  for (const SourceText& header : request.headers) parts.push_back({header.name, header.text});
  for (const std::string& option : request.options) parts.push_back({"option", option});
  return jit::make_code_key(parts);
}

// values.cuh says what is looked for, and why: it is in the key of what was compiled, and this is
// not. Instructions that NVVM makes begin a line; atomic ones have their kind further behind.
bool has_unsafe_instruction(std::string_view ptx) {
  constexpr std::string_view kUnsafe[] = {"\tabs.s32", "\tmin.s32", "\tmax.s32"};
  return std::ranges::any_of(kUnsafe, [&](auto what) { return ptx.find(what) != ptx.npos; });
}

}  // namespace

Result<CompiledCode> compile_for_ptxas(const Nvrtc& nvrtc, CompileRequest request) {
  request.keeps_ptx = true;
  auto code = nvrtc.compile(request);
  if (!code || !has_unsafe_instruction(code->ptx)) return code;
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
  auto compiled = compile_for_ptxas(nvrtc, request);
  if (!compiled) return Failure(std::move(compiled).error());
  module.bytes = std::move(compiled->bytes);
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
  if (module_ == nullptr) return;
  if (const auto current = context_->enter()) context_->driver().cuModuleUnload(module_);
}

Result<Module> Module::load(std::shared_ptr<const Context> context, const Nvrtc& nvrtc,
                            jit::CodeCache* cache, const CompileRequest& request) {
  EVERKERNEL_TRY(context->check_alive());
  const int driver_version = context->driver().version;
  auto code = compile_module(nvrtc, cache, request, driver_version);
  if (!code) return Failure(std::move(code).error());
  auto module = load_bytes(context, *code);
  if (module || !code->is_from_cache || context->is_lost()) return module;
  // What was stored is of no use here, whatever the reason: a miss, not an error.
  cache->reject(code->key, module.error().message);
  code = compile_module(nvrtc, cache, request, driver_version);
  if (!code) return Failure(std::move(code).error());
  return load_bytes(std::move(context), *code);
}

Result<Module> Module::load_bytes(std::shared_ptr<const Context> context,
                                  const CompiledModule& code) {
  const auto current = context->enter();
  if (!current) return Failure(current.error());
  CuModule loaded = nullptr;
  EVERKERNEL_TRY(context->check(context->driver().cuModuleLoadData(&loaded, code.bytes.data()),
                                "cuModuleLoadData"));
  Module module(std::move(context), loaded);
  module.key_ = code.key;
  module.is_from_cache_ = code.is_from_cache;
  return module;
}

// Getting a function loads it, also where the driver loads late: nothing is left for the launch.
Result<CuFunction> Module::function(const char* name) const {
  const auto current = context_->enter();
  if (!current) return Failure(current.error());
  CuFunction function = nullptr;
  EVERKERNEL_TRY(context_->check(context_->driver().cuModuleGetFunction(&function, module_, name),
                                 fmt::format("cuModuleGetFunction of {}", name)));
  return function;
}

ModuleShelf::ModuleShelf(Nvrtc nvrtc, std::optional<jit::CodeCacheOptions> cache)
    : nvrtc_(std::move(nvrtc)), cache_options_(std::move(cache)) {}

std::shared_ptr<const Module> ModuleShelf::find(const jit::CodeKey& key) {
  const std::scoped_lock lock(lock_);
  const auto found =
      std::ranges::find(modules_, key, [](const auto& module) { return module->key(); });
  if (found == modules_.end()) return nullptr;
  std::rotate(found, found + 1, modules_.end());
  return modules_.back();
}

void ModuleShelf::put(std::shared_ptr<const Module> module) {
  const std::scoped_lock lock(lock_);
  if (modules_.size() == kMostModules) modules_.erase(modules_.begin());
  modules_.push_back(std::move(module));
}

jit::CodeCache* ModuleShelf::cache() {
  const std::scoped_lock lock(lock_);
  if (const auto options = std::exchange(cache_options_, std::nullopt)) {
    if (auto opened = jit::CodeCache::open(*options)) cache_ = std::move(*opened);
  }
  return cache_ ? &*cache_ : nullptr;
}

// Nobody waits for what somebody else compiles. Two who want the same at the same time both do.
Result<std::shared_ptr<const Module>> ModuleShelf::get(
    const std::shared_ptr<const Context>& context, const CompileRequest& request) {
  if (auto found = find(key_of(nvrtc_, request, context->driver().version))) return found;
  auto loaded = Module::load(context, nvrtc_, cache(), request);
  if (!loaded) return Failure(std::move(loaded).error());
  auto module = std::make_shared<const Module>(std::move(*loaded));
  put(module);
  return module;
}

}  // namespace everkernel::backend::cuda
