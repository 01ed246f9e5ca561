// The structures that host and device exchange with a launch of a drain. Host compilers and NVRTC
// read this header, like those of abi/. graph_rows.hpp is the same for planned work.
#pragma once

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/hit.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/types.hpp"

namespace everkernel::device {

/// The order in which crews take slots; the numbers are those of backend::Schedule.
enum class Schedule : Word { direct = 0, priority = 1, ticket = 2 };

/// The words that the crews of one submission share while a launch runs. Zero when the launch
/// begins: the crew that ends a launch clears those of the next.
struct alignas(128) Shared {
  Wide progress;                                 ///< crews that work and moves (drain_kernel.cuh)
  Word setup;                                    ///< 0 untouched, 1 being read, 2 ready, 3 refused
  Word first_ticket;                             ///< of the ticket schedule
  alignas(128) Wide fresh[abi::kPriorityCount];  ///< positions handed out, by partition
  Wide fresh_end[abi::kPriorityCount];           ///< end of the positions, written by the setup
  alignas(128) Wide head[abi::kPriorityCount];   ///< of the queue of slots to visit again
  alignas(128) Wide tail[abi::kPriorityCount];   ///< of the same queue
  alignas(128) Wide done;                        ///< items that reached DONE
  Wide faulted;                                  ///< items that reached FAULT
  Wide claimed_at_entry;                         ///< slots that were CLAIMED before the launch
  Wide moved;                                    ///< visits that ended or deferred a slot
  Word hits_dropped;                             ///< hits that did not fit
  Word taken;                                    ///< positions of `fresh`, counted by their takers
  Wide prefetches;                               ///< IO slots of prefetches, one bit each
  Word in_flight[abi::kControlTenantQuotas.count];  ///< claimed slots of tenants with small quotas
};

/// The result of a launch over one submission. In host memory; the crew that ends the drain writes
/// it.
struct LaunchResult {
  Wide done;                       ///< items that reached DONE
  Wide faulted;                    ///< items that reached FAULT
  Wide claimed_at_entry;           ///< slots that were CLAIMED before the launch
  Wide moved;                      ///< visits that ended or deferred a slot
  Wide hits;                       ///< hits, including those that did not fit
  Wide hits_dropped;               ///< hits that did not fit
  Wide head[abi::kPriorityCount];  ///< of the queue: the slots from here …
  Wide tail[abi::kPriorityCount];  ///< … to here have not ended
  Word laps;                       ///< laps of the queue, by which the tags of its cells advanced
  Word is_refused;                 ///< control words are not valid for the schedule; nothing ran
  Word is_settled;                 ///< whether it is known that no slot can run
  Word is_shut_down;               ///< SHUTDOWN was set
  Word is_aborted;                 ///< the abort word was set: the deadline has passed
  Word has_begun;                  ///< whether any slot was taken
  Word first_ticket;               ///< of the ticket schedule
  Word ticket_count;               ///< of the ticket schedule
  Word is_surveyed;                ///< whether `active` is set
  Word active;                     ///< slots that are still active
  Word has_moved_head;             ///< whether HEAD and TAIL are stored
  Word words[abi::kControlPriorityOffsets.count];  ///< the offsets or tickets that the setup read
};

/// One submission of a launch.
struct Submission {
  Word* control;
  Word* ring;
  Word* debug_log;
  Word* io_queue;
  Word control_words;
  Word slot_count;
  Word debug_log_words;
  Word io_words;
  Shared* shared;                        ///< of this launch
  Shared* next_shared;                   ///< of the next launch; this one clears it
  Wide* cells;                           ///< of the queue, cell_mask + 1 for each partition
  const Wide* list;                      ///< cells to visit instead of the ring, or null
  Wide list_begin[abi::kPriorityCount];  ///< positions in the list, by partition
  Wide list_end[abi::kPriorityCount];    ///< positions in the list, by partition
  Word* notes;                           ///< one for each slot: state of a slot in the queue
  abi::Hit* hits;                        ///< room for hits
  Wide hit_capacity;                     ///< hits that fit
  Wide* emitted;                         ///< hits so far; null = no room for any
  LaunchResult* result;                  ///< in host memory
  Word cell_mask;                        ///< cells of a partition, a power of two, minus one
  Word tag_base;                         ///< the first tag of the cells
};
static_assert(sizeof(Submission) % sizeof(Wide) == 0);

/// The values that all items of a launch have in common.
struct LaunchContext {
  const void* entries;  ///< of the buffer table
  Word* abort;          ///< non-zero ends items
  Wide fuel_per_item;   ///< turns of loops
  Word entry_mask;      ///< of the buffer table
  Word worker_count;    ///< most slots that can be claimed at the same time
  Word group_lanes;     ///< `lanes` of handlers of scope group
};

/// The parameters of the drain kernel.
struct LaunchParams {
  Submission first;        ///< the only submission, or the first
  const Submission* rows;  ///< all submissions if there are several, else null
  LaunchContext context;   ///< of all items
  Word submission_count;   ///< number of submissions
  Word slots_per_crew;     ///< slots that a crew visits together
};

/// The result of a survey.
struct SurveyResult {
  Word active;        ///< slots that are still active
  Word first_active;  ///< position of the first active ticket, or the number of tickets
};

/// The parameters of the survey kernel, for one ring.
struct SurveyParams {
  Word* ring;
  SurveyResult* result;  ///< the host sets `active` to 0 and `first_active` to the ticket count
  Word slot_count;
  Word first_ticket;
  Word ticket_count;
};

}  // namespace everkernel::device
