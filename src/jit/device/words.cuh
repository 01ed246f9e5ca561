// Words in global memory that several threads access at the same time, with the order and scope of
// every access in its name. Buffers of handlers have accessors of their own (buffers.cuh).
//
// Every access to global memory in device code is an accessor of these two files or the load of a
// row; each is inline PTX with a marker `ek:KIND`. Tests read the PTX of whole kernels and accept
// no access without a marker.
#pragma once

#include "jit/device/types.hpp"

namespace everkernel::device {

/// One word for the atomic operations of handlers, all relaxed with device scope. An operation
/// that returns the previous word waits for a round trip to memory; one without a result does not
/// wait.
class AtomicWord {
 public:
  EK_DEVICE explicit AtomicWord(Wide at) : at_(at) {}

#define EK_ATOMIC(update, fetch, operation)                                                \
  EK_DEVICE void update(Word value) const {                                                \
    asm volatile("red.relaxed.gpu.global." operation " [%0], %1; // ek:atomic" ::"l"(at_), \
                 "r"(value));                                                              \
  }                                                                                        \
  EK_DEVICE Word fetch(Word value) const {                                                 \
    Word before;                                                                           \
    asm volatile("atom.relaxed.gpu.global." operation " %0, [%1], %2; // ek:atomic"        \
                 : "=r"(before)                                                            \
                 : "l"(at_), "r"(value));                                                  \
    return before;                                                                         \
  }
  EK_ATOMIC(add, fetch_add, "add.u32")
  EK_ATOMIC(min, fetch_min, "min.u32")
  EK_ATOMIC(max, fetch_max, "max.u32")
  EK_ATOMIC(bit_and, fetch_and, "and.b32")
  EK_ATOMIC(bit_or, fetch_or, "or.b32")
  EK_ATOMIC(bit_xor, fetch_xor, "xor.b32")
#undef EK_ATOMIC

  EK_DEVICE Word exchange(Word value) const {
    Word before;
    asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], %2; // ek:atomic"
                 : "=r"(before)
                 : "l"(at_), "r"(value));
    return before;
  }
  EK_DEVICE Word exchange_if(Word expected, Word desired) const {
    Word before;
    asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3; // ek:atomic"
                 : "=r"(before)
                 : "l"(at_), "r"(expected), "r"(desired));
    return before;
  }

 private:
  Wide at_;
};

/// Words that several threads access at the same time: ring, control words, debug log, IO queue and
/// the words that crews share. The pointer is private, so that every access is one of these.
class Words {
 public:
  Words() = default;
  EK_DEVICE Words(Word* words, Word count) : words_(words), count_(count) {}

  EK_DEVICE Word size() const { return count_; }
  EK_DEVICE Words from(Wide first, Word count) const { return {words_ + first, count}; }

  EK_DEVICE Word load_relaxed(Wide i) const {
    Word value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1]; // ek:word" : "=r"(value) : "l"(at(i)));
    return value;
  }
  /// Loads the word if `is_there`, else returns 0, without a branch. The address is computed in
  /// integers: pointer arithmetic on an absent array would be undefined.
  EK_DEVICE Word load_relaxed_if(bool is_there, Wide i) const {
    const Wide address = __cvta_generic_to_global(words_) + i * sizeof(Word);
    Word value;
    asm volatile(
        "{ .reg .pred p;\nsetp.ne.u32 p, %2, 0;\nmov.u32 %0, 0;\n"
        "@p ld.relaxed.gpu.global.u32 %0, [%1]; // ek:word\n}"
        : "=r"(value)
        : "l"(address), "r"(Word{is_there}));
    return value;
  }
  EK_DEVICE Word load_acquire(Wide i) const {
    Word value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1]; // ek:word"
                 : "=r"(value)
                 : "l"(at(i))
                 : "memory");
    return value;
  }
  EK_DEVICE void store_relaxed(Wide i, Word value) const {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1; // ek:word" ::"l"(at(i)), "r"(value));
  }
  EK_DEVICE void store_release(Wide i, Word value) const {
    asm volatile("st.release.gpu.global.u32 [%0], %1; // ek:word" ::"l"(at(i)), "r"(value)
                 : "memory");
  }
  EK_DEVICE void add_relaxed(Wide i, Word value) const {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1; // ek:word" ::"l"(at(i)), "r"(value));
  }
  EK_DEVICE void add_release(Wide i, Word value) const {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1; // ek:word" ::"l"(at(i)), "r"(value)
                 : "memory");
  }
  /// Adds, and returns the previous word.
  EK_DEVICE Word fetch_add_relaxed(Wide i, Word value) const {
    Word before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2; // ek:word"
                 : "=r"(before)
                 : "l"(at(i)), "r"(value));
    return before;
  }
  EK_DEVICE Word fetch_add_acq_rel(Wide i, Word value) const {
    Word before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2; // ek:word"
                 : "=r"(before)
                 : "l"(at(i)), "r"(value)
                 : "memory");
    return before;
  }
  EK_DEVICE void lower_relaxed(Wide i, Word value) const {
    asm volatile("red.relaxed.gpu.global.min.u32 [%0], %1; // ek:word" ::"l"(at(i)), "r"(value));
  }
  /// Stores `desired` if the word is `expected`; returns the previous word.
  EK_DEVICE Word exchange_if(Wide i, Word expected, Word desired) const {
    Word before;
    asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3; // ek:word"
                 : "=r"(before)
                 : "l"(at(i)), "r"(expected), "r"(desired));
    return before;
  }
  /// Takes ownership of the memory that the word guards: stores `desired` if the word is
  /// `expected`, and returns whether it was. A successful claim acquires.
  EK_DEVICE bool claim(Wide i, Word expected, Word desired) const {
    Word before;
    asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], %2, %3; // ek:word"
                 : "=r"(before)
                 : "l"(at(i)), "r"(expected), "r"(desired)
                 : "memory");
    return before == expected;
  }
  /// The word for the atomic operations of a handler.
  EK_DEVICE AtomicWord atomic(Wide i) const { return AtomicWord(at(i)); }

 private:
  EK_DEVICE Wide at(Wide i) const { return __cvta_generic_to_global(words_ + i); }

  Word* words_ = nullptr;
  Word count_ = 0;
};

