// The schedule of this module: the order in which a drain takes fresh slots, and the range of fresh
// slots, which the first crew of a launch reads from the control words.
#pragma once

#include "backend/cuda/device/requeue.cuh"
#include "backend/cuda/launch_rows.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

// A module is compiled for one schedule, without the code of the others.
inline constexpr Schedule kSchedule{EVERKERNEL_SCHEDULE};
inline constexpr bool kByPriority = kSchedule == Schedule::priority;
inline constexpr bool kByTicket = kSchedule == Schedule::ticket;
inline constexpr Word kPartitions = kByPriority ? abi::kPriorityCount : 1;

/// The slots in all queues of a submission.
EK_DEVICE Wide queue_length(const Submission& row) {
  Wide length = 0;
  for (Word i = 0; i < kPartitions; ++i) length += Queue{row, i}.size();
  return length;
}

/// Reads the range of fresh slots of each priority. Returns whether the control words are valid.
EK_DEVICE bool read_offsets(const Submission& row) {
  constexpr Word kCount = abi::kControlPriorityOffsets.count;
  const Words control(row.control, row.control_words);
  Word offsets[kCount];
  Word any = 0;
#pragma unroll
  for (Word i = 0; i < kCount; ++i) {
    offsets[i] = control.load_relaxed(abi::kControlPriorityOffsets.first + i);
    any |= offsets[i];
  }
  if (any == 0) {  // the default split: a fifth each, the remainder to NORMAL
    const Word share = row.slot_count / abi::kPriorityCount;
    const Word rest = row.slot_count - share * abi::kPriorityCount;
#pragma unroll
    for (Word i = 0; i < kCount; ++i) offsets[i] = i * share + (i > 2 ? rest : 0);
  }
  bool is_sound = offsets[0] == 0 && offsets[kCount - 1] == row.slot_count;
#pragma unroll
  for (Word i = 0; i + 1 < kCount; ++i) is_sound = is_sound && offsets[i] <= offsets[i + 1];
#pragma unroll
  for (Word i = 0; i < kCount; ++i) store_for_host(row.result->words + i, offsets[i]);
#pragma unroll
  for (Word i = 0; i < abi::kPriorityCount; ++i) {
    WideWord(row.shared->fresh + i).store_relaxed(is_sound ? offsets[i] : 0);
    WideWord(row.shared->fresh_end + i).store_relaxed(is_sound ? offsets[i + 1] : 0);
  }
  return is_sound;
}

/// Reads the range of tickets. Returns whether the control words are valid.
EK_DEVICE bool read_tickets(const Submission& row) {
  const Words control(row.control, row.control_words);
  const Word first = control.load_relaxed(abi::kControlTicketHead.first);
  const Word tail = control.load_relaxed(abi::kControlTicketTail.first);
  const bool is_untouched = first == 0 && tail == 0;
  const Word count = is_untouched ? row.slot_count : tail - first;
  const bool is_sound = count <= row.slot_count;
  one_word(&row.shared->first_ticket).store_relaxed(0, first);
  WideWord(row.shared->fresh_end).store_relaxed(is_sound ? count : 0);
  store_for_host(row.result->words, first);
  store_for_host(row.result->words + 1, tail);
  return is_sound;
}

/// Reads the range of fresh slots of a submission. Returns whether the control words are valid.
EK_DEVICE bool read_setup(const Submission& row) {
  return kByPriority ? read_offsets(row) : read_tickets(row);
}

}  // namespace everkernel::device
