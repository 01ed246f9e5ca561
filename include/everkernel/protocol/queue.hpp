// The two sides of a live queue over mapped memory: QueueProducer writes entries and reads
// outcomes, QueueKernel reads entries and writes outcomes. This file names the memory orders of
// queues.
//
// Both are views: the memory must outlive them. Both keep a copy of the header that was checked
// against the length of the files. Nothing that the other side can write is used twice, and no
// value of it leads outside the files: every place is computed from the copy and a ticket.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "everkernel/abi/queue.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/protocol/ring_writer.hpp"

/// Defined where 16 bytes are stored as two pairs of words: ThreadSanitizer must see the accesses,
/// or the processor has no instruction for it.
#if defined(__SANITIZE_THREAD__)
#define EVERKERNEL_PORTABLE_QUADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EVERKERNEL_PORTABLE_QUADS 1
#endif
#endif
#if !defined(__x86_64__) && !defined(EVERKERNEL_PORTABLE_QUADS)
#define EVERKERNEL_PORTABLE_QUADS 1
#endif

namespace everkernel::protocol {

using abi::LongWord;

/// Results of an item in a queue with results: its args 9, 10 and 11 when it ended.
using ItemResults = std::array<Word, 3>;

/// The shape of a queue.
struct QueueShape {
  abi::EntryFormat entries = abi::EntryFormat::compact;  ///< form of its entries
  Word capacity = 1024;                                  ///< entries, a power of two
  bool has_results = false;                              ///< completions carry three words
  LongWord first_ticket = 0;                             ///< a multiple of twice the capacity
};

/// Checks a shape. Fails with `invalid_argument`, naming the field.
Result<void> check_shape(const QueueShape& shape);

/// Checks the header at the start of a kernel file against the lengths of both files, which may be
/// longer than it says. Gives a private copy. Fails with `corrupt`, naming the field.
Result<abi::QueueHeader> read_queue_header(std::span<const std::byte> kernel_file,
                                           std::size_t producer_file_bytes);

/// Makes zeroed memory the files of a queue without entries, its state open. The memory has the
/// lengths that the header says.
void encode_queue(const abi::QueueHeader& header, std::span<std::byte> producer_file,
                  std::span<std::byte> kernel_file);

/// Writes the entry of an operation to private bytes of the entry's length. The operation passed
/// check_operation(), and for a compact entry check_compact().
void encode_entry(const Operation& operation, const Sender& sender, abi::EntryFormat format,
                  Word lap, std::span<std::byte> entry);

/// Reads an entry from private bytes: its slot, in which tenant and priority are what the producer
/// wrote. Nothing unless every quad is of the lap with this bit and every fixed bit is as the
/// format says.
std::optional<abi::Slot> decode_entry(std::span<const std::byte> entry, abi::EntryFormat format,
                                      Word lap);

/// Checks that an operation fits a compact entry. Fails with `invalid_argument`.
Result<void> check_compact(const Operation& operation);
/// Whether check_compact() would pass.
inline bool is_compact(const Operation& operation) {
  return abi::fits_compact(operation.opcode) && operation.args.size() <= 3;
}

/// Whether this processor stores 16 bytes as one: it has AVX, or the equal of another architecture.
/// A GPU cannot be fed by a processor that does not.
bool has_whole_quad_stores();

namespace detail {

using LongWordAlias __attribute__((may_alias)) = LongWord;

inline LongWord pair_of(Word low, Word high) {
  return LongWord{high} << 32 | low;
}

/// A quad in one register, where all its words are changed together.
using QuadVector = Word __attribute__((vector_size(abi::kQuadBytes)));
/// The same as pairs of words.
using PairVector = LongWord __attribute__((vector_size(abi::kQuadBytes)));

/// Stores a quad; earlier stores of this thread are visible with it. On x86-64 by one instruction,
/// which processors with AVX keep whole. Elsewhere, and where ThreadSanitizer must see the access,
/// as two pairs, the pair with the lap bit last: readers on a CPU acquire that pair first.
inline void store_quad(abi::Quad* place, QuadVector quad) {
#if defined(EVERKERNEL_PORTABLE_QUADS)
  const auto value = std::bit_cast<std::array<LongWord, 2>>(quad);
  auto* const pairs = reinterpret_cast<LongWordAlias*>(place);
  __atomic_store_n(pairs + 1, value[1], __ATOMIC_RELAXED);
  __atomic_store_n(pairs, value[0], __ATOMIC_RELEASE);
#else
  __asm__ volatile("movdqa %1, %0" : "=m"(*place) : "x"(quad) : "memory");
#endif
}
/// Stores a quad whose words are made one by one.
inline void store_quad(abi::Quad* place, const abi::Quad& quad) {
  const PairVector pairs = {pair_of(quad.words[0], quad.words[1]),
                            pair_of(quad.words[2], quad.words[3])};
  store_quad(place, reinterpret_cast<QuadVector>(pairs));
}

/// Starts to fetch the line of a place that will be written soon.
inline void prefetch_to_write(const abi::Quad* place) {
#if defined(__x86_64__)
  // Without -march, the builtin compiles to a prefetch for reading.
  __asm__("prefetchw %0" : : "m"(*place));
#else
  __builtin_prefetch(place, 1);
#endif
}

/// A quad as two pairs of words.
struct Pairs {
  LongWord low;   ///< words 0 and 1
  LongWord high;  ///< words 2 and 3
};

/// Loads a quad: the pair with the lap bit with acquire, then the other.
inline Pairs load_pairs(const abi::Quad* place) {
  const auto* const pairs = reinterpret_cast<const LongWordAlias*>(place);
  const LongWord low = __atomic_load_n(pairs, __ATOMIC_ACQUIRE);
  return {low, __atomic_load_n(pairs + 1, __ATOMIC_RELAXED)};
}
/// The same as words.
inline abi::Quad load_quad(const abi::Quad* place) {
  const Pairs pairs = load_pairs(place);
  return {{static_cast<Word>(pairs.low), static_cast<Word>(pairs.low >> 32),
           static_cast<Word>(pairs.high), static_cast<Word>(pairs.high >> 32)}};
}

}  // namespace detail

/// What both sides know of a queue: its header, and where a ticket lies.
class QueuePlaces {
 public:
  /// The header, which passed read_queue_header().
  explicit QueuePlaces(const abi::QueueHeader& header) : header_(header) {}

