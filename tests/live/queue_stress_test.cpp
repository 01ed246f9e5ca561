// Many threads, many queues, both forms of entries, with and without results: no item is lost,
// doubled or torn. EVERKERNEL_ITEMS=N runs about N items.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/ir_text.hpp"
#include "support/results.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using abi::EntryFormat;

constexpr auto kPatience = std::chrono::seconds(60);

struct Row {
  EntryFormat format;
  Word capacity;
  bool has_results;
  Word producers;
  std::uint64_t first_ticket;
};

// Each item adds 1 to word 0 and its param to word 1 of its producer's buffer; with results it
// answers with its param.
constexpr const char* kHandler =
    "handler sum = 64 { atomic_add(output[0], 1); atomic_add(output[1], param); args[9] = param; "
    "args[10] = param ^ 5; }";

void produce(Session& session, const Row& row, Word index, std::uint64_t items,
             std::string& problem) {
  auto queue = session.open_queue({.tenant = TenantId(index),
                                   .priority = Priority{index % 5},
                                   .capacity = row.capacity,
                                   .entries = row.format,
                                   .results = row.has_results,
                                   .first_ticket = row.first_ticket});
  if (!queue) {
    problem = queue.error().message;
    return;
  }
  std::vector<abi::WorkItem> batch(std::min<Word>(row.capacity, 24));
  Word param = 0;
  for (std::uint64_t sent = 0; sent < items && problem.empty();) {
    const std::size_t count = std::min<std::size_t>(1 + param % batch.size(), items - sent);
    for (std::size_t i = 0; i < count; ++i) batch[i] = {64, 0, 1 + index, ++param};
    const auto range = queue->publish_items(std::span(batch).first(count), kPatience);
    if (!range) {
      problem = range.error().message;
      break;
    }
    sent += count;
    if (param % 3 != 0) continue;
    const auto ended = queue->wait(range->last(), kPatience);
    if (!ended || !ended->is_done()) problem = "an item did not end as DONE";
    if (row.has_results && ended && ended->results != std::array<Word, 3>{param, param ^ 5, 0}) {
      problem = "a result is that of another item";
    }
  }
  const auto all = queue->wait_all(kPatience);
  if (!all) problem = all.error().message;
}

void run(const Row& row, std::uint64_t items) {
  const auto program = check_text(kHandler);
  ASSERT_TRUE(program) << message_of(program);
  auto kernel =
      Megakernel::create(backend::cpu::make_backend(), {.handlers = *program, .worker_count = 2});
  ASSERT_TRUE(kernel) << message_of(kernel);
  std::vector<DataBuffer> sums;
  for (Word i = 0; i < row.producers; ++i) {
    sums.push_back(*kernel->create_buffer({.handle = 1 + i, .word_count = 2}));
  }
  Session session = *kernel->start();
  std::vector<std::string> problems(row.producers);
  {
    std::vector<std::jthread> threads;
    for (Word i = 0; i < row.producers; ++i) {
      threads.emplace_back([&, i] { produce(session, row, i, items, problems[i]); });
    }
  }
  for (Word i = 0; i < row.producers; ++i) {
    EXPECT_EQ(problems[i], "");
    std::array<Word, 2> found{};
    ASSERT_TRUE(sums[i].read(0, found));
    EXPECT_EQ(found[0], static_cast<Word>(items));
    EXPECT_EQ(found[1], static_cast<Word>(items * (items + 1) / 2));
  }
  const StopReport report = session.stop(StopMode::drain, kPatience);
  EXPECT_EQ(report.done, items * row.producers);
  EXPECT_EQ(report.faulted + report.cancelled, 0u);
}

TEST(QueueStress, no_item_is_lost_doubled_or_torn) {
  const std::uint64_t total = number_from("EVERKERNEL_ITEMS").value_or(400'000);
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    for (const Word capacity : {2u, 8u, 64u, 1024u}) {
      for (const bool has_results : {false, true}) {
        for (const Word producers : {1u, 4u}) {
          const std::uint64_t lap = 2 * std::uint64_t{capacity};
          const Row row{
              format, capacity, has_results, producers,
              producers == 1 ? (std::uint64_t{1} << 32) - lap : (std::uint64_t{1} << 63) - lap};
          SCOPED_TRACE(testing::Message()
                       << "entries of " << static_cast<Word>(format) << " bytes, capacity "
                       << capacity << ", results " << has_results << ", producers " << producers);
          // Small queues make producer and worker take turns, which is slow.
          const std::uint64_t share = capacity <= 8 ? 400 : 20;
          run(row, std::max<std::uint64_t>(total / share / producers, 50));
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace everkernel::test
