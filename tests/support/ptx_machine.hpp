// Runs PTX on the CPU: one thread of a kernel, on memory of the host, every access checked.
//
// It knows what NVRTC makes of generated handlers, and refuses all else by the line. A text is
// decoded once; runs share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "everkernel/base/result.hpp"
#include "support/ptx_operations.hpp"

namespace everkernel::test {

/// A run of one thread.
struct PtxLaunch {
  std::string_view entry = {};
  std::span<const std::uint64_t> params = {};
  std::uint32_t block = 0;                    // %ctaid.x
  std::span<const ptx::Region> regions = {};  // all global memory there is, beside the module's own
  std::uint32_t shared_bytes = 0;             // %dynamic_smem_size
  std::uint64_t instruction_limit = 100'000'000;
};

/// A module.
class PtxModule {
 public:
  /// Fails with the line that is not understood.
  static Result<PtxModule> parse(std::string_view text);
  /// Runs one thread; gives the number of instructions. Fails with the line where something
  /// happened that must not, such as an access outside the regions.
  Result<std::uint64_t> run(const PtxLaunch& launch) const;

 private:
  friend class PtxParser;

  // What only a launch knows.
  enum class Late : std::uint8_t { block, shared_bytes, tile, global, local };
  struct LateValue {
    std::uint32_t at = 0;  // among the registers
    Late kind = Late::block;
    std::size_t offset = 0;  // in the module's memory or the thread's own
  };
  struct Function {
    std::vector<ptx::Instruction> code = {};
    std::vector<std::uint64_t> registers = {};  // as they are at first: constants, and rubbish
    std::vector<LateValue> late = {};
    std::size_t param_count = 0;
    std::size_t local_bytes = 0;
  };

  ptx::Thread thread_of(const Function& function, const PtxLaunch& launch,
                        std::span<std::byte> globals, std::span<std::byte> locals) const;
  Failure failure(std::size_t line, std::string_view why) const;

  std::vector<std::string> lines_ = {};
  std::map<std::string, Function, std::less<>> functions_ = {};
  std::vector<std::byte> globals_ = {};  // as they are at first
  std::size_t shared_bytes_ = 0;         // without what a launch adds
};

}  // namespace everkernel::test
