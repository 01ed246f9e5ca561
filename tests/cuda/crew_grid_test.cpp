// How many crews a launch has, and how many slots each crew holds.
#include "backend/cuda/crew_grid.hpp"

#include <gtest/gtest.h>

#include "backend/cuda/live_kernel.hpp"

namespace everkernel::test {
namespace {

using abi::Word;
using backend::cuda::choose_crews;
using backend::cuda::CrewKernel;
using backend::cuda::Crews;
using backend::cuda::max_launch;

constexpr CrewKernel kWarps{.block_threads = 256, .max_crews = 100};
constexpr CrewKernel kGroups{.has_groups = true, .block_threads = 256, .max_crews = 100};

void expect_crews(const Crews& crews, Word count, Word slots_per_crew) {
  EXPECT_EQ(crews.count, count);
  EXPECT_EQ(crews.slots_per_crew, slots_per_crew);
}

TEST(MaxLaunch, without_a_limit_fills_the_device) {
  expect_crews(max_launch(kWarps, 0), 100, 32);
  expect_crews(max_launch(kGroups, 0), 100, 256);
}

TEST(MaxLaunch, fewer_workers_than_a_warp_hold_one_slot_each) {
  expect_crews(max_launch(kWarps, 1), 1, 1);
  expect_crews(max_launch(kWarps, 31), 31, 1);
}

TEST(MaxLaunch, more_workers_are_whole_warps) {
  expect_crews(max_launch(kWarps, 32), 1, 32);
  expect_crews(max_launch(kWarps, 33), 2, 32);
  expect_crews(max_launch(kGroups, 256), 8, 32);
}

TEST(MaxLaunch, does_not_exceed_the_device) {
  expect_crews(max_launch(kWarps, 1'000'000), 100, 32);
}

TEST(ChooseCrews, has_as_many_crews_as_the_work_needs) {
  expect_crews(choose_crews({.count = 100, .slots_per_crew = 32}, 64, 32), 2, 32);
  expect_crews(choose_crews({.count = 100, .slots_per_crew = 32}, 65, 32), 3, 32);
}

TEST(ChooseCrews, keeps_within_the_largest_launch) {
  expect_crews(choose_crews({.count = 100, .slots_per_crew = 32}, 1'000'000, 64), 100, 32);
}

// Of 528 warps, 4 serve each of the five priorities alone; of 66 blocks one does.
TEST(LargestLiveShare, leaves_the_crews_that_serve_one_priority_and_an_eighth_to_others) {
  EXPECT_EQ(backend::cuda::largest_live_share(kWarps, 528), 442u);
  EXPECT_EQ(backend::cuda::largest_live_share(kGroups, 66), 53u);
}

TEST(LargestLiveShare, leaves_one_crew_where_all_serve_every_priority) {
  EXPECT_EQ(backend::cuda::largest_live_share(kWarps, 39), 38u);
  EXPECT_EQ(backend::cuda::largest_live_share(kWarps, 2), 1u);
  EXPECT_EQ(backend::cuda::largest_live_share(kWarps, 1), 1u);
}

TEST(ChooseCrews, has_a_crew_for_no_work) {
  expect_crews(choose_crews({.count = 100, .slots_per_crew = 32}, 0, 0), 1, 1);
}

}  // namespace
}  // namespace everkernel::test
