// What a handler sees on the device: words with explicit order and scope, buffers, lanes, the item.
//
// NVRTC compiles this with generated handlers (cuda_source.hpp) and the workers that call them. It
// needs no toolkit header. Every access to global memory is one of the accessors below, inline PTX
// that leaves a marker `ek:WHAT` behind; tests read the PTX and find no other access.
#pragma once

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/debug_log.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/hit.hpp"
#include "everkernel/abi/io_queue.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/packed.hpp"
#include "everkernel/abi/slot.hpp"

#define EK_DEVICE __device__ __forceinline__

namespace everkernel::device {

using abi::FaultCode;
using abi::Word;
using Wide = unsigned long long;
static_assert(sizeof(Wide) == 8);

// ---- words ----------------------------------------------------------------------------------

/// One word for the atomics of handlers: relaxed, seen by the whole device. What gives the word
/// before costs a way to memory and back; what gives nothing does not wait.
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

/// Words that several threads use at one time: ring, control, debug log, IO queue, and what workers
/// share beside them. The pointer is private so that nothing can go around the accessors.
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
  /// 0 if not; nothing branches. In integers: what is not there needs no pointer.
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
  /// Adds, and gives the word before.
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
  /// Exchanges if the word is `expected`, and gives the word before.
  EK_DEVICE Word exchange_if(Wide i, Word expected, Word desired) const {
    Word before;
    asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3; // ek:word"
                 : "=r"(before)
                 : "l"(at(i)), "r"(expected), "r"(desired));
    return before;
  }
  /// Takes ownership of what the word guards; says whether it was `expected`.
  EK_DEVICE bool claim(Wide i, Word expected, Word desired) const {
    Word before;
    asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], %2, %3; // ek:word"
                 : "=r"(before)
                 : "l"(at(i)), "r"(expected), "r"(desired)
                 : "memory");
    return before == expected;
  }
  /// The word for a handler's atomics.
  EK_DEVICE AtomicWord atomic(Wide i) const { return AtomicWord(at(i)); }

 private:
  EK_DEVICE Wide at(Wide i) const { return __cvta_generic_to_global(words_ + i); }

  Word* words_ = nullptr;
  Word count_ = 0;
};

// ---- buffers --------------------------------------------------------------------------------

/// A place of the buffer table; the layout is memory::BufferEntry's.
struct BufferEntry {
  Word* words;
  Word word_count;
  Word handle;
  Word access;
  Word owner;
};
static_assert(sizeof(BufferEntry) == 24);

/// Handle → buffer, open addressing. Nobody writes it while a kernel runs.
struct BufferTable {
  const BufferEntry* entries;
  Word mask;
};

inline constexpr Word kAccessRead = 1;
inline constexpr Word kAccessWrite = 2;
inline constexpr Word kEveryTenant = 0xFFFFFFFFu;

/// A buffer as one item may use it. An index below `readable` can be loaded, one below `writable`
/// stored to, one below `updatable` used atomically; what a failed comparison means, access_fault()
/// says.
struct Buffer {
  Word* words = nullptr;
  Word length = 0;           // words, 0 where `fault` says why
  Word readable = 0;         // length, or 0 without the right
  Word writable = 0;         // length, or 0 without the right
  Word updatable = 0;        // length, or 0 without both rights
  Word access = 0;           // the rights
  Word fault = 0;            // bad_buffer_handle or permission_denied of an owner, else 0
  bool is_constant = false;  // no handler can write it

  // In integers: an index that is outside makes an address nobody uses, and no pointer.
  EK_DEVICE Wide at(Word index) const {
    return __cvta_generic_to_global(words) + Wide{index} * sizeof(Word);
  }
  /// The word for atomics.
  EK_DEVICE AtomicWord atomic(Word index) const { return AtomicWord(at(index)); }
};

/// What a table without entries is made of.
static __device__ const BufferEntry kNoEntry{};

