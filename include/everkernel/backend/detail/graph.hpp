// Planned work the way workers read it: items, what waits for what, and where results go.
//
// The planner makes it, a live kernel runs it. A slot of the ring then stands for a portion of the
// order of regions instead of one operation. A region is named by its first item; it goes on with
// the only item that waits for its last one, as long as that one's place is not 0. A region that
// waits counts its own claim as one more thing it waits for: whoever brings the count to zero runs
// it, and there is no way back through host or ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/hit_buffer.hpp"
#include "everkernel/backend/item.hpp"

namespace everkernel::backend {

using abi::Word;

/// No node, no edge.
inline constexpr Word kNoNode = 0xFFFFFFFFu;
/// Bit that says that more than one node waits. Numbers of nodes are below it.
inline constexpr Word kMany = 0x80000000u;
/// Place of an item that does not run because an equal one does.
inline constexpr std::uint8_t kDroppedPlace = 0xFF;
/// Most items of a region.
inline constexpr Word kMaxRegionItems = 64;

/// What waits for an item or join. Most have one waiter, and that one is here; others are edges.
struct Node {
  Word last_waiter = kNoNode;  ///< the one that was added last; with kMany if there are others
  Word others = kNoNode;       ///< edges to the others

  /// The only node that waits for this one, or kNoNode.
  Word only_waiter() const { return (last_waiter & kMany) == 0 ? last_waiter : kNoNode; }
};

/// One more node that waits.
struct Edge {
  Word waiter = 0;      ///< the node that waits
  Word next = kNoNode;  ///< next edge of the node it waits for
};

/// Which portion of the order a slot stands for.
struct Portion {
  Word first = 0;  ///< place in the order
  Word count = 0;  ///< places
  Word left = 0;   ///< regions in it that have not ended; accessed atomically
};

/// Handles by place: a hash table with open addressing, or the handle itself is its place.
struct HandlePlaces {
  std::span<const Word> keys = {};  ///< 0 = free; a power of two; empty = place is the handle
  std::size_t count = 0;            ///< places

  /// Where the search for a handle begins.
  static constexpr std::size_t home(Word handle, std::size_t mask) {
    return (std::size_t{handle} * 0x9E3779B97F4A7C15u >> 24) & mask;
  }
  /// The place of a handle that is there.
  std::size_t find(Word handle) const {
    if (keys.empty()) return handle;
    const std::size_t mask = keys.size() - 1;
    std::size_t at = home(handle, mask);
    while (keys[at] != handle) at = (at + 1) & mask;
    return at;
  }
};

/// Publishes more of planned work, on the thread that calls it.
struct Refill {
  bool (*call)(void* self) = nullptr;  ///< says whether there was more and room for it
  void* self = nullptr;                ///< passed to it
};

/// Everything a live kernel needs to run planned work. Nodes below items.size() are items, those
/// above are joins: they run nothing and only pass on. What it refers to outlives the kernel.
struct WorkGraph {
  std::span<const abi::WorkItem> items = {};  ///< the list
  std::span<const Origin> origins = {};       ///< one an item, or empty
  Origin origin = {};                         ///< of every item when `origins` is empty
  bool ordered = true;                        ///< whether a fault reaches what depends on it
  bool ages = false;  ///< whether items that asked to run again later go before fresh regions
  std::span<const std::uint8_t> places = {};  ///< of an item in its region, or kDroppedPlace
  std::span<const Node> nodes = {};           ///< of an item: what waits for it
  std::span<const Node> joins = {};           ///< of a join: what waits for it
  std::span<const Edge> edges = {};           ///< of nodes with several waiters
  std::span<Word> waiting_for = {};           ///< of an item: nodes it waits for; atomic
  std::span<Word> join_waiting_for = {};      ///< of a join: nodes it waits for; atomic
  std::span<Word> slot_of = {};               ///< of a region that waits: its slot
  std::span<const Word> order = {};           ///< first items of regions; empty = list order
  std::span<Portion> portions = {};           ///< one a slot of the ring
  std::span<Word> outcomes = {};              ///< one an item; atomic
  HandlePlaces handles = {};                  ///< of every handle that items touch
  std::span<Word> poisoned_by = {};  ///< of a handle: the opcode whose fault poisoned it; atomic
  HitBuffer hits = {};               ///< where emit puts its hits

  /// What a worker may call that has run out of slots, from any thread. Feeding the ring then waits
  /// for nobody to wake up. The host feeds it as well, so that a backend need not.
  Refill refill = {};

  /// The item that a region goes on with after this one, or kNoNode.
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
  /// Whose an item is.
  const Origin& origin_of(Word item) const { return origins.empty() ? origin : origins[item]; }
};

}  // namespace everkernel::backend
