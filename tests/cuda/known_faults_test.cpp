// Handlers that a device compiler has translated wrongly, each in a batch of random programs.
//
// Decision 0012 lists the faults. Each row is one handler of the batch of a seed, run on the frames
// of that batch: without the work-around in src/jit/device, the result differs from the
// interpreter's on a GPU with compute capability 9.0 and on the simulated one.
#include <gtest/gtest.h>

#include <string>

#include "handler_runs.hpp"
#include "random_batch.hpp"

namespace everkernel::test {
namespace {

struct KnownFault {
  const char* name;
  std::uint64_t seed;
  std::size_t handler_index;
};

constexpr KnownFault kKnownFaults[] = {
    {"the_value_of_an_empty_asm_was_lost", 43474534, 13},
    {"a_load_moved_in_front_of_its_check", 777016, 16},
    {"a_minimum_of_a_difference_lost_its_sign", 1073000874, 8},
    {"a_magnitude_was_taken_for_positive", 1007693, 1},
    {"a_range_of_bits_became_a_range_of_a_float", 1020932, 6},
    {"lanes_missed_a_barrier_behind_the_leader", 20263, 2},
    {"lanes_missed_a_shuffle_behind_the_leader", 20414, 6},
};

class KnownFaults : public testing::TestWithParam<KnownFault> {};

TEST_P(KnownFaults, handler_agrees_with_the_interpreter) {
  if (!gpu()) {
    GTEST_SKIP() << "there is no GPU here: " << gpu().error().message << "; " << gpu().error().hint;
  }
  const auto current = gpu()->context->enter();
  ASSERT_TRUE(current) << current.error().message;
  Tally tally;
  auto batch = batch_of(GetParam().seed, tally);
  ASSERT_TRUE(batch) << batch.error().message;
  ASSERT_LT(GetParam().handler_index, batch->entries.size());
  batch->entries = {batch->entries[GetParam().handler_index]};
  const auto runner = HandlerRunner::create(*gpu(), source_of(*batch));
  ASSERT_TRUE(runner) << runner.error().message;
  const std::vector<RunRequest> requests = requests_of(*batch);
  auto results = runner->run(requests);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(first_difference(*batch, requests, *std::move(results), tally), "");
}

INSTANTIATE_TEST_SUITE_P(decision_0012, KnownFaults, testing::ValuesIn(kKnownFaults),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace everkernel::test