/// Finds the buffer of a handle for a tenant. Never faults: using the buffer does. Every handler
/// begins with it, some many times: it is one loop, and choices without a branch.
EK_DEVICE Buffer find_buffer(const BufferTable& table, Word handle, Word tenant) {
  const bool has_entries = table.entries != nullptr;
  const BufferEntry* const entries = has_entries ? table.entries : &kNoEntry;
  const Word mask = has_entries ? table.mask : 0;
  Word place = (handle * 0x9E3779B1u >> 7) & mask;
  Wide entry;
  Word count, found;
  for (;; place = (place + 1) & mask) {
    entry = __cvta_generic_to_global(entries + place);
    asm("ld.global.nc.v2.u32 {%0, %1}, [%2+8]; // ek:table"
        : "=r"(count), "=r"(found)
        : "l"(entry));
    if (found == handle || found == 0) break;  // the table is never full
  }
  Wide words;
  Word access, owner;
  asm("ld.global.nc.u64 %0, [%1]; // ek:table" : "=l"(words) : "l"(entry));
  asm("ld.global.nc.v2.u32 {%0, %1}, [%2+16]; // ek:table"
      : "=r"(access), "=r"(owner)
      : "l"(entry));
  const bool is_there = found != 0;
  const bool is_owner = owner == kEveryTenant || owner == tenant;
  Buffer buffer;
  buffer.words = reinterpret_cast<Word*>(words);
  buffer.length = is_there && is_owner ? count : 0;
  buffer.readable = (access & kAccessRead) != 0 ? buffer.length : 0;
  buffer.writable = (access & kAccessWrite) != 0 ? buffer.length : 0;
  buffer.updatable = (access & kAccessWrite) != 0 ? buffer.readable : 0;
  buffer.access = access;
  buffer.fault = static_cast<Word>(!is_there   ? FaultCode::bad_buffer_handle
                                   : !is_owner ? FaultCode::permission_denied
                                               : FaultCode::none);
  buffer.is_constant = access == kAccessRead;
  return buffer;
}

/// Why an access that needs these rights failed.
EK_DEVICE Word access_fault(const Buffer& buffer, Word needed) {
  if (buffer.fault != 0) return buffer.fault;
  const bool may = (buffer.access & needed) == needed;
  return static_cast<Word>(may ? FaultCode::index_out_of_range : FaultCode::permission_denied);
}

/// A word of a buffer that no handler can write: cached. Volatile all the same: the compiler would
/// load it before the index is known to be inside.
EK_DEVICE Word load_constant(const Buffer& buffer, Word index) {
  Word value;
  asm volatile("ld.global.u32 %0, [%1]; // ek:data" : "=r"(value) : "l"(buffer.at(index)));
  return value;
}

/// The word at an index that may be outside: 0 then. Nothing branches, so that the load is on its
/// way while the index is still being judged.
EK_DEVICE Word fetch_shared(const Buffer& buffer, Word index) {
  const Word cached = buffer.is_constant ? buffer.readable : 0;
  const Word uncached = buffer.is_constant ? 0 : buffer.readable;
  Word value;
  asm volatile(
      "{ .reg .pred p, q;\nsetp.lt.u32 p, %2, %3;\nsetp.lt.u32 q, %2, %4;\nmov.u32 %0, 0;\n"
      "@p ld.global.u32 %0, [%1]; // ek:data\n"
      "@q ld.relaxed.gpu.global.u32 %0, [%1]; // ek:data\n}"
      : "=r"(value)
      : "l"(buffer.at(index)), "r"(index), "r"(cached), "r"(uncached));
  return value;
}
EK_DEVICE Word fetch_owned(const Buffer& buffer, Word index) {
  Word value;
  asm volatile(
      "{ .reg .pred p;\nsetp.lt.u32 p, %2, %3;\nmov.u32 %0, 0;\n"
      "@p ld.global.u32 %0, [%1]; // ek:data\n}"
      : "=r"(value)
      : "l"(buffer.at(index)), "r"(index), "r"(buffer.readable));
  return value;
}

/// A word that other items may touch at the same time.
EK_DEVICE Word load_shared(const Buffer& buffer, Word index) {
  if (buffer.is_constant) return load_constant(buffer, index);
  Word value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1]; // ek:data"
               : "=r"(value)
               : "l"(buffer.at(index)));
  return value;
}
EK_DEVICE void store_shared(const Buffer& buffer, Word index, Word value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1; // ek:data" ::"l"(buffer.at(index)),
               "r"(value));
}

/// A word that no other item touches meanwhile.
EK_DEVICE Word load_owned(const Buffer& buffer, Word index) {
  if (buffer.is_constant) return load_constant(buffer, index);
  Word value;
  asm volatile("ld.global.u32 %0, [%1]; // ek:data" : "=r"(value) : "l"(buffer.at(index)));
  return value;
}
EK_DEVICE void store_owned(const Buffer& buffer, Word index, Word value) {
  asm volatile("st.global.u32 [%0], %1; // ek:data" ::"l"(buffer.at(index)), "r"(value));
}

/// Turns of an each whose words are on their way before the first of them runs.
inline constexpr Word kAhead = 8;

/// Fetch the words at these indices, which are all inside.
EK_DEVICE void load_ahead_constant(const Buffer& buffer, const Word (&at)[kAhead],
                                   Word (&words)[kAhead]) {
#pragma unroll
  for (Word i = 0; i < kAhead; ++i) words[i] = load_constant(buffer, at[i]);
}
EK_DEVICE void load_ahead_shared(const Buffer& buffer, const Word (&at)[kAhead],
                                 Word (&words)[kAhead]) {
#pragma unroll
  for (Word i = 0; i < kAhead; ++i) {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1]; // ek:data"
                 : "=r"(words[i])
                 : "l"(buffer.at(at[i])));
  }
}
EK_DEVICE void load_ahead_owned(const Buffer& buffer, const Word (&at)[kAhead],
                                Word (&words)[kAhead]) {
#pragma unroll
  for (Word i = 0; i < kAhead; ++i) {
    asm volatile("ld.global.u32 %0, [%1]; // ek:data" : "=r"(words[i]) : "l"(buffer.at(at[i])));
  }
}

