// Hot paths allocate nothing after their first call. A program of its own, because it replaces
// operator new for everything it links (support/allocation_counter.cpp).
#include <gtest/gtest.h>

#include <array>
#include <new>

#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/telemetry/decode.hpp"
#include "support/allocation_counter.hpp"
#include "support/wire_bytes.hpp"
#include "support/word_types.hpp"

namespace everkernel {
namespace {

using abi::Word;
using test::Bytes;
using test::SlotWords;

template <class Call>
std::size_t allocations_of(Call call) {
  const std::size_t before = test::allocation_count();
  call();
  return test::allocation_count() - before;
}

// Keeps the compiler from removing an allocation whose memory is not used.
void look_at(const void* block) {
  asm volatile("" : : "r"(block) : "memory");
}

// --- the counter itself -----------------------------------------------------------------------

TEST(AllocationCounter, sees_a_vector) {
  const auto make = [] {
    const std::vector<Word> words(1000);
    look_at(words.data());
  };
  EXPECT_EQ(allocations_of(make), 1u);
}

struct alignas(64) Line {
  char bytes[64];
};

TEST(AllocationCounter, sees_memory_aligned_to_a_line) {
  const auto make = [] {
    const std::vector<Line> lines(3);
    look_at(lines.data());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lines.data()) % 64, 0u);
  };
  EXPECT_EQ(allocations_of(make), 1u);
}

TEST(AllocationCounter, sees_every_form_of_operator_new) {
  constexpr std::align_val_t kLine{64};
  EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(8)); }), 1u);
  EXPECT_EQ(allocations_of([] { ::operator delete[](::operator new[](8)); }), 1u);
  EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(8, std::nothrow)); }), 1u);
  EXPECT_EQ(allocations_of([] { ::operator delete[](::operator new[](8, std::nothrow)); }), 1u);
  EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(8, kLine), kLine); }), 1u);
  EXPECT_EQ(allocations_of([] { ::operator delete[](::operator new[](8, kLine), kLine); }), 1u);
  EXPECT_EQ(
      allocations_of([] { ::operator delete(::operator new(8, kLine, std::nothrow), kLine); }), 1u);
  EXPECT_EQ(
      allocations_of([] { ::operator delete[](::operator new[](8, kLine, std::nothrow), kLine); }),
      1u);
}

TEST(AllocationCounter, sees_a_refused_publish_make_its_message) {
  test::Storage<protocol::PrivateWords> ring(64);
  auto writer = *protocol::RingWriter::bind(ring.span());
  EXPECT_GE(allocations_of([&] { (void)writer.publish({.slot_index = 9}); }), 1u);
}

// --- decode -----------------------------------------------------------------------------------

constexpr Word kOpcodes[] = {41, 40, 41};

// 300 slots, each a window of its own, some metrics, three observables.
struct Sample {
  explicit Sample(Word salt) {
    std::vector<SlotWords> slots;
    for (Word i = 0; i < 300; ++i) {
      slots.push_back({1 + (i + salt) % 7, 40 + i % 2, i % 29, 2, (i + salt) / 2 * 77, i % 3});
    }
    ring = test::ring_of(slots);
    for (std::size_t word = 96; word < 128; word += 2) test::set_word(control, word, salt + 1);
  }
  telemetry::DecodeRequest request() const {
    return {.control = control, .ring = ring, .window_opcodes = kOpcodes, .observables = true};
  }
  Bytes control = test::control_of({{3, 1}, {160, 5}}, 163);
  Bytes ring;
};

TEST(DecodeAllocations, the_second_decode_of_a_shape_has_none) {
  const Sample first(0);
  const Sample second(2);  // other bytes, same shape
  telemetry::DecodeScratch scratch;
  telemetry::RingTelemetry telemetry;
  EXPECT_GE(allocations_of([&] { (void)telemetry::decode(first.request(), scratch, telemetry); }),
            1u);
  EXPECT_EQ(telemetry.windows.size(), 300u);
  for (const Sample* const sample : {&second, &first, &second}) {
    EXPECT_EQ(
        allocations_of([&] { (void)telemetry::decode(sample->request(), scratch, telemetry); }),
        0u);
  }
  EXPECT_EQ(telemetry.control.metrics.size(), 16u);
  EXPECT_EQ(telemetry.control.observables.size(), 3u);
}

