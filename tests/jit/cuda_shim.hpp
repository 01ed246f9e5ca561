// Stands in for device/item.cuh where generated handlers are compiled as C++ of this machine: the
// same names, on ordinary memory. Lanes are fibers that take turns at every meeting, so that what
// lanes of a warp or group do together is tried without a GPU.
//
// The file is compiled with the generated text behind it. The sections of item.cuh that touch no
// hardware are used as they are: the test cuts them out into cuda_values.inc and cuda_running.inc.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include "cuda_shim_frame.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/fault.hpp"

#define __device__
#define __noinline__ __attribute__((noinline))
#define EK_DEVICE inline

// Intrinsics of the device, as its manual says them.
inline float __uint_as_float(unsigned bits) {
  return __builtin_bit_cast(float, bits);
}
inline unsigned __float_as_uint(float value) {
  return __builtin_bit_cast(unsigned, value);
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline float __fsqrt_rn(float a) {
  return __builtin_sqrtf(a);
}
inline float floorf(float a) {
  return __builtin_floorf(a);
}
inline int __clz(int a) {
  return a == 0 ? 32 : __builtin_clz(static_cast<unsigned>(a));
}
inline int __popc(unsigned a) {
  return __builtin_popcount(a);
}
inline unsigned __float2uint_rz(float a) {
  return static_cast<unsigned>(a);
}
inline int __float2int_rz(float a) {
  return static_cast<int>(a);
}
inline float __uint2float_rn(unsigned a) {
  return static_cast<float>(a);
}
inline float __int2float_rn(int a) {
  return static_cast<float>(a);
}

namespace everkernel::device {

using abi::FaultCode;
using abi::Word;
using Wide = unsigned long long;

#include "cuda_values.inc"

// ---- words ----

/// Fibers share one thread: plain memory is atomic enough.
class AtomicWord {
 public:
  explicit AtomicWord(Word* at) : at_(at) {}
  void add(Word value) const { fetch_add(value); }
  void min(Word value) const { fetch_min(value); }
  void max(Word value) const { fetch_max(value); }
  void bit_and(Word value) const { fetch_and(value); }
  void bit_or(Word value) const { fetch_or(value); }
  void bit_xor(Word value) const { fetch_xor(value); }
  Word fetch_add(Word value) const { return exchange(*at_ + value); }
  Word fetch_min(Word value) const { return exchange(*at_ < value ? *at_ : value); }
  Word fetch_max(Word value) const { return exchange(*at_ < value ? value : *at_); }
  Word fetch_and(Word value) const { return exchange(*at_ & value); }
  Word fetch_or(Word value) const { return exchange(*at_ | value); }
  Word fetch_xor(Word value) const { return exchange(*at_ ^ value); }
  Word exchange_if(Word expected, Word desired) const {
    return exchange(*at_ == expected ? desired : *at_);
  }
  Word exchange(Word value) const {
    const Word before = *at_;
    *at_ = value;
    return before;
  }

 private:
  Word* at_;
};

class Words {
 public:
  Words() = default;
  Words(Word* words, Word count) : words_(words), count_(count) {}
  Word size() const { return count_; }
  Word load_relaxed(Wide i) const { return words_[i]; }
  Word load_relaxed_if(bool is_there, Wide i) const { return is_there ? words_[i] : 0; }
  void store_relaxed(Wide i, Word value) const { words_[i] = value; }
  AtomicWord atomic(Wide i) const { return AtomicWord(words_ + i); }

 private:
  Word* words_ = nullptr;
  Word count_ = 0;
};

// ---- buffers ----

struct BufferEntry {
  Word* words;
  Word word_count, handle, access, owner;
};
struct BufferTable {
  const BufferEntry* entries;
  Word mask;
};
struct Buffer {
  Word* words = nullptr;
  Word length = 0, readable = 0, writable = 0, updatable = 0, access = 0;
  Word fault = static_cast<Word>(FaultCode::bad_buffer_handle);
  bool is_constant = false;
  Wide at(Word index) const { return __builtin_bit_cast(Wide, words + index); }
  AtomicWord atomic(Word index) const { return AtomicWord(words + index); }
};

/// Whether a handler could write the words through another handle.
inline bool has_writable_alias(const BufferTable& table, const BufferEntry& entry) {
  for (Word i = 0; i <= table.mask; ++i) {
    const BufferEntry& other = table.entries[i];
    const bool overlaps = other.handle != 0 && other.words < entry.words + entry.word_count &&
                          entry.words < other.words + other.word_count;
    if (overlaps && (other.access & 2) != 0) return true;
  }
  return false;
}

inline Buffer find_buffer(const BufferTable& table, Word handle, Word tenant) {
  Buffer buffer;
  if (handle == 0 || table.entries == nullptr) return buffer;
  Word place = (handle * 0x9E3779B1u >> 7) & table.mask;
  while (table.entries[place].handle != handle) {
    if (table.entries[place].handle == 0) return buffer;
    place = (place + 1) & table.mask;
  }
  const BufferEntry& entry = table.entries[place];
  const bool is_owner = entry.owner == ~0u || entry.owner == tenant;
  buffer.fault = is_owner ? 0 : static_cast<Word>(FaultCode::permission_denied);
  if (!is_owner) return buffer;
  buffer.words = entry.words;
  buffer.length = entry.word_count;
  buffer.access = entry.access;
  buffer.readable = (entry.access & 1) != 0 ? entry.word_count : 0;
  buffer.writable = (entry.access & 2) != 0 ? entry.word_count : 0;
  buffer.updatable = entry.access == 3 ? entry.word_count : 0;
  buffer.is_constant = entry.access == 1 && !has_writable_alias(table, entry);
  return buffer;
}

inline Word access_fault(const Buffer& buffer, Word needed) {
  if (buffer.fault != 0) return buffer.fault;
  const bool may = (buffer.access & needed) == needed;
  return static_cast<Word>(may ? FaultCode::index_out_of_range : FaultCode::permission_denied);
}

inline constexpr Word kAhead = 8;
inline void load_ahead_constant(const Buffer& buffer, const Word (&at)[kAhead],
                                Word (&words)[kAhead]) {
  for (Word i = 0; i < kAhead; ++i) words[i] = buffer.words[at[i]];
}
inline void load_ahead_shared(const Buffer& buffer, const Word (&at)[kAhead],
                              Word (&words)[kAhead]) {
  load_ahead_constant(buffer, at, words);
}
inline void load_ahead_owned(const Buffer& buffer, const Word (&at)[kAhead],
                             Word (&words)[kAhead]) {
  load_ahead_constant(buffer, at, words);
}

// ---- lanes ----

struct OneLane {
  static constexpr bool kHasTile = false;
  static constexpr bool kKeepsOrder = true;
  static constexpr bool kIsOne = true;
  Word index() const { return 0; }
  Word count() const { return 1; }
  bool leads() const { return true; }
  void meet() const {}
  void converge() const {}
  Word from_leader(Word value) const { return value; }
  bool meet_any(bool value) const { return value; }
  Word lowest(Word value) const { return value; }
  template <class Number>
  Number total(Number value) const {
    return value;
  }
};

/// Lanes that run one after the other from meeting to meeting.
class Fibers {
 public:
  static constexpr Word kLanes = 5;  // any number shows what lanes do; no power of two
  static constexpr unsigned long kStackBytes = 256 * 1024;

  /// Runs `lane(index)` for every lane. Says what went wrong, null if nothing did.
  template <class Lane>
  const char* run(const Lane& lane) {
    body_ = [](const void* callable, Word index) { (*static_cast<const Lane*>(callable))(index); };
    callable_ = &lane;
    for (Word i = 0; i < kLanes; ++i) prepare(lanes_[i]);
    for (Word round = 0;; ++round) {
      // Now the leader comes first and now last: whoever relies on either is found out.
      for (Word i = 0; i < kLanes; ++i) {
        current_ = round % 2 == 0 ? kLanes - 1 - i : i;
        resume(lanes_[current_]);
      }
      Word ended = 0;
      for (const Fiber& fiber : lanes_) ended += fiber.has_ended ? 1 : 0;
      if (ended == kLanes) return nullptr;
      if (ended != 0) return "some lanes ended while others wait to meet";
      for (const Fiber& fiber : lanes_) {
        if (fiber.where != lanes_[0].where) return "lanes wait to meet at different places";
      }
    }
  }

  Word current() const { return current_; }
  /// Waits until all lanes have brought a value; all see all values.
  const Wide* meet(Word where, Wide value) {
    Fiber& fiber = lanes_[current_];
    // What was read of the last meeting is read before the next one ends: two boards are enough.
    Wide* const board = boards_[fiber.meetings++ % 2];
    board[current_] = value;
    fiber.where = where;
    pause(fiber);
    return board;
  }

 private:
  struct Fiber {
    alignas(16) char stack[kStackBytes];
    ucontext_t context;  // where it begins
    jmp_buf place;       // where it goes on
    Word where;
    Word meetings;
    bool has_begun;
    bool has_ended;
  };

  static void prepare(Fiber& fiber);
  static void begin();
  void resume(Fiber& fiber);
  void pause(Fiber& fiber);

  Fiber lanes_[kLanes];
  jmp_buf main_;
  Wide boards_[2][kLanes];
  Word current_;
  void (*body_)(const void*, Word);
  const void* callable_;
};
inline Fibers fibers;

inline void Fibers::prepare(Fiber& fiber) {
  fiber.meetings = 0;
  fiber.has_begun = fiber.has_ended = false;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = kStackBytes;
  makecontext(&fiber.context, &Fibers::begin, 0);
}
inline void Fibers::begin() {
  fibers.body_(fibers.callable_, fibers.current_);
  fibers.lanes_[fibers.current_].has_ended = true;
  _longjmp(fibers.main_, 1);
}
// Jumps, because changing contexts would ask the system about signals each time.
inline void Fibers::resume(Fiber& fiber) {
  if (_setjmp(main_) != 0) return;
  if (fiber.has_begun) _longjmp(fiber.place, 1);
  fiber.has_begun = true;
  setcontext(&fiber.context);
}
inline void Fibers::pause(Fiber& fiber) {
  if (_setjmp(fiber.place) == 0) _longjmp(main_, 1);
}

/// The lanes of a warp or group, as fibers.
struct ManyLanes {
  static constexpr bool kHasTile = true;
  static constexpr bool kKeepsOrder = false;
  static constexpr bool kIsOne = false;
  Word index() const { return fibers.current(); }
  Word count() const { return Fibers::kLanes; }
  bool leads() const { return fibers.current() == 0; }
  void meet() const { fibers.meet(1, 0); }
  void converge() const {}
  Word from_leader(Word value) const { return static_cast<Word>(fibers.meet(2, value)[0]); }
  bool meet_any(bool value) const {
    const Wide* const all = fibers.meet(3, value);
    bool any = false;
    for (Word i = 0; i < Fibers::kLanes; ++i) any = any || all[i] != 0;
    return any;
  }
  Word lowest(Word value) const {
    const Wide* const all = fibers.meet(4, value);
    Word least = ~0u;
    for (Word i = 0; i < Fibers::kLanes; ++i) least = min_u32(least, static_cast<Word>(all[i]));
    return least;
  }
  template <class Number>
  Number total(Number value) const {
    const Wide* const all = fibers.meet(5, value);
    Number sum = 0;
    for (Word i = 0; i < Fibers::kLanes; ++i) sum += static_cast<Number>(all[i]);
    return sum;
  }
};
using WarpLanes = ManyLanes;
using GroupLanes = ManyLanes;

// ---- the tile ----

inline constexpr Word kTileTurnsPerWord = 1;  // more runs use it than on the device
inline Word tile_words[1024];
inline Word tile_capacity() {
  return sizeof tile_words / sizeof(Word);
}
inline Word tile_begin() {
  return 0;
}
inline Word load_tile(Word at) {
  return tile_words[at / sizeof(Word)];
}
inline void store_tile(Word at, Word value) {
  tile_words[at / sizeof(Word)] = value;
}
#define EK_COMBINE(name, update, identity)                                            \
  struct name {                                                                       \
    static constexpr Word kIdentity = identity;                                       \
    static void in_tile(Word at, Word value) {                                        \
      AtomicWord(tile_words + at / sizeof(Word)).update(value);                       \
    }                                                                                 \
    static void in_memory(const AtomicWord& word, Word value) { word.update(value); } \
  };
EK_COMBINE(CombineAdd, add, 0)
EK_COMBINE(CombineMin, min, ~0u)
EK_COMBINE(CombineMax, max, 0)
EK_COMBINE(CombineAnd, bit_and, ~0u)
EK_COMBINE(CombineOr, bit_or, 0)
EK_COMBINE(CombineXor, bit_xor, 0)
#undef EK_COMBINE

// ---- the item ----

enum class Ending : Word { done = 0, yield = 1, requeue = 2, wait_io = 3, fault = 4 };
constexpr Word outcome(Ending ending, Word fault_code = 0) {
  return static_cast<Word>(ending) | fault_code << 8;
}
constexpr Word fault_outcome(Word code) {
  return outcome(Ending::fault, code);
}

using Fuel = Word;
struct IoAsk {
  Word is_write, source, block, destination, byte_count;
};
struct Item {
  Word args[abi::kSlotArgs];
  Word opcode, tenant, priority, slot, number, lanes;
  Words control;
  BufferTable buffers;
  Fuel fuel;
  Words abort;
  const test::ShimHooks* hooks;
  IoAsk io;
};

inline void print_record(const Item& item, Word fmt, Word a, Word b) {
  if (item.hooks != nullptr) item.hooks->print(item.hooks->self, fmt, a, b);
}
inline void append_hit(const Item& item, Word a, Word b, Word c) {
  if (item.hooks != nullptr) item.hooks->emit(item.hooks->self, a, b, c);
}

// ---- running a handler ----

inline Word load_constant(const Buffer& buffer, Word index) {
  return buffer.words[index];
}
inline Word fetch_shared(const Buffer& buffer, Word index) {
  return index < buffer.readable ? buffer.words[index] : 0;
}
inline Word fetch_owned(const Buffer& buffer, Word index) {
  return index < buffer.readable ? buffer.words[index] : 0;
}
inline Word load_shared(const Buffer& buffer, Word index) {
  return buffer.words[index];
}
inline Word load_owned(const Buffer& buffer, Word index) {
  return buffer.words[index];
}
inline void store_shared(const Buffer& buffer, Word index, Word value) {
  buffer.words[index] = value;
}
inline void store_owned(const Buffer& buffer, Word index, Word value) {
  buffer.words[index] = value;
}

#include "cuda_running.inc"

// Runs a handler as test::ShimRun says. `call(lanes, item)` calls the one that is meant.
template <class Call>
Word run_shimmed(test::ShimWay way, test::ShimFrame* frame, const char** trouble,
                 const Call& call) {
  Item start{};
  __builtin_memcpy(start.args, frame->args, sizeof start.args);
  start.opcode = frame->opcode;
  start.tenant = frame->tenant;
  start.priority = frame->priority;
  start.slot = frame->slot;
  start.lanes = frame->lanes;
  start.control = Words(frame->control, frame->control_words);
  start.buffers = {static_cast<const BufferEntry*>(frame->entries), frame->mask};
  start.fuel = static_cast<Fuel>(frame->fuel);
  start.abort = Words(const_cast<Word*>(frame->abort), frame->abort == nullptr ? 0 : 1);
  start.hooks = frame->hooks;
  Item items[Fibers::kLanes];
  Word results[Fibers::kLanes] = {};
  for (Item& item : items) item = start;
  if (way == test::ShimWay::one_lane) {
    results[0] = call(OneLane{}, items[0]);
  } else {
    *trouble = fibers.run([&](Word lane) { results[lane] = call(ManyLanes{}, items[lane]); });
    for (Word i = 1; i < Fibers::kLanes && *trouble == nullptr; ++i) {
      const bool is_equal =
          results[i] == results[0] && items[i].fuel == items[0].fuel &&
          __builtin_memcmp(items[i].args, items[0].args, sizeof start.args) == 0 &&
          __builtin_memcmp(&items[i].io, &items[0].io, sizeof start.io) == 0;
      if (!is_equal) *trouble = "the lanes did not all come to the same end";
    }
  }
  __builtin_memcpy(frame->args, items[0].args, sizeof start.args);
  frame->fuel = items[0].fuel;
  __builtin_memcpy(frame->io, &items[0].io, sizeof start.io);
  return results[0];
}

}  // namespace everkernel::device
