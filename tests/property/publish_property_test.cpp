// Random calls on a ring, private and live, against a model of plain arrays.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>

#include "everkernel/protocol/ring_writer.hpp"
#include "property/generators.hpp"
#include "support/results.hpp"
#include "support/wire_bytes.hpp"
#include "support/word_types.hpp"

namespace everkernel::protocol {
namespace {

using test::code_of;
using test::SlotWords;

enum class Kind { publish, items, packed, batch, reset, cancel, worker };

// One call of any kind; each uses the fields it has.
struct Call {
  Kind kind;
  Word slot, tenant, priority, opcode, tag, status;
  std::vector<Word> args;     // of publish, of every packed operation and batch item
  std::vector<Word> opcodes;  // of items and batch
  Word ops;                   // of packed
};

std::ostream& operator<<(std::ostream& out, const Call& call) {
  constexpr const char* kNames[] = {"publish", "items",  "packed", "batch",
                                    "reset",   "cancel", "worker"};
  out << kNames[static_cast<std::size_t>(call.kind)] << "(slot " << call.slot << ", tenant "
      << call.tenant << ", priority " << call.priority << ", opcode " << call.opcode << ", status "
      << call.status << ", " << call.args.size() << " args, " << call.opcodes.size() << " items, "
      << call.ops << " ops)";
  return out;
}

rc::Gen<Word> opcode() {
  return rc::gen::weightedOneOf<Word>(
      {{12, rc::gen::inRange<Word>(0, 50)}, {1, test::edge_word()}});
}

rc::Gen<Call> random_call() {
  using rc::gen::set;
  return rc::gen::build<Call>(
      set(&Call::kind,
          rc::gen::map(rc::gen::inRange(0, 7), [](int k) { return static_cast<Kind>(k); })),
      set(&Call::slot, test::mostly_below(7)), set(&Call::tenant, test::mostly_below(30)),
      set(&Call::priority, rc::gen::weightedOneOf<Word>({{20, rc::gen::inRange<Word>(0, 5)},
                                                         {1, rc::gen::just<Word>(5)},
                                                         {1, test::edge_word()}})),
      set(&Call::opcode, opcode()), set(&Call::tag, test::edge_word()),
      set(&Call::status, test::slot_status()),
      set(&Call::args, rc::gen::mapcat(rc::gen::weightedOneOf<std::size_t>(
                                           {{8, rc::gen::inRange<std::size_t>(0, 4)},
                                            {2, rc::gen::inRange<std::size_t>(10, 15)}}),
                                       [](std::size_t count) { return test::words(count); })),
      set(&Call::opcodes, rc::gen::mapcat(rc::gen::inRange<std::size_t>(0, 5),
                                          [](std::size_t count) {
                                            return rc::gen::container<std::vector<Word>>(count,
                                                                                         opcode());
                                          })),
      set(&Call::ops, rc::gen::weightedOneOf<Word>({{6, rc::gen::inRange<Word>(0, 5)},
                                                    {1, rc::gen::inRange<Word>(22, 26)}})));
}

// --- the model: slots of sixteen words, rules as sentences ------------------------------------

using Model = std::vector<SlotWords>;

bool model_may_publish(Word opcode) {
  const bool is_builtin = opcode <= 7 || opcode == 0xFFFD || opcode == 0xFFFE ||
                          opcode == 0x80000001 || opcode == 0xFFFFFFFF;
  const bool is_free =
      (opcode >= 8 && opcode <= 0xFFEF) || (opcode >= 0x10000 && opcode <= 0x7FFFFFFF);
  return is_builtin || is_free;
}

// Words that the operation reads; a publisher must give at least these.
std::size_t model_operands(Word opcode) {
  constexpr std::size_t kLow[] = {0, 2, 2, 2, 3, 3, 4, 2};
  return opcode <= 7 ? kLow[opcode] : opcode == 0xFFFD ? 2 : opcode == 0xFFFE ? 3 : 0;
}

// Whether the arguments of a packed slot follow the rules of the wire format, read byte by byte.
bool model_payload_is_sound(const SlotWords& slot) {
  const auto byte = [&](std::size_t i) { return slot[4 + i / 4] >> (8 * (i % 4)) & 0xFF; };
  const std::size_t count = byte(0);
  const std::size_t total = byte(1);
  if ((2 + 2 * count + 3) / 4 + total > 12) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = i + 1 < count ? byte(5 + 2 * i) : total;
    if (byte(2 + 2 * i) == 7 || byte(3 + 2 * i) > end || end > total) return false;
  }
  return true;
}

// Stores these slots from `first` on; returns the error code if it cannot.
std::optional<Code> model_store(Model& ring, Word first, const std::vector<SlotWords>& slots) {
  if (std::uint64_t{first} + slots.size() > ring.size()) return Code::invalid_argument;
  for (const SlotWords& slot : slots) {
    if (!model_may_publish(slot[1]) || slot[2] > 28 || slot[3] > 4) return Code::invalid_argument;
    if (slot[1] == 0x80000001 && !model_payload_is_sound(slot)) return Code::invalid_argument;
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Word status = ring[first + i][0];
    if (status != 0 && status != 3) return Code::queue_full;
  }
  std::copy(slots.begin(), slots.end(), ring.begin() + first);
  return std::nullopt;
}

SlotWords model_slot(const Call& call, Word opcode, const std::vector<Word>& args) {
  SlotWords slot{1, opcode, call.tenant, call.priority};
  std::copy(args.begin(), args.end(), slot.begin() + 4);
  return slot;
}

// Bytes first, words last: the way the wire format describes a packed slot.
std::vector<Word> model_pack(const Call& call) {
  std::vector<std::uint8_t> bytes{static_cast<std::uint8_t>(call.ops),
                                  static_cast<std::uint8_t>(call.ops * call.args.size())};
  for (Word i = 0; i < call.ops; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(call.opcode));
    bytes.push_back(static_cast<std::uint8_t>(i * call.args.size()));
  }
  std::vector<Word> packed((bytes.size() + 3) / 4, 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) packed[i / 4] |= Word{bytes[i]} << (8 * (i % 4));
  for (Word i = 0; i < call.ops; ++i)
    packed.insert(packed.end(), call.args.begin(), call.args.end());
  return packed;
}

