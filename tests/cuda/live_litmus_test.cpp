// Litmus tests of the order on which live queues rely: entries that the host stores whole, outcomes
// beside each other, and the device memory that items write. litmus_test.cpp has the variables.
#include <bit>

#include "base/spin.hpp"
#include "everkernel/protocol/queue.hpp"
#include "litmus.hpp"
#include "live_litmus_source.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::Grid;
using backend::cuda::Nvrtc;
using backend::cuda::SourceText;

constexpr SourceText kSource{.name = "live_litmus.cu", .text = kLiveLitmusSource};
constexpr Word kMostBytes = 128;  // that blocks store beside each other
// Rounds of these tests go over the bus. A weak order shows itself within few of them.
constexpr std::uint64_t kControlRounds = 100'000;
constexpr std::uint64_t kLongRound = 1'000'000;  // looks of the host, in a control

std::uint64_t live_control_rounds() {
  return std::min(kControlRounds, rounds_to_run());
}

constexpr unsigned char byte_of(Word round) {
  return static_cast<unsigned char>(0x80 | (round & 0x7F));
}

// Entries and outcomes in host memory, each on lines of its own.
struct Box {
  Box(const std::shared_ptr<const backend::cuda::Context>& context, Word count)
      : entries(context, std::size_t{count} * kEntryStride),
        outcomes(context, std::size_t{count} * kOutcomeStride / sizeof(Word)),
        findings(context, kFindings),
        sent(count),
        cells(count) {}

  void publish(Word cell, Word round) {
    sent[cell] = round;
    store(cell, {{round, round + 1, round + 2, round + 3}});
  }
  void store(Word cell, const abi::Quad& quad) const {
    Word* const place = entries.words() + std::size_t{cell} * kEntryStride;
    protocol::detail::store_quad(reinterpret_cast<abi::Quad*>(place), quad);
  }
  bool has_ended(Word cell) const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(outcomes.words());
    const auto* const at = bytes + std::size_t{cell} * kOutcomeStride;
    return sent[cell] == 0 || __atomic_load_n(at, __ATOMIC_ACQUIRE) == byte_of(sent[cell]);
  }
  void close() const {
    for (Word cell = 0; cell < cells; ++cell) {
      store(cell, {{kLitmusClosed, kLitmusClosed, kLitmusClosed, kLitmusClosed}});
    }
  }

  PinnedWords entries, outcomes;
  DeviceWords findings;
  std::vector<Word> sent;
  Word cells;
};

class LiveLitmus : public LitmusOn<kSource> {
 protected:
  void SetUp() override {
    LitmusOn::SetUp();
    if (!protocol::has_whole_quad_stores()) GTEST_SKIP() << "no store of 16 bytes is whole here";
  }

  // Runs a kernel while `step` makes progress, which gives how many rounds it has completed; until
  // the rounds or the time are over.
  template <class Step>
  static Outcome run(std::string name, Box& box, std::uint64_t rounds, const auto& launch,
                     const Step& step) {
    Outcome outcome{.name = std::move(name)};
    const double seconds = seconds_to_run(kUsualSeconds);
    const auto begin = Clock::now();
    launch();
    ProgressTimeout timeout;
    while (outcome.rounds < rounds && seconds_since(begin) < seconds) {
      const std::uint64_t ended = step(outcome);
      outcome.rounds += ended;
      if (ended != 0) timeout.note_progress();
      if (ended != 0 || !timeout.has_passed()) continue;
      ++outcome.stuck;
      break;
    }
    box.close();
    wait_for_kernel();
    outcome.seconds = seconds_since(begin);
    return outcome;
  }

  static Outcome entries(const std::string& order, std::uint64_t rounds) {
    constexpr Word kThreads = 32;
    const Grid grid{.block_count = gpu().sm_count(), .thread_count = kThreads};
    Box box(gpu().context(), grid.block_count * kThreads);
    const auto step = [&](Outcome&) {
      std::uint64_t ended = 0;
      for (Word cell = 0; cell < box.cells; ++cell) {
        if (!box.has_ended(cell)) continue;
        if (box.sent[cell] != 0) ++ended;
        box.publish(cell, box.sent[cell] + 4);  // no word of a round is one of its neighbour's
      }
      return ended;
    };
    Outcome outcome = run(
        "entries of the host, " + order, box, rounds,
        [&] {
          gpu().launch(gpu().kernel("entries_" + order), grid, box.entries.address(),
                       box.outcomes.address(), box.findings.address());
        },
        step);
    return finished(outcome, box);
  }

  static Outcome bytes(const std::string& order, std::uint64_t rounds, bool is_control) {
    const Word count = std::min(kMostBytes, gpu().sm_count());
    Box box(gpu().context(), 1);
    PinnedWords line(gpu().context(), kMostBytes / sizeof(Word));
    const auto step = [&](Outcome& outcome) -> std::uint64_t {
      const Word round = box.sent[0] + 1;
      box.publish(0, round);
      return follow_bytes(line, count, round, is_control, outcome) ? 1 : 0;
    };
    Outcome outcome = run(
        "bytes of neighbours, " + order, box, rounds,
        [&] {
          gpu().launch(gpu().kernel("bytes_" + order), {.block_count = count, .thread_count = 32},
                       box.entries.address(), line.address());
        },
        step);
    outcome.seen = outcome.rounds;
    print(outcome);
    return outcome;
  }

