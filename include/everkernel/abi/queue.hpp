// A live queue, by which producers feed a kernel that stays: header, lines, entries, outcomes.
//
// A queue is two files of shared memory. The producer writes the producer file: its line and the
// entries. The kernel side writes the kernel file: a header, its lines, the outcomes and the fault
// codes. Ticket t lies at place t modulo the capacity. Each entry and each outcome carries the lap
// bit of its ticket, which says that it is new: nothing is ever cleared.
// protocol/queue_entry.hpp reads and writes entries, live/ makes and uses the files.
#pragma once

#include "everkernel/abi/slot.hpp"

namespace everkernel::abi {

/// A 64-bit word of a queue: a ticket, a count of tickets, an offset or a length.
using LongWord = unsigned long long;
static_assert(sizeof(LongWord) == 8);

/// First word of a header: "EKQ1" as bytes.
inline constexpr Word kQueueMagic = 0x31514B45u;
/// Version of the format.
inline constexpr Word kQueueVersion = 1;
/// Fewest entries of a queue.
inline constexpr Word kMinQueueCapacity = 2;
/// Most entries of a queue.
inline constexpr Word kMaxQueueCapacity = Word{1} << 20;
/// Bytes of a line: words of different writers never share one.
inline constexpr Word kLineBytes = 64;
/// Bytes that are stored and loaded as one.
inline constexpr Word kQuadBytes = 16;

/// The form of a queue's entries; the value is its length in bytes.
enum class EntryFormat : Word {
  compact = 16,  ///< a WorkItem: opcode and three arguments
  full = 64,     ///< a slot: any opcode and twelve arguments
};

/// Where a queue is in its life.
enum class QueueState : Word {
  open = 1,      ///< takes tickets
  draining = 2,  ///< refuses new tickets; those that are there end
  closed = 3,    ///< every ticket without an outcome never ran
  lost = 4,      ///< its kernel was lost; another may take it over
};

/// How a ticket ended.
enum class OutcomeCode : Word {
  none = 0,       ///< it has not ended
  done = 1,       ///< it ran to its end
  fault = 2,      ///< it ended with a fault code
  cancelled = 3,  ///< it never ran
};

/// Whether a queue may have this capacity: a power of two within the limits.
EVERKERNEL_HOST_DEVICE constexpr bool is_queue_capacity(Word capacity) {
  return capacity >= kMinQueueCapacity && capacity <= kMaxQueueCapacity &&
         (capacity & (capacity - 1)) == 0;
}

/// Whether a queue may begin with this ticket: first tickets begin an even lap, so that zeroed
/// memory holds no valid entry.
EVERKERNEL_HOST_DEVICE constexpr bool is_first_ticket(LongWord ticket, Word capacity) {
  return (ticket & (LongWord{2} * capacity - 1)) == 0;
}

/// The place of a ticket.
EVERKERNEL_HOST_DEVICE constexpr Word place_of(LongWord ticket, Word capacity) {
  return static_cast<Word>(ticket) & (capacity - 1);
}

/// The lap bit of a ticket: 1 in even laps, 0 in odd ones.
EVERKERNEL_HOST_DEVICE constexpr Word lap_bit(LongWord ticket, Word capacity) {
  return (ticket & capacity) == 0 ? 1u : 0u;
}

// ---- entries ----

/// Four words that are stored and loaded as one. Bit 31 of the first word is the lap bit.
struct alignas(kQuadBytes) Quad {
  Word words[4];  ///< in the order of memory
};

/// Quads of a full entry.
inline constexpr Word kFullQuads = kSlotBytes / kQuadBytes;

/// A full entry as it lies in a queue.
struct alignas(kSlotBytes) FullEntry {
  Quad quads[kFullQuads];  ///< each says by itself that it is new
};

/// The bit of a word that holds the lap bit.
inline constexpr Word kLapMask = 0x80000000u;
/// Lowest bit of a full entry's word 3 that holds a displaced bit of the words 4, 8 and 12.
inline constexpr Word kDisplacedBits = 16;
/// Bits of a full entry's word 3 that have a meaning.
inline constexpr Word kFullPriorityMask = (Word{1} << (kDisplacedBits + kFullQuads - 1)) - 1;

/// Whether a quad is of the lap with this bit.
EVERKERNEL_HOST_DEVICE constexpr bool is_of_lap(const Quad& quad, Word lap) {
  return quad.words[0] >> 31 == lap;
}

/// Whether an opcode fits a compact entry: the high bit of its word is the lap bit.
EVERKERNEL_HOST_DEVICE constexpr bool fits_compact(Word opcode) {
  return (opcode & kLapMask) == 0;
}

/// The compact entry of an item whose opcode fits.
EVERKERNEL_HOST_DEVICE constexpr Quad compact_entry(const WorkItem& item, Word lap) {
  return {{item.op_handle | lap << 31, item.input_handle, item.output_handle, item.param}};
}

/// The item of a compact entry.
EVERKERNEL_HOST_DEVICE constexpr WorkItem item_of(const Quad& entry) {
  return {entry.words[0] & ~kLapMask, entry.words[1], entry.words[2], entry.words[3]};
}

/// The first quad of a full entry: PUBLISHED with the lap bit, then the slot's opcode, tenant and
/// priority. The top bits of the words 4, 8 and 12 move into the priority word, because the lap bit
/// takes their place: all arguments keep all their bits.
EVERKERNEL_HOST_DEVICE constexpr Quad full_head(const Slot& slot, Word lap) {
  Word displaced = 0;
  for (Word i = 1; i < kFullQuads; ++i) {
    displaced |= (slot.args[4 * (i - 1)] >> 31) << (kDisplacedBits + i - 1);
  }
  return {{static_cast<Word>(SlotStatus::published) | lap << 31, slot.opcode, slot.tenant,
           priority_of(slot.priority) | displaced}};
}

/// Quad 1, 2 or 3 of a full entry.
EVERKERNEL_HOST_DEVICE constexpr Quad full_args(const Slot& slot, Word index, Word lap) {
  const Word* const args = slot.args + 4 * (index - 1);
  return {{(args[0] & ~kLapMask) | lap << 31, args[1], args[2], args[3]}};
}

/// The full entry of a slot. Its status counts as PUBLISHED, and its fault code is left out.
EVERKERNEL_HOST_DEVICE constexpr FullEntry full_entry(const Slot& slot, Word lap) {
  return {{full_head(slot, lap), full_args(slot, 1, lap), full_args(slot, 2, lap),
           full_args(slot, 3, lap)}};
}

/// Whether all quads of a full entry are of the lap with this bit, and its words are as
/// full_entry() writes them.
EVERKERNEL_HOST_DEVICE constexpr bool is_valid(const FullEntry& entry, Word lap) {
  for (const Quad& quad : entry.quads) {
    if (!is_of_lap(quad, lap)) return false;
  }
  return (entry.quads[0].words[0] & ~kLapMask) == static_cast<Word>(SlotStatus::published) &&
         (entry.quads[0].words[3] & ~kFullPriorityMask) == 0;
}

/// The slot of a full entry that is valid. Tenant and priority are what the producer wrote, which
/// nobody believes.
EVERKERNEL_HOST_DEVICE constexpr Slot slot_of(const FullEntry& entry) {
  const Word* const head = entry.quads[0].words;
  Slot slot{SlotStatus::published, head[1], head[2], priority_of(head[3]), {}};
  for (Word i = 1; i < kFullQuads; ++i) {
    const Word* const words = entry.quads[i].words;
    Word* const args = slot.args + 4 * (i - 1);
    args[0] = (words[0] & ~kLapMask) | (head[3] >> (kDisplacedBits + i - 1)) << 31;
    args[1] = words[1];
    args[2] = words[2];
    args[3] = words[3];
  }
  return slot;
}

// ---- outcomes ----

/// The outcome byte of a ticket.
EVERKERNEL_HOST_DEVICE constexpr unsigned char outcome_byte(OutcomeCode code, Word lap) {
  return static_cast<unsigned char>(static_cast<Word>(code) | lap << 7);
}

/// How the ticket with this lap bit ended, by an outcome byte; `none` if the byte is of another
/// lap.
EVERKERNEL_HOST_DEVICE constexpr OutcomeCode outcome_of(unsigned char byte, Word lap) {
  return Word{byte} >> 7 == lap ? OutcomeCode{byte & 0x7Fu} : OutcomeCode::none;
}

/// The fault word of a ticket.
EVERKERNEL_HOST_DEVICE constexpr Word fault_word(Word fault_code, Word lap) {
  return (fault_code & ~kLapMask) | lap << 31;
}

/// The completion of a ticket in a queue with results: {outcome, fault code and lap bit, results}.
EVERKERNEL_HOST_DEVICE constexpr Quad completion(OutcomeCode code, Word fault_code, Word lap,
                                                 const Word* results) {
  return {{static_cast<Word>(code) | (fault_code & 0xFFFFu) << 8 | lap << 31, results[0],
           results[1], results[2]}};
}

/// How the ticket with this lap bit ended, by the first word of a completion.
EVERKERNEL_HOST_DEVICE constexpr OutcomeCode outcome_of_completion(Word word, Word lap) {
  return word >> 31 == lap ? OutcomeCode{word & 0xFFu} : OutcomeCode::none;
}

/// The fault code of a completion, by its first word.
EVERKERNEL_HOST_DEVICE constexpr Word fault_code_of_completion(Word word) {
  return word >> 8 & 0xFFFFu;
}

/// Argument of an item that is the first of its three results.
inline constexpr Word kFirstResultArg = 9;

// ---- memory ----

/// The line that the producer writes.
struct alignas(kLineBytes) ProducerLine {
  LongWord tail;      ///< tickets reserved
  LongWord filled;    ///< up to where filling has come; a hint
  Word waiting;       ///< non-zero while its process sleeps on an outcome
  Word reserved[11];  ///< zero
};

/// The line that tells the producer how its queue stands.
struct alignas(kLineBytes) KernelLine {
  Word state;         ///< a QueueState
  Word wake;          ///< changes when something ended for a producer that waits
  Word reserved[14];  ///< zero
};

/// The line by which a GPU says how far it may have come.
struct alignas(kLineBytes) TakenLine {
  LongWord taken;     ///< tickets from here on never ran; kernels on a GPU only
  Word reserved[14];  ///< zero
};

/// The header, at the start of the kernel file, stored once.
struct alignas(kLineBytes) QueueHeader {
  Word magic;                   ///< kQueueMagic
  Word version;                 ///< kQueueVersion
  Word entry_bytes;             ///< an EntryFormat
  Word capacity;                ///< entries
  LongWord first_ticket;        ///< begins an even lap
  Word outcome_bytes;           ///< 1, or 16 with results
  Word reserved0;               ///< zero
  LongWord producer_bytes;      ///< length of the producer file
  LongWord kernel_bytes;        ///< length of the kernel file
  LongWord entries_offset;      ///< in the producer file, behind the producer line at 0
  LongWord kernel_line_offset;  ///< in the kernel file
  LongWord taken_line_offset;   ///< in the kernel file
  LongWord outcomes_offset;     ///< in the kernel file
  LongWord faults_offset;       ///< of the fault codes in the kernel file; 0 with results
  Word reserved[10];            ///< zero
};

/// Length of one outcome.
EVERKERNEL_HOST_DEVICE constexpr Word outcome_bytes(bool has_results) {
  return has_results ? kQuadBytes : 1;
}

/// The length rounded up to whole lines.
EVERKERNEL_HOST_DEVICE constexpr LongWord whole_lines(LongWord bytes) {
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

/// The header of a queue. The one place that computes offsets: a header that differs from it for
/// its own format, capacity and first ticket is not one.
EVERKERNEL_HOST_DEVICE constexpr QueueHeader queue_header(EntryFormat format, Word capacity,
                                                          bool has_results, LongWord first_ticket) {
  QueueHeader header{};
  header.magic = kQueueMagic;
  header.version = kQueueVersion;
  header.entry_bytes = static_cast<Word>(format);
  header.capacity = capacity;
  header.first_ticket = first_ticket;
  header.outcome_bytes = outcome_bytes(has_results);
  header.entries_offset = sizeof(ProducerLine);
  header.producer_bytes = header.entries_offset + LongWord{capacity} * header.entry_bytes;
  header.kernel_line_offset = sizeof(QueueHeader);
  header.taken_line_offset = header.kernel_line_offset + sizeof(KernelLine);
  header.outcomes_offset = header.taken_line_offset + sizeof(TakenLine);
  const LongWord end =
      whole_lines(header.outcomes_offset + LongWord{capacity} * header.outcome_bytes);
  header.faults_offset = has_results ? 0 : end;
  header.kernel_bytes = has_results ? end : whole_lines(end + LongWord{capacity} * kWordBytes);
  return header;
}

/// Whether two headers are equal in every word.
EVERKERNEL_HOST_DEVICE constexpr bool are_equal(const QueueHeader& x, const QueueHeader& y) {
  for (Word i = 0; i < sizeof x.reserved / sizeof *x.reserved; ++i) {
    if (x.reserved[i] != y.reserved[i]) return false;
  }
  return x.magic == y.magic && x.version == y.version && x.entry_bytes == y.entry_bytes &&
         x.capacity == y.capacity && x.first_ticket == y.first_ticket &&
         x.outcome_bytes == y.outcome_bytes && x.reserved0 == y.reserved0 &&
         x.producer_bytes == y.producer_bytes && x.kernel_bytes == y.kernel_bytes &&
         x.entries_offset == y.entries_offset && x.kernel_line_offset == y.kernel_line_offset &&
         x.taken_line_offset == y.taken_line_offset && x.outcomes_offset == y.outcomes_offset &&
         x.faults_offset == y.faults_offset;
}

static_assert(sizeof(Quad) == kQuadBytes && alignof(Quad) == kQuadBytes);
static_assert(sizeof(FullEntry) == kSlotBytes && sizeof(WorkItem) == kQuadBytes);
static_assert(sizeof(ProducerLine) == kLineBytes && sizeof(KernelLine) == kLineBytes &&
              sizeof(TakenLine) == kLineBytes && sizeof(QueueHeader) == 2 * kLineBytes);
#if !defined(__CUDACC_RTC__)
static_assert(kIsWirePod<Quad> && kIsWirePod<FullEntry> && kIsWirePod<ProducerLine> &&
              kIsWirePod<KernelLine> && kIsWirePod<TakenLine> && kIsWirePod<QueueHeader>);
static_assert(offsetof(ProducerLine, tail) == 0 && offsetof(ProducerLine, filled) == 8 &&
              offsetof(ProducerLine, waiting) == 16);
static_assert(offsetof(KernelLine, state) == 0 && offsetof(KernelLine, wake) == 4);
static_assert(offsetof(TakenLine, taken) == 0);
static_assert(offsetof(QueueHeader, magic) == 0 && offsetof(QueueHeader, version) == 4 &&
              offsetof(QueueHeader, entry_bytes) == 8 && offsetof(QueueHeader, capacity) == 12 &&
              offsetof(QueueHeader, first_ticket) == 16 &&
              offsetof(QueueHeader, outcome_bytes) == 24 &&
              offsetof(QueueHeader, producer_bytes) == 32 &&
              offsetof(QueueHeader, kernel_bytes) == 40 &&
              offsetof(QueueHeader, entries_offset) == 48 &&
              offsetof(QueueHeader, kernel_line_offset) == 56 &&
              offsetof(QueueHeader, taken_line_offset) == 64 &&
              offsetof(QueueHeader, outcomes_offset) == 72 &&
              offsetof(QueueHeader, faults_offset) == 80);
#endif

}  // namespace everkernel::abi
