// The device side of the litmus tests, as text for NVRTC.
//
// Each kind of test is a template over an order: the way flags and payloads are accessed. `Ordered`
// has the accessors of words.cuh that the megakernel uses. The other orders are weaker, and show
// that a test can fail. Rounds are numbered from 1, so that zeroed memory is round 0. A thread that
// makes no progress in kMaxIdleLooks looks ends and is counted as stuck, so that no kernel runs for
// ever.
#pragma once

#include <string_view>

namespace everkernel::test {

/// The counters that the kernels add their findings to.
enum class Finding : unsigned {
  seen,    ///< messages that arrived, at all threads
  stale,   ///< forbidden: the flag was new, the payload old
  answer,  ///< forbidden: the flag of an answer was new, the answer old
  twice,   ///< forbidden: a round was missed or taken twice, or a whole payload was old
  stuck,   ///< threads that gave up
};
inline constexpr unsigned kFindings = 5;

/// The value of a flag that ends the kernel.
inline constexpr unsigned kLitmusClosed = 0xFFFFFFFFu;

inline constexpr std::string_view kLitmusSource = R"cuda(
#include "jit/device/lanes.cuh"
#include "jit/device/words.cuh"

namespace everkernel::device {

// ---- accesses ----------------------------------------------------------------------------------

// Weak accesses, which the L1 cache may serve.
EK_DEVICE Word load_plain(Word* words, Wide i) {
  Word value;
  asm volatile("ld.global.ca.u32 %0, [%1];"
               : "=r"(value)
               : "l"(__cvta_generic_to_global(words + i))
               : "memory");
  return value;
}
EK_DEVICE void store_plain(Word* words, Wide i, Word value) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(words + i)), "r"(value)
               : "memory");
}
EK_DEVICE Words all(Word* words) { return {words, ~0u}; }

struct Ordered {
  static constexpr bool kWarmsCache = false;
  EK_DEVICE static Word load_flag(Word* w, Wide i) { return all(w).load_acquire(i); }
  EK_DEVICE static void store_flag(Word* w, Wide i, Word v) { all(w).store_release(i, v); }
  EK_DEVICE static Word load(Word* w, Wide i) { return all(w).load_relaxed(i); }
  EK_DEVICE static void store(Word* w, Wide i, Word v) { all(w).store_relaxed(i, v); }
  EK_DEVICE static bool claim(Word* w, Wide i, Word from, Word to) {
    return all(w).claim(i, from, to);
  }
};
// Plain payloads with ordered flags, as for the buffers of planned items: only one thread at a time
// accesses a payload.
struct Owned : Ordered {
  EK_DEVICE static Word load(Word* w, Wide i) { return load_plain(w, i); }
  EK_DEVICE static void store(Word* w, Wide i, Word v) { store_plain(w, i, v); }
};
// Flags without acquire and release.
struct Relaxed : Ordered {
  EK_DEVICE static Word load_flag(Word* w, Wide i) { return all(w).load_relaxed(i); }
  EK_DEVICE static void store_flag(Word* w, Wide i, Word v) { all(w).store_relaxed(i, v); }
  EK_DEVICE static bool claim(Word* w, Wide i, Word from, Word to) {
    return all(w).exchange_if(i, from, to) == from;
  }
};
// As Relaxed, with plain payloads of which the L1 cache holds old values.
struct Cached : Relaxed {
  static constexpr bool kWarmsCache = true;
  EK_DEVICE static Word load(Word* w, Wide i) { return load_plain(w, i); }
  EK_DEVICE static void store(Word* w, Wide i, Word v) { store_plain(w, i, v); }
};
// A claim by a load and a store, instead of one atomic operation.
struct Split : Ordered {
  EK_DEVICE static bool claim(Word* w, Wide i, Word from, Word to) {
    if (all(w).load_acquire(i) != from) return false;
    all(w).store_relaxed(i, to);
    return true;
  }
};

