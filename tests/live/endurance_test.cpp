// Endurance: four producers in two processes feed one session, in both forms of entries, through
// small and large queues. No item is lost, doubled or torn: endurance_items.hpp says how that
// shows.
//
// EVERKERNEL_ITEMS=N runs about N items. EVERKERNEL_SWAPS=N replaces the handlers up to N times
// while the items of a row run. This program is the other process, too.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "live/endurance_items.hpp"
#include "support/backend_under_test.hpp"
#include "support/ir_text.hpp"
#include "support/process.hpp"
#include "support/results.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using abi::EntryFormat;
using Clock = std::chrono::steady_clock;

constexpr Word kProducers = 2;  // in each process
constexpr const char* kOneMore = "handler unused = 66 { output[0] = param; }\n";
constexpr std::string_view kClientOption = "--client";
constexpr int kFirstQueue = kFirstInherited;
constexpr int kAnswerFile = kFirstInherited + static_cast<int>(kProducers);

struct Row {
  const char* name;
  EntryFormat format;
  bool is_wide;  // items with twelve arguments
  Word capacity;
  std::uint64_t share;       // of all items, in thousandths
  bool has_tenants = false;  // a tenant for each producer, so that quotas count their items
};

// Most items go through large queues, because small ones make producers and kernel take turns.
constexpr Row kRows[] = {
    {"compact_65536", EntryFormat::compact, false, 1 << 16, 588},
    {"full_65536", EntryFormat::full, false, 1 << 16, 200},
    {"wide_65536", EntryFormat::full, true, 1 << 16, 140},
    {"compact_1024", EntryFormat::compact, false, 1024, 30},
    {"full_1024", EntryFormat::full, false, 1024, 20},
    {"compact_64", EntryFormat::compact, false, 64, 8},
    {"wide_64", EntryFormat::full, true, 64, 3},
    {"compact_4", EntryFormat::compact, false, 4, 1},
    {"tenants_1024", EntryFormat::compact, false, 1024, 10, true},
};

/// The answer of the other process, in memory that both map.
struct Answer {
  std::array<Sums, kProducers> sums = {};
  char problem[200] = {};
};

/// Producers in threads of this process.
std::string produce(std::vector<Queue>& queues, Share share, std::span<Sums> expected) {
  std::vector<std::string> problems(queues.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < queues.size(); ++i) {
      threads.emplace_back([&, i, own = share]() mutable {
        own.producer += static_cast<Word>(i);
        problems[i] = publish_share(queues[i], own, expected[i]);
      });
    }
  }
  for (const std::string& problem : problems) {
    if (!problem.empty()) return problem;
  }
  return "";
}

/// The other process: `--client PRODUCER ITEMS WIDE`. It never touches a backend.
int run_client(char** argv) {
  void* const memory =
      ::mmap(nullptr, sizeof(Answer), PROT_READ | PROT_WRITE, MAP_SHARED, kAnswerFile, 0);
  if (memory == MAP_FAILED) return 2;
  auto* const answer = static_cast<Answer*>(memory);
  const Share share{.producer = static_cast<Word>(std::stoul(argv[2])),
                    .items = std::stoull(argv[3]),
                    .is_wide = std::string_view(argv[4]) == "1"};
  std::vector<Queue> queues;
  std::string problem;
  for (Word i = 0; i < kProducers && problem.empty(); ++i) {
    auto queue = attach_queue(kFirstQueue + static_cast<int>(i));
    if (queue) queues.push_back(std::move(*queue));
    if (!queue) problem = queue.error().message;
  }
  if (problem.empty()) problem = produce(queues, share, answer->sums);
  std::strncpy(answer->problem, problem.c_str(), sizeof answer->problem - 1);
  return problem.empty() ? 0 : 1;
}

