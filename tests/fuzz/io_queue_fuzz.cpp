// Any bytes as an IO queue: slots are read as they are, and each call changes only the words it
// may.
#include <algorithm>

#include "everkernel/protocol/io_queue.hpp"
#include "fuzz.hpp"

namespace everkernel::fuzz {
namespace {

using abi::IoStatus;
using abi::Word;
using protocol::IoQueueView;
using protocol::IoQueueWriter;

void check_slots(const IoQueueView& view, std::span<const std::byte> input) {
  EVERKERNEL_ASSERT(view.slot_count() >= 1 && view.slot_count() <= 64);
  test::Bytes rebuilt;
  for (Word i = 0; i < view.slot_count(); ++i) {
    const abi::IoSlot slot = view.slot(i);
    const auto bytes = std::as_bytes(std::span(&slot, 1));
    rebuilt.insert(rebuilt.end(), bytes.begin(), bytes.end());
    EVERKERNEL_ASSERT(slot.offset() >> 32 == slot.offset_high);
  }
  EVERKERNEL_ASSERT(std::ranges::equal(rebuilt, input));
}

// Serves and frees every slot that it can, then submits until the queue is full.
void check_life_cycle(const IoQueueView& view, std::span<const std::byte> input) {
  test::Bytes copy(input.begin(), input.end());
  auto writer = *IoQueueWriter::bind(copy);
  Word free = 0;
  for (Word i = 0; i < view.slot_count(); ++i) {
    const IoStatus status = view.slot(i).status;
    const bool waits = status == IoStatus::published || status == IoStatus::claimed;
    EVERKERNEL_ASSERT(writer.complete(i, i % 2).has_value() == waits);
    EVERKERNEL_ASSERT(writer.release(i).has_value() == (waits || abi::is_complete(status)));
    const bool is_empty = IoQueueView::parse(copy)->slot(i).status == IoStatus::empty;
    EVERKERNEL_ASSERT(is_empty == (waits || abi::is_complete(status) || status == IoStatus::empty));
    if (is_empty) ++free;
  }
  for (Word i = 0; i < free; ++i) {
    const auto slot = writer.submit({.offset = 0x123456789ull, .tag = i});
    EVERKERNEL_ASSERT(slot.has_value());
    const abi::IoSlot written = IoQueueView::parse(copy)->slot(*slot);
    EVERKERNEL_ASSERT(written.status == IoStatus::published && written.tag == i);
    EVERKERNEL_ASSERT(written.offset() == 0x123456789ull);
  }
  EVERKERNEL_ASSERT(test::code_of(writer.submit({})) == Code::queue_full);
}

void run(std::span<const std::byte> input) {
  const bool is_sound = input.size() % 32 == 0 && input.size() >= 32 && input.size() <= 2048;
  const auto view = IoQueueView::parse(input);
  if (!check_accepted(view, is_sound)) return;
  check_slots(*view, input);
  check_life_cycle(*view, input);
}

}  // namespace
}  // namespace everkernel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  everkernel::fuzz::run(everkernel::fuzz::input_bytes(data, size));
  return 0;
}
