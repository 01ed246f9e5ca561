// Random life cycles of IO requests, private and live, against a model of plain arrays.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <optional>

#include "everkernel/protocol/io_queue.hpp"
#include "property/generators.hpp"
#include "support/results.hpp"
#include "support/word_types.hpp"

namespace everkernel::protocol {
namespace {

using test::code_of;

using IoWords = std::array<Word, 8>;
using Model = std::vector<IoWords>;

rc::Gen<Word> io_status() {
  return rc::gen::weightedOneOf<Word>(
      {{8, rc::gen::element<Word>(0, 0, 0, 1, 2, 3, 0x10, 0x11)}, {1, test::edge_word()}});
}

// The result of a call: the slot of a request, or the error code.
struct Outcome {
  std::optional<Code> code;
  Word slot = 0;

  bool operator==(const Outcome&) const = default;
};

Outcome submit(Model& queue, const IoRequest& request) {
  const Word op = static_cast<Word>(request.op);
  if (op < 1 || op > 3) return {Code::invalid_argument};
  for (Word i = 0; i < queue.size(); ++i) {
    if (queue[i][6] != 0) continue;
    queue[i] = {op,
                request.src_handle,
                request.dst_handle,
                static_cast<Word>(request.offset & 0xFFFFFFFF),
                static_cast<Word>(request.offset >> 32),
                request.byte_count,
                1,
                request.tag};
    return {std::nullopt, i};
  }
  return {Code::queue_full};
}

Outcome complete(Model& queue, Word slot, Word error_number) {
  if (slot >= queue.size()) return {Code::invalid_argument};
  IoWords& words = queue[slot];
  if (words[6] != 1 && words[6] != 2) return {Code::invalid_argument};
  words[6] = error_number == 0 ? 0x10 : 0x11;
  if (error_number != 0) words[7] = error_number;
  return {};
}

Outcome release(Model& queue, Word slot) {
  if (slot >= queue.size()) return {Code::invalid_argument};
  Word& status = queue[slot][6];
  if (status != 3 && status != 0x10 && status != 0x11) return {Code::invalid_argument};
  status = 0;
  return {};
}

std::vector<Word> words_of(const Model& queue) {
  std::vector<Word> words;
  for (const IoWords& slot : queue) words.insert(words.end(), slot.begin(), slot.end());
  return words;
}

// One step of any kind on the model and on both queues.
void step(Model& model, test::Storage<PrivateWords>& private_queue,
          test::Storage<LiveWords>& live_queue) {
  auto private_writer = *IoQueueWriter::bind(private_queue.span());
  auto live_writer = *LiveIoQueueWriter::bind(live_queue.span());
  const int kind = *rc::gen::inRange(0, 3);
  const Word slot = *test::mostly_below(static_cast<Word>(model.size()) + 1);
  const auto expect = [](const auto& result, const Outcome& expected) {
    RC_ASSERT(code_of(result) == expected.code);
  };
  if (kind == 0) {
    const IoRequest request{.op = abi::IoOp{*rc::gen::weightedOneOf<Word>(
                                {{8, rc::gen::inRange<Word>(1, 4)}, {1, test::edge_word()}})},
                            .src_handle = *test::edge_word(),
                            .dst_handle = *test::edge_word(),
                            .offset = *rc::gen::arbitrary<std::uint64_t>(),
                            .byte_count = *test::edge_word(),
                            .tag = *test::edge_word()};
    const Outcome expected = submit(model, request);
    const auto first = private_writer.submit(request);
    const auto second = live_writer.submit(request);
    expect(first, expected);
    expect(second, expected);
    RC_ASSERT(first.value_or(0) == expected.slot);
    RC_ASSERT(second.value_or(0) == expected.slot);
  } else if (kind == 1) {
    const Word error_number = *rc::gen::oneOf(rc::gen::just<Word>(0), test::edge_word());
    const Outcome expected = complete(model, slot, error_number);
    expect(private_writer.complete(slot, error_number), expected);
    expect(live_writer.complete(slot, error_number), expected);
  } else {
    const Outcome expected = release(model, slot);
    expect(private_writer.release(slot), expected);
    expect(live_writer.release(slot), expected);
  }
}

RC_GTEST_PROP(IoQueueProperty, every_call_does_what_the_model_does, ()) {
  const auto slots = *rc::gen::weightedOneOf<std::size_t>(
      {{8, rc::gen::inRange<std::size_t>(1, 6)}, {1, rc::gen::element<std::size_t>(63, 64)}});
  Model model(slots);
  for (IoWords& slot : model) {
    slot.fill(0xAAAAAAAA);
    slot[6] = *io_status();
  }
  const test::Bytes start = test::bytes_of(words_of(model));
  test::Storage<PrivateWords> private_queue(start);
  test::Storage<LiveWords> live_queue(start);
  const int steps = *rc::gen::inRange(1, 12);
  for (int i = 0; i < steps; ++i) {
    step(model, private_queue, live_queue);
    RC_ASSERT(test::words_of(private_queue.span()) == words_of(model));
    RC_ASSERT(test::words_of(live_queue.span()) == words_of(model));
  }
}

RC_GTEST_PROP(IoQueueProperty, any_words_are_read_as_they_are, ()) {
  const auto slots = *rc::gen::inRange<std::size_t>(1, 9);
  const auto words = *test::words(slots * 8);
  const test::Bytes queue = test::bytes_of(words);
  const auto view = *IoQueueView::parse(queue);
  RC_ASSERT(view.slot_count() == slots);
  for (Word i = 0; i < slots; ++i) {
    const abi::IoSlot slot = view.slot(i);
    const std::vector<Word> found{static_cast<Word>(slot.op),
                                  slot.src_handle,
                                  slot.dst_handle,
                                  slot.offset_low,
                                  slot.offset_high,
                                  slot.byte_count,
                                  static_cast<Word>(slot.status),
                                  slot.tag};
    RC_ASSERT(found == std::vector<Word>(words.begin() + i * 8, words.begin() + i * 8 + 8));
    RC_ASSERT(slot.offset() == std::uint64_t{words[i * 8 + 4]} * 0x100000000 + words[i * 8 + 3]);
  }
}

}  // namespace
}  // namespace everkernel::protocol
