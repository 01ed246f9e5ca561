// NVRTC, NVIDIA's compiler of CUDA C++ as a library. It needs no GPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/device_source.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::backend::cuda {

// Source and options of a compilation.
struct CompileRequest {
  SourceText source = {};                     // messages of the compiler use its name
  std::span<const SourceText> headers = {};   // the only files that #include finds
  std::span<const std::string> options = {};  // in addition to language and architecture
  int architecture = 0;                       // 90 is compute capability 9.0
  bool keeps_ptx = false;                     // return the PTX too
  bool only_checks = false;  // check the source and generate no code, in a tenth of the time
  // Once it is true, compiling ends early, if NVRTC can be cancelled; may be null.
  const std::atomic<bool>* is_cancelled = nullptr;
};

// The result of a compilation.
struct CompiledCode {
  std::vector<std::byte> bytes = {};  // for cuModuleLoadData
  bool is_ptx = false;   // the bytes are PTX: NVRTC does not know the architecture, the driver does
  std::string log = {};  // warnings
  std::string ptx = {};  // the PTX of the bytes, if the request keeps it
};

// Thread-safe. Copies are independent of each other.
class Nvrtc {
 public:
  // Opens the library. Fails with `unsupported`. Message and hint are written for the user.
  static Result<Nvrtc> load();

  // The version as cuDriverGetVersion encodes it: 13000 is NVRTC 13.0.
  int version() const { return version_; }
  // Whether a compilation can be cancelled: from NVRTC 12.8 on.
  bool can_cancel() const { return functions_.SetFlowCallback != nullptr; }
  // The architectures that it generates code for, ascending.
  const std::vector<int>& architectures() const { return architectures_; }

  // Compiles to machine code of the architecture, or to PTX of the newest older architecture that
  // NVRTC knows. Fails with `invalid_argument` and the compiler's log if the source has errors, and
  // with `unsupported` if NVRTC knows no such architecture, and with `timeout` if it is cancelled.
  Result<CompiledCode> compile(const CompileRequest& request) const;

 private:
  using Program = struct ProgramOpaque*;
  struct Compilation;

  // The functions of NVRTC, without the prefix `nvrtc`.
  struct Functions {
    const char* (*GetErrorString)(int result);
    int (*Version)(int* major, int* minor);
    int (*GetNumSupportedArchs)(int* count);
    int (*GetSupportedArchs)(int* architectures);
    int (*CreateProgram)(Program* program, const char* source, const char* name, int header_count,
                         const char* const* headers, const char* const* header_names);
    int (*DestroyProgram)(Program* program);
    int (*SetFlowCallback)(Program program, int (*callback)(void* payload, void* unused),
                           void* payload);  // null before NVRTC 12.8
    int (*CompileProgram)(Program program, int option_count, const char* const* options);
    int (*GetPTXSize)(Program program, std::size_t* size);
    int (*GetPTX)(Program program, char* ptx);
    int (*GetCUBINSize)(Program program, std::size_t* size);
    int (*GetCUBIN)(Program program, char* cubin);
    int (*GetProgramLogSize)(Program program, std::size_t* size);
    int (*GetProgramLog)(Program program, char* log);
  };

  Nvrtc() = default;
  Result<void> ask();
  Failure failure(int result, std::string_view what) const;

  Functions functions_ = {};
  std::string library_ = {};
  int version_ = 0;
  std::vector<int> architectures_ = {};
};

}  // namespace everkernel::backend::cuda
