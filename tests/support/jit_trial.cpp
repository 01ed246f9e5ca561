#include "support/jit_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "everkernel/ir/interpreter.hpp"
#include "everkernel/ir/parser.hpp"

namespace everkernel::test {
namespace {

/// The memory of one execution. Kept between runs, because mapping pages costs more than a run.
class Stage {
 public:
  ir::ItemFrame& set(const FrameSpec& spec) {
    fill_buffers(spec);
    const std::span<Word> control = control_.place(spec.control.size(), spec.control_edge);
    std::ranges::copy(spec.control, control.begin());
    calls_.clear();
    frame_ = {};
    std::ranges::copy(spec.args, frame_.args);
    frame_.opcode = spec.opcode;
    frame_.tenant = spec.tenant;
    frame_.priority = spec.priority;
    frame_.slot = spec.slot;
    frame_.lanes = spec.lanes;
    frame_.control_words = static_cast<Word>(control.size());
    frame_.control = control.data();
    frame_.buffers = table_->view();
    frame_.fuel = spec.fuel;
    Word* const abort = abort_.place(1, Edge::end).data();
    *abort = Word{spec.abort == Abort::set};
    frame_.abort = spec.abort == Abort::absent ? nullptr : abort;
    frame_.hooks = spec.has_hooks ? &hooks_ : nullptr;
    return frame_;
  }

  RunResult collect(ir::Outcome outcome) {
    RunResult result{.outcome = outcome, .fuel = frame_.fuel, .io = frame_.io};
    std::ranges::copy(frame_.args, result.args.begin());
    result.calls = calls_;
    result.is_intact = control_.is_intact() && abort_.is_intact();
    for (const memory::Buffer& buffer : buffers_) {
      result.buffers.emplace_back(buffer.words().begin(), buffer.words().end());
    }
    for (const GuardedRegion& region : regions_) result.is_intact &= region.is_intact();
    result.control.assign(control_.words().begin(), control_.words().end());
    return result;
  }

 private:
  void fill_buffers(const FrameSpec& spec) {
    buffers_.clear();
    table_.emplace();
    while (regions_.size() < spec.buffers.size()) regions_.emplace_back();
    std::vector<std::span<Word>> memory;
    for (std::size_t i = 0; i < spec.buffers.size(); ++i) {
      const BufferSpec& buffer = spec.buffers[i];
      if (buffer.alias_of) {
        memory.push_back(memory[*buffer.alias_of].subspan(buffer.alias_first, buffer.words.size()));
      } else {
        memory.push_back(regions_[i].place(buffer.words.size(), buffer.edge));
        std::ranges::copy(buffer.words, memory.back().begin());
      }
      auto adopted = table_->adopt(
          {.handle = buffer.handle, .access = buffer.access, .owner = buffer.owner}, memory.back());
      if (!adopted) {
        std::fprintf(stderr, "the frame is wrong: %s\n", adopted.error().message.c_str());
        std::abort();
      }
      buffers_.push_back(*std::move(adopted));
    }
  }

  static void print(void* self, Word a, Word b, Word c) {
    static_cast<Stage*>(self)->calls_.push_back({0, a, b, c});
  }
  static void emit(void* self, Word a, Word b, Word c) {
    static_cast<Stage*>(self)->calls_.push_back({1, a, b, c});
  }

  std::deque<GuardedRegion> regions_;
  GuardedRegion control_;
  GuardedRegion abort_;
  std::optional<memory::BufferTable> table_;
  std::vector<memory::Buffer> buffers_;
  std::vector<HookCall> calls_;
  ir::ItemHooks hooks_{.self = this, .print = &Stage::print, .emit = &Stage::emit};
  ir::ItemFrame frame_;
};

Stage& stage(std::size_t index) {
  static std::array<Stage, 3> stages;
  return stages[index];
}

std::string words_difference(std::string_view what, const std::vector<Word>& expected,
                             const std::vector<Word>& actual) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual[i]) continue;
    return fmt::format("{}[{}] is {:#x}, expected {:#x}", what, i, actual[i], expected[i]);
  }
  return {};
}

std::string shown(ir::Outcome outcome) {
  constexpr std::string_view kEndings[] = {"done", "yield", "requeue", "wait_io", "fault"};
  return fmt::format("{} {}", kEndings[static_cast<std::size_t>(outcome.ending)],
                     outcome.fault_code);
}

std::string calls_difference(const std::vector<HookCall>& expected,
                             const std::vector<HookCall>& actual) {
  const auto [left, right] = std::ranges::mismatch(expected, actual);
  if (left == expected.end() && right == actual.end()) return {};
  return fmt::format("printf/emit call {} of {} differs (expected {} calls)",
                     left - expected.begin(), actual.size(), expected.size());
}

std::string io_difference(const ir::IoAsk& expected, const ir::IoAsk& actual) {
  const auto list = [](const ir::IoAsk& io) {
    return std::vector<Word>{io.is_write, io.source, io.block, io.destination, io.byte_count};
  };
  return words_difference("io", list(expected), list(actual));
}

}  // namespace

