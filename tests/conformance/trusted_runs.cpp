// Trusted handlers in whole runs: items are ordered, dropped and reported by the effects their
// handlers declare.
#include <algorithm>

#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {
namespace {

// Buffers 1 … 9 of one word, each holding its handle.
std::vector<DataBuffer> nine_buffers(Megakernel& kernel) {
  std::vector<DataBuffer> buffers;
  for (Word handle = 1; handle <= 9; ++handle) {
    buffers.push_back(must(kernel.create_buffer({.handle = handle, .word_count = 1})));
    must(buffers.back().write(0, std::span(&handle, 1)));
  }
  return buffers;
}

Word word_of(const DataBuffer& buffer) {
  Word word = 0;
  must(buffer.read(0, std::span(&word, 1)));
  return word;
}

}  // namespace

TEST_P(Trusted, a_run_gives_what_its_items_give_one_after_the_other) {
  const auto buffers = nine_buffers(kernel());
  // Buffer 2 is copied to 4, trusted and verified items add to 4, then 4 is copied on.
  std::vector<abi::WorkItem> items{{kTrustedMove, 2, 4, 1}};
  for (Word i = 0; i < 50; ++i)
    items.push_back({i % 2 == 0 ? Word{kTrustedAdd} : kAddParam, 0, 4, i});
  items.push_back({kTrustedMove, 4, 5, 0});
  items.push_back({kTrustedMove, 5, 4, 3});
  const RunReport report = must(kernel().run(items));
  EXPECT_EQ(report.items_processed, items.size());
  EXPECT_EQ(word_of(buffers[4]), 2 * (5 + 1225u));
  EXPECT_EQ(word_of(buffers[3]), 4 * (5 + 1225u) + 3);
}

TEST_P(Trusted, in_a_run_what_may_touch_everything_waits_for_all_and_all_for_it) {
  const auto buffers = nine_buffers(kernel());
  // The items of kTrustedByHandle name no buffer, but use buffers 8 and 9.
  const std::vector<abi::WorkItem> items{{kTrustedMove, 1, 8, 0},
                                         {kTrustedByHandle, 0, 0, 1},
                                         {kTrustedMove, 9, 3, 0},
                                         {kTrustedMove, 3, 8, 0},
                                         {kTrustedByHandle, 0, 0, 2}};
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(must(kernel().run(items)).items_processed, 5u);
    EXPECT_EQ(word_of(buffers[2]), 14u);
    EXPECT_EQ(word_of(buffers[8]), 86u);
  }
}

TEST_P(Trusted, in_a_run_equal_pure_items_run_once) {
  const auto buffers = nine_buffers(kernel());
  const std::vector<abi::WorkItem> pure(7, {kTrustedCopy, 1, 2, 5});
  EXPECT_EQ(must(kernel().run(pure)).deduped_items, 6u);
  EXPECT_EQ(word_of(buffers[1]), 6u);
  const std::vector<abi::WorkItem> impure(7, {kTrustedAdd, 1, 2, 5});
  EXPECT_EQ(must(kernel().run(impure)).deduped_items, 0u);
  EXPECT_EQ(word_of(buffers[1]), 6u + 35);
}

TEST_P(Trusted, in_a_run_a_fault_reaches_what_depends_on_it) {
  const auto buffers = nine_buffers(kernel());
  const std::vector<abi::WorkItem> items{{kTrustedMove, 1, 2, 666},  // faults
                                         {kTrustedMove, 2, 3, 0},    // reads its output
                                         {kTrustedMove, 4, 5, 0},    // is independent of both
                                         {kTrustedAdd, 0, 6, 666},   // faults
                                         {kTrustedAdd, 0, 6, 1},  // commutes with the item before
                                         {kTrustedUndeclared, 0, 0, 0}};
  const RunReport report = must(kernel().run(items));
  const Word codes[] = {262, 12, 0, 262, 0, 65533};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(report.fault_code(i), codes[i]) << "item " << i;
  EXPECT_EQ(report.items_faulted, 4u);
  EXPECT_EQ(report.items_remaining, 0u);
  EXPECT_EQ(word_of(buffers[5]), 7u);
  EXPECT_EQ(word_of(buffers[4]), 8u);
}

TEST_P(Trusted, in_a_run_items_come_back_and_leave_nothing_behind) {
  const DataBuffer output = buffer(kernel(), {.handle = 2, .word_count = 19});
  // Args behind the third are zero for every item, even if an earlier item wrote its own.
  std::vector<abi::WorkItem> items;
  for (Word i = 0; i < 8; ++i) {
    items.push_back({kTrustedScribble, 1, 3, i});
    items.push_back({kTrustedYieldOnce, 1, 3, i});
  }
  items.push_back({kTrustedEcho, 2, 2, 9});
  EXPECT_EQ(must(kernel().run(items, {.worker_count = 1})).items_processed, items.size());
  const std::vector<Word> words = words_of(output);
  EXPECT_EQ(words[0], kTrustedEcho);
  EXPECT_EQ(std::vector(words.begin() + 4, words.begin() + 16),
            (std::vector<Word>{2, 2, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_P(Trusted, a_run_reports_names_and_hits) {
  const auto buffers = nine_buffers(kernel());
  const std::vector<abi::WorkItem> items{
      {0, 0, 0, 0}, {kTrustedEmitTwice, 0, 0, 0}, {kTrustedMove, 1, 2, 0}, {kAddParam, 0, 2, 1}};
  const RunReport report = must(kernel().run(items, {.lineage = true, .hit_capacity = 16}));
  EXPECT_EQ(report.hits, (std::vector<abi::Hit>{{1, 1, 2, 3}, {1, 4, 5, 6}}));
  std::vector<std::string> names;
  for (const LineageRule& rule : report.lineage_rules) names.push_back(rule.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"NOP", "add_param", "trusted_emit_twice", "trusted_move"}));
}

TEST_P(Trusted, a_run_refuses_what_awaits_io) {
  const std::vector<abi::WorkItem> items{{kTrustedReadAndSum, 1, 2, 0}};
  const auto refused = kernel().run(items);
  ASSERT_EQ(test::code_of(refused), Code::unsupported);
  EXPECT_NE(test::message_of(refused).find("trusted_read_and_sum"), std::string::npos);
}

TEST_P(Trusted, a_run_that_is_specialised_has_its_trusted_handlers) {
  if (!backend()->capabilities().native_code) GTEST_SKIP() << "no native code to specialise";
  const auto buffers = nine_buffers(kernel());
  const std::vector<abi::WorkItem> both{{kTrustedAdd, 0, 2, 1}, {kAddParam, 0, 2, 1}};
  EXPECT_EQ(must(kernel().run(both, {.execution = backend::Execution::native})).items_processed,
            2u);
  EXPECT_EQ(word_of(buffers[1]), 4u);
}

TEST_P(Trusted, a_run_of_trusted_handlers_alone_needs_no_compiler) {
  const auto buffers = nine_buffers(kernel());
  const std::vector<abi::WorkItem> items{{kTrustedAdd, 0, 2, 1}, {kTrustedMove, 2, 3, 1}};
  EXPECT_EQ(must(kernel().run(items, {.execution = backend::Execution::native})).items_processed,
            2u);
  EXPECT_EQ(word_of(buffers[2]), 7u);
}

}  // namespace everkernel::conformance
