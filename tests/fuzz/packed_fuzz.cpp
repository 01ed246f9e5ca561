// Any words as a packed payload: an accepted payload can be packed again, to the same operations.
#include <algorithm>
#include <iterator>
#include <vector>

#include "everkernel/protocol/packed.hpp"
#include "fuzz.hpp"

namespace everkernel::fuzz {
namespace {

using abi::Word;
using protocol::PackedArgs;
using protocol::PackedOp;
using protocol::PackedView;

bool is_same(const PackedView& a, const PackedView& b) {
  if (a.op_count() != b.op_count()) return false;
  for (Word i = 0; i < a.op_count(); ++i) {
    if (a.op(i).opcode != b.op(i).opcode) return false;
    if (!std::ranges::equal(a.op(i).args, b.op(i).args)) return false;
  }
  return true;
}

// Words that an inner operation must have to be packed.
std::size_t operands_of(std::uint8_t opcode) {
  constexpr std::size_t kOperands[] = {0, 2, 2, 2, 3, 3, 4};
  return opcode < std::size(kOperands) ? kOperands[opcode] : 0;
}

void check_payload(const PackedArgs& args) {
  const auto view = PackedView::parse(args);
  if (!view) return check_refused(view);
  std::vector<PackedOp> ops;
  std::size_t words = 0;
  bool is_complete = true;  // a worker reads zeros for missing arguments; pack() asks for all
  for (Word i = 0; i < view->op_count(); ++i) {
    ops.push_back(view->op(i));
    words += ops.back().args.size();
    is_complete &= ops.back().args.size() >= operands_of(ops.back().opcode);
    EVERKERNEL_ASSERT(ops.back().opcode != 7);
  }
  const std::size_t metadata = (2 + 2 * ops.size() + 3) / 4;
  EVERKERNEL_ASSERT(metadata + words <= 12);
  const auto packed = protocol::pack(ops);
  EVERKERNEL_ASSERT(packed.has_value() == is_complete);
  if (!packed) return;
  EVERKERNEL_ASSERT(is_same(*PackedView::parse(*packed), *view));
  // If no unused words precede the arguments, the payload itself is the packed form.
  const bool is_canonical = !ops.empty() && abi::packed_byte(args.data(), 3) == 0;
  if (!is_canonical) return;
  for (Word byte = 0; byte < 2 + 2 * ops.size(); ++byte) {
    EVERKERNEL_ASSERT(abi::packed_byte(args.data(), byte) ==
                      abi::packed_byte(packed->data(), byte));
  }
  EVERKERNEL_ASSERT(std::equal(args.begin() + static_cast<std::ptrdiff_t>(metadata),
                               args.begin() + static_cast<std::ptrdiff_t>(metadata + words),
                               packed->begin() + static_cast<std::ptrdiff_t>(metadata)));
}

// The same bytes as a list of operations: an opcode and an argument count each.
void check_pack(std::span<const std::byte> input) {
  static constexpr Word kArgs[256] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<PackedOp> ops;
  std::size_t words = 0;
  bool is_sound = true;
  for (std::size_t i = 0; i + 1 < input.size(); i += 2) {
    const auto opcode = std::to_integer<std::uint8_t>(input[i]);
    const auto count = std::to_integer<std::size_t>(input[i + 1]);
    ops.push_back({opcode, std::span(kArgs).first(count)});
    words += count;
    is_sound &= opcode != 7 && count >= operands_of(opcode);
  }
  const auto packed = protocol::pack(ops);
  const bool fits = (2 + 2 * ops.size() + 3) / 4 + words <= 12 && is_sound;
  EVERKERNEL_ASSERT(test::code_of(packed) ==
                    (fits ? std::nullopt : std::optional(Code::invalid_argument)));
  if (fits) EVERKERNEL_ASSERT(PackedView::parse(*packed).has_value());
}

void run(std::span<const std::byte> input) {
  PackedArgs args{};
  std::memcpy(args.data(), input.data(), std::min(input.size(), sizeof args));
  check_payload(args);
  check_pack(input);
}

}  // namespace
}  // namespace everkernel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  everkernel::fuzz::run(everkernel::fuzz::input_bytes(data, size));
  return 0;
}
