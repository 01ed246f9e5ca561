// What an item does when it runs, and how it asks for IO.
#include "backend/cpu/item_runner.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

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

// Of known length, so that no function is called for it.
void copy_args(const Word (&from)[abi::kSlotArgs], Word (&to)[abi::kSlotArgs]) {
  std::memcpy(to, from, sizeof to);
}

void print_record(void* self, Word fmt, Word a, Word b) {
  static_cast<ItemRunner*>(self)->print(fmt, a, b);
}

void append_hit(void* self, Word a, Word b, Word c) {
  static_cast<ItemRunner*>(self)->emit(a, b, c);
}

}  // namespace

// ---- the context ----

Result<void> ItemContext::check(std::span<std::byte> control, std::span<std::byte> debug_log,
                                std::span<std::byte> io_queue) {
  EVERKERNEL_TRY(protocol::LiveWords::bind(protocol::Buffer::control, control));
  EVERKERNEL_TRY(protocol::LiveDebugLogWriter::bind(debug_log));
  EVERKERNEL_TRY(protocol::LiveIoQueueWriter::bind(io_queue));
  return {};
}

ItemContext::ItemContext(std::span<std::byte> control_bytes, std::span<std::byte> log_bytes,
                         std::span<std::byte> io_bytes)
    : control(*protocol::LiveWords::bind(protocol::Buffer::control, control_bytes)),
      log(*protocol::LiveDebugLogWriter::bind(log_bytes)),
      io_words(*protocol::LiveWords::bind(protocol::Buffer::io_queue, io_bytes)),
      io(*protocol::LiveIoQueueWriter::bind(io_bytes)) {}

bool ItemContext::take_counted_quota(Word tenant, Word quota) {
  if (in_flight[tenant].fetch_add(1, std::memory_order_relaxed) < quota) return true;
  return_quota(tenant);
  return false;
}

bool ItemContext::has_free_io_slot() const {
  const std::uint64_t pending = prefetches.load(std::memory_order_relaxed);
  for (Word i = 0; std::size_t{i} * abi::kIoSlotWords < io_words.size(); ++i) {
    const IoStatus status{io_words.load_relaxed(io_status_word(i))};
    const bool is_prefetch = (pending >> i & 1) != 0;
    if (status == IoStatus::empty || (is_prefetch && abi::is_complete(status))) return true;
  }
  return false;
}

IoStatus ItemContext::io_status(Word io_slot) const {
  const bool is_inside = std::size_t{io_slot} * abi::kIoSlotWords < io_words.size();
  return is_inside ? IoStatus{io_words.load_acquire(io_status_word(io_slot))} : IoStatus::error;
}

// ---- items ----

ItemRunner::ItemRunner(ItemContext& context, Tally& tally) : context_(context), tally_(tally) {
  hooks_ = {.self = this, .print = print_record, .emit = append_hit};
  frame_.control = context.control.data();
  frame_.control_words = static_cast<Word>(context.control.size());
  frame_.hooks = &hooks_;
}

ItemRunner::End ItemRunner::run(Slot& slot, Word place) {
  return run(slot, place, context_.buffers, context_.abort);
}

ItemRunner::End ItemRunner::run_item(Slot& slot, Word place) {
  place_ = place;
  if (is_opcode(slot.opcode, Opcode::packed_slot)) return {.outcome = run_packed(slot)};
  const Executor& executor = *context_.executor;
  Word handler = executor.payload();
  if (handler == Executor::kNone || is_opcode(slot.opcode, Opcode::shutdown)) {
    if (is_plain_builtin(slot.opcode)) {
      return {.outcome = run_builtin({context_.control, buffers_}, slot)};
    }
    if (is_opcode(slot.opcode, Opcode::printf)) {
      print(slot.args[0], slot.args[1], slot.args[2]);
      return {};
    }
    if (is_opcode(slot.opcode, Opcode::load_miss)) return run_load_miss(slot);
    handler = executor.find(slot.opcode);
    if (handler == Executor::kNone) return {.outcome = fault(FaultCode::unknown_opcode)};
  }
  const Outcome outcome = run_handler(handler, slot);
  if (outcome.ending != Ending::wait_io) {
    copy_args(frame_.args, slot.args);
    return {.outcome = outcome, .writes_args = executor.info(handler).writes_args};
  }
  const ir::IoAsk& ask = frame_.io;
  End end = wait_for({.op = ask.is_write != 0 ? abi::IoOp::write : abi::IoOp::read,
                      .src_handle = ask.source,
                      .dst_handle = ask.destination,
                      .offset = ask.block * kIoBlockBytes,
                      .byte_count = ask.byte_count,
                      .tag = place},
                     slot);
  if (end.needs_io_slot) return end;  // it runs again from its args as they were
  const Word io_slot = slot.args[abi::kIoSlotArg];
  copy_args(frame_.args, slot.args);
  slot.args[abi::kIoSlotArg] = io_slot;
  return end;
}

