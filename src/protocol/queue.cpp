// Checks of queue headers and shapes, entries in private memory, and runs of DONE.
#include "everkernel/protocol/queue.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace everkernel::protocol {
namespace {

using abi::EntryFormat;
using abi::QueueHeader;

Failure bad_header(std::string_view field, LongWord found, std::string_view wanted) {
  return fail(Code::corrupt, fmt::format("queue: header: {} is {}, not {}", field, found, wanted),
              "map the files of a queue that a session opened");
}

Result<void> check_length(std::string_view file, std::size_t found, LongWord needed) {
  if (found >= needed) return {};
  return fail(
      Code::corrupt,
      fmt::format("queue: the {} file has {} bytes, its header needs {}", file, found, needed),
      "map each file from its start to its end");
}

}  // namespace

Result<void> check_shape(const QueueShape& shape) {
  if (shape.entries != EntryFormat::compact && shape.entries != EntryFormat::full) {
    return fail(Code::invalid_argument,
                fmt::format("queue: entries of {} bytes", static_cast<Word>(shape.entries)),
                "choose compact (16 bytes) or full (64 bytes) entries");
  }
  if (!abi::is_queue_capacity(shape.capacity)) {
    return fail(Code::invalid_argument,
                fmt::format("queue: capacity {} is not a power of two in {}..{}", shape.capacity,
                            abi::kMinQueueCapacity, abi::kMaxQueueCapacity),
                fmt::format("choose {}",
                            shape.capacity > abi::kMaxQueueCapacity
                                ? abi::kMaxQueueCapacity
                                : std::bit_ceil(std::max(shape.capacity, abi::kMinQueueCapacity))));
  }
  if (!abi::is_first_ticket(shape.first_ticket, shape.capacity)) {
    return fail(Code::invalid_argument,
                fmt::format("queue: first ticket {} is not a multiple of {}", shape.first_ticket,
                            2 * LongWord{shape.capacity}),
                "a queue begins at the start of an even lap");
  }
  return {};
}

Result<QueueHeader> read_queue_header(std::span<const std::byte> kernel_file,
                                      std::size_t producer_file_bytes) {
  EVERKERNEL_TRY(check_length("kernel", kernel_file.size(), sizeof(QueueHeader)));
  QueueHeader header;
  std::memcpy(&header, kernel_file.data(), sizeof header);
  if (header.magic != abi::kQueueMagic) {
    return bad_header("magic", header.magic, fmt::format("{}", abi::kQueueMagic));
  }
  if (header.version != abi::kQueueVersion) {
    return bad_header("version", header.version, fmt::format("{}", abi::kQueueVersion));
  }
  const auto format = EntryFormat{header.entry_bytes};
  if (format != EntryFormat::compact && format != EntryFormat::full) {
    return bad_header("entry bytes", header.entry_bytes, "16 or 64");
  }
  if (!abi::is_queue_capacity(header.capacity)) {
    return bad_header("capacity", header.capacity, "a power of two in 2..1048576");
  }
  if (!abi::is_first_ticket(header.first_ticket, header.capacity)) {
    return bad_header("first ticket", header.first_ticket, "a multiple of twice the capacity");
  }
  const bool has_results = header.outcome_bytes == abi::outcome_bytes(true);
  if (!has_results && header.outcome_bytes != abi::outcome_bytes(false)) {
    return bad_header("outcome bytes", header.outcome_bytes, "1 or 16");
  }
  if (!abi::are_equal(
          header, abi::queue_header(format, header.capacity, has_results, header.first_ticket))) {
    return fail(Code::corrupt,
                fmt::format("queue: header: an offset, length or reserved word is not that of a "
                            "queue of {} entries of {} bytes",
                            header.capacity, header.entry_bytes),
                "map the files of a queue that a session opened");
  }
  EVERKERNEL_TRY(check_length("kernel", kernel_file.size(), header.kernel_bytes));
  EVERKERNEL_TRY(check_length("producer", producer_file_bytes, header.producer_bytes));
  return header;
}