class Endurance : public testing::Test {
 protected:
  void SetUp() override {
    const auto program = check_text(kEnduranceHandlers);
    ASSERT_TRUE(program) << message_of(program);
    programs_.push_back(*program);
    const auto other = check_text(std::string(kEnduranceHandlers) + kOneMore);
    ASSERT_TRUE(other) << message_of(other);
    programs_.push_back(*other);
    auto made = Megakernel::create(backend_under_test(), {.handlers = *program});
    ASSERT_TRUE(made) << message_of(made);
    kernel_.emplace(std::move(*made));
    auto sums = kernel_->create_buffer({.handle = kSumBuffer, .word_count = 2 * kSumWords});
    ASSERT_TRUE(sums) << message_of(sums);
    sums_.emplace(std::move(*sums));
    auto started = kernel_->start();
    ASSERT_TRUE(started) << message_of(started);
    session_.emplace(std::move(*started));
    file_ = Descriptor(::memfd_create("answer", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file_.get(), sizeof(Answer)), 0);
    void* const memory =
        ::mmap(nullptr, sizeof(Answer), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    answer_ = static_cast<Answer*>(memory);
  }
  void TearDown() override {
    if (answer_ != nullptr) ::munmap(answer_, sizeof(Answer));
  }

  // Runs the items of a row, each producer as many.
  void run(const Row& row, std::uint64_t items_each) {
    std::vector<Queue> own, given;
    for (Word i = 0; i < 2 * kProducers; ++i) {
      auto queue = session_->open_queue(
          {.tenant = TenantId(row.has_tenants ? i : 0),
           .capacity = row.capacity,
           .entries = row.format,
           .first_ticket = (std::uint64_t{1} << 32) - 2 * std::uint64_t{row.capacity}});
      ASSERT_TRUE(queue) << message_of(queue);
      (i < kProducers ? own : given).push_back(std::move(*queue));
    }
    std::vector<Descriptor> descriptors;
    Command command{.program = own_program(), .folder = "."};
    command.timeout = std::chrono::seconds(120);
    for (Queue& queue : given) {
      const auto descriptor = queue.descriptor();
      ASSERT_TRUE(descriptor) << message_of(descriptor);
      descriptors.emplace_back(*descriptor);
      command.inherited.push_back(*descriptor);
    }
    command.inherited.push_back(file_.get());
    const Share share{.items = items_each, .is_wide = row.is_wide};
    command.args = {std::string(kClientOption), std::to_string(kProducers),
                    std::to_string(items_each), row.is_wide ? "1" : "0"};
    *answer_ = {};
    Process client(command);
    std::array<Sums, kProducers> sums;
    std::jthread swapper([this](const std::stop_token& stop) { swap_handlers(stop); });
    EXPECT_EQ(produce(own, share, sums), "");
    const Outcome outcome = client.finish();
    swapper = {};
    EXPECT_EQ(outcome.status, 0) << answer_->problem << outcome.err;
    for (const Sums& added : sums) expected_.add(added);
    for (const Sums& added : answer_->sums) expected_.add(added);
  }

  // Words of the sums that say that an item has not run once, as it was published.
  std::vector<Word> wrong_words() const {
    Sums found;
    EXPECT_TRUE(sums_->read(0, found.words));
    std::vector<Word> wrong;
    for (Word i = 0; i < 2 * kSumWords; ++i) {
      if (found.words[i] != expected_.words[i]) wrong.push_back(i);
    }
    return wrong;
  }
  Sums& expected() { return expected_; }
  Word swaps() const { return swaps_; }

  // Replaces the handlers, which stay the same but for one that no item names.
  void swap_handlers(const std::stop_token& stop) {
    const std::uint64_t most = number_from("EVERKERNEL_SWAPS").value_or(0);
    while (swaps_ < most && !stop.stop_requested()) {
      const auto replaced = session_->replace_handlers(programs_[(swaps_ + 1) % 2]);
      EXPECT_TRUE(replaced) << message_of(replaced);
      if (!replaced) return;
      ++swaps_;
    }
  }

  std::optional<Megakernel> kernel_;
  std::optional<DataBuffer> sums_;
  std::optional<Session> session_;

 private:
  Descriptor file_;
  Answer* answer_ = nullptr;
  Sums expected_;
  std::vector<ir::VerifiedProgram> programs_;
  Word swaps_ = 0;
};

class EnduranceRows : public Endurance, public testing::WithParamInterface<Row> {};

TEST_P(EnduranceRows, no_item_is_lost_doubled_or_torn) {
  const Row& row = GetParam();
  const std::uint64_t total = number_from("EVERKERNEL_ITEMS").value_or(400'000);
  const std::uint64_t each =
      std::max<std::uint64_t>(total * row.share / 1000 / (2 * kProducers), 16);
  const std::uint64_t all = 2 * kProducers * each;
  const auto begin = Clock::now();
  run(row, each);
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  fmt::print("  {:>11} items, {:.2f} s, {:.2f} M/s, {} swaps\n", all, us / 1e6,
             static_cast<double>(all) / us, swaps());
  std::fflush(stdout);
  RecordProperty("swaps", fmt::format("{}", swaps()));
  RecordProperty("items", fmt::format("{}", all));
  RecordProperty("items_per_us", fmt::format("{:.2f}", static_cast<double>(all) / us));
  EXPECT_EQ(wrong_words(), std::vector<Word>());
  const StopReport report = session_->stop(StopMode::drain, kEndurancePatience);
  EXPECT_EQ(report.done, all);
  EXPECT_EQ(report.faulted + report.cancelled, 0u);
}
INSTANTIATE_TEST_SUITE_P(all, EnduranceRows, testing::ValuesIn(kRows),
                         [](const auto& row) { return row.param.name; });

// A control: the sums show an item that runs twice, and one with a word of another item.
TEST_F(Endurance, the_sums_show_an_item_that_is_doubled_or_torn) {
  auto queue = session_->open_queue({.capacity = 256});
  ASSERT_TRUE(queue) << message_of(queue);
  ASSERT_EQ(publish_share(*queue, {.items = 200}, expected()), "");
  EXPECT_EQ(wrong_words(), std::vector<Word>());
  const auto run_one = [&](const abi::WorkItem& item) {
    ASSERT_TRUE(queue->publish_items({&item, 1}));
    ASSERT_TRUE(queue->wait_all(kEndurancePatience));
  };
  run_one(endurance_item(0, 5));
  EXPECT_EQ(wrong_words(), std::vector<Word>({5, kSumWords + 5}));
  abi::WorkItem torn = endurance_item(0, 7);
  torn.output_handle = endurance_item(0, 8).output_handle;
  run_one(torn);
  EXPECT_EQ(wrong_words(), std::vector<Word>({5, 7, kSumWords + 5, kSumWords + 7}));
}

}  // namespace
}  // namespace everkernel::test

int main(int argc, char** argv) {
  using namespace everkernel::test;
  if (argc == 5 && argv[1] == kClientOption) return run_client(argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
