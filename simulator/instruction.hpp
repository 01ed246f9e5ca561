// One instruction of a GPU's machine code (compute capability 9.0). Its text form is the one that
// NVIDIA's disassembler prints: `@!P0 IADD3.X R5, R5, UR5, RZ, P0, !PT`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "everkernel/base/result.hpp"

namespace everkernel::simulator {

/// Registers that read as 0, and predicates that are always true.
inline constexpr std::uint8_t kNoRegister = 255;  // RZ
inline constexpr std::uint8_t kNoUniform = 63;    // URZ
inline constexpr std::uint8_t kTrue = 7;          // PT, UPT

enum class OperandKind : std::uint8_t {
  none,
  reg,                // R5, RZ
  uniform,            // UR5, URZ
  predicate,          // P0, PT
  uniform_predicate,  // UP0, UPT
  immediate,          // 0x5, -0x5, 1.5; also the target of a branch, as its place in the code
  constant,           // c[0x0][0x210]
  indirect_constant,  // c[0x0][R5+0x210], c[0x0][UR5]: `index` or `uniform` is the register
  special,            // SR_TID.X
  barrier,            // B0
  address,            // [R2.64+UR4+0x10]
};

/// An operand. Fields that its kind does not use have their default values.
struct Operand {
  OperandKind kind = OperandKind::none;
  std::uint8_t index = 0;             // of the register, predicate, barrier or special register
  bool is_negative = false;           // -R5, !P0
  bool is_inverted = false;           // ~R5
  bool is_magnitude = false;          // |R5|
  bool is_wide = false;               // the register of an address and the next: R2.64
  std::uint8_t bank = 0;              // of a constant
  std::uint8_t uniform = kNoUniform;  // of an address or a constant
  std::uint32_t value = 0;  // an immediate's bits, a constant's byte offset, an address's offset
  friend bool operator==(const Operand&, const Operand&) = default;
};

inline constexpr std::size_t kMaxOperands = 9;

/// An instruction. Operands have the order of the text form; operands that the text form leaves out
/// (mostly a second destination PT) are left out here too.
struct Instruction {
  std::string name = {};  // with all modifiers: ISETP.GE.U32.AND
  Operand guard = {};     // P0, !P0, UP0; none if it always runs
  std::size_t operand_count = 0;
  std::array<Operand, kMaxOperands> operands = {};
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

inline constexpr std::size_t kInstructionBytes = 16;

/// Decodes the instruction at byte `place` of its kernel's code. Fails with the instruction's bits
/// if any bit has no known meaning: the decoder never guesses.
Result<Instruction> decode(std::span<const std::byte, kInstructionBytes> bytes, std::size_t place);

/// The text that NVIDIA's disassembler prints for it.
std::string to_text(const Instruction& instruction);

}  // namespace everkernel::simulator
