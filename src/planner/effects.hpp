// Effects of the items of an opcode on the buffers they name, as the verifier found them or as
// trusted handlers declare them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "everkernel/abi/platform.hpp"
#include "everkernel/ir/trusted.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::planner {

using abi::Word;

/// Bits of the effects that an item can have.
using Effects = std::uint8_t;
inline constexpr Effects kReadsInput = 1;       ///< loads or atomics on input
inline constexpr Effects kWritesInput = 2;      ///< stores or atomics on input
inline constexpr Effects kReadsOutput = 4;      ///< loads or atomics on output
inline constexpr Effects kWritesOutput = 8;     ///< stores or atomics on output
inline constexpr Effects kBarrier = 16;         ///< may touch any buffer: ordered against all items
inline constexpr Effects kPure = 32;            ///< running an item twice is running it once
inline constexpr Effects kCommutes = 64;        ///< items on one output may run in any order
inline constexpr Effects kUnknownOpcode = 128;  ///< no item may have it

/// Effects by opcode. Immutable.
class EffectTable {
 public:
  /// Those of a program's handlers, of trusted handlers and of NOP; null is no program.
  explicit EffectTable(const ir::VerifiedProgram* program,
                       std::span<const ir::TrustedHandler> trusted_handlers = {});

  /// The effects of items of an opcode.
  Effects find(Word opcode) const { return opcode < kDense ? dense_[opcode] : find_sparse(opcode); }

 private:
  static constexpr Word kDense = 4096;
  struct Entry {
    Word opcode = 0;
    Effects effects = 0;
  };
  void add(const ir::HandlerTraits& handler);
  Effects find_sparse(Word opcode) const;

  std::vector<Effects> dense_;
  std::vector<Entry> sparse_;  // sorted by opcode
};

}  // namespace everkernel::planner
