// Both sides of a live queue over plain memory.
#include "everkernel/protocol/queue.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "support/results.hpp"

namespace everkernel::protocol {
namespace {

using abi::EntryFormat;
using abi::OutcomeCode;
using abi::QueueHeader;
using test::code_of;
using test::message_of;

// The two files of a queue in memory of the test.
class Files {
 public:
  explicit Files(const QueueShape& shape)
      : header(abi::queue_header(shape.entries, shape.capacity, shape.has_results,
                                 shape.first_ticket)),
        producer_lines_(header.producer_bytes / 64 + 1),
        kernel_lines_(header.kernel_bytes / 64) {
    encode_queue(header, {producer_bytes(), header.producer_bytes}, kernel_file());
  }
  QueueProducer producer() { return {header, producer_bytes(), kernel_bytes()}; }
  QueueKernel kernel() { return {header, producer_bytes(), kernel_bytes()}; }
  abi::ProducerLine& producer_line() {
    return *reinterpret_cast<abi::ProducerLine*>(producer_lines_.data());
  }
  Word* producer_words() { return reinterpret_cast<Word*>(producer_lines_.data()); }
  std::span<std::byte> kernel_file() { return {kernel_bytes(), header.kernel_bytes}; }
  QueueHeader& stored_header() { return *reinterpret_cast<QueueHeader*>(kernel_lines_.data()); }

  const QueueHeader header;

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::byte* producer_bytes() { return producer_lines_[0].bytes; }
  std::byte* kernel_bytes() { return kernel_lines_[0].bytes; }

