// The life of one slot on the device side: look, claim, run, end. The order of stores is the wire
// format's: effects, then the status with release, then the counters.
#include "backend/cpu/worker.hpp"

#include <algorithm>
#include <bit>

#include "backend/cpu/builtins.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/protocol/packed.hpp"

namespace everkernel::backend::cpu {
namespace {

using abi::FaultCode;
using abi::IoStatus;
using abi::Opcode;
using abi::Slot;
using abi::SlotStatus;
using ir::Ending;
using ir::Outcome;

constexpr std::uint64_t kIoBlockBytes = 4096;

constexpr Outcome fault(FaultCode code) {
  return {Ending::fault, static_cast<Word>(code)};
}

constexpr bool is_opcode(Word number, Opcode opcode) {
  return number == static_cast<Word>(opcode);
}

std::size_t first_word(Word slot) {
  return std::size_t{slot} * abi::kSlotWords;
}

std::size_t io_status_word(Word io_slot) {
  return std::size_t{io_slot} * abi::kIoSlotWords + abi::kIoStatusWord;
}

// A packed slot ends in one visit: it may not hold a handler that can yield or wait for IO.
bool has_bad_inner(const protocol::PackedView& packed, const Executor& executor) {
  for (Word i = 0; i < packed.op_count(); ++i) {
    const Word handler = executor.find(packed.op(i).opcode);
    if (handler != Executor::kNone && executor.info(handler).can_leave) return true;
  }
  return false;
}

void print_record(void* self, Word fmt, Word a, Word b) {
  static_cast<Worker*>(self)->print(fmt, a, b);
}

void append_hit(void* self, Word a, Word b, Word c) {
  static_cast<Worker*>(self)->emit(a, b, c);
}

}  // namespace

Result<void> RingState::check(std::span<std::byte> control, std::span<std::byte> slots,
                              std::span<std::byte> debug_log, std::span<std::byte> io_queue) {
  using protocol::Buffer;
  EVERKERNEL_TRY(protocol::LiveWords::bind(Buffer::control, control));
  EVERKERNEL_TRY(protocol::LiveWords::bind(Buffer::ring, slots));
  EVERKERNEL_TRY(protocol::LiveDebugLogWriter::bind(debug_log));
  EVERKERNEL_TRY(protocol::LiveIoQueueWriter::bind(io_queue));
  return {};
}

RingState::RingState(std::span<std::byte> control_bytes, std::span<std::byte> slot_bytes,
                     std::span<std::byte> log_bytes, std::span<std::byte> io_bytes)
    : control(*protocol::LiveWords::bind(protocol::Buffer::control, control_bytes)),
      slots(*protocol::LiveWords::bind(protocol::Buffer::ring, slot_bytes)),
      log(*protocol::LiveDebugLogWriter::bind(log_bytes)),
      io_words(*protocol::LiveWords::bind(protocol::Buffer::io_queue, io_bytes)),
      io(*protocol::LiveIoQueueWriter::bind(io_bytes)),
      slot_count(static_cast<Word>(slot_bytes.size() / abi::kSlotBytes)) {}

bool RingState::is_aborted() const {
  return std::atomic_ref(*const_cast<Word*>(abort)).load(std::memory_order_relaxed) != 0;
}

Worker::Worker(RingState& ring, Tally& tally) : ring_(ring), tally_(tally) {
  hooks_ = {.self = this, .print = print_record, .emit = append_hit};
  frame_.control = ring.control.data();
  frame_.control_words = static_cast<Word>(ring.control.size());
  frame_.abort = ring.abort;
  frame_.hooks = &hooks_;
}

Visit Worker::visit(Deferred& memory, Word priority) {
  has_claimed_ = false;
  const SlotStatus found = ring_.status(memory.slot);
  if (found == SlotStatus::wait_io) return visit_waiting(memory);
  if (!abi::is_claimable(found)) return Visit::passed;
  if (look(memory, found) == Admission::stuck) return Visit::stuck;
  if (!ring_.slots.claim(first_word(memory.slot), static_cast<Word>(found),
                         static_cast<Word>(SlotStatus::claimed))) {
    return Visit::passed;
  }
  return run_claimed(memory, found, priority);
}

// Whether to claim the slot. The words read here may change until the claim succeeds, so the
// private copy of the slot is checked again after it.
Worker::Admission Worker::look(Deferred& memory, SlotStatus found) const {
  const std::size_t line = first_word(memory.slot);
  const Word tenant = ring_.slots.load_relaxed(line + 2);
  const Standing standing = ring_.standing_of(tenant);
  if (standing == Standing::unknown) return Admission::run;  // to end as FAULT
  if (standing == Standing::disabled) return Admission::stuck;
  const Word quota = ring_.control.load_relaxed(abi::kControlTenantQuotas.first + tenant);
  if (quota < ring_.worker_count &&
      ring_.in_flight[tenant].load(std::memory_order_relaxed) >= quota) {
    return Admission::stuck;
  }
  if (memory.needs_io_slot && !has_free_io_slot()) return Admission::stuck;
  const bool is_seen_fence = found == SlotStatus::yield &&
                             is_opcode(ring_.slots.load_relaxed(line + 1), Opcode::batch_fence);
  if (is_seen_fence) {
    const Word count = ring_.slots.load_relaxed(line + abi::kSlotFirstArg);
    if (count <= memory.slot && !is_fence_ready(memory, count)) return Admission::stuck;
  }
  return Admission::run;
}

bool RingState::take_counted_quota(Word tenant, Word quota) {
  if (in_flight[tenant].fetch_add(1, std::memory_order_relaxed) < quota) return true;
  return_quota(tenant);
  return false;
}

Visit Worker::run_claimed(Deferred& memory, SlotStatus found, Word priority) {
  Slot slot;
  ring_.slots.load_slot_head(memory.slot, slot);
  current_slot_ = memory.slot;
  const Standing standing = ring_.standing_of(slot.tenant);
  if (standing == Standing::unknown) [[unlikely]] {
    return end_fault(memory.slot, slot, static_cast<Word>(FaultCode::tenant_out_of_range));
  }
  bool is_counted = false;
  if (standing == Standing::disabled || !ring_.take_quota(slot.tenant, is_counted)) [[unlikely]] {
    ring_.set_status(memory.slot, found);
    return Visit::stuck;
  }
  if (priority == kOwnPriority) priority = abi::priority_of(slot.priority);
  ring_.slots.load_slot_args(memory.slot, slot);
  Visit visit = Visit::stuck;
  if (is_opcode(slot.opcode, Opcode::batch_fence)) {
    visit = run_fence(memory, slot, priority);
  } else {
    visit = run_and_store(memory, slot, priority);
  }
  if (is_counted) ring_.return_quota(slot.tenant);
  return visit;
}

Visit Worker::run_and_store(Deferred& memory, Slot& slot, Word priority) {
  memory.needs_io_slot = false;
  const Outcome outcome = run_item(slot, memory.needs_io_slot);
  // Without a free IO slot the item is put back, which does not count as a claim.
  if (!memory.needs_io_slot) count_claim(slot.tenant, priority);
  switch (outcome.ending) {
    case Ending::done:
      return end_done(memory.slot, slot.opcode);
    case Ending::yield:
      return put_back(memory.slot, SlotStatus::yield);
    case Ending::requeue:
      return put_back(memory.slot, SlotStatus::requeue);
    case Ending::wait_io:
      return put_back(memory.slot, SlotStatus::wait_io);
    case Ending::fault:
      break;
  }
  return end_fault(memory.slot, slot, outcome.fault_code);
}

// ---- operations ----

Outcome Worker::run_item(Slot& slot, bool& needs_io_slot) {
  if (is_opcode(slot.opcode, Opcode::packed_slot)) return run_packed(slot);
  Word handler = ring_.executor->payload();
  if (handler == Executor::kNone || is_opcode(slot.opcode, Opcode::shutdown)) {
    if (is_plain_builtin(slot.opcode)) return run_builtin({ring_.control, ring_.buffers}, slot);
    if (is_opcode(slot.opcode, Opcode::printf)) {
      print(slot.args[0], slot.args[1], slot.args[2]);
      return {};
    }
    if (is_opcode(slot.opcode, Opcode::load_miss)) return run_load_miss(slot, needs_io_slot);
    handler = ring_.executor->find(slot.opcode);
    if (handler == Executor::kNone) return fault(FaultCode::unknown_opcode);
  }
  const Outcome outcome = run_handler(handler, slot);
  const bool writes_args = ring_.executor->info(handler).writes_args;
  if (outcome.ending != Ending::wait_io) {
    if (writes_args) store_args(slot);
    return outcome;
  }
  const ir::IoAsk& ask = frame_.io;
  return wait_for({.op = ask.is_write != 0 ? abi::IoOp::write : abi::IoOp::read,
                   .src_handle = ask.source,
                   .dst_handle = ask.destination,
                   .offset = ask.block * kIoBlockBytes,
                   .byte_count = ask.byte_count,
                   .tag = current_slot_},
                  writes_args ? &slot : nullptr, needs_io_slot);
}

Outcome Worker::run_handler(Word handler, Slot& slot) {
  std::ranges::copy(slot.args, frame_.args);
  frame_.opcode = slot.opcode;
  frame_.tenant = slot.tenant;
  frame_.priority = abi::priority_of(slot.priority);
  frame_.slot = current_slot_;
  frame_.lanes = ring_.executor->info(handler).lanes;
  frame_.buffers = ring_.buffers;
  frame_.fuel = ring_.fuel_per_item;
  const Outcome outcome = ring_.executor->run(handler, frame_);
  std::ranges::copy(frame_.args, slot.args);
  return outcome;
}

Outcome Worker::run_packed(const Slot& slot) {
  protocol::PackedArgs args;
  std::ranges::copy(slot.args, args.begin());
  const auto packed = protocol::PackedView::parse(args);
  if (!packed || has_bad_inner(*packed, *ring_.executor)) {
    return fault(FaultCode::bad_packed_payload);
  }
  for (Word i = 0; i < packed->op_count(); ++i) {
    const protocol::PackedOp op = packed->op(i);
    Slot inner{SlotStatus::claimed, op.opcode, slot.tenant, slot.priority, {}};
    std::ranges::copy(op.args, inner.args);
    Outcome outcome = fault(FaultCode::unknown_opcode);
    if (is_plain_builtin(inner.opcode)) {
      outcome = run_builtin({ring_.control, ring_.buffers}, inner);
    } else if (const Word handler = ring_.executor->find(inner.opcode);
               handler != Executor::kNone) {
      outcome = run_handler(handler, inner);
    }
    if (outcome.ending == Ending::fault) return outcome;
    tally_.count_execution(inner.opcode);
  }
  return {};
}

void Worker::print(Word fmt, Word a, Word b) {
  const bool has_room = ring_.log.append({fmt, {a, b, current_slot_ * abi::kSlotWords}});
  if (!has_room) ring_.control.add_relaxed(abi::kControlDebugDropped.first, 1);
}

// ---- fences ----

Visit Worker::run_fence(Deferred& memory, const Slot& slot, Word priority) {
  const Word count = slot.args[0];
  if (count > memory.slot) {
    count_claim(slot.tenant, priority);
    return end_fault(memory.slot, slot, static_cast<Word>(FaultCode::bad_fence));
  }
  if (!is_fence_ready(memory, count)) {
    ring_.set_status(memory.slot, SlotStatus::yield);
    return Visit::stuck;
  }
  count_claim(slot.tenant, priority);
  if (ring_.control.size() > abi::kControlFirstObservable) {
    ring_.control.store_relaxed(abi::kControlFirstObservable, slot.args[1]);
  }
  // Every status was read with acquire: a host that acquires EPOCH sees the words that the batch
  // wrote.
  ring_.control.add_release(abi::kControlEpoch.first, 1);
  return end_done(memory.slot, slot.opcode);
}

bool Worker::is_fence_ready(Deferred& memory, Word count) const {
  for (; memory.checked < count; ++memory.checked) {
    const SlotStatus status = ring_.status(memory.slot - count + memory.checked);
    if (status != SlotStatus::empty && !abi::is_terminal(status)) return false;
  }
  return true;
}

// ---- IO ----

Outcome Worker::run_load_miss(Slot& slot, bool& needs_io_slot) {
  const Word resource = slot.args[0];
  const bool is_prefetch = slot.args[1] != 0;
  const protocol::IoRequest request{
      .op = abi::IoOp::read, .src_handle = resource, .dst_handle = resource, .tag = resource};
  if (!is_prefetch) return wait_for(request, nullptr, needs_io_slot);
  Word io_slot = 0;
  if (!ask_io(request, io_slot)) {
    needs_io_slot = true;
    return {Ending::requeue, 0};
  }
  ring_.prefetches.fetch_or(std::uint64_t{1} << io_slot, std::memory_order_relaxed);
  return {};
}

// Requests IO and stores the IO slot in the item's own slot, for the worker that ends the wait. If
// the request found no IO slot, the item's args stay as they are and it runs again from the start.
Outcome Worker::wait_for(const protocol::IoRequest& request, const Slot* args,
                         bool& needs_io_slot) {
  Word io_slot = 0;
  if (!ask_io(request, io_slot)) {
    needs_io_slot = true;
    return {Ending::requeue, 0};
  }
  if (args != nullptr) store_args(*args);
  ring_.slots.store_relaxed(first_word(current_slot_) + abi::kSlotFirstArg + abi::kIoSlotArg,
                            io_slot);
  return {Ending::wait_io, 0};
}

bool Worker::ask_io(const protocol::IoRequest& request, Word& io_slot) {
  if (ring_.prefetches.load(std::memory_order_relaxed) != 0) free_prefetches();
  const auto taken = ring_.io.submit(request);
  if (taken) io_slot = *taken;
  return taken.has_value();
}

// Whether an IO request could succeed: a slot is EMPTY, or holds a prefetch that has completed.
bool Worker::has_free_io_slot() const {
  const std::uint64_t prefetches = ring_.prefetches.load(std::memory_order_relaxed);
  for (Word i = 0; std::size_t{i} * abi::kIoSlotWords < ring_.io_words.size(); ++i) {
    const IoStatus status{ring_.io_words.load_relaxed(io_status_word(i))};
    const bool is_prefetch = (prefetches >> i & 1) != 0;
    if (status == IoStatus::empty || (is_prefetch && abi::is_complete(status))) return true;
  }
  return false;
}

// No item waits for a prefetch, so the next IO request frees the slots of completed ones.
void Worker::free_prefetches() {
  std::uint64_t left = ring_.prefetches.load(std::memory_order_relaxed);
  for (; left != 0; left &= left - 1) {
    const Word io_slot = static_cast<Word>(std::countr_zero(left));
    if (!abi::is_complete(IoStatus{ring_.io_words.load_acquire(io_status_word(io_slot))})) continue;
    const std::uint64_t bit = std::uint64_t{1} << io_slot;
    const bool is_ours = (ring_.prefetches.fetch_and(~bit, std::memory_order_relaxed) & bit) != 0;
    if (is_ours) static_cast<void>(ring_.io.release(io_slot));
  }
}

Visit Worker::visit_waiting(Deferred& memory) {
  const std::size_t line = first_word(memory.slot);
  const Word io_slot = ring_.slots.load_relaxed(line + abi::kSlotFirstArg + abi::kIoSlotArg);
  const bool is_inside = std::size_t{io_slot} * abi::kIoSlotWords < ring_.io_words.size();
  IoStatus answer = IoStatus::error;
  if (is_inside) answer = IoStatus{ring_.io_words.load_acquire(io_status_word(io_slot))};
  if (!abi::is_complete(answer)) return Visit::stuck;
  if (!ring_.slots.claim(line, static_cast<Word>(SlotStatus::wait_io),
                         static_cast<Word>(SlotStatus::claimed))) {
    return Visit::passed;
  }
  const Slot slot = ring_.slots.load_slot(memory.slot);
  current_slot_ = memory.slot;
  if (!is_inside) {
    return end_fault(memory.slot, slot, static_cast<Word>(FaultCode::index_out_of_range));
  }
  static_cast<void>(ring_.io.release(io_slot));
  if (answer == IoStatus::error) {
    return end_fault(memory.slot, slot, static_cast<Word>(FaultCode::io_error));
  }
  const bool is_load_miss =
      is_opcode(slot.opcode, Opcode::load_miss) && ring_.executor->payload() == Executor::kNone;
  if (is_load_miss) return end_done(memory.slot, slot.opcode);
  return put_back(memory.slot, SlotStatus::requeue);
}

// ---- endings ----

void Worker::store_args(const Slot& slot) {
  const std::size_t first = first_word(current_slot_) + abi::kSlotFirstArg;
  for (std::size_t i = 0; i < abi::kSlotArgs; ++i)
    ring_.slots.store_relaxed(first + i, slot.args[i]);
}

Visit Worker::end_fault(Word slot, const Slot& copy, Word code) {
  const Word word = abi::priority_word(abi::priority_of(copy.priority), code);
  ring_.slots.store_relaxed(first_word(slot) + 3, word);
  tally_.announce_end();
  ring_.set_status(slot, SlotStatus::fault);
  tally_.count_fault();
  tally_.publish();
  return Visit::ended;
}

Visit Worker::put_back(Word slot, SlotStatus status) {
  ring_.set_status(slot, status);
  return Visit::deferred;
}

}  // namespace everkernel::backend::cpu
