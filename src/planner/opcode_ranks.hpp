// Numbers the opcodes of a list in the order of their first items.
#pragma once

#include <unordered_map>
#include <vector>

#include "everkernel/abi/platform.hpp"
#include "everkernel/backend/detail/graph.hpp"

namespace everkernel::planner {

using abi::Word;

/// Maps an opcode to its rank; small opcodes index an array.
class OpcodeRanks {
 public:
  OpcodeRanks() : dense_(kDense, backend::kNoNode) {}  ///< no opcode has a rank

  /// The rank of an opcode, which gets the next one if it is new.
  Word operator[](Word opcode) {
    Word& rank = opcode < kDense ? dense_[opcode]
                                 : sparse_.try_emplace(opcode, backend::kNoNode).first->second;
    if (rank == backend::kNoNode) {
      rank = static_cast<Word>(opcodes_.size());
      opcodes_.push_back(opcode);
    }
    return rank;
  }
  /// Opcodes by rank.
  const std::vector<Word>& opcodes() const { return opcodes_; }

 private:
  static constexpr Word kDense = 4096;
  std::vector<Word> dense_;
  std::unordered_map<Word, Word> sparse_;
  std::vector<Word> opcodes_;
};

}  // namespace everkernel::planner
