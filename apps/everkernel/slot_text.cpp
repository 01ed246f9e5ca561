// The texts of the args and note columns of `inspect`.
#include "slot_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/io_queue.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/protocol/packed.hpp"
#include "numbers.hpp"

namespace everkernel::cli {
namespace {

using abi::Opcode;
using abi::Slot;
using abi::SlotStatus;

bool is(const Slot& slot, Opcode opcode) {
  return slot.opcode == static_cast<Word>(opcode);
}

protocol::PackedArgs packed_args(const Slot& slot) {
  protocol::PackedArgs args;
  std::ranges::copy(slot.args, args.begin());
  return args;
}

std::string packed_text(const protocol::PackedView& view) {
  std::string text;
  for (Word i = 0; i < view.op_count(); ++i) {
    const protocol::PackedOp op = view.op(i);
    if (i != 0) text += ' ';
    text += opcode_text(op.opcode);
    if (!op.args.empty()) text += fmt::format("({})", fmt::join(op.args, ","));
  }
  return text;
}

std::string fault_text(Word code) {
  if (code >= abi::kFirstUserFault) {
    return fmt::format("handler fault {}", code - abi::kFirstUserFault);
  }
  if (code == 0) return "fault without a code";
  const std::string_view name = abi::fault_name(code);
  return name == "unknown" ? fmt::format("fault code {}", code) : std::string(name);
}

}  // namespace

std::string args_text(const Slot& slot) {
  if (is(slot, Opcode::packed_slot)) {
    if (const auto view = protocol::PackedView::parse(packed_args(slot))) return packed_text(*view);
  }
  // All operands that the operation reads, and further ones up to the last that is not zero.
  const abi::OpcodeInfo* row = abi::find_opcode(slot.opcode);
  std::size_t shown = row != nullptr && !is(slot, Opcode::packed_slot) ? row->argument_count : 0;
  // The last argument of a WAIT_IO slot is the index of its IO slot, which the note shows.
  const std::size_t end = slot.status == SlotStatus::wait_io ? abi::kIoSlotArg : abi::kSlotArgs;
  for (std::size_t i = shown; i < end; ++i) {
    if (slot.args[i] != 0) shown = i + 1;
  }
  return fmt::format("{}", fmt::join(std::span(slot.args).first(shown), ", "));
}

std::string SlotExplainer::explain(const Slot& slot) {
  const std::string text = reason(slot);
  if (slot.status != SlotStatus::empty && !abi::is_terminal(slot.status)) {
    last_unfinished_ = slot_index_;
  }
  ++slot_index_;
  return text;
}

std::string SlotExplainer::reason(const Slot& slot) const {
  switch (slot.status) {
    case SlotStatus::empty:
    case SlotStatus::claimed:
    case SlotStatus::done:
      return {};
    case SlotStatus::published:
    case SlotStatus::yield:
    case SlotStatus::requeue:
      return claimable_reason(slot);
    case SlotStatus::wait_io:
      return fmt::format("waits for IO slot {}", slot.args[abi::kIoSlotArg]);
    case SlotStatus::fault:
      return fault_text(abi::fault_code_of(slot.priority));
  }
  return fmt::format("status word 0x{:x}", static_cast<Word>(slot.status));
}

std::string SlotExplainer::claimable_reason(const Slot& slot) const {
  if (slot.tenant > abi::kMaxTenant) return "will fault: bad tenant";
  if (control_ != nullptr && !control_->tenant_enabled(slot.tenant)) return "tenant disabled";
  if (control_ != nullptr && control_->tenant_quota(slot.tenant) == 0) return "tenant has no quota";
  if (is(slot, Opcode::packed_slot) && !protocol::PackedView::parse(packed_args(slot))) {
    return "will fault: bad payload";
  }
  if (is(slot, Opcode::batch_fence)) return fence_reason(slot);
  return {};
}

std::string SlotExplainer::fence_reason(const Slot& slot) const {
  const Word count = slot.args[0];
  if (count > slot_index_) return "will fault: bad fence";
  if (!last_unfinished_ || *last_unfinished_ < slot_index_ - count) return {};
  return fmt::format("waits for slot {}", *last_unfinished_);
}

}  // namespace everkernel::cli