  std::vector<Line> producer_lines_;
  std::vector<Line> kernel_lines_;
};

TEST(LiveQueue, an_encoded_queue_is_open_and_empty) {
  Files files({.capacity = 4, .first_ticket = 16});
  const auto header = read_queue_header(files.kernel_file(), files.header.producer_bytes);
  ASSERT_TRUE(header) << message_of(header);
  EXPECT_TRUE(abi::are_equal(*header, files.header));
  EXPECT_EQ(files.producer_line().tail, 16u);
  EXPECT_EQ(files.producer_line().filled, 16u);
  EXPECT_EQ(files.producer().state(), abi::QueueState::open);
  for (LongWord ticket = 16; ticket < 20; ++ticket) {
    EXPECT_FALSE(files.kernel().peek(ticket));
    EXPECT_EQ(files.producer().outcome(ticket), OutcomeCode::none);
  }
}

// Over laps, from first tickets at the edges of their ranges.
TEST(LiveQueue, an_entry_is_seen_in_its_lap_and_no_other) {
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    for (const LongWord first :
         {LongWord{0}, (LongWord{1} << 32) - 8, (LongWord{1} << 63) - 8, LongWord{8} * 1001}) {
      Files files({.entries = format, .capacity = 4, .first_ticket = first});
      const QueueProducer producer = files.producer();
      const QueueKernel kernel = files.kernel();
      for (LongWord ticket = first; ticket < first + 20; ++ticket) {
        ASSERT_FALSE(kernel.peek(ticket)) << ticket;
        ASSERT_FALSE(kernel.copy_slot(ticket)) << ticket;
        const auto word = static_cast<Word>(ticket);
        const abi::WorkItem item{64 + word % 7, word, ~word, 0x80000000u | word};
        if (format == EntryFormat::compact) {
          producer.store(ticket, item);
        } else {
          producer.store(ticket, published_slot(item, {.tenant = 3, .priority = 1}));
        }
        ASSERT_EQ(kernel.peek(ticket), item.op_handle);
        const auto slot = kernel.copy_slot(ticket);
        ASSERT_TRUE(slot);
        EXPECT_EQ(slot->opcode, item.op_handle);
        EXPECT_EQ(slot->args[0], item.input_handle);
        EXPECT_EQ(slot->args[1], item.output_handle);
        EXPECT_EQ(slot->args[2], item.param);
        ASSERT_FALSE(kernel.peek(ticket + 4)) << "the next lap of the same place";
      }
    }
  }
}

TEST(LiveQueue, an_outcome_is_seen_in_its_lap_and_no_other) {
  for (const bool has_results : {false, true}) {
    Files files({.capacity = 8, .has_results = has_results});
    const QueueProducer producer = files.producer();
    const QueueKernel kernel = files.kernel();
    for (LongWord ticket = 0; ticket < 40; ++ticket) {
      ASSERT_EQ(producer.outcome(ticket), OutcomeCode::none) << ticket;
      ASSERT_FALSE(kernel.has_ended(ticket));
      const auto word = static_cast<Word>(ticket);
      if (ticket % 5 == 3) {
        kernel.end(ticket, OutcomeCode::fault, 256 + word, {word, 1, 2});
        EXPECT_EQ(producer.fault_code(ticket), 256 + word);
      } else {
        kernel.end(ticket, OutcomeCode::done, 0, {word, 1, 2});
      }
      EXPECT_EQ(producer.outcome(ticket), ticket % 5 == 3 ? OutcomeCode::fault : OutcomeCode::done);
      EXPECT_TRUE(kernel.has_ended(ticket));
      if (has_results) {
        EXPECT_EQ(producer.results(ticket), (ItemResults{word, 1, 2}));
      }
      EXPECT_EQ(producer.outcome(ticket + 8), OutcomeCode::none);
    }
  }
}

TEST(LiveQueue, a_row_of_done_is_counted_up_to_the_first_that_is_not) {
  for (const bool has_results : {false, true}) {
    Files files({.capacity = 32, .has_results = has_results});
    const QueueProducer producer = files.producer();
    const QueueKernel kernel = files.kernel();
    for (LongWord ticket = 0; ticket < 29; ++ticket) {
      kernel.end(ticket, OutcomeCode::done, 0, {});
      EXPECT_EQ(producer.count_done(0, 32), ticket + 1);
      EXPECT_EQ(producer.count_done(0, 5), std::min<LongWord>(ticket + 1, 5));
    }
    kernel.end(30, OutcomeCode::done, 0, {});
    EXPECT_EQ(producer.count_done(3, 29), 26u) << "ticket 29 has not ended";
    kernel.end(29, OutcomeCode::cancelled, 0, {});
    EXPECT_EQ(producer.count_done(3, 29), 26u) << "ticket 29 is not DONE";
    EXPECT_EQ(producer.count_done(30, 2), 1u);
  }
}

// A row is counted by lines, by eights and one by one; it may begin, end and be interrupted
// anywhere in each, also across the end of a lap.
TEST(LiveQueue, a_long_row_of_done_ends_at_any_other_byte) {
  constexpr LongWord kCapacity = 256;
  for (const LongWord begin : {0u, 1u, 5u, 63u, 64u, 200u, 255u}) {
    for (const LongWord length : {1u, 7u, 8u, 64u, 71u, 150u, 256u}) {
      Files files({.capacity = kCapacity});
      const QueueProducer producer = files.producer();
      for (LongWord ticket = 0; ticket < begin + length; ++ticket) {
        files.kernel().end(ticket, OutcomeCode::done, 0, {});
      }
      ASSERT_EQ(producer.count_done(begin, kCapacity), length) << begin;
      ASSERT_EQ(producer.count_done(begin, length - 1), length - 1) << begin;
      auto* const bytes = reinterpret_cast<unsigned char*>(files.kernel_file().data()) +
                          files.header.outcomes_offset;
      for (LongWord i = 0; i < length; ++i) {
        unsigned char& byte = bytes[(begin + i) % kCapacity];
        const unsigned char done = byte;
        // Not ended, CANCELLED, of the other lap, and what no kernel stores.
        for (const int other : {0, done ^ 2, done ^ 0x80, done ^ 0x40, 0xFF}) {
          byte = static_cast<unsigned char>(other);
          ASSERT_EQ(producer.count_done(begin, kCapacity), i) << begin << " " << length;
        }
        byte = done;
      }
    }
  }
}

// By lines and one by one, from any place to any other, in each lap.
TEST(LiveQueue, a_batch_of_any_length_is_stored_as_its_items_are) {
  constexpr Word kCapacity = 32;
  std::mt19937 random(1);
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    for (std::size_t count = 1; count <= kCapacity; ++count) {
      Files one({.entries = format, .capacity = kCapacity});
      Files many({.entries = format, .capacity = kCapacity});
      const Sender sender{.tenant = 28, .priority = 4};
      LongWord first = 0;
      for (int batch = 0; batch < 8; ++batch, first += count) {
        std::vector<abi::WorkItem> items(count);
        for (std::size_t i = 0; i < count; ++i) {
          const auto word = [&] { return static_cast<Word>(random()); };
          items[i] = {word() >> 1, word(), word(), word()};
          const std::array<Word, 3> args{items[i].input_handle, items[i].output_handle,
                                         items[i].param};
          one.producer().store(first + i, {items[i].op_handle, args}, sender);
        }
        many.producer().store_items(first, items, sender);
        ASSERT_EQ(
            std::memcmp(one.producer_words(), many.producer_words(), one.header.producer_bytes), 0)
            << count << " items from " << first;
      }
    }
  }
}

