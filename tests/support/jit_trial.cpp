#include "support/jit_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "everkernel/ir/parser.hpp"
#include "ir/touch_watch.hpp"
#include "support/jit_stage.hpp"

namespace everkernel::test {
namespace {

// A function, because kinds are registered before main() in any order.
std::vector<const SubjectKind*>& linked_kinds() {
  static std::vector<const SubjectKind*> kinds;
  return kinds;
}

/// Detects words that one turn of an each writes and another turn touches. Atomics of one kind that
/// commute and whose results are unused may touch the same word.
class RaceWatch : public ir::TouchWatch {
 public:
  void on_each() override {
    notes_.clear();
    is_in_each_ = true;
  }
  void on_turn(Word turn) override { turn_ = turn; }
  void on_each_end() override { is_in_each_ = false; }
  void on_touch(const ir::Touch& touch) override {
    if (!is_in_each_) return;
    const auto [found, is_first] = notes_.try_emplace(touch.word, Note{turn_, touch, false});
    if (is_first) return;
    Note& note = found->second;
    const bool is_other = note.has_many || note.turn != turn_;
    const bool is_alike =
        !note.touch.is_write && !touch.is_write && note.touch.commuting == touch.commuting;
    if (is_alike) {
      note.has_many |= is_other;
    } else if (is_other) {
      has_races_ = true;
    } else {
      note.touch.is_write = true;
    }
  }
  bool has_races() const { return has_races_; }

 private:
  struct Note {
    Word turn;  // that touched the word
    ir::Touch touch;
    bool has_many;  // several turns touched the word
  };
  std::unordered_map<const Word*, Note> notes_;
  Word turn_ = 0;
  bool is_in_each_ = false;
  bool has_races_ = false;
};

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

std::string difference(const RunResult& expected, const Run& run) {
  if (!run.is_parallel) {
    RunResult sorted = expected;
    if (run.has_two_logs) std::ranges::stable_sort(sorted.calls, {}, &HookCall::kind);
    return difference(sorted, run.result);
  }
  if (expected.is_racy) return {};
  const auto sorted = [](const RunResult& result) {
    RunResult copy = result;
    std::ranges::sort(copy.calls, {}, [](const HookCall& call) {
      return std::array{call.kind, call.a, call.b, call.c};
    });
    return copy;
  };
  return difference(sorted(expected), sorted(run.result));
}

SubjectKind::SubjectKind(std::string_view kind, decltype(make) make_subject,
                         decltype(why_not) why_none)
    : name(kind), make(make_subject), why_not(why_none) {
  linked_kinds().push_back(this);
}

const SubjectKind& chosen_subject() {
  const char* const given = std::getenv("EVERKERNEL_SUBJECT");
  const std::string_view name = given == nullptr ? "native" : given;
  for (const SubjectKind* kind : linked_kinds()) {
    if (kind->name == name) return *kind;
  }
  std::fprintf(stderr, "EVERKERNEL_SUBJECT: this program has no code of the kind `%s`\n",
               std::string(name).c_str());
  std::exit(2);
}

Result<Trial> Trial::make(const ir::VerifiedProgram& program, jit::CodeCache* cache) {
  return Trial(program, EVERKERNEL_TRY(chosen_subject().make(program, cache)));
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
  thread_local Stage stage;
  ir::ItemFrame& frame = stage.set(spec);
  RaceWatch watch;
  const ir::Outcome outcome = ir::interpret_watched(handler, frame, watch);
  RunResult result = stage.collect(outcome);
  result.is_racy = watch.has_races();
  return result;
}

Trial::Compared Trial::run(std::size_t handler_index, const FrameSpec& spec) const {
  Compared compared{.interpreted = interpret_once(program_.handlers()[handler_index], spec)};
  for (const Run& run : subject_->run(handler_index, spec)) {
    const std::string found = difference(compared.interpreted, run);
    if (found.empty()) continue;
    compared.difference = fmt::format("{}: {}", run.way, found);
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