// Memory shared with the host: system scope, and only loads and stores.
struct HostOrdered {
  static constexpr bool kWarmsCache = false;
  EK_DEVICE static Wide at(Word* w, Wide i) { return __cvta_generic_to_global(w + i); }
  EK_DEVICE static Word load_flag(Word* w, Wide i) {
    Word value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at(w, i)) : "memory");
    return value;
  }
  EK_DEVICE static void store_flag(Word* w, Wide i, Word v) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at(w, i)), "r"(v) : "memory");
  }
  EK_DEVICE static uint4 load_quad(Word* w, Wide i) {
    uint4 quad;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w)
                 : "l"(at(w, i)));
    return quad;
  }
  EK_DEVICE static void store(Word* w, Wide i, Word v) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at(w, i)), "r"(v));
  }
};
struct HostRelaxed : HostOrdered {
  EK_DEVICE static Word load_flag(Word* w, Wide i) {
    Word value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at(w, i)));
    return value;
  }
  EK_DEVICE static void store_flag(Word* w, Wide i, Word v) { store(w, i, v); }
};
struct HostCached : HostRelaxed {
  static constexpr bool kWarmsCache = true;
  EK_DEVICE static uint4 load_quad(Word* w, Wide i) {
    uint4 quad;
    asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w)
                 : "l"(at(w, i))
                 : "memory");
    return quad;
  }
};

// ---- findings ----------------------------------------------------------------------------------

struct Tally {
  Word seen = 0, stale = 0, answer = 0, twice = 0, stuck = 0;

  EK_DEVICE void add_to(Word* findings) const {
    const Word counts[] = {seen, stale, answer, twice, stuck};
#pragma unroll
    for (Word i = 0; i < 5; ++i) {
      if (counts[i] != 0) all(findings).add_relaxed(i, counts[i]);
    }
  }
};

inline constexpr Word kClosed = 0xFFFFFFFFu;
inline constexpr Word kMaxIdleLooks = 1u << 20;  // loads of a flag without progress

// Word k of message n, and the answer to it.
EK_DEVICE Word word_of(Word n, Word k) { return n * 16 + k; }
EK_DEVICE Word answer_to(Word n) { return ~n; }
EK_DEVICE bool is_quad_of(uint4 quad, Word n, Word k) {
  return quad.x == word_of(n, k) && quad.y == word_of(n, k + 1) && quad.z == word_of(n, k + 2) &&
         quad.w == word_of(n, k + 3);
}

// ---- message passing ---------------------------------------------------------------------------

// Each cell has a sender and a receiver, in different blocks. The first half of the threads are
// senders. The words of a payload are far from each other and from the flag.
inline constexpr Word kPayloadWords = 4;

template <class Order>
EK_DEVICE void send(Word* payload, Word* flags, Word* answers, Word* acks, Word cells, Word cell,
                    Word rounds, Tally& tally) {
  Word round = 0;
  for (Word idle = 0; idle < kMaxIdleLooks; ++idle) {
    if (Order::load_flag(acks, cell) != round) continue;
    if (round != 0 && Order::load(answers, cell) != answer_to(round)) ++tally.answer;
    if (round == rounds) return;
    ++round;
    idle = 0;
#pragma unroll
    for (Word k = 0; k < kPayloadWords; ++k) {
      Order::store(payload, Wide{k} * cells + cell, word_of(round, k));
    }
    Order::store_flag(flags, cell, round);
  }
  ++tally.stuck;
}

template <class Order>
EK_DEVICE void receive(Word* payload, Word* flags, Word* answers, Word* acks, Word cells, Word cell,
                       Word rounds, Tally& tally) {
  Word seen = 0;
  for (Word idle = 0; idle < kMaxIdleLooks; ++idle) {
    if constexpr (Order::kWarmsCache) {
#pragma unroll
      for (Word k = 0; k < kPayloadWords; ++k) Order::load(payload, Wide{k} * cells + cell);
    }
    const Word round = Order::load_flag(flags, cell);
    if (round == seen) continue;
    bool is_whole = true;
#pragma unroll
    for (Word k = 0; k < kPayloadWords; ++k) {
      if (Order::load(payload, Wide{k} * cells + cell) != word_of(round, k)) is_whole = false;
    }
    if (!is_whole) ++tally.stale;
    if (round != seen + 1) ++tally.twice;
    ++tally.seen;
    seen = round;
    idle = 0;
    Order::store(answers, cell, answer_to(round));
    Order::store_flag(acks, cell, round);
    if (round == rounds) return;
  }
  ++tally.stuck;
}