// ---- lanes ----------------------------------------------------------------------------------

/// The thread that runs an item of `scope lane`.
struct OneLane {
  static constexpr bool kIsOne = true;
  static constexpr bool kHasTile = false;
  static constexpr bool kKeepsOrder = true;
  EK_DEVICE Word index() const { return 0; }
  EK_DEVICE Word count() const { return 1; }
  EK_DEVICE bool leads() const { return true; }
  EK_DEVICE void meet() const {}
  EK_DEVICE void converge() const {}
  EK_DEVICE Word from_leader(Word value) const { return value; }
  EK_DEVICE bool meet_any(bool value) const { return value; }
  EK_DEVICE Word lowest(Word value) const { return value; }
  EK_DEVICE Word total(Word value) const { return value; }
  EK_DEVICE Wide total(Wide value) const { return value; }
};

/// The 32 threads of a warp that run one item of `scope warp` together.
struct WarpLanes {
  static constexpr bool kIsOne = false;
  static constexpr bool kHasTile = false;
  static constexpr bool kKeepsOrder = false;
  static constexpr Word kAll = 0xFFFFFFFFu;
  EK_DEVICE Word index() const {
    Word lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
  }
  EK_DEVICE Word count() const { return 32; }
  EK_DEVICE bool leads() const { return index() == 0; }
  /// All lanes meet, and see what the others did before.
  EK_DEVICE void meet() const { __syncwarp(); }
  /// The lanes of a warp go on as one, after something that not all of them did.
  EK_DEVICE void converge() const { __syncwarp(); }
  EK_DEVICE Word from_leader(Word value) const { return __shfl_sync(kAll, value, 0); }
  /// All lanes meet, and learn whether one of them says so.
  EK_DEVICE bool meet_any(bool value) const {
    __syncwarp();
    return __any_sync(kAll, value) != 0;
  }
  EK_DEVICE Word lowest(Word value) const { return __reduce_min_sync(kAll, value); }
  EK_DEVICE Word total(Word value) const { return __reduce_add_sync(kAll, value); }
  EK_DEVICE Wide total(Wide value) const {
    for (Word step = 16; step != 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
    return value;
  }
};

/// The threads of a block that run one item of `scope group` together. They have a tile.
struct GroupLanes {
  static constexpr bool kIsOne = false;
  static constexpr bool kHasTile = true;
  static constexpr bool kKeepsOrder = false;
  EK_DEVICE Word index() const { return threadIdx.x; }
  EK_DEVICE Word count() const { return blockDim.x; }
  EK_DEVICE bool leads() const { return threadIdx.x == 0; }
  EK_DEVICE void meet() const { __syncthreads(); }
  EK_DEVICE void converge() const { __syncwarp(); }
  EK_DEVICE bool meet_any(bool value) const { return __syncthreads_or(value) != 0; }
  EK_DEVICE Word from_leader(Word value) const {
    __shared__ Word board;
    __syncthreads();  // whoever reads the last value has read it
    if (leads()) board = value;
    __syncthreads();
    return board;
  }
  EK_DEVICE Word lowest(Word value) const {
    __shared__ Word board;
    __syncthreads();
    if (leads()) board = 0xFFFFFFFFu;
    __syncthreads();
    atomicMin_block(&board, value);
    __syncthreads();
    return board;
  }
  EK_DEVICE Word total(Word value) const { return static_cast<Word>(total(Wide{value})); }
  EK_DEVICE Wide total(Wide value) const {
    __shared__ Wide board;
    __syncthreads();
    if (leads()) board = 0;
    __syncthreads();
    atomicAdd_block(&board, value);
    __syncthreads();
    return board;
  }
};

// ---- values ---------------------------------------------------------------------------------

// What operators and functions of handlers compute, as ir/semantics.hpp says it. Integers of both
// kinds are words. Nothing here is contracted, flushed to zero or undefined.

EK_DEVICE float as_float(Word bits) {
  return __uint_as_float(bits);
}
EK_DEVICE Word raw_bits(float value) {
  return __float_as_uint(value);
}
/// The bits; those of every NaN are the same.
EK_DEVICE Word as_bits(float value) {
  return value != value ? 0x7FC00000u : raw_bits(value);
}
EK_DEVICE int as_signed(Word bits) {
  return static_cast<int>(bits);
}

/// The same value, of which the compiler knows nothing. Counters and variables that change in loops
/// pass through it: of an index `i & 3` with a counter i, NVRTC 13.0 has made `i + 4`. The asm
/// moves the value itself: an empty one, with the value as both operands, has been lost.
EK_DEVICE Word opaque(Word value) {
#if defined(__CUDACC__)
  Word same;
  asm("mov.b32 %0, %1;" : "=r"(same) : "r"(value));
  return same;
#else
  return value;
#endif
}
EK_DEVICE Wide opaque(Wide value) {
#if defined(__CUDACC__)
  Wide same;
  asm("mov.b64 %0, %1;" : "=l"(same) : "l"(value));
  return same;
#else
  return value;
#endif
}

/// The same value, which ptxas does not know either. Bits that become a float pass through it:
/// where a loop gave them a range, ptxas 13.0 has taken that for a range of the float.
#if defined(__CUDACC__)
__constant__ Word hidden_zero;  // nobody writes it, but somebody could
#endif
EK_DEVICE Word hidden(Word value) {
#if defined(__CUDACC__)
  return value ^ hidden_zero;
#else
  return value;
#endif
}

/// One of two. NVVM does not see what is chosen by which comparison: it would make extremes and
/// magnitudes of that, and take no care of the sign of a zero. Floats are chosen as words: of one
/// that is -0, ptxas 13.0 has made +0.
EK_DEVICE Word choose(bool is_first, Word a, Word b) {
#if defined(__CUDACC__)
  Word chosen;
  asm("{ .reg .pred is_first;\nsetp.ne.u32 is_first, %3, 0;\nselp.b32 %0, %1, %2, is_first;\n}"
      : "=r"(chosen)
      : "r"(a), "r"(b), "r"(is_first ? 1u : 0u));
  return chosen;
#else
  return is_first ? a : b;
#endif
}
EK_DEVICE float choose(bool is_first, float a, float b) {
  return as_float(choose(is_first, raw_bits(a), raw_bits(b)));
}
EK_DEVICE bool choose(bool is_first, bool a, bool b) {
  return is_first ? a : b;
}

// NVVM makes three instructions of signed words of which ptxas 13.0 makes something wrong. It takes
// the result of `abs.s32` for positive: `min(abs(x), 0)` of the minimum has been 0. And of two
// `min.s32` or `max.s32` with a negation before them it loses the negation. Code in which one of
// them is found is compiled once more with EVERKERNEL_OPAQUE_ARITHMETIC, so that NVVM knows neither
// what is a negation nor what was compared. That a difference has a zero in it that NVVM does not
// know saves most handlers from that.
#if defined(EVERKERNEL_OPAQUE_ARITHMETIC)
EK_DEVICE Word add(Word a, Word b) {
  return opaque(opaque(a) + b);
}
EK_DEVICE Word subtract(Word a, Word b) {
  return opaque(opaque(a) - b);
}
EK_DEVICE Word multiply(Word a, Word b) {
  return opaque(opaque(a) * b);
}
#else
EK_DEVICE Word add(Word a, Word b) {
  return a + b;
}
EK_DEVICE Word subtract(Word a, Word b) {
  return a + (opaque(0u) - b);
}
EK_DEVICE Word multiply(Word a, Word b) {
  return a * b;
}
#endif
EK_DEVICE Word divide_u32(Word a, Word b) {
  return b == 0 ? a : a / b;
}
EK_DEVICE Word remainder_u32(Word a, Word b) {
  return b == 0 ? 0 : a % b;
}
EK_DEVICE Word divide_i32(Word a, Word b) {
  if (b == 0) return a;
  if (b == 0xFFFFFFFFu) return subtract(0, a);  // the minimum stays the minimum
  return static_cast<Word>(as_signed(a) / as_signed(b));
}
EK_DEVICE Word remainder_i32(Word a, Word b) {
  if (b == 0 || b == 0xFFFFFFFFu) return 0;
  return static_cast<Word>(as_signed(a) % as_signed(b));
}
EK_DEVICE Word shift_left(Word a, Word count) {
  return a << (count & 31);
}
EK_DEVICE Word shift_right_u32(Word a, Word count) {
  return a >> (count & 31);
}
EK_DEVICE Word shift_right_i32(Word a, Word count) {
  return static_cast<Word>(as_signed(a) >> (count & 31));
}
EK_DEVICE Word rotate_left(Word a, Word count) {
  return (a << (count & 31)) | (a >> ((32 - (count & 31)) & 31));
}
EK_DEVICE bool less_i32(Word a, Word b) {
#if defined(EVERKERNEL_OPAQUE_ARITHMETIC)
  return opaque(as_signed(a) < as_signed(b) ? 1u : 0u) != 0;
#else
  return as_signed(a) < as_signed(b);
#endif
}
// One of two words by a mask. Of min and max instructions, and of comparisons with a choice, ptxas
// 13.0 makes ones that add as well, and has made `min(x - 1, y)` of `min(1 - x, y)`.
#if defined(__CUDACC__)
#define EK_CHOOSE(name, comparison)                          \
  EK_DEVICE Word name(Word a, Word b) {                      \
    Word chosen;                                             \
    asm("{ .reg .b32 mask, both;\nset." comparison           \
        " mask, %1, %2;\n"                                   \
        "xor.b32 both, %1, %2;\nand.b32 both, both, mask;\n" \
        "xor.b32 %0, both, %2;\n}"                           \
        : "=r"(chosen)                                       \
        : "r"(a), "r"(b));                                   \
    return chosen;                                           \
  }
EK_CHOOSE(min_u32, "lt.u32.u32")
EK_CHOOSE(max_u32, "ge.u32.u32")
EK_CHOOSE(min_i32, "lt.u32.s32")
EK_CHOOSE(max_i32, "ge.u32.s32")
#undef EK_CHOOSE
#else
EK_DEVICE Word min_u32(Word a, Word b) {
  return a < b ? a : b;
}
EK_DEVICE Word max_u32(Word a, Word b) {
  return a < b ? b : a;
}
EK_DEVICE Word min_i32(Word a, Word b) {
  return less_i32(a, b) ? a : b;
}
EK_DEVICE Word max_i32(Word a, Word b) {
  return less_i32(a, b) ? b : a;
}
#endif
EK_DEVICE Word abs_i32(Word a) {
  return choose(as_signed(a) < 0, subtract(0, a), a);
}
EK_DEVICE Word leading_zeros(Word a) {
  return static_cast<Word>(__clz(as_signed(a)));
}
EK_DEVICE Word one_bits(Word a) {
  return static_cast<Word>(__popc(a));
}

EK_DEVICE float add_f32(float a, float b) {
  return __fadd_rn(a, b);
}
EK_DEVICE float subtract_f32(float a, float b) {
  return __fsub_rn(a, b);
}
EK_DEVICE float multiply_f32(float a, float b) {
  return __fmul_rn(a, b);
}
EK_DEVICE float divide_f32(float a, float b) {
  return __fdiv_rn(a, b);
}
EK_DEVICE float fma_f32(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
EK_DEVICE float sqrt_f32(float a) {
  return __fsqrt_rn(a);
}
EK_DEVICE float floor_f32(float a) {
  return floorf(a);
}
EK_DEVICE float negate_f32(float a) {
  return as_float(raw_bits(a) ^ 0x80000000u);
}
EK_DEVICE float abs_f32(float a) {
  return as_float(raw_bits(a) & 0x7FFFFFFFu);
}
/// The lesser; the other operand if one is NaN; -0 is below +0.
EK_DEVICE float min_f32(float a, float b) {
  const bool is_first = a < b || b != b || (a == b && as_signed(raw_bits(a)) < 0);
  return choose(is_first && a == a, a, b);
}
/// The greater; the other operand if one is NaN; -0 is below +0.
EK_DEVICE float max_f32(float a, float b) {
  const bool is_first = a > b || b != b || (a == b && as_signed(raw_bits(a)) >= 0);
  return choose(is_first && a == a, a, b);
}

/// Truncates and saturates; NaN gives 0.
EK_DEVICE Word f32_to_u32(float value) {
  if (!(value > 0.0f)) return 0;
  return value < 4294967296.0f ? __float2uint_rz(value) : 0xFFFFFFFFu;
}
/// Truncates and saturates; NaN gives 0.
EK_DEVICE Word f32_to_i32(float value) {
  if (value != value) return 0;
  if (value >= 2147483648.0f) return 0x7FFFFFFFu;
  return value < -2147483648.0f ? 0x80000000u : static_cast<Word>(__float2int_rz(value));
}
EK_DEVICE float u32_to_f32(Word value) {
  return __uint2float_rn(value);
}
EK_DEVICE float i32_to_f32(Word value) {
  return __int2float_rn(as_signed(value));
}

/// Turns of a loop between two bounds.
EK_DEVICE Word turns_u32(Word first, Word last) {
  return first < last ? last - first : 0;
}
EK_DEVICE Word turns_i32(Word first, Word last) {
  return less_i32(first, last) ? last - first : 0;
}

/// The code of `fault n`.
EK_DEVICE Word user_fault(Word n) {
  return abi::kFirstUserFault + min_u32(n, abi::kMaxUserFault);
}

// ---- the tile -------------------------------------------------------------------------------

// Words of the block's own, in which a group adds up before it goes to memory. A launch says how
// many there are: as many as the longest output that may use them has, for what they take, the
// cache lacks.

/// Turns for each word of the output from which on it pays.
inline constexpr Word kTileTurnsPerWord = 4;

extern __shared__ Word tile_words[];

EK_DEVICE Word tile_capacity() {
  Word bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes / sizeof(Word);
}
/// Where the tile begins. All lanes of a warp call it. What comes out of a shuffle stays in a
/// register: the compiler would find the address anew at every use.
EK_DEVICE Word tile_begin() {
  return __shfl_sync(0xFFFFFFFFu, static_cast<Word>(__cvta_generic_to_shared(tile_words)), 0);
}
EK_DEVICE Word load_tile(Word at) {
  Word value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(at) : "memory");
  return value;
}
EK_DEVICE void store_tile(Word at, Word value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
}

/// What a commuting atomic does to a word of the tile, and to the word it stands for.
#define EK_COMBINE(name, operation, update, identity)                                           \
  struct name {                                                                                 \
    static constexpr Word kIdentity = identity;                                                 \
    static EK_DEVICE void in_tile(Word at, Word value) {                                        \
      asm volatile("red.shared." operation " [%0], %1;" ::"r"(at), "r"(value));                 \
    }                                                                                           \
    static EK_DEVICE void in_memory(const AtomicWord& word, Word value) { word.update(value); } \
  };
EK_COMBINE(CombineAdd, "add.u32", add, 0)
EK_COMBINE(CombineMin, "min.u32", min, ~0u)
EK_COMBINE(CombineMax, "max.u32", max, 0)
EK_COMBINE(CombineAnd, "and.b32", bit_and, ~0u)
EK_COMBINE(CombineOr, "or.b32", bit_or, 0)
EK_COMBINE(CombineXor, "xor.b32", bit_xor, 0)
#undef EK_COMBINE

// ---- the item -------------------------------------------------------------------------------

/// How a run of an item ended; the numbers are ir::Ending's.
enum class Ending : Word { done = 0, yield = 1, requeue = 2, wait_io = 3, fault = 4 };

/// What a handler gives back: the ending, and the code of a fault above it.
EK_DEVICE constexpr Word outcome(Ending ending, Word fault_code = 0) {
  return static_cast<Word>(ending) | fault_code << 8;
}
EK_DEVICE constexpr Word fault_outcome(Word code) {
  return outcome(Ending::fault, code);
}

/// Turns of loops. 32 bits unless the kernel gives its items more.
#if defined(EVERKERNEL_WIDE_FUEL)
using Fuel = Wide;
#else
using Fuel = Word;
#endif

/// The IO request of an await; ir::IoAsk.
struct IoAsk {
  Word is_write, source, block, destination, byte_count;
};

/// Where printf and emit go: shared by all items of a submission.
struct Voice {
  Words control;       // for the words a record without room is counted in
  Words log;           // the debug log
  abi::Hit* hits;      // room for hits
  Wide hit_capacity;   // how many
  Wide* emitted;       // hits so far, also those without room; null = no room at all
  Words hits_dropped;  // one word: emits that found no room
};

/// One run of one item. Every lane that runs it has an equal copy.
struct Item {
  Word args[abi::kSlotArgs];
  Word opcode, tenant, priority, slot;
  Word number;  // what hits are named by: the slot, or the item's place in a run's list
  Word lanes;   // of the handler's scope, as the language sees it
  Words control;
  BufferTable buffers;
  Fuel fuel;
  Words abort;  // one word; non-zero ends the item
  Voice voice;
  IoAsk io;
};

/// Appends a debug record, or counts it as dropped. One thread calls it for its item.
EK_DEVICE void print_record(const Item& item, Word fmt, Word a, Word b) {
  const Voice& voice = item.voice;
  const Word capacity = (voice.log.size() - 1) / abi::kDebugRecordWords * abi::kDebugRecordWords;
  for (;;) {
    const Word cursor = voice.log.load_relaxed(abi::kDebugCursor);
    const bool is_sound = cursor % abi::kDebugRecordWords == 0 && cursor <= capacity;
    if (!is_sound || cursor == capacity) {
      voice.control.add_relaxed(abi::kControlDebugDropped.first, 1);
      return;
    }
    if (!voice.log.claim(abi::kDebugCursor, cursor, cursor + abi::kDebugRecordWords)) continue;
    const Word first = abi::kDebugFirstRecord + cursor;
    voice.log.store_relaxed(first, fmt);
    voice.log.store_relaxed(first + 1, a);
    voice.log.store_relaxed(first + 2, b);
    voice.log.store_relaxed(first + 3, item.slot * abi::kSlotWords);
    return;
  }
}

/// Appends a hit, or counts it as dropped. One thread calls it for its item.
EK_DEVICE void append_hit(const Item& item, Word a, Word b, Word c) {
  const Voice& voice = item.voice;
  Wide place = ~Wide{0};
  if (voice.emitted != nullptr) {
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], 1; // ek:word"
                 : "=l"(place)
                 : "l"(__cvta_generic_to_global(voice.emitted)));
  }
  if (voice.emitted == nullptr || place >= voice.hit_capacity) {
    voice.hits_dropped.add_relaxed(0, 1);
    return;
  }
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4}; // ek:hit" ::"l"(
                   __cvta_generic_to_global(voice.hits + place)),
               "r"(item.number), "r"(a), "r"(b), "r"(c));
}

