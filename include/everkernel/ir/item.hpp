// The frame of one run of one item, and how the run ends.
//
// Interpreter and native code use the same frame. Its layout is fixed, because generated code reads
// it by offset.
#pragma once

#include <cstddef>
#include <cstdint>

#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/slot.hpp"
#include "everkernel/ir/limits.hpp"
#include "everkernel/memory/buffer_table.hpp"

namespace everkernel::ir {

using abi::Word;

/// How a run of an item ended.
enum class Ending : Word {
  done = 0,     ///< complete
  yield = 1,    ///< runs again, soon
  requeue = 2,  ///< runs again, later
  wait_io = 3,  ///< runs again when the request in the frame is served
  fault = 4,    ///< stopped with a code
};

/// How a run of an item ended, with the code of a fault.
struct Outcome {
  Ending ending = Ending::done;  ///< how it ended
  Word fault_code = 0;           ///< code of a fault, else 0

  /// Equal in both fields.
  friend constexpr bool operator==(const Outcome&, const Outcome&) = default;
};

/// The receivers of printf and emit, called on the thread that runs the item.
struct ItemHooks {
  void* self = nullptr;                                           ///< passed to the functions
  void (*print)(void* self, Word fmt, Word a, Word b) = nullptr;  ///< printf(fmt, a, b)
  void (*emit)(void* self, Word a, Word b, Word c) = nullptr;     ///< emit(a, b, c)
};

/// The IO request of an await.
struct IoAsk {
  Word is_write = 0;     ///< await write, not await read
  Word source = 0;       ///< handle to read from
  Word block = 0;        ///< offset in units of 4096 bytes
  Word destination = 0;  ///< handle to write to
  Word byte_count = 0;   ///< bytes
};

/// One run of one item. The worker that runs it owns the frame, not the memory behind its pointers.
struct ItemFrame {
  Word args[abi::kSlotArgs] = {};        ///< private copy; the caller writes it back
  Word opcode = 0;                       ///< of the slot
  Word tenant = 0;                       ///< of the slot
  Word priority = 0;                     ///< of the slot
  Word slot = 0;                         ///< its index
  Word lanes = 1;                        ///< of the handler's scope
  Word control_words = 0;                ///< length of the control buffer
  Word* control = nullptr;               ///< the control buffer
  memory::BufferTableView buffers = {};  ///< the buffer of each handle
  std::uint64_t fuel = kDefaultFuel;     ///< turns of loops left
  const Word* abort = nullptr;           ///< a non-zero word there ends the item; may be null
  const ItemHooks* hooks = nullptr;      ///< receivers of printf and emit; may be null
  IoAsk io = {};                         ///< filled by await
};
static_assert(offsetof(ItemFrame, opcode) == 48 && offsetof(ItemFrame, lanes) == 64 &&
              offsetof(ItemFrame, control) == 72 && offsetof(ItemFrame, buffers) == 80 &&
              offsetof(ItemFrame, fuel) == 96 && offsetof(ItemFrame, abort) == 104 &&
              offsetof(ItemFrame, hooks) == 112 && offsetof(ItemFrame, io) == 120);

/// The fault code of `fault n`; an n above kMaxUserFault counts as kMaxUserFault.
constexpr Word user_fault_code(Word n) {
  return abi::kFirstUserFault + (n < abi::kMaxUserFault ? n : abi::kMaxUserFault);
}

}  // namespace everkernel::ir
