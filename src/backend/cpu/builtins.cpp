// The built-in operations. Every one checks all its indices and rights first, then writes.
#include "backend/cpu/builtins.hpp"

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"

namespace everkernel::backend::cpu {
namespace {

using abi::FaultCode;
using abi::Opcode;
using abi::Slot;

constexpr ir::Outcome kDone{ir::Ending::done, 0};

ir::Outcome fault(FaultCode code) {
  return {ir::Ending::fault, static_cast<Word>(code)};
}

// Sums of two words cannot overflow in 64 bits, so an index is one comparison.
struct Control {
  protocol::LiveWords& words;
  Word tenant;

  bool has(std::uint64_t index) const { return index < words.size(); }
  bool may_write(std::uint64_t index) const {
    return tenant == 0 || index >= abi::kControlFirstObservable;
  }
  // Why the word cannot be written, or none.
  FaultCode write_fault(std::uint64_t index) const {
    if (!has(index)) return FaultCode::index_out_of_range;
    return may_write(index) ? FaultCode::none : FaultCode::permission_denied;
  }
};

constexpr std::uint64_t observable(Word index) {
  return std::uint64_t{abi::kControlFirstObservable} + index;
}

ir::Outcome store(Control control, Word value, Word index) {
  if (const auto code = control.write_fault(index); code != FaultCode::none) return fault(code);
  control.words.store_relaxed(index, value);
  return kDone;
}

ir::Outcome add(Control control, Word addend, Word index) {
  if (const auto code = control.write_fault(index); code != FaultCode::none) return fault(code);
  control.words.add_relaxed(index, addend);
  return kDone;
}

ir::Outcome load(Control control, Word index, Word obs) {
  if (!control.has(index) || !control.has(observable(obs))) {
    return fault(FaultCode::index_out_of_range);
  }
  control.words.store_relaxed(observable(obs), control.words.load_relaxed(index));
  return kDone;
}

ir::Outcome compare_swap(Control control, Word index, Word expected, Word desired) {
  if (!control.has(index) || !control.has(observable(index))) {
    return fault(FaultCode::index_out_of_range);
  }
  if (!control.may_write(index)) return fault(FaultCode::permission_denied);
  const Word before = control.words.exchange_if(index, expected, desired);
  control.words.store_relaxed(observable(index), before);
  return kDone;
}

ir::Outcome copy(Control control, Word source, Word target, Word count) {
  const std::uint64_t size = control.words.size();
  if (std::uint64_t{source} + count > size || std::uint64_t{target} + count > size) {
    return fault(FaultCode::index_out_of_range);
  }
  if (count != 0 && !control.may_write(target)) return fault(FaultCode::permission_denied);
  auto& words = control.words;
  if (target <= source) {
    for (std::size_t i = 0; i < count; ++i) {
      words.store_relaxed(target + i, words.load_relaxed(source + i));
    }
  } else {
    for (std::size_t i = count; i-- > 0;) {
      words.store_relaxed(target + i, words.load_relaxed(source + i));
    }
  }
  return kDone;
}

ir::Outcome dfa_step(Control control, const memory::BufferTableView& buffers, const Word* args) {
  const Word state = args[0];
  const Word obs = args[2];
  const memory::BufferEntry* const table = buffers.find(args[3]);
  if (table == nullptr) return fault(FaultCode::bad_buffer_handle);
  const bool is_owner = table->owner == memory::kEveryTenant || table->owner == control.tenant;
  const bool is_readable = (table->access & static_cast<Word>(memory::Access::read)) != 0;
  if (!is_owner || !is_readable) return fault(FaultCode::permission_denied);
  const std::uint64_t index = std::uint64_t{state} * 256 + (args[1] & 0xFF);
  if (index >= table->word_count || !control.has(observable(obs))) {
    return fault(FaultCode::index_out_of_range);
  }
  const Word next = std::atomic_ref(table->words[index]).load(std::memory_order_relaxed);
  control.words.store_relaxed(observable(obs), next);
  return kDone;
}

}  // namespace

bool is_plain_builtin(Word opcode) {
  return opcode < static_cast<Word>(Opcode::batch_fence) ||
         opcode == static_cast<Word>(Opcode::shutdown);
}

ir::Outcome run_builtin(const BuiltinMemory& memory, const Slot& slot) {
  const Control control{memory.control, slot.tenant};
  const Word* const args = slot.args;
  switch (Opcode{slot.opcode}) {
    case Opcode::nop:
      return kDone;
    case Opcode::store_u32:
      return store(control, args[0], args[1]);
    case Opcode::atomic_add:
      return add(control, args[0], args[1]);
    case Opcode::load_u32:
      return load(control, args[0], args[1]);
    case Opcode::compare_swap:
      return compare_swap(control, args[0], args[1], args[2]);
    case Opcode::memcpy:
      return copy(control, args[0], args[1], args[2]);
    case Opcode::dfa_step:
      return dfa_step(control, memory.buffers, args);
    case Opcode::shutdown:
      return store(control, 1, abi::kControlShutdown.first);
    case Opcode::batch_fence:
    case Opcode::load_miss:
    case Opcode::printf:
    case Opcode::packed_slot:
      break;  // the worker's own
  }
  return fault(FaultCode::unknown_opcode);
}

}  // namespace everkernel::backend::cpu
