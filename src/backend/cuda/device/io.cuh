// IO requests of items: taking an IO slot, publishing the request, and the operation LOAD_MISS. The
// host answers (runtime's IO service); admission.cuh continues the slots that wait.
#pragma once

#include "backend/cuda/device/submission.cuh"
#include "backend/cuda/device/visitor.cuh"
#include "everkernel/abi/io_queue.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/item.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

using abi::IoStatus;

EK_DEVICE Word io_status_word(Word io_slot) {
  return io_slot * abi::kIoSlotWords + abi::kIoStatusWord;
}
EK_DEVICE Word io_slot_count(const SubmissionView& submission) {
  return submission.io().size() / abi::kIoSlotWords;
}

/// Whether a request could find an IO slot: one that is EMPTY, or that holds an answered prefetch.
__device__ __noinline__ bool has_free_io_slot(Words io, Wide prefetches) {
  for (Word i = 0; i < io.size() / abi::kIoSlotWords; ++i) {
    const IoStatus status{io.load_relaxed(io_status_word(i))};
    const bool is_prefetch = (prefetches >> i & 1) != 0;
    if (status == IoStatus::empty || (is_prefetch && abi::is_complete(status))) return true;
  }
  return false;
}

/// Frees the IO slots of answered prefetches. No item waits for a prefetch, so that its slot is
/// freed by the next request.
EK_DEVICE void free_prefetches(const Words& io, const WideWord& prefetches) {
  const Wide found = prefetches.load_relaxed();
  for (Word i = 0; i < io.size() / abi::kIoSlotWords && found >> i != 0; ++i) {
    if ((found >> i & 1) == 0) continue;
    if (!abi::is_complete(IoStatus{io.load_acquire(io_status_word(i))})) continue;
    const bool is_ours = (prefetches.fetch_and_relaxed(~(Wide{1} << i)) >> i & 1) != 0;
    if (is_ours) io.store_release(io_status_word(i), static_cast<Word>(IoStatus::empty));
  }
}

/// The words of a request.
struct IoRequest {
  Word op, source, destination, block, byte_count, tag;
};

/// Publishes a request; returns its IO slot, or kNoSlot if none is free.
__device__ __noinline__ Word ask_io(Words io, WideWord prefetches, IoRequest request) {
  constexpr Wide kBlockBytes = 4096;
  free_prefetches(io, prefetches);
  for (Word i = 0; i < io.size() / abi::kIoSlotWords; ++i) {
    if (!io.claim(io_status_word(i), static_cast<Word>(IoStatus::empty),
                  static_cast<Word>(IoStatus::claimed))) {
      continue;
    }
    const Word first = i * abi::kIoSlotWords;
    const Wide offset = request.block * kBlockBytes;
    io.store_relaxed(first, request.op);
    io.store_relaxed(first + 1, request.source);
    io.store_relaxed(first + 2, request.destination);
    io.store_relaxed(first + 3, static_cast<Word>(offset));
    io.store_relaxed(first + 4, static_cast<Word>(offset >> 32));
    io.store_relaxed(first + 5, request.byte_count);
    io.store_relaxed(first + abi::kIoTagWord, request.tag);
    io.store_release(io_status_word(i), static_cast<Word>(IoStatus::published));
    return i;
  }
  return kNoSlot;
}
EK_DEVICE Word ask_io(const SubmissionView& submission, const IoRequest& request) {
  return ask_io(submission.io(), WideWord(&submission.row.shared->prefetches), request);
}

/// Stores the IO slot in the args of the item's slot; the visit that ends the wait reads it there.
EK_DEVICE Word wait_for(const SubmissionView& submission, Word slot, Word io_slot) {
  submission.slot(slot).store_relaxed(abi::kSlotFirstArg + abi::kIoSlotArg, io_slot);
  return outcome(Ending::wait_io);
}

EK_DEVICE Word run_load_miss(const SubmissionView& submission, Word slot, Word resource,
                             bool is_prefetch) {
  const Word io_slot =
      ask_io(submission, {static_cast<Word>(abi::IoOp::read), resource, resource, 0, 0, resource});
  if (io_slot == kNoSlot) return kPutBack;
  if (!is_prefetch) return wait_for(submission, slot, io_slot);
  WideWord(&submission.row.shared->prefetches).or_relaxed(Wide{1} << io_slot);
  return kDone;
}

}  // namespace everkernel::device