// ---- running a handler ----------------------------------------------------------------------

/// No handler: what find_handler() gives for an opcode without one.
inline constexpr Word kNoHandler = ~0u;

/// What is known of a handler before it runs: bits of traits_of().
inline constexpr Word kTraitWarp = 1u << 0;          // scope warp
inline constexpr Word kTraitGroup = 1u << 1;         // scope group
inline constexpr Word kTraitCanLeave = 1u << 2;      // yield, requeue or await
inline constexpr Word kTraitWritesArgs = 1u << 3;    // the slot's args change
inline constexpr Word kTraitCommutes = 1u << 4;      // items on one output run in any order
inline constexpr Word kTraitReadsInput = 1u << 5;    // loads or atomics
inline constexpr Word kTraitWritesInput = 1u << 6;   // stores or atomics
inline constexpr Word kTraitReadsOutput = 1u << 7;   // loads or atomics
inline constexpr Word kTraitWritesOutput = 1u << 8;  // stores or atomics

/// Turns of a loop between two looks at the abort word. A power of two.
inline constexpr Word kPollTurns = 1024;
/// Turns of an each that one lane takes between two looks at the abort word.
inline constexpr Word kPollEachTurns = 256;

/// The same where all lanes run as one thread would: the leader's, if they could differ.
template <class Lanes>
EK_DEVICE Word fetch_shared(const Lanes& lanes, const Buffer& buffer, Word index) {
  if (Lanes::kIsOne || buffer.is_constant) return fetch_shared(buffer, index);
  Word value = 0;
  if (lanes.leads()) value = fetch_shared(buffer, index);
  return lanes.from_leader(value);
}
template <class Lanes>
EK_DEVICE Word fetch_owned(const Lanes& lanes, const Buffer& buffer, Word index) {
  if (Lanes::kIsOne || buffer.is_constant) return fetch_owned(buffer, index);
  Word value = 0;
  if (lanes.leads()) value = fetch_owned(buffer, index);
  return lanes.from_leader(value);
}

