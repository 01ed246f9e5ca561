// Planned work as workers read it: items, which node waits for which, and where results go.
//
// The planner makes the graph, a kernel runs it. A ticket of a run's queue stands for a portion of
// the order of regions instead of one operation. A region is named by its first item. Its next item
// is the only waiter of the item before, unless the place of that waiter is 0. The count of a
// waiting region includes one for the taking of its ticket. The worker that brings the count to
// zero runs the region, which passes neither the host nor the queue again.
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

/// The stretch of the order that a ticket stands for.
struct Portion {
  Word first = 0;    ///< place in the order
  Word count = 0;    ///< places
  Word regions = 0;  ///< regions that begin there

  /// The entry of its ticket, which holds nothing else: a portion may contain operations that do
  /// not fit a compact entry.
  abi::WorkItem entry() const { return {0, first, count, regions}; }
  /// The portion of an entry.
  static Portion of(const abi::WorkItem& entry) {
    return {entry.input_handle, entry.output_handle, entry.param};
  }
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

/// Everything a kernel needs to run planned work. Nodes below items.size() are items, nodes above
/// are joins, which run nothing. A run has fewer than 2^32 tickets, so a word holds each of them.
/// The memory behind the spans outlives the kernel.
struct WorkGraph {
  std::span<const abi::WorkItem> items = {};  ///< the list
  std::span<const Origin> origins = {};       ///< one for each item, or empty
  Origin origin = {};                         ///< of every item when `origins` is empty
  bool ordered = true;                        ///< whether a fault poisons dependent items
  bool ages = false;        ///< whether items that asked to run again go before new regions
  bool has_waiters = true;  ///< whether any node waits for another
  std::span<const std::uint8_t> places = {};  ///< of an item in its region, or kDroppedPlace
  std::span<const Node> nodes = {};           ///< of an item: the nodes that wait for it
  std::span<const Node> joins = {};           ///< of a join: the nodes that wait for it
  std::span<const Edge> edges = {};           ///< of nodes with several waiters
  std::span<Word> waiting_for = {};           ///< of an item: nodes it waits for; atomic
  std::span<Word> join_waiting_for = {};      ///< of a join: nodes it waits for; atomic
  std::span<Word> ticket_of = {};             ///< of a region that waits: the ticket it belongs to
  std::span<const Word> order = {};           ///< first items of regions; empty = list order
  std::span<Word> left = {};         ///< of a ticket's place: regions that have not ended; atomic
  std::span<Word> outcomes = {};     ///< one for each item; atomic
  HandlePlaces handles = {};         ///< of every handle that items touch
  std::span<Word> poisoned_by = {};  ///< of a handle: the opcode whose fault poisoned it; atomic
  std::span<const Word> barriers = {};  ///< opcodes whose items run alone
  HitStore* hits = nullptr;             ///< where emit puts its hits
  HitStore* prints = nullptr;           ///< where printf puts its records: item, format, two values

  /// A worker that has run out of tickets may call it, on any thread, which saves waking the host.
  /// The host feeds the queue as well, so a backend need not call it.
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
