// The device side of the litmus tests of live queues, as text for NVRTC. It uses the accessors of
// live_memory.cuh; variants without one of them show that a test can fail.
#pragma once

#include <string_view>

namespace everkernel::test {

/// Words of device memory that an item writes: 4 KiB.
inline constexpr unsigned kLiveWords = 1024;
/// Words and bytes from one entry to the next, and from one outcome: a line of their own.
inline constexpr unsigned kEntryStride = 32;
inline constexpr unsigned kOutcomeStride = 128;

inline constexpr std::string_view kLiveLitmusSource = R"cuda(
#include "backend/cuda/device/live_memory.cuh"
#include "jit/device/lanes.cuh"
#include "jit/device/words.cuh"

namespace everkernel::device {

inline constexpr Word kClosed = 0xFFFFFFFFu;
inline constexpr Word kSeen = 0, kStale = 1;  // findings
inline constexpr Word kLiveWords = 1024, kEntryStride = 32, kOutcomeStride = 128;

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
    const Quad quad = Load::load(entries + Wide{cell} * kEntryStride);
    if (quad.a == kClosed) break;
    if (quad.a == round && quad.d == (round == 0 ? 0 : round + 3)) continue;
    if (quad.b != quad.a + 1 || quad.c != quad.a + 2 || quad.d != quad.a + 3) {
      ++stale;
      continue;  // the next load has the rest
    }
    round = quad.a;
    ++seen;
    store_outcome_byte(outcomes, cell * kOutcomeStride, byte_of(round));
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

// Each block stores a byte in every round, all beside each other.
template <class Store>
EK_DEVICE void store_bytes(const Word* round_word, Word* outcomes) {
  if (threadIdx.x != 0) return;
  Word seen = 0;
  for (;;) {
    const Word round = load_entry_quad(round_word).a;
    if (round == kClosed) break;
    if (round == seen) continue;
    seen = round;
    Store::store(outcomes, blockIdx.x, byte_of(round));
  }
}
extern "C" __global__ void bytes_Bytes(const Word* round_word, Word* outcomes) {
  store_bytes<Bytes>(round_word, outcomes);
}
extern "C" __global__ void bytes_Merged(const Word* round_word, Word* outcomes) {
  store_bytes<Merged>(round_word, outcomes);
}

// ---- what items write --------------------------------------------------------------------------

// Blocks of one warp. Each even block writes the words of its pair in every round, the block behind
// it reads them. The host publishes the second item when it has seen the outcome of the first.
template <bool kFences, bool kAcquires>
EK_DEVICE void run_items(const Word* entries, Word* outcomes, Word* data, Word* findings) {
  const Word lane = lane_index();
  const bool writes = blockIdx.x % 2 == 0;
  const Word* const entry = entries + Wide{blockIdx.x} * kEntryStride;
  Word* const words = data + Wide{blockIdx.x / 2} * kLiveWords;
  Word round = 0, seen = 0, stale = 0;
  for (;;) {
    const Word found = __shfl_sync(kAllLanes, load_entry_quad(entry).a, 0);
    if (found == kClosed) break;
    if (found == round) continue;
    round = found;
    if (kAcquires) acquire_entries();
    __syncwarp();
    for (Word i = lane; i < kLiveWords; i += kWarpLanes) {
      if (writes) store_plain(words + i, round + i);
      if (!writes && load_plain(words + i) != round + i) ++stale;
    }
    if (kFences) fence();
    __syncwarp();
    if (lane != 0) continue;
    ++seen;
    store_outcome_byte(outcomes, blockIdx.x * kOutcomeStride, byte_of(round));
  }
  add_finding(findings, kSeen, writes ? 0 : seen);
  add_finding(findings, kStale, stale);
}
#define EK_ITEMS(name, fences, acquires)                                                          \
  extern "C" __global__ void items_##name(const Word* entries, Word* outcomes, Word* data,        \
                                          Word* findings) {                                       \
    run_items<fences, acquires>(entries, outcomes, data, findings);                               \
  }
EK_ITEMS(Ordered, true, true)
EK_ITEMS(WithoutFence, false, true)
EK_ITEMS(WithoutAcquire, true, false)

}  // namespace everkernel::device
)cuda";

}  // namespace everkernel::test