  /// Entries.
  Word capacity() const { return header_.capacity; }
  /// The first ticket.
  LongWord first_ticket() const { return header_.first_ticket; }
  /// Form of the entries.
  abi::EntryFormat entries() const { return abi::EntryFormat{header_.entry_bytes}; }
  /// Whether entries are compact.
  bool is_compact() const { return entries() == abi::EntryFormat::compact; }
  /// Whether completions carry results.
  bool has_results() const { return header_.outcome_bytes != 1; }
  /// The lap bit of a ticket.
  Word lap_bit(LongWord ticket) const { return abi::lap_bit(ticket, header_.capacity); }
  /// The place of a ticket.
  Word place_of(LongWord ticket) const { return abi::place_of(ticket, header_.capacity); }
  /// The header.
  const abi::QueueHeader& header() const { return header_; }

 protected:
  /// Where the entry of a ticket lies in the producer file.
  std::size_t entry_offset(LongWord ticket) const {
    return header_.entries_offset + std::size_t{place_of(ticket)} * header_.entry_bytes;
  }
  /// Where the outcome of a ticket lies in the kernel file.
  std::size_t outcome_offset(LongWord ticket) const {
    return header_.outcomes_offset + std::size_t{place_of(ticket)} * header_.outcome_bytes;
  }
  /// How many tickets from `ticket` on have ended as DONE one behind the other, at most `most`.
  LongWord count_done_in(const std::byte* kernel_file, LongWord ticket, LongWord most) const;
  /// Where the fault code of a ticket lies in the kernel file.
  std::size_t fault_offset(LongWord ticket) const {
    return header_.faults_offset + std::size_t{place_of(ticket)} * abi::kWordBytes;
  }

 private:
  abi::QueueHeader header_;
};

/// The producer's side.
class QueueProducer : public QueuePlaces {
 public:
  /// Views files whose header was read. The producer file is writable.
  QueueProducer(const abi::QueueHeader& header, std::byte* producer_file,
                const std::byte* kernel_file)
      : QueuePlaces(header), producer_file_(producer_file), kernel_file_(kernel_file) {}

