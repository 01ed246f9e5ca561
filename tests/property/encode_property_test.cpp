// Views read back the values that encoders write; an encoder that fails writes nothing.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/geometry.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "property/generators.hpp"
#include "support/bytes.hpp"
#include "support/results.hpp"

namespace everkernel::protocol {
namespace {

using abi::WorkItem;
using test::Bytes;
using test::code_of;
using test::words_of;

constexpr std::byte kStale{0xAA};

// The words a control buffer must have, by the table of the wire format.
std::vector<Word> control_model(bool shutdown, Word tenants, Word observables) {
  std::vector<Word> model(std::size_t{160} + observables, 0);
  model[0] = shutdown ? 1 : 0;
  model[2] = 3;
  for (Word tenant = 0; tenant < tenants; ++tenant) {
    model[3 + tenant] = 0xFFFFFFFF;
    model[32 + tenant] = 1'000'000;
  }
  return model;
}

RC_GTEST_PROP(EncodeProperty, control_is_the_model_or_is_refused, (bool shutdown)) {
  const Word tenants = *test::count_up_to(29);
  const Word observables = *test::count_up_to(1'048'576);
  const ControlLayout layout{shutdown, tenants, observables};
  const auto bytes = control_bytes(layout);
  const bool is_fine = tenants <= 29 && observables <= 1'048'576;
  RC_CLASSIFY(is_fine);
  RC_ASSERT(bytes.has_value() == is_fine);
  Bytes target(bytes.value_or(640), kStale);
  const auto encoded = encode_control(layout, target);
  if (!is_fine) {
    RC_ASSERT(code_of(bytes) == Code::invalid_argument);
    RC_ASSERT(code_of(encoded) == Code::invalid_argument);
    RC_ASSERT(std::ranges::count(target, kStale) == 640);
    return;
  }
  RC_ASSERT(encoded.has_value());
  RC_ASSERT(words_of(target) == control_model(shutdown, tenants, observables));

  const auto view = ControlView::parse(target);
  RC_ASSERT(view.has_value());
  RC_ASSERT(view->shutdown() == shutdown);
  RC_ASSERT(view->observable_count() == observables);
  const Word tenant = *test::mostly_below(32);
  RC_ASSERT(view->tenant_enabled(tenant) == (tenant < tenants));
}

RC_GTEST_PROP(EncodeProperty, control_takes_its_own_length_only, ()) {
  const ControlLayout layout{.observable_slots = *rc::gen::inRange<Word>(0, 40)};
  const auto length = *rc::gen::inRange<std::size_t>(0, 820);
  const std::size_t needed = (160 + layout.observable_slots) * 4;
  RC_PRE(length != needed);
  Bytes target(length, kStale);
  RC_ASSERT(code_of(encode_control(layout, target)) == Code::invalid_argument);
  RC_ASSERT(target == Bytes(length, kStale));
}

RC_GTEST_PROP(EncodeProperty, control_changes_are_read_back, ()) {
  Bytes control(640);
  RC_ASSERT(encode_control({.tenant_count = *rc::gen::inRange<Word>(0, 30)}, control).has_value());
  auto writer = *ControlWriter::bind(control);
  const Word tenant = *test::mostly_below(30);
  const bool enabled = *rc::gen::arbitrary<bool>();
  const Word quota = *test::edge_word();
  const Bytes before = control;
  const auto mask_set = writer.set_tenant_enabled(tenant, enabled);
  const auto quota_set = writer.set_tenant_quota(tenant, quota);
  RC_ASSERT(mask_set.has_value() == (tenant < 29));
  RC_ASSERT(quota_set.has_value() == (tenant < 29));
  if (tenant >= 29) {
    RC_ASSERT(control == before);
    return;
  }
  const auto view = *ControlView::parse(control);
  RC_ASSERT(view.tenant_enabled(tenant) == enabled);
  RC_ASSERT(view.tenant_quota(tenant) == quota);
}

RC_GTEST_PROP(EncodeProperty, priority_offsets_rise_and_differ_in_normal_only, ()) {
  const Word slots = *test::edge_word();
  const auto offsets = default_priority_offsets(slots);
  RC_ASSERT(offsets[0] == 0u);
  RC_ASSERT(offsets[5] == slots);
  for (const std::size_t priority : {0u, 1u, 3u, 4u}) {
    RC_ASSERT(offsets[priority + 1] - offsets[priority] == slots / 5);
  }
  RC_ASSERT(offsets[3] - offsets[2] == slots / 5 + slots % 5);
}

RC_GTEST_PROP(EncodeProperty, a_ring_is_zero_or_is_refused, ()) {
  const Word slots = *test::count_up_to(1'048'576);
  const auto bytes = ring_bytes(slots);
  const bool is_fine = slots >= 1 && slots <= 1'048'576;
  RC_CLASSIFY(is_fine);
  RC_ASSERT(bytes.has_value() == is_fine);
  if (!is_fine) {
    RC_ASSERT(code_of(bytes) == Code::invalid_argument);
    return;
  }
  RC_ASSERT(*bytes == std::size_t{slots} * 64);
  if (slots > 4096) return;  // larger rings would only take more memory
  Bytes target(*bytes, kStale);
  RC_ASSERT(encode_ring(slots, target).has_value());
  RC_ASSERT(target == Bytes(*bytes));
}

RC_GTEST_PROP(EncodeProperty, geometry_divides_or_is_refused, ()) {
  const Geometry geometry{*test::edge_word(), *test::mostly_below(9)};
  const auto groups = worker_groups_for_geometry(geometry);
  if (groups) {
    RC_ASSERT(*groups > 0u);
    RC_ASSERT(std::uint64_t{*groups} * geometry.workgroup_size == geometry.slot_count);
  } else {
    RC_ASSERT(code_of(groups) == Code::invalid_argument);
    const bool divides = geometry.slot_count != 0 && geometry.workgroup_size != 0 &&
                         geometry.slot_count % geometry.workgroup_size == 0;
    RC_ASSERT(!divides);
  }
}

// Free opcodes only: the refusals have a property of their own.
WorkItem item_of(const std::vector<Word>& words) {
  const Word opcode = words[0] % 0xFFF0;
  return {opcode == 6 ? 8 : opcode, words[1], words[2], words[3]};  // DFA_STEP takes 4 arguments
}

RC_GTEST_PROP(EncodeProperty, items_of_a_fresh_ring_are_read_back, ()) {
  const Word slots = *rc::gen::inRange<Word>(1, 20);
  const Word first = *rc::gen::inRange<Word>(0, slots + 1);
  const Word count = *rc::gen::inRange<Word>(0, slots - first + 1);
  std::vector<WorkItem> items;
  for (Word i = 0; i < count; ++i) items.push_back(item_of(*test::words(4)));
  const Word tenant = *rc::gen::inRange<Word>(0, 29);
  const Word priority = *rc::gen::inRange<Word>(0, 5);
  const ItemWindow window{first, tenant, priority, items};

  Bytes ring(std::size_t{slots} * 64, kStale);
  RC_ASSERT(encode_items(window, ring).has_value());
  const auto view = *RingView::parse(ring);
  for (Word i = 0; i < slots; ++i) {
    const abi::Slot slot = view.slot(i);
    const bool is_item = i >= first && i < first + count;
    const WorkItem item = is_item ? items[i - first] : WorkItem{};
    const WorkItem found{slot.opcode, slot.args[0], slot.args[1], slot.args[2]};
    RC_ASSERT(found == item);
    RC_ASSERT(static_cast<Word>(slot.status) == (is_item ? 1u : 0u));
    RC_ASSERT(slot.tenant == (is_item ? tenant : 0u));
    RC_ASSERT(slot.priority == (is_item ? priority : 0u));
    RC_ASSERT(std::all_of(slot.args + 3, slot.args + 12, [](Word word) { return word == 0; }));
  }

  // Publishing into an encoded ring gives the same bytes.
  Bytes published(ring.size(), kStale);
  RC_ASSERT(encode_ring(slots, published).has_value());
  RC_ASSERT(RingWriter::bind(published)->publish_items(window) == count);
  RC_ASSERT(words_of(published) == words_of(ring));
}

RC_GTEST_PROP(EncodeProperty, a_debug_log_keeps_what_fits, ()) {
  const Word capacity = *rc::gen::inRange<Word>(0, 12);
  const std::size_t rest = *rc::gen::inRange<std::size_t>(0, 4);  // words of no whole record
  Bytes log(*debug_log_bytes(capacity));
  RC_ASSERT(encode_debug_log(capacity, log).has_value());
  log.resize(log.size() + rest * 4);
  auto writer = *DebugLogWriter::bind(log);
  std::vector<abi::DebugRecord> kept;
  const Word attempts = *rc::gen::inRange<Word>(0, 16);
  for (Word i = 0; i < attempts; ++i) {
    const auto words = *test::words(4);
    const abi::DebugRecord record{words[0], {words[1], words[2], words[3]}};
    RC_ASSERT(writer.append(record) == (kept.size() < capacity));
    if (kept.size() < capacity) kept.push_back(record);
  }
  const auto view = DebugLogView::parse(log);
  RC_ASSERT(view.has_value());
  RC_ASSERT(view->record_capacity() == capacity);
  RC_ASSERT(view->record_count() == kept.size());
  for (Word i = 0; i < kept.size(); ++i) RC_ASSERT(view->record(i) == kept[i]);
}

RC_GTEST_PROP(EncodeProperty, debug_log_and_io_queue_sizes_hold_their_limits, ()) {
  const Word records = *test::count_up_to(1'048'576);
  const auto log = debug_log_bytes(records);
  RC_ASSERT(log.has_value() == (records <= 1'048'576));
  RC_ASSERT(log.value_or(0) == (log ? 4 + std::size_t{records} * 16 : 0));
  const Word slots = *test::count_up_to(64);
  const auto queue = io_queue_bytes(slots);
  RC_ASSERT(queue.has_value() == (slots >= 1 && slots <= 64));
  RC_ASSERT(queue.value_or(0) == (queue ? std::size_t{slots} * 32 : 0));
}

RC_GTEST_PROP(ParseProperty, any_length_is_a_view_or_corrupt, ()) {
  const auto length = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 200),
                                      rc::gen::inRange<std::size_t>(500, 700),
                                      rc::gen::element<std::size_t>(2016, 2047, 2048, 2049, 2080));
  const Bytes bytes(length);
  const auto expect = [&](const auto& result, bool is_fine) {
    RC_ASSERT(code_of(result) == (is_fine ? std::nullopt : std::optional(Code::corrupt)));
  };
  const bool is_words = length % 4 == 0;
  expect(read_done_count(bytes), is_words && length >= 8);
  expect(read_epoch(bytes), is_words && length >= 516);
  expect(read_metrics(bytes), is_words && length >= 512);
  expect(ControlView::parse(bytes), is_words && length >= 640);
  expect(RingView::parse(bytes), length % 64 == 0);
  expect(DebugLogView::parse(bytes), is_words && length >= 4);
  expect(IoQueueView::parse(bytes), length % 32 == 0 && length >= 32 && length <= 2048);
}

RC_GTEST_PROP(ParseProperty, any_cursor_is_a_view_or_corrupt, ()) {
  const auto words = *rc::gen::inRange<std::size_t>(1, 40);
  const Word cursor = *test::mostly_below(44);
  Bytes log(words * 4);
  test::set_word(log, 0, cursor);
  const auto view = DebugLogView::parse(log);
  const std::size_t capacity = (words - 1) / 4;
  const bool is_fine = cursor % 4 == 0 && cursor / 4 <= capacity;
  RC_CLASSIFY(is_fine);
  RC_ASSERT(code_of(view) == (is_fine ? std::nullopt : std::optional(Code::corrupt)));
  // An append goes where the view would read it, or changes nothing.
  const Bytes before = log;
  const bool has_room = is_fine && cursor / 4 < capacity;
  RC_ASSERT(DebugLogWriter::bind(log)->append({1, {2, 3, 4}}) == has_room);
  if (has_room) {
    RC_ASSERT(DebugLogView::parse(log)->record(cursor / 4) == (abi::DebugRecord{1, {2, 3, 4}}));
  } else {
    RC_ASSERT(log == before);
  }
}

}  // namespace
}  // namespace everkernel::protocol
