// Rows 1 to 3: bytes of the four buffers that no writer of ours would write, from the start and
// while workers use them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "child.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/telemetry/decode.hpp"
#include "runtime_world.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using abi::SlotStatus;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class Stage final : public RuntimeWorld {
 public:
  Stage() { prepare(); }
  Result<void> act() override { return {}; }
  std::string look() override { return results(); }
  Megakernel& megakernel() { return *kernel; }
};

// ---- row 1 ----

// Every byte of one slot with every value, dispatched alone.
class EveryByte : public testing::TestWithParam<SlotWords> {
 protected:
  static constexpr Word kSlots = 16;

  void SetUp() override { control_ = control_of({{3, 1}, {32, 1'000'000}}, 170); }

  // The slot after a dispatch of a ring in which all other slots are EMPTY.
  SlotWords dispatch(const SlotWords& slot) {
    std::vector<SlotWords> slots(kSlots);
    slots[kPlace] = slot;
    ring_ = ring_of(slots);
    const Submission submission = HostBuffers{.control = control_, .ring = ring_};
    const auto report =
        stage_.megakernel().dispatch({.submissions = {&submission, 1}, .workspace = &workspace_});
    EXPECT_TRUE(report.has_value()) << report.error().message;
    if (!report) return {};
    counts_ = report->submissions[0].counts;
    SlotWords after{};
    std::memcpy(after.data(), report->submissions[0].ring.data() + kPlace * 64, 64);
    return after;
  }

  void check(const SlotWords& before, const SlotWords& after) const {
    const SlotStatus was{before[0]};
    const SlotStatus is{after[0]};
    if (!abi::is_claimable(was) && was != SlotStatus::wait_io) {
      EXPECT_EQ(before, after);
      return;
    }
    const Word ended = (is == SlotStatus::done ? 1u : 0u) + (is == SlotStatus::fault ? 1u : 0u);
    EXPECT_EQ(counts_.done + counts_.faulted, ended);
    EXPECT_EQ(counts_.remaining, 1 - ended);
    if (ended == 0) {
      EXPECT_TRUE(abi::is_active(is)) << after[0];
    } else {
      EXPECT_EQ(abi::priority_of(before[3]), abi::priority_of(after[3]));
      if (is == SlotStatus::fault) {
        EXPECT_NE(abi::fault_code_of(after[3]), 0u) << "a fault has a code";
      } else {
        EXPECT_EQ(before[3], after[3]) << "an item that is done keeps its words";
      }
    }
    EXPECT_EQ(after[1], before[1]) << "the opcode is not written";
    EXPECT_EQ(after[2], before[2]) << "the tenant is not written";
  }

  void check_decoded(const SlotWords& slot) {
    telemetry::RingTelemetry found;
    const Bytes ring = ring_of({slot});
    const auto decoded = telemetry::decode({.control = control_, .ring = ring}, scratch_, found);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    ASSERT_EQ(found.slots.size(), 1u);
    EXPECT_EQ(static_cast<Word>(found.slots[0].status), slot[0]);
    EXPECT_EQ(found.slots[0].opcode, slot[1]);
    EXPECT_EQ(found.slots[0].tenant_id, slot[2]);
    EXPECT_EQ(found.occupancy.total_slots(), 1u);
  }

  static constexpr std::size_t kPlace = 5;
  Stage stage_;
  Workspace workspace_;
  Bytes control_;
  Bytes ring_;
  backend::DrainCounts counts_;
  telemetry::DecodeScratch scratch_;
};

