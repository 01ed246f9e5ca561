// Litmus tests of the order on which live queues rely: entries that the host stores whole, outcomes
// beside each other, and the device memory that items write. litmus_test.cpp has the variables.
#include <algorithm>
#include <array>

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
// Items that a control tries. A weak order shows itself within few of them.
constexpr std::uint64_t kControlRounds = 1'000'000;
constexpr std::uint64_t kLateRounds = 10'000;    // of copies behind threads that are late
constexpr std::uint64_t kLongRound = 1'000'000;  // looks of the host, in a control
constexpr Word kThreads = 128;                   // of a block
constexpr Word kLines = 32;                      // of bytes that blocks store beside each other

std::uint64_t live_control_rounds() {
  return std::min(kControlRounds, rounds_to_run());
}

constexpr unsigned char byte_of(Word round) {
  return static_cast<unsigned char>(0x80 | (round & 0x7F));
}

// Entries and outcomes in host memory, each kind beside each other as in a queue. A cell has one of
// each; the host gives it one round after the other.
struct Box {
  Box(const std::shared_ptr<const backend::cuda::Context>& context, Word count)
      : entries(context, std::size_t{count} * kEntryWords),
        outcomes(context, count / sizeof(Word) + 1),
        findings(context, kFindings),
        sent(count),
        cells(count) {}

  void publish(Word cell, Word round) {
    sent[cell] = round;
    store(cell, {{round, round + 1, round + 2, round + 3}});
  }
  void store(Word cell, const abi::Quad& quad) const {
    Word* const place = entries.words() + std::size_t{cell} * kEntryWords;
    protocol::detail::store_quad(reinterpret_cast<abi::Quad*>(place), quad);
  }
  bool has_ended(Word cell) const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(outcomes.words());
    return sent[cell] == 0 ||
           __atomic_load_n(bytes + cell, __ATOMIC_ACQUIRE) == byte_of(sent[cell]);
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

  // A round is a byte that was stored beside those of other blocks.
  static Outcome bytes(const std::string& order, std::uint64_t rounds, bool is_control) {
    const Word blocks = std::min(kLineOfBytes, gpu().sm_count());
    Box box(gpu().context(), 1);
    const PinnedWords lines(gpu().context(), kLines * kLineOfBytes / sizeof(Word));
    const auto step = [&](Outcome& outcome) -> std::uint64_t {
      const Word round = box.sent[0] + 1;
      box.publish(0, round);
      if (!follow_bytes(lines, blocks, round, is_control, outcome)) return 0;
      return std::uint64_t{kLines} * blocks;
    };
    Outcome outcome = run(
        "bytes of neighbours, " + order, box, rounds,
        [&] {
          gpu().launch(gpu().kernel("bytes_" + order),
                       {.block_count = blocks, .thread_count = kLines}, box.entries.address(),
                       lines.address());
        },
        step);
    outcome.seen = outcome.rounds;
    print(outcome);
    return outcome;
  }

