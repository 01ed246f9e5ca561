// The IO queue: requests that items make and the host's IO service answers.
#pragma once

#include "everkernel/abi/platform.hpp"

namespace everkernel::abi {

/// Words in an IO slot.
inline constexpr Word kIoSlotWords = 8;
/// Bytes in an IO slot.
inline constexpr Word kIoSlotBytes = kIoSlotWords * kWordBytes;
/// Most IO slots a queue may have.
inline constexpr Word kMaxIoSlots = 64;
/// Word index of the status inside an IO slot.
inline constexpr Word kIoStatusWord = 6;
/// Word index of the tag inside an IO slot.
inline constexpr Word kIoTagWord = 7;
/// Argument of a waiting item that holds its IO slot index.
inline constexpr Word kIoSlotArg = 11;

/// The operation of an IO request.
enum class IoOp : Word {
  read = 1,   ///< source file → destination buffer
  write = 2,  ///< source buffer → destination file
  fence = 3,  ///< completes after every request published before it
};

/// The operation in snake case, `unknown` for any other value.
EVERKERNEL_HOST_DEVICE constexpr const char* io_op_name(IoOp op) {
  switch (op) {
    case IoOp::read:
      return "read";
    case IoOp::write:
      return "write";
    case IoOp::fence:
      return "fence";
  }
  return "unknown";
}

/// The state of an IO slot.
enum class IoStatus : Word {
  empty = 0,      ///< free
  published = 1,  ///< filled, the IO service has not claimed it
  claimed = 2,    ///< a worker fills it, or the IO service works on it
  done = 3,       ///< complete (older writers; read as ok)
  ok = 0x10,      ///< complete
  error = 0x11,   ///< failed; the tag word holds the errno
};

/// The status in snake case, `unknown` for any other value.
EVERKERNEL_HOST_DEVICE constexpr const char* io_status_name(IoStatus status) {
  switch (status) {
    case IoStatus::empty:
      return "empty";
    case IoStatus::published:
      return "published";
    case IoStatus::claimed:
      return "claimed";
    case IoStatus::done:
      return "done";
    case IoStatus::ok:
      return "ok";
    case IoStatus::error:
      return "error";
  }
  return "unknown";
}

/// Whether the IO service has completed the request.
EVERKERNEL_HOST_DEVICE constexpr bool is_complete(IoStatus status) {
  return status == IoStatus::done || status == IoStatus::ok || status == IoStatus::error;
}

/// One IO request, as it lies in the queue.
struct IoSlot {
  IoOp op;           ///< the operation
  Word src_handle;   ///< capability to read from
  Word dst_handle;   ///< capability to write to
  Word offset_low;   ///< byte offset, low half
  Word offset_high;  ///< byte offset, high half
  Word byte_count;   ///< bytes; 0 = the capability's whole range
  IoStatus status;   ///< who owns the slot: requester or IO service
  Word tag;          ///< chosen by the requester; the errno after an error

  /// The byte offset.
  EVERKERNEL_HOST_DEVICE constexpr unsigned long long offset() const {
    return (static_cast<unsigned long long>(offset_high) << 32) | offset_low;
  }
};

static_assert(sizeof(IoSlot) == kIoSlotBytes && alignof(IoSlot) == kWordBytes);
#if !defined(__CUDACC_RTC__)
static_assert(kIsWirePod<IoSlot>);
static_assert(offsetof(IoSlot, op) == 0 && offsetof(IoSlot, src_handle) == 4 &&
              offsetof(IoSlot, dst_handle) == 8 && offsetof(IoSlot, offset_low) == 12 &&
              offsetof(IoSlot, offset_high) == 16 && offsetof(IoSlot, byte_count) == 20 &&
              offsetof(IoSlot, status) == kIoStatusWord * kWordBytes &&
              offsetof(IoSlot, tag) == kIoTagWord * kWordBytes);
#endif

}  // namespace everkernel::abi