// The ways of taking an entry agree, whatever the producer wrote.
TEST(LiveQueue, an_entry_with_any_bit_changed_is_read_alike_by_all) {
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    const auto entry_bytes = static_cast<std::size_t>(format);
    for (std::size_t bit = 0; bit < entry_bytes * 8; ++bit) {
      for (const Word opcode : {0u, 65u}) {
        Files files({.entries = format, .capacity = 4});
        const std::array<Word, 3> args{0x80000001u, 2, 0x80000003u};
        files.producer().store(1, {opcode, args}, {.tenant = 3, .priority = 1});
        Word* const words = files.producer_words() + 16 + entry_bytes / 4;
        words[bit / 32] ^= Word{1} << bit % 32;
        const auto expected =
            decode_entry({reinterpret_cast<const std::byte*>(words), entry_bytes}, format, 1);
        const auto found = files.kernel().copy_slot(1);
        ASSERT_EQ(found.has_value(), expected.has_value()) << bit;
        if (found) {
          EXPECT_EQ(std::memcmp(&*found, &*expected, sizeof *found), 0) << bit;
        }
        const bool is_nop = expected && expected->opcode == 0;
        EXPECT_EQ(files.kernel().end_nops(1, 1), is_nop ? 1u : 0u) << bit;
        Files again({.entries = format, .capacity = 4});
        std::memcpy(again.producer_words() + 16 + entry_bytes / 4, words, entry_bytes);
        EXPECT_EQ(again.kernel().end_nop(1), is_nop) << bit;
        EXPECT_EQ(again.kernel().has_ended(1), is_nop) << bit;
      }
    }
  }
}

// Stores entries by the ways of publishing and reads them by the ways of taking.
TEST(LiveQueue, many_entries_are_stored_and_counted_as_single_ones_are) {
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    Files one({.entries = format, .capacity = 8});
    Files many({.entries = format, .capacity = 8});
    const Sender sender{.tenant = 3, .priority = 1};
    std::vector<abi::WorkItem> items;
    for (Word i = 0; i < 6; ++i) items.push_back({i < 4 ? 70u : 71u, ~i, i << 30, i});
    for (LongWord first = 0; first < 40; first += 6) {  // also across the end of a lap
      many.producer().store_items(first, items, sender);
      for (Word i = 0; i < 6; ++i) {
        const abi::WorkItem& item = items[i];
        const std::array<Word, 3> args{item.input_handle, item.output_handle, item.param};
        one.producer().store(first + i, {item.op_handle, args}, sender);
        const auto expected = one.kernel().copy_slot(first + i);
        const auto found = many.kernel().copy_slot(first + i);
        ASSERT_TRUE(expected && found);
        EXPECT_EQ(std::memcmp(&*expected, &*found, sizeof *found), 0);
        EXPECT_EQ(found->args[0], item.input_handle) << "all its bits";
        if (format == EntryFormat::full) {
          EXPECT_EQ(found->tenant, 3u);
          EXPECT_EQ(found->priority, 1u);
        }
      }
      EXPECT_EQ(many.kernel().count_equal(first, 6), 4u);
      EXPECT_EQ(many.kernel().count_equal(first + 1, 2), 2u);
      EXPECT_EQ(many.kernel().count_equal(first + 4, 6), 2u) << "the next is of the lap before";
      EXPECT_EQ(many.kernel().count_equal(first + 6, 6), 0u);
    }
  }
}

