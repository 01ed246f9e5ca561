// Threads on live memory, as a host and its workers use it. Without TSan the tests find lost, torn
// and repeated items. Live words are atomic, so that a missing acquire or release alone is not a
// data race: each thread also passes a plain word, and TSan reports if no memory order covers it.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <optional>
#include <string>
#include <thread>

#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "support/bytes.hpp"

namespace everkernel::protocol {
namespace {

using abi::IoStatus;
using abi::SlotStatus;
using test::Bytes;
using test::LineBytes;

// Ends every spin loop of a test: set if a thread has found an error or the time is over.
class Watch {
 public:
  // Whether a publishing thread should stop early. Threads that share a small ring may need a time
  // slice of the scheduler for each lap: on a busy machine that is slow, but not a failure.
  bool is_enough() const { return std::chrono::steady_clock::now() > enough_; }
  bool is_over() {
    if (std::chrono::steady_clock::now() > deadline_) report("the deadline passed");
    return is_over_.load(std::memory_order_relaxed);
  }
  // Keeps the first error of any thread; read after the threads are joined.
  void report(const std::string& problem) {
    if (!is_reported_.test_and_set()) problem_ = problem;
    is_over_.store(true, std::memory_order_relaxed);
  }
  const std::string& problem() const { return problem_; }

