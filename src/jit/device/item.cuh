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
/// stored to, one below both used atomically; what a failed comparison means, access_fault() says.
struct Buffer {
  Word* words = nullptr;
  Word length = 0;           // words, 0 where `fault` says why
  Word readable = 0;         // length, or 0 without the right
  Word writable = 0;         // length, or 0 without the right
  Word fault = 0;            // bad_buffer_handle or permission_denied of an owner, else 0
  bool is_constant = false;  // no handler can write it

  EK_DEVICE Wide at(Word index) const { return __cvta_generic_to_global(words + index); }
};

/// Finds the buffer of a handle for a tenant. Never faults: using the buffer does.
EK_DEVICE Buffer find_buffer(const BufferTable& table, Word handle, Word tenant) {
  Buffer buffer;
  buffer.fault = static_cast<Word>(FaultCode::bad_buffer_handle);
  if (handle == 0 || table.entries == nullptr) return buffer;
  for (Word place = (handle * 0x9E3779B1u >> 7) & table.mask;; place = (place + 1) & table.mask) {
    const Wide entry = __cvta_generic_to_global(table.entries + place);
    Word count, found;
    asm("ld.global.nc.v2.u32 {%0, %1}, [%2+8]; // ek:table"
        : "=r"(count), "=r"(found)
        : "l"(entry));
    if (found == 0) return buffer;
    if (found != handle) continue;
    Wide words;
    Word access, owner;
    asm("ld.global.nc.u64 %0, [%1]; // ek:table" : "=l"(words) : "l"(entry));
    asm("ld.global.nc.v2.u32 {%0, %1}, [%2+16]; // ek:table"
        : "=r"(access), "=r"(owner)
        : "l"(entry));
    if (owner != kEveryTenant && owner != tenant) {
      buffer.fault = static_cast<Word>(FaultCode::permission_denied);
      return buffer;
    }
    buffer.words = reinterpret_cast<Word*>(words);
    buffer.length = count;
    buffer.readable = (access & kAccessRead) != 0 ? count : 0;
    buffer.writable = (access & kAccessWrite) != 0 ? count : 0;
    buffer.fault = 0;
    buffer.is_constant = access == kAccessRead;
    return buffer;
  }
}

/// Why an access that needs these rights failed.
EK_DEVICE Word access_fault(const Buffer& buffer, bool reads, bool writes) {
  if (buffer.fault != 0) return buffer.fault;
  const bool may =
      (!reads || buffer.readable == buffer.length) && (!writes || buffer.writable == buffer.length);
  return static_cast<Word>(may ? FaultCode::index_out_of_range : FaultCode::permission_denied);
}

// ---- lanes ----------------------------------------------------------------------------------

/// The thread that runs an item of `scope lane`, or any item where only one thread can.
struct OneLane {
  EK_DEVICE Word index() const { return 0; }
  EK_DEVICE Word count() const { return 1; }
  EK_DEVICE bool leads() const { return true; }
  EK_DEVICE void meet() const {}
  EK_DEVICE Word from_leader(Word value) const { return value; }
  EK_DEVICE Word lowest(Word value) const { return value; }
  EK_DEVICE Word total(Word value) const { return value; }
  EK_DEVICE Wide total(Wide value) const { return value; }
};

/// The 32 threads of a warp that run one item of `scope warp` together.
struct WarpLanes {
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
  EK_DEVICE Word from_leader(Word value) const { return __shfl_sync(kAll, value, 0); }
  EK_DEVICE Word lowest(Word value) const { return __reduce_min_sync(kAll, value); }
  EK_DEVICE Word total(Word value) const { return __reduce_add_sync(kAll, value); }
  EK_DEVICE Wide total(Wide value) const {
    for (Word step = 16; step != 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
    return value;
  }
};

/// The threads of a block that run one item of `scope group` together.
struct GroupLanes {
  EK_DEVICE Word index() const { return threadIdx.x; }
  EK_DEVICE Word count() const { return blockDim.x; }
  EK_DEVICE bool leads() const { return threadIdx.x == 0; }
  EK_DEVICE void meet() const { __syncthreads(); }
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

}  // namespace everkernel::device
