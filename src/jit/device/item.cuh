// An item: the args and context that a handler runs on, and the result it returns. Workers make one
// for each run of a handler (backend/cuda/device/items.cuh); the interpreter's is ir::ItemFrame.
#pragma once

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/slot.hpp"
#include "jit/device/buffers.cuh"
#include "jit/device/sinks.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// How a run of an item ended; the numbers are those of ir::Ending.
enum class Ending : Word { done = 0, yield = 1, requeue = 2, wait_io = 3, fault = 4 };

/// The result of a handler: the ending in the lowest byte, the fault code above it.
EK_DEVICE constexpr Word outcome(Ending ending, Word fault_code = 0) {
  return static_cast<Word>(ending) | fault_code << 8;
}
EK_DEVICE constexpr Word fault_outcome(Word code) {
  return outcome(Ending::fault, code);
}

/// Turns of loops that an item may run. 32 bits, unless the kernel gives its items more fuel.
#if defined(EVERKERNEL_WIDE_FUEL)
using Fuel = Wide;
#else
using Fuel = Word;
#endif

/// The IO request of an `await`; ir::IoAsk.
struct IoAsk {
  Word is_write, source, block, destination, byte_count;
};

/// One run of one item. Every lane that runs it has an equal copy.
struct Item {
  Word args[abi::kSlotArgs];
  Word opcode, tenant, priority, slot;
  Word number;  // identifies the item in hits: its slot, or its index in the list of a run
  Word record;  // names the item in debug records: the first word of its slot, or that index
  Word lanes;   // `lanes` of the handler language; the number of threads may differ
  Words control;
  BufferTable buffers;
  Fuel fuel;
  Words abort;  // one word; non-zero ends the item
  ItemSinks sinks;
  IoAsk io;
};

/// Appends a debug record. One thread of the item calls it.
EK_DEVICE void print_record(const Item& item, Word fmt, Word a, Word b) {
  append_record(item.sinks, item.record, fmt, a, b);
}
/// Appends a hit. One thread of the item calls it.
EK_DEVICE void append_hit(const Item& item, Word a, Word b, Word c) {
  append_hit(item.sinks, item.number, a, b, c);
}

/// Access to the arg at an index that is no constant. All args are compared: an array with a
/// variable index would lie in local memory instead of registers.
EK_DEVICE Word load_arg(const Item& item, Word index) {
  Word value = 0;
#pragma unroll
  for (Word i = 0; i < abi::kSlotArgs; ++i) value = index == i ? item.args[i] : value;
  return value;
}
EK_DEVICE void store_arg(Item& item, Word index, Word value) {
#pragma unroll
  for (Word i = 0; i < abi::kSlotArgs; ++i) item.args[i] = index == i ? value : item.args[i];
}

/// The fault code of an access to a control word, or 0. Only tenant 0 may write the words below the
/// observables.
EK_DEVICE Word control_fault(const Item& item, Word index, bool writes) {
  if (index >= item.control.size()) return static_cast<Word>(FaultCode::index_out_of_range);
  const bool is_protected = item.tenant != 0 && index < abi::kControlFirstObservable;
  return writes && is_protected ? static_cast<Word>(FaultCode::permission_denied) : 0;
}

}  // namespace everkernel::device