  template <class Condition>
  bool wait_until(Condition condition) {
    while (!condition()) {
      if (is_over()) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  static constexpr std::chrono::seconds kEnough{5};
  static constexpr std::chrono::seconds kDeadline{60};
  std::chrono::steady_clock::time_point enough_ = std::chrono::steady_clock::now() + kEnough;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::now() + kDeadline;
  std::atomic_flag is_reported_;
  std::atomic<bool> is_over_ = false;
  std::string problem_;
};

Word mix(Word seed, Word word) {
  return (seed ^ word) * 0x9E3779B1u + (seed >> 15);
}

// Item `number`: every word of its slot differs from lap to lap, and arg11 is a checksum of them.
struct Item {
  explicit Item(Word number) {
    for (Word i = 0; i < 11; ++i) args[i] = mix(number, i);
    args[0] = number;
    args[11] = seal({1u, opcode(number), number % 29, number % 5}, std::span(args).first(11));
  }
  static Word opcode(Word number) { return 0x10000 + number % 977; }
  static Word seal(const std::array<Word, 4>& head, std::span<const Word> rest) {
    Word sum = 1;
    for (const Word word : head) sum = mix(sum, word);
    for (const Word word : rest) sum = mix(sum, word);
    return sum;
  }
  SlotRequest request(Word slot_index) const {
    return {.slot_index = slot_index,
            .tenant = args[0] % 29,
            .priority = args[0] % 5,
            .opcode = opcode(args[0]),
            .args = args};
  }
  std::array<Word, 12> args;
};

constexpr Word kLiveSlots = 8;
constexpr Word kLiveItems = 200'000;
using PlainWords = std::array<Word, kLiveSlots>;  // one for each slot

// Publishes items into consecutive slots. Gives the number of items.
Word publish_items(LineBytes& ring, PlainWords& plain, Watch& watch) {
  auto writer = *LiveRingWriter::bind(ring.span());
  const auto words = *LiveWords::bind(Buffer::ring, ring.span());
  for (Word number = 0; number < kLiveItems; ++number) {
    if (watch.is_enough()) return number;
    const Word slot = number % kLiveSlots;
    const auto is_free = [&] {
      return abi::is_publishable(SlotStatus{words.load_acquire(slot * 16)});
    };
    if (!watch.wait_until(is_free)) return number;
    plain[slot] = number;
    if (!writer.publish(Item(number).request(slot))) watch.report("a free slot was refused");
  }
  return kLiveItems;
}

// Takes the items in the same order and completes them, until there were `published` of them.
void consume_items(LineBytes& ring, const PlainWords& plain, const std::atomic<Word>& published,
                   Watch& watch) {
  auto words = *LiveWords::bind(Buffer::ring, ring.span());
  for (Word number = 0; number != published.load(); ++number) {
    const std::size_t line = number % kLiveSlots * 16;
    const auto has_item = [&] { return words.load_acquire(line) == 1; };
    if (!watch.wait_until([&] { return has_item() || number == published.load(); })) return;
    if (!has_item()) return;  // there are no more
    std::array<Word, 16> slot;
    for (std::size_t i = 0; i < 16; ++i) slot[i] = words.load_relaxed(line + i);
    const Word seal =
        Item::seal({slot[0], slot[1], slot[2], slot[3]}, std::span(slot).subspan(4, 11));
    if (plain[number % kLiveSlots] != number) return watch.report("a plain word was lost");
    if (slot[4] != number) return watch.report("item " + std::to_string(number) + " was lost");
    if (slot[15] != seal) return watch.report("item " + std::to_string(number) + " was torn");
    words.store_release(line, 3);
  }
}

TEST(LiveRing, a_consumer_finds_every_published_slot_whole) {
  LineBytes ring(kLiveSlots * 64);
  Watch watch;
  PlainWords plain{};
  std::atomic<Word> published = ~Word{0};  // not known yet
  std::thread publisher([&] { published = publish_items(ring, plain, watch); });
  std::thread consumer([&] { consume_items(ring, plain, published, watch); });
  publisher.join();
  consumer.join();
  EXPECT_EQ(watch.problem(), "");
  EXPECT_GT(published.load(), kLiveSlots);  // at least one lap
  EXPECT_EQ(RingView::parse(ring.span())->count(SlotStatus::done, kLiveSlots), kLiveSlots);
}

// The checksum above must be able to fail: it changes if any word changes.
TEST(LiveRing, the_seal_notices_every_single_word) {
  const Item item(12'345);
  Word words[16] = {1, Item::opcode(12'345), 12'345 % 29, 12'345 % 5};
  std::ranges::copy(item.args, words + 4);
  for (std::size_t i = 0; i < 15; ++i) {
    words[i] ^= 1;
    EXPECT_NE(Item::seal({words[0], words[1], words[2], words[3]}, std::span(words).subspan(4, 11)),
              words[15])
        << i;
    words[i] ^= 1;
  }
}

TEST(LiveRing, copy_to_shows_whole_payloads_and_results_while_others_publish_and_complete) {
  constexpr Word kSlots = 4096;
  LineBytes ring(kSlots * 64);
  Watch watch;
  std::thread publisher([&] {
    auto writer = *LiveRingWriter::bind(ring.span());
    for (Word i = 0; i < kSlots; ++i) {
      if (!writer.publish(Item(i).request(i))) return watch.report("a free slot was refused");
    }
  });
  std::thread worker([&] {
    auto words = *LiveWords::bind(Buffer::ring, ring.span());
    for (std::size_t i = 0; i < kSlots; ++i) {
      if (!watch.wait_until([&] { return words.load_acquire(i * 16) == 1; })) return;
      words.store_relaxed(i * 16 + 4, static_cast<Word>(~i));  // its result
      words.store_release(i * 16, 3);
    }
  });
  const auto words = *LiveWords::bind(Buffer::ring, ring.span());
  Bytes copy(kSlots * 64);
  Word done = 0;
  const auto all_done = [&] {
    if (!words.copy_to(copy)) watch.report("a copy was refused");
    const auto view = *RingView::parse(copy);
    for (Word i = 0; i < kSlots; ++i) {
      const abi::Slot slot = view.slot(i);
      if (slot.status == SlotStatus::empty) continue;
      // A worker may have stored its result since the status was read, so arg0 counts only at DONE.
      const bool is_whole = std::equal(slot.args + 1, slot.args + 12, Item(i).args.begin() + 1);
      if (!is_whole) watch.report("slot " + std::to_string(i) + " is torn");
      if (slot.status == SlotStatus::done && slot.args[0] != ~i)
        watch.report("a result is missing");
    }
    done = *view.count(SlotStatus::done, kSlots);
    return done == kSlots;
  };
  watch.wait_until(all_done);
  publisher.join();
  worker.join();
  EXPECT_EQ(watch.problem(), "");
  EXPECT_EQ(done, kSlots);
}

TEST(LiveDebugLog, two_threads_fill_it_exactly) {
  constexpr Word kRecords = 200'000;
  LineBytes log((1 + kRecords * 4) * 4);
  Watch watch;
  std::array<Word, 2> appended{};
  std::latch start(2);  // so that neither thread ends before the other begins
  const auto fill = [&](Word thread) {
    auto writer = *LiveDebugLogWriter::bind(log.span());
    start.arrive_and_wait();
    Word& count = appended[thread];
    while (writer.append({thread, {count, mix(thread, count), count * 16}})) ++count;
  };
  std::thread first(fill, 0u);
  std::thread second(fill, 1u);
  const auto words = *LiveWords::bind(Buffer::debug_log, log.span());
  const auto is_full = [&] {
    const Word cursor = words.load_acquire(0);
    if (cursor > kRecords * 4 || cursor % 4 != 0) watch.report("the cursor left the log");
    return cursor == kRecords * 4;
  };
  watch.wait_until(is_full);
  first.join();
  second.join();
  EXPECT_EQ(watch.problem(), "");
  EXPECT_EQ(appended[0] + appended[1], kRecords);

  const auto view = DebugLogView::parse(log.span());
  ASSERT_TRUE(view);
  ASSERT_EQ(view->record_count(), kRecords);
  std::array<Word, 2> next{};  // the records of each thread are in its order, none twice
  for (Word i = 0; i < kRecords; ++i) {
    const abi::DebugRecord record = view->record(i);
    ASSERT_LT(record.fmt_id, 2u) << i;
    const Word count = next[record.fmt_id]++;
    ASSERT_EQ(record,
              (abi::DebugRecord{record.fmt_id, {count, mix(record.fmt_id, count), count * 16}}));
  }
}

// Slots of the queue: with one slot the requesters compete for it, with four requests overlap.
class LiveIoQueue : public testing::TestWithParam<Word> {};
INSTANTIATE_TEST_SUITE_P(Slots, LiveIoQueue, testing::Values(1u, 4u));

constexpr Word kIoRequests = 20'000;  // of each requester

// A plain word that each requester stores with its request, and one that the service stores with
// the completion.
struct PlainPair {
  Word request = 0;
  Word answer = 0;
};
using PlainPairs = std::array<PlainPair, 2>;

// Submits a request, waits for its completion, checks that it belongs to the request, and frees the
// slot.
void ask(Word thread, LineBytes& queue, PlainPair& plain, Watch& watch) {
  auto writer = *LiveIoQueueWriter::bind(queue.span());
  const auto words = *LiveWords::bind(Buffer::io_queue, queue.span());
  for (Word i = 0; i < kIoRequests && !watch.is_enough(); ++i) {
    const Word tag = (thread << 24 | i) + 1;
    const IoRequest request{.src_handle = mix(tag, 1),
                            .dst_handle = mix(tag, 2),
                            .offset = mix(tag, 3),
                            .byte_count = mix(tag, 4),
                            .tag = tag};
    plain.request = tag;
    Result<Word> slot = fail(Code::queue_full, "not yet");
    if (!watch.wait_until([&] { return (slot = writer.submit(request)).has_value(); })) return;
    const std::size_t first = std::size_t{*slot} * 8;
    IoStatus status{};
    const auto is_answered = [&] {
      status = IoStatus{words.load_acquire(first + 6)};
      return abi::is_complete(status);
    };
    if (!watch.wait_until(is_answered)) return;
    const bool wants_error = tag % 3 == 0;
    const Word expected_tag = wants_error ? mix(tag, 5) | 1 : tag;
    if ((status == IoStatus::error) != wants_error) return watch.report("an answer of another");
    if (words.load_relaxed(first + 7) != expected_tag) return watch.report("a tag of another");
    if (plain.answer != ~tag) return watch.report("a plain answer was lost");
    if (!writer.release(*slot)) return watch.report("a complete slot was not freed");
  }
}

// Completes every request once, every third with an error, until all requesters have ended.
void serve(Word slot_count, const std::atomic<int>& askers, LineBytes& queue, PlainPairs& plain,
           Watch& watch) {
  auto writer = *LiveIoQueueWriter::bind(queue.span());
  const auto words = *LiveWords::bind(Buffer::io_queue, queue.span());
  for (Word at = 0;;) {
    const auto find = [&] {
      at = (at + 1) % slot_count;
      return words.load_acquire(at * 8 + 6) == 1;
    };
    if (!watch.wait_until([&] { return find() || askers.load() == 0; })) return;
    if (words.load_acquire(at * 8 + 6) != 1)
      return;  // a requester may end after its last completion
    const Word tag = words.load_relaxed(at * 8 + 7);
    const std::array<Word, 5> found{words.load_relaxed(at * 8 + 1), words.load_relaxed(at * 8 + 2),
                                    words.load_relaxed(at * 8 + 3), words.load_relaxed(at * 8 + 4),
                                    words.load_relaxed(at * 8 + 5)};
    if (found != std::array<Word, 5>{mix(tag, 1), mix(tag, 2), mix(tag, 3), 0, mix(tag, 4)}) {
      return watch.report("a request is torn");
    }
    PlainPair& beside = plain[(tag - 1) >> 24];
    if (beside.request != tag) return watch.report("a plain request was lost");
    beside.answer = ~tag;
    if (!writer.complete(at, tag % 3 == 0 ? mix(tag, 5) | 1 : 0)) {
      return watch.report("a published slot was not completed");
    }
  }
}

TEST_P(LiveIoQueue, two_askers_and_a_service_lose_nothing) {
  LineBytes queue(GetParam() * 32);
  Watch watch;
  PlainPairs plain{};
  std::atomic<int> askers = 2;
  std::thread service([&] { serve(GetParam(), askers, queue, plain, watch); });
  const auto ask_and_leave = [&](Word thread) {
    ask(thread, queue, plain[thread], watch);
    --askers;
  };
  std::thread first(ask_and_leave, 0u);
  std::thread second(ask_and_leave, 1u);
  first.join();
  second.join();
  service.join();
  EXPECT_EQ(watch.problem(), "");
  const auto view = *IoQueueView::parse(queue.span());
  for (Word i = 0; i < view.slot_count(); ++i) EXPECT_EQ(view.slot(i).status, IoStatus::empty) << i;
}

}  // namespace
}  // namespace everkernel::protocol