  /// Tickets reserved so far.
  LongWord tail() const { return tail_word().load(std::memory_order_acquire); }
  /// Moves the tail on if it is still `tail`; else gives the present one in `tail`.
  bool move_tail(LongWord& tail, LongWord next) const {
    return tail_word().compare_exchange_strong(tail, next, std::memory_order_acq_rel,
                                               std::memory_order_relaxed);
  }
  /// Says that filling has come to `end`. Two threads that say so at the same time may leave the
  /// lower value: it is a hint.
  void raise_filled(LongWord end) const {
    const auto filled = std::atomic_ref(line().filled);
    if (filled.load(std::memory_order_relaxed) < end) filled.store(end, std::memory_order_relaxed);
  }
  /// Says whether a thread of this process sleeps until the wake word changes.
  void set_waiting(bool is_waiting) const {
    std::atomic_ref(line().waiting).store(is_waiting ? 1 : 0, std::memory_order_seq_cst);
  }

  /// Stores a compact entry. The item passed check_items(), its opcode fits.
  void store(LongWord ticket, const abi::WorkItem& item) const {
    detail::store_quad(quads(ticket), abi::compact_entry(item, lap_bit(ticket)));
  }
  /// Stores a full entry: the quad with the status last.
  void store(LongWord ticket, const abi::Slot& slot) const {
    const Word lap = lap_bit(ticket);
    abi::Quad* const place = quads(ticket);
    for (Word i = 1; i < abi::kFullQuads; ++i) {
      detail::store_quad(place + i, abi::full_args(slot, i, lap));
    }
    detail::store_quad(place, abi::full_head(slot, lap));
  }
  /// Stores the entry of an operation, in the form of the queue. The operation passed
  /// check_operation(), and for a compact entry check_compact().
  void store(LongWord ticket, const Operation& operation, const Sender& sender) const {
    constexpr std::size_t kFew = 4;
    const auto& args = operation.args;
    if (args.size() > kFew) return store(ticket, published_slot(operation, sender));
    const auto arg = [&](std::size_t i) { return i < args.size() ? args[i] : 0; };
    const Word lap = lap_bit(ticket);
    if (is_compact()) {
      const abi::WorkItem item{operation.opcode, arg(0), arg(1), arg(2)};
      detail::store_quad(quads(ticket), abi::compact_entry(item, lap));
    } else {
      store_few(quads(ticket), operation.opcode, {{arg(0), arg(1), arg(2), arg(3)}}, sender, lap);
    }
  }
  /// Stores entries of items that passed check_items(), the first one last.
  void store_items(LongWord first, std::span<const abi::WorkItem> items,
                   const Sender& sender) const;
  /// Entries whose lines are fetched ahead of writing them: a worker read them last.
  static constexpr LongWord kStoreAhead = 12;

  /// How a ticket ended; what its item wrote is visible afterwards. `none` if it has not ended; of
  /// a ticket more than a lap ago the answer has no meaning.
  abi::OutcomeCode outcome(LongWord ticket) const {
    const Word lap = lap_bit(ticket);
    if (has_results()) return abi::outcome_of_completion(load_word(outcome_offset(ticket)), lap);
    const auto* const byte =
        reinterpret_cast<const unsigned char*>(kernel_file_) + outcome_offset(ticket);
    return abi::outcome_of(__atomic_load_n(byte, __ATOMIC_ACQUIRE), lap);
  }
  /// How many tickets from `ticket` on have ended as DONE one behind the other, at most `most`.
  LongWord count_done(LongWord ticket, LongWord most) const {
    return count_done_in(kernel_file_, ticket, most);
  }
  /// The code of a ticket that ended as FAULT; nothing while its word is on the way.
  std::optional<Word> fault_code(LongWord ticket) const {
    if (has_results()) {
      return abi::fault_code_of_completion(load_word(outcome_offset(ticket)));
    }
    const Word word = load_word(fault_offset(ticket));
    if (word >> 31 != lap_bit(ticket)) return std::nullopt;
    return word & ~abi::kLapMask;
  }
  /// The results of a ticket that has ended, in a queue with results.
  ItemResults results(LongWord ticket) const {
    const auto* const place =
        reinterpret_cast<const abi::Quad*>(kernel_file_ + outcome_offset(ticket));
    const abi::Quad quad = detail::load_quad(place);
    return {quad.words[1], quad.words[2], quad.words[3]};
  }
  /// Where the queue is in its life.
  abi::QueueState state() const { return abi::QueueState{load_word(header().kernel_line_offset)}; }
  /// The word that changes when something ended for a producer that waits.
  const Word* wake_word() const {
    const std::size_t offset = header().kernel_line_offset + offsetof(abi::KernelLine, wake);
    return reinterpret_cast<const Word*>(kernel_file_ + offset);
  }
  /// Its value.
  Word wake_count() const { return __atomic_load_n(wake_word(), __ATOMIC_ACQUIRE); }

