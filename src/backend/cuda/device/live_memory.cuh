// Memory of live queues: entries and outcomes lie in files of the host, the record of what has
// ended on the device. abi/queue.hpp has their form, live_kernel.cuh uses them.
#pragma once

#include "backend/cuda/live_rows.hpp"
#include "everkernel/abi/queue.hpp"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

using abi::OutcomeCode;

/// Loads four words of an entry as one, so that their lap bit speaks for all four. The load is
/// relaxed: acquire_entries() comes before anything that the entry names is read.
EK_DEVICE Quad load_entry_quad(const Word* entry) {
  Wide low, high;
  asm volatile(
      "{ .reg .b128 quad;\nld.relaxed.sys.global.b128 quad, [%2]; // ek:word\n"
      "mov.b128 {%0, %1}, quad;\n}"
      : "=l"(low), "=l"(high)
      : "l"(__cvta_generic_to_global(entry)));
  return {static_cast<Word>(low), static_cast<Word>(low >> 32), static_cast<Word>(high),
          static_cast<Word>(high >> 32)};
}

/// What a producer stored before the entries that were loaded is visible from here on. Without it
/// this multiprocessor would read old words from its first-level cache.
EK_DEVICE void acquire_entries() {
#if __CUDA_ARCH__ >= 900 && defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ >= 13
  asm volatile("fence.acquire.sys; // ek:fence" ::: "memory");
#else
  asm volatile("fence.acq_rel.sys; // ek:fence" ::: "memory");
#endif
}

/// Stores an outcome in host memory. The caller has fenced: what the item wrote to device memory is
/// in the second-level cache, where later items and copies find it. A release to the system would
/// wait for every read of the bus that other multiprocessors have under way.
EK_DEVICE void store_outcome_byte(Word* outcomes, Word place, Word byte) {
  asm volatile("st.relaxed.sys.global.u8 [%0], %1; // ek:word" ::"l"(
                   __cvta_generic_to_global(reinterpret_cast<unsigned char*>(outcomes) + place)),
               "r"(byte)
               : "memory");
}
EK_DEVICE void store_completion(Word* outcomes, Word place, const Quad& quad) {
  const Wide low = quad.a | Wide{quad.b} << 32;
  const Wide high = quad.c | Wide{quad.d} << 32;
  asm volatile(
      "{ .reg .b128 quad;\nmov.b128 quad, {%1, %2};\n"
      "st.relaxed.sys.global.b128 [%0], quad; // ek:word\n}" ::"l"(
          __cvta_generic_to_global(outcomes + Wide{place} * 4)),
      "l"(low), "l"(high)
      : "memory");
}

/// The outcome byte of the ticket that ended last at a place.
EK_DEVICE Word load_ended(const unsigned char* ended, Word place) {
  Word byte;
  asm volatile("ld.relaxed.gpu.global.u8 %0, [%1]; // ek:word"
               : "=r"(byte)
               : "l"(__cvta_generic_to_global(ended + place)));
  return byte;
}
EK_DEVICE void store_ended(unsigned char* ended, Word place, Word byte) {
  asm volatile("st.relaxed.gpu.global.u8 [%0], %1; // ek:word" ::"l"(
                   __cvta_generic_to_global(ended + place)),
               "r"(byte)
               : "memory");
}

/// Whether the ticket at a place with this lap bit has ended, by the record of the place.
EK_DEVICE bool is_ended(Word byte, Word lap) {
  return byte >> 7 == lap && (byte & 0x7F) != 0;
}

/// A pointer in a row or in orders.
template <class T>
EK_DEVICE T* load_pointer(T* const* field) {
  return reinterpret_cast<T*>(WideWord(reinterpret_cast<const Wide*>(field)).load_relaxed());
}
EK_DEVICE Word load_field(const Word* field) {
  return one_word(const_cast<Word*>(field)).load_relaxed(0);
}

/// The part of a row that does not change.
struct LiveQueue {
  LiveQueueRow* row = nullptr;  // null: none
  const Word* entries = nullptr;
  Word* outcomes = nullptr;
  unsigned char* ended = nullptr;
  Word capacity = 2;
  Word tenant = 0;
  Word priority = 0;
  Word number = 0;  // names the queue in seats
  bool is_full = false;
  bool has_results = false;
};

EK_DEVICE LiveQueue load_queue(LiveQueueRow* row) {
  LiveQueue queue;
  queue.row = row;
  queue.entries = load_pointer(&row->entries);
  queue.outcomes = load_pointer(&row->outcomes);
  queue.ended = load_pointer(&row->ended);
  queue.capacity = load_field(&row->capacity);
  queue.tenant = load_field(&row->tenant);
  queue.priority = load_field(&row->priority);
  queue.number = load_field(&row->number);
  queue.is_full = load_field(&row->is_full) != 0;
  queue.has_results = load_field(&row->has_results) != 0;
  return queue;
}

/// Orders everything before it, stores too, before every load behind it.
EK_DEVICE void fence_all() {
  asm volatile("fence.sc.gpu; // ek:fence" ::: "memory");
}

}  // namespace everkernel::device
