// What a producer notes of outcomes: order, faults, results, and tickets that never ran.
#include "live/notes.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/spin.hpp"
#include "live/queue_memory.hpp"

namespace everkernel::live {
namespace {

using abi::OutcomeCode;

class NotesTest : public testing::Test {
 protected:
  void open(const protocol::QueueShape& shape) {
    memory = *QueueMemory::create(shape);
    times.emplace(shape.capacity, nullptr);
    notes = std::make_unique<Notes>(memory->producer(), *times);
  }
  void end(LongWord ticket, OutcomeCode code, Word fault = 0,
           const protocol::ItemResults& results = {}) {
    memory->kernel().end(ticket, code, fault, results);
  }

  std::shared_ptr<const QueueMemory> memory;
  std::optional<PublishTimes> times;
  std::unique_ptr<Notes> notes;
};

TEST_F(NotesTest, tickets_are_noted_in_order) {
  open({.capacity = 8});
  end(1, OutcomeCode::done);
  end(2, OutcomeCode::fault, 300);
  notes->advance(8);
  EXPECT_EQ(notes->noted(), 0u);
  EXPECT_TRUE(notes->has_ended(1));
  EXPECT_FALSE(notes->has_ended(0));
  EXPECT_EQ(notes->find(2).completion.fault_code, 300u);
  end(0, OutcomeCode::done);
  notes->advance(8);
  EXPECT_EQ(notes->noted(), 3u);
  EXPECT_EQ(notes->find(2).completion.fault_code, 300u) << "also after it was noted";
  EXPECT_FALSE(notes->find(3).has_ended);
}

// A queue in memory of its own, whose outcomes the test stores as a GPU may: in any order.
class BareQueue {
 public:
  BareQueue() {
    const auto bytes = [this](std::size_t file) {
      return std::as_writable_bytes(std::span(files_[file]));
    };
    protocol::encode_queue(header_, bytes(0), bytes(1));
  }
  protocol::QueueProducer producer() { return {header_, begin(0), begin(1)}; }
  void store_fault(LongWord ticket) {
    auto* const at = reinterpret_cast<unsigned char*>(begin(1) + header_.outcomes_offset + ticket);
    __atomic_store_n(at, abi::outcome_byte(OutcomeCode::fault, producer().lap_bit(ticket)),
                     __ATOMIC_RELEASE);
  }
  void store_code(LongWord ticket, Word code) {
    auto* const at =
        reinterpret_cast<Word*>(begin(1) + header_.faults_offset + ticket * abi::kWordBytes);
    __atomic_store_n(at, abi::fault_word(code, producer().lap_bit(ticket)), __ATOMIC_RELAXED);
  }

 private:
  struct alignas(abi::kLineBytes) Line {
    std::byte bytes[abi::kLineBytes];
  };
  std::byte* begin(std::size_t file) { return files_[file].front().bytes; }