 private:
  void store_compact(LongWord ticket, std::span<const abi::WorkItem> items) const;
  void store_full(LongWord ticket, std::span<const abi::WorkItem> items,
                  const Sender& sender) const;
  void store_stretch(LongWord ticket, std::span<const abi::WorkItem> items,
                     const Sender& sender) const {
    is_compact() ? store_compact(ticket, items) : store_full(ticket, items, sender);
  }
  // The full entry of an operation with at most four arguments, made in registers: words that pass
  // through a slot before they are stored as quads cost more than all the rest of publishing.
  static void store_few(abi::Quad* place, Word opcode, const abi::Quad& args, const Sender& sender,
                        Word lap) {
    const Word displaced = (args.words[0] >> 31) << abi::kDisplacedBits;
    const abi::Quad rest{{lap << 31, 0, 0, 0}};
    detail::store_quad(place + 1, {{(args.words[0] & ~abi::kLapMask) | lap << 31, args.words[1],
                                    args.words[2], args.words[3]}});
    detail::store_quad(place + 2, rest);
    detail::store_quad(place + 3, rest);
    detail::store_quad(place, {{static_cast<Word>(abi::SlotStatus::published) | lap << 31, opcode,
                                sender.tenant, sender.priority | displaced}});
  }
  abi::ProducerLine& line() const { return *reinterpret_cast<abi::ProducerLine*>(producer_file_); }
  std::atomic_ref<LongWord> tail_word() const { return std::atomic_ref(line().tail); }
  abi::Quad* quads(LongWord ticket) const {
    return reinterpret_cast<abi::Quad*>(producer_file_ + entry_offset(ticket));
  }
  Word load_word(std::size_t offset) const {
    return __atomic_load_n(reinterpret_cast<const Word*>(kernel_file_ + offset), __ATOMIC_ACQUIRE);
  }

  std::byte* producer_file_;
  const std::byte* kernel_file_;
};

/// The kernel's side. A producer can write any byte of its file at any time: what is read here is
/// copied once and then checked.
class QueueKernel : public QueuePlaces {
 public:
  /// Views files whose header was read. The kernel file is writable.
  QueueKernel(const abi::QueueHeader& header, const std::byte* producer_file,
              std::byte* kernel_file)
      : QueuePlaces(header), producer_file_(producer_file), kernel_file_(kernel_file) {}

  /// The files, for a device that maps them.
  const std::byte* producer_file() const { return producer_file_; }
  /// The files, for a device that maps them.
  std::byte* kernel_file() const { return kernel_file_; }

