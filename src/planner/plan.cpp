// Plans a list of items: checks it, finds which items wait for which, then makes regions.
#include "planner/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "planner/hazard_scan.hpp"
#include "planner/opcode_ranks.hpp"
#include "planner/plan_check.hpp"

namespace everkernel::planner {
namespace {

using backend::kDroppedPlace;

// Distance, in items, of the prefetch of waiters while regions are made.
constexpr std::size_t kFetchWaiters = 24;

// A region continues with the only waiter of an item, if that waits for no other node.
void make_regions(Plan& plan, bool fuse) {
  const std::size_t count = plan.nodes.size();
  plan.regions = 0;
  plan.ready_regions = 0;
  for (std::size_t item = 0; item < count; ++item) {
    if (item + kFetchWaiters < count) {
      const Word ahead = plan.nodes[item + kFetchWaiters].only_waiter();
      if (ahead < count) {
        __builtin_prefetch(&plan.waiting_for[ahead]);
        __builtin_prefetch(&plan.places[ahead], 1);
      }
    }
    const std::uint8_t place = plan.places[item];
    if (place == kDroppedPlace) continue;
    if (place == 0) {
      ++plan.regions;
      if (plan.waiting_for[item] == 0) ++plan.ready_regions;
    }
    const Word waiter = plan.nodes[item].only_waiter();
    if (!fuse || waiter >= count || place + 1u >= backend::kMaxRegionItems) continue;
    if (plan.waiting_for[waiter] == 1) plan.places[waiter] = static_cast<std::uint8_t>(place + 1);
  }
}

// Leaves out the items that were dropped, and sorts.
void sort_opcodes(const PlanRequest& request, Plan& plan) {
  OpcodeRanks ranks;
  if (!plan.duplicates.empty()) {
    for (const OpcodeCount& count : plan.opcodes) static_cast<void>(ranks[count.opcode]);
  }
  for (const Duplicate& duplicate : plan.duplicates) {
    --plan.opcodes[ranks[request.items[duplicate.item].op_handle]].items;
  }
  std::ranges::sort(plan.opcodes, [](const OpcodeCount& a, const OpcodeCount& b) {
    return std::pair(b.items, a.opcode) < std::pair(a.items, b.opcode);
  });
}

}  // namespace

std::size_t Plan::size_bytes() const {
  const auto bytes = [](const auto& values) { return values.size() * sizeof(*values.data()); };
  return bytes(places) + bytes(nodes) + bytes(waiting_for) + bytes(joins) +
         bytes(join_waiting_for) + bytes(edges) + bytes(duplicates) +
         2 * nodes.size() * sizeof(Word) + handles.count * handle_state_bytes() +
         bytes(arrays.handle_keys);
}

Result<void> plan(const PlanRequest& request, Plan& target) {
  CheckedList checked = EVERKERNEL_TRY(check_list(request));
  target.has_priorities = checked.has_priorities;
  target.opcodes = std::move(checked.opcodes);
  const std::size_t count = request.items.size();
  target.places = target.arrays.places.take(count);
  target.nodes = target.arrays.nodes.take(count);
  target.waiting_for = target.arrays.waiting_for.take(count);
  std::ranges::fill(target.places, std::uint8_t{0});
  std::ranges::fill(target.nodes, backend::Node{});
  std::ranges::fill(target.waiting_for, 0);
  target.joins.clear();
  target.join_waiting_for.clear();
  target.duplicates.clear();
  target.dependencies = 0;
  target.depth = 1;
  target.edges = {};
  target.handles = {};
  if (checked.effects == 0) {  // no item touches a handle: each is a region
    target.regions = target.ready_regions = count;
    sort_opcodes(request, target);
    return {};
  }
  target.edges = target.arrays.edges.take(2 * count + 16);
  if (!scan_hazards(request, checked.max_handle, target)) {
    return fail(Code::timeout, "run: the timeout ended while the list was planned",
                "raise `timeout`");
  }
  make_regions(target, request.fuse);
  sort_opcodes(request, target);
  return {};
}

}  // namespace everkernel::planner
