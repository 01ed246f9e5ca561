// Random programs on random frames: interpreter and compiled code must leave the same words behind.
//
// Programs and frames of a batch follow from its seed alone, so the command that a failure prints
// repeats it. support/seeds.hpp has the variables that choose seeds and length.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "coverage.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/printer.hpp"
#include "everkernel/jit/cuda_source.hpp"
#include "skip.hpp"
#include "support/crash_report.hpp"
#include "support/jit_program_generator.hpp"
#include "support/jit_trial.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

constexpr std::size_t kHandlersEach = 24;  // of a batch: starting a compiler costs more than one
constexpr std::size_t kFramesEach = 20;    // of a handler

constexpr std::uint64_t kBatches = 2;

// ---- comparing ----

struct Tally {
  std::size_t batches = 0, programs = 0, runs = 0, damaged = 0;
  std::map<std::string, std::size_t> endings = {};
};

Result<ir::VerifiedProgram> verified(std::string_view text) {
  auto parsed = ir::parse(text);
  if (!parsed) return Failure(parsed.error());
  return ir::verify(*std::move(parsed));
}

std::string text_of(const ir::VerifiedHandler& handler) {
  return ir::print({.handlers = {handler.handler}});
}

// Whether this text still shows a difference on this frame.
bool still_differs(const std::string& text, const FrameSpec& spec) {
  const auto program = verified(text);
  if (!program) return false;
  const auto trial = Trial::make(*program);
  return trial && !trial->run(0, spec).difference.empty();
}

// The end of the piece that begins at `first`: one line, or a block from the line that opens it to
// the line that closes it.
std::size_t end_of_piece(const std::vector<std::string>& lines, std::size_t first) {
  int depth = 0;
  for (std::size_t i = first; i < lines.size(); ++i) {
    for (const char c : lines[i]) depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (depth <= 0) return i + 1;
  }
  return lines.size();
}

// Drops statements, or the head and end of a block around its statements, while the difference
// stays.
std::string shrunk(const std::string& text, const FrameSpec& spec) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const auto joined = [](const std::vector<std::string>& some) {
    std::string all;
    for (const std::string& line : some) all += line + '\n';
    return all;
  };
  int attempts_left = 400;
  for (bool has_changed = true; has_changed && attempts_left > 0;) {
    has_changed = false;
    for (std::size_t i = 1; i + 1 < lines.size() && attempts_left > 0;) {
      const std::size_t end = end_of_piece(lines, i);
      std::vector<std::string> without = lines;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i),
                    without.begin() + static_cast<std::ptrdiff_t>(end));
      std::vector<std::string> unwrapped = lines;
      if (end > i + 1) {
        unwrapped.erase(unwrapped.begin() + static_cast<std::ptrdiff_t>(end - 1));
        unwrapped.erase(unwrapped.begin() + static_cast<std::ptrdiff_t>(i));
      }
      attempts_left -= 2;
      if (still_differs(joined(without), spec)) {
        lines = without;
        has_changed = true;
      } else if (end > i + 1 && still_differs(joined(unwrapped), spec)) {
        lines = unwrapped;
        has_changed = true;
      } else {
        ++i;
      }
    }
  }
  return joined(lines);
}

void report(std::uint64_t seed, const ir::VerifiedHandler& handler, const FrameSpec& spec,
            const std::string& difference) {
  const std::string text = text_of(handler);
  ADD_FAILURE() << difference << "\nreplay with\n  " << replay_command(seed) << "\n"
                << text << describe(spec) << "shrunk:\n"
                << shrunk(text, spec);
}

// Runs every handler on its frames; false after the first difference.
bool compare_all(Random& random, std::uint64_t seed, const ir::VerifiedProgram& program,
                 CrashReport& crash, Tally& tally) {
  crash.set(seed, "(while compiling)");
  const auto trial = Trial::make(program);
  if (!trial) {
    ADD_FAILURE() << trial.error().message << "\nreplay with\n  " << replay_command(seed);
    return false;
  }
  for (std::size_t i = 0; i < program.handlers().size(); ++i) {
    const ir::VerifiedHandler& handler = program.handlers()[i];
    crash.set(seed, text_of(handler));
    ++tally.programs;
    for (std::size_t k = 0; k < kFramesEach; ++k) {
      const FrameSpec spec = generate_frame(random, handler.handler.scope, handler.handler.opcode);
      const auto compared = trial->run(i, spec);
      ++tally.runs;
      ++tally.endings[ending_name(compared.interpreted.outcome)];
      if (compared.difference.empty()) continue;
      report(seed, handler, spec, compared.difference);
      return false;
    }
  }
  ++tally.batches;
  return true;
}

