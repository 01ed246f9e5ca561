// The megakernel: crews of threads that look at slots, claim them, run them and store how they
// ended. backend/cpu/worker.cpp and drain.cpp are the same protocol on a CPU.
//
// A crew is a warp; it is a whole block where a handler of `scope group` needs one. Its lanes look
// at one slot each. Items of `scope lane` and most built-in operations run on the lane that claimed
// them; items of `scope warp`, fences and copies one after the other on all lanes of the warp;
// items of `scope group` on all threads of the block.
//
// Fresh slots are handed out by a counter. What does not end at its first visit goes to a queue
// (yields, fences that are not ready, tenants that may not run, IO). How a drain finds its end is
// told at `class Drain`.
#include "jit/device/item.cuh"

#include "everkernel/handlers.cuh"

#include "backend/cuda/launch_rows.hpp"

namespace everkernel::device {

using abi::IoStatus;
using abi::Opcode;
using abi::SlotStatus;

inline constexpr Word kAllLanes = 0xFFFFFFFFu;
inline constexpr Word kWarp = 32;
inline constexpr Word kNoSlot = 0xFFFFFFFFu;

// ---- words of 64 bits, fences, plain copies -----------------------------------------------------

/// One 64-bit word that crews share.
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
  /// What others released is visible if it exchanges.
  EK_DEVICE bool exchange_if(Wide expected, Wide desired) const {
    Wide before;
    asm volatile("atom.acquire.gpu.global.cas.b64 %0, [%1], %2, %3; // ek:word"
                 : "=l"(before)
                 : "l"(word_), "l"(expected), "l"(desired)
                 : "memory");
    return before == expected;
  }
  /// For memory the host reads; the end of the kernel makes it visible.
  EK_DEVICE void store_for_host(Wide value) const {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1; // ek:word" ::"l"(word_), "l"(value));
  }

 private:
  Wide word_;
};

EK_DEVICE Words one_word(Word* word) {
  return {word, 1};
}

EK_DEVICE void store_for_host(Word* word, Word value) {
  asm volatile(
      "st.relaxed.sys.global.u32 [%0], %1; // ek:word" ::"l"(__cvta_generic_to_global(word)),
      "r"(value));
}

/// Everything read relaxed before it happened before what comes after it, and the other way round.
EK_DEVICE void fence() {
  asm volatile("fence.acq_rel.gpu; // ek:fence" ::: "memory");
}

EK_DEVICE void sleep(Word nanoseconds) {
  asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}

/// Four words of a slot at once. Only the status word says anything about the others.
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

/// Rows of a launch are written before it and by nobody during it.
EK_DEVICE Submission load_row(const Submission* row) {
  union {
    Submission submission;
    Wide words[sizeof(Submission) / sizeof(Wide)];
  } copy;
#pragma unroll
  for (Word i = 0; i < sizeof(Submission) / sizeof(Wide); ++i) {
    asm volatile("ld.global.nc.u64 %0, [%1]; // ek:row"
                 : "=l"(copy.words[i])
                 : "l"(__cvta_generic_to_global(reinterpret_cast<const Wide*>(row) + i)));
  }
  return copy.submission;
}

// ---- crews --------------------------------------------------------------------------------------

EK_DEVICE Word lane_index() {
  return WarpLanes().index();
}

/// The threads that go through slots together, and what they do as one. What the leader does alone
/// ends with something that all lanes of its warp do: ptxas 13.0 joins two such things that follow
/// each other, and loses the lanes in between.
struct Crew {
  Word lane = kHasGroupHandlers ? threadIdx.x : threadIdx.x % kWarp;
  Word slots = 1;  // that it looks at together

  EK_DEVICE bool leads() const { return lane == 0; }
  EK_DEVICE Wide from_leader(Wide value) const {
    if constexpr (kHasGroupHandlers) {
      __shared__ Wide board;
      __syncthreads();
      if (leads()) board = value;
      __syncthreads();
      return board;
    } else {
      return __shfl_sync(kAllLanes, value, 0);
    }
  }
  EK_DEVICE bool any(bool value) const {
    if constexpr (kHasGroupHandlers) {
      return __syncthreads_or(value) != 0;
    } else {
      return __any_sync(kAllLanes, value) != 0;
    }
  }
};

// ---- one submission -----------------------------------------------------------------------------

/// How a visit to a slot came out; backend::cpu::Visit.
enum class Visit : Word { passed, ended, deferred, stuck };

/// What is known of a slot in the queue: slots before a fence that are known to have ended, and
/// whether the item asked for IO when no IO slot was free.
inline constexpr Word kNeedsIoSlot = 0x80000000u;

/// What a claimed item needs to run.
enum class Kind : Word { nothing, unknown, lane, warp, group, fence, copy };

/// Outcome of an item that found no IO slot: it is put back as if it had not run.
inline constexpr Word kPutBack = 0xFFFFFFFFu;

EK_DEVICE bool is(Word number, Opcode opcode) {
  return number == static_cast<Word>(opcode);
}
EK_DEVICE Word fault_of(FaultCode code) {
  return fault_outcome(static_cast<Word>(code));
}
inline constexpr Word kDone = 0;  // outcome(Ending::done)

/// The words of one submission and what its crews share.
struct Row {
  const Submission& row;

  EK_DEVICE Words control() const { return {row.control, row.control_words}; }
  EK_DEVICE Words io() const { return {row.io_queue, row.io_words}; }
  EK_DEVICE Voice voice() const {
    return {control(),   {row.debug_log, row.debug_log_words}, row.hits, row.hit_capacity,
            row.emitted, one_word(&row.shared->hits_dropped)};
  }

  EK_DEVICE Word* slot_words(Word slot) const { return row.ring + Wide{slot} * abi::kSlotWords; }
  EK_DEVICE Words slot(Word index) const { return {slot_words(index), abi::kSlotWords}; }
  EK_DEVICE void set_status(Word index, SlotStatus status) const {
    slot(index).store_release(0, static_cast<Word>(status));
  }

  enum class Standing : Word { enabled, disabled, unknown };
  EK_DEVICE Word tenant_base() const {
    return control().load_relaxed(abi::kControlTenantBase.first);
  }
  /// What a tenant may do now. The table's place is read once: it may move while it is looked at.
  EK_DEVICE Standing standing_of(Word tenant, Word base) const {
    const Wide index = Wide{base} + tenant;
    if (index < abi::kControlTenantMasks.first || index >= abi::kControlTenantMasks.end()) {
      return Standing::unknown;
    }
    return control().load_relaxed(index) != 0 ? Standing::enabled : Standing::disabled;
  }
  EK_DEVICE Words in_flight(Word tenant) const { return one_word(row.shared->in_flight + tenant); }
  EK_DEVICE Word quota_of(Word tenant) const {
    return control().load_relaxed(abi::kControlTenantQuotas.first + tenant);
  }

  /// For functions that a drain calls: the compiler learns that its rows lie in shared memory.
  EK_DEVICE void assume_place() const { __builtin_assume(__isShared(&row)); }
};

/// The same with what all submissions of a launch share.
struct Ring : Row {
  const Surroundings& around;

  EK_DEVICE Ring(const Surroundings& surroundings, const Submission& submission)
      : Row{submission}, around(surroundings) {}

  EK_DEVICE Words abort() const { return {around.abort, 1}; }
  EK_DEVICE BufferTable buffers() const {
    return {static_cast<const BufferEntry*>(around.entries), around.entry_mask};
  }
  EK_DEVICE bool must_stop() const {
    return (control().load_relaxed(abi::kControlShutdown.first) | abort().load_relaxed(0)) != 0;
  }
};

/// Where in a slot's words the args of an operation lie: the first, and how many above it.
inline constexpr Word kAllArgs = abi::kSlotFirstArg | abi::kSlotArgs << 8;

/// One lane's slot on its way through a visit.
struct Visitor {
  Word slot = kNoSlot;
  Word note = 0;
  Word partition = 0;
  Word found = 0;  // status before the claim
  Word opcode = 0, tenant = 0, priority_word = 0;
  // What runs next: the slot's own operation, or one of a packed slot.
  Kind kind = Kind::nothing;
  Word operation = 0;  // its opcode
  Word handler = kNoHandler;
  Word args = kAllArgs;
  Word begun = 0;  // operations of a packed slot, with this one
  Visit visit = Visit::passed;
  bool holds_slot = false;  // has claimed it, and is to say how it ended
  bool is_counted = false;  // holds one of its tenant's quota
  bool has_claimed = false;
  bool is_done = false;
  bool is_faulted = false;
  bool was_claimed = false;  // by somebody before this launch
};

/// An operation: what those know of it who run it.
struct Operation {
  Word slot, opcode, tenant, priority_word, handler, args, is_packed;
};

EK_DEVICE Operation operation_of(const Visitor& visitor) {
  return {visitor.slot,    visitor.operation, visitor.tenant,    visitor.priority_word,
          visitor.handler, visitor.args,      visitor.begun != 0};
}
/// That of another lane of the warp.
EK_DEVICE Operation operation_of(const Visitor& visitor, Word owner) {
  const Operation its = operation_of(visitor);
  const auto from_owner = [owner](Word word) { return __shfl_sync(kAllLanes, word, owner); };
  return {from_owner(its.slot),          from_owner(its.opcode),  from_owner(its.tenant),
          from_owner(its.priority_word), from_owner(its.handler), from_owner(its.args),
          from_owner(its.is_packed)};
}

// ---- built-in operations ------------------------------------------------------------------------

/// Control words as a tenant may use them.
struct TenantControl {
  Words words;
  Word tenant;

  EK_DEVICE bool has(Wide index) const { return index < words.size(); }
  EK_DEVICE bool may_write(Wide index) const {
    return tenant == 0 || index >= abi::kControlFirstObservable;
  }
  EK_DEVICE Word write_fault(Wide index) const {
    if (!has(index)) return fault_of(FaultCode::index_out_of_range);
    return may_write(index) ? kDone : fault_of(FaultCode::permission_denied);
  }
};