  abi::QueueHeader header_ = abi::queue_header(abi::EntryFormat::compact, 256, false, 0);
  std::vector<Line> files_[2] = {std::vector<Line>(header_.producer_bytes / abi::kLineBytes),
                                 std::vector<Line>(header_.kernel_bytes / abi::kLineBytes)};
};

// A fault without a code would be taken for DONE. The thread that stores may lose its core for so
// long that the code is given up.
TEST(FaultNotes, the_code_of_a_fault_is_waited_for) {
  BareQueue queue;
  const protocol::QueueProducer producer = queue.producer();
  PublishTimes times(256, nullptr);
  Notes notes(producer, times);
  int found = 0;
  for (LongWord ticket = 0; ticket < 256; ++ticket) {
    std::jthread kernel([&] {
      queue.store_fault(ticket);
      for (int i = 0; i < 100; ++i) spin_pause();
      queue.store_code(ticket, 300);
    });
    while (!notes.has_ended(ticket)) spin_pause();
    const Word code = notes.find(ticket).completion.fault_code;
    ASSERT_NE(code, 0u) << ticket;
    if (code == 300) ++found;
  }
  EXPECT_GT(found, 0);
}

TEST(FaultNotes, a_fault_whose_code_never_arrives_is_not_taken_for_done) {
  BareQueue queue;
  const protocol::QueueProducer producer = queue.producer();
  PublishTimes times(256, nullptr);
  Notes notes(producer, times);
  queue.store_fault(0);
  EXPECT_NE(notes.find(0).completion.fault_code, 0u);
  notes.advance(1);
  EXPECT_NE(notes.find(0).completion.fault_code, 0u);
}

TEST_F(NotesTest, nothing_is_noted_beyond_the_end_that_is_asked_for) {
  open({.capacity = 16});
  for (LongWord ticket = 0; ticket < 16; ++ticket) end(ticket, OutcomeCode::done);
  notes->advance(5);
  EXPECT_EQ(notes->noted(), 5u);
  notes->advance(4);
  EXPECT_EQ(notes->noted(), 5u);
}

TEST_F(NotesTest, a_tail_that_lies_does_not_carry_noting_into_another_lap) {
  open({.capacity = 8});
  for (LongWord ticket = 0; ticket < 8; ++ticket) end(ticket, OutcomeCode::done);
  notes->advance(~LongWord{0});
  EXPECT_EQ(notes->noted(), 8u);
}

// A kernel elsewhere does not say when: timed tickets have ended by the time they are noted.
TEST_F(NotesTest, timed_tickets_are_counted_once_however_many_are_noted_together) {
  open({.capacity = 512});
  std::uint64_t timed = 0;
  LongWord first = 0;
  for (const LongWord count : {1u, 62u, 1u, 1u, 64u, 200u, 512u, 300u, 19u}) {
    times->stamp(first, count / 2);
    times->stamp(first + count / 2, count - count / 2);
    for (LongWord i = 0; i < count; ++i) end(first + i, OutcomeCode::done);
    notes->advance(first + count);
    timed += (first + count + 63) / 64 - (first + 63) / 64;
    first += count;
    EXPECT_EQ(times->histogram().count(), timed) << "below " << first;
  }
  EXPECT_EQ(notes->noted(), 1160u);
  EXPECT_LT(times->histogram().quantile(1), std::chrono::seconds(30));
}

TEST_F(NotesTest, results_are_kept_for_one_lap_after_they_were_noted) {
  open({.capacity = 4, .has_results = true});
  for (LongWord ticket = 0; ticket < 4; ++ticket) {
    end(ticket, OutcomeCode::done, 0, {static_cast<Word>(ticket), 7, 8});
  }
  EXPECT_EQ(notes->find(2).completion.results, (protocol::ItemResults{2, 7, 8}));
  notes->advance(4);
  for (LongWord ticket = 4; ticket < 6; ++ticket) {
    end(ticket, OutcomeCode::done, 0, {static_cast<Word>(ticket), 7, 8});
  }
  EXPECT_EQ(notes->find(2).completion.results, (protocol::ItemResults{2, 7, 8}));
  notes->advance(6);
  EXPECT_EQ(notes->find(2).completion.results, (protocol::ItemResults{2, 7, 8}));
  EXPECT_TRUE(notes->find(1).is_forgotten);
  EXPECT_TRUE(notes->find(1).has_ended);
}

TEST_F(NotesTest, what_has_no_outcome_at_the_end_never_ran) {
  open({.capacity = 8});
  end(0, OutcomeCode::done);
  end(2, OutcomeCode::cancelled);
  EXPECT_EQ(notes->finish(4), 3u);
  EXPECT_EQ(notes->noted(), 4u);
  EXPECT_EQ(notes->first_cancelled(), 1u);
  EXPECT_FALSE(notes->find(0).was_cancelled);
  for (const LongWord ticket : {1ull, 2ull, 3ull}) EXPECT_TRUE(notes->find(ticket).was_cancelled);
}

}  // namespace
}  // namespace everkernel::live
