#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "everkernel/protocol/packed.hpp"
#include "property/generators.hpp"
#include "support/results.hpp"

namespace everkernel::protocol {
namespace {

using test::code_of;

struct Op {
  std::uint8_t opcode;
  std::vector<Word> args;
};

// Mostly few arguments: twelve words are soon full.
std::vector<Op> random_ops() {
  const auto count = *rc::gen::weightedOneOf<std::size_t>(
      {{4, rc::gen::inRange<std::size_t>(0, 5)}, {1, rc::gen::inRange<std::size_t>(20, 26)}});
  const std::size_t most = count < 5 ? 6 : 2;
  std::vector<Op> ops;
  for (std::size_t i = 0; i < count; ++i) {
    const auto args = *rc::gen::inRange<std::size_t>(0, most);
    ops.push_back({*rc::gen::arbitrary<std::uint8_t>(), *test::words(args)});
  }
  return ops;
}

RC_GTEST_PROP(PackedProperty, what_fits_is_read_back_and_the_rest_is_refused, ()) {
  const std::vector<Op> ops = random_ops();
  std::vector<PackedOp> views;
  for (const Op& op : ops) views.push_back({op.opcode, op.args});
  const std::size_t total =
      std::accumulate(ops.begin(), ops.end(), std::size_t{0},
                      [](std::size_t sum, const Op& op) { return sum + op.args.size(); });
  const bool is_sound = std::all_of(ops.begin(), ops.end(), [](const Op& op) {
    constexpr std::size_t kOperands[] = {0, 2, 2, 2, 3, 3, 4};  // of opcodes 0 to 6
    return op.opcode != 7 && (op.opcode > 7 || op.args.size() >= kOperands[op.opcode]);
  });
  const bool fits = (2 + 2 * ops.size() + 3) / 4 + total <= 12 && is_sound;
  RC_CLASSIFY(fits);

  const auto packed = pack(views);
  RC_ASSERT(code_of(packed) == (fits ? std::nullopt : std::optional(Code::invalid_argument)));
  if (!fits) return;
  const auto view = PackedView::parse(*packed);
  RC_ASSERT(view.has_value());
  RC_ASSERT(view->op_count() == ops.size());
  for (Word i = 0; i < ops.size(); ++i) {
    const PackedOp found = view->op(i);
    RC_ASSERT(found.opcode == ops[i].opcode);
    RC_ASSERT(std::vector<Word>(found.args.begin(), found.args.end()) == ops[i].args);
  }
}

// Reads a payload byte by byte, as the wire format describes it.
struct Payload {
  std::vector<std::uint8_t> bytes;

  bool is_sound() const {
    const std::size_t count = bytes[0];
    const std::size_t total = bytes[1];
    if ((2 + 2 * count + 3) / 4 + total > 12) return false;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t end = i + 1 < count ? bytes[5 + 2 * i] : total;
      if (bytes[2 + 2 * i] == 7 || bytes[3 + 2 * i] > end || end > total) return false;
    }
    return true;
  }
  PackedArgs args() const {
    PackedArgs args{};
    for (std::size_t i = 0; i < 48; ++i) args[i / 4] |= Word{bytes[i]} << (8 * (i % 4));
    return args;
  }
};

RC_GTEST_PROP(PackedProperty, any_payload_is_a_view_or_corrupt, ()) {
  Payload payload{*rc::gen::container<std::vector<std::uint8_t>>(
      48,
      rc::gen::oneOf(rc::gen::inRange<std::uint8_t>(0, 4), rc::gen::arbitrary<std::uint8_t>()))};
  payload.bytes[0] = *rc::gen::weightedElement<std::uint8_t>(
      {{3, 0}, {6, 1}, {6, 2}, {6, 3}, {2, 23}, {2, 24}, {1, 255}});
  payload.bytes[1] = *rc::gen::weightedElement<std::uint8_t>(
      {{2, 0}, {6, 3}, {6, 10}, {4, 11}, {1, 12}, {1, 255}});
  const auto view = PackedView::parse(payload.args());
  RC_CLASSIFY(payload.is_sound());
  RC_ASSERT(code_of(view) == (payload.is_sound() ? std::nullopt : std::optional(Code::corrupt)));
  if (!view) return;
  RC_ASSERT(view->op_count() == payload.bytes[0]);
  for (Word i = 0; i < view->op_count(); ++i) {
    const PackedOp op = view->op(i);
    RC_ASSERT(op.opcode == payload.bytes[2 + 2 * i]);
    RC_ASSERT(op.args.size() <= 11u);
    // Every argument lies in the payload, at the word its offset says.
    const std::size_t first = (2 + 2 * view->op_count() + 3) / 4 + payload.bytes[3 + 2 * i];
    for (std::size_t arg = 0; arg < op.args.size(); ++arg) {
      RC_ASSERT(op.args[arg] == payload.args()[first + arg]);
    }
  }
}

}  // namespace
}  // namespace everkernel::protocol