EK_DEVICE constexpr Wide observable(Word index) {
  return Wide{abi::kControlFirstObservable} + index;
}

/// Why a MEMCPY cannot be done, or kDone.
EK_DEVICE Word copy_fault(const TenantControl& control, Word source, Word target, Word count) {
  const Wide size = control.words.size();
  if (Wide{source} + count > size || Wide{target} + count > size) {
    return fault_of(FaultCode::index_out_of_range);
  }
  if (count != 0 && !control.may_write(target)) return fault_of(FaultCode::permission_denied);
  return kDone;
}

/// Copies as if through a temporary: `lanes` words at a time, all loaded before any is stored. Says
/// how it ended.
template <class Lanes>
EK_DEVICE Word copy_words(const Lanes& lanes, Words words, Words abort, Word source, Word target,
                          Word count) {
  const bool is_upward = target <= source;
  Word left = count;
  for (Word turns = 1; left != 0; ++turns) {
    if (turns % kPollTurns == 0 && lanes.from_leader(abort.load_relaxed(0)) != 0) {
      return fault_of(FaultCode::deadline);
    }
    const bool is_mine = lanes.index() < left;
    const Word step = count - left + lanes.index();
    const Word at = is_upward ? step : count - 1 - step;
    Word word = 0;
    if (is_mine) word = words.load_relaxed(source + at);
    lanes.meet();
    if (is_mine) words.store_relaxed(target + at, word);
    lanes.meet();
    left -= lanes.count() < left ? lanes.count() : left;
  }
  return kDone;
}

EK_DEVICE Word run_dfa_step(const TenantControl& control, const BufferTable& buffers, Quad args) {
  const Buffer table = find_buffer(buffers, args.d, control.tenant);
  if (table.fault != 0) return fault_outcome(table.fault);
  if ((table.access & kAccessRead) == 0) return fault_of(FaultCode::permission_denied);
  const Wide index = Wide{args.a} * 256 + (args.b & 0xFF);
  if (index >= table.length || !control.has(observable(args.c))) {
    return fault_of(FaultCode::index_out_of_range);
  }
  control.words.store_relaxed(observable(args.c),
                              Words(table.words, table.length).load_relaxed(index));
  return kDone;
}

EK_DEVICE bool is_plain_builtin(Word opcode) {
  return opcode < static_cast<Word>(Opcode::batch_fence) || is(opcode, Opcode::shutdown);
}

/// Runs a plain built-in operation on one thread. Everything is checked before anything is written.
EK_DEVICE Word run_plain_builtin(const TenantControl& control, const BufferTable& buffers,
                                 Words abort, Word opcode, Quad args) {
  const Words& words = control.words;
  Word fault = kDone;
  switch (Opcode{opcode}) {
    case Opcode::store_u32:
      fault = control.write_fault(args.b);
      if (fault == kDone) words.store_relaxed(args.b, args.a);
      return fault;
    case Opcode::atomic_add:
      fault = control.write_fault(args.b);
      if (fault == kDone) words.add_relaxed(args.b, args.a);
      return fault;
    case Opcode::load_u32:
      if (!control.has(args.a) || !control.has(observable(args.b))) {
        return fault_of(FaultCode::index_out_of_range);
      }
      words.store_relaxed(observable(args.b), words.load_relaxed(args.a));
      return kDone;
    case Opcode::compare_swap:
      if (!control.has(args.a) || !control.has(observable(args.a))) {
        return fault_of(FaultCode::index_out_of_range);
      }
      if (!control.may_write(args.a)) return fault_of(FaultCode::permission_denied);
      words.store_relaxed(observable(args.a), words.exchange_if(args.a, args.b, args.c));
      return kDone;
    case Opcode::memcpy:
      fault = copy_fault(control, args.a, args.b, args.c);
      return fault == kDone ? copy_words(OneLane(), words, abort, args.a, args.b, args.c) : fault;
    case Opcode::dfa_step:
      return run_dfa_step(control, buffers, args);
    case Opcode::shutdown:
      fault = control.write_fault(abi::kControlShutdown.first);
      if (fault == kDone) words.store_relaxed(abi::kControlShutdown.first, 1);
      return fault;
    default:
      return kDone;  // NOP
  }
}

// ---- items --------------------------------------------------------------------------------------

EK_DEVICE Item make_item(const Ring& ring, Word slot, Word opcode, Word tenant, Word priority_word,
                         Word handler) {
  Item item;
  item.opcode = opcode;
  item.tenant = tenant;
  item.priority = abi::priority_of(priority_word);
  item.slot = slot;
  item.number = slot;
  const Word traits = traits_of(handler);
  item.lanes = 1;
  if ((traits & kTraitWarp) != 0) item.lanes = kWarp;
  if ((traits & kTraitGroup) != 0) item.lanes = ring.around.group_lanes;
  item.control = ring.control();
  item.buffers = ring.buffers();
  item.fuel = static_cast<Fuel>(ring.around.fuel_per_item);
  item.abort = ring.abort();
  item.voice = ring.voice();
  return item;
}

EK_DEVICE Item make_item(const Ring& ring, const Operation& operation) {
  return make_item(ring, operation.slot, operation.opcode, operation.tenant,
                   operation.priority_word, operation.handler);
}

/// Word `i` of an operation's args; 0 behind the last. Always inside the slot.
EK_DEVICE Word load_arg(const Words& slot, Word args, Word i) {
  const Word at = (args & 0xFF) + i;
  return slot.load_relaxed_if(i < args >> 8 && at < abi::kSlotWords, at);
}

/// The first args of an operation.
template <Word kCount>
EK_DEVICE void load_args(const Row& ring, const Operation& operation, Word (&args)[kCount]) {
  if (operation.args != kAllArgs) {
#pragma unroll
    for (Word i = 0; i < kCount; ++i) {
      args[i] = load_arg(ring.slot(operation.slot), operation.args, i);
    }
    return;
  }
#pragma unroll
  for (Word i = 0; i < kCount; i += 4) {
    const Quad quad = load_quad(ring.slot_words(operation.slot) + abi::kSlotFirstArg + i);
    args[i] = quad.a;
    args[i + 1] = quad.b;
    args[i + 2] = quad.c;
    args[i + 3] = quad.d;
  }
}

EK_DEVICE void store_args(const Ring& ring, Word slot, const Word* args) {
#pragma unroll
  for (Word i = 0; i < abi::kSlotArgs; ++i) {
    ring.slot(slot).store_relaxed(abi::kSlotFirstArg + i, args[i]);
  }
}

// ---- IO -----------------------------------------------------------------------------------------

EK_DEVICE Word io_status_word(Word io_slot) {
  return io_slot * abi::kIoSlotWords + abi::kIoStatusWord;
}
EK_DEVICE Word io_slot_count(const Row& ring) {
  return ring.io().size() / abi::kIoSlotWords;
}

/// Whether asking for IO could succeed: a slot is EMPTY, or a prefetch in it is answered.
__device__ __noinline__ bool has_free_io_slot(Words io, Wide prefetches) {
  for (Word i = 0; i < io.size() / abi::kIoSlotWords; ++i) {
    const IoStatus status{io.load_relaxed(io_status_word(i))};
    const bool is_prefetch = (prefetches >> i & 1) != 0;
    if (status == IoStatus::empty || (is_prefetch && abi::is_complete(status))) return true;
  }
  return false;
}

/// Nobody waits for a prefetch, so whoever needs an IO slot frees those that are answered.
EK_DEVICE void free_prefetches(const Words& io, const WideWord& prefetches) {
  const Wide found = prefetches.load_relaxed();
  for (Word i = 0; i < io.size() / abi::kIoSlotWords && found >> i != 0; ++i) {
    if ((found >> i & 1) == 0) continue;
    if (!abi::is_complete(IoStatus{io.load_acquire(io_status_word(i))})) continue;
    const bool is_ours = (prefetches.fetch_and_relaxed(~(Wide{1} << i)) >> i & 1) != 0;
    if (is_ours) io.store_release(io_status_word(i), static_cast<Word>(IoStatus::empty));
  }
}

/// What an item asks of the IO service.
struct IoRequest {
  Word op, source, destination, block, byte_count, tag;
};

/// Publishes a request; gives its IO slot, or kNoSlot when none is free.
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
EK_DEVICE Word ask_io(const Row& ring, const IoRequest& request) {
  return ask_io(ring.io(), WideWord(&ring.row.shared->prefetches), request);
}

/// Notes the IO slot in the item's own slot, where whoever ends the wait finds it.
EK_DEVICE Word wait_for(const Row& ring, Word slot, Word io_slot) {
  ring.slot(slot).store_relaxed(abi::kSlotFirstArg + abi::kIoSlotArg, io_slot);
  return outcome(Ending::wait_io);
}

EK_DEVICE Word run_load_miss(const Row& ring, Word slot, Word resource, bool is_prefetch) {
  const Word io_slot =
      ask_io(ring, {static_cast<Word>(abi::IoOp::read), resource, resource, 0, 0, resource});
  if (io_slot == kNoSlot) return kPutBack;
  if (!is_prefetch) return wait_for(ring, slot, io_slot);
  WideWord(&ring.row.shared->prefetches).or_relaxed(Wide{1} << io_slot);
  return kDone;
}

/// What follows from a handler's run: its IO request is published, its args go back to the slot. An
/// item that could not ask runs again as if this run had not been. The args of a packed slot stay
/// as they are.
EK_DEVICE Word after_handler(const Ring& ring, Word handler, bool is_packed, const Item& item,
                             Word result) {
  if (is_packed) return result;
  const bool waits =
      (kAnyTrait & kTraitCanLeave) != 0 && static_cast<Ending>(result & 0xFF) == Ending::wait_io;
  Word io_slot = kNoSlot;
  if (waits) {
    const abi::IoOp op = item.io.is_write != 0 ? abi::IoOp::write : abi::IoOp::read;
    io_slot = ask_io(ring, {static_cast<Word>(op), item.io.source, item.io.destination,
                            item.io.block, item.io.byte_count, item.slot});
    if (io_slot == kNoSlot) return kPutBack;
  }
  const bool writes_args =
      (kAnyTrait & kTraitWritesArgs) != 0 && (traits_of(handler) & kTraitWritesArgs) != 0;
  if (writes_args) store_args(ring, item.slot, item.args);
  return waits ? wait_for(ring, item.slot, io_slot) : result;
}