// The first snapshot of a supervisor is often taken before anything ran. Later snapshots must not
// allocate although more counters are non-zero: only the size of the buffers may matter.
TEST(DecodeAllocations, counters_that_leave_zero_cost_none) {
  const Bytes idle = test::control_of({{3, 1}});
  Bytes busy = idle;
  for (std::size_t word = 96; word < 128; ++word) test::set_word(busy, word, 1);
  telemetry::DecodeScratch scratch;
  telemetry::RingTelemetry telemetry;
  ASSERT_TRUE(telemetry::decode({.control = idle}, scratch, telemetry));
  EXPECT_EQ(allocations_of([&] { (void)telemetry::decode({.control = busy}, scratch, telemetry); }),
            0u);
  EXPECT_EQ(telemetry.control.metrics.size(), 32u);
}

TEST(DecodeAllocations, fewer_slots_windows_and_observables_cost_none) {
  const Sample sample(0);
  const auto request = sample.request();
  telemetry::DecodeScratch scratch;
  telemetry::RingTelemetry telemetry;
  ASSERT_TRUE(telemetry::decode(request, scratch, telemetry));
  auto smaller = request;
  smaller.ring = request.ring->first(64);
  smaller.control = request.control->first(640);
  EXPECT_EQ(allocations_of([&] { (void)telemetry::decode(smaller, scratch, telemetry); }), 0u);
  EXPECT_EQ(allocations_of([&] { (void)telemetry::decode(request, scratch, telemetry); }), 0u);
}

// --- publish ----------------------------------------------------------------------------------

template <class Words>
class PublishAllocations : public testing::Test {};
TYPED_TEST_SUITE(PublishAllocations, test::WordTypes, test::WordTypeNames);

TYPED_TEST(PublishAllocations, there_are_none_in_any_publish_not_even_the_first) {
  test::Storage<TypeParam> ring(16 * 64);
  auto writer = *protocol::BasicRingWriter<TypeParam>::bind(ring.span());
  static constexpr Word kArgs[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  static constexpr abi::WorkItem kItems[] = {{40, 1, 2, 3}, {41, 4, 5, 6}};
  const protocol::PackedOp ops[] = {{1, std::span(kArgs).first(2)}, {2, std::span(kArgs).first(3)}};
  const protocol::Operation batch[] = {{40, kArgs}, {41, {}}};
  for (const int lap : {1, 2}) {
    SCOPED_TRACE(lap);
    bool is_accepted = true;
    EXPECT_EQ(allocations_of([&] { is_accepted &= writer.publish({.args = kArgs}).has_value(); }),
              0u);
    EXPECT_EQ(allocations_of([&] {
                is_accepted &= writer.publish_items({.first_slot = 1, .items = kItems}).has_value();
              }),
              0u);
    EXPECT_EQ(allocations_of([&] {
                is_accepted &= writer.publish_packed({.slot_index = 3, .ops = ops}).has_value();
              }),
              0u);
    EXPECT_EQ(allocations_of([&] {
                is_accepted &=
                    writer.publish_batch({.first_slot = 4, .operations = batch}).has_value();
              }),
              0u);
    EXPECT_TRUE(is_accepted);
    for (std::size_t slot = 0; slot < 16; ++slot) test::set_word(ring.span(), slot * 16, 3);
  }
}

TYPED_TEST(PublishAllocations, there_are_none_in_reset_and_cancel) {
  test::Storage<TypeParam> ring(2 * 64);
  test::set_word(ring.span(), 0, 7);
  test::set_word(ring.span(), 16, 1);
  auto writer = *protocol::BasicRingWriter<TypeParam>::bind(ring.span());
  EXPECT_EQ(allocations_of([&] { EXPECT_TRUE(writer.reset(0)); }), 0u);
  EXPECT_EQ(allocations_of([&] { EXPECT_TRUE(writer.cancel(1)); }), 0u);
}

TEST(EncodeAllocations, a_fresh_ring_has_none) {
  Bytes ring(4 * 64);
  static constexpr abi::WorkItem kItems[] = {{40, 1, 2, 3}, {41, 4, 5, 6}};
  EXPECT_EQ(allocations_of([&] { (void)protocol::encode_items({.items = kItems}, ring); }), 0u);
  EXPECT_EQ(test::word_at(ring, 0), 1u);
}

}  // namespace
}  // namespace everkernel
