// The built-in operations: one table of number, name and argument count, used by every module.
//
// Numbers outside the reserved ranges belong to handlers.
#pragma once

#include "everkernel/abi/platform.hpp"
#include "everkernel/abi/slot.hpp"

namespace everkernel::abi {

/// The built-in operations. The opcode of a slot is one of these or the opcode of a handler.
enum class Opcode : Word {
  nop = 0,                    ///< does nothing
  store_u32 = 1,              ///< value, index: control[index] ← value
  atomic_add = 2,             ///< addend, index: control[index] += addend
  load_u32 = 3,               ///< index, obs: control[160+obs] ← control[index]
  compare_swap = 4,           ///< index, expected, desired; the old value → control[160+index]
  memcpy = 5,                 ///< src, dst, words: copy inside control, overlap is safe
  dfa_step = 6,               ///< state, byte, obs, table handle: one automaton step
  batch_fence = 7,            ///< count, tag: completes after the count slots before it
  load_miss = 0xFFFDu,        ///< resource, prefetch: ask the host for data
  printf = 0xFFFEu,           ///< fmt, a, b: append a debug record
  packed_slot = 0x80000001u,  ///< several small operations in one slot
  shutdown = 0xFFFFFFFFu,     ///< control[0] ← 1
};

/// A row of the opcode table.
struct OpcodeInfo {
  Opcode opcode;         ///< the number
  const char* name;      ///< as the wire format spells it
  Word argument_count;   ///< operands it reads
  const char* operands;  ///< their names, in order
};

/// Every built-in operation, by rising number.
inline constexpr OpcodeInfo kOpcodes[] = {
    {Opcode::nop, "NOP", 0, ""},
    {Opcode::store_u32, "STORE_U32", 2, "value, index"},
    {Opcode::atomic_add, "ATOMIC_ADD", 2, "addend, index"},
    {Opcode::load_u32, "LOAD_U32", 2, "index, observable"},
    {Opcode::compare_swap, "COMPARE_SWAP", 3, "index, expected, desired"},
    {Opcode::memcpy, "MEMCPY", 3, "source, destination, words"},
    {Opcode::dfa_step, "DFA_STEP", 4, "state, byte, observable, table handle"},
    {Opcode::batch_fence, "BATCH_FENCE", 2, "count, tag"},
    {Opcode::load_miss, "LOAD_MISS", 2, "resource, prefetch"},
    {Opcode::printf, "PRINTF", 3, "format, a, b"},
    {Opcode::packed_slot, "PACKED_SLOT", kSlotArgs, "packed payload"},
    {Opcode::shutdown, "SHUTDOWN", 0, ""},
};

/// Opcodes below this number are built in.
inline constexpr Word kFirstFreeOpcode = 8;
/// First number of the upper reserved range.
inline constexpr Word kFirstReservedOpcode = 0xFFF0u;
/// Last number of the upper reserved range.
inline constexpr Word kLastReservedOpcode = 0xFFFFu;
/// Every number with this bit is reserved.
inline constexpr Word kReservedOpcodeBit = 0x80000000u;

/// Whether the number is reserved: a handler may not have it.
EVERKERNEL_HOST_DEVICE constexpr bool is_reserved_opcode(Word opcode) {
  return opcode < kFirstFreeOpcode ||
         (opcode >= kFirstReservedOpcode && opcode <= kLastReservedOpcode) ||
         (opcode & kReservedOpcodeBit) != 0;
}

/// The table row of a built-in operation, null for any other number.
EVERKERNEL_HOST_DEVICE constexpr const OpcodeInfo* find_opcode(Word opcode) {
  for (const OpcodeInfo& row : kOpcodes) {
    if (static_cast<Word>(row.opcode) == opcode) return &row;
  }
  return nullptr;
}

/// Whether a slot with this opcode may be published: built in, or free for handlers.
EVERKERNEL_HOST_DEVICE constexpr bool is_publishable_opcode(Word opcode) {
  // The fast path, for nearly every opcode: all numbers below the upper reserved range may be
  // published, because the low built-ins have no gap (asserted below).
  if (opcode < kFirstReservedOpcode) return true;
  return !is_reserved_opcode(opcode) || find_opcode(opcode) != nullptr;
}

/// The arguments that a publisher must give an operation at least. Handlers read zeros for missing
/// ones, and so do packed slots, whose payload says how long it is.
EVERKERNEL_HOST_DEVICE constexpr Word least_arguments(Word opcode) {
  if (opcode < kFirstFreeOpcode) return kOpcodes[opcode].argument_count;
  if (opcode < kFirstReservedOpcode) return 0;
  const OpcodeInfo* const row = find_opcode(opcode);
  return row == nullptr || row->opcode == Opcode::packed_slot ? 0 : row->argument_count;
}

/// Whether the table rises strictly and fills 0 … kFirstFreeOpcode − 1 with reserved numbers only.
EVERKERNEL_HOST_DEVICE constexpr bool opcode_table_is_sound() {
  Word low = 0;
  Word previous = 0;
  for (const OpcodeInfo& row : kOpcodes) {
    const Word number = static_cast<Word>(row.opcode);
    if (low != 0 && number <= previous) return false;
    if (!is_reserved_opcode(number) || row.argument_count > kSlotArgs) return false;
    if (low < kFirstFreeOpcode && number != low) return false;
    previous = number;
    ++low;
  }
  return low >= kFirstFreeOpcode;
}
static_assert(opcode_table_is_sound());

}  // namespace everkernel::abi