TEST_P(EveryByte, of_a_slot_with_every_value_ends_or_is_left_alone) {
  for (std::size_t byte = 0; byte < 64 && !HasFailure(); ++byte) {
    for (Word value = 0; value < 256 && !HasFailure(); ++value) {
      SCOPED_TRACE(fmt::format("byte {} is {}", byte, value));
      SlotWords slot = GetParam();
      reinterpret_cast<unsigned char*>(slot.data())[byte] = static_cast<unsigned char>(value);
      check(slot, dispatch(slot));
      check_decoded(slot);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(kinds, EveryByte,
                         testing::Values(SlotWords{1, 64, 0, 2, 1, 2, 5},   // a handler
                                         SlotWords{1, 2, 0, 2, 1, 160},     // ATOMIC_ADD
                                         SlotWords{1, 7, 0, 2, 3, 9},       // BATCH_FENCE
                                         SlotWords{1, 0xFFFD, 0, 2, 3},     // LOAD_MISS
                                         SlotWords{4, 0xFFFD, 0, 2, 3, 0},  // waits for IO
                                         SlotWords{1, 0x80000001, 0, 2, 0x00010201, 3, 161}));

// ---- rows 2 and 3 ----

enum Part : std::size_t { kControl, kDebugLog, kIoQueue, kParts };

constexpr Word kPlaces = 128;

// A part of a session's memory, mapped as another process would map it.
class Mapping {
 public:
  Mapping(const Session& session, const std::array<std::size_t, kParts>& part_bytes, Part part) {
    std::size_t total = 0, first = 0;
    for (std::size_t i = 0; i < kParts; ++i) {
      if (i == part) first = total;
      total += (part_bytes[i] + 4095) / 4096 * 4096;
    }
    map(session.memory_descriptor(), total, first, part_bytes[part]);
  }
  std::span<Word> words;  // stays mapped until the child ends

 private:
  void map(int descriptor, std::size_t total, std::size_t first, std::size_t bytes) {
    void* const memory = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("cannot map the session");
    words = {reinterpret_cast<Word*>(static_cast<std::byte*>(memory) + first),
             bytes / sizeof(Word)};
  }
};

// While it exists, a thread flips bits of the words, one every few microseconds.
class Flipper {
 public:
  Flipper(std::span<Word> words, std::uint64_t seed)
      : thread_([words, seed](const std::stop_token& stop) {
          std::mt19937_64 random(seed);
          while (!stop.stop_requested()) {
            const std::uint64_t drawn = random();
            std::atomic_ref(words[drawn % words.size()])
                .fetch_xor(Word{1} << (drawn >> 40) % 32, std::memory_order_relaxed);
            const auto until = Clock::now() + std::chrono::nanoseconds(drawn >> 20 & 0x3FFF);
            while (Clock::now() < until) std::this_thread::yield();
          }
        }) {}

 private:
  std::jthread thread_;
};

constexpr auto kCallTimeout = milliseconds(20);
constexpr auto kSlack = milliseconds(2000);

// Calls that must return in time, whatever the words say.
class Timed {
 public:
  explicit Timed(Journal& journal) : journal_(journal) {}
  auto operator()(const char* name, const auto& call) {
    journal_.note(name);
    const auto begin = Clock::now();
    auto result = call();
    if (Clock::now() - begin > kCallTimeout + kSlack) {
      journal_.fail(fmt::format("it took {} ms", (Clock::now() - begin) / milliseconds(1)));
    }
    return result;
  }

 private:
  Journal& journal_;
};

// One session whose words change while it runs. Returns the items it ended.
std::uint64_t try_flips(Journal& journal, Part part, std::uint64_t seed) {
  Stage stage;
  constexpr SessionOptions kOptions{.debug_records = 8, .io_slots = 2, .capacity = kPlaces};
  auto session = stage.megakernel().start(kOptions);
  if (!session) throw std::runtime_error(session.error().message);
  const std::array<std::size_t, kParts> sizes{(160 + kOptions.observable_slots) * 4, 4 + 8 * 16,
                                              2 * 64};
  const Mapping mapping(*session, sizes, part);
  // SHUTDOWN is word 0 of the control words: every second session keeps it, and lives longer.
  const bool keeps_shutdown = part == kControl && seed % 2 == 0;
  Timed timed(journal);
  const std::array<Word, 3> args{1, 2, 1};
  const std::array<Word, 3> miss{3, 1, 0};
  std::uint64_t accepted = 0;
  {
    const Flipper flipper(mapping.words.subspan(keeps_shutdown ? 1 : 0), seed);
    const auto end = Clock::now() + milliseconds(30);
    while (Clock::now() < end) {
      const PublishOptions options{.timeout = kCallTimeout};
      for (const Word opcode : {64u, 65u, 66u, 0xFFFEu, 0xFFFDu, 0u}) {
        const auto& chosen = opcode == 0xFFFDu ? miss : args;
        if (timed("publish", [&] { return session->publish({opcode, chosen}, options); })) {
          ++accepted;
        }
      }
      static_cast<void>(timed("wait_all", [&] { return session->wait_all(kCallTimeout); }));
      SessionSnapshot snapshot;
      static_cast<void>(timed("snapshot", [&] { return session->snapshot(snapshot); }));
      std::vector<std::byte> log;
      session->copy_debug_log(log);
      static_cast<void>(protocol::DebugLogView::parse(log));
    }
  }
  const StopReport report =
      timed("stop", [&] { return session->stop(StopMode::cancel, kCallTimeout); });
  const std::uint64_t ended = report.done + report.faulted;
  // Counts are kept in memory that the flips do not reach.
  if (ended + report.cancelled != accepted) {
    journal.fail(
        fmt::format("{} accepted, {} ended, {} cancelled", accepted, ended, report.cancelled));
  }
  return ended;
}

void expect_survived(Part part) {
  const std::uint64_t seed = first_seed();
  std::printf("EVERKERNEL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const double time = seconds_of_trial(0.8);
  const auto problem = run_in_child(static_cast<int>(time) + 40, [&](Journal& journal) {
    const auto end = Clock::now() + std::chrono::duration<double>(time);
    std::uint64_t items = 0, round = seed;
    do {
      items += try_flips(journal, part, round++);
    } while (Clock::now() < end);
    if (items == 0) journal.fail("no item ran: the trial shows nothing");
  });
  EXPECT_EQ(problem, "");
}

TEST(FlippedBits, of_control_words_end_in_right_counts_or_an_error) {
  expect_survived(kControl);
}

TEST(FlippedBits, of_the_debug_log_end_in_right_counts_or_an_error) {
  expect_survived(kDebugLog);
}

TEST(FlippedBits, of_the_io_queue_end_in_right_counts_or_an_error) {
  expect_survived(kIoQueue);
}

}  // namespace
}  // namespace everkernel::test
