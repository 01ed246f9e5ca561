// How words of shared buffers are read and written. This file names the memory orders of the host.
//
// Writers of this module are templates over one of two word types. PrivateWords is for bytes that
// only the caller uses: plain accesses, any alignment. LiveWords is for memory that workers, a
// device or another process use at the same time: every access is atomic, with the order in the
// name of the function, and a slot is stored as a whole line with its status last.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "everkernel/abi/slot.hpp"
#include "everkernel/protocol/buffer.hpp"

namespace everkernel::protocol {

namespace detail {

/// Words 2i and 2i + 1 of a slot as one value. Made from the fields, never through memory: reading
/// eight bytes that were just stored as two fours stalls the core for a dozen cycles.
constexpr std::uint64_t slot_pair(const abi::Slot& slot, std::size_t i) {
  const auto join = [](Word low, Word high) { return (std::uint64_t{high} << 32) | low; };
  if (i == 0) return join(static_cast<Word>(slot.status), slot.opcode);
  if (i == 1) return join(slot.tenant, slot.priority);
  return join(slot.args[2 * i - abi::kSlotFirstArg], slot.args[2 * i + 1 - abi::kSlotFirstArg]);
}

/// Takes words 2i and 2i + 1 of a slot from one value.
constexpr void set_slot_pair(abi::Slot& slot, std::size_t i, std::uint64_t pair) {
  const auto low = static_cast<Word>(pair);
  const auto high = static_cast<Word>(pair >> 32);
  if (i == 0) {
    slot.status = abi::SlotStatus{low};
    slot.opcode = high;
  } else if (i == 1) {
    slot.tenant = low;
    slot.priority = high;
  } else {
    slot.args[2 * i - abi::kSlotFirstArg] = low;
    slot.args[2 * i + 1 - abi::kSlotFirstArg] = high;
  }
}

}  // namespace detail

static_assert(std::endian::native == std::endian::little,
              "the wire format is little-endian, and words are used in place");

/// Words of a buffer that only the caller touches. A view: the bytes must outlive it.
class PrivateWords {
 public:
  /// Takes any bytes; fails with `corrupt` unless they are whole words.
  static Result<PrivateWords> bind(Buffer buffer, std::span<std::byte> bytes);

  /// Number of words.
  std::size_t size() const { return size_; }

  /// Reads a word.
  Word load_relaxed(std::size_t index) const {
    Word word;
    std::memcpy(&word, bytes_ + index * abi::kWordBytes, sizeof word);
    return word;
  }
  /// Reads a word; private bytes need no order.
  Word load_acquire(std::size_t index) const { return load_relaxed(index); }

  /// Writes a word.
  void store_relaxed(std::size_t index, Word word) {
    std::memcpy(bytes_ + index * abi::kWordBytes, &word, sizeof word);
  }
  /// Writes a word; private bytes need no order.
  void store_release(std::size_t index, Word word) { store_relaxed(index, word); }

  /// Writes `desired` if the word is `expected`; returns whether it was.
  bool claim(std::size_t index, Word expected, Word desired) {
    if (load_relaxed(index) != expected) return false;
    store_relaxed(index, desired);
    return true;
  }

  /// Writes a whole slot of a ring.
  void store_slot(std::size_t slot_index, const abi::Slot& slot) {
    std::byte* const line = bytes_ + slot_index * abi::kSlotBytes;
    for (std::size_t i = 0; i < abi::kSlotWords / 2; ++i) {
      const std::uint64_t pair = detail::slot_pair(slot, i);
      std::memcpy(line + i * sizeof pair, &pair, sizeof pair);
    }
  }

 private:
  PrivateWords(std::byte* bytes, std::size_t size) : bytes_(bytes), size_(size) {}

  std::byte* bytes_;
  std::size_t size_;
};

/// The words of a published slot other than its status and arguments.
struct SlotHead {
  Word opcode = 0;    ///< operation
  Word tenant = 0;    ///< owner of the item
  Word priority = 0;  ///< its priority word
};

/// Words of a buffer that other threads or devices use at the same time. A view: the memory must
/// outlive it.
class LiveWords {
 public:
  /// Fails with `corrupt` unless the bytes are whole words, and with `invalid_argument` unless they
  /// begin on a 64-byte line (a slot must not straddle two).
  static Result<LiveWords> bind(Buffer buffer, std::span<std::byte> bytes);

  /// Number of words.
  std::size_t size() const { return size_; }

  /// Reads a word without ordering anything else.
  Word load_relaxed(std::size_t index) const {
    return std::atomic_ref(words_[index]).load(std::memory_order_relaxed);
  }
  /// Reads a word; everything that its writer stored before the release store is visible
  /// afterwards.
  Word load_acquire(std::size_t index) const {
    return std::atomic_ref(words_[index]).load(std::memory_order_acquire);
  }
  /// Writes a word without ordering anything else.
  void store_relaxed(std::size_t index, Word word) {
    std::atomic_ref(words_[index]).store(word, std::memory_order_relaxed);
  }
  /// Writes a word after everything this thread wrote before it.
  void store_release(std::size_t index, Word word) {
    std::atomic_ref(words_[index]).store(word, std::memory_order_release);
  }
  /// Writes `desired` if the word is `expected` (acquire and release); returns whether it was.
  bool claim(std::size_t index, Word expected, Word desired) {
    return std::atomic_ref(words_[index])
        .compare_exchange_strong(expected, desired, std::memory_order_acq_rel,
                                 std::memory_order_relaxed);
  }