template <class Order>
EK_DEVICE void pass_messages(Word* payload, Word* flags, Word* answers, Word* acks, Word* findings,
                             Word cells, Word rounds, Word spread) {
  const Word thread = blockIdx.x * blockDim.x + threadIdx.x;
  Tally tally;
  if (thread < cells) {
    send<Order>(payload, flags, answers, acks, cells, thread, rounds, tally);
  } else {
    // `spread` is odd and `cells` is a power of two, so that every cell has one receiver.
    const Word cell = ((thread - cells) * spread) & (cells - 1);
    receive<Order>(payload, flags, answers, acks, cells, cell, rounds, tally);
  }
  tally.add_to(findings);
}

// ---- claims ------------------------------------------------------------------------------------

// Each slot has one publisher and several claimers, which also try the neighbour slot. Slots are as
// in the wire format: a status, 14 words of payload, and a word for the answer.
inline constexpr Word kPublished = 1, kClaimed = 2, kDone = 3, kEnded = 9;
inline constexpr Word kAnswerWord = 15;

template <class Order>
EK_DEVICE void publish(Word* slot, Word rounds, Tally& tally) {
  Word round = 0;
  for (Word idle = 0; idle < kMaxIdleLooks; ++idle) {
    const Word status = Order::load_flag(slot, 0);
    if (status == kPublished || status == kClaimed) continue;
    if (round != 0 && Order::load(slot, kAnswerWord) != answer_to(round)) ++tally.answer;
    if (round == rounds) return Order::store_flag(slot, 0, kEnded);
    ++round;
    idle = 0;
#pragma unroll
    for (Word k = 1; k < kAnswerWord; ++k) Order::store(slot, k, word_of(round, k));
    Order::store_flag(slot, 0, kPublished);
  }
  ++tally.stuck;
}

// Returns whether it has claimed the slot. `claims` counts the claims of the slot: the payload must
// be that of the round with this number.
template <class Order>
EK_DEVICE bool try_claim(Word* slot, Word* claims, Tally& tally) {
  if constexpr (Order::kWarmsCache) {
#pragma unroll
    for (Word k = 1; k < kAnswerWord; ++k) Order::load(slot, k);
  }
  if (all(slot).load_relaxed(0) != kPublished) return false;
  if (!Order::claim(slot, 0, kPublished, kClaimed)) return false;
  const Word round = all(claims).fetch_add_relaxed(0, 1) + 1;
  const Word first = Order::load(slot, 1);
  bool is_whole = true;
#pragma unroll
  for (Word k = 2; k < kAnswerWord; ++k) {
    if (Order::load(slot, k) - first != k - 1) is_whole = false;
  }
  if (!is_whole) ++tally.stale;
  if (is_whole && first != word_of(round, 1)) ++tally.twice;
  ++tally.seen;
  Order::store(slot, kAnswerWord, answer_to(round));
  Order::store_flag(slot, 0, kDone);
  return true;
}

template <class Order>
EK_DEVICE void claim_slots(Word* ring, Word* claims, Word* findings, Word slots, Word rounds) {
  const Word thread = blockIdx.x * blockDim.x + threadIdx.x;
  Tally tally;
  if (thread < slots) {
    publish<Order>(ring + Wide{thread} * 16, rounds, tally);
  } else {
    // The claimers of each lap start in another order. `slots` is a power of two.
    const Word claimer = thread - slots;
    const Word lap = claimer / slots;
    Word slot = (claimer * (2 * lap + 1) + lap * 37) & (slots - 1);
    Word idle = 0;
    for (; idle < kMaxIdleLooks; ++idle, slot ^= 1) {
      if (try_claim<Order>(ring + Wide{slot} * 16, claims + slot, tally)) idle = 0;
      const bool has_ended = all(ring + Wide{slot} * 16).load_relaxed(0) == kEnded &&
                             all(ring + Wide{slot ^ 1} * 16).load_relaxed(0) == kEnded;
      if (has_ended) break;
    }
    if (idle == kMaxIdleLooks) ++tally.stuck;
  }
  tally.add_to(findings);
}

