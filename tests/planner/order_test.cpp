// In which order regions are published.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "everkernel/ir/parser.hpp"
#include "everkernel/planner/policy.hpp"
#include "planner/plan.hpp"

namespace everkernel::planner {
namespace {

using Order = std::vector<Word>;

// A list with its origins, planned.
struct Planned {
  std::vector<abi::WorkItem> items;
  std::vector<Origin> origins = {};
  ir::VerifiedProgram program =
      ir::verify(ir::parse("handler step = 64 { output[0] = output[0] + input[0]; }\n"
                           "handler other = 65 { output[0] = output[0] ^ input[0]; }")
                     .value())
          .value();
  EffectTable effects = EffectTable(&program);
  Plan plan = {};

  PlanRequest request() {
    const PlanRequest made{.items = items, .origins = origins, .effects = &effects, .fuse = false};
    EXPECT_TRUE(planner::plan(made, plan));
    return made;
  }
};

TEST(OrderByPriority, puts_urgent_regions_first_and_equal_ones_in_list_order) {
  Planned list{.items = {{64, 1, 2, 0}, {64, 1, 3, 0}, {64, 1, 4, 0}, {64, 1, 5, 0}},
               .origins = {{0, 3}, {0, 1}, {0, 3}, {0, 0}}};
  const PlanRequest request = list.request();
  EXPECT_EQ(order_by_priority(request, list.plan, 1), (Order{3, 1, 0, 2}));
}

TEST(OrderByPriority, puts_nothing_before_what_it_waits_for) {
  // Item 1 is urgent and reads the output of item 0, which is not urgent.
  Planned list{.items = {{64, 1, 2, 0}, {64, 2, 3, 0}, {64, 1, 4, 0}},
               .origins = {{0, 4}, {0, 0}, {0, 2}}};
  const PlanRequest request = list.request();
  EXPECT_EQ(order_by_priority(request, list.plan, 1), (Order{2, 0, 1}));
}

TEST(OrderByPriority, lets_what_waited_32_turns_rise_one_level) {
  // An item behind a chain of urgent items runs only because it ages.
  Planned chain;
  chain.items.push_back({64, 1, 99, 0});
  for (Word i = 0; i < 100; ++i) chain.items.push_back({64, 1, 2, i});
  chain.origins.assign(101, Origin{0, 0});
  chain.origins[0].priority = 1;
  const PlanRequest chained = chain.request();
  const Order order = order_by_priority(chained, chain.plan, 1);
  const auto place = std::ranges::find(order, 0u) - order.begin();
  EXPECT_EQ(place, static_cast<std::ptrdiff_t>(kAgingTurns) + 1);
  EXPECT_EQ(order_by_priority(chained, chain.plan, 1000).back(), 0u);
}

TEST(OrderByOpcode, sorts_what_waits_for_nothing_and_leaves_the_rest_behind) {
  Planned list{
      .items = {{64, 1, 2, 0}, {65, 1, 3, 0}, {64, 2, 4, 0}, {64, 1, 5, 0}, {65, 1, 6, 0}}};
  const PlanRequest request = list.request();
  EXPECT_EQ(order_by_opcode(request, list.plan), (Order{0, 3, 1, 4, 2}));
}

}  // namespace
}  // namespace everkernel::planner