template <class Lanes>
EK_DEVICE Word load_control(const Lanes& lanes, const Item& item, Word index) {
  Word value = 0;
  if (lanes.leads()) value = item.control.load_relaxed(index);
  return lanes.from_leader(value);
}

/// Whether all these indices are below a count.
EK_DEVICE bool are_inside(Word count, const Word (&at)[kAhead]) {
  bool are = true;
#pragma unroll
  for (Word i = 0; i < kAhead; ++i) are = are && at[i] < count;
  return are;
}

/// Fetch words for several turns of an each. One lane runs its turns in order: there only words
/// that nobody can write are fetched, and take_…() loads the others when their turn comes.
template <class Lanes>
EK_DEVICE void load_ahead_shared(const Lanes&, const Buffer& buffer, const Word (&at)[kAhead],
                                 Word (&words)[kAhead]) {
  if (buffer.is_constant) {
    load_ahead_constant(buffer, at, words);
  } else if (!Lanes::kKeepsOrder) {
    load_ahead_shared(buffer, at, words);
  }
}
template <class Lanes>
EK_DEVICE void load_ahead_owned(const Lanes&, const Buffer& buffer, const Word (&at)[kAhead],
                                Word (&words)[kAhead]) {
  if (buffer.is_constant) {
    load_ahead_constant(buffer, at, words);
  } else if (!Lanes::kKeepsOrder) {
    load_ahead_owned(buffer, at, words);
  }
}
template <class Lanes>
EK_DEVICE Word take_shared(const Lanes&, const Buffer& buffer, Word index, Word ahead) {
  return !Lanes::kKeepsOrder || buffer.is_constant ? ahead : load_shared(buffer, index);
}
template <class Lanes>
EK_DEVICE Word take_owned(const Lanes&, const Buffer& buffer, Word index, Word ahead) {
  return !Lanes::kKeepsOrder || buffer.is_constant ? ahead : load_owned(buffer, index);
}

