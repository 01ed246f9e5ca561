// The debug log: a cursor that never passes the end, followed by records.
#include "everkernel/protocol/debug_log.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/base/assert.hpp"

namespace everkernel::protocol {
namespace {

using abi::DebugRecord;
using abi::kDebugRecordWords;

// Words of the whole records that fit a log of `size_bytes`. Fails if there is no word for the
// cursor.
Result<Word> capacity_words(std::size_t size_bytes) {
  const std::size_t words =
      EVERKERNEL_TRY(whole_units(Buffer::debug_log, size_bytes, abi::kWordBytes));
  if (words == 0) {
    return fail(Code::corrupt, "debug_log: word 0 (cursor) is missing: the buffer has 0 bytes",
                "an empty log has one word");
  }
  const std::size_t records =
      std::min<std::size_t>((words - 1) / kDebugRecordWords, abi::kMaxDebugRecords);
  return static_cast<Word>(records * kDebugRecordWords);
}

}  // namespace

Result<std::size_t> debug_log_bytes(Word record_capacity) {
  if (record_capacity > abi::kMaxDebugRecords) {
    return fail(Code::invalid_argument,
                fmt::format("debug_log: {} records are more than {}", record_capacity,
                            abi::kMaxDebugRecords),
                "make a smaller log; records that find it full are counted");
  }
  return (1 + std::size_t{record_capacity} * kDebugRecordWords) * abi::kWordBytes;
}

Result<void> encode_debug_log(Word record_capacity, std::span<std::byte> target) {
  const std::size_t needed = EVERKERNEL_TRY(debug_log_bytes(record_capacity));
  EVERKERNEL_TRY(check_target(Buffer::debug_log, target.size(), needed));
  std::ranges::fill(target, std::byte{0});
  return {};
}

Result<DebugLogView> DebugLogView::parse(std::span<const std::byte> log) {
  const Word capacity = EVERKERNEL_TRY(capacity_words(log.size()));
  Word cursor;
  std::memcpy(&cursor, log.data(), sizeof cursor);
  if (cursor > capacity) {
    return fail(
        Code::corrupt,
        fmt::format("debug_log: word 0 (cursor) is {}, past the {} record words of a log of "
                    "{} bytes",
                    cursor, capacity, log.size()));
  }
  if (cursor % kDebugRecordWords != 0) {
    return fail(
        Code::corrupt,
        fmt::format("debug_log: word 0 (cursor) is {}, inside a record of {} words (the log "
                    "has {} bytes)",
                    cursor, kDebugRecordWords, log.size()));
  }
  return DebugLogView(log, cursor / kDebugRecordWords, capacity / kDebugRecordWords);
}

DebugRecord DebugLogView::record(Word index) const {
  EVERKERNEL_ASSERT(index < record_count_);
  DebugRecord record;
  const std::size_t word = abi::kDebugFirstRecord + std::size_t{index} * kDebugRecordWords;
  std::memcpy(&record, bytes_.data() + word * abi::kWordBytes, sizeof record);
  return record;
}

template <class Words>
Result<BasicDebugLogWriter<Words>> BasicDebugLogWriter<Words>::bind(std::span<std::byte> log) {
  const Word capacity = EVERKERNEL_TRY(capacity_words(log.size()));
  const Words words = EVERKERNEL_TRY(Words::bind(Buffer::debug_log, log));
  return BasicDebugLogWriter(words, capacity);
}

template <class Words>
bool BasicDebugLogWriter<Words>::append(const DebugRecord& record) {
  // Compare-and-swap keeps the cursor inside the log at every moment; a fetch-and-add would pass
  // the end before it is undone. If a round fails, another thread has appended, so that there are
  // at most as many rounds as the log has records.
  Word cursor = words_.load_relaxed(abi::kDebugCursor);
  for (;;) {
    const bool is_sound = cursor % kDebugRecordWords == 0 && cursor <= capacity_words_;
    if (!is_sound || cursor == capacity_words_) return false;
    if (words_.claim(abi::kDebugCursor, cursor, cursor + kDebugRecordWords)) break;
    cursor = words_.load_relaxed(abi::kDebugCursor);
  }
  const std::size_t first = std::size_t{abi::kDebugFirstRecord} + cursor;
  words_.store_relaxed(first, record.fmt_id);
  for (std::size_t i = 0; i < 3; ++i) words_.store_relaxed(first + 1 + i, record.args[i]);
  return true;
}

template class BasicDebugLogWriter<PrivateWords>;
template class BasicDebugLogWriter<LiveWords>;

}  // namespace everkernel::protocol
