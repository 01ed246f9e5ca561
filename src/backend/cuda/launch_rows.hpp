// What host and device hand each other with a launch. Read by host compilers and by NVRTC, like the
// headers of abi/.
#pragma once

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/hit.hpp"
#include "everkernel/abi/slot.hpp"

namespace everkernel::device {

using abi::Word;
using Wide = unsigned long long;
static_assert(sizeof(Wide) == 8);

/// In which order crews come to slots; the numbers are backend::Schedule's.
enum class Schedule : Word { direct = 0, priority = 1, ticket = 2 };

/// What the crews of one submission share while a launch runs. Zero when the launch begins: the
/// crew that ends a launch clears the one of the next.
struct alignas(128) Shared {
  Wide progress;                                 ///< who works, and what has moved (megakernel.cu)
  Word setup;                                    ///< 0 untouched, 1 being read, 2 ready, 3 refused
  Word first_ticket;                             ///< of the ticket schedule
  alignas(128) Wide fresh[abi::kPriorityCount];  ///< positions handed out, by partition
  Wide fresh_end[abi::kPriorityCount];           ///< where they end, written by the setup
  alignas(128) Wide head[abi::kPriorityCount];   ///< of the queue of slots to look at again
  alignas(128) Wide tail[abi::kPriorityCount];   ///< of the same queue
  alignas(128) Wide done;                        ///< items that reached DONE
  Wide faulted;                                  ///< items that reached FAULT
  Wide claimed_at_entry;                         ///< slots that were CLAIMED before
  Wide moved;                                    ///< visits that changed something
  Word hits_dropped;                             ///< emits that found no room
  Word taken;                                    ///< positions of `fresh` that crews told of
  Wide prefetches;                               ///< IO slots nobody waits for, one bit each
  Word in_flight[abi::kControlTenantQuotas.count];  ///< slots claimed, of tenants with small quotas
};

/// What a drain came to. In memory the host reads; written by the crew that ends it.
struct Outcome {
  Wide done;                       ///< items that reached DONE
  Wide faulted;                    ///< items that reached FAULT
  Wide claimed_at_entry;           ///< slots that were CLAIMED before
  Wide moved;                      ///< visits that changed something
  Wide hits;                       ///< emits, also those without room
  Wide hits_dropped;               ///< emits that found no room
  Wide head[abi::kPriorityCount];  ///< of the queue: from here …
  Wide tail[abi::kPriorityCount];  ///< … to here are slots that have not ended
  Word laps;                       ///< of the queue: how far the tags of its cells have counted
  Word is_refused;                 ///< control words the schedule cannot work with; nothing ran
  Word is_settled;                 ///< whether it is known that nothing can run
  Word is_shut_down;               ///< SHUTDOWN was set
  Word is_aborted;                 ///< the deadline was over
  Word has_begun;                  ///< whether any slot was looked at
  Word first_ticket;               ///< of the ticket schedule
  Word ticket_count;               ///< of the ticket schedule
  Word is_surveyed;                ///< whether `active` is known
  Word active;                     ///< slots that are still active
  Word has_moved_head;             ///< whether HEAD and TAIL are stored
  Word words[abi::kControlPriorityOffsets.count];  ///< what the setup read: offsets, or tickets
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
  Shared* next_shared;                   ///< of the next, to be cleared
  Wide* cells;                           ///< of the queue, cell_mask + 1 a partition
  const Wide* list;                      ///< cells to go through instead of the ring, or null
  Wide list_begin[abi::kPriorityCount];  ///< positions in it
  Wide list_end[abi::kPriorityCount];    ///< positions in it
  Word* notes;                           ///< one a slot: what is known about a slot in the queue
  abi::Hit* hits;                        ///< room for hits
  Wide hit_capacity;                     ///< how many
  Wide* emitted;                         ///< hits so far; null = no room at all
  Outcome* outcome;                      ///< in memory the host reads
  Word cell_mask;  ///< cells of a partition minus one, a power of two minus one
  Word tag_base;   ///< tags of cells count from here
};
static_assert(sizeof(Submission) % sizeof(Wide) == 0);

/// What every item of a launch finds.
struct Surroundings {
  const void* entries;  ///< of the buffer table
  Word* abort;          ///< non-zero ends items
  Wide fuel_per_item;   ///< turns of loops
  Word entry_mask;      ///< of the buffer table
  Word worker_count;    ///< most slots claimed at one time
  Word group_lanes;     ///< `lanes` of handlers of scope group
};

/// A launch.
struct LaunchParams {
  Submission first;        ///< the only submission, or the first
  const Submission* rows;  ///< all of them when there are several, else null
  Surroundings around;     ///< what items find
  Word submission_count;   ///< how many
  Word slots_per_crew;     ///< slots a crew looks at together
};

/// What a survey found.
struct SurveyResult {
  Word active;        ///< slots that are still active
  Word first_active;  ///< position of the first of the ticket schedule, or their count
};

/// A survey of one ring.
struct SurveyParams {
  Word* ring;
  SurveyResult* result;  ///< active counts up from 0, first_active down from the ticket count
  Word slot_count;
  Word first_ticket;
  Word ticket_count;
};

}  // namespace everkernel::device
