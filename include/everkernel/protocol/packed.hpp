// Packs several small operations into the arguments of one slot, and reads them back
// (abi/packed.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "everkernel/abi/packed.hpp"
#include "everkernel/protocol/buffer.hpp"

namespace everkernel::protocol {

/// One inner operation.
struct PackedOp {
  std::uint8_t opcode = 0;          ///< built in (below 8) or a handler's number
  std::span<const Word> args = {};  ///< its operands
};

/// The arguments of a packed slot.
using PackedArgs = std::array<Word, abi::kSlotArgs>;

/// Packs operations. Fails with `invalid_argument` when they need more than 12 words, when a
/// built-in operation lacks arguments, or when one of them is a BATCH_FENCE, which needs a slot of
/// its own.
Result<PackedArgs> pack(std::span<const PackedOp> ops);

/// A packed payload, checked once and then read freely. Holds its own copy.
class PackedView {
 public:
  /// Fails with `corrupt` if the payload breaks the format: more words than a slot has, arguments
  /// that run backwards or past the end, or a BATCH_FENCE inside.
  static Result<PackedView> parse(const PackedArgs& args);

  /// Number of inner operations.
  Word op_count() const { return op_count_; }
  /// One inner operation; its arguments live as long as the view.
  PackedOp op(Word index) const;

 private:
  PackedView(const PackedArgs& args, Word op_count) : args_(args), op_count_(op_count) {}
  PackedArgs args_;
  Word op_count_;
};

}  // namespace everkernel::protocol
