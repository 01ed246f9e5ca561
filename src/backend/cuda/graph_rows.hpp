// What host and device hand each other with planned work: everkernel/backend/detail/graph.hpp as it
// lies on the device, and what a launch over it came to. Read by host compilers and by NVRTC.
#pragma once

#include "backend/cuda/launch_rows.hpp"
#include "everkernel/abi/fault.hpp"

namespace everkernel::device {

/// The constants of backend/graph.hpp that workers need.
inline constexpr Word kNoNode = 0xFFFFFFFFu;
inline constexpr Word kMany = 0x80000000u;
inline constexpr Word kItemDone = 0x10000;

/// Several waiters of one node come in chunks of this many; kNoNode fills up the last. A lane
/// counts them down at one time.
inline constexpr Word kChunkWaiters = 8;

/// What waits for an item or join.
struct alignas(8) Waiters {
  Word only;         ///< the only one; kNoNode if there is none; kMany with the number of chunks
  Word first_chunk;  ///< of several
};

/// One region of the portions a launch begins with. The first of a portion tells how many it has.
struct alignas(16) FreshRegion {
  Word item;             ///< its first item
  Word slot;             ///< of its portion
  Word portion_regions;  ///< regions of the portion, 0 in all but one of them
  Word unused;           ///< zero
};

/// A region that has not ended and must run again; backend::cpu::Continuation.
struct alignas(16) Continuation {
  Word item;                  ///< that is next
  Word slot;                  ///< its slot
  Word has_begun;             ///< whether the item has run before and runs again
  Word unused;                ///< zero
  Word args[abi::kSlotArgs];  ///< as the item left them, once it has begun
};

/// What items came to, since the run began.
struct GraphTotals {
  Wide done;                                              ///< items that reached DONE
  Wide faulted;                                           ///< items that reached FAULT
  Wide nops;                                              ///< of those DONE, with opcode NOP
  Wide requeues;                                          ///< times an item asked to run later
  Wide tenant_claims[abi::kControlTenantFairness.count];  ///< items taken, by tenant
  Wide priority_claims[abi::kPriorityCount];              ///< items taken, by priority
};
inline constexpr Word kTotalsWords = sizeof(GraphTotals) / sizeof(Wide);

/// What the crews of a run share. Zero when it begins.
struct alignas(128) GraphShared {
  Wide fresh;                       ///< fresh regions taken in this launch
  Wide resumed;                     ///< continuations taken in this launch
  alignas(128) Wide head;           ///< released regions and chunks taken
  alignas(128) Wide tail;           ///< released regions and chunks
  alignas(128) Word working;        ///< crews that have something to do
  Word departed;                    ///< crews that have left this launch
  alignas(128) Wide aside;          ///< regions put aside in this launch
  Wide finished;                    ///< slots without regions left, in this launch
  Word has_faults;                  ///< whether any item has faulted: until then none is poisoned
  Word unused;                      ///< zero
  alignas(128) GraphTotals totals;  ///< since the run began
};

/// What a launch came to. In memory the host reads.
struct GraphReport {
  Wide aside;          ///< regions put aside
  Wide finished;       ///< slots without regions left
  Wide emitted;        ///< hits since the run began, also those without room
  Word is_shut_down;   ///< SHUTDOWN was set
  Word unused;         ///< zero
  GraphTotals totals;  ///< since the run began
};

/// A launch over planned work.
struct GraphParams {
  LaunchParams launch;            ///< `first` has control words, debug log, hits and quotas
  const Word* leave;              ///< non-zero: crews finish the items they hold and leave
  const abi::WorkItem* items;     ///< the list
  const unsigned short* origins;  ///< tenant and priority of an item, or null
  const unsigned char* places;    ///< of an item in its region
  const Waiters* nodes;           ///< of an item: what waits for it
  const Waiters* joins;           ///< of a join: what waits for it
  const Word* chunks;             ///< kChunkWaiters each
  Word* waiting_for;              ///< of an item: nodes it waits for
  Word* join_waiting_for;         ///< of a join: nodes it waits for; then a link of a lane's list
  Word* slot_of;                  ///< of a region that waits: its slot
  Word* outcomes;                 ///< one an item
  const Word* keys;               ///< handles by place, or null: place is the handle
  Wide key_mask;                  ///< places minus one
  Word* poisoned_by;              ///< of a handle's place: who poisoned it
  Word* released;                 ///< first items, and chunks behind item_count; all plus one
  Word* left;                     ///< of a slot: regions that have not ended
  GraphShared* shared;            ///< what crews share
  const FreshRegion* fresh;       ///< of this launch, in memory of the host
  Wide fresh_count;               ///< how many
  const Continuation* resumed;    ///< what earlier launches put aside
  Wide resumed_count;             ///< how many
  Continuation* aside;            ///< for what this launch puts aside
  Word* finished;                 ///< slots, in memory of the host
  GraphReport* report;            ///< in memory of the host
  Word item_count;                ///< nodes below are items, those above joins
  Word origin;                    ///< of every item when `origins` is null, in the same two bytes
  Word is_ordered;                ///< whether a fault reaches what depends on it
  Word ages;                      ///< whether continuations go before fresh regions
  Word crew_count;                ///< crews of this launch
};

}  // namespace everkernel::device