/// Whether the item is to end here.
template <class Lanes>
EK_DEVICE bool is_aborted(const Lanes& lanes, const Item& item) {
  const bool looks = lanes.leads() && item.abort.size() != 0;
  return lanes.from_leader(item.abort.load_relaxed_if(looks, 0)) != 0;
}

/// Pays for one turn of a loop, and looks at the abort word now and then. Gives the code of a
/// fault, else 0.
template <class Lanes>
EK_DEVICE Word spend_turn(const Lanes& lanes, const Item& item, Fuel& fuel) {
  if (fuel % kPollTurns == 0) {
    if (is_aborted(lanes, item)) return static_cast<Word>(FaultCode::deadline);
    if (fuel == 0) return static_cast<Word>(FaultCode::fuel_exhausted);
  }
  fuel = opaque(fuel - 1);
  return 0;
}

/// Pays for turns of a loop, as many of `some` as there are to the next look at the abort word, and
/// makes `some` that number. Gives the code of a fault, else 0. No more is ever paid for than there
/// is fuel: what spend_turn() would do turn by turn.
template <class Lanes>
EK_DEVICE Word spend_turns(const Lanes& lanes, const Item& item, Fuel& fuel, Word& some) {
  Word most = static_cast<Word>(fuel % kPollTurns);
  if (most == 0) {
    if (is_aborted(lanes, item)) return static_cast<Word>(FaultCode::deadline);
    if (fuel == 0) return static_cast<Word>(FaultCode::fuel_exhausted);
    most = kPollTurns;
  }
  some = min_u32(some, most);
  fuel = opaque(fuel - some);
  return 0;
}

