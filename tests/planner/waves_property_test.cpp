// split_waves() against a model that knows the regions as lists and adds up sets from scratch.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "planner/waves.hpp"
#include "support/results.hpp"

namespace everkernel::planner {
namespace {

using backend::kDroppedPlace;
using backend::kNoNode;
using test::code_of;

using Region = std::vector<Word>;

// A run as lists, and as the planner writes it.
struct Planned {
  std::vector<abi::WorkItem> items = {};
  std::vector<std::uint8_t> places = {};
  std::vector<Region> regions = {};  // in the order of publishing
  std::vector<Word> order = {};
  std::vector<std::vector<Word>> waiters = {};
  std::vector<backend::Node> nodes = {};
  std::vector<Word> keys = {};
  std::vector<std::uint64_t> bytes = {};            // by place
  std::vector<std::uint64_t> bytes_of_handle = {};  // handles are 0 … size − 1
};

// Items that begin a region, go on with one, or are dropped.
void add_items(Planned& run, Word count, Word handles) {
  for (Word item = 0; item < count; ++item) {
    run.items.push_back({*rc::gen::element<Word>(0, 64, 64, 65),
                         *rc::gen::inRange<Word>(0, handles), *rc::gen::inRange<Word>(0, handles),
                         item});
    const Word choice = item == 0 ? 0 : *rc::gen::inRange<Word>(0, 10);
    if (choice == 9) {
      run.places.push_back(kDroppedPlace);
    } else if (choice < 5) {
      run.places.push_back(0);
      run.regions.push_back({item});
    } else {
      Region& region = run.regions[*rc::gen::inRange<std::size_t>(0, run.regions.size())];
      run.places.push_back(static_cast<std::uint8_t>(region.size()));
      region.push_back(item);
    }
  }
}

// Chains within regions; nodes that wait for a region's last item begin another region or are
// joins.
void add_edges(Planned& run) {
  const auto count = static_cast<Word>(run.items.size());
  run.waiters.resize(count);
  for (const Region& region : run.regions) {
    for (std::size_t k = 1; k < region.size(); ++k) run.waiters[region[k - 1]] = {region[k]};
    const Word extra = *rc::gen::inRange<Word>(0, 3);
    for (Word k = 0; k < extra; ++k) {
      const Region& other = run.regions[*rc::gen::inRange<std::size_t>(0, run.regions.size())];
      run.waiters[region.back()].push_back(*rc::gen::arbitrary<bool>() ? other.front() : count);
    }
  }
  for (const std::vector<Word>& waiters : run.waiters) {
    // Which nodes the other waiters are does not matter, only that there are some.
    backend::Node node;
    if (!waiters.empty()) node.last_waiter = waiters.back();
    if (waiters.size() > 1) node = {.last_waiter = waiters.back() | backend::kMany, .others = 0};
    run.nodes.push_back(node);
  }
}

void add_buffers(Planned& run, Word handles) {
  for (Word handle = 0; handle < handles; ++handle) {
    run.bytes_of_handle.push_back(handle == 0 ? 0 : *rc::gen::inRange<std::uint64_t>(0, 30));
  }
  run.bytes = run.bytes_of_handle;
  if (*rc::gen::arbitrary<bool>()) return;
  constexpr std::size_t kPlaces = 64;
  run.keys.assign(kPlaces, 0);
  run.bytes.assign(kPlaces, 1'000'000);  // of places that no handle has
  for (Word handle = 1; handle < handles; ++handle) {
    std::size_t at = backend::HandlePlaces::home(handle, kPlaces - 1);
    while (run.keys[at] != 0) at = (at + 1) % kPlaces;
    run.keys[at] = handle;
    run.bytes[at] = run.bytes_of_handle[handle];
  }
}

Planned random_run() {
  Planned run;
  const Word handles = *rc::gen::inRange<Word>(1, 40);
  add_items(run, *rc::gen::inRange<Word>(1, 60), handles);
  add_edges(run);
  add_buffers(run, handles);
  if (*rc::gen::arbitrary<bool>()) {
    std::shuffle(run.regions.begin(), run.regions.end(),
                 std::mt19937(*rc::gen::arbitrary<std::uint32_t>()));
    for (const Region& region : run.regions) run.order.push_back(region.front());
  }
  return run;
}

// Bytes that regions begin … end − 1 of the order hold at one time.
std::uint64_t bytes_of(const Planned& run, std::size_t begin, std::size_t end) {
  std::set<Word> handles;
  for (std::size_t r = begin; r < end; ++r) {
    for (const Word item : run.regions[r]) {
      if (run.items[item].op_handle == 0) continue;
      handles.insert(run.items[item].input_handle);
      handles.insert(run.items[item].output_handle);
    }
  }
  std::uint64_t sum = 0;
  for (const Word handle : handles) sum += run.bytes_of_handle[handle];
  return sum;
}

// The longest wave that fits, then the longest after it, and so on; no value if a region alone
// exceeds the budget.
std::optional<std::vector<Word>> model(const Planned& run, std::uint64_t room) {
  std::vector<Word> begins;
  std::size_t begin = 0;
  while (begin < run.regions.size()) {
    std::size_t end = run.regions.size();
    while (end > begin && bytes_of(run, begin, end) > room) --end;
    if (end == begin) return std::nullopt;
    begins.push_back(run.order.empty() ? run.regions[begin].front() : static_cast<Word>(begin));
    begin = end;
  }
  return begins;
}

// A budget that is seldom too small for the largest region, and seldom enough for all.
std::uint64_t random_room(const Planned& run) {
  std::uint64_t largest = 0;
  for (std::size_t r = 0; r < run.regions.size(); ++r) {
    largest = std::max(largest, bytes_of(run, r, r + 1));
  }
  const std::uint64_t all = bytes_of(run, 0, run.regions.size());
  const std::uint64_t more = *rc::gen::inRange<std::uint64_t>(0, (all - largest) / 2 + 3);
  return std::max<std::uint64_t>(largest + more, 3) - 2;
}

RC_GTEST_PROP(WavesProperty, are_the_longest_that_fit, ()) {
  const Planned run = random_run();
  const std::uint64_t fixed = *rc::gen::inRange<std::uint64_t>(0, 100);
  const std::uint64_t room = random_room(run);
  const auto waves = split_waves({.items = run.items,
                                  .places = run.places,
                                  .nodes = run.nodes,
                                  .order = run.order,
                                  .handles = {.keys = run.keys, .count = run.bytes.size()},
                                  .handle_bytes = run.bytes,
                                  .budget_bytes = room + fixed,
                                  .fixed_bytes = fixed});
  const auto expected = model(run, room);
  RC_CLASSIFY(expected.has_value(), "fits");
  RC_CLASSIFY(expected && expected->size() > 2, "many waves");
  if (!expected) {
    RC_ASSERT(code_of(waves) == Code::invalid_argument);
    return;
  }
  RC_ASSERT(waves.has_value());
  RC_ASSERT(waves->begins == *expected);
  RC_ASSERT(waves->largest_bytes <= room + fixed);
}

}  // namespace
}  // namespace everkernel::planner