TEST(LiveQueue, nops_in_a_row_end_if_their_entries_are_valid) {
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    for (LongWord first = 0; first < 32; first += 8) {
      Files files({.entries = format, .capacity = 16, .first_ticket = 0});
      const QueueProducer producer = files.producer();
      const QueueKernel kernel = files.kernel();
      for (LongWord ticket = 0; ticket < first; ++ticket) {
        producer.store(ticket, {}, {});
        ASSERT_EQ(kernel.end_nops(ticket, 1), 1u);
      }
      EXPECT_EQ(kernel.end_nops(first, 16), 0u);
      for (LongWord i = 0; i < 12; ++i) {
        producer.store(first + i, {.opcode = i == 10 ? 64u : 0u}, {});
      }
      EXPECT_EQ(kernel.end_nops(first, 3), 3u);
      EXPECT_FALSE(kernel.has_ended(first + 3));
      EXPECT_EQ(kernel.end_nops(first + 3, 16), 7u) << "up to the item that is none";
      EXPECT_EQ(producer.count_done(first, 16), 10u);
      EXPECT_EQ(kernel.count_ended(first, 16), 10u);
      kernel.end(first + 10, OutcomeCode::fault, 300, {});
      EXPECT_EQ(kernel.end_nops(first + 11, 1), 1u);
      EXPECT_EQ(producer.count_done(first, 16), 10u);
      EXPECT_EQ(kernel.count_ended(first, 12), 12u) << "a FAULT has ended too";
    }
  }
  // A full entry with one quad of the lap before, or a bit that has no meaning, is not valid.
  for (const std::size_t word : {3u, 4u, 8u, 12u}) {
    Files files({.entries = EntryFormat::full, .capacity = 4});
    files.producer().store(0, {}, {});
    files.producer_words()[16 + word] ^= 0x80000000u;
    EXPECT_EQ(files.kernel().end_nops(0, 1), 0u) << word;
  }
}

TEST(LiveQueue, headers_are_checked_field_by_field) {
  Files files({.entries = EntryFormat::full, .capacity = 16, .first_ticket = 64});
  const std::size_t producer_bytes = files.header.producer_bytes;
  const auto read = [&] { return read_queue_header(files.kernel_file(), producer_bytes); };
  ASSERT_TRUE(read()) << message_of(read());
  EXPECT_TRUE(abi::are_equal(*read(), files.header));
  const auto expect_refused = [&](auto QueueHeader::*field, auto value, const char* name) {
    const QueueHeader before = files.stored_header();
    files.stored_header().*field = value;
    EXPECT_EQ(code_of(read()), Code::corrupt) << name;
    files.stored_header() = before;
  };
  expect_refused(&QueueHeader::magic, 0x31514B44u, "magic");
  expect_refused(&QueueHeader::version, 2u, "version");
  expect_refused(&QueueHeader::entry_bytes, 32u, "entry_bytes");
  expect_refused(&QueueHeader::capacity, 15u, "capacity");
  expect_refused(&QueueHeader::capacity, 32u, "offsets of another capacity");
  expect_refused(&QueueHeader::first_ticket, 16ull, "first_ticket");
  expect_refused(&QueueHeader::outcome_bytes, 2u, "outcome_bytes");
  expect_refused(&QueueHeader::reserved0, 1u, "reserved0");
  expect_refused(&QueueHeader::producer_bytes, 1ull, "producer_bytes");
  expect_refused(&QueueHeader::kernel_bytes, ~0ull, "kernel_bytes");
  expect_refused(&QueueHeader::entries_offset, 128ull, "entries_offset");
  expect_refused(&QueueHeader::outcomes_offset, 0ull, "outcomes_offset");
  expect_refused(&QueueHeader::faults_offset, 1ull << 40, "faults_offset");
  files.stored_header().reserved[9] = 1;
  EXPECT_EQ(code_of(read()), Code::corrupt);
  files.stored_header().reserved[9] = 0;
  EXPECT_EQ(code_of(read_queue_header(files.kernel_file().first(127), producer_bytes)),
            Code::corrupt);
  EXPECT_EQ(code_of(read_queue_header(files.kernel_file().first(128), producer_bytes)),
            Code::corrupt);
  EXPECT_EQ(code_of(read_queue_header(files.kernel_file(), producer_bytes - 1)), Code::corrupt);
}

