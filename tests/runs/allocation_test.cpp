// A second run of the same shape makes no large allocation. A program of its own, because it
// replaces operator new for everything it links (support/allocation_counter.cpp).
#include "run_fixture.hpp"
#include "support/allocation_counter.hpp"

namespace everkernel::test {
namespace {

// A run may allocate, but the number of allocations must not grow with the job or from run to run.
TEST(RunAllocations, of_a_second_run_do_not_grow_with_the_items) {
  const auto allocations_of_third_run = [](std::size_t item_count) {
    Runner runner;
    const std::vector<abi::WorkItem> items(item_count, {kAdd, 0, 2, 1});
    for (int i = 0; i < 2; ++i) runner.run(items);
    const std::size_t before = allocation_count();
    runner.run(items);
    return allocation_count() - before;
  };
  const std::size_t few = allocations_of_third_run(1'000);
  const std::size_t many = allocations_of_third_run(100'000);
  EXPECT_LE(many, few + 8);
  EXPECT_LE(many, 200u);
}

TEST(RunAllocations, of_a_second_run_are_small) {
  Runner runner;
  const std::vector<abi::WorkItem> items(100'000, {kAdd, 0, 2, 1});
  for (int i = 0; i < 2; ++i) runner.run(items);
  reset_largest_allocation();
  runner.run(items);
  // The report has one word for each item; no allocation is larger than that.
  EXPECT_LE(largest_allocation(), items.size() * sizeof(Word));
}

}  // namespace
}  // namespace everkernel::test