  /// Whether the first quad of a ticket's entry is new, and the opcode it names now. What the entry
  /// refers to is visible afterwards.
  std::optional<Word> peek(LongWord ticket) const {
    const auto* const pairs = reinterpret_cast<const detail::LongWordAlias*>(quads(ticket));
    const LongWord first = __atomic_load_n(pairs, __ATOMIC_ACQUIRE);
    const Word word = static_cast<Word>(first);
    if (word >> 31 != lap_bit(ticket)) return std::nullopt;
    return is_compact() ? word & ~abi::kLapMask : static_cast<Word>(first >> 32);
  }
  /// The word of a ticket's entry that has its lap bit.
  const Word* lap_word(LongWord ticket) const { return &quads(ticket)->words[0]; }
  /// Copies the item of a compact entry; nothing if the entry is not of the ticket's lap.
  std::optional<abi::WorkItem> copy_item(LongWord ticket) const {
    const abi::Quad quad = detail::load_quad(quads(ticket));
    if (!abi::is_of_lap(quad, lap_bit(ticket))) return std::nullopt;
    return abi::item_of(quad);
  }
  /// Copies the slot of an entry of either form, and says so; false and nothing copied if the entry
  /// is not valid.
  bool copy_slot(LongWord ticket, abi::Slot& slot) const {
    const abi::Quad* const place = quads(ticket);
    return is_compact() ? copy_compact(place, lap_bit(ticket), slot)
                        : copy_full(place, lap_bit(ticket), slot);
  }
  /// The same; nothing if the entry is not valid.
  std::optional<abi::Slot> copy_slot(LongWord ticket) const {
    std::optional<abi::Slot> slot(std::in_place);
    if (!copy_slot(ticket, *slot)) slot.reset();
    return slot;
  }
  /// How many entries from `ticket` on are new one behind the other and name the same opcode now,
  /// at most `most`.
  LongWord count_equal(LongWord ticket, LongWord most) const;
  /// Ends tickets from `ticket` on as DONE whose entries are valid and NOPs, one behind the other;
  /// gives how many, at most `most`. The queue has no results.
  LongWord end_nops(LongWord ticket, LongWord most) const;
  /// The same with one ticket; gives whether it ended.
  bool end_nop(LongWord ticket) const {
    const Word lap = lap_bit(ticket);
    const abi::Quad* const place = quads(ticket);
    const bool is_nop = is_compact()
                            ? __atomic_load_n(&place->words[0], __ATOMIC_ACQUIRE) == lap << 31
                            : is_full_nop(place, lap);
    if (!is_nop) return false;
    __atomic_store_n(outcome_place(ticket), abi::outcome_byte(abi::OutcomeCode::done, lap),
                     __ATOMIC_RELEASE);
    return true;
  }
  /// Whether a ticket of the present lap or the one before has ended. Only the kernel side writes
  /// outcomes, so this is its own record.
  bool has_ended(LongWord ticket) const { return outcome(ticket) != abi::OutcomeCode::none; }
  /// How it ended; `none` if it has not.
  abi::OutcomeCode outcome(LongWord ticket) const {
    const Word lap = lap_bit(ticket);
    const std::byte* const place = kernel_file_ + outcome_offset(ticket);
    if (has_results()) {
      const auto* const word = reinterpret_cast<const Word*>(place);
      return abi::outcome_of_completion(__atomic_load_n(word, __ATOMIC_ACQUIRE), lap);
    }
    const auto* const byte = reinterpret_cast<const unsigned char*>(place);
    return abi::outcome_of(__atomic_load_n(byte, __ATOMIC_ACQUIRE), lap);
  }
  /// How many tickets from `ticket` on have ended one behind the other, at most `most`.
  LongWord count_ended(LongWord ticket, LongWord most) const {
    LongWord count = count_done_in(kernel_file_, ticket, most);
    while (count < most && has_ended(ticket + count)) {
      ++count;
      count += count_done_in(kernel_file_, ticket + count, most - count);
    }
    return count;
  }
  /// Stores how a ticket ended; everything this thread wrote before is visible with it.
  void end(LongWord ticket, abi::OutcomeCode code, Word fault_code,
           const ItemResults& results) const {
    const Word lap = lap_bit(ticket);
    if (has_results()) {
      auto* const place = reinterpret_cast<abi::Quad*>(kernel_file_ + outcome_offset(ticket));
      detail::store_quad(place, abi::completion(code, fault_code, lap, results.data()));
      return;
    }
    if (code == abi::OutcomeCode::fault) {
      auto* const word = reinterpret_cast<Word*>(kernel_file_ + fault_offset(ticket));
      __atomic_store_n(word, abi::fault_word(fault_code, lap), __ATOMIC_RELAXED);
    }
    __atomic_store_n(outcome_place(ticket), abi::outcome_byte(code, lap), __ATOMIC_RELEASE);
  }

  /// The tail as the producer wrote it: any number.
  LongWord tail() const { return std::atomic_ref(line().tail).load(std::memory_order_acquire); }
  /// Whether the producer says that its process sleeps.
  bool is_waiting() const {
    return std::atomic_ref(line().waiting).load(std::memory_order_seq_cst) != 0;
  }
  /// Stores the state; everything this thread wrote before is visible with it.
  void set_state(abi::QueueState state) const {
    std::atomic_ref(kernel_line().state).store(static_cast<Word>(state), std::memory_order_seq_cst);
  }
  /// The state.
  abi::QueueState state() const {
    return abi::QueueState{std::atomic_ref(kernel_line().state).load(std::memory_order_acquire)};
  }
  /// Changes the wake word; the caller then wakes the threads that sleep on it.
  Word* change_wake_word() const {
    std::atomic_ref(kernel_line().wake).fetch_add(1, std::memory_order_acq_rel);
    return &kernel_line().wake;
  }

