// Orders to publish regions in. Every order is topological: a queue of any size can then be fed
// without a region waiting for one that is not published.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/planner/policy.hpp"
#include "planner/opcode_ranks.hpp"
#include "planner/plan.hpp"

namespace everkernel::planner {
namespace {

using backend::kDroppedPlace;
using backend::kNoNode;

// Items of the list that are sorted together: waiting items stay near those they wait for.
constexpr std::size_t kSortWindow = 65536;

// Regions whose predecessors are all in the order already, by priority, oldest first.
class Waiting {
 public:
  Waiting(std::size_t turn_regions) : turn_regions_(turn_regions) {}

  void add(Word item, Word level) { levels_[level].entries.push_back({item, turn()}); }

  bool take(Word& item) {
    age();
    for (Level& level : levels_) {
      if (level.first == level.entries.size()) continue;
      item = level.entries[level.first++].item;
      if (level.first == level.entries.size()) {
        level.entries.clear();
        level.first = 0;
      }
      ++taken_;
      return true;
    }
    return false;
  }

 private:
  struct Entry {
    Word item = 0;
    std::uint64_t since = 0;
  };
  struct Level {
    std::vector<Entry> entries;
    std::size_t first = 0;
  };

  std::uint64_t turn() const { return taken_ / turn_regions_; }

  // The oldest regions of each level rise one level after kAgingTurns turns.
  void age() {
    for (std::size_t i = 1; i < levels_.size(); ++i) {
      Level& level = levels_[i];
      while (level.first < level.entries.size() &&
             turn() - level.entries[level.first].since >= kAgingTurns) {
        levels_[i - 1].entries.push_back({level.entries[level.first++].item, turn()});
      }
    }
  }

  std::array<Level, abi::kPriorityCount> levels_;
  std::size_t turn_regions_;
  std::uint64_t taken_ = 0;
};

// Counts, for every node, the predecessors that are not yet in the order.
class Release {
 public:
  Release(const Plan& plan)
      : plan_(plan),
        items_(plan.waiting_for.begin(), plan.waiting_for.end()),
        joins_(plan.join_waiting_for) {}

  // Calls `ready` for every region that waits for nothing more once `item`'s region has run.
  void run_region(Word item, const auto& ready) {
    for (Word next = plan_.next_of(item); next != kNoNode; next = plan_.next_of(item)) item = next;
    release(plan_.nodes[item], ready);
    while (!open_joins_.empty()) {
      const Word join = open_joins_.back();
      open_joins_.pop_back();
      release(plan_.joins[join], ready);
    }
  }

 private:
  void release(const backend::Node& node, const auto& ready) {
    if (node.last_waiter == kNoNode) return;
    release_one(node.last_waiter & ~backend::kMany, ready);
    for (Word at = node.others; at != kNoNode; at = plan_.edges[at].next) {
      release_one(plan_.edges[at].waiter, ready);
    }
  }
  void release_one(Word waiter, const auto& ready) {
    if (waiter < items_.size()) {
      if (--items_[waiter] == 0) ready(waiter);
    } else if (--joins_[waiter - items_.size()] == 0) {
      open_joins_.push_back(waiter - static_cast<Word>(items_.size()));
    }
  }

  const Plan& plan_;
  std::vector<Word> items_;
  std::vector<Word> joins_;
  std::vector<Word> open_joins_;
};

}  // namespace

std::vector<Word> order_by_priority(const PlanRequest& request, const Plan& plan,
                                    std::size_t turn_regions) {
  const auto priority = [&](Word item) -> Word {
    return request.origins.empty() ? request.origin.priority : request.origins[item].priority;
  };
  Waiting waiting(turn_regions);
  for (Word item = 0; item < request.items.size(); ++item) {
    if (plan.places[item] == 0 && plan.waiting_for[item] == 0) waiting.add(item, priority(item));
  }
  std::vector<Word> order;
  order.reserve(plan.regions);
  Release release(plan);
  for (Word item = 0; waiting.take(item);) {
    order.push_back(item);
    release.run_region(item, [&](Word ready) { waiting.add(ready, priority(ready)); });
  }
  return order;
}

std::vector<Word> order_by_opcode(const PlanRequest& request, const Plan& plan) {
  std::vector<Word> order;
  order.reserve(plan.regions);
  OpcodeRanks ranks;
  std::vector<Word> free_items;
  std::vector<Word> places;  // by rank: items so far, then where the next one goes
  for (std::size_t begin = 0; begin < request.items.size(); begin += kSortWindow) {
    const std::size_t end = std::min(request.items.size(), begin + kSortWindow);
    free_items.clear();
    std::ranges::fill(places, 0);
    for (std::size_t item = begin; item < end; ++item) {
      if (plan.places[item] != 0 || plan.waiting_for[item] != 0) continue;
      free_items.push_back(static_cast<Word>(item));
      const Word rank = ranks[request.items[item].op_handle];
      if (rank == places.size()) places.push_back(0);
      ++places[rank];
    }
    auto next = static_cast<Word>(order.size());
    for (Word& place : places) next += std::exchange(place, next);
    order.resize(next);
    for (const Word item : free_items) {
      order[places[ranks[request.items[item].op_handle]]++] = item;
    }
    for (std::size_t item = begin; item < end; ++item) {
      if (plan.places[item] == 0 && plan.waiting_for[item] != 0) {
        order.push_back(static_cast<Word>(item));
      }
    }
  }
  return order;
}

}  // namespace everkernel::planner
