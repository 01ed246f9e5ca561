// Makes, appends to and reads the debug log (abi/debug_log.hpp).
#pragma once

#include <cstddef>
#include <span>

#include "everkernel/abi/debug_log.hpp"
#include "everkernel/protocol/buffer.hpp"
#include "everkernel/protocol/words.hpp"

namespace everkernel::protocol {

/// Bytes of a log. Fails with `invalid_argument` above 1,048,576 records.
Result<std::size_t> debug_log_bytes(Word record_capacity);

/// Writes an empty log into `target`, which has exactly debug_log_bytes(record_capacity)
/// bytes. On an error (`invalid_argument`) the target is unchanged.
Result<void> encode_debug_log(Word record_capacity, std::span<std::byte> target);

/// A debug log, checked once and then read freely. A view: the bytes must outlive it.
class DebugLogView {
 public:
  /// Fails with `corrupt` when the bytes are not whole words, hold no cursor, or the cursor lies
  /// inside a record or past the last one. Words behind the last whole record are ignored.
  static Result<DebugLogView> parse(std::span<const std::byte> log);

  /// Records written.
  Word record_count() const { return record_count_; }
  /// Records the log has room for.
  Word record_capacity() const { return record_capacity_; }
  /// One record; `index` is below record_count().
  abi::DebugRecord record(Word index) const;

 private:
  DebugLogView(std::span<const std::byte> bytes, Word count, Word capacity)
      : bytes_(bytes), record_count_(count), record_capacity_(capacity) {}
  std::span<const std::byte> bytes_;
  Word record_count_;
  Word record_capacity_;
};

/// Appends records. On live memory any number of threads may append at one time; a reader then
/// finds a record complete once its writer has reported it (its slot is DONE).
template <class Words>
class BasicDebugLogWriter {
 public:
  /// Fails with `corrupt` when the bytes are not whole words or hold no cursor, and on live memory
  /// with `invalid_argument` when they are not aligned to a line.
  static Result<BasicDebugLogWriter> bind(std::span<std::byte> log);

  /// Appends a record. Returns false and changes nothing if the log is full or its cursor is
  /// invalid; the caller then counts DEBUG_DROPPED.
  bool append(const abi::DebugRecord& record);

 private:
  BasicDebugLogWriter(Words words, Word capacity_words)
      : words_(words), capacity_words_(capacity_words) {}
  Words words_;
  Word capacity_words_;
};

extern template class BasicDebugLogWriter<PrivateWords>;
extern template class BasicDebugLogWriter<LiveWords>;

/// Appends to a log that only the caller uses.
using DebugLogWriter = BasicDebugLogWriter<PrivateWords>;
/// Appends to a log that several threads share.
using LiveDebugLogWriter = BasicDebugLogWriter<LiveWords>;

}  // namespace everkernel::protocol