// ---- tickets -----------------------------------------------------------------------------------

// Rings of kCapacity slots. Each has one block that publishes kBlock slots at a time, one for each
// of its threads, and three blocks that consume; a warp takes 32 tickets. In the counters of a
// ring, word 0 is the tail and word 32 the head.
inline constexpr Word kCapacity = 1024, kBlock = 256, kBlocksPerRing = 4;

struct TicketRing {
  Word* slots;
  Word* counters;
  Word* seen;  // for each slot: how often it was consumed
  Word* done;  // for each group of 32 slots: laps that were consumed
  Word first;  // number of the first ticket
  Word count;  // number of tickets

  EK_DEVICE Word* tail() const { return counters; }
  EK_DEVICE Word* head() const { return counters + 32; }
};

template <class Order>
EK_DEVICE void publish_tickets(const TicketRing& ring, Tally& tally) {
  for (Word base = 0; base < ring.count; base += kBlock) {
    const Word n = base + threadIdx.x;
    const Word slot = n % kCapacity, lap = n / kCapacity;
    Word idle = 0;
    while (Order::load_flag(ring.done, slot / 32) != lap && idle < kMaxIdleLooks) ++idle;
    if (__syncthreads_or(idle == kMaxIdleLooks)) {
      ++tally.stuck;
      return;
    }
    if (all(ring.seen).load_relaxed(slot) != lap) ++tally.twice;
#pragma unroll
    for (Word k = 0; k < 16; ++k) Order::store(ring.slots, Wide{slot} * 16 + k, word_of(n + 1, k));
    __syncthreads();
    if (threadIdx.x == 0) Order::store_flag(ring.tail(), 0, ring.first + base + kBlock);
  }
}

template <class Order>
EK_DEVICE void consume_tickets(const TicketRing& ring, Tally& tally) {
  const Word lane = WarpLanes().index();
  for (;;) {
    Word base = 0;
    if (lane == 0) base = all(ring.head()).fetch_add_relaxed(0, 32) - ring.first;
    base = __shfl_sync(kAllLanes, base, 0);
    if (base >= ring.count) return;
    const Word n = base + lane;
    const Word slot = n % kCapacity, lap = n / kCapacity;
    if constexpr (Order::kWarmsCache) {
#pragma unroll
      for (Word k = 0; k < 16; ++k) Order::load(ring.slots, Wide{slot} * 16 + k);
    }
    Word idle = 0;
    if (lane == 0) {
      while (static_cast<int>(Order::load_flag(ring.tail(), 0) - ring.first - base) < 32 &&
             idle < kMaxIdleLooks) {
        ++idle;
      }
    }
    // One lane has acquired; the warp barriers order its acquire before the loads of the others.
    if (__shfl_sync(kAllLanes, idle, 0) == kMaxIdleLooks) {
      ++tally.stuck;
      return;
    }
    __syncwarp();
    bool is_whole = true;
#pragma unroll
    for (Word k = 0; k < 16; ++k) {
      if (Order::load(ring.slots, Wide{slot} * 16 + k) != word_of(n + 1, k)) is_whole = false;
    }
    if (!is_whole) ++tally.stale;
    if (all(ring.seen).fetch_add_relaxed(slot, 1) != lap) ++tally.twice;
    ++tally.seen;
    __syncwarp();
    if (lane == 0) Order::store_flag(ring.done, slot / 32, lap + 1);
  }
}