// ---- packed slots -------------------------------------------------------------------------------

/// Two bytes of a packed slot: number of operations and argument words of all of them, then opcode
/// and first argument of each operation.
struct PackedPair {
  Word first, second;
};
/// Nobody but the host could change the words meanwhile; whatever they are, `i` stays inside.
EK_DEVICE PackedPair packed_pair(const Words& slot, Word i) {
  const Word word = i / 2 < abi::kSlotArgs ? slot.load_relaxed(abi::kSlotFirstArg + i / 2) : 0;
  const Word bytes = word >> 16 * (i % 2);
  return {bytes & 0xFF, bytes >> 8 & 0xFF};
}

/// Whether a packed payload keeps the rules of the wire format.
EK_DEVICE bool is_sound_packed(const Words& slot) {
  const PackedPair all = packed_pair(slot, 0);
  if (abi::packed_metadata_words(all.first) + all.second > abi::kSlotArgs) return false;
  for (Word i = 0; i < all.first; ++i) {
    const PackedPair operation = packed_pair(slot, i + 1);
    const Word end = i + 1 < all.first ? packed_pair(slot, i + 2).second : all.second;
    if (operation.second > end || end > all.second) return false;
    if (is(operation.first, Opcode::batch_fence)) return false;
    const Word handler = find_handler(operation.first);
    if (handler != kNoHandler && (traits_of(handler) & kTraitCanLeave) != 0) return false;
  }
  return true;
}

/// An operation of a packed slot as one word: its opcode in the first byte, above it where its args
/// lie (Visitor::args). Or one of these.
inline constexpr Word kNoOperation = 0xFFFFFFFFu;
inline constexpr Word kUnsound = 0xFFFFFFFEu;

/// Operation `i` of a packed slot. The payload is checked before the first.
__device__ __noinline__ Word packed_operation(Words slot, Word i) {
  if (i == 0 && !is_sound_packed(slot)) return kUnsound;
  const PackedPair all = packed_pair(slot, 0);
  if (i >= all.first) return kNoOperation;
  const PackedPair operation = packed_pair(slot, i + 1);
  if (is(operation.first, Opcode::batch_fence)) return kUnsound;  // it has come since
  const Word end = i + 1 < all.first ? packed_pair(slot, i + 2).second : all.second;
  const Word first = abi::kSlotFirstArg + abi::packed_metadata_words(all.first) + operation.second;
  return operation.first | (first & 0xFF) << 8 | (end - operation.second & 0xFF) << 16;
}

// ---- a visit ------------------------------------------------------------------------------------

EK_DEVICE SlotStatus status_of(Ending ending) {
  switch (ending) {
    case Ending::done:
      return SlotStatus::done;
    case Ending::yield:
      return SlotStatus::yield;
    case Ending::requeue:
      return SlotStatus::requeue;
    case Ending::wait_io:
      return SlotStatus::wait_io;
    case Ending::fault:
      break;
  }
  return SlotStatus::fault;
}

EK_DEVICE void store_fault(const Ring& ring, const Visitor& visitor, Word code) {
  const Word word = abi::priority_word(abi::priority_of(visitor.priority_word), code);
  ring.slot(visitor.slot).store_relaxed(3, word);
}

/// Ends a slot as FAULT; the caller counts.
EK_DEVICE void end_fault(const Ring& ring, Visitor& visitor, Word code) {
  store_fault(ring, visitor, code);
  ring.set_status(visitor.slot, SlotStatus::fault);
  visitor.is_faulted = true;
  visitor.visit = Visit::ended;
}

EK_DEVICE void end_done(const Ring& ring, Visitor& visitor) {
  ring.set_status(visitor.slot, SlotStatus::done);
  visitor.is_done = true;
  visitor.visit = Visit::ended;
}

/// A slot that waits for IO: goes on when the request is answered.
EK_DEVICE void visit_waiting(const Ring& ring, Visitor& visitor) {
  const Words slot = ring.slot(visitor.slot);
  const Word io_slot = slot.load_relaxed(abi::kSlotFirstArg + abi::kIoSlotArg);
  const bool is_inside = io_slot < io_slot_count(ring);
  IoStatus answer = IoStatus::error;
  if (is_inside) answer = IoStatus{ring.io().load_acquire(io_status_word(io_slot))};
  if (!abi::is_complete(answer)) {
    visitor.visit = Visit::stuck;
    return;
  }
  if (!slot.claim(0, static_cast<Word>(SlotStatus::wait_io),
                  static_cast<Word>(SlotStatus::claimed))) {
    return;
  }
  visitor.opcode = slot.load_relaxed(1);
  visitor.tenant = slot.load_relaxed(2);
  visitor.priority_word = slot.load_relaxed(3);
  if (!is_inside) {
    return end_fault(ring, visitor, static_cast<Word>(FaultCode::index_out_of_range));
  }
  ring.io().store_release(io_status_word(io_slot), static_cast<Word>(IoStatus::empty));
  if (answer == IoStatus::error) {
    return end_fault(ring, visitor, static_cast<Word>(FaultCode::io_error));
  }
  if (is(visitor.opcode, Opcode::load_miss) && kPayload == kNoHandler) {
    return end_done(ring, visitor);
  }
  ring.set_status(visitor.slot, SlotStatus::requeue);
  visitor.visit = Visit::deferred;
}

/// Whether a slot of the queue is worth claiming. What is read here may change until the claim; the
/// private copy is checked again after it.
__device__ __noinline__ bool is_worth_claiming(Row ring, Word worker_count, Word index, Word note,
                                               Word found) {
  ring.assume_place();
  const Words slot = ring.slot(index);
  const Word tenant = slot.load_relaxed(2);
  const Ring::Standing standing = ring.standing_of(tenant, ring.tenant_base());
  if (standing == Ring::Standing::unknown) return true;  // to end as FAULT
  if (standing == Ring::Standing::disabled) return false;
  const Word quota = ring.quota_of(tenant);
  if (quota < worker_count && ring.in_flight(tenant).load_relaxed(0) >= quota) return false;
  if ((note & kNeedsIoSlot) != 0 &&
      !has_free_io_slot(ring.io(), WideWord(&ring.row.shared->prefetches).load_relaxed())) {
    return false;
  }
  const bool is_seen_fence = found == static_cast<Word>(SlotStatus::yield) &&
                             is(slot.load_relaxed(1), Opcode::batch_fence);
  if (!is_seen_fence) return true;
  // The slot it waited for last time; the rest is looked at with all lanes.
  const Word count = slot.load_relaxed(abi::kSlotFirstArg);
  if (count > index || note >= count) return true;
  const SlotStatus first{ring.slot(index - count + note).load_relaxed(0)};
  return first == SlotStatus::empty || abi::is_terminal(first);
}

/// Takes one of a tenant's quota; says whether there was one. A quota that all workers together
/// cannot reach needs no counting.
EK_DEVICE bool take_quota(const Ring& ring, Visitor& visitor, Word quota) {
  visitor.is_counted = quota < ring.around.worker_count;
  if (!visitor.is_counted) return true;
  const Words in_flight = ring.in_flight(visitor.tenant);
  if (in_flight.fetch_add_relaxed(0, 1) < quota) return true;
  in_flight.add_relaxed(0, 0u - 1);
  visitor.is_counted = false;
  return false;
}

/// What the operation needs to run, and its handler.
EK_DEVICE Kind kind_of(Visitor& visitor) {
  const bool is_packed = visitor.begun != 0;
  if (is(visitor.operation, Opcode::batch_fence)) return Kind::fence;
  visitor.handler = kNoHandler;
  if (kPayload != kNoHandler && !is(visitor.operation, Opcode::shutdown) && !is_packed) {
    visitor.handler = kPayload;
  } else if (is(visitor.operation, Opcode::memcpy) && !is_packed) {
    return Kind::copy;
  } else if (!is_plain_builtin(visitor.operation)) {
    visitor.handler = find_handler(visitor.operation);
  }
  if (visitor.handler == kNoHandler) return Kind::lane;
  const Word traits = traits_of(visitor.handler);
  if (kHasWarpHandlers && (traits & kTraitWarp) != 0) return Kind::warp;
  if (kHasGroupHandlers && (traits & kTraitGroup) != 0) return Kind::group;
  return Kind::lane;
}

/// Looks at a slot and claims it if it can run.
EK_DEVICE void admit(const Ring& ring, Visitor& visitor, bool is_first_look) {
  const Words slot = ring.slot(visitor.slot);
  visitor.found = slot.load_relaxed(0);
  const SlotStatus found{visitor.found};
  if (!abi::is_claimable(found)) {
    if (found == SlotStatus::wait_io) return visit_waiting(ring, visitor);
    visitor.was_claimed = is_first_look && found == SlotStatus::claimed;
    return;
  }
  if (!is_first_look && !is_worth_claiming(ring, ring.around.worker_count, visitor.slot,
                                           visitor.note, visitor.found)) {
    visitor.visit = Visit::stuck;
    return;
  }
  if (!slot.claim(0, visitor.found, static_cast<Word>(SlotStatus::claimed))) return;
  // Loads that do not wait for each other are issued together: each takes as long as all.
  const Quad head = load_quad(ring.slot_words(visitor.slot));
  const Word base = ring.tenant_base();
  visitor.opcode = head.b;
  visitor.tenant = head.c;
  visitor.priority_word = head.d;
  const Word quota =
      visitor.tenant < abi::kControlTenantQuotas.count ? ring.quota_of(visitor.tenant) : 0;
  const Ring::Standing standing = ring.standing_of(visitor.tenant, base);
  if (standing == Ring::Standing::unknown) {
    return end_fault(ring, visitor, static_cast<Word>(FaultCode::tenant_out_of_range));
  }
  if (standing == Ring::Standing::disabled || !take_quota(ring, visitor, quota)) {
    ring.set_status(visitor.slot, found);
    visitor.visit = Visit::stuck;
    return;
  }
  visitor.holds_slot = true;
  visitor.operation = visitor.opcode;
  visitor.kind = is(visitor.opcode, Opcode::packed_slot) ? Kind::nothing : Kind::unknown;
}