  // Looks at all bytes until each is that of the round. One that was there and is not is undone.
  static bool follow_bytes(const PinnedWords& lines, Word blocks, Word round, bool is_control,
                           Outcome& outcome) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(lines.words());
    std::array<unsigned char, kLines * kLineOfBytes> was_there{};
    const ProgressTimeout timeout;
    Word left = kLines * blocks;
    for (std::uint64_t looks = 1; left != 0; ++looks) {
      for (Word i = 0; i < kLines * kLineOfBytes; ++i) {
        if (i % kLineOfBytes >= blocks) continue;
        const bool is_there = __atomic_load_n(bytes + i, __ATOMIC_ACQUIRE) == byte_of(round);
        if (was_there[i] != 0 && !is_there) ++outcome.forbidden;
        if (is_there && was_there[i] == 0) {
          was_there[i] = 1;
          --left;
        }
      }
      if (is_control && looks > kLongRound / was_there.size()) {  // undone before it was seen
        outcome.forbidden += left;
        return true;
      }
      if (looks % 1024 == 0 && timeout.has_passed()) return false;
    }
    return true;
  }

  // The host publishes the reader's item when it has seen the outcome of the writer's. Items of a
  // lane or of a warp.
  static Outcome items(const std::string& order, Word width, Word words, Word threads,
                       std::uint64_t rounds) {
    const Word pairs = std::max(1u, gpu().sm_count() / 2);
    const Word places = pairs * threads / width;
    Box box(gpu().context(), 2 * places);
    const DeviceWords data(gpu().context(), std::size_t{places} * words);
    const auto step = [&](Outcome&) {
      std::uint64_t ended = 0;
      for (Word writer = 0; writer < places; ++writer) {
        const Word reader = places + writer;
        if (box.sent[reader] != box.sent[writer]) {  // the writer's turn
          if (box.has_ended(writer)) box.publish(reader, box.sent[writer]);
          continue;
        }
        if (!box.has_ended(reader)) continue;
        if (box.sent[writer] != 0) ++ended;
        box.publish(writer, box.sent[writer] + 1);
      }
      return ended;
    };
    Outcome outcome = run(
        "memory of items, " + order, box, rounds,
        [&] {
          gpu().launch(gpu().kernel("items_" + order),
                       {.block_count = 2 * pairs, .thread_count = threads}, box.entries.address(),
                       box.outcomes.address(), data.address(), box.findings.address());
        },
        step);
    return finished(outcome, box);
  }
  static Outcome items_of_warps(const std::string& order, Word threads, std::uint64_t rounds) {
    return items(order, kWarp, kWarpWords, threads, rounds);
  }

  // The host copies what blocks wrote when it has seen the outcome of each of them.
  static Outcome copies(const std::string& order, std::uint64_t rounds) {
    const Word blocks = 2 * gpu().sm_count();
    Box box(gpu().context(), blocks);
    const DeviceWords data(gpu().context(), std::size_t{blocks} * kCopiedWords);
    std::vector<Word> found(std::size_t{blocks} * kCopiedWords);
    const auto step = [&](Outcome& outcome) -> std::uint64_t {
      const Word round = box.sent[0] + 1;
      for (Word cell = 0; cell < blocks; ++cell) box.publish(cell, round);
      if (!wait_for_all(box)) return 0;
      data.read_into(found);
      for (Word cell = 0; cell < blocks; ++cell) {
        if (!is_of_round(found.data() + std::size_t{cell} * kCopiedWords, round)) {
          ++outcome.forbidden;
        }
      }
      return blocks;
    };
    Outcome outcome = run(
        "copies of the driver, " + order, box, rounds,
        [&] {
          gpu().launch(gpu().kernel("copies_" + order),
                       {.block_count = blocks, .thread_count = kCopiedWords}, box.entries.address(),
                       box.outcomes.address(), data.address(), box.findings.address());
        },
        step);
    return finished(outcome, box);
  }

 private:
  static constexpr Word kWarp = 32;

  static bool wait_for_all(const Box& box) {
    const ProgressTimeout timeout;
    for (Word cell = 0, looks = 1; cell < box.cells; ++looks) {
      if (box.has_ended(cell)) {
        ++cell;
        continue;
      }
      spin_pause();
      if (looks % 65'536 == 0 && timeout.has_passed()) return false;
    }
    return true;
  }
  static bool is_of_round(const Word* words, Word round) {
    Word wrong = 0;
    for (Word i = 0; i < kCopiedWords; ++i) wrong |= words[i] ^ (round + i);
    return wrong == 0;
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
  expect_sound({items("OfLanes", 1, kLaneWords, kThreads, rounds_to_run()),
                items_of_warps("OfWarps", kThreads, rounds_to_run() / 100)});
}

// Threads that are late make the outcome wait for them.
TEST_F(LiveLitmus, ACopySeesWhatAnItemWrote) {
  expect_sound(
      {copies("Ordered", rounds_to_run()), copies("Late", std::min(kLateRounds, rounds_to_run()))});
}

TEST_F(LiveLitmus, ControlEntries) {
  expect_broken({entries("Halves", live_control_rounds())});
}

TEST_F(LiveLitmus, ControlOutcomes) {
  expect_broken({bytes("Merged", live_control_rounds(), true)});
}

// One warp on each multiprocessor: fences of others would empty the cache, too.
TEST_F(LiveLitmus, ControlItems) {
  expect_broken({items_of_warps("WithoutAcquire", 32, live_control_rounds() / 10)});
}

// As `Late`, without the barrier behind which the outcome is stored.
TEST_F(LiveLitmus, ControlCopies) {
  expect_broken({copies("WithoutBarrier", std::min(kLateRounds, rounds_to_run()))});
}

}  // namespace
}  // namespace everkernel::test
