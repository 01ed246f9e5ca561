// The built-in operations that need nothing but the control words and the buffer table.
#pragma once

#include "everkernel/abi/slot.hpp"
#include "everkernel/ir/item.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "everkernel/protocol/words.hpp"

namespace everkernel::backend::cpu {

using abi::Word;

/// The memory that a built-in operation uses.
struct BuiltinMemory {
  protocol::LiveWords& control;     ///< the control words
  memory::BufferTableView buffers;  ///< the buffers that handles name
};

/// Whether the opcode is one of those below.
bool is_plain_builtin(Word opcode);

/// Runs NOP, STORE_U32, ATOMIC_ADD, LOAD_U32, COMPARE_SWAP, MEMCPY, DFA_STEP or SHUTDOWN. Every
/// index is checked before anything is written.
ir::Outcome run_builtin(const BuiltinMemory& memory, const abi::Slot& slot);

}  // namespace everkernel::backend::cpu
