// Makes, fills and reads the IO queue (abi/io_queue.hpp).
//
// A worker submits a request, the IO service completes it, and the worker releases the slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "everkernel/abi/io_queue.hpp"
#include "everkernel/protocol/buffer.hpp"
#include "everkernel/protocol/words.hpp"

namespace everkernel::protocol {

/// Bytes of a queue. Fails with `invalid_argument` outside 1..64 slots.
Result<std::size_t> io_queue_bytes(Word slot_count);

/// Writes an empty queue into `target`, which has exactly io_queue_bytes(slot_count) bytes. On
/// an error (`invalid_argument`) the target is unchanged.
Result<void> encode_io_queue(Word slot_count, std::span<std::byte> target);

/// An IO queue, checked once and then read freely. A view: the bytes must outlive it. Any operation
/// and status may be found in it.
class IoQueueView {
 public:
  /// Fails with `corrupt` when the bytes are not whole IO slots, or not 1..64 of them.
  static Result<IoQueueView> parse(std::span<const std::byte> queue);

  /// Number of IO slots.
  Word slot_count() const { return slot_count_; }
  /// A copy of one IO slot; `slot_index` is below slot_count().
  abi::IoSlot slot(Word slot_index) const;

 private:
  IoQueueView(std::span<const std::byte> bytes, Word slot_count)
      : bytes_(bytes), slot_count_(slot_count) {}
  std::span<const std::byte> bytes_;
  Word slot_count_;
};

/// A request of an item to the IO service.
struct IoRequest {
  abi::IoOp op = abi::IoOp::read;  ///< the operation
  Word src_handle = 0;             ///< capability to read from
  Word dst_handle = 0;             ///< capability to write to
  std::uint64_t offset = 0;        ///< bytes into the file
  Word byte_count = 0;             ///< 0 = the capability's whole range
  Word tag = 0;                    ///< chosen by the requester
};

/// Writes an IO queue, as the requester and as the IO service. On live memory any number of threads
/// may submit at one time.
template <class Words>
class BasicIoQueueWriter {
 public:
  /// Fails with `corrupt` when the bytes are not 1..64 whole IO slots, and on live memory with
  /// `invalid_argument` when they are not aligned to a line.
  static Result<BasicIoQueueWriter> bind(std::span<std::byte> queue);

  /// Takes an EMPTY slot, fills it and publishes it; gives its index. Fails with `invalid_argument`
  /// for an unknown operation and with `queue_full` when no slot is EMPTY.
  Result<Word> submit(const IoRequest& request);
  /// Completes a request as the IO service: OK if `error_number` is 0, else ERROR with that number
  /// in the tag word. Fails with `invalid_argument` unless the slot is PUBLISHED or CLAIMED.
  Result<void> complete(Word slot_index, Word error_number);
  /// Frees a slot as the requester. Fails with `invalid_argument` unless the request is complete.
  Result<void> release(Word slot_index);

 private:
  BasicIoQueueWriter(Words words, Word slot_count) : words_(words), slot_count_(slot_count) {}
  Result<abi::IoStatus> status(Word slot_index) const;
  Words words_;
  Word slot_count_;
};

extern template class BasicIoQueueWriter<PrivateWords>;
extern template class BasicIoQueueWriter<LiveWords>;

/// An IO queue that only the caller uses.
using IoQueueWriter = BasicIoQueueWriter<PrivateWords>;
/// An IO queue that workers and the IO service share.
using LiveIoQueueWriter = BasicIoQueueWriter<LiveWords>;

}  // namespace everkernel::protocol
