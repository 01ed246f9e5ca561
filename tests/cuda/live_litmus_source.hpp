// The device side of the litmus tests of live queues, as text for NVRTC. It uses the accessors of
// live_memory.cuh; variants without one of them show that a test can fail.
#pragma once

#include <string_view>

namespace everkernel::test {

/// Words of device memory that an item writes: of a lane, of a warp, and of a block whose words the
/// driver copies.
inline constexpr unsigned kLaneWords = 16;
inline constexpr unsigned kWarpWords = 1024;
inline constexpr unsigned kCopiedWords = 64;
/// Words of an entry. Neighbours lie beside each other, as in queues; outcomes do, too.
inline constexpr unsigned kEntryWords = 4;
/// Bytes that blocks store beside each other in one line.
inline constexpr unsigned kLineOfBytes = 128;

inline constexpr std::string_view kLiveLitmusSource = R"cuda(
#include "backend/cuda/device/live_memory.cuh"
#include "jit/device/lanes.cuh"
#include "jit/device/words.cuh"

namespace everkernel::device {

inline constexpr Word kClosed = 0xFFFFFFFFu;
inline constexpr Word kSeen = 0, kStale = 1;  // findings
inline constexpr Word kLaneWords = 16, kWarpWords = 1024, kCopiedWords = 64;
inline constexpr Word kEntryWords = 4, kLineOfBytes = 128;

// The byte by which the host knows that a round has ended.
EK_DEVICE Word byte_of(Word round) { return 0x80 | (round & 0x7F); }

EK_DEVICE void add_finding(Word* findings, Word finding, Word count) {
  if (count != 0) Words{findings, 2}.add_relaxed(finding, count);
}

// Weak accesses, which the first-level cache may serve.
EK_DEVICE Word load_plain(const Word* word) {
  Word value;
  asm volatile("ld.global.ca.u32 %0, [%1];"
               : "=r"(value)
               : "l"(__cvta_generic_to_global(word))
               : "memory");
  return value;
}
EK_DEVICE void store_plain(Word* word, Word value) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(word)), "r"(value)
               : "memory");
}

// ---- entries -----------------------------------------------------------------------------------

struct Whole {
  EK_DEVICE static Quad load(const Word* entry) { return load_entry_quad(entry); }
};
// The second half first: a store between the two loads tears the entry.
struct Halves {
  EK_DEVICE static Wide half(const Word* at) {
    Wide value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(__cvta_generic_to_global(at))
                 : "memory");
    return value;
  }
  EK_DEVICE static Quad load(const Word* entry) {
    const Wide high = half(entry + 2), low = half(entry);
    return {static_cast<Word>(low), static_cast<Word>(low >> 32), static_cast<Word>(high),
            static_cast<Word>(high >> 32)};
  }
};

// A thread for each entry. The words of round n are n, n + 1, n + 2 and n + 3.
template <class Load>
EK_DEVICE void take_entries(const Word* entries, Word* outcomes, Word* findings) {
  const Word cell = blockIdx.x * blockDim.x + threadIdx.x;
  Word round = 0, seen = 0, stale = 0;
  for (;;) {
    const Quad quad = Load::load(entries + Wide{cell} * kEntryWords);
    if (quad.a == kClosed) break;
    if (quad.a == round && quad.d == (round == 0 ? 0 : round + 3)) continue;
    if (quad.b != quad.a + 1 || quad.c != quad.a + 2 || quad.d != quad.a + 3) {
      ++stale;
      continue;  // the next load has the rest
    }
    round = quad.a;
    ++seen;
    store_outcome_byte(outcomes, cell, byte_of(round));
  }
  add_finding(findings, kSeen, seen);
  add_finding(findings, kStale, stale);
}
extern "C" __global__ void entries_Whole(const Word* entries, Word* outcomes, Word* findings) {
  take_entries<Whole>(entries, outcomes, findings);
}
extern "C" __global__ void entries_Halves(const Word* entries, Word* outcomes, Word* findings) {
  take_entries<Halves>(entries, outcomes, findings);
}

// ---- outcomes ----------------------------------------------------------------------------------

struct Bytes {
  EK_DEVICE static void store(Word* outcomes, Word place, Word byte) {
    store_outcome_byte(outcomes, place, byte);
  }
};
// Loads a word and stores it with one byte changed: the bytes of others go back to what they were.
struct Merged {
  EK_DEVICE static void store(Word* outcomes, Word place, Word byte) {
    const Wide at = __cvta_generic_to_global(outcomes + place / 4);
    const Word shift = place % 4 * 8;
    Word word;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(at) : "memory");
    word = (word & ~(0xFFu << shift)) | byte << shift;
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(word) : "memory");
  }
};