/// One 64-bit word that crews share; the accessors of Words for 64 bits.
class WideWord {
 public:
  EK_DEVICE explicit WideWord(const Wide* word)
      : word_(__cvta_generic_to_global(const_cast<Wide*>(word))) {}

  EK_DEVICE Wide load_relaxed() const {
    Wide value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1]; // ek:word" : "=l"(value) : "l"(word_));
    return value;
  }
  EK_DEVICE Wide load_acquire() const {
    Wide value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1]; // ek:word"
                 : "=l"(value)
                 : "l"(word_)
                 : "memory");
    return value;
  }
  EK_DEVICE void store_relaxed(Wide value) const {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1; // ek:word" ::"l"(word_), "l"(value));
  }
  EK_DEVICE void store_release(Wide value) const {
    asm volatile("st.release.gpu.global.u64 [%0], %1; // ek:word" ::"l"(word_), "l"(value)
                 : "memory");
  }
  EK_DEVICE Wide fetch_add_relaxed(Wide value) const {
    Wide before;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2; // ek:word"
                 : "=l"(before)
                 : "l"(word_), "l"(value));
    return before;
  }
  EK_DEVICE Wide fetch_add_acq_rel(Wide value) const {
    Wide before;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2; // ek:word"
                 : "=l"(before)
                 : "l"(word_), "l"(value)
                 : "memory");
    return before;
  }
  EK_DEVICE void add_relaxed(Wide value) const {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1; // ek:word" ::"l"(word_), "l"(value));
  }
  EK_DEVICE void or_relaxed(Wide bits) const {
    asm volatile("red.relaxed.gpu.global.or.b64 [%0], %1; // ek:word" ::"l"(word_), "l"(bits));
  }
  EK_DEVICE Wide fetch_and_relaxed(Wide bits) const {
    Wide before;
    asm volatile("atom.relaxed.gpu.global.and.b64 %0, [%1], %2; // ek:word"
                 : "=l"(before)
                 : "l"(word_), "l"(bits));
    return before;
  }
  /// Stores `desired` if the word is `expected`, and returns whether it was. A successful exchange
  /// acquires.
  EK_DEVICE bool exchange_if(Wide expected, Wide desired) const {
    Wide before;
    asm volatile("atom.acquire.gpu.global.cas.b64 %0, [%1], %2, %3; // ek:word"
                 : "=l"(before)
                 : "l"(word_), "l"(expected), "l"(desired)
                 : "memory");
    return before == expected;
  }
  /// Stores a word in host memory. The host reads it after the kernel has ended.
  EK_DEVICE void store_for_host(Wide value) const {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1; // ek:word" ::"l"(word_), "l"(value));
  }

 private:
  Wide word_;
};

/// The word as an array of one.
EK_DEVICE Words one_word(Word* word) {
  return {word, 1};
}

/// Stores a word in host memory. The host reads it after the kernel has ended.
EK_DEVICE void store_for_host(Word* word, Word value) {
  asm volatile(
      "st.relaxed.sys.global.u32 [%0], %1; // ek:word" ::"l"(__cvta_generic_to_global(word)),
      "r"(value));
}

/// Orders relaxed accesses: loads before the fence acquire for the accesses behind it, and stores
/// behind the fence release the accesses before it.
EK_DEVICE void fence() {
  asm volatile("fence.acq_rel.gpu; // ek:fence" ::: "memory");
}

EK_DEVICE void sleep(Word nanoseconds) {
  asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}

/// Four words that one instruction loads. The load is relaxed: of a slot, only an acquired status
/// word says that the other words are complete.
struct Quad {
  Word a, b, c, d;
};
EK_DEVICE Quad load_quad(const Word* words) {
  Quad quad;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4]; // ek:word"
               : "=r"(quad.a), "=r"(quad.b), "=r"(quad.c), "=r"(quad.d)
               : "l"(__cvta_generic_to_global(words)));
  return quad;
}
/// The same, into an array in registers.
EK_DEVICE void load_quad(const Word* from, Word* to) {
  const Quad quad = load_quad(from);
  to[0] = quad.a;
  to[1] = quad.b;
  to[2] = quad.c;
  to[3] = quad.d;
}

}  // namespace everkernel::device
