// Runs one item three ways (interpreter, native code for shared and for exclusive memory), each on
// its own copy of the same guarded memory, and says where the results differ.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "everkernel/ir/item.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/jit/native.hpp"
#include "support/jit_guarded_buffers.hpp"

namespace everkernel::test {

using abi::Word;

/// One buffer of a frame.
struct BufferSpec {
  Word handle = 0;
  std::vector<Word> words = {};  // what it holds; of an alias, only its length counts
  memory::Access access = memory::Access::read_write;
  Word owner = memory::kEveryTenant;
  Edge edge = Edge::end;
  std::optional<std::size_t> alias_of = {};  // shares the memory of this earlier buffer …
  std::size_t alias_first = 0;               // … from this word on
};

/// Whether the frame has an abort word, and what it says.
enum class Abort : std::uint8_t { absent, clear, set };

/// Everything an item sees.
struct FrameSpec {
  std::array<Word, abi::kSlotArgs> args = {};
  Word opcode = 0;
  Word tenant = 0;
  Word priority = 0;
  Word slot = 0;
  Word lanes = 1;
  std::vector<Word> control = {};
  Edge control_edge = Edge::end;
  std::vector<BufferSpec> buffers = {};
  std::uint64_t fuel = 10'000;
  Abort abort = Abort::clear;
  bool has_hooks = true;
};

/// The frame as text, contents shortened.
std::string describe(const FrameSpec& spec);

/// A call of printf (kind 0) or emit (kind 1).
struct HookCall {
  Word kind, a, b, c;
  friend constexpr bool operator==(const HookCall&, const HookCall&) = default;
};

/// Everything a run leaves behind.
struct RunResult {
  ir::Outcome outcome = {};
  std::array<Word, abi::kSlotArgs> args = {};
  std::uint64_t fuel = 0;
  ir::IoAsk io = {};
  std::vector<HookCall> calls = {};
  std::vector<std::vector<Word>> buffers = {};
  std::vector<Word> control = {};
  bool is_intact = true;  // nothing wrote next to a buffer
};

/// The first difference, empty if there is none. Fuel counts unless the run faulted, the IO request
/// only of a run that waits for it.
std::string difference(const RunResult& expected, const RunResult& actual);

/// One verified program with its native code for both modes.
class Trial {
 public:
  /// Compiles for both uses of memory, or loads from the cache.
  static Result<Trial> make(const ir::VerifiedProgram& program, jit::CodeCache* cache = nullptr);
  /// Parses, verifies and compiles. Ends the test program on a mistake in the text.
  static Trial from_text(std::string_view text);

  struct Compared {
    RunResult interpreted = {};
    std::string difference = {};  // names the mode; empty if all three agree
  };
  Compared run(std::size_t handler_index, const FrameSpec& spec) const;
  const ir::VerifiedProgram& program() const { return program_; }

 private:
  Trial(ir::VerifiedProgram program, jit::NativeProgram shared, jit::NativeProgram exclusive)
      : program_(std::move(program)),
        shared_(std::move(shared)),
        exclusive_(std::move(exclusive)) {}
  ir::VerifiedProgram program_;
  jit::NativeProgram shared_;
  jit::NativeProgram exclusive_;
};

/// Runs one item on the interpreter alone.
RunResult interpret_once(const ir::VerifiedHandler& handler, const FrameSpec& spec);

}  // namespace everkernel::test