template <class Order>
EK_DEVICE void take_tickets(Word* slots, Word* counters, Word* seen, Word* done, Word* findings,
                            Word first, Word count) {
  const Word index = blockIdx.x / kBlocksPerRing;
  const TicketRing ring{slots + Wide{index} * kCapacity * 16,
                        counters + Wide{index} * 64,
                        seen + Wide{index} * kCapacity,
                        done + Wide{index} * (kCapacity / 32),
                        first,
                        count};
  Tally tally;
  if (blockIdx.x % kBlocksPerRing == 0) {
    publish_tickets<Order>(ring, tally);
  } else {
    consume_tickets<Order>(ring, tally);
  }
  tally.add_to(findings);
}

// ---- with the host -----------------------------------------------------------------------------

// A slot in host memory is one cache line that only the host writes: a flag, then the payload. Only
// the device writes answers and acks.
template <class Order>
EK_DEVICE bool is_whole_slot(Word* slot, Word round) {
  // One quad from each half of the line.
  return is_quad_of(Order::load_quad(slot, 4), round, 4) &
         is_quad_of(Order::load_quad(slot, 12), round, 12);
}
template <class Order>
EK_DEVICE void warm(Word* slot) {
  if constexpr (Order::kWarmsCache) {
    Order::load_quad(slot, 4);
    Order::load_quad(slot, 12);
  }
}
template <class Order>
EK_DEVICE void answer(Word* answers, Word* acks, Word cell, Word round) {
  Order::store(answers, cell, answer_to(round));
  Order::store_flag(acks, cell, round);
}

// One thread for each slot.
template <class Order>
EK_DEVICE void receive_from_host(Word* slots, Word* answers, Word* acks, Word* findings) {
  const Word cell = blockIdx.x * blockDim.x + threadIdx.x;
  Word* const slot = slots + Wide{cell} * 16;
  Tally tally;
  Word seen = 0;
  for (;;) {
    warm<Order>(slot);
    const Word round = Order::load_flag(slot, 0);
    if (round == kClosed) break;
    if (round == seen) continue;
    if (!is_whole_slot<Order>(slot, round)) ++tally.stale;
    if (round != seen + 1) ++tally.twice;
    ++tally.seen;
    seen = round;
    answer<Order>(answers, acks, cell, round);
  }
  tally.add_to(findings);
}

// Two threads of different blocks for each slot. They claim it in device memory: `owners` holds the
// last round that was claimed, `claims` counts the claims.
template <class Order>
EK_DEVICE void claim_from_host(Word* slots, Word* owners, Word* claims, Word* answers, Word* acks,
                               Word* findings, Word slot_count) {
  const Word thread = blockIdx.x * blockDim.x + threadIdx.x;
  const Word cell = thread < slot_count ? thread : 2 * slot_count - 1 - thread;
  Word* const slot = slots + Wide{cell} * 16;
  Tally tally;
  Word seen = 0;
  for (;;) {
    warm<Order>(slot);
    const Word round = Order::load_flag(slot, 0);
    if (round == kClosed) break;
    if (round == seen) continue;
    seen = round;
    if (!all(owners).claim(cell, round - 1, round)) continue;
    if (!is_whole_slot<Order>(slot, round)) ++tally.stale;
    if (all(claims).fetch_add_relaxed(cell, 1) != round - 1) ++tally.twice;
    ++tally.seen;
    answer<Order>(answers, acks, cell, round);
  }
  tally.add_to(findings);
}

// One thread polls the tail in host memory and copies it to device memory for the others: word 0 of
// `board` is the tail, word 32 the end, word 64 the head.
template <class Order>
EK_DEVICE void scout(Word* host_tail, Word* host_end, Word* board) {
  Word known = 0;
  for (;;) {
    const Word tail = Order::load_flag(host_tail, 0);
    if (tail == known) continue;
    known = tail;
    const Word end = Order::load_flag(host_end, 0);
    all(board).store_relaxed(32, end);
    all(board).store_release(0, tail);
    if (tail == end) return;
  }
}

