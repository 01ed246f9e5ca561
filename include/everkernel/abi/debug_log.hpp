// The debug log: a cursor, then fixed records that PRINTF appends.
#pragma once

#include "everkernel/abi/platform.hpp"

namespace everkernel::abi {

/// Word index of the cursor: words of records written so far.
inline constexpr Word kDebugCursor = 0;
/// Word index of the first record.
inline constexpr Word kDebugFirstRecord = 1;
/// Words in a record.
inline constexpr Word kDebugRecordWords = 4;
/// Most records a log may have.
inline constexpr Word kMaxDebugRecords = 1'048'576;

/// One PRINTF, as it lies in the log.
struct DebugRecord {
  Word fmt_id;   ///< number of the message, chosen by the handler
  Word args[3];  ///< a, b, and the word offset of the slot that printed (slot index × 16)

  /// Equal in all four words.
  EVERKERNEL_HOST_DEVICE friend constexpr bool operator==(const DebugRecord& x,
                                                          const DebugRecord& y) {
    return x.fmt_id == y.fmt_id && x.args[0] == y.args[0] && x.args[1] == y.args[1] &&
           x.args[2] == y.args[2];
  }
};

static_assert(sizeof(DebugRecord) == kDebugRecordWords * kWordBytes);
#if !defined(__CUDACC_RTC__)
static_assert(kIsWirePod<DebugRecord>);
static_assert(offsetof(DebugRecord, fmt_id) == 0 && offsetof(DebugRecord, args) == 4);
#endif

}  // namespace everkernel::abi
