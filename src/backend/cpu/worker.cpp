// The life of one slot on the device side: look, claim, run, end. The order of stores is the wire
// format's: effects, then the status with release, then the counters.
#include "backend/cpu/worker.hpp"

#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"

namespace everkernel::backend::cpu {
namespace {

using abi::FaultCode;
using abi::IoStatus;
using abi::Opcode;
using abi::Slot;
using abi::SlotStatus;
using ir::Ending;
using ir::Outcome;

constexpr bool is_opcode(Word number, Opcode opcode) {
  return number == static_cast<Word>(opcode);
}

std::size_t first_word(Word slot) {
  return std::size_t{slot} * abi::kSlotWords;
}

}  // namespace

Result<void> RingState::check(std::span<std::byte> control, std::span<std::byte> slots,
                              std::span<std::byte> debug_log, std::span<std::byte> io_queue) {
  EVERKERNEL_TRY(ItemContext::check(control, debug_log, io_queue));
  EVERKERNEL_TRY(protocol::LiveWords::bind(protocol::Buffer::ring, slots));
  return {};
}

RingState::RingState(std::span<std::byte> control_bytes, std::span<std::byte> slot_bytes,
                     std::span<std::byte> log_bytes, std::span<std::byte> io_bytes)
    : ItemContext(control_bytes, log_bytes, io_bytes),
      slots(*protocol::LiveWords::bind(protocol::Buffer::ring, slot_bytes)),
      slot_count(static_cast<Word>(slot_bytes.size() / abi::kSlotBytes)) {}

bool RingState::is_aborted() const {
  return std::atomic_ref(*const_cast<Word*>(abort)).load(std::memory_order_relaxed) != 0;
}

Worker::Worker(RingState& ring, Tally& tally) : ring_(ring), tally_(tally), runner_(ring, tally) {}

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
  const Word quota = ring_.quota_of(tenant);
  if (quota < ring_.worker_count &&
      ring_.in_flight[tenant].load(std::memory_order_relaxed) >= quota) {
    return Admission::stuck;
  }
  if (memory.needs_io_slot && !ring_.has_free_io_slot()) return Admission::stuck;
  const bool is_seen_fence = found == SlotStatus::yield &&
                             is_opcode(ring_.slots.load_relaxed(line + 1), Opcode::batch_fence);
  if (is_seen_fence) {
    const Word count = ring_.slots.load_relaxed(line + abi::kSlotFirstArg);
    if (count <= memory.slot && !is_fence_ready(memory, count)) return Admission::stuck;
  }
  return Admission::run;
}

Visit Worker::run_claimed(Deferred& memory, SlotStatus found, Word priority) {
  Slot slot;
  ring_.slots.load_slot_head(memory.slot, slot);
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
  const ItemRunner::End end = runner_.run(slot, memory.slot);
  memory.needs_io_slot = end.needs_io_slot;
  if (end.writes_args) store_args(memory.slot, slot);
  // Without a free IO slot the item is put back, which does not count as a claim.
  if (!end.needs_io_slot) count_claim(slot.tenant, priority);
  switch (end.outcome.ending) {
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
  return end_fault(memory.slot, slot, end.outcome.fault_code);
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

Visit Worker::visit_waiting(Deferred& memory) {
  const std::size_t line = first_word(memory.slot);
  const Word io_slot = ring_.slots.load_relaxed(line + abi::kSlotFirstArg + abi::kIoSlotArg);
  const bool is_inside = std::size_t{io_slot} * abi::kIoSlotWords < ring_.io_words.size();
  const IoStatus answer = ring_.io_status(io_slot);
  if (!abi::is_complete(answer)) return Visit::stuck;
  if (!ring_.slots.claim(line, static_cast<Word>(SlotStatus::wait_io),
                         static_cast<Word>(SlotStatus::claimed))) {
    return Visit::passed;
  }
  const Slot slot = ring_.slots.load_slot(memory.slot);
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

void Worker::store_args(Word slot, const Slot& copy) {
  const std::size_t first = first_word(slot) + abi::kSlotFirstArg;
  for (std::size_t i = 0; i < abi::kSlotArgs; ++i)
    ring_.slots.store_relaxed(first + i, copy.args[i]);
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