Outcome ItemRunner::run_handler(Word handler, const Slot& slot) {
  copy_args(slot.args, frame_.args);
  frame_.opcode = slot.opcode;
  frame_.tenant = slot.tenant;
  frame_.priority = abi::priority_of(slot.priority);
  frame_.slot = place_;
  frame_.lanes = context_.executor->info(handler).lanes;
  frame_.buffers = buffers_;
  frame_.fuel = context_.fuel_per_item;
  return context_.executor->run(handler, frame_);
}

Outcome ItemRunner::run_packed(const Slot& slot) {
  protocol::PackedArgs args;
  std::ranges::copy(slot.args, args.begin());
  const auto packed = protocol::PackedView::parse(args);
  if (!packed || has_bad_inner(*packed, *context_.executor)) {
    return fault(FaultCode::bad_packed_payload);
  }
  for (Word i = 0; i < packed->op_count(); ++i) {
    const protocol::PackedOp op = packed->op(i);
    Slot inner{SlotStatus::claimed, op.opcode, slot.tenant, slot.priority, {}};
    std::ranges::copy(op.args, inner.args);
    Outcome outcome = fault(FaultCode::unknown_opcode);
    if (is_plain_builtin(inner.opcode)) {
      outcome = run_builtin({context_.control, buffers_}, inner);
    } else if (const Word handler = context_.executor->find(inner.opcode);
               handler != Executor::kNone) {
      outcome = run_handler(handler, inner);
    }
    if (outcome.ending == Ending::fault) return outcome;
    count_execution(inner.opcode);
  }
  return {};
}

void ItemRunner::print(Word fmt, Word a, Word b) {
  const bool has_room = context_.log.append({fmt, {a, b, place_ * abi::kSlotWords}});
  if (!has_room) context_.control.add_relaxed(abi::kControlDebugDropped.first, 1);
}

// ---- IO ----

ItemRunner::End ItemRunner::run_load_miss(Slot& slot) {
  const Word resource = slot.args[0];
  const bool is_prefetch = slot.args[1] != 0;
  const protocol::IoRequest request{
      .op = abi::IoOp::read, .src_handle = resource, .dst_handle = resource, .tag = resource};
  if (!is_prefetch) return wait_for(request, slot);
  Word io_slot = 0;
  if (!ask_io(request, io_slot)) {
    return {.outcome = {Ending::requeue, 0}, .needs_io_slot = true};
  }
  context_.prefetches.fetch_or(std::uint64_t{1} << io_slot, std::memory_order_relaxed);
  return {};
}

// Requests IO and notes the IO slot in the item's args, for the worker that ends the wait.
ItemRunner::End ItemRunner::wait_for(const protocol::IoRequest& request, Slot& slot) {
  Word io_slot = 0;
  if (!ask_io(request, io_slot)) {
    return {.outcome = {Ending::requeue, 0}, .needs_io_slot = true};
  }
  slot.args[abi::kIoSlotArg] = io_slot;
  return {.outcome = {Ending::wait_io, 0}, .writes_args = true};
}

bool ItemRunner::ask_io(const protocol::IoRequest& request, Word& io_slot) {
  if (context_.prefetches.load(std::memory_order_relaxed) != 0) free_prefetches();
  const auto taken = context_.io.submit(request);
  if (taken) io_slot = *taken;
  return taken.has_value();
}

// No item waits for a prefetch, so the next IO request frees the slots of completed ones.
void ItemRunner::free_prefetches() {
  std::uint64_t left = context_.prefetches.load(std::memory_order_relaxed);
  for (; left != 0; left &= left - 1) {
    const Word io_slot = static_cast<Word>(std::countr_zero(left));
    if (!abi::is_complete(context_.io_status(io_slot))) continue;
    const std::uint64_t bit = std::uint64_t{1} << io_slot;
    const bool is_ours =
        (context_.prefetches.fetch_and(~bit, std::memory_order_relaxed) & bit) != 0;
    if (is_ours) static_cast<void>(context_.io.release(io_slot));
  }
}

}  // namespace everkernel::backend::cpu
