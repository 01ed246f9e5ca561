// Packed payloads. PackedView::parse() accepts every payload that pack() writes and refuses those
// that break the format.
#include "everkernel/protocol/packed.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/base/assert.hpp"

namespace everkernel::protocol {
namespace {

using abi::kSlotArgs;

void set_byte(PackedArgs& args, std::size_t index, Word value) {
  args[index / abi::kWordBytes] |= value << (8 * (index % abi::kWordBytes));
}

Word first_argument(const PackedArgs& args, Word op_index) {
  return abi::packed_byte(args.data(), 3 + 2 * op_index);
}

Word total_arguments(const PackedArgs& args) {
  return abi::packed_byte(args.data(), 1);
}

Word argument_end(const PackedArgs& args, Word op_index, Word op_count) {
  return op_index + 1 < op_count ? first_argument(args, op_index + 1) : total_arguments(args);
}

}  // namespace

Result<PackedArgs> pack(std::span<const PackedOp> ops) {
  const auto fence =
      std::ranges::find(ops, static_cast<Word>(abi::Opcode::batch_fence), &PackedOp::opcode);
  if (fence != ops.end()) {
    return fail(Code::invalid_argument,
                fmt::format("ring: packed operation {} is a BATCH_FENCE", fence - ops.begin()),
                "publish the fence in a slot of its own, behind the packed slot");
  }
  std::size_t argument_words = 0;
  for (const PackedOp& op : ops) argument_words += std::min<std::size_t>(op.args.size(), 1u << 16);
  const bool too_many = ops.size() > abi::kMaxPackedOps;
  const std::size_t metadata_words =
      too_many ? kSlotArgs + 1 : abi::packed_metadata_words(static_cast<Word>(ops.size()));
  if (metadata_words + argument_words > kSlotArgs) {
    return fail(
        Code::invalid_argument,
        fmt::format("ring: {} packed operations with {} argument words do not fit the {} "
                    "words of a slot",
                    ops.size(), argument_words, kSlotArgs),
        fmt::format("a slot holds up to {} operations; n of them leave 12 - (2 + 2n + 3) / 4 "
                    "words for arguments",
                    abi::kMaxPackedOps));
  }

  for (const PackedOp& op : ops) {
    if (op.args.size() >= abi::least_arguments(op.opcode)) continue;
    const abi::OpcodeInfo& row = *abi::find_opcode(op.opcode);
    return fail(Code::invalid_argument,
                fmt::format("ring: packed operation {} is {}, which takes {} arguments, not {}",
                            &op - ops.data(), row.name, row.argument_count, op.args.size()),
                fmt::format("give all of: {}", row.operands));
  }

  PackedArgs packed{};
  set_byte(packed, 0, static_cast<Word>(ops.size()));
  set_byte(packed, 1, static_cast<Word>(argument_words));
  std::size_t offset = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    set_byte(packed, 2 + 2 * i, ops[i].opcode);
    set_byte(packed, 3 + 2 * i, static_cast<Word>(offset));
    std::ranges::copy(ops[i].args,
                      packed.begin() + static_cast<std::ptrdiff_t>(metadata_words + offset));
    offset += ops[i].args.size();
  }
  return packed;
}

Result<PackedView> PackedView::parse(const PackedArgs& args) {
  const Word op_count = abi::packed_byte(args.data(), 0);
  const Word total = total_arguments(args);
  if (abi::packed_metadata_words(op_count) + total > kSlotArgs) {
    return fail(
        Code::corrupt,
        fmt::format("ring: a packed payload of {} operations and {} argument words is longer "
                    "than the {} words of a slot",
                    op_count, total, kSlotArgs));
  }
  for (Word i = 0; i < op_count; ++i) {
    const Word first = first_argument(args, i);
    const Word end = argument_end(args, i, op_count);
    if (first > end || end > total) {
      return fail(Code::corrupt, fmt::format("ring: packed operation {} has arguments {}..{} of {}",
                                             i, first, end, total));
    }
    if (abi::packed_byte(args.data(), 2 + 2 * i) == static_cast<Word>(abi::Opcode::batch_fence)) {
      return fail(Code::corrupt, fmt::format("ring: packed operation {} is a BATCH_FENCE", i),
                  "a fence needs a slot of its own");
    }
  }
  return PackedView(args, op_count);
}

PackedOp PackedView::op(Word index) const {
  EVERKERNEL_ASSERT(index < op_count_);
  const Word first = first_argument(args_, index);
  const Word end = argument_end(args_, index, op_count_);
  return {
      .opcode = static_cast<std::uint8_t>(abi::packed_byte(args_.data(), 2 + 2 * index)),
      .args = std::span(args_).subspan(abi::packed_metadata_words(op_count_) + first, end - first)};
}

}  // namespace everkernel::protocol