std::optional<Code> model_free(Model& ring, Word slot, std::initializer_list<Word> statuses) {
  if (slot >= ring.size()) return Code::invalid_argument;
  const bool may = std::find(statuses.begin(), statuses.end(), ring[slot][0]) != statuses.end();
  if (!may) return Code::invalid_argument;
  ring[slot][0] = 0;
  ring[slot][3] &= 0xFFFF;
  return std::nullopt;
}

// An empty window has no slot to carry its tenant and priority, so they are looked at alone.
bool has_sound_owner(const Call& call) {
  return call.tenant <= 28 && call.priority <= 4;
}

std::optional<Code> perform(Model& ring, const Call& call) {
  const bool has_room_for_args = call.args.size() <= 12;
  const auto lacks_args = [&](Word opcode) { return call.args.size() < model_operands(opcode); };
  std::vector<SlotWords> slots;
  switch (call.kind) {
    case Kind::publish:
      if (!has_room_for_args || lacks_args(call.opcode)) return Code::invalid_argument;
      return model_store(ring, call.slot, {model_slot(call, call.opcode, call.args)});
    case Kind::items:
      if (!has_sound_owner(call)) return Code::invalid_argument;
      for (const Word opcode : call.opcodes) {
        if (model_operands(opcode) > 3) return Code::invalid_argument;
        slots.push_back(model_slot(call, opcode, {call.tag, call.status, opcode}));
      }
      return model_store(ring, call.slot, slots);
    case Kind::packed: {
      const auto packed = model_pack(call);
      const bool has_fence = call.ops > 0 && call.opcode % 256 == 7;
      if (packed.size() > 12 || has_fence) return Code::invalid_argument;
      if (call.ops > 0 && lacks_args(call.opcode % 256)) return Code::invalid_argument;
      return model_store(ring, call.slot, {model_slot(call, 0x80000001, packed)});
    }
    case Kind::batch:
      if (!has_room_for_args && !call.opcodes.empty()) return Code::invalid_argument;
      if (std::ranges::any_of(call.opcodes, lacks_args)) return Code::invalid_argument;
      for (const Word opcode : call.opcodes) slots.push_back(model_slot(call, opcode, call.args));
      slots.push_back(model_slot(call, 7, {static_cast<Word>(call.opcodes.size()), call.tag}));
      return model_store(ring, call.slot, slots);
    case Kind::reset:
      return model_free(ring, call.slot, {7});
    case Kind::cancel:
      return model_free(ring, call.slot, {1, 4, 5, 6});
    case Kind::worker:
      break;
  }
  if (call.slot < ring.size()) ring[call.slot][0] = call.status;
  return std::nullopt;
}

// --- the writers under test -------------------------------------------------------------------

