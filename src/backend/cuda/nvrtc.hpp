// NVRTC, the compiler of CUDA C++ as a library. Needs no GPU.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/device_source.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::backend::cuda {

// What to compile.
struct CompileRequest {
  SourceText source = {};                     // the name is for messages
  std::span<const SourceText> headers = {};   // what #include finds; nothing else is found
  std::span<const std::string> options = {};  // beside language and architecture
  int architecture = 0;                       // 90 is compute capability 9.0
  bool keeps_ptx = false;                     // give the PTX too
  bool only_checks = false;                   // the text: a tenth of the time, and no code
};

// What came out.
struct CompiledCode {
  std::vector<std::byte> bytes = {};  // as cuModuleLoadData takes it
  bool is_ptx = false;                // NVRTC does not know the architecture, the driver has to
  std::string log = {};               // warnings
  std::string ptx = {};               // what the bytes were made from, if it was asked for
};

// Thread-safe; a copy is as good as the original.
class Nvrtc {
 public:
  // Opens the library. Fails with `unsupported`; message and hint are what a user needs to know.
  static Result<Nvrtc> load();

  // 13000 is NVRTC 13.0, as the driver counts.
  int version() const { return version_; }
  // The architectures it makes code for, ascending.
  const std::vector<int>& architectures() const { return architectures_; }

  // Machine code for the architecture, or PTX of the newest one below it that NVRTC knows. Fails
  // with `invalid_argument` and the compiler's log when the source has errors, with `unsupported`
  // when no architecture will do.
  Result<CompiledCode> compile(const CompileRequest& request) const;

 private:
  using Program = struct ProgramOpaque*;
  struct Compilation;

  // The functions by the names they have behind `nvrtc`.
  struct Functions {
    const char* (*GetErrorString)(int result);
    int (*Version)(int* major, int* minor);
    int (*GetNumSupportedArchs)(int* count);
    int (*GetSupportedArchs)(int* architectures);
    int (*CreateProgram)(Program* program, const char* source, const char* name, int header_count,
                         const char* const* headers, const char* const* header_names);
    int (*DestroyProgram)(Program* program);
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