// A warp takes 32 tickets, four lanes read a slot, and one word of `done` reports 32 slots.
template <class Order>
EK_DEVICE void take_host_tickets(Word* slots, Word* host_tail, Word* host_end, Word* done,
                                 Word* board, Word* seen, Word* findings, Word capacity) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) scout<Order>(host_tail, host_end, board);
    return;
  }
  const Word lane = WarpLanes().index();
  Tally tally;
  for (;;) {
    Word base = 0;
    if (lane == 0) base = all(board).fetch_add_relaxed(64, 32);
    base = __shfl_sync(kAllLanes, base, 0);
    bool is_over = false;
    if (lane == 0) {
      while (static_cast<int>(all(board).load_acquire(0) - base) < 32 && !is_over) {
        is_over = base >= all(board).load_relaxed(32);
      }
    }
    if (__shfl_sync(kAllLanes, is_over, 0)) break;
    __syncwarp();
    const Word group = base % capacity;
#pragma unroll
    for (Word i = 0; i < 4; ++i) {
      const Word place = 8 * i + lane / 4, k = lane % 4 * 4;
      const Wide at = Wide{group + place} * 16 + k;
      if constexpr (Order::kWarmsCache) Order::load_quad(slots, at);
      if (!is_quad_of(Order::load_quad(slots, at), base + place + 1, k)) ++tally.stale;
    }
    if (all(seen).fetch_add_relaxed(group + lane, 1) != base / capacity) ++tally.twice;
    ++tally.seen;
    __syncwarp();
    if (lane == 0) Order::store_flag(done, group / 32, base / capacity + 1);
  }
  tally.add_to(findings);
}

// ---- kernels -----------------------------------------------------------------------------------

#define EK_MESSAGES(Order)                                                                        \
  extern "C" __global__ void messages_##Order(Word* payload, Word* flags, Word* answers,          \
                                              Word* acks, Word* findings, Word cells,             \
                                              Word rounds, Word spread) {                         \
    pass_messages<Order>(payload, flags, answers, acks, findings, cells, rounds, spread);         \
  }
EK_MESSAGES(Ordered)
EK_MESSAGES(Owned)
EK_MESSAGES(Relaxed)
EK_MESSAGES(Cached)

#define EK_CLAIMS(Order)                                                                          \
  extern "C" __global__ void claims_##Order(Word* ring, Word* claims, Word* findings, Word slots, \
                                            Word rounds) {                                        \
    claim_slots<Order>(ring, claims, findings, slots, rounds);                                    \
  }
EK_CLAIMS(Ordered)
EK_CLAIMS(Relaxed)
EK_CLAIMS(Cached)
EK_CLAIMS(Split)

#define EK_TICKETS(Order)                                                                         \
  extern "C" __global__ void __launch_bounds__(kBlock)                                            \
      tickets_##Order(Word* slots, Word* counters, Word* seen, Word* done, Word* findings,        \
                      Word first, Word count) {                                                   \
    take_tickets<Order>(slots, counters, seen, done, findings, first, count);                     \
  }
EK_TICKETS(Ordered)
EK_TICKETS(Owned)
EK_TICKETS(Relaxed)
EK_TICKETS(Cached)

#define EK_WITH_HOST(Order)                                                                       \
  extern "C" __global__ void messages_##Order(Word* slots, Word* answers, Word* acks,             \
                                              Word* findings) {                                   \
    receive_from_host<Order>(slots, answers, acks, findings);                                     \
  }                                                                                               \
  extern "C" __global__ void claims_##Order(Word* slots, Word* owners, Word* claims,              \
                                            Word* answers, Word* acks, Word* findings,            \
                                            Word slot_count) {                                    \
    claim_from_host<Order>(slots, owners, claims, answers, acks, findings, slot_count);           \
  }                                                                                               \
  extern "C" __global__ void tickets_##Order(Word* slots, Word* host_tail, Word* host_end,        \
                                             Word* done, Word* board, Word* seen,                 \
                                             Word* findings, Word capacity) {                     \
    take_host_tickets<Order>(slots, host_tail, host_end, done, board, seen, findings, capacity);  \
  }
EK_WITH_HOST(HostOrdered)
EK_WITH_HOST(HostRelaxed)
EK_WITH_HOST(HostCached)

}  // namespace everkernel::device
)cuda";

}  // namespace everkernel::test
