// The structures that host and device exchange with a live kernel: its orders, its queues and the
// words that its crews share. Host compilers and NVRTC read this header.
#pragma once

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/queue.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/types.hpp"

namespace everkernel::device {

/// Stretches of a queue that are under way at one time.
inline constexpr Word kStretches = 8;
/// Words of the board of queues that have stretches.
inline constexpr Word kBoardWords = 32;
/// Abort words of a crew: a run of long items uses the next one in turn.
inline constexpr Word kAbortWords = 32;

/// Consecutive tickets that crews run in portions (device/live_streams.cuh).
struct LiveStretch {
  Wide first;  ///< ticket
  Wide size;   ///< its number in the upper half, its tickets in the lower one
  Word left;   ///< portions that have not ended
  Word unused;
};

/// A queue as the kernel has it. The host fills it before the queue is in any orders.
struct alignas(128) LiveQueueRow {
  const Word* entries;   ///< in the producer file
  Word* outcomes;        ///< bytes, or quads with results, in the kernel file
  Word* fault_codes;     ///< in the kernel file; null with results
  Word* slots;           ///< a slot for each place, for items that are not run from registers alone
  unsigned char* ended;  ///< for each place the outcome byte of the ticket that ended there last
  Word* waiting;         ///< a bit for each place: its item waits in its slot
  Word capacity;         ///< places
  Word is_full;          ///< entries are full
  Word has_results;      ///< outcomes are completions with results
  Word tenant;           ///< 0..28
  Word priority;         ///< 0..4
  Word number;           ///< names the queue in LiveSeat; not 0
  Wide first_ticket;     ///< begins an even lap
  Wide head;             ///< the next ticket; the crew that looks stores it
  Word waiting_count;    ///< bits that are set in `waiting`
  Word next_waiting;     ///< the place from which the crew that looks searches for the next one
  Word whole_windows;    ///< narrow windows in a row that were whole, when a crew stopped looking
  alignas(128) Wide claim;            ///< number of the present stretch, portions of it pulled
  LiveStretch stretches[kStretches];  ///< by their number
};

/// What crews are to do when they hold no items any more.
enum class Leaving : Word {
  stay,    ///< look for others
  leave,   ///< leave, each by itself
  gather,  ///< wait for each other, and leave together (device/live_duty.cuh)
};

/// What crews work by. But for one word, orders never change: the host writes new ones and then
/// their address, and frees the old ones when no crew has them any more.
struct alignas(16) LiveOrders {
  Word epoch;                                 ///< counts the orders of a kernel
  Leaving leaving;                            ///< whether crews are to leave, and how
  const void* table;                          ///< entries of the buffer table
  Word table_mask;                            ///< of the buffer table
  Word level_begin[abi::kPriorityCount + 1];  ///< where the queues of each priority begin
  Word gathered;                              ///< crews that wait to leave; crews count it
  LiveQueueRow* const* queues;                ///< by priority, most urgent first, then by tenant
  const Wide* limits;                         ///< of each, the first ticket not to take; or null
};

/// A bit of `gathered`: there were newer orders before all crews had gathered, and none leaves.
inline constexpr Word kCalledOff = 1u << 31;

/// What a crew is at, in one word: the epoch of its orders in the upper half. The lower half is 0
/// while the crew looks or waits, and the number of a queue while it runs items of that queue
/// alone. A crew that has not begun, or has left together with all others, has 0 there: when it
/// begins, it reads the orders behind kSeatArrived.
inline constexpr Wide kSeatArrived = 0xFFFFFFFFu;  ///< the crew has no orders yet
inline constexpr Wide kSeatLeft = ~Wide{0};        ///< the crew has left

/// Which long items a crew runs (device/live_marks.cuh). Each of the first three quads is stored as
/// one, and begins with the number of the run, twice, plus one: the mark is sound if all three say
/// the same. When the run is over, the first word of all loses the one.
struct alignas(64) LiveMark {
  Word state;
  Word queue;  ///< its number
  Wide since;  ///< when the run began, on the device's clock
  Word state_of_items;
  Word lanes;   ///< bit i: the crew runs ticket + i
  Wide ticket;  ///< the first one
  Word state_of_place;
  Word opcode;          ///< of the first one
  Word multiprocessor;  ///< where the crew is
  Word unused;          ///< zero
  Word epoch;           ///< of the last orders that the crew acknowledged
  Word unused_too;      ///< zero
  Wide acknowledged;    ///< when it did, on the device's clock
};

/// How many times the host has begun to set abort words, in the upper half, and how many of them
/// are over, in the lower one. Only the host writes it.
struct alignas(128) LivePasses {
  Wide begun_and_over;
  Word never;  ///< zero: the abort word of items that end soon by construction
};

/// Items that ended, since the kernel began.
struct LiveTotals {
  Wide done;
  Wide faulted;
  Wide tenant_claims[abi::kControlTenantFairness.count];
  Wide priority_claims[abi::kPriorityCount];
  Wide executions[abi::kControlMetrics.count];  ///< by opcode below 32
};
inline constexpr Word kLiveTotalsWords = sizeof(LiveTotals) / sizeof(Wide);

/// A lock on a line of its own.
struct alignas(128) LiveLock {
  Word is_held;
  Word urgent;   ///< urgent takes in a row, of a crew that looks at every priority
  Word turn;     ///< of queues that have long items
  Word offered;  ///< epoch of the orders whose open stretches are on the board
};

/// The words that crews share. Zero when the kernel begins.
struct alignas(128) LiveShared {
  const LiveOrders* orders;                            ///< the present ones; the host stores it
  alignas(128) LiveLock looking[abi::kPriorityCount];  ///< held by the crew that looks
  alignas(128) Wide board[kBoardWords];                ///< queues that have stretches
  alignas(128) LiveTotals totals;
  alignas(128) Wide prefetches;                     ///< IO slots of prefetches, one bit each
  Word hits_dropped;                                ///< emits, which have no place to go
  Word parked;                                      ///< epoch by which crews left together last
  Word in_flight[abi::kControlTenantQuotas.count];  ///< items of tenants that are counted
};

/// The parameters of the live kernel.
struct LiveParams {
  LiveShared* shared;
  Wide* seats;               ///< one for each crew
  LiveMark* marks;           ///< one for each crew
  Word* aborts;              ///< kAbortWords for each crew; non-zero ends the items of a run
  const LivePasses* passes;  ///< of the host over the abort words
  Wide* executions;          ///< by index of the handler; behind them the large built-ins
  Word* control;
  Word* debug_log;
  Word* io_queue;
  Word control_words;
  Word debug_log_words;
  Word io_words;
  Word crew_count;
  Word slots_per_crew;
  Word group_lanes;  ///< `lanes` of handlers of scope group
  Word handler_count;
  Wide fuel_per_item;     ///< turns of loops
  Word home_crews;        ///< crews that serve one priority each; 0: every crew serves all
  Word longest_pause_ns;  ///< between two looks of a kernel without work; 0: it never pauses
  Word answer_cycles;     ///< for a host thread to answer an outcome with the next item
  Word settled_epoch;     ///< orders up to this one do not ask crews to gather any more
};

}  // namespace everkernel::device