// Each thread stores a byte in every round. Those of a line come from different blocks.
template <class Store>
EK_DEVICE void store_bytes(const Word* round_word, Word* outcomes) {
  Word seen = 0;
  for (;;) {
    const Word round = load_entry_quad(round_word).a;
    if (round == kClosed) break;
    if (round == seen) continue;
    seen = round;
    Store::store(outcomes, threadIdx.x * kLineOfBytes + blockIdx.x, byte_of(round));
  }
}
extern "C" __global__ void bytes_Bytes(const Word* round_word, Word* outcomes) {
  store_bytes<Bytes>(round_word, outcomes);
}
extern "C" __global__ void bytes_Merged(const Word* round_word, Word* outcomes) {
  store_bytes<Merged>(round_word, outcomes);
}

// ---- what items write --------------------------------------------------------------------------

// Places of items: a lane or a warp each, of which even blocks write the words and odd blocks read
// them. The host publishes the second item of a place when it has seen the outcome of the first.
// While a reader waits it loads the words, so that the first-level cache has those of the last
// round: without the acquire its item would read them.
template <Word kWidth, Word kWords, bool kAcquires>
EK_DEVICE void run_items(const Word* entries, Word* outcomes, Word* data, Word* findings) {
  const bool writes = blockIdx.x % 2 == 0;
  const Word lane = threadIdx.x % kWidth;
  const Word places = gridDim.x / 2 * (blockDim.x / kWidth);
  const Word place = (blockIdx.x / 2 * blockDim.x + threadIdx.x) / kWidth;
  const Word cell = writes ? place : places + place;
  // Words of neighbours lie beside each other.
  Word* const words = kWidth == 1 ? data + place : data + Wide{place} * kWords;
  const Word stride = kWidth == 1 ? places : 1;
  Word round = 0, seen = 0, stale = 0;
  for (bool is_open = true; __any_sync(kAllLanes, is_open);) {
    for (Word i = lane; i < kWords && !writes; i += kWidth) load_plain(words + Wide{i} * stride);
    Word found = load_entry_quad(entries + Wide{cell} * kEntryWords).a;
    if (kWidth == kWarpLanes) found = __shfl_sync(kAllLanes, found, 0);
    is_open = found != kClosed;
    if (!is_open || found == round) continue;
    round = found;
    if (kAcquires) acquire_entries();
    if (kWidth == kWarpLanes) __syncwarp();
    for (Word i = lane; i < kWords; i += kWidth) {
      Word* const word = words + Wide{i} * stride;
      if (writes) store_plain(word, round + i);
      if (!writes && load_plain(word) != round + i) ++stale;
    }
    fence();
    if (kWidth == kWarpLanes) __syncwarp();
    if (lane != 0) continue;
    ++seen;
    store_outcome_byte(outcomes, cell, byte_of(round));
  }
  add_finding(findings, kSeen, writes ? 0 : seen);
  add_finding(findings, kStale, stale);
}
#define EK_ITEMS(name, width, words, acquires)                                                    \
  extern "C" __global__ void items_##name(const Word* entries, Word* outcomes, Word* data,        \
                                          Word* findings) {                                       \
    run_items<width, words, acquires>(entries, outcomes, data, findings);                         \
  }
EK_ITEMS(OfLanes, 1, kLaneWords, true)
EK_ITEMS(OfWarps, kWarpLanes, kWarpWords, true)
EK_ITEMS(WithoutAcquire, kWarpLanes, kWarpWords, false)

// Each block writes words, which the host copies by the driver when it has seen the outcome.
// Threads behind the first warp may be late: they sleep before they write.
inline constexpr Word kLateNs = 100'000;
template <bool kAreLate, bool kWaits>
EK_DEVICE void write_for_copies(const Word* entries, Word* outcomes, Word* data, Word* findings) {
  const Word* const entry = entries + Wide{blockIdx.x} * kEntryWords;
  Word* const words = data + Wide{blockIdx.x} * kCopiedWords;
  Word round = 0, seen = 0;
  for (;;) {
    const Word found = __shfl_sync(kAllLanes, load_entry_quad(entry).a, 0);
    if (found == kClosed) break;
    if (found == round) continue;
    round = found;
    acquire_entries();
    if (kAreLate && threadIdx.x >= kWarpLanes) __nanosleep(kLateNs);
    for (Word i = threadIdx.x; i < kCopiedWords; i += blockDim.x) store_plain(words + i, round + i);
    fence();
    if (kWaits) __syncthreads();
    if (threadIdx.x != 0) continue;
    ++seen;
    store_outcome_byte(outcomes, blockIdx.x, byte_of(round));
  }
  add_finding(findings, kSeen, seen);
}
#define EK_COPIES(name, are_late, waits)                                                          \
  extern "C" __global__ void copies_##name(const Word* entries, Word* outcomes, Word* data,       \
                                           Word* findings) {                                      \
    write_for_copies<are_late, waits>(entries, outcomes, data, findings);                         \
  }
EK_COPIES(Ordered, false, true)
EK_COPIES(Late, true, true)
EK_COPIES(WithoutBarrier, true, false)

}  // namespace everkernel::device
)cuda";

}  // namespace everkernel::test