// Runs batches until the time is over or one fails, and prints the totals.
template <class RunBatch>
void compare_batches(RunBatch run_batch, std::uint64_t usual_count = kBatches) {
  CrashReport crash;
  Tally tally;
  const double elapsed =
      run_batches(usual_count, [&](std::uint64_t seed) { return run_batch(seed, crash, tally); });
  std::printf("%zu programs, %zu runs compared in %.1f s", tally.programs, tally.runs, elapsed);
  if (tally.damaged > 0) std::printf(", out of %zu damaged ones", tally.damaged);
  std::printf("\n");
  for (const auto& [name, count] : tally.endings) {
    std::printf("  %5.1f %% %s\n",
                100.0 * static_cast<double>(count) / static_cast<double>(tally.runs), name.c_str());
  }
}

TEST(Differential, random_programs_agree_bit_for_bit) {
  EVERKERNEL_NEEDS_SUBJECT();
  compare_batches([](std::uint64_t seed, CrashReport& crash, Tally& tally) {
    Random random(seed);
    const std::string text = generate_batch(random, kHandlersEach);
    crash.set(seed, text);
    const auto program = verified(text);
    if (!program) {
      ADD_FAILURE() << "the generator made a program that does not verify: "
                    << program.error().message << "\nreplay with\n  " << replay_command(seed)
                    << "\n"
                    << text;
      return false;
    }
    return compare_all(random, seed, *program, crash, tally);
  });
}

// Damaged texts never crash the parser or the verifier; those that still verify run like the
// others.
TEST(Differential, damaged_programs_are_refused_or_agree_bit_for_bit) {
  EVERKERNEL_NEEDS_SUBJECT();
  compare_batches([](std::uint64_t seed, CrashReport& crash, Tally& tally) {
    Random random(seed ^ 0x5EED0FDA3A6ED000u);
    auto survivors = generate_survivors(random, kHandlersEach, tally.damaged,
                                        [&](const std::string& text) { crash.set(seed, text); });
    const auto program = ir::verify(std::move(survivors));
    if (!program) {
      ADD_FAILURE() << program.error().message << "\nreplay with\n  " << replay_command(seed);
      return false;
    }
    return compare_all(random, seed, *program, crash, tally);
  });
}

// Text that prints to itself, and the CUDA text of every use of memory.
bool has_sound_texts(const ir::VerifiedProgram& program, std::uint64_t seed) {
  const std::string printed = ir::print(program.source());
  const auto again = verified(printed);
  if (!again) {
    ADD_FAILURE() << "printed text is refused: " << again.error().message << "\nreplay with\n  "
                  << replay_command(seed) << "\n"
                  << printed.substr(0, 10'000);
    return false;
  }
  const std::string twice = ir::print(again->source());
  EXPECT_EQ(twice, printed) << "replay with\n  " << replay_command(seed);
  for (const auto memory :
       {jit::MemoryUse::shared, jit::MemoryUse::exclusive, jit::MemoryUse::planned}) {
    const std::string text =
        jit::emit_cuda(program, {.memory = memory, .payload = program.payload() != nullptr});
    EXPECT_NE(text.find("handler_0"), std::string::npos);
  }
  return twice == printed;
}

// Trees whose fields were changed, as a program in C++ could build them, never crash the verifier;
// those that still verify print, parse again and run like the others.
TEST(Differential, damaged_trees_are_refused_or_agree_bit_for_bit) {
  EVERKERNEL_NEEDS_SUBJECT();
  compare_batches(
      [](std::uint64_t seed, CrashReport& crash, Tally& tally) {
        Random random(seed ^ 0x7EE5DA3A6ED00000u);
        crash.set(seed, "(while verifying, printing or emitting a damaged tree)");
        bool is_sound = true;
        auto survivors =
            generate_tree_survivors(random, kHandlersEach, tally.damaged, [&](const auto& tree) {
              is_sound &= has_sound_texts(tree, seed);
              for (const ir::VerifiedHandler& handler : tree.handlers()) {
                interpret_once(handler, generate_frame(random, handler.handler.scope, 1000));
              }
            });
        if (!is_sound) return false;
        const auto program = ir::verify(std::move(survivors));
        if (!program) {
          ADD_FAILURE() << program.error().message << "\nreplay with\n  " << replay_command(seed);
          return false;
        }
        return compare_all(random, seed, *program, crash, tally);
      },
      /*usual_count=*/1);
}

}  // namespace
}  // namespace everkernel::test