std::string difference(const RunResult& expected, const RunResult& actual) {
  if (expected.outcome != actual.outcome) {
    return fmt::format("the outcome is {}, expected {}", shown(actual.outcome),
                       shown(expected.outcome));
  }
  if (!expected.is_intact || !actual.is_intact) return "a word next to a buffer was written";
  for (std::size_t i = 0; i < expected.buffers.size(); ++i) {
    auto found =
        words_difference(fmt::format("buffer #{}", i), expected.buffers[i], actual.buffers[i]);
    if (!found.empty()) return found;
  }
  if (auto found = words_difference("control", expected.control, actual.control); !found.empty()) {
    return found;
  }
  const std::vector<Word> expected_args(expected.args.begin(), expected.args.end());
  const std::vector<Word> actual_args(actual.args.begin(), actual.args.end());
  if (auto found = words_difference("args", expected_args, actual_args); !found.empty()) {
    return found;
  }
  if (auto found = calls_difference(expected.calls, actual.calls); !found.empty()) return found;
  if (expected.outcome.ending == ir::Ending::fault) return {};
  if (expected.fuel != actual.fuel) {
    return fmt::format("the fuel left is {}, expected {}", actual.fuel, expected.fuel);
  }
  if (expected.outcome.ending == ir::Ending::wait_io) {
    return io_difference(expected.io, actual.io);
  }
  return {};
}

Result<Trial> Trial::make(const ir::VerifiedProgram& program, jit::CodeCache* cache) {
  auto shared =
      jit::NativeProgram::compile(program, {.memory = jit::MemoryUse::shared, .cache = cache});
  if (!shared) return Failure(shared.error());
  auto exclusive =
      jit::NativeProgram::compile(program, {.memory = jit::MemoryUse::exclusive, .cache = cache});
  if (!exclusive) return Failure(exclusive.error());
  return Trial(program, *std::move(shared), *std::move(exclusive));
}

Trial Trial::from_text(std::string_view text) {
  const auto die = [&](const Error& error) {
    std::fprintf(stderr, "%s\nin:\n%.*s\n", error.message.c_str(), static_cast<int>(text.size()),
                 text.data());
    std::abort();
  };
  auto parsed = ir::parse(text);
  if (!parsed) die(parsed.error());
  auto verified = ir::verify(*std::move(parsed));
  if (!verified) die(verified.error());
  auto trial = make(*verified);
  if (!trial) die(trial.error());
  return *std::move(trial);
}

RunResult interpret_once(const ir::VerifiedHandler& handler, const FrameSpec& spec) {
  ir::ItemFrame& frame = stage(0).set(spec);
  const ir::Outcome outcome = ir::interpret(handler, frame);
  return stage(0).collect(outcome);
}

Trial::Compared Trial::run(std::size_t handler_index, const FrameSpec& spec) const {
  Compared compared{.interpreted = interpret_once(program_.handlers()[handler_index], spec)};
  for (std::size_t mode = 1; mode <= 2; ++mode) {
    ir::ItemFrame& frame = stage(mode).set(spec);
    const jit::NativeProgram& native = mode == 1 ? shared_ : exclusive_;
    const ir::Outcome outcome = native.run(handler_index, frame);
    std::string found = difference(compared.interpreted, stage(mode).collect(outcome));
    if (found.empty()) continue;
    compared.difference =
        fmt::format("native code for {} memory: {}", mode == 1 ? "shared" : "exclusive", found);
    return compared;
  }
  return compared;
}

std::string describe(const FrameSpec& spec) {
  std::string text = fmt::format(
      "opcode {} tenant {} priority {} slot {} lanes {} fuel {} abort {} hooks {}\nargs",
      spec.opcode, spec.tenant, spec.priority, spec.slot, spec.lanes, spec.fuel,
      static_cast<int>(spec.abort), spec.has_hooks);
  for (const Word arg : spec.args) text += fmt::format(" {:#x}", arg);
  const auto add_words = [&](const std::vector<Word>& words) {
    constexpr std::size_t kShown = 24;
    for (std::size_t i = 0; i < std::min(kShown, words.size()); ++i) {
      text += fmt::format(" {:#x}", words[i]);
    }
    if (words.size() > kShown) text += " …";
  };
  text += fmt::format("\ncontrol: {} words:", spec.control.size());
  add_words(spec.control);
  for (std::size_t i = 0; i < spec.buffers.size(); ++i) {
    const BufferSpec& buffer = spec.buffers[i];
    text += fmt::format("\nbuffer #{}: handle {} access {} owner {:#x} {} words", i, buffer.handle,
                        static_cast<Word>(buffer.access), buffer.owner, buffer.words.size());
    if (buffer.alias_of) {
      text += fmt::format(" inside #{} from {}", *buffer.alias_of, buffer.alias_first);
    } else {
      text += ':';
      add_words(buffer.words);
    }
  }
  return text + '\n';
}

}  // namespace everkernel::test