  // Looks at all bytes until each is that of the round. One that was there and is not is undone.
  static bool follow_bytes(const PinnedWords& line, Word count, Word round, bool is_control,
                           Outcome& outcome) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(line.words());
    std::vector<bool> was_there(count);
    const ProgressTimeout timeout;
    Word left = count;
    for (std::uint64_t looks = 1; left != 0; ++looks) {
      for (Word i = 0; i < count; ++i) {
        const bool is_there = __atomic_load_n(bytes + i, __ATOMIC_ACQUIRE) == byte_of(round);
        if (was_there[i] && !is_there) ++outcome.forbidden;
        if (is_there && !was_there[i]) --left;
        was_there[i] = was_there[i] || is_there;
      }
      if (is_control && looks > kLongRound / count) {  // a byte that was undone before it was seen
        outcome.forbidden += left;
        return true;
      }
      if (looks % 65'536 == 0 && timeout.has_passed()) return false;
    }
    return true;
  }

  // The host publishes the reader's item when it has seen the outcome of the writer's.
  static Outcome items(const std::string& order, std::uint64_t rounds) {
    const Word pairs = std::max(1u, gpu().sm_count() / 2);
    Box box(gpu().context(), 2 * pairs);
    DeviceWords data(gpu().context(), std::size_t{pairs} * kLiveWords);
    const auto step = [&](Outcome&) {
      std::uint64_t ended = 0;
      for (Word writer = 0; writer < box.cells; writer += 2) {
        const Word reader = writer + 1;
        if (!box.has_ended(writer) || !box.has_ended(reader)) continue;
        if (box.sent[reader] != box.sent[writer]) {
          box.publish(reader, box.sent[writer]);
          continue;
        }
        if (box.sent[writer] != 0) ++ended;
        box.publish(writer, box.sent[writer] + 1);
      }
      return ended;
    };
    Outcome outcome = run(
        "memory of items, " + order, box, rounds, [&] { launch_items(order, pairs, box, data); },
        step);
    return finished(outcome, box);
  }

  // The host copies what the writer wrote when it has seen the outcome.
  static Outcome copies(const std::string& order, std::uint64_t rounds) {
    Box box(gpu().context(), 2);
    DeviceWords data(gpu().context(), kLiveWords);
    const auto step = [&](Outcome& outcome) -> std::uint64_t {
      const Word round = box.sent[0] + 1;
      box.publish(0, round);
      const ProgressTimeout timeout;
      for (Word looks = 1; !box.has_ended(0); ++looks) {
        spin_pause();
        if (looks % 65'536 == 0 && timeout.has_passed()) return 0;
      }
      const std::vector<Word> words = data.read();
      for (Word i = 0; i < kLiveWords; ++i) outcome.forbidden += words[i] != round + i ? 1u : 0u;
      return 1;
    };
    Outcome outcome = run(
        "copies of the driver, " + order, box, rounds, [&] { launch_items(order, 1, box, data); },
        step);
    outcome.seen = outcome.rounds;
    print(outcome);
    return outcome;
  }

 private:
  static void launch_items(const std::string& order, Word pairs, const Box& box,
                           const DeviceWords& data) {
    gpu().launch(gpu().kernel("items_" + order), {.block_count = 2 * pairs, .thread_count = 32},
                 box.entries.address(), box.outcomes.address(), data.address(),
                 box.findings.address());
  }
  // The device saw every round, and those that were under way when the time was over.
  static Outcome finished(Outcome outcome, const Box& box) {
    outcome.add(box.findings.read());
    outcome.rounds = std::max(outcome.rounds, std::min(outcome.seen, outcome.rounds + box.cells));
    print(outcome);
    return outcome;
  }
};

TEST(LiveLitmusSource, CompilesForEveryArchitecture) {
  const auto nvrtc = Nvrtc::load();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message << "; " << nvrtc.error().hint;
  for (const int architecture : {80, 90, 100}) {
    const auto code = nvrtc->compile({.source = kSource,
                                      .headers = backend::cuda::device_headers(),
                                      .architecture = architecture});
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(code->log, "") << "for sm_" << architecture;
  }
}

TEST_F(LiveLitmus, EntriesArriveWhole) {
  expect_sound({entries("Whole", rounds_to_run())});
}

TEST_F(LiveLitmus, NoOutcomeIsUndone) {
  expect_sound({bytes("Bytes", rounds_to_run(), false)});
}

TEST_F(LiveLitmus, TheNextItemSeesWhatAnItemWrote) {
  expect_sound({items("Ordered", rounds_to_run())});
}

TEST_F(LiveLitmus, ACopySeesWhatAnItemWrote) {
  expect_sound({copies("Ordered", rounds_to_run())});
}

TEST_F(LiveLitmus, ControlEntries) {
  expect_broken({entries("Halves", live_control_rounds())});
}

TEST_F(LiveLitmus, ControlOutcomes) {
  expect_broken({bytes("Merged", live_control_rounds() / 100, true)});
}

TEST_F(LiveLitmus, ControlItems) {
  expect_broken({items("WithoutAcquire", live_control_rounds())});
}

TEST_F(LiveLitmus, ControlCopies) {
  expect_broken({copies("WithoutFence", live_control_rounds() / 10)});
}

}  // namespace
}  // namespace everkernel::test
