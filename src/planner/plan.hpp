// Which items wait for which: hazards, dropped duplicates and regions of a work queue, in linear
// time.
//
// plan() scans the list once. It keeps the last writer of every handle and the readers since, and
// turns each access into edges to those items. docs/decisions/0008-a-run-is-a-graph.md has the
// rules for commuting groups and barriers and why a region needs no table of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/backend.hpp"
#include "everkernel/backend/detail/graph.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/memory/large_array.hpp"
#include "planner/effects.hpp"

namespace everkernel::planner {

using backend::Origin;

/// Items at the beginning of a list from which its depth is computed.
inline constexpr std::size_t kLeveledItems = 1'000'000;

/// The input of plan().
struct PlanRequest {
  std::span<const abi::WorkItem> items = {};  ///< at most 2^30
  std::span<const Origin> origins = {};       ///< one for each item, or empty
  Origin origin = {};                         ///< of every item when `origins` is empty
  const EffectTable* effects = nullptr;       ///< effects of opcodes
  bool ordered = true;                        ///< whether hazards hold
  bool dedupe = true;                         ///< whether equal pure items are dropped
  bool fuse = true;                           ///< whether chains become regions
  backend::Deadline deadline = {};            ///< when planning fails with `timeout`
};

/// An item that does not run because an equal one does.
struct Duplicate {
  Word item = 0;  ///< dropped
  Word kept = 0;  ///< runs for it
};

/// How many items of a list have an opcode.
struct OpcodeCount {
  Word opcode = 0;          ///< the opcode
  std::uint64_t items = 0;  ///< items that have it and were not dropped
};

/// The output of plan(); its storage is reused.
struct Plan {
  std::span<std::uint8_t> places = {};      ///< of items in their regions, or kDroppedPlace
  std::span<backend::Node> nodes = {};      ///< of items: the nodes that wait for them
  std::span<Word> waiting_for = {};         ///< of items: how many nodes they wait for
  std::vector<backend::Node> joins = {};    ///< nodes that wait for many nodes and run nothing
  std::vector<Word> join_waiting_for = {};  ///< of joins: how many nodes they wait for
  std::span<backend::Edge> edges = {};      ///< of nodes with several waiters
  std::vector<Duplicate> duplicates = {};   ///< in order of dropped items
  std::uint64_t dependencies = 0;           ///< pairs of a node and one that waits for it
  Word depth = 0;                      ///< longest chain in the first kLeveledItems; at most 65535
  std::uint64_t regions = 0;           ///< first items
  std::uint64_t ready_regions = 0;     ///< regions that wait for nothing
  backend::HandlePlaces handles = {};  ///< of every handle that items touch
  bool has_priorities = false;         ///< whether items differ in priority
  std::vector<OpcodeCount> opcodes = {};  ///< the most frequent one first

  /// The memory behind the spans, and temporary memory of planning.
  struct Arrays {
    memory::LargeArray<std::uint8_t> places;  ///< one byte for each item
    memory::LargeArray<backend::Node> nodes;  ///< one for each item
    memory::LargeArray<Word> waiting_for;     ///< one for each item
    memory::LargeArray<backend::Edge> edges;  ///< as many as there are
    memory::LargeArray<Word> links;           ///< two for each item; free to use after planning
    memory::LargeArray<std::byte> handles;    ///< state of every handle while planning
    std::vector<Word> handle_keys;            ///< of `handles`
  } arrays = {};                              ///< kept from plan to plan

  /// The item that follows this one in its region, or kNoNode.
  Word next_of(Word item) const {
    const Word waiter = nodes[item].only_waiter();
    return waiter < nodes.size() && places[waiter] != 0 ? waiter : backend::kNoNode;
  }
  /// Bytes in use beside the list.
  std::size_t size_bytes() const;
};

/// Plans. Fails with `invalid_argument` for an opcode without a handler, a tenant above 28, a
/// priority above 4, or a wrong number of origins; the message names the item. Fails with
/// `timeout` at the deadline.
Result<void> plan(const PlanRequest& request, Plan& target);

/// First items of regions, ordered by priority; no region comes before one that it waits for.
/// Waiting regions rise one level after kAgingTurns turns of `turn_regions` regions each.
std::vector<Word> order_by_priority(const PlanRequest& request, const Plan& plan,
                                    std::size_t turn_regions);
/// First items of regions, those that wait for nothing sorted by opcode within windows of the list,
/// and before those of their window that wait.
std::vector<Word> order_by_opcode(const PlanRequest& request, const Plan& plan);

}  // namespace everkernel::planner
