// What waits for what: hazards, dropped duplicates and regions of a work queue, in linear time.
//
// plan() reads the list once. It keeps for every handle who wrote it last and who has read it
// since, and turns each access into edges to those. docs/decisions/0008-a-run-is-a-graph.md has the
// rules for commuting groups and barriers and why a region needs no table of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/graph.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/planner/effects.hpp"

namespace everkernel::planner {

using backend::Origin;

/// Memory that is reused from plan to plan and not cleared in between.
template <class T>
class Storage {
 public:
  /// Room for `count` values, whatever they are now.
  std::span<T> take(std::size_t count) {
    if (count > capacity_) {
      values_ = std::make_unique_for_overwrite<T[]>(count);
      capacity_ = count;
      ++allocations_;
    }
    return {values_.get(), count};
  }
  /// Bytes it holds.
  std::size_t size_bytes() const { return capacity_ * sizeof(T); }
  /// Times it had to grow.
  Word allocations() const { return allocations_; }

 private:
  std::unique_ptr<T[]> values_;
  std::size_t capacity_ = 0;
  Word allocations_ = 0;
};

/// What to plan.
struct PlanRequest {
  std::span<const abi::WorkItem> items = {};  ///< at most 2^30
  std::span<const Origin> origins = {};       ///< one an item, or empty
  Origin origin = {};                         ///< of every item when `origins` is empty
  const EffectTable* effects = nullptr;       ///< what opcodes do
  bool ordered = true;                        ///< whether hazards hold
  bool dedupe = true;                         ///< whether equal pure items are dropped
  bool fuse = true;                           ///< whether chains become regions
};

/// An item that does not run because an equal one does.
struct Duplicate {
  Word item = 0;  ///< dropped
  Word kept = 0;  ///< runs for it
};

/// What plan() fills; its storage is reused.
struct Plan {
  std::span<std::uint8_t> places;      ///< of items in their regions, or backend::kDroppedPlace
  std::span<Word> first_edges;         ///< of items: what waits for them
  std::span<Word> waiting_for;         ///< of items: how many nodes they wait for
  std::vector<Word> join_first_edges;  ///< of joins
  std::vector<Word> join_waiting_for;  ///< of joins
  std::vector<backend::Edge> edges;    ///< by index
  std::vector<Duplicate> duplicates;   ///< in order of dropped items
  std::uint64_t regions = 0;           ///< first items
  std::uint64_t ready_regions = 0;     ///< regions that wait for nothing
  backend::HandlePlaces handles = {};  ///< of every handle that items touch
  bool has_priorities = false;         ///< whether items differ in priority

  Storage<std::uint8_t> place_storage;   ///< of `places`
  Storage<Word> edge_storage;            ///< of `first_edges`
  Storage<Word> waiting_storage;         ///< of `waiting_for`
  Storage<Word> links;                   ///< lists of readers and members while planning; then free
  std::vector<std::byte> handle_states;  ///< while planning
  std::vector<Word> handle_keys;         ///< of `handles`

  /// Bytes it holds.
  std::size_t size_bytes() const;
};

/// Plans. Fails with `invalid_argument` for an opcode that is none of the run's, a tenant above 28,
/// a priority above 4, or origins that are not one an item; the message names the item.
Result<void> plan(const PlanRequest& request, Plan& target);

/// First items of regions, the urgent ones early: by priority, but never before what they wait for.
/// Waiting regions rise one level after kAgingTurns turns of `turn_regions` regions each.
std::vector<Word> order_by_priority(const PlanRequest& request, const Plan& plan,
                                    std::size_t turn_regions);
/// First items of regions, those that wait for nothing sorted by opcode within windows of the list,
/// and before those of their window that wait.
std::vector<Word> order_by_opcode(const PlanRequest& request, const Plan& plan);

}  // namespace everkernel::planner