/// Goes on to the next operation of a packed slot, unless the last one ended as FAULT; says whether
/// there is one.
EK_DEVICE bool next_operation(const Ring& ring, Visitor& visitor, Word& result) {
  const auto ending = static_cast<Ending>(result & 0xFF);
  if (ending == Ending::fault) return false;
  const bool has_ended = ending == Ending::done;
  if (has_ended && visitor.begun != 0 && visitor.operation < abi::kControlMetrics.count) {
    ring.control().add_relaxed(abi::kControlMetrics.first + visitor.operation, 1);
  }
  // No handler that can leave was there when the payload was checked.
  const Word next = has_ended ? packed_operation(ring.slot(visitor.slot), visitor.begun) : kUnsound;
  if (next == kUnsound) result = fault_of(FaultCode::bad_packed_payload);
  if (next == kUnsound || next == kNoOperation) return false;
  ++visitor.begun;
  visitor.operation = next & 0xFF;
  visitor.args = next >> 8;
  visitor.kind = Kind::unknown;
  return true;
}

/// Runs a built-in operation on one thread.
__device__ __noinline__ Word run_builtin(Row ring, BufferTable buffers, Words abort,
                                         Operation operation) {
  ring.assume_place();
  Word args[4];
  load_args(ring, operation, args);
  if (is_plain_builtin(operation.opcode)) {
    return run_plain_builtin({ring.control(), operation.tenant}, buffers, abort, operation.opcode,
                             {args[0], args[1], args[2], args[3]});
  }
  if (is(operation.opcode, Opcode::printf)) {
    Item item;  // what a record needs of it
    item.slot = operation.slot;
    item.voice = ring.voice();
    print_record(item, args[0], args[1], args[2]);
    return kDone;
  }
  if (is(operation.opcode, Opcode::load_miss)) {
    return run_load_miss(ring, operation.slot, args[0], args[1] != 0);
  }
  return fault_of(FaultCode::unknown_opcode);
}

/// Runs an operation on the lane that claimed its slot.
EK_DEVICE Word run_on_lane(const Ring& ring, const Operation& operation) {
  if (operation.handler == kNoHandler) {
    if (is(operation.opcode, Opcode::nop)) return kDone;
    return run_builtin(ring, ring.buffers(), ring.abort(), operation);
  }
  if constexpr (kHasLaneHandlers) {
    Item item = make_item(ring, operation);
    load_args(ring, operation, item.args);
    const Word ended = run_lane_handler(operation.handler, item);
    return after_handler(ring, operation.handler, operation.is_packed != 0, item, ended);
  }
  return kDone;  // there are none
}

/// All lanes of a warp run an operation; its owner is told what follows.
EK_DEVICE Word run_by_warp(const Ring& ring, const Operation& operation, bool owns) {
  Item item = make_item(ring, operation);
  // One lane a word: the slot is one line.
  const Word word = load_arg(ring.slot(operation.slot), operation.args, lane_index());
#pragma unroll
  for (Word i = 0; i < abi::kSlotArgs; ++i) item.args[i] = __shfl_sync(kAllLanes, word, i);
  const Word ended = run_warp_handler(operation.handler, item);
  __syncwarp();  // what all lanes wrote comes before the owner's release
  if (!owns) return ended;
  return after_handler(ring, operation.handler, operation.is_packed != 0, item, ended);
}

/// All threads of a block run the operation on their board; its owner, whose visitor it is, does
/// what follows.
EK_DEVICE void run_by_group(const Ring& ring, const Operation& operation, bool owns,
                            const Visitor& visitor, Word& result) {
  __shared__ Word args[abi::kSlotArgs];
  if (threadIdx.x < abi::kSlotArgs) {
    args[threadIdx.x] = load_arg(ring.slot(operation.slot), operation.args, threadIdx.x);
  }
  __syncthreads();
  Item item = make_item(ring, operation);
#pragma unroll
  for (Word k = 0; k < abi::kSlotArgs; ++k) item.args[k] = args[k];
  const Word ended = run_group_handler(operation.handler, item);
  __syncthreads();  // what all threads wrote comes before the owner's release
  // The board may be the next owner's from here on.
  if (owns) result = after_handler(ring, visitor.handler, visitor.begun != 0, item, ended);
}

/// Whether the slots before a fence have ended, from the first that had not; all lanes look. A
/// drain that is to stop does not know.
EK_DEVICE bool is_fence_ready(const Row& ring, Words abort, Word slot, Word count, Word& checked) {
  for (Word turns = 1; checked < count; checked += kWarp, ++turns) {
    if (turns % kPollTurns == 0 && __shfl_sync(kAllLanes, abort.load_relaxed(0), 0) != 0) {
      return false;
    }
    const Word at = checked + lane_index();
    bool has_ended = true;
    if (at < count) {
      const SlotStatus status{ring.slot(slot - count + at).load_relaxed(0)};
      has_ended = status == SlotStatus::empty || abi::is_terminal(status);
    }
    const Word open = __ballot_sync(kAllLanes, !has_ended);
    if (open != 0) {
      checked += __ffs(static_cast<int>(open)) - 1;
      return false;
    }
  }
  checked = count;
  fence();  // what the items of the batch did is visible from here on
  __syncwarp();
  return true;
}

/// An arg of a slot, the same for all lanes of the warp, whoever writes it meanwhile.
EK_DEVICE Word same_arg(const Row& ring, Word slot, Word i) {
  return __shfl_sync(kAllLanes, ring.slot(slot).load_relaxed(abi::kSlotFirstArg + i), 0);
}

/// What became of a fence.
struct FenceLook {
  Word checked;  // slots before it that are known to have ended
  Word result;   // how it ended, if it has
  bool is_open;
};

/// All lanes of a warp look at a fence, from the first slot that had not ended before; if it ends,
/// its owner says so.
__device__ __noinline__ FenceLook run_fence(Row ring, Words abort, Word slot, Word checked,
                                            bool owns) {
  ring.assume_place();
  const Word count = same_arg(ring, slot, 0);
  const Word tag = same_arg(ring, slot, 1);
  if (count > slot) return {0, fault_of(FaultCode::bad_fence), false};
  if (!is_fence_ready(ring, abort, slot, count, checked)) return {checked, kDone, true};
  if (owns) {
    if (ring.control().size() > abi::kControlFirstObservable) {
      ring.control().store_relaxed(abi::kControlFirstObservable, tag);
    }
    ring.control().add_release(abi::kControlEpoch.first, 1);
  }
  return {checked, kDone, false};
}

/// All lanes of a warp run a copy; says how it ended.
__device__ __noinline__ Word run_copy(Row ring, Words abort, Word slot, Word tenant) {
  ring.assume_place();
  const Word source = same_arg(ring, slot, 0);
  const Word target = same_arg(ring, slot, 1);
  const Word count = same_arg(ring, slot, 2);
  const Word fault = copy_fault({ring.control(), tenant}, source, target, count);
  if (fault != kDone) return fault;
  return copy_words(WarpLanes(), ring.control(), abort, source, target, count);
}

/// Calls `run(owner)` on all lanes for each lane whose item is of that kind.
template <class Run>
EK_DEVICE void for_each_of_warp(const Visitor& visitor, Kind kind, const Run& run) {
  for (Word left = __ballot_sync(kAllLanes, visitor.kind == kind); left != 0; left &= left - 1) {
    run(static_cast<Word>(__ffs(static_cast<int>(left)) - 1));
  }
}

/// The same of a block: calls `run(owner)` on all its threads.
template <class Run>
EK_DEVICE void for_each_of_block(const Visitor& visitor, Kind kind, const Run& run) {
  __shared__ Word owners[EVERKERNEL_BLOCK_THREADS];
  __shared__ Word count;
  __syncthreads();
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (visitor.kind == kind) owners[atomicAdd_block(&count, 1u)] = threadIdx.x;
  __syncthreads();
  const Word items = count;
  for (Word i = 0; i < items; ++i) run(owners[i]);
}

/// Runs the operations of scope group of the whole block, one after the other.
EK_DEVICE void run_groups(const Ring& ring, const Visitor& visitor, Word& result) {
  if constexpr (kHasGroupHandlers) {
    __shared__ Operation board;
    for_each_of_block(visitor, Kind::group, [&](Word owner) {
      const bool owns = threadIdx.x == owner;
      if (owns) board = operation_of(visitor);
      __syncthreads();
      run_by_group(ring, board, owns, visitor, result);
    });
  }
}

/// Stores how a claimed item ended.
EK_DEVICE void settle(const Ring& ring, Visitor& visitor, Word result, bool is_fence_open) {
  const Ending ending{result & 0xFF};
  SlotStatus status = SlotStatus::requeue;
  visitor.visit = Visit::deferred;
  if (is_fence_open) {
    status = SlotStatus::yield;
    // It held a share of its tenant's quota that another lane's item may have waited for: that one
    // is to be looked at again. Next time the fence is looked at before it gets a share.
    if (!visitor.is_counted) visitor.visit = Visit::stuck;
  } else if (result == kPutBack) {
    visitor.note = kNeedsIoSlot;
  } else {
    visitor.has_claimed = true;
    if (!is(visitor.opcode, Opcode::batch_fence)) visitor.note = 0;
    status = status_of(ending);
    visitor.is_done = ending == Ending::done;
    visitor.is_faulted = ending == Ending::fault;
    if (abi::is_terminal(status)) visitor.visit = Visit::ended;
    if (visitor.is_faulted) store_fault(ring, visitor, result >> 8);
  }
  ring.set_status(visitor.slot, status);
  if (visitor.is_counted) ring.in_flight(visitor.tenant).add_relaxed(0, 0u - 1);
}

