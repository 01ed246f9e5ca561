// Runs one item on the interpreter and in every way that some compiled code offers, each on its own
// copy of the same memory, and reports where the results differ.
//
// One set of tables and random programs serves every kind of compiled code: a test program links
// the kinds it knows, and EVERKERNEL_SUBJECT=native
// cuda_text
// gpu chooses one. The default is native.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "everkernel/ir/item.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/jit/code_cache.hpp"
#include "support/jit_guarded_buffers.hpp"

namespace everkernel::test {

using abi::Word;

/// One buffer of a frame.
struct BufferSpec {
  Word handle = 0;
  std::vector<Word> words = {};  // contents; of an alias, only the length counts
  memory::Access access = memory::Access::read_write;
  Word owner = memory::kEveryTenant;
  Edge edge = Edge::end;
  std::optional<std::size_t> alias_of = {};  // shares the memory of this earlier buffer …
  std::size_t alias_first = 0;               // … from this word on
};

/// Whether the frame has an abort word, and its value.
enum class Abort : std::uint8_t { absent, clear, set };

/// Everything that an item can read.
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
  bool is_racy = false;   // of the interpreter: turns of an each could see each other
};

/// The first difference, empty if there is none. Fuel counts unless the run faulted, the IO request
/// only of a run that waits for it.
std::string difference(const RunResult& expected, const RunResult& actual);

/// One way to run an item.
struct Run {
  std::string way = {};       // description
  bool is_parallel = false;   // turns of an each ran side by side, in no known order
  bool has_two_logs = false;  // calls of emit come behind those of printf, each in their order
  RunResult result = {};
};

/// The first difference of a run, empty if there is none or if none can be decided: turns that race
/// have several possible results.
std::string difference(const RunResult& expected, const Run& run);

/// Compiled code of one program.
class Subject {
 public:
  virtual ~Subject() = default;
  /// Runs the item in every way there is.
  virtual std::vector<Run> run(std::size_t handler_index, const FrameSpec& spec) const = 0;
};

/// One kind of compiled code. A file that defines a kind has one of these at namespace scope; its
/// constructor registers the kind.
struct SubjectKind {
  std::string_view name;
  /// Compiles, or loads from the cache where this kind of code has one.
  Result<std::unique_ptr<const Subject>> (*make)(const ir::VerifiedProgram& program,
                                                 jit::CodeCache* cache);
  /// Why nothing of this kind can be compiled or run here; empty if it can.
  std::string (*why_not)();

  SubjectKind(std::string_view kind, decltype(make) make_subject, decltype(why_not) why_none);
};

/// The kind that EVERKERNEL_SUBJECT names. Ends the test program if there is no such kind.
const SubjectKind& chosen_subject();

/// One verified program with its compiled code.
class Trial {
 public:
  /// Compiles.
  static Result<Trial> make(const ir::VerifiedProgram& program, jit::CodeCache* cache = nullptr);
  /// Parses, verifies and compiles. Ends the test program on a mistake in the text.
  static Trial from_text(std::string_view text);

  struct Compared {
    RunResult interpreted = {};
    std::string difference = {};  // names the way of the run; empty if all agree
  };
  Compared run(std::size_t handler_index, const FrameSpec& spec) const;
  const ir::VerifiedProgram& program() const { return program_; }

 private:
  Trial(ir::VerifiedProgram program, std::unique_ptr<const Subject> subject)
      : program_(std::move(program)), subject_(std::move(subject)) {}
  ir::VerifiedProgram program_;
  std::unique_ptr<const Subject> subject_;
};

/// Runs one item on the interpreter alone.
RunResult interpret_once(const ir::VerifiedHandler& handler, const FrameSpec& spec);

}  // namespace everkernel::test