void encode_queue(const QueueHeader& header, std::span<std::byte> producer_file,
                  std::span<std::byte> kernel_file) {
  std::memcpy(kernel_file.data(), &header, sizeof header);
  auto* const line = reinterpret_cast<abi::ProducerLine*>(producer_file.data());
  std::atomic_ref(line->tail).store(header.first_ticket, std::memory_order_relaxed);
  std::atomic_ref(line->filled).store(header.first_ticket, std::memory_order_relaxed);
  QueueKernel(header, producer_file.data(), kernel_file.data()).set_state(abi::QueueState::open);
}

Result<void> check_compact(const Operation& operation) {
  if (!abi::fits_compact(operation.opcode)) {
    return fail(Code::invalid_argument,
                fmt::format("queue: opcode {:#x} does not fit a compact entry", operation.opcode),
                "open a queue with full entries for packed slots and SHUTDOWN");
  }
  if (operation.args.size() <= 3) return {};
  return fail(Code::invalid_argument,
              fmt::format("queue: {} arguments, a compact entry holds 3", operation.args.size()),
              "open a queue with full entries");
}

void encode_entry(const Operation& operation, const Sender& sender, EntryFormat format, Word lap,
                  std::span<std::byte> entry) {
  const abi::Slot slot = published_slot(operation, sender);
  if (format == EntryFormat::compact) {
    const abi::Quad quad =
        abi::compact_entry({slot.opcode, slot.args[0], slot.args[1], slot.args[2]}, lap);
    std::memcpy(entry.data(), &quad, sizeof quad);
    return;
  }
  const abi::FullEntry full = abi::full_entry(slot, lap);
  std::memcpy(entry.data(), &full, sizeof full);
}

std::optional<abi::Slot> decode_entry(std::span<const std::byte> entry, EntryFormat format,
                                      Word lap) {
  if (entry.size() != static_cast<Word>(format)) return std::nullopt;
  if (format == EntryFormat::compact) {
    abi::Quad quad;
    std::memcpy(&quad, entry.data(), sizeof quad);
    if (!abi::is_of_lap(quad, lap)) return std::nullopt;
    return published_slot(abi::item_of(quad), Sender{});
  }
  abi::FullEntry full;
  std::memcpy(&full, entry.data(), sizeof full);
  if (!abi::is_valid(full, lap)) return std::nullopt;
  return abi::slot_of(full);
}

bool has_whole_quad_stores() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx") != 0;
#else
  return false;
#endif
}

#if defined(EVERKERNEL_PORTABLE_QUADS)
constexpr bool kReadsEight = false;  // ThreadSanitizer pairs a load with stores of its own size
#else
constexpr bool kReadsEight = true;
#endif

namespace {

// How many outcome bytes from `bytes` on are `done`, at most `most`; they lie in one lap.
LongWord count_done_bytes(const unsigned char* bytes, LongWord most, unsigned char done) {
  constexpr LongWord kEight = sizeof(LongWord);
  LongWord count = 0;
  const auto count_up_to = [&](LongWord end) {
    while (count < end && __atomic_load_n(bytes + count, __ATOMIC_ACQUIRE) == done) ++count;
    return count == end;
  };
  if (kReadsEight) {
    const LongWord before = -reinterpret_cast<std::uintptr_t>(bytes) % kEight;
    if (!count_up_to(std::min(most, before))) return count;
    const LongWord wanted = 0x0101010101010101u * LongWord{done};
    const auto difference = [&](LongWord at) {
      const auto* const eight = reinterpret_cast<const detail::LongWordAlias*>(bytes + at);
      return __atomic_load_n(eight, __ATOMIC_ACQUIRE) ^ wanted;
    };
    const auto are_done = [&](LongWord at) {
      LongWord all = 0;
      for (LongWord i = 0; i < abi::kLineBytes; i += kEight) all |= difference(at + i);
      return all == 0;
    };
    while (most - count >= abi::kLineBytes && are_done(count)) count += abi::kLineBytes;
    while (most - count >= kEight && difference(count) == 0) count += kEight;
  }
  count_up_to(most);
  return count;
}

}  // namespace