/// All lanes of a crew run their operations, on one lane or on all of them.
EK_DEVICE void run_operations(const Ring& ring, Visitor& visitor, Word& result,
                              bool& is_fence_open) {
  if (visitor.kind == Kind::lane) result = run_on_lane(ring, operation_of(visitor));
  __syncwarp();
  for_each_of_warp(visitor, Kind::fence, [&](Word owner) {
    const bool owns = lane_index() == owner;
    const FenceLook look =
        run_fence(ring, ring.abort(), __shfl_sync(kAllLanes, visitor.slot, owner),
                  __shfl_sync(kAllLanes, visitor.note, owner), owns);
    if (!owns) return;
    visitor.note = look.checked;
    result = look.result;
    is_fence_open = look.is_open;
  });
  for_each_of_warp(visitor, Kind::copy, [&](Word owner) {
    const Word ended = run_copy(ring, ring.abort(), __shfl_sync(kAllLanes, visitor.slot, owner),
                                __shfl_sync(kAllLanes, visitor.tenant, owner));
    if (lane_index() == owner) result = ended;
  });
  if constexpr (kHasWarpHandlers) {
    for_each_of_warp(visitor, Kind::warp, [&](Word owner) {
      const bool owns = lane_index() == owner;
      const Operation operation = operation_of(visitor, owner);
      const Word ended = run_by_warp(ring, operation, owns);
      if (owns) result = ended;
      __syncwarp();
    });
  }
  run_groups(ring, visitor, result);
  visitor.kind = Kind::nothing;
}

/// All threads of a crew visit a slot each, or none. There is one place where operations run: the
/// crew comes back to it as long as one of its packed slots has another.
EK_DEVICE void visit(const Ring& ring, const Crew& crew, Visitor& visitor, bool is_first_look) {
  if (visitor.slot != kNoSlot) admit(ring, visitor, is_first_look);
  Word result = kDone;
  bool is_fence_open = false;
  bool is_packed = visitor.holds_slot && is(visitor.opcode, Opcode::packed_slot);
  do {
    if (is_packed) is_packed = next_operation(ring, visitor, result);
    if (visitor.kind == Kind::unknown) visitor.kind = kind_of(visitor);
    run_operations(ring, visitor, result, is_fence_open);
  } while (crew.any(is_packed));
  if (visitor.holds_slot) settle(ring, visitor, result, is_fence_open);
  __syncwarp();
}

// ---- counting -----------------------------------------------------------------------------------

/// What a warp has counted and not yet added to the control words. Equal on all lanes, but for what
/// the leader of a crew took. Most slots of a ring are alike, so that one kind of claim is kept in
/// registers.
struct Tally {
  Word done = 0, faulted = 0, claimed_at_entry = 0, moved = 0;
  Word taken = 0;   // fresh slots, by the leader
  Word key = 0;     // tenant, priority and opcode of `claims`
  Word claims = 0;  // claimed and done, of that kind
};

inline constexpr Word kNoMetric = abi::kControlMetrics.count;  // opcodes that are not counted
inline constexpr Word kNoPriority = abi::kPriorityCount;       // priorities that are not counted

EK_DEVICE Word tally_key(Word tenant, Word priority, Word opcode) {
  const Word counted_priority = priority < kNoPriority ? priority : kNoPriority;
  const Word metric = opcode < kNoMetric ? opcode : kNoMetric;
  return tenant | counted_priority << 8 | metric << 16;
}

EK_DEVICE void add_claims(const Words& control, Word key, Word count) {
  const Word priority = key >> 8 & 0xFF;
  control.add_relaxed(abi::kControlTenantFairness.first + (key & 0xFF), count);
  if (priority != kNoPriority) {
    control.add_relaxed(abi::kControlPriorityFairness.first + priority, count);
  }
}
EK_DEVICE void add_executions(const Words& control, Word key, Word count) {
  const Word metric = key >> 16;
  if (metric != kNoMetric) control.add_relaxed(abi::kControlMetrics.first + metric, count);
}

EK_DEVICE void flush_claims(const Words& control, Tally& tally) {
  if (tally.claims != 0 && lane_index() == 0) {
    add_claims(control, tally.key, tally.claims);
    add_executions(control, tally.key, tally.claims);
  }
  tally.claims = 0;
}

/// Adds what a warp has counted: statuses were stored before, with release.
__device__ __noinline__ void add_counts(Row ring, Tally tally) {
  ring.assume_place();
  flush_claims(ring.control(), tally);
  __syncwarp();
  if (lane_index() != 0) return;
  Shared& shared = *ring.row.shared;
  if (tally.done != 0) {
    ring.control().add_release(abi::kControlDoneCount.first, tally.done);
    WideWord(&shared.done).add_relaxed(tally.done);
  }
  if (tally.faulted != 0) {
    ring.control().add_release(abi::kControlFaultCount.first, tally.faulted);
    WideWord(&shared.faulted).add_relaxed(tally.faulted);
  }
  if (tally.claimed_at_entry != 0) {
    WideWord(&shared.claimed_at_entry).add_relaxed(tally.claimed_at_entry);
  }
  if (tally.moved != 0) WideWord(&shared.moved).add_relaxed(tally.moved);
  if (tally.taken != 0) one_word(&shared.taken).add_relaxed(0, tally.taken);
}

/// One lane of those with an equal key adds for all of them.
EK_DEVICE Word peers_of(Word mask, Word key, bool& leads) {
  const Word peers = __match_any_sync(mask, key);
  leads = lane_index() == static_cast<Word>(__ffs(static_cast<int>(peers)) - 1);
  return static_cast<Word>(__popc(peers));
}

/// Counts the claims of lanes whose items are not alike, and those of them that are done.
__device__ __noinline__ void count_apart(Words control, Word key, Word claimed, Word done) {
  const Word lane = 1u << lane_index();
  bool leads = false;
  if ((claimed & lane) != 0) {
    const Word peers = peers_of(claimed, key, leads);
    if (leads) add_claims(control, key, peers);
  }
  if ((done & lane) != 0) {
    const Word peers = peers_of(done, key, leads);
    if (leads) add_executions(control, key, peers);
  }
  __syncwarp();
}

EK_DEVICE void count(const Ring& ring, const Visitor& visitor, Word priority, Tally& tally) {
  const Word claimed = __ballot_sync(kAllLanes, visitor.has_claimed);
  const Word done = __ballot_sync(kAllLanes, visitor.is_done);
  const Word faulted = __ballot_sync(kAllLanes, visitor.is_faulted);
  const bool has_moved = visitor.visit == Visit::ended || visitor.visit == Visit::deferred;
  tally.done += __popc(done);
  tally.faulted += __popc(faulted);
  tally.claimed_at_entry += __popc(__ballot_sync(kAllLanes, visitor.was_claimed));
  tally.moved += __popc(__ballot_sync(kAllLanes, has_moved));
  // What is done without a claim has waited for IO. It is in no metric, and its tenant may be any
  // word: only a claim checks it.
  if (claimed == 0) return;
  const Word key = tally_key(visitor.tenant, priority, visitor.opcode);
  if (claimed == done) {
    const Word first = __shfl_sync(kAllLanes, key, __ffs(static_cast<int>(claimed)) - 1);
    const bool is_alike = __all_sync(kAllLanes, !visitor.has_claimed || key == first) != 0;
    if (is_alike) {
      if (tally.key != first) flush_claims(ring.control(), tally);
      tally.key = first;
      tally.claims += __popc(claimed);
      return;
    }
  }
  count_apart(ring.control(), key, claimed, claimed & done);
}

// ---- the queue of slots to look at again --------------------------------------------------------

/// First in, first out, for any number of crews. A cell holds a tag and a slot; the tag says whose
/// turn the cell is: at lap n of the queue it is free when it is 2n (or anything, at lap 0), and
/// holds a slot when it is 2n + 1. Tags count on from launch to launch, so that nothing needs to be
/// cleared. There are as many cells as slots, and a slot is in the queue once at most.
struct Queue {
  const Submission& row;
  Word partition;

  EK_DEVICE WideWord cell(Wide position) const {
    const Wide first = Wide{partition} * (Wide{row.cell_mask} + 1);
    return WideWord(row.cells + first + (position & row.cell_mask));
  }
  EK_DEVICE Word free_tag(Wide position) const {
    return row.tag_base + 2 * static_cast<Word>(position >> __popc(row.cell_mask));
  }
  EK_DEVICE WideWord head() const { return WideWord(row.shared->head + partition); }
  EK_DEVICE WideWord tail() const { return WideWord(row.shared->tail + partition); }
  /// Slots in it; a hint.
  EK_DEVICE Wide size() const {
    const Wide first = head().load_relaxed();
    const Wide end = tail().load_relaxed();
    return end > first ? end - first : 0;
  }

  EK_DEVICE void put(Wide position, Word slot, Word note) const {
    const Word tag = free_tag(position);
    const bool is_first_lap = position <= row.cell_mask;
    while (!is_first_lap && static_cast<Word>(cell(position).load_acquire() >> 32) != tag) {
      sleep(100);  // whoever took the slot that was here has not read it yet
    }
    one_word(row.notes + slot).store_relaxed(0, note);
    cell(position).store_release(Wide{tag + 1} << 32 | slot);
  }
  EK_DEVICE void take(Wide position, Word& slot, Word& note) const {
    const Word tag = free_tag(position) + 1;
    Wide value = cell(position).load_acquire();
    while (static_cast<Word>(value >> 32) != tag) {
      sleep(100);  // whoever got this place has not filled it yet
      value = cell(position).load_acquire();
    }
    slot = static_cast<Word>(value);
    note = one_word(row.notes + slot).load_relaxed(0);
    cell(position).store_release(Wide{tag + 1} << 32);
  }

