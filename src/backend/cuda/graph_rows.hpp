// The structures that host and device exchange with planned work: the graph of
// everkernel/backend/detail/graph.hpp as it lies on the device, and the report of a launch. Host
// compilers and NVRTC read this header.
#pragma once

#include "backend/cuda/launch_rows.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/types.hpp"

namespace everkernel::device {

/// Constants of backend/detail/graph.hpp.
inline constexpr Word kNoNode = 0xFFFFFFFFu;
inline constexpr Word kMany = 0x80000000u;
inline constexpr Word kItemDone = 0x10000;

/// Several waiters of one node form chunks of this many, which a lane counts down together. kNoNode
/// fills the last chunk.
inline constexpr Word kChunkWaiters = 8;

/// The nodes that wait for an item or join.
struct alignas(8) Waiters {
  Word only;  ///< the only waiter; kNoNode = none; kMany | number of chunks = several
  /// Of several waiters; of one: its place in the region of this node, or kWaitsAlone or 0, if it
  /// begins another.
  Word first_chunk;
};
/// The only waiter of a node begins a region and waits for no other node.
inline constexpr Word kWaitsAlone = 0x100;

/// The ticket of a region that nobody has claimed.
inline constexpr Word kNoTicket = 0xFFFFFFFFu;

/// A region of a portion that a launch begins with.
struct alignas(16) FreshRegion {
  Word item;             ///< the first item of the region
  Word ticket;           ///< of the portion
  Word portion_regions;  ///< regions of the portion; 0 in all rows of the portion but one
  Word unused;           ///< zero
};

/// A region that was put aside and must run again; backend::cpu::Continuation.
struct alignas(16) Continuation {
  Word item;                  ///< the next item of the region
  Word ticket;                ///< of the region
  Word has_begun;             ///< whether the item has run before and runs again
  Word unused;                ///< zero
  Word args[abi::kSlotArgs];  ///< of the item, if it has begun
};

/// Counts of items since the run began.
struct GraphTotals {
  Wide done;                                              ///< items that reached DONE
  Wide faulted;                                           ///< items that reached FAULT
  Wide nops;                                              ///< items of opcode NOP among those DONE
  Wide requeues;                                          ///< times an item requeued
  Wide tenant_claims[abi::kControlTenantFairness.count];  ///< items claimed, by tenant
  Wide priority_claims[abi::kPriorityCount];              ///< items claimed, by priority
};
inline constexpr Word kTotalsWords = sizeof(GraphTotals) / sizeof(Wide);

/// The words that the crews of a run share. Zero when the run begins.
struct alignas(128) GraphShared {
  Wide fresh;                       ///< fresh regions taken in this launch
  Wide resumed;                     ///< continuations taken in this launch
  alignas(128) Wide head;           ///< released regions and chunks taken
  alignas(128) Wide tail;           ///< released regions and chunks
  alignas(128) Word working;        ///< crews that hold or take regions
  Word departed;                    ///< crews that have left this launch
  alignas(128) Wide aside;          ///< regions put aside in this launch
  Wide finished;                    ///< tickets whose last region ended in this launch
  Word has_faults;                  ///< whether any item has faulted; else no handle is poisoned
  Word unused;                      ///< zero
  alignas(128) GraphTotals totals;  ///< since the run began
};

/// The result of a launch. In host memory.
struct GraphReport {
  Wide aside;          ///< regions put aside
  Wide finished;       ///< tickets whose last region ended
  Wide emitted;        ///< hits since the run began, including those that did not fit
  Word is_shut_down;   ///< SHUTDOWN was set
  Word unused;         ///< zero
  GraphTotals totals;  ///< since the run began
};

/// The parameters of the graph kernel.
struct GraphParams {
  LaunchParams launch;            ///< `first` has control words, debug log, hits and quotas
  const Word* leave;              ///< non-zero: crews finish the items that they hold and leave
  const abi::WorkItem* items;     ///< of the run
  const unsigned short* origins;  ///< tenant and priority of each item, or null
  const Waiters* nodes;           ///< waiters of each item; null: none has any
  const Waiters* joins;           ///< waiters of each join
  const Word* chunks;             ///< kChunkWaiters words each
  Word* waiting_for;              ///< nodes that each item waits for
  Word* join_waiting_for;       ///< nodes that each join waits for; later a link (graph_kernel.cuh)
  Word* ticket_of;              ///< of a region that waits, by its first item
  Word* outcomes;               ///< one for each item
  const Word* keys;             ///< handle of each place; null: the place of a handle is the handle
  Wide key_mask;                ///< places minus one
  Word* poisoned_by;            ///< poison of each place (graph_faults.cuh)
  Word* released;               ///< the queue: first items, or item_count + chunk; plus one each
  Word* left;                   ///< open regions, by place of the ticket
  GraphShared* shared;          ///< by all crews
  const FreshRegion* fresh;     ///< regions that this launch begins with, in host memory
  Wide fresh_count;             ///< number of `fresh`
  const Continuation* resumed;  ///< regions that earlier launches put aside
  Wide resumed_count;           ///< number of `resumed`
  Continuation* aside;          ///< room for the regions that this launch puts aside
  Word* finished;               ///< tickets, in host memory
  GraphReport* report;          ///< in host memory
  Word item_count;              ///< nodes below this number are items, the others joins
  Word origin;                  ///< of all items if `origins` is null
  Word is_ordered;              ///< whether a fault poisons the handles that the item wrote
  Word ages;                    ///< whether resumed regions are taken before fresh ones
  Word crew_count;              ///< crews of this launch
};

}  // namespace everkernel::device