// Most items end as DONE, and one compare then stands for many.
LongWord QueuePlaces::count_done_in(const std::byte* kernel_file, LongWord ticket,
                                    LongWord most) const {
  const auto is_done = [&](LongWord at) {
    const auto* const word = reinterpret_cast<const Word*>(kernel_file + outcome_offset(at));
    const Word first = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    return abi::outcome_of_completion(first, lap_bit(at)) == abi::OutcomeCode::done;
  };
  LongWord count = 0;
  if (has_results()) {
    while (count < most && is_done(ticket + count)) ++count;
    return count;
  }
  while (count < most) {
    const LongWord at = ticket + count;
    const LongWord stretch = std::min<LongWord>(most - count, capacity() - place_of(at));
    const auto* const bytes =
        reinterpret_cast<const unsigned char*>(kernel_file) + outcome_offset(at);
    const LongWord done =
        count_done_bytes(bytes, stretch, abi::outcome_byte(abi::OutcomeCode::done, lap_bit(at)));
    count += done;
    if (done < stretch) break;
  }
  return count;
}

// ---- many entries ----

// The loops below are the cost of a short item, so their pointers and bounds stay in registers. A
// stretch is a row of tickets in one lap.

// The first entry is stored last: workers wait for it, and then find all the others. If workers
// could start earlier, the lines of the entries would move back and forth behind this loop.
void QueueProducer::store_items(LongWord first, std::span<const abi::WorkItem> items,
                                const Sender& sender) const {
  std::size_t next = 1;
  while (next < items.size()) {
    const std::size_t count =
        std::min<std::size_t>(items.size() - next, capacity() - place_of(first + next));
    store_stretch(first + next, items.subspan(next, count), sender);
    next += count;
  }
  store_stretch(first, items.first(1), sender);
}

namespace {

// The four words of an item.
detail::QuadVector vector_of(const abi::WorkItem& item) {
  detail::QuadVector words;
  std::memcpy(&words, &item, sizeof words);
  return words;
}

}  // namespace

// An entry is abi::compact_entry() of its item.
void QueueProducer::store_compact(LongWord ticket, std::span<const abi::WorkItem> items) const {
  constexpr std::size_t kEntriesOfLine = abi::kLineBytes / abi::kQuadBytes;
  const detail::QuadVector lap = {lap_bit(ticket) << 31, 0, 0, 0};
  abi::Quad* const entries = quads(0);
  const std::size_t mask = capacity() - 1;
  const std::size_t first = place_of(ticket);
  abi::Quad* place = entries + first;
  const abi::WorkItem* item = items.data();
  std::size_t left = items.size();
  for (std::size_t ahead = first + kStoreAhead; left >= kEntriesOfLine; left -= kEntriesOfLine) {
    detail::prefetch_to_write(entries + (ahead & mask));
    ahead += kEntriesOfLine;
    for (std::size_t i = 0; i < kEntriesOfLine; ++i) {
      detail::store_quad(place++, vector_of(*item++) | lap);
    }
  }
  for (; left != 0; --left) detail::store_quad(place++, vector_of(*item++) | lap);
}