  /// Adds the slots of the lanes that have one, every warp for itself; says whether there was any.
  EK_DEVICE bool push(bool has_slot, Word slot, Word note) const {
    const Word mask = __ballot_sync(kAllLanes, has_slot);
    if (mask == 0) return false;
    const Word lane = lane_index();
    Wide first = 0;
    if (lane == 0) first = tail().fetch_add_relaxed(static_cast<Wide>(__popc(mask)));
    first = __shfl_sync(kAllLanes, first, 0);
    if (has_slot) put(first + __popc(mask & ((1u << lane) - 1)), slot, note);
    __syncwarp();
    return true;
  }
  /// Takes up to `most` positions for the crew; the leader's call.
  EK_DEVICE Word reserve(Word most, Wide& first) const {
    first = head().load_relaxed();
    for (;;) {
      const Wide end = tail().load_relaxed();
      if (end <= first) return 0;
      const Wide count = end - first < most ? end - first : most;
      if (head().exchange_if(first, first + count)) return static_cast<Word>(count);
      first = head().load_relaxed();
    }
  }
};

// ---- how a drain ended --------------------------------------------------------------------------

#if !defined(EVERKERNEL_GRAPH)
// What other schedules need is not compiled.
inline constexpr Schedule kSchedule{EVERKERNEL_SCHEDULE};
inline constexpr bool kByPriority = kSchedule == Schedule::priority;
inline constexpr bool kByTicket = kSchedule == Schedule::ticket;
inline constexpr Word kPartitions = kByPriority ? abi::kPriorityCount : 1;

/// A ring of this length is surveyed by one thread.
inline constexpr Word kSmallRing = 4096;

EK_DEVICE Wide queue_length(const Submission& row) {
  Wide length = 0;
  for (Word i = 0; i < kPartitions; ++i) length += Queue{row, i}.size();
  return length;
}

/// Counts active slots; `ended` becomes the position of the first ticket that has not ended.
EK_DEVICE Word survey(const Row& ring, Word first_ticket, Word& ended) {
  Word active = 0;
  const Word slots = ring.row.slot_count;
#pragma unroll 4
  for (Word position = 0; position < slots; ++position) {
    const Word slot = (first_ticket % slots + position) % slots;
    if (!abi::is_active(SlotStatus{ring.slot(slot).load_relaxed(0)})) continue;
    ++active;
    if (position < ended) ended = position;
  }
  return active;
}

/// What the crew knows that ended a drain.
struct End {
  bool is_settled;  // after the last slot that could move
  bool is_refused;  // nothing ran: its control words make no sense
  bool was_stopped;
};

/// HEAD and TAIL of the ticket schedule, and what is active after a stop. A large ring is surveyed
/// by a launch of its own.
EK_DEVICE void report_rest(const Row& ring, const End& end) {
  if (ring.row.list != nullptr || end.is_refused) return;
  if (!kByTicket && !end.was_stopped) return;
  Shared& shared = *ring.row.shared;
  Outcome& out = *ring.row.outcome;
  const Word first = one_word(&shared.first_ticket).load_relaxed(0);
  const Word count = kByTicket ? static_cast<Word>(WideWord(shared.fresh_end).load_relaxed()) : 0;
  const bool has_begun = WideWord(shared.fresh).load_relaxed() != 0;
  const bool has_ended = end.is_settled && queue_length(ring.row) == 0 &&
                         WideWord(&shared.claimed_at_entry).load_relaxed() == 0;
  Word ended = count;
  bool knows_ended = kByTicket && has_ended;
  const bool is_whole = has_ended && count == ring.row.slot_count;
  if (ring.row.slot_count <= kSmallRing && (kByTicket ? !is_whole : !end.is_settled)) {
    store_for_host(&out.active, survey(ring, first, ended));
    store_for_host(&out.is_surveyed, 1);
    knows_ended = kByTicket;
  }
  if (!kByTicket) return;
  store_for_host(&out.first_ticket, first);
  store_for_host(&out.ticket_count, count);
  store_for_host(&out.has_begun, has_begun);
  store_for_host(&out.has_moved_head, knows_ended);
  if (!knows_ended || !has_begun) return;
  ring.control().store_relaxed(abi::kControlTicketTail.first, first + count);
  ring.control().store_relaxed(abi::kControlTicketHead.first, first + ended);
}

/// Tells the host what the drain came to, and clears what the next launch shares. The lanes of one
/// warp move a word each.
__device__ __noinline__ void report(Row ring, Words abort_word, End end) {
  ring.assume_place();
  __syncwarp();  // what the leader has seen, all lanes see
  Shared& shared = *ring.row.shared;
  Outcome& out = *ring.row.outcome;
  constexpr Word kQueues = abi::kPriorityCount;
  const Word lane = lane_index();
  const Wide* from = nullptr;
  Wide* to = nullptr;
  if (lane < 4) {
    from = &shared.done + lane;
    to = &out.done + lane;
  } else if (lane < 4 + kQueues) {
    from = shared.head + (lane - 4);
    to = out.head + (lane - 4);
  } else if (lane < 4 + 2 * kQueues) {
    from = shared.tail + (lane - 4 - kQueues);
    to = out.tail + (lane - 4 - kQueues);
  } else if (lane == 31) {
    from = ring.row.emitted;
    to = &out.hits;
  }
  const Wide value = from != nullptr ? WideWord(from).load_relaxed() : 0;
  if (to != nullptr) WideWord(to).store_for_host(value);
  const bool is_tail = lane >= 4 + kQueues && lane < 4 + 2 * kQueues;
  const Wide lap = is_tail ? (value >> __popc(ring.row.cell_mask)) + 1 : 0;
  const Word laps = __reduce_max_sync(kAllLanes, static_cast<Word>(lap));
#pragma unroll 1
  for (Word i = lane; i < sizeof(Shared) / sizeof(Wide); i += kWarp) {
    WideWord(reinterpret_cast<Wide*>(ring.row.next_shared) + i).store_relaxed(0);
  }
  if (lane != 0) return;
  const Word shutdown = ring.control().load_relaxed(abi::kControlShutdown.first);
  const Word abort = abort_word.load_relaxed(0);
  if ((shutdown | abort) != 0) {  // other crews may have left slots that they took
    end.is_settled = false;
    end.was_stopped = true;
  }
  const Word dropped = one_word(&shared.hits_dropped).load_relaxed(0);
  store_for_host(&out.laps, laps);
  store_for_host(&out.is_refused, end.is_refused);
  store_for_host(&out.is_settled, end.is_settled);
  store_for_host(&out.is_shut_down, shutdown != 0);
  store_for_host(&out.is_aborted, abort != 0);
  WideWord(&out.hits_dropped).store_for_host(dropped);
  store_for_host(&out.is_surveyed, 0);
  report_rest(ring, end);
}

// ---- a drain ------------------------------------------------------------------------------------

/// One crew's way through one submission.
///
/// The end. A word says how many crews work, how often one began to, and how often something moved.
/// A crew that finds nothing to do leaves; the last may not: it looks at the whole queue once more,
/// and if nothing moved and nobody came in that time, it ends the drain. Then every slot was looked
/// at after the last thing that was done. A long queue is not looked at by one crew: the drain ends
/// unsettled, and the host launches another over that queue, until one moves nothing.
class Drain {
 public:
  EK_DEVICE Drain(const LaunchParams& params, const Submission& row, Word crew_index)
      : params_(params),
        ring_{params.around, row},
        crew_index_(crew_index),
        progress_(&row.shared->progress) {
    crew_.slots = params.slots_per_crew;
  }

  EK_DEVICE void run() {
    if (!enter(kSchedule == Schedule::direct)) return;
    const bool is_sound = prepare();
    if (!is_sound) leave_for_good();
    // One place where slots are visited, and one where the end is reported: what is compiled into
    // them is long.
    while (is_sound && (next_slots() || next_pass())) {
      if (count_ == 0) continue;
      Visitor visitor;
      choose_slot(visitor);
      visit(ring_, crew_, visitor, is_first_look());
      account_for(visitor);
    }
    if (has_ended_ && crew_.lane < kWarp)
      report(ring_, ring_.abort(), {is_settled_, is_refused_, must_stop_});
  }

 private:
  // The progress word: crews that work, ended, times one began, times something moved. The last is
  // on top, as items that yield for long bring it to its end: it begins anew, and nothing else
  // changes.
  static constexpr Wide kWorking = 1;
  static constexpr Wide kWorkingMask = (Wide{1} << 20) - 1;
  static constexpr Wide kEnded = Wide{1} << 20;
  static constexpr Wide kEntered = Wide{1} << 21;
  static constexpr Wide kMoved = Wide{1} << 40;
  static constexpr Wide kMovedMask = ~(kMoved - 1);
  static_assert(kMovedMask + kMoved == 0 && kWorkingMask < kEnded && kEnded < kEntered);
  // A queue of this length is looked at by one crew at the end.
  static constexpr Wide kShortQueue = 1024;
  // Slots of a partition's queue looked at before less urgent ones get their turn.
  static constexpr Wide kQueueLooks = 64;
  static constexpr Word kStarvationLimit = 16;
  // Scans by priority between two looks at what others put into queues.
  static constexpr Word kScansPerLook = 8;

  /// What a crew is at: fresh slots (by priority, with the queue in between), its share of the
  /// queue, or all of the queue as the last crew.
  enum class Pass : Word { fresh, queue, closing };

  EK_DEVICE bool is_list() const { return ring_.row.list != nullptr; }
  EK_DEVICE bool is_first_look() const { return !from_queue_ && !is_list(); }

  // ---- coming and going ----

