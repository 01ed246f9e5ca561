// Planned work as workers read it: items, which node waits for which, and where results go.
//
// The planner makes the graph, a live kernel runs it. A slot of the ring stands for a portion of
// the order of regions instead of one operation. A region is named by its first item. Its next item
// is the only waiter of the item before, unless the place of that waiter is 0. The count of a
// waiting region includes the claim of its own slot. The worker that brings the count to zero runs
// the region, which passes neither the host nor the ring again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/detail/hit_store.hpp"
#include "everkernel/backend/item.hpp"

namespace everkernel::backend {

using abi::Word;

/// Index that means no node or no edge.
inline constexpr Word kNoNode = 0xFFFFFFFFu;
/// Bit that is set if more than one node waits. Numbers of nodes are below it.
inline constexpr Word kMany = 0x80000000u;
/// Place of an item that does not run because an equal item runs.
inline constexpr std::uint8_t kDroppedPlace = 0xFF;
/// Most items of a region.
inline constexpr Word kMaxRegionItems = 64;

/// The nodes that wait for an item or join. The last waiter is here, the others are edges.
struct Node {
  Word last_waiter = kNoNode;  ///< the waiter added last; with kMany if there are others
  Word others = kNoNode;       ///< edges to the others

  /// The only node that waits for this one, or kNoNode.
  Word only_waiter() const { return (last_waiter & kMany) == 0 ? last_waiter : kNoNode; }
};

/// One of several nodes that wait for a node.
struct Edge {
  Word waiter = 0;      ///< the node that waits
  Word next = kNoNode;  ///< next edge of the node it waits for
};

/// The portion of the order that a slot stands for.
struct Portion {
  Word first = 0;  ///< place in the order
  Word count = 0;  ///< places
  Word left = 0;   ///< regions in it that have not ended; accessed atomically
};

/// Places of handles: a hash table with open addressing, or every handle is its own place.
struct HandlePlaces {
  std::span<const Word> keys = {};  ///< 0 = free; a power of two; empty = place is the handle
  std::size_t count = 0;            ///< places

  /// The place at which the search for a handle begins.
  static constexpr std::size_t home(Word handle, std::size_t mask) {
    return (std::size_t{handle} * 0x9E3779B97F4A7C15u >> 24) & mask;
  }
  /// The place of a handle, which must have one.
  std::size_t find(Word handle) const {
    if (keys.empty()) return handle;
    const std::size_t mask = keys.size() - 1;
    std::size_t at = home(handle, mask);
    while (keys[at] != handle) at = (at + 1) & mask;
    return at;
  }
};

/// A function that publishes more planned work on the calling thread.
struct Refill {
  bool (*call)(void* self) = nullptr;  ///< says whether it published anything
  void* self = nullptr;                ///< passed to it
};

/// Everything a live kernel needs to run planned work. Nodes below items.size() are items, nodes
/// above are joins, which run nothing. The memory behind the spans outlives the kernel.
struct WorkGraph {
  std::span<const abi::WorkItem> items = {};  ///< the list
  std::span<const Origin> origins = {};       ///< one for each item, or empty
  Origin origin = {};                         ///< of every item when `origins` is empty
  bool ordered = true;                        ///< whether a fault poisons dependent items
  bool ages = false;  ///< whether items that asked to run again go before new regions
  std::span<const std::uint8_t> places = {};  ///< of an item in its region, or kDroppedPlace
  std::span<const Node> nodes = {};           ///< of an item: the nodes that wait for it
  std::span<const Node> joins = {};           ///< of a join: the nodes that wait for it
  std::span<const Edge> edges = {};           ///< of nodes with several waiters
  std::span<Word> waiting_for = {};           ///< of an item: nodes it waits for; atomic
  std::span<Word> join_waiting_for = {};      ///< of a join: nodes it waits for; atomic
  std::span<Word> slot_of = {};               ///< of a region that waits: its slot
  std::span<const Word> order = {};           ///< first items of regions; empty = list order
  std::span<Portion> portions = {};           ///< one for each slot of the ring
  std::span<Word> outcomes = {};              ///< one for each item; atomic
  HandlePlaces handles = {};                  ///< of every handle that items touch
  std::span<Word> poisoned_by = {};     ///< of a handle: the opcode whose fault poisoned it; atomic
  std::span<const Word> barriers = {};  ///< opcodes whose items run alone
  HitStore* hits = nullptr;             ///< where emit puts its hits
  HitStore* prints = nullptr;           ///< where printf puts its records: item, format, two values

  /// A worker that has run out of slots may call it, on any thread, which saves waking the host.
  /// The host feeds the ring as well, so a backend need not call it.
  Refill refill = {};

  /// The item that follows this one in its region, or kNoNode.
  Word next_of(Word item) const {
    const Word waiter = nodes[item].only_waiter();
    return waiter < items.size() && places[waiter] != 0 ? waiter : kNoNode;
  }
  /// Calls `visit` with every node that waits for this one.
  void for_each_waiter(const Node& node, const auto& visit) const {
    if (node.last_waiter == kNoNode) return;
    visit(node.last_waiter & ~kMany);
    for (Word at = node.others; at != kNoNode; at = edges[at].next) visit(edges[at].waiter);
  }
  /// Tenant and priority of an item.
  const Origin& origin_of(Word item) const { return origins.empty() ? origin : origins[item]; }
};

}  // namespace everkernel::backend