// An entry is store_few() of its item.
void QueueProducer::store_full(LongWord ticket, std::span<const abi::WorkItem> items,
                               const Sender& sender) const {
  using detail::QuadVector;
  const Word lap = lap_bit(ticket) << 31;
  const QuadVector head = {static_cast<Word>(abi::SlotStatus::published) | lap, 0, sender.tenant,
                           sender.priority};
  const QuadVector rest = {lap, 0, 0, 0};
  const QuadVector not_lap = {~abi::kLapMask, ~Word{0}, ~Word{0}, 0};
  const QuadVector opcode = {~Word{0}, 0, 0, 0};
  const QuadVector displaced = {0, 0, 0, Word{1} << abi::kDisplacedBits};
  const QuadVector zero = {};
  abi::Quad* const entries = quads(0);
  const std::size_t mask = capacity() - 1;
  std::size_t ahead = place_of(ticket) + kStoreAhead;
  abi::Quad* place = quads(ticket);
  for (const abi::WorkItem& item : items) {
    detail::prefetch_to_write(entries + (ahead++ & mask) * abi::kFullQuads);
    const QuadVector words = vector_of(item);
    const QuadVector args = __builtin_shufflevector(words, zero, 1, 2, 3, 4);
    const QuadVector first_arg = __builtin_shufflevector(words, zero, 4, 4, 4, 1);
    detail::store_quad(place + 1, (args & not_lap) | rest);
    detail::store_quad(place + 2, rest);
    detail::store_quad(place + 3, rest);
    detail::store_quad(place, head | __builtin_shufflevector(words & opcode, zero, 4, 0, 4, 4) |
                                  ((first_arg >> (31 - abi::kDisplacedBits)) & displaced));
    place += abi::kFullQuads;
  }
}

LongWord QueueKernel::count_equal(LongWord ticket, LongWord most) const {
  const auto opcode = peek(ticket);
  if (!opcode || most == 0) return 0;
  LongWord count = 1;
  while (count < most) {
    const LongWord stretch =
        std::min<LongWord>(most - count, capacity() - place_of(ticket + count));
    const LongWord equal = count_equal_in_lap(ticket + count, stretch, *opcode);
    count += equal;
    if (equal < stretch) break;
  }
  return count;
}

LongWord QueueKernel::count_equal_in_lap(LongWord ticket, LongWord most, Word opcode) const {
  const Word lap = lap_bit(ticket);
  const abi::Quad* place = quads(ticket);
  LongWord count = 0;
  if (is_compact()) {
    const Word wanted = opcode | lap << 31;
    while (count < most && __atomic_load_n(&place->words[0], __ATOMIC_ACQUIRE) == wanted) {
      ++place;
      ++count;
    }
    return count;
  }
  const LongWord wanted =
      detail::pair_of(static_cast<Word>(abi::SlotStatus::published) | lap << 31, opcode);
  while (count < most && __atomic_load_n(reinterpret_cast<const detail::LongWordAlias*>(place),
                                         __ATOMIC_ACQUIRE) == wanted) {
    place += abi::kFullQuads;
    ++count;
  }
  return count;
}

LongWord QueueKernel::end_nops(LongWord ticket, LongWord most) const {
  LongWord count = 0;
  while (count < most) {
    const LongWord stretch =
        std::min<LongWord>(most - count, capacity() - place_of(ticket + count));
    const LongWord ended = end_nops_in_lap(ticket + count, stretch);
    count += ended;
    if (ended < stretch) break;
  }
  return count;
}

LongWord QueueKernel::end_nops_in_lap(LongWord ticket, LongWord most) const {
  const Word lap = lap_bit(ticket);
  const abi::Quad* place = quads(ticket);
  unsigned char* outcome = outcome_place(ticket);
  const unsigned char done = abi::outcome_byte(abi::OutcomeCode::done, lap);
  LongWord count = 0;
  if (is_compact()) {
    const Word wanted = lap << 31;
    while (count < most && __atomic_load_n(&place->words[0], __ATOMIC_ACQUIRE) == wanted) {
      __atomic_store_n(outcome, done, __ATOMIC_RELEASE);
      ++place;
      ++outcome;
      ++count;
    }
    return count;
  }
  while (count < most && is_full_nop(place, lap)) {
    __atomic_store_n(outcome, done, __ATOMIC_RELEASE);
    place += abi::kFullQuads;
    ++outcome;
    ++count;
  }
  return count;
}

}  // namespace everkernel::protocol
