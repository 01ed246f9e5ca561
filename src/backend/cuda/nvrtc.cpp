// Opens libnvrtc and compiles with it.
#include "backend/cuda/nvrtc.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "backend/cuda/shared_library.hpp"

namespace everkernel::backend::cuda {
namespace {

constexpr const char* kFiles[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
constexpr const char* kHomes[] = {"CUDA_HOME", "CUDA_PATH"};
constexpr const char* kFolders[] = {
    "/usr/local/cuda/lib64",     "/usr/local/cuda/lib",        "/opt/cuda/lib64",
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
};
constexpr LibraryPlaces kPlaces = {
    .variable = "EVERKERNEL_LIBNVRTC",
    .files = kFiles,
    .homes = kHomes,
    .folders = kFolders,
    .advice =
        "install NVRTC of CUDA 12 or 13 (libnvrtc and libnvrtc-builtins), or name the library "
        "in EVERKERNEL_LIBNVRTC",
};

// The results that the code compares with. The values are those of nvrtc.h.
constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 1;
constexpr int kCompilation = 6;
constexpr int kBuiltinsFailed = 7;
constexpr int kCancelled = 16;

// Longer logs are cut: the first errors explain the rest.
constexpr std::size_t kMaxLogBytes = std::size_t{16} << 10;

bool is_set(const std::atomic<bool>* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

}  // namespace

// An NVRTC program, destroyed with this object.
struct Nvrtc::Compilation {
  explicit Compilation(const Functions& table) : functions(table) {}
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  ~Compilation() {
    if (program != nullptr) functions.DestroyProgram(&program);
  }

  int create(const CompileRequest& request) {
    // NVRTC takes NUL-terminated texts.
    std::vector<std::string> strings;
    strings.reserve(2 * request.headers.size() + 2);
    std::vector<const char*> names;
    std::vector<const char*> texts;
    const auto keep = [&](std::string_view text) { return strings.emplace_back(text).c_str(); };
    for (const SourceText& header : request.headers) {
      names.push_back(keep(header.name));
      texts.push_back(keep(header.text));
    }
    return functions.CreateProgram(&program, keep(request.source.text), keep(request.source.name),
                                   static_cast<int>(names.size()), texts.data(), names.data());
  }

  // NVRTC asks again and again whether to go on. The flag does not become false again.
  int watch(const std::atomic<bool>* is_cancelled) const {
    if (is_cancelled == nullptr || functions.SetFlowCallback == nullptr) return kSuccess;
    return functions.SetFlowCallback(
        program,
        [](void* flag, void*) {
          return is_set(static_cast<const std::atomic<bool>*>(flag)) ? 1 : 0;
        },
        const_cast<std::atomic<bool>*>(is_cancelled));
  }

  int compile(std::span<const std::string> options) const {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return functions.CompileProgram(program, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string log() const {
    std::size_t size = 0;
    if (functions.GetProgramLogSize(program, &size) != kSuccess || size <= 1) return {};
    std::string text(size, '\0');
    if (functions.GetProgramLog(program, text.data()) != kSuccess) return {};
    text.resize(std::min(size - 1, kMaxLogBytes));  // without the NUL
    return text;
  }

  int code(bool is_ptx, std::vector<std::byte>& bytes) const {
    const auto size_of = is_ptx ? functions.GetPTXSize : functions.GetCUBINSize;
    const auto copy = is_ptx ? functions.GetPTX : functions.GetCUBIN;
    std::size_t size = 0;
    if (const int result = size_of(program, &size); result != kSuccess) return result;
    bytes.resize(size);
    return copy(program, reinterpret_cast<char*>(bytes.data()));
  }

  const Functions& functions;
  Program program = nullptr;
};

Result<Nvrtc> Nvrtc::load() {
  const SharedLibrary library = EVERKERNEL_TRY(SharedLibrary::open(kPlaces));
  Nvrtc nvrtc;
  nvrtc.library_ = library.name();
  const char* missing = nullptr;
  const auto bind = [&]<class Function>(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(library.find(symbol));
    if (function == nullptr && missing == nullptr) missing = symbol;
  };
  Functions& functions = nvrtc.functions_;
  bind(functions.GetErrorString, "nvrtcGetErrorString");
  bind(functions.Version, "nvrtcVersion");
  bind(functions.GetNumSupportedArchs, "nvrtcGetNumSupportedArchs");
  bind(functions.GetSupportedArchs, "nvrtcGetSupportedArchs");
  bind(functions.CreateProgram, "nvrtcCreateProgram");
  bind(functions.DestroyProgram, "nvrtcDestroyProgram");
  bind(functions.CompileProgram, "nvrtcCompileProgram");
  bind(functions.GetPTXSize, "nvrtcGetPTXSize");
  bind(functions.GetPTX, "nvrtcGetPTX");
  bind(functions.GetCUBINSize, "nvrtcGetCUBINSize");
  bind(functions.GetCUBIN, "nvrtcGetCUBIN");
  bind(functions.GetProgramLogSize, "nvrtcGetProgramLogSize");
  bind(functions.GetProgramLog, "nvrtcGetProgramLog");
  functions.SetFlowCallback =
      reinterpret_cast<decltype(functions.SetFlowCallback)>(library.find("nvrtcSetFlowCallback"));
  if (missing != nullptr) {
    return fail(Code::unsupported, fmt::format("{} has no {}", nvrtc.library_, missing),
                std::string(kPlaces.advice));
  }
  EVERKERNEL_TRY(nvrtc.ask());
  return nvrtc;
}

Result<void> Nvrtc::ask() {
  int major = 0;
  int minor = 0;
  int count = 0;
  int result = functions_.Version(&major, &minor);
  if (result == kSuccess) result = functions_.GetNumSupportedArchs(&count);
  if (result != kSuccess) return failure(result, "reading its version and architectures");
  version_ = major * 1000 + minor * 10;
  architectures_.resize(static_cast<std::size_t>(std::max(count, 0)));
  result = functions_.GetSupportedArchs(architectures_.data());
  if (result != kSuccess) return failure(result, "reading its version and architectures");
  std::ranges::sort(architectures_);
  // NVRTC supports C++20 from version 12.0 on.
  if (major >= 12) return {};
  return fail(Code::unsupported,
              fmt::format("{} is too old: it is NVRTC {}.{}", library_, major, minor),
              std::string(kPlaces.advice));
}

Result<CompiledCode> Nvrtc::compile(const CompileRequest& request) const {
  const auto above = std::ranges::upper_bound(architectures_, request.architecture);
  if (above == architectures_.begin()) {
    return fail(
        Code::unsupported,
        fmt::format("NVRTC {}.{} generates no code for compute capability {}.{}", version_ / 1000,
                    version_ % 1000 / 10, request.architecture / 10, request.architecture % 10),
        "install a version of NVRTC that supports this GPU");
  }
  const int known = *(above - 1);
  CompiledCode code{.is_ptx = known != request.architecture};
  std::vector<std::string> options{
      "--std=c++20",
      fmt::format("--gpu-architecture={}_{}", code.is_ptx ? "compute" : "sm", known)};
  // NVRTC's own cache takes a lock that all processes of the user share, and callers have a
  // cache already.
  if (version_ >= 13000) options.emplace_back("--no-cache");
  if (request.only_checks) options.emplace_back("--dlink-time-opt");  // leaves code to a linker
  options.insert(options.end(), request.options.begin(), request.options.end());

  Compilation compilation(functions_);
  if (const int result = compilation.create(request); result != kSuccess) {
    return failure(result, "nvrtcCreateProgram");
  }
  if (const int result = compilation.watch(request.is_cancelled); result != kSuccess) {
    return failure(result, "nvrtcSetFlowCallback");
  }
  const int result = compilation.compile(options);
  if (result == kCancelled || is_set(request.is_cancelled)) {
    return fail(Code::timeout, "NVRTC: compiling was cancelled");
  }
  code.log = compilation.log();
  if (result == kCompilation) {
    return fail(Code::invalid_argument,
                fmt::format("NVRTC cannot compile {}:\n{}", request.source.name, code.log), {},
                result);
  }
  if (result != kSuccess) return failure(result, fmt::format("compiling\n{}", code.log));
  if (request.only_checks) return code;
  if (const int copied = compilation.code(code.is_ptx, code.bytes); copied != kSuccess) {
    return failure(copied, "copying the code");
  }
  if (!request.keeps_ptx) return code;
  std::vector<std::byte> ptx;
  if (const int copied = compilation.code(/*is_ptx=*/true, ptx); copied != kSuccess) {
    return failure(copied, "copying the PTX");
  }
  code.ptx.assign(reinterpret_cast<const char*>(ptx.data()), ptx.size());
  return code;
}

Failure Nvrtc::failure(int result, std::string_view what) const {
  const Code code = result == kOutOfMemory ? Code::out_of_memory : Code::unsupported;
  return fail(code, fmt::format("NVRTC: {}: {}", what, functions_.GetErrorString(result)),
              result == kBuiltinsFailed
                  ? fmt::format("put libnvrtc-builtins in the folder of {}", library_)
                  : std::string(),
              result);
}

}  // namespace everkernel::backend::cuda