 private:
  abi::ProducerLine& line() const {
    return *reinterpret_cast<abi::ProducerLine*>(const_cast<std::byte*>(producer_file_));
  }
  abi::KernelLine& kernel_line() const {
    return *reinterpret_cast<abi::KernelLine*>(kernel_file_ + header().kernel_line_offset);
  }
  const abi::Quad* quads(LongWord ticket) const {
    return reinterpret_cast<const abi::Quad*>(producer_file_ + entry_offset(ticket));
  }
  // abi::item_of() and abi::slot_of() of an entry that is valid. Words are moved by fours: a load
  // of four that were stored one by one waits until all of them have left the core.
  static bool copy_compact(const abi::Quad* place, Word lap, abi::Slot& slot) {
    const detail::Pairs item = detail::load_pairs(place);
    if ((item.low >> 31 & 1) != lap) return false;
    constexpr Word kPublished = static_cast<Word>(abi::SlotStatus::published);
    store_words(slot, 0,
                {detail::pair_of(kPublished, static_cast<Word>(item.low) & ~abi::kLapMask),
                 detail::pair_of(0, abi::priority_word(kDefaultPriority, 0))});
    store_words(slot, 1, {item.low >> 32 | item.high << 32, item.high >> 32});
    store_words(slot, 2, {});
    store_words(slot, 3, {});
    return true;
  }
  static bool copy_full(const abi::Quad* place, Word lap, abi::Slot& slot) {
    const detail::Pairs head = detail::load_pairs(place);
    std::array<detail::Pairs, abi::kFullQuads - 1> args;
    LongWord other_laps = 0;
    for (Word i = 0; i < args.size(); ++i) {
      args[i] = detail::load_pairs(place + i + 1);
      other_laps |= args[i].low ^ head.low;
    }
    constexpr Word kPublished = static_cast<Word>(abi::SlotStatus::published);
    const auto priority = static_cast<Word>(head.high >> 32);
    if (static_cast<Word>(head.low) != (kPublished | lap << 31) ||
        (other_laps & abi::kLapMask) != 0 || (priority & ~abi::kFullPriorityMask) != 0) {
      return false;
    }
    store_words(slot, 0,
                {detail::pair_of(kPublished, static_cast<Word>(head.low >> 32)),
                 detail::pair_of(static_cast<Word>(head.high), abi::priority_of(priority))});
    for (Word i = 0; i < args.size(); ++i) {
      const Word displaced = priority >> (abi::kDisplacedBits + i) << 31;
      store_words(slot, i + 1,
                  {(args[i].low & ~LongWord{abi::kLapMask}) | displaced, args[i].high});
    }
    return true;
  }
  static void store_words(abi::Slot& slot, Word quad, const detail::Pairs& pairs) {
    const detail::PairVector words = {pairs.low, pairs.high};
    std::memcpy(reinterpret_cast<std::byte*>(&slot) + quad * abi::kQuadBytes, &words, sizeof words);
  }
  LongWord count_equal_in_lap(LongWord ticket, LongWord most, Word opcode) const;
  LongWord end_nops_in_lap(LongWord ticket, LongWord most) const;
  static bool is_full_nop(const abi::Quad* place, Word lap) {
    const abi::Quad head = detail::load_quad(place);
    constexpr Word kPublished = static_cast<Word>(abi::SlotStatus::published);
    bool is_valid = head.words[0] == (kPublished | lap << 31) && head.words[1] == 0 &&
                    (head.words[3] & ~abi::kFullPriorityMask) == 0;
    for (Word i = 1; i < abi::kFullQuads; ++i) {
      const Word word = __atomic_load_n(&place[i].words[0], __ATOMIC_RELAXED);
      is_valid = is_valid && word >> 31 == lap;
    }
    return is_valid;
  }
  unsigned char* outcome_place(LongWord ticket) const {
    return reinterpret_cast<unsigned char*>(kernel_file_) + outcome_offset(ticket);
  }

  const std::byte* producer_file_;
  std::byte* kernel_file_;
};

/// Whether the entry of one ticket is there, for a kernel that asks again and again: a view of one
/// word. Whoever then reads the entry goes through QueueKernel.
class EntryMark {
 public:
  /// Of that ticket.
  EntryMark(const QueueKernel& queue, LongWord ticket)
      : word_(queue.lap_word(ticket)), lap_(queue.lap_bit(ticket)) {}

  /// Whether its first quad is new; a hint.
  bool is_new() const { return __atomic_load_n(word_, __ATOMIC_RELAXED) >> 31 == lap_; }

 private:
  const Word* word_;
  Word lap_;
};

}  // namespace everkernel::protocol