TEST(LiveQueue, shapes_that_cannot_be_are_refused) {
  EXPECT_TRUE(check_shape({}));
  EXPECT_EQ(code_of(check_shape({.capacity = 3})), Code::invalid_argument);
  EXPECT_EQ(code_of(check_shape({.capacity = 1u << 21})), Code::invalid_argument);
  EXPECT_EQ(code_of(check_shape({.capacity = 8, .first_ticket = 8})), Code::invalid_argument);
  EXPECT_EQ(code_of(check_shape({.entries = EntryFormat{32}})), Code::invalid_argument);
}

TEST(LiveQueue, entries_in_private_bytes_are_those_in_a_queue) {
  const std::array<Word, 3> args{0x80000001, 2, 3};
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    Files files({.entries = format, .capacity = 2});
    const Operation operation{.opcode = 77, .args = args};
    std::vector<std::byte> bytes(static_cast<std::size_t>(format));
    encode_entry(operation, {.tenant = 4, .priority = 3}, format, 1, bytes);
    const auto slot = decode_entry(bytes, format, 1);
    ASSERT_TRUE(slot);
    EXPECT_EQ(slot->opcode, 77u);
    EXPECT_EQ(slot->args[0], 0x80000001u);
    EXPECT_EQ(slot->args[2], 3u);
    EXPECT_EQ(slot->args[3], 0u);
    EXPECT_FALSE(decode_entry(bytes, format, 0));
    EXPECT_FALSE(decode_entry(std::span(bytes).first(bytes.size() - 1), format, 1));
  }
  const std::array<Word, 4> four{};
  EXPECT_EQ(code_of(check_compact({.opcode = 64, .args = four})), Code::invalid_argument);
  EXPECT_EQ(code_of(check_compact({.opcode = 0x80000001})), Code::invalid_argument);
  EXPECT_TRUE(check_compact({.opcode = 64, .args = args}));
}

// One thread publishes, one takes: no entry is seen torn or twice.
TEST(LiveQueue, entries_are_whole_across_threads) {
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    Files files({.entries = format, .capacity = 8});
    const QueueProducer producer = files.producer();
    const QueueKernel kernel = files.kernel();
    constexpr LongWord kItems = 20'000;
    std::jthread worker([&] {
      for (LongWord ticket = 0; ticket < kItems; ++ticket) {
        while (!kernel.peek(ticket)) std::this_thread::yield();
        const auto slot = kernel.copy_slot(ticket);
        const auto word = static_cast<Word>(ticket);
        const bool is_right = slot && slot->opcode == 64 && slot->args[0] == word &&
                              slot->args[1] == word * 3 && slot->args[2] == ~word;
        kernel.end(ticket, is_right ? OutcomeCode::done : OutcomeCode::fault, 1, {});
      }
    });
    LongWord noted = 0;
    for (LongWord ticket = 0; ticket < kItems; ++ticket) {
      while (ticket >= noted + 8) noted += producer.count_done(noted, ticket - noted);
      const auto word = static_cast<Word>(ticket);
      const abi::WorkItem item{64, word, word * 3, ~word};
      if (format == EntryFormat::compact) {
        producer.store(ticket, item);
      } else {
        producer.store(ticket, published_slot(item, {}));
      }
    }
    worker.join();
    EXPECT_EQ(noted + producer.count_done(noted, kItems - noted), kItems);
  }
}

}  // namespace
}  // namespace everkernel::protocol