  /// Who works and what is in the queue, at one time.
  struct Look {
    Wide progress;
    Wide length;
    EK_DEVICE Wide working() const { return progress & kWorkingMask; }
  };
  EK_DEVICE Look look() const {
    Look now{};
    if (crew_.leads()) {
      now.progress = progress_.load_acquire();
      now.length = queue_length(ring_.row);
    }
    return {crew_.from_leader(now.progress), crew_.from_leader(now.length)};
  }
  /// Begins to work; false when the drain has ended. The first time, the first slots are taken on
  /// the way: both words are asked for at one time, and nothing says which comes first. Who would
  /// end the drain meanwhile finds that slots are taken of which nobody has told.
  EK_DEVICE bool enter(bool takes = false) {
    Wide before = 0;
    Taken taken{};
    if (crew_.leads()) {
      before = progress_.fetch_add_relaxed(kWorking + kEntered);
      if (takes) taken = take_positions(0);
    }
    before = crew_.from_leader(before);
    seen_ = before & kMovedMask;
    begin(Pass::fresh);
    if (takes) {
      share_fresh(0, taken);
      has_taken_ = true;
    }
    return (before & kEnded) == 0;
  }
  /// Whether the crews that have left took all fresh slots that there are. Asked by a crew that
  /// found none, after it has seen that it is alone.
  EK_DEVICE bool is_all_told() const {
    if (kSchedule != Schedule::direct) return true;  // slots are taken after the entry
    const Wide begin = is_list() ? ring_.row.list_begin[0] : 0;
    const Word taken = one_word(&ring_.row.shared->taken).load_relaxed(0);
    return taken == static_cast<Word>(fresh_end(0) - begin);
  }
  EK_DEVICE void note_progress() {
    Wide before = 0;
    if (crew_.leads()) before = progress_.fetch_add_acq_rel(kMoved);
    before = crew_.from_leader(before);
    seen_ = (before + kMoved) & kMovedMask;
  }
  /// Stops working, and waits for something to do; says whether there is.
  EK_DEVICE bool leave() {
    Wide before = 0;
    bool has_ended = false;
    if (crew_.leads()) {
      before = progress_.fetch_add_acq_rel(0 - kWorking);
      const Wide after = before - kWorking;
      // Nobody works: a queue that is empty stays so, unless somebody comes and changes the word.
      const bool is_over =
          (before & kWorkingMask) == 1 && queue_length(ring_.row) == 0 && is_all_told();
      has_ended = is_over && progress_.exchange_if(after, after | kEnded);
    }
    if (crew_.any(has_ended)) {
      is_settled_ = true;
      has_ended_ = true;
      return false;
    }
    // The last must come back: it is the one to end the drain.
    const bool is_last = (crew_.from_leader(before) & kWorkingMask) == 1;
    return (is_last || wait_for_progress()) && enter();
  }
  /// Stops working because the drain is to stop; the last ends it.
  EK_DEVICE void leave_for_good() {
    must_stop_ = true;
    bool has_ended = false;
    if (crew_.leads()) {
      const Wide after = progress_.fetch_add_acq_rel(0 - kWorking) - kWorking;
      const bool is_last = (after & (kWorkingMask | kEnded)) == 0;
      has_ended = is_last && progress_.exchange_if(after, after | kEnded);
    }
    is_settled_ = false;
    has_ended_ = crew_.any(has_ended);
  }
  /// Waits until something moved; false when there is nothing to wait for.
  EK_DEVICE bool wait_for_progress() const {
    for (Word pause = 500;; pause = pause < 16000 ? pause * 2 : pause) {
      const Look now = look();
      // So many crews are of use; the others make room.
      if (Wide{crew_index_} * crew_.slots >= now.length) return false;
      bool stops = false;
      if (crew_.leads()) stops = ring_.must_stop();
      if ((now.progress & kEnded) != 0 || crew_.any(stops)) return false;
      if ((now.progress & kMovedMask) != seen_) return true;
      sleep(pause);
    }
  }

  // ---- passes ----

  EK_DEVICE void begin(Pass pass) {
    pass_ = pass;
    scan_ = 0;
    is_scanning_queue_ = false;
    has_moved_ = false;
  }
  /// After a pass: what comes next. Says whether anything does.
  EK_DEVICE bool next_pass() {
    count_ = 0;
    flush();  // before anybody is told
    if (must_stop_) {
      leave_for_good();
      return false;
    }
    const bool has_moved = has_moved_;
    const Look now = look();
    // Crews that wait do so for what is in the queue.
    if (has_moved && now.length != 0) note_progress();
    if (pass_ == Pass::fresh && now.length != 0) {
      begin(Pass::queue);
      sharers_ = now.working() != 0 ? static_cast<Word>(now.working()) : 1;
      return true;
    }
    if (pass_ != Pass::fresh && has_moved) {
      begin(Pass::fresh);
      return true;
    }
    if (pass_ == Pass::closing) return !close();
    if (now.working() != 1) return leave();
    before_closing_ = now.progress;
    is_settled_ = now.length <= kShortQueue;
    if (now.length == 0) return !close();
    begin(Pass::closing);
    return true;
  }
  /// Nothing moved while this crew was alone: ends the drain unless another came meanwhile.
  EK_DEVICE bool close() {
    bool has_ended = false;
    if (crew_.leads()) {
      if (!is_all_told()) {
        sleep(100);
      } else {
        has_ended = progress_.exchange_if(before_closing_, before_closing_ | kEnded);
      }
    }
    begin(Pass::fresh);
    has_ended_ = crew_.any(has_ended);
    return has_ended_;
  }

  /// Takes the next slots of the pass for the crew; says whether there are any.
  EK_DEVICE bool next_slots() {
    if (has_taken_) {
      has_taken_ = false;
      return count_ != 0;
    }
    if (pass_ != Pass::fresh) return next_of_queue();
    return kByPriority ? next_by_priority() : take_fresh(0);
  }
  EK_DEVICE bool next_of_queue() {
    for (; scan_ < kPartitions; ++scan_, is_scanning_queue_ = false) {
      if (!is_scanning_queue_) {
        is_scanning_queue_ = true;
        looks_ = looks_at(scan_);
      }
      if (looks_ != 0 && take_queued(scan_)) return true;
    }
    return false;
  }
  /// How many slots of a partition's queue this crew looks at: so many that all crews together look
  /// at each once, and as the last crew at all of them. What stays goes to the end of the same
  /// queue, so that each partition has a number of its own.
  EK_DEVICE Wide looks_at(Word partition) const {
    Wide length = 0;
    if (crew_.leads()) length = Queue{ring_.row, partition}.size();
    length = crew_.from_leader(length);
    if (pass_ == Pass::closing) return is_settled_ ? length : 0;
    const Wide share = length / sharers_ + crew_.slots;
    return share < length ? share : length;
  }
  /// Most urgent first, unless others have waited for long; of a partition first the fresh slots,
  /// then those of its queue.
  EK_DEVICE bool next_by_priority() {
    if (scan_ == 0 && !is_scanning_queue_) look_at_queues();
    for (; scan_ < abi::kPriorityCount; ++scan_, is_scanning_queue_ = false) {
      const Word first = starvation_ >= kStarvationLimit ? 2 : 0;
      const Word partition = (first + scan_) % abi::kPriorityCount;
      if (!is_scanning_queue_) {
        if (take_fresh(partition)) return true;
        is_scanning_queue_ = true;
        looks_ = 0;
        if ((has_queue_ >> partition & 1) != 0) {
          Wide length = 0;
          if (crew_.leads()) length = Queue{ring_.row, partition}.size();
          length = crew_.from_leader(length);
          looks_ = length < kQueueLooks ? length : kQueueLooks;
        }
      }
      if (looks_ != 0 && take_queued(partition)) return true;
    }
    return false;
  }
  /// Which partitions have something in their queue. What this crew put there it knows; for what
  /// others did it looks now and then.
  EK_DEVICE void look_at_queues() {
    scans_ = opaque(scans_ + 1);
    if (has_queue_ == 0 && scans_ % kScansPerLook != 0) return;
    Word has_queue = 0;
    if (crew_.leads()) {
#pragma unroll
      for (Word i = 0; i < abi::kPriorityCount; ++i) {
        if (Queue{ring_.row, i}.size() != 0) has_queue |= 1u << i;
      }
    }
    has_queue_ = static_cast<Word>(crew_.from_leader(has_queue));
  }

  EK_DEVICE bool take_fresh(Word partition) {
    if ((exhausted_ >> partition & 1) != 0) {
      count_ = 0;
      return false;
    }
    Taken taken{};
    if (crew_.leads()) taken = take_positions(partition);
    share_fresh(partition, taken);
    return count_ != 0;
  }
  /// Positions the leader took, how many there may be, and whether to stop.
  struct Taken {
    Wide first, left;
    bool stops;
  };
  EK_DEVICE Taken take_positions(Word partition) const {
    const Word shutdown = ring_.control().load_relaxed(abi::kControlShutdown.first);
    const Word abort = ring_.abort().load_relaxed(0);
    const Wide end = fresh_end(partition);
    Wide first = WideWord(ring_.row.shared->fresh + partition).fetch_add_relaxed(crew_.slots);
    if (is_list()) first += ring_.row.list_begin[partition];
    return {first, first < end ? end - first : 0, (shutdown | abort) != 0};
  }
  EK_DEVICE void share_fresh(Word partition, const Taken& taken) {
    if (kSchedule == Schedule::direct) {  // of the leader; also when it is to stop
      tally_.taken += static_cast<Word>(taken.left < crew_.slots ? taken.left : crew_.slots);
    }
    const bool is_all = take(partition, taken.first, taken.left, taken.stops, false);
    if (is_all) exhausted_ |= 1u << partition;
  }
  EK_DEVICE bool take_queued(Word partition) {
    Wide first = 0;
    Word count = 0;
    bool stops = false;
    if (crew_.leads()) {
      stops = ring_.must_stop();
      const Word most = looks_ < crew_.slots ? static_cast<Word>(looks_) : crew_.slots;
      if (!stops) count = Queue{ring_.row, partition}.reserve(most, first);
    }
    take(partition, first, count, stops, true);
    looks_ -= count_;
    return count_ != 0;
  }
  /// The crew has these positions, as far as it has lanes for them; says whether that is all.
  EK_DEVICE bool take(Word partition, Wide first, Wide left, bool stops, bool from_queue) {
    const bool is_all = left <= crew_.slots;
    const Wide count = stops ? 0 : is_all ? left : crew_.slots;
    const Wide packed = crew_.from_leader(first << 16 | count << 2 | Wide{is_all} << 1 | stops);
    first_ = packed >> 16;
    count_ = static_cast<Word>(packed >> 2 & 0x3FFF);
    must_stop_ = (packed & 1) != 0;
    partition_ = partition;
    from_queue_ = from_queue;
    return (packed & 2) != 0;
  }

