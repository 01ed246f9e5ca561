// IO slots: claimed by compare-and-swap, filled, published, completed, released.
#include "everkernel/protocol/io_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "everkernel/base/assert.hpp"

namespace everkernel::protocol {
namespace {

using abi::IoSlot;
using abi::IoStatus;

std::size_t status_word(Word slot_index) {
  return std::size_t{slot_index} * abi::kIoSlotWords + abi::kIoStatusWord;
}

Failure wrong_status(Word slot_index, IoStatus found, std::string_view wanted) {
  return fail(Code::invalid_argument,
              fmt::format("io_queue: slot {}: its status (word {}) is {} ({}), not {}", slot_index,
                          status_word(slot_index), abi::io_status_name(found),
                          static_cast<Word>(found), wanted));
}

}  // namespace

Result<std::size_t> io_queue_bytes(Word slot_count) {
  if (slot_count >= 1 && slot_count <= abi::kMaxIoSlots) {
    return std::size_t{slot_count} * abi::kIoSlotBytes;
  }
  return fail(
      Code::invalid_argument,
      fmt::format("io_queue: {} slots, an IO queue has 1..{}", slot_count, abi::kMaxIoSlots),
      "choose a count in this range; items that find no free IO slot wait for one");
}

Result<void> encode_io_queue(Word slot_count, std::span<std::byte> target) {
  const std::size_t needed = EVERKERNEL_TRY(io_queue_bytes(slot_count));
  EVERKERNEL_TRY(check_target(Buffer::io_queue, target.size(), needed));
  std::ranges::fill(target, std::byte{0});
  return {};
}

Result<IoQueueView> IoQueueView::parse(std::span<const std::byte> queue) {
  const std::size_t slots =
      EVERKERNEL_TRY(whole_units(Buffer::io_queue, queue.size(), abi::kIoSlotBytes));
  if (slots == 0 || slots > abi::kMaxIoSlots) {
    return fail(Code::corrupt, fmt::format("io_queue: {} slots ({} bytes), an IO queue has 1..{}",
                                           slots, queue.size(), abi::kMaxIoSlots));
  }
  return IoQueueView(queue, static_cast<Word>(slots));
}

IoSlot IoQueueView::slot(Word slot_index) const {
  EVERKERNEL_ASSERT(slot_index < slot_count_);
  IoSlot slot;
  std::memcpy(&slot, bytes_.data() + std::size_t{slot_index} * abi::kIoSlotBytes, sizeof slot);
  return slot;
}

template <class Words>
Result<BasicIoQueueWriter<Words>> BasicIoQueueWriter<Words>::bind(std::span<std::byte> queue) {
  const IoQueueView view = EVERKERNEL_TRY(IoQueueView::parse(queue));
  const Words words = EVERKERNEL_TRY(Words::bind(Buffer::io_queue, queue));
  return BasicIoQueueWriter(words, view.slot_count());
}

template <class Words>
Result<Word> BasicIoQueueWriter<Words>::submit(const IoRequest& request) {
  if (request.op != abi::IoOp::read && request.op != abi::IoOp::write &&
      request.op != abi::IoOp::fence) {
    return fail(Code::invalid_argument,
                fmt::format("io_queue: {} is not an IO operation", static_cast<Word>(request.op)),
                "operations are read (1), write (2) and fence (3)");
  }
  for (Word slot = 0; slot < slot_count_; ++slot) {
    // CLAIMED keeps other requesters away while the words are filled; PUBLISHED, stored with
    // release, makes them visible to the IO service.
    if (!words_.claim(status_word(slot), static_cast<Word>(IoStatus::empty),
                      static_cast<Word>(IoStatus::claimed))) {
      continue;
    }
    const std::size_t first = std::size_t{slot} * abi::kIoSlotWords;
    words_.store_relaxed(first, static_cast<Word>(request.op));
    words_.store_relaxed(first + 1, request.src_handle);
    words_.store_relaxed(first + 2, request.dst_handle);
    words_.store_relaxed(first + 3, static_cast<Word>(request.offset));
    words_.store_relaxed(first + 4, static_cast<Word>(request.offset >> 32));
    words_.store_relaxed(first + 5, request.byte_count);
    words_.store_relaxed(first + abi::kIoTagWord, request.tag);
    words_.store_release(status_word(slot), static_cast<Word>(IoStatus::published));
    return slot;
  }
  return fail(Code::queue_full, fmt::format("io_queue: none of the {} slots is empty", slot_count_),
              "complete and release requests, or make a longer queue");
}

template <class Words>
Result<IoStatus> BasicIoQueueWriter<Words>::status(Word slot_index) const {
  if (slot_index < slot_count_) return IoStatus{words_.load_acquire(status_word(slot_index))};
  return fail(Code::invalid_argument,
              fmt::format("io_queue: slot {} does not exist: the queue has {} slots ({} bytes)",
                          slot_index, slot_count_, slot_count_ * abi::kIoSlotBytes));
}

template <class Words>
Result<void> BasicIoQueueWriter<Words>::complete(Word slot_index, Word error_number) {
  const IoStatus found = EVERKERNEL_TRY(status(slot_index));
  if (found != IoStatus::published && found != IoStatus::claimed) {
    return wrong_status(slot_index, found, "published or claimed");
  }
  if (error_number != 0) {
    words_.store_relaxed(std::size_t{slot_index} * abi::kIoSlotWords + abi::kIoTagWord,
                         error_number);
  }
  words_.store_release(status_word(slot_index),
                       static_cast<Word>(error_number == 0 ? IoStatus::ok : IoStatus::error));
  return {};
}

template <class Words>
Result<void> BasicIoQueueWriter<Words>::release(Word slot_index) {
  const IoStatus found = EVERKERNEL_TRY(status(slot_index));
  if (!abi::is_complete(found)) return wrong_status(slot_index, found, "ok, error or done");
  words_.store_release(status_word(slot_index), static_cast<Word>(IoStatus::empty));
  return {};
}

template class BasicIoQueueWriter<PrivateWords>;
template class BasicIoQueueWriter<LiveWords>;

}  // namespace everkernel::protocol