/// An arg at an index that is no constant. Looks at all of them: an array that is indexed would
/// lie in memory.
EK_DEVICE Word load_arg(const Item& item, Word index) {
  Word value = 0;
#pragma unroll
  for (Word i = 0; i < abi::kSlotArgs; ++i) value = index == i ? item.args[i] : value;
  return value;
}
EK_DEVICE void store_arg(Item& item, Word index, Word value) {
#pragma unroll
  for (Word i = 0; i < abi::kSlotArgs; ++i) item.args[i] = index == i ? value : item.args[i];
}

/// What is wrong with a control index, 0 if nothing is. Words below the observables are tenant 0's
/// to write.
EK_DEVICE Word control_fault(const Item& item, Word index, bool writes) {
  if (index >= item.control.size()) return static_cast<Word>(FaultCode::index_out_of_range);
  const bool is_protected = item.tenant != 0 && index < abi::kControlFirstObservable;
  return writes && is_protected ? static_cast<Word>(FaultCode::permission_denied) : 0;
}

/// Whether two buffers have no word in common.
EK_DEVICE bool is_apart(const Buffer& a, const Buffer& b) {
  return a.words + a.length <= b.words || b.words + b.length <= a.words;
}

/// The output of an each whose turns only update it, by one kind of atomic. A group adds up in its
/// tile where that pays and nothing else looks at the output meanwhile; everyone else goes to
/// memory at once.
template <class Lanes, class Combine>
class Tile {
 public:
  /// Before the lanes meet for the first turn.
  EK_DEVICE Tile(const Lanes& lanes, const Buffer& output, Word turns, bool is_alone)
      : begin_(Lanes::kHasTile ? tile_begin() : 0),
        count_(Lanes::kHasTile && is_alone && output.updatable <= tile_capacity() &&
                       turns / kTileTurnsPerWord >= output.updatable
                   ? output.updatable
                   : 0) {
    for (Word i = lanes.index(); i < count_; i += lanes.count()) {
      store_tile(at(i), Combine::kIdentity);
    }
  }
  EK_DEVICE void update(const Buffer& output, Word index, Word value) const {
    if (Lanes::kHasTile && count_ != 0) {
      Combine::in_tile(at(index), value);
    } else {
      Combine::in_memory(output.atomic(index), value);
    }
  }
  EK_DEVICE void update(const Buffer& output, const Word (&to)[kAhead],
                        const Word (&by)[kAhead]) const {
    if (Lanes::kHasTile && count_ != 0) {
#pragma unroll
      for (Word i = 0; i < kAhead; ++i) Combine::in_tile(at(to[i]), by[i]);
    } else {
#pragma unroll
      for (Word i = 0; i < kAhead; ++i) Combine::in_memory(output.atomic(to[i]), by[i]);
    }
  }
  /// Behind the last turn, before the lanes meet.
  EK_DEVICE void flush(const Lanes& lanes, const Buffer& output) const {
    if (count_ == 0) return;
    lanes.meet();
    for (Word i = lanes.index(); i < count_; i += lanes.count()) {
      const Word value = load_tile(at(i));
      if (value != Combine::kIdentity) Combine::in_memory(output.atomic(i), value);
    }
  }

 private:
  EK_DEVICE Word at(Word index) const {
    return begin_ + index * sizeof(Word);
  }

  Word begin_;  // where the tile is
  Word count_;  // words in it; 0 without it
};

/// The lowest turn of an each that faulted on this lane.
struct TurnFault {
  Word turn = ~0u;
  Word code = 0;

  EK_DEVICE bool is_set() const { return code != 0; }
  EK_DEVICE void note(Word its_turn, Word its_code) {
    if (code != 0) return;  // turns of a lane rise
    turn = its_turn;
    code = its_code;
  }
};

/// The code of the lowest turn that faulted on any lane. One did.
template <class Lanes>
EK_DEVICE Word lowest_fault(const Lanes& lanes, const TurnFault& mine) {
  const Word turn = lanes.lowest(mine.turn);
  return lanes.lowest(mine.is_set() && mine.turn == turn ? mine.code : ~0u);
}

}  // namespace everkernel::device
