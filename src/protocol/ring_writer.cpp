// Publishing: the checks in the order of the wire format, then the stores.
#include "everkernel/protocol/ring_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/checked.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/protocol/packed.hpp"
#include "everkernel/protocol/ring.hpp"

namespace everkernel::protocol {
namespace {

using abi::Slot;
using abi::SlotStatus;
using abi::WorkItem;

Result<void> check_tenant(Word tenant) {
  if (tenant <= abi::kMaxTenant) return {};
  return fail(Code::invalid_argument,
              fmt::format("ring: tenant {} is not one of 0..{}", tenant, abi::kMaxTenant),
              "a ring has 29 tenants; 0 is the operator");
}

Result<void> check_priority(Word priority) {
  if (priority < abi::kPriorityCount) return {};
  return fail(
      Code::invalid_argument,
      fmt::format("ring: priority {} is not one of 0..{}", priority, abi::kPriorityCount - 1),
      "0 critical, 1 high, 2 normal, 3 low, 4 idle");
}

// A bad payload would become FAULT when it runs.
Result<void> check_payload(std::span<const Word> args) {
  PackedArgs payload{};
  std::ranges::copy(args, payload.begin());
  const auto parsed = PackedView::parse(payload);
  if (parsed) return {};
  return fail(Code::invalid_argument, parsed.error().message,
              "pack() and publish_packed() make payloads");
}

Result<void> check_args(const Operation& operation) {
  const std::size_t count = operation.args.size();
  if (count < abi::least_arguments(operation.opcode)) {
    const abi::OpcodeInfo& row = *abi::find_opcode(operation.opcode);
    return fail(
        Code::invalid_argument,
        fmt::format("ring: {} takes {} arguments, not {}", row.name, row.argument_count, count),
        fmt::format("give all of: {}", row.operands));
  }
  if (count > abi::kSlotArgs) {
    return fail(Code::invalid_argument,
                fmt::format("ring: {} arguments, a slot holds {}", count, abi::kSlotArgs),
                "pass longer data in a buffer and its handle in the slot");
  }
  if (operation.opcode != static_cast<Word>(abi::Opcode::packed_slot)) return {};
  return check_payload(operation.args);
}

// `item` is "item N: " for an item of a batch or window, empty for a single slot.
Failure unpublishable(Word opcode, std::string_view item) {
  return fail(Code::invalid_argument,
              fmt::format("ring: {0}opcode {1} ({1:#x}) is reserved", item, opcode),
              "opcodes of handlers are 8..0xffef and 0x10000..0x7fffffff");
}

Result<void> check_opcode(Word opcode) {
  if (abi::is_publishable_opcode(opcode)) return {};
  return unpublishable(opcode, "");
}

// A work item has three arguments: operations that need more, and packed slots whose payload would
// not fit their rules, are refused like reserved opcodes.
Result<void> check_opcodes(std::span<const WorkItem> items) {
  for (const WorkItem& item : items) {
    const Word opcode = item.op_handle;
    if (opcode >= abi::kFirstFreeOpcode && opcode < abi::kFirstReservedOpcode) [[likely]]
      continue;
    const auto index = &item - items.data();
    if (!abi::is_publishable_opcode(opcode)) {
      return unpublishable(opcode, fmt::format("item {}: ", index));
    }
    const std::array<Word, 3> args{item.input_handle, item.output_handle, item.param};
    auto checked = check_args({opcode, args});
    if (checked) continue;
    checked.error().message += fmt::format(" (item {})", index);
    return checked;
  }
  return {};
}

Result<void> check_batch_operation(const Operation& operation, std::size_t index) {
  auto args = check_args(operation);
  if (!args) {
    args.error().message += fmt::format(" (item {})", index);
    return args;
  }
  if (abi::is_publishable_opcode(operation.opcode)) return {};
  return unpublishable(operation.opcode, fmt::format("item {}: ", index));
}

// Fails unless `count` slots from `first_slot` on fit a ring of `slot_count` slots.
Result<void> check_fits(Word first_slot, std::size_t count, std::size_t slot_count) {
  const auto end = checked_add<std::size_t>(first_slot, count);
  if (end && *end <= slot_count) return {};
  return fail(Code::invalid_argument,
              fmt::format("ring: {} slots from slot {} do not fit a ring of {} slots", count,
                          first_slot, slot_count),
              "publish fewer items, or make a larger ring");
}

}  // namespace

Result<void> check_operation(const Operation& operation, const Sender& sender) {
  EVERKERNEL_TRY(check_args(operation));
  EVERKERNEL_TRY(check_tenant(sender.tenant));
  EVERKERNEL_TRY(check_priority(sender.priority));
  return check_opcode(operation.opcode);
}

Result<void> check_items(std::span<const WorkItem> items, const Sender& sender) {
  EVERKERNEL_TRY(check_tenant(sender.tenant));
  EVERKERNEL_TRY(check_priority(sender.priority));
  return check_opcodes(items);
}

Result<void> encode_items(const ItemWindow& window, std::span<std::byte> ring) {
  const std::size_t slots = EVERKERNEL_TRY(whole_units(Buffer::ring, ring.size(), abi::kSlotBytes));
  EVERKERNEL_TRY(check_fits(window.first_slot, window.items.size(), slots));
  EVERKERNEL_TRY(check_opcodes(window.items));
  const auto in_limit = ring_bytes(static_cast<Word>(std::min<std::size_t>(slots, ~Word{0})));
  if (!in_limit) return Failure(in_limit.error());
  EVERKERNEL_TRY(check_tenant(window.tenant));
  EVERKERNEL_TRY(check_priority(window.priority));

  // Each cache line is written once: a slot either gets an item or is cleared.
  auto words = *PrivateWords::bind(Buffer::ring, ring);
  const std::size_t first_byte = std::size_t{window.first_slot} * abi::kSlotBytes;
  std::ranges::fill(ring.first(first_byte), std::byte{0});
  const Sender sender{window.tenant, window.priority};
  std::size_t slot_index = window.first_slot;
  for (const WorkItem& item : window.items)
    words.store_slot(slot_index++, published_slot(item, sender));
  std::ranges::fill(ring.subspan(slot_index * abi::kSlotBytes), std::byte{0});
  return {};
}

template <class Words>
Result<BasicRingWriter<Words>> BasicRingWriter<Words>::bind(std::span<std::byte> ring) {
  const RingView view = EVERKERNEL_TRY(RingView::parse(ring));
  const Words words = EVERKERNEL_TRY(Words::bind(Buffer::ring, ring));
  return BasicRingWriter(words, view.slot_count());
}

template <class Words>
Result<void> BasicRingWriter<Words>::check_inside(Word slot_index) const {
  if (slot_index < slot_count_) return {};
  return fail(Code::invalid_argument,
              fmt::format("ring: slot {} does not exist: the ring has {} slots ({} bytes)",
                          slot_index, slot_count_, std::size_t{slot_count_} * abi::kSlotBytes),
              "slots are counted from 0");
}

template <class Words>
Result<void> BasicRingWriter<Words>::check_free(Word first_slot, Word count) const {
  for (Word i = first_slot; i < first_slot + count; ++i) {
    const SlotStatus found = status(i);
    if (abi::is_publishable(found)) continue;
    const bool is_fault = found == SlotStatus::fault;
    return fail(Code::queue_full,
                fmt::format("ring: slot {} is in use: its status (word {}) is {} ({})", i,
                            std::size_t{i} * abi::kSlotWords, abi::status_name(found),
                            static_cast<Word>(found)),
                is_fault ? "reset the faulted slot first"
                         : "wait until the slot is DONE, or use another slot");
  }
  return {};
}

template <class Words>
Result<void> BasicRingWriter<Words>::publish(const SlotRequest& request) {
  const Operation operation{request.opcode, request.args};
  const Sender sender{request.tenant, request.priority};
  EVERKERNEL_TRY(check_inside(request.slot_index));
  EVERKERNEL_TRY(check_operation(operation, sender));
  EVERKERNEL_TRY(check_free(request.slot_index, 1));
  words_.store_slot(request.slot_index, published_slot(operation, sender));
  return {};
}

template <class Words>
Result<Word> BasicRingWriter<Words>::publish_items(const ItemWindow& window) {
  const Sender sender{window.tenant, window.priority};
  EVERKERNEL_TRY(check_items(window.items, sender));
  EVERKERNEL_TRY(check_fits(window.first_slot, window.items.size(), slot_count_));
  const Word count = static_cast<Word>(window.items.size());
  EVERKERNEL_TRY(check_free(window.first_slot, count));
  Words words = words_;  // a copy: stores into the ring cannot alias a local
  std::size_t slot_index = window.first_slot;
  for (const WorkItem& item : window.items)
    words.store_slot(slot_index++, published_slot(item, sender));
  return count;
}

template <class Words>
Result<void> BasicRingWriter<Words>::publish_packed(const PackedRequest& request) {
  const auto args = EVERKERNEL_TRY(pack(request.ops));
  return publish({.slot_index = request.slot_index,
                  .tenant = request.tenant,
                  .priority = request.priority,
                  .opcode = static_cast<Word>(abi::Opcode::packed_slot),
                  .args = args});
}

template <class Words>
Result<Word> BasicRingWriter<Words>::publish_batch(const BatchRequest& request) {
  EVERKERNEL_TRY(check_tenant(request.tenant));
  EVERKERNEL_TRY(check_priority(request.priority));
  const auto slots = checked_add<std::size_t>(request.operations.size(), 1);  // and the fence
  EVERKERNEL_TRY(check_fits(request.first_slot, slots.value_or(~std::size_t{0}), slot_count_));
  for (std::size_t i = 0; i < request.operations.size(); ++i) {
    EVERKERNEL_TRY(check_batch_operation(request.operations[i], i));
  }
  const Word operation_count = static_cast<Word>(request.operations.size());
  EVERKERNEL_TRY(check_free(request.first_slot, operation_count + 1));

  const Sender sender{request.tenant, request.priority};
  std::size_t slot_index = request.first_slot;
  for (const Operation& operation : request.operations) {
    words_.store_slot(slot_index++, published_slot(operation, sender));
  }
  const std::array<Word, 2> fence_args{operation_count, request.tag};
  const Operation fence{static_cast<Word>(abi::Opcode::batch_fence), fence_args};
  words_.store_slot(slot_index, published_slot(fence, sender));
  return operation_count + 1;
}

template <class Words>
void BasicRingWriter<Words>::clear(Word slot_index) {
  // The fault code is cleared with the status; the other words stay readable until the next
  // publish.
  const std::size_t line = std::size_t{slot_index} * abi::kSlotWords;
  const Word priority = abi::priority_of(words_.load_relaxed(line + 3));
  words_.store_relaxed(line + 3, abi::priority_word(priority, 0));
  words_.store_release(line, static_cast<Word>(SlotStatus::empty));
}

template <class Words>
Result<void> BasicRingWriter<Words>::reset(Word slot_index) {
  EVERKERNEL_TRY(check_inside(slot_index));
  const SlotStatus found = status(slot_index);
  if (found != SlotStatus::fault) {
    return fail(Code::invalid_argument, fmt::format("ring: slot {} is {}, only a fault is reset",
                                                    slot_index, abi::status_name(found)));
  }
  clear(slot_index);
  return {};
}

template <class Words>
Result<void> BasicRingWriter<Words>::cancel(Word slot_index) {
  EVERKERNEL_TRY(check_inside(slot_index));
  const SlotStatus found = status(slot_index);
  if (!abi::is_cancellable(found)) {
    return fail(Code::invalid_argument,
                fmt::format("ring: slot {} is {}, only published, wait_io, yield and requeue are "
                            "cancelled",
                            slot_index, abi::status_name(found)));
  }
  clear(slot_index);
  return {};
}

template class BasicRingWriter<PrivateWords>;
template class BasicRingWriter<LiveWords>;

}  // namespace everkernel::protocol