template <class Words>
std::optional<Code> perform(test::Storage<Words>& ring, const Call& call) {
  auto writer = *BasicRingWriter<Words>::bind(ring.span());
  std::vector<abi::WorkItem> items;
  std::vector<Operation> batch;
  for (const Word opcode : call.opcodes) {
    items.push_back({opcode, call.tag, call.status, opcode});
    batch.push_back({opcode, call.args});
  }
  switch (call.kind) {
    case Kind::publish:
      return code_of(
          writer.publish({call.slot, call.tenant, call.priority, call.opcode, call.args}));
    case Kind::items: {
      const auto count = writer.publish_items({call.slot, call.tenant, call.priority, items});
      if (count) RC_ASSERT(*count == items.size());
      return code_of(count);
    }
    case Kind::packed: {
      const std::vector<PackedOp> ops(call.ops,
                                      {static_cast<std::uint8_t>(call.opcode), call.args});
      return code_of(writer.publish_packed({call.slot, call.tenant, call.priority, ops}));
    }
    case Kind::batch: {
      const auto count =
          writer.publish_batch({call.slot, call.tenant, call.priority, call.tag, batch});
      if (count) RC_ASSERT(*count == batch.size() + 1);
      return code_of(count);
    }
    case Kind::reset:
      return code_of(writer.reset(call.slot));
    case Kind::cancel:
      return code_of(writer.cancel(call.slot));
    case Kind::worker:
      break;
  }
  if (call.slot < writer.slot_count()) test::set_word(ring.span(), call.slot * 16, call.status);
  return std::nullopt;
}

// Slots of any status whose other words are stale, faults with their code included.
Model random_ring() {
  const auto count = *rc::gen::weightedOneOf<std::size_t>(
      {{1, rc::gen::inRange<std::size_t>(0, 3)}, {5, rc::gen::inRange<std::size_t>(5, 10)}});
  const auto statuses = *rc::gen::container<std::vector<Word>>(count, test::slot_status());
  Model ring;
  for (const Word status : statuses) {
    SlotWords slot;
    slot.fill(0xAAAAAAAA);
    slot[0] = status;
    slot[3] = status == 7 ? 0x00050003 : 3;
    ring.push_back(slot);
  }
  return ring;
}

RC_GTEST_PROP(PublishProperty, every_call_does_what_the_model_does, ()) {
  Model model = random_ring();
  test::Storage<PrivateWords> private_ring(test::ring_of(model));
  test::Storage<LiveWords> live_ring(test::ring_of(model));
  const auto calls = *rc::gen::container<std::vector<Call>>(random_call());
  for (const Call& call : calls) {
    const std::optional<Code> expected = perform(model, call);
    RC_ASSERT(perform(private_ring, call) == expected);
    RC_ASSERT(perform(live_ring, call) == expected);
    // On a refusal the model has not changed, so equal bytes mean an unchanged ring.
    RC_ASSERT(test::words_of(private_ring.span()) == test::words_of(test::ring_of(model)));
    RC_ASSERT(test::words_of(live_ring.span()) == test::words_of(test::ring_of(model)));
  }
}

RC_GTEST_PROP(PublishProperty, one_call_into_any_ring_does_what_the_model_does, ()) {
  Model model = random_ring();
  test::Storage<PrivateWords> ring(test::ring_of(model));
  const Call call = *random_call();
  const std::optional<Code> expected = perform(model, call);
  RC_CLASSIFY(!expected.has_value(), "accepted");
  RC_CLASSIFY(expected == Code::invalid_argument, "invalid");
  RC_CLASSIFY(expected == Code::queue_full, "full");
  RC_ASSERT(perform(ring, call) == expected);
  RC_ASSERT(test::words_of(ring.span()) == test::words_of(test::ring_of(model)));
}

RC_GTEST_PROP(PublishProperty, encode_items_is_a_publish_into_an_empty_ring, ()) {
  Call call = *random_call();
  call.kind = Kind::items;
  const auto slots = *rc::gen::inRange<std::size_t>(1, 8);
  Model model(slots, SlotWords{});
  const std::optional<Code> expected = perform(model, call);
  std::vector<abi::WorkItem> items;
  for (const Word opcode : call.opcodes) items.push_back({opcode, call.tag, call.status, opcode});
  test::Bytes ring(slots * 64, std::byte{0xAA});
  const auto encoded = encode_items({call.slot, call.tenant, call.priority, items}, ring);
  RC_CLASSIFY(encoded.has_value());
  RC_ASSERT(code_of(encoded) == expected);
  RC_ASSERT(ring == (expected ? test::Bytes(slots * 64, std::byte{0xAA}) : test::ring_of(model)));
}

}  // namespace
}  // namespace everkernel::protocol