  // ---- visits ----

  /// Which of the crew's slots this lane visits, if any.
  EK_DEVICE void choose_slot(Visitor& visitor) const {
    visitor.partition = partition_;
    if (crew_.lane >= count_) return;
    if (from_queue_) {
      Queue{ring_.row, partition_}.take(first_ + crew_.lane, visitor.slot, visitor.note);
      return;
    }
    visitor.slot = slot_at(first_ + crew_.lane);
    if (is_list()) visitor.note = one_word(ring_.row.notes + visitor.slot).load_relaxed(0);
  }
  EK_DEVICE Word slot_at(Wide position) const {
    if (is_list()) {
      const Wide first = Wide{partition_} * (Wide{ring_.row.cell_mask} + 1);
      return static_cast<Word>(
          WideWord(ring_.row.list + first + (position & ring_.row.cell_mask)).load_relaxed());
    }
    if (!kByTicket) return static_cast<Word>(position);
    return (first_ticket_ + static_cast<Word>(position)) % ring_.row.slot_count;
  }
  /// Counts what became of the slots, and keeps those that have not ended.
  EK_DEVICE void account_for(const Visitor& visitor) {
    const Word priority = kByPriority ? partition_ : abi::priority_of(visitor.priority_word);
    count(ring_, visitor, priority, tally_);
    const bool stays = visitor.visit == Visit::stuck || visitor.visit == Visit::deferred;
    const bool is_longer = Queue{ring_.row, partition_}.push(stays, visitor.slot, visitor.note);
    if (kByPriority) {
      // What one warp of the crew did, all of them know: they go the same way from here.
      if (crew_.any(is_longer)) has_queue_ |= 1u << partition_;
      count_starvation(visitor);
    }
    if (!crew_.any(visitor.visit == Visit::ended || visitor.visit == Visit::deferred)) return;
    has_moved_ = true;
    if (pass_ == Pass::fresh) {  // the next scan begins with the most urgent
      scan_ = 0;
      is_scanning_queue_ = false;
    }
  }
  EK_DEVICE void count_starvation(const Visitor& visitor) {
    Word claims = 0;
    if constexpr (kHasGroupHandlers) {
      claims = static_cast<Word>(__syncthreads_count(visitor.has_claimed));
    } else {
      claims = static_cast<Word>(__popc(__ballot_sync(kAllLanes, visitor.has_claimed)));
    }
    if (claims == 0) return;
    const bool is_urgent = partition_ <= static_cast<Word>(abi::Priority::high);
    starvation_ = is_urgent ? starvation_ + claims : 0;
    if (crew_.leads()) ring_.control().store_relaxed(abi::kControlStarvation.first, starvation_);
  }

  // ---- what there is ----

  EK_DEVICE Wide fresh_end(Word partition) const {
    if (is_list()) return ring_.row.list_end[partition];
    if (kSchedule == Schedule::direct) return ring_.row.slot_count;
    return WideWord(ring_.row.shared->fresh_end + partition).load_relaxed();
  }

  /// Where fresh slots begin and end. Control words may change while items run, so that the first
  /// crew of a launch reads them for all, and for all submissions: if one cannot be worked with,
  /// nothing runs.
  EK_DEVICE bool prepare() {
    if (kSchedule == Schedule::direct || is_list()) return true;
    const bool is_one = params_.rows == nullptr;
    Shared* const gate = params_.first.shared;
    const Words setup = one_word(&gate->setup);
    bool is_mine = false;
    if (crew_.leads()) is_mine = setup.claim(0, 0, 1);
    if (crew_.from_leader(is_mine) != 0) {
      bool is_sound = true;
      const Word lanes = kHasGroupHandlers ? blockDim.x : kWarp;
      for (Word i = crew_.lane; i < params_.submission_count; i += lanes) {
        if (!read_setup(is_one ? params_.first : load_row(params_.rows + i))) is_sound = false;
      }
      is_sound = !crew_.any(!is_sound);
      __syncwarp();  // what all lanes stored comes before the leader's release
      if (crew_.leads()) setup.store_release(0, is_sound ? 2 : 3);
      __syncwarp();
    }
    Word state = 0;
    Word starts = 0;
    if (crew_.leads()) {
      for (state = setup.load_acquire(0); state < 2; state = setup.load_acquire(0)) sleep(200);
      starts = kByPriority ? ring_.control().load_relaxed(abi::kControlStarvation.first)
                           : one_word(&ring_.row.shared->first_ticket).load_relaxed(0);
    }
    const Wide packed = crew_.from_leader(Wide{state} << 32 | starts);
    (kByPriority ? starvation_ : first_ticket_) = static_cast<Word>(packed);
    is_refused_ = packed >> 32 == 3;
    return !is_refused_;
  }
  EK_DEVICE bool read_setup(const Submission& row) const {
    return kByPriority ? read_offsets(row) : read_tickets(row);
  }

  EK_DEVICE static bool read_offsets(const Submission& row) {
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
    for (Word i = 0; i < kCount; ++i) store_for_host(row.outcome->words + i, offsets[i]);
#pragma unroll
    for (Word i = 0; i < abi::kPriorityCount; ++i) {
      WideWord(row.shared->fresh + i).store_relaxed(is_sound ? offsets[i] : 0);
      WideWord(row.shared->fresh_end + i).store_relaxed(is_sound ? offsets[i + 1] : 0);
    }
    return is_sound;
  }

  EK_DEVICE static bool read_tickets(const Submission& row) {
    const Words control(row.control, row.control_words);
    const Word first = control.load_relaxed(abi::kControlTicketHead.first);
    const Word tail = control.load_relaxed(abi::kControlTicketTail.first);
    const bool is_untouched = first == 0 && tail == 0;
    const Word count = is_untouched ? row.slot_count : tail - first;
    const bool is_sound = count <= row.slot_count;
    one_word(&row.shared->first_ticket).store_relaxed(0, first);
    WideWord(row.shared->fresh_end).store_relaxed(is_sound ? count : 0);
    store_for_host(row.outcome->words, first);
    store_for_host(row.outcome->words + 1, tail);
    return is_sound;
  }

  // ---- counting ----

  EK_DEVICE void flush() {
    add_counts(ring_, tally_);
    tally_ = {};
    (void)crew_.any(false);  // all warps of the crew have added
  }

  const LaunchParams& params_;
  Ring ring_;
  Word crew_index_;
  WideWord progress_;
  Crew crew_;
  Tally tally_;
  Wide seen_ = 0;  // what had moved when this crew last looked
  Pass pass_ = Pass::fresh;
  Word scan_ = 0;  // partitions of this pass that are behind it
  bool is_scanning_queue_ = false;
  Word scans_ = 0;
  Word has_queue_ = 0;  // partitions whose queue may hold something
  Word exhausted_ = 0;  // partitions without fresh slots
  Wide looks_ = 0;      // at slots of a partition's queue, that are left in this pass
  Word sharers_ = 1;    // crews that look at the queues in this pass
  bool has_moved_ = false;
  Wide before_closing_ = 0;
  bool has_ended_ = false;   // this crew ended the drain,
  bool is_settled_ = false;  // after the last slot that could move
  bool is_refused_ = false;
  bool must_stop_ = false;
  Word starvation_ = 0;
  Word first_ticket_ = 0;
  Word count_ = 0;  // the slots to visit next: how many,
  Wide first_ = 0;  // from which position,
  Word partition_ = 0;
  bool from_queue_ = false;
  bool has_taken_ = false;  // they are there already
};

// ---- kernels ------------------------------------------------------------------------------------

/// Drains every submission: each crew begins with one of them and helps with the others.
extern "C" __global__ void __launch_bounds__(EVERKERNEL_BLOCK_THREADS, EVERKERNEL_BLOCKS_PER_SM)
    everkernel_drain(const __grid_constant__ LaunchParams params) {
  const Word warp = threadIdx.x / kWarp;
  const Word crew = kHasGroupHandlers ? blockIdx.x : blockIdx.x * (blockDim.x / kWarp) + warp;
  __shared__ Submission rows[EVERKERNEL_BLOCK_THREADS / kWarp];
  Submission& row = rows[kHasGroupHandlers ? 0 : warp];
  const Word count = params.submission_count;
  // The last block may have more warps than there are crews.
  if (!kHasGroupHandlers && Wide{crew} * params.slots_per_crew >= params.around.worker_count)
    return;
#pragma unroll 1
  for (Word i = 0; i < count; ++i) {
    if (kHasGroupHandlers) __syncthreads();
    __syncwarp();
    if (kHasGroupHandlers ? threadIdx.x == 0 : lane_index() == 0) {
      row = params.rows == nullptr ? params.first : load_row(params.rows + (crew + i) % count);
    }
    if (kHasGroupHandlers) __syncthreads();
    __syncwarp();
    Drain(params, row, crew / count).run();
  }
}

/// Counts what is still active, and finds the first ticket that is.
extern "C" __global__ void everkernel_survey(const __grid_constant__ SurveyParams params) {
  const Words result(&params.result->active, 2);
  for (Word slot = blockIdx.x * blockDim.x + threadIdx.x; slot < params.slot_count;
       slot += gridDim.x * blockDim.x) {
    const Words words(params.ring + Wide{slot} * abi::kSlotWords, abi::kSlotWords);
    if (!abi::is_active(SlotStatus{words.load_relaxed(0)})) continue;
    result.add_relaxed(0, 1);
    const Word behind = params.slot_count - params.first_ticket % params.slot_count;
    const Word position = (slot + behind) % params.slot_count;
    if (position < params.ticket_count) result.lower_relaxed(1, position);
  }
}

#endif

}  // namespace everkernel::device

// A module has either: who drains rings need not wait until the other is compiled.
#if defined(EVERKERNEL_GRAPH)
#include "backend/cuda/graph_work.cuh"
#endif