  /// Adds to a word, modulo 2^32, without ordering anything else.
  void add_relaxed(std::size_t index, Word addend) {
    std::atomic_ref(words_[index]).fetch_add(addend, std::memory_order_relaxed);
  }
  /// Adds to a word after everything this thread wrote before it.
  void add_release(std::size_t index, Word addend) {
    std::atomic_ref(words_[index]).fetch_add(addend, std::memory_order_release);
  }
  /// Writes `desired` if the word is `expected`, without ordering anything else; returns the old
  /// value.
  Word exchange_if(std::size_t index, Word expected, Word desired) {
    std::atomic_ref(words_[index])
        .compare_exchange_strong(expected, desired, std::memory_order_relaxed);
    return expected;
  }
  /// The first word, for code with its own accessors.
  Word* data() const { return words_; }

  /// Starts to fetch the cache line of a slot that the caller will write soon.
  void prefetch_slot(std::size_t slot_index) const {
    Word* const line = words_ + slot_index * abi::kSlotWords;
#if defined(__x86_64__)
    // Without -march, the builtin compiles to a prefetch for reading.
    __asm__("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
  }
  /// Reads a slot that the caller has claimed into a private copy.
  abi::Slot load_slot(std::size_t slot_index) const {
    abi::Slot slot;
    load_slot_head(slot_index, slot);
    load_slot_args(slot_index, slot);
    return slot;
  }
  /// Reads opcode, tenant and priority of a claimed slot. The status is set to CLAIMED without
  /// reading it: it was just stored, and a load of status and opcode together would wait until that
  /// store has left the store buffer.
  void load_slot_head(std::size_t slot_index, abi::Slot& slot) const {
    slot.status = abi::SlotStatus::claimed;
    slot.opcode = load_relaxed(slot_index * abi::kSlotWords + 1);
    load_pairs(slot_index, slot, std::index_sequence<1>{});
  }
  /// Reads the arguments of a claimed slot.
  void load_slot_args(std::size_t slot_index, abi::Slot& slot) const {
    load_pairs(slot_index, slot, std::index_sequence<2, 3, 4, 5, 6, 7>{});
  }

  /// Writes a whole slot of a ring: the payload first, then the status with release, so that a
  /// worker that acquires the status sees the payload. All 64 bytes are written back to back: a
  /// device pays 13 times more for lines that are half written.
  void store_slot(std::size_t slot_index, const abi::Slot& slot) {
    Word* const line = words_ + slot_index * abi::kSlotWords;
    std::atomic_ref(line[1]).store(slot.opcode, std::memory_order_relaxed);
    // Eight bytes a store halve the stores; x86-64 and the PCIe bus keep each of them whole.
    // Not a loop: a loop that the compiler does not unroll would build the slot in memory first.
    const auto store_pairs = [&]<std::size_t... kPair>(std::index_sequence<kPair...>) {
      (__atomic_store_n(reinterpret_cast<WordPair*>(line + 2 * (kPair + 1)),
                        detail::slot_pair(slot, kPair + 1), __ATOMIC_RELAXED),
       ...);
    };
    store_pairs(std::make_index_sequence<abi::kSlotWords / 2 - 1>{});
    std::atomic_ref(line[0]).store(static_cast<Word>(slot.status), std::memory_order_release);
  }

  /// Writes a published slot with `args` as its first arguments and zero for the others. The slot
  /// is not built in memory first: reading it back would wait for the stores.
  void store_slot(std::size_t slot_index, const SlotHead& head, std::span<const Word> args) {
    Word* const line = words_ + slot_index * abi::kSlotWords;
    std::atomic_ref(line[1]).store(head.opcode, std::memory_order_relaxed);
    const auto store_pair = [line](std::size_t first_word, Word low, Word high) {
      __atomic_store_n(reinterpret_cast<WordPair*>(line + first_word),
                       (std::uint64_t{high} << 32) | low, __ATOMIC_RELAXED);
    };
    store_pair(2, head.tenant, head.priority);
    std::size_t i = 0;
    for (; i < args.size(); i += 2) {
      store_pair(abi::kSlotFirstArg + i, args[i], i + 1 < args.size() ? args[i + 1] : 0);
    }
    for (; i < abi::kSlotArgs; i += 2) store_pair(abi::kSlotFirstArg + i, 0, 0);
    std::atomic_ref(line[0]).store(static_cast<Word>(abi::SlotStatus::published),
                                   std::memory_order_release);
  }

  /// Copies the words, in rising order and each with acquire, to private bytes of the same length.
  /// A slot whose status is read as DONE shows the results its worker stored before; a slot that is
  /// republished meanwhile may show newer words behind an older status.
  Result<void> copy_to(std::span<std::byte> target) const;

 private:
  using WordPair __attribute__((may_alias)) = std::uint64_t;

  template <std::size_t... kPair>
  void load_pairs(std::size_t slot_index, abi::Slot& slot, std::index_sequence<kPair...>) const {
    const Word* const line = words_ + slot_index * abi::kSlotWords;
    (detail::set_slot_pair(
         slot, kPair,
         __atomic_load_n(reinterpret_cast<const WordPair*>(line + 2 * kPair), __ATOMIC_RELAXED)),
     ...);
  }

  LiveWords(Buffer buffer, Word* words, std::size_t size)
      : buffer_(buffer), words_(words), size_(size) {}

  Buffer buffer_;
  Word* words_;
  std::size_t size_;
};

}  // namespace everkernel::protocol
