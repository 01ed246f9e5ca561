// The item as the C++ function of a trusted handler sees it. src/jit/device/trusted.cuh gives CUDA
// texts the same names, so that the body of a simple handler is the same source for both.
//
// Accesses are checked like those of verified handlers, but a failed access does not end the
// function: it reads 0 or writes nothing, and the item ends as FAULT with its code, whatever the
// function returns. Of several fault codes the lowest is kept, on every backend.
//
//   Outcome add_one(TrustedItem& item) {
//     const auto input = item.input(), output = item.output();
//     item.each(input.length(), [&](Word i) { output.store(i, input.load(i) + 1); });
//     return item.done();
//   }
#pragma once

#include <algorithm>
#include <atomic>
#include <span>
#include <type_traits>

#include "everkernel/ir/trusted.hpp"

namespace everkernel::ir {

/// A buffer with the access rights of one item, or the control words. It refers to its item and
/// must not outlive it. Accesses are relaxed atomics: words that other items use at the same time
/// never tear, and have no order.
class TrustedBuffer {
 public:
  /// Number of words. 0 and a fault where the handle names no buffer, or one of another tenant.
  Word length() const {
    if (reason_ != 0) [[unlikely]] {
      note(reason_);
    }
    return length_;
  }
  /// A word.
  Word load(Word index) const {
    if (index < readable_) [[likely]] {
      return at(index).load(std::memory_order_relaxed);
    }
    note(reason_of(index, kRead));
    return 0;
  }
  /// Replaces a word.
  void store(Word index, Word value) const {
    if (is_writable(index)) [[likely]] {
      return at(index).store(value, std::memory_order_relaxed);
    }
    note(reason_of(index, kWrite));
  }

  /// Adds to a word; returns the word before.
  Word atomic_add(Word index, Word value) const {
    return change(index, [&](auto word) { return word.fetch_add(value, kRelaxed); });
  }
  /// Stores the smaller of the word and the value; returns the word before.
  Word atomic_min(Word index, Word value) const {
    return exchange_by(index, [&](Word before) { return std::min(before, value); });
  }
  /// Stores the larger of the word and the value; returns the word before.
  Word atomic_max(Word index, Word value) const {
    return exchange_by(index, [&](Word before) { return std::max(before, value); });
  }
  /// Keeps the bits that the value has too; returns the word before.
  Word atomic_and(Word index, Word value) const {
    return change(index, [&](auto word) { return word.fetch_and(value, kRelaxed); });
  }
  /// Sets the bits of the value; returns the word before.
  Word atomic_or(Word index, Word value) const {
    return change(index, [&](auto word) { return word.fetch_or(value, kRelaxed); });
  }
  /// Flips the bits of the value; returns the word before.
  Word atomic_xor(Word index, Word value) const {
    return change(index, [&](auto word) { return word.fetch_xor(value, kRelaxed); });
  }
  /// Replaces a word; returns the word before.
  Word atomic_exchange(Word index, Word value) const {
    return change(index, [&](auto word) { return word.exchange(value, kRelaxed); });
  }
  /// Replaces a word if it is `expected`; returns the word before.
  Word atomic_cas(Word index, Word expected, Word desired) const {
    return change(index, [&](auto word) {
      word.compare_exchange_strong(expected, desired, kRelaxed);
      return expected;
    });
  }

  /// All its words as plain memory, so that loops can be vectorised. Only for words that no other
  /// item writes meanwhile. Empty and a fault without the right to read.
  std::span<const Word> readable() const {
    const Word reason = missing_right(0, kRead);
    if (reason != 0) note(reason);
    return {words_, readable_};
  }
  /// All its words as plain memory to write, and to read where the item may read them. Only for
  /// words that no other item touches meanwhile. Empty and a fault without the right to write.
  std::span<Word> writable() const {
    const Word reason = missing_right(0, kWrite);
    if (reason != 0) note(reason);
    return {words_, reason == 0 ? writable_ : 0};
  }

 private:
  friend class TrustedItem;
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  static constexpr Word kRead = static_cast<Word>(memory::Access::read);
  static constexpr Word kWrite = static_cast<Word>(memory::Access::write);

  explicit TrustedBuffer(Word& fault) : fault_(&fault) {}
  std::atomic_ref<Word> at(Word index) const { return std::atomic_ref(words_[index]); }
  bool is_writable(Word index) const { return index < writable_ && index >= first_writable_; }
  void note(Word code) const { *fault_ = std::min(*fault_, code); }
  Word missing_right(Word index, Word needed) const;
  Word reason_of(Word index, Word needed) const;

  Word change(Word index, const auto& operation) const {
    if (index < readable_ && is_writable(index)) [[likely]] {
      return operation(at(index));
    }
    note(reason_of(index, kRead | kWrite));
    return 0;
  }
  Word exchange_by(Word index, const auto& next) const {
    return change(index, [&](auto word) {
      Word before = word.load(kRelaxed);
      while (!word.compare_exchange_weak(before, next(before), kRelaxed)) {
      }
      return before;
    });
  }

  Word* words_ = nullptr;
  Word length_ = 0;
  Word readable_ = 0;        // words that may be loaded: all or none
  Word writable_ = 0;        // words that may be stored to: all or none
  Word first_writable_ = 0;  // only tenant 0 may write control words below this
  Word access_ = 0;          // bits of memory::Access
  Word reason_ = 0;          // fault code where there is no buffer to use, else 0
  Word* fault_;
};

/// One run of one item. On the CPU one thread does the work of all lanes.
class TrustedItem {
 public:
  /// An item over a frame; tests of handlers make one by hand.
  explicit TrustedItem(ItemFrame& frame) : frame_(frame) {}
  TrustedItem(const TrustedItem&) = delete;             ///< buffers refer to it
  TrustedItem& operator=(const TrustedItem&) = delete;  ///< buffers refer to it

  Word opcode() const { return frame_.opcode; }      ///< of the slot
  Word tenant() const { return frame_.tenant; }      ///< of the slot
  Word priority() const { return frame_.priority; }  ///< of the slot
  Word slot() const { return frame_.slot; }          ///< its index
  Word param() const { return frame_.args[2]; }      ///< args()[2]
  /// The item's own copy of its arguments. Changes are kept if the handler has `writes_args`.
  std::span<Word, abi::kSlotArgs> args() { return frame_.args; }

  /// The buffer of a handle. The call itself never faults; an access to the buffer may.
  TrustedBuffer buffer(Word handle);
  /// The buffer that args()[0] names.
  TrustedBuffer input() { return buffer(frame_.args[0]); }
  /// The buffer that args()[1] names.
  TrustedBuffer output() { return buffer(frame_.args[1]); }
  /// The control words. Every item may read them and write those from 160 up; tenant 0 may write
  /// all of them.
  TrustedBuffer control();

  /// Lanes of the scope: 1, 32 or the workgroup size.
  Word lanes() const { return frame_.lanes; }
  /// Runs `turn(i)`, or `turn(i, lane)`, for i below `count`, and returns when all turns have
  /// ended. Turn k belongs to lane k mod lanes(). Once the abort token is set, it returns early and
  /// the item ends as FAULT (deadline).
  template <class Turn>
  void each(Word count, const Turn& turn) {
    Word lane = 0;
    for (Word first = 0; first < count;) {
      if (should_stop()) return note(static_cast<Word>(abi::FaultCode::deadline));
      const Word end = first + std::min(count - first, kTurnsBetweenPolls);
      for (; first < end; ++first) {
        if constexpr (std::is_invocable_v<const Turn&, Word, Word>) {
          turn(first, lane);
          lane = lane + 1 == frame_.lanes ? 0 : lane + 1;
        } else {
          turn(first);
        }
      }
    }
  }

  /// Index of this thread among the threads that run the item. The CPU has one thread an item; on
  /// a GPU every thread of the scope runs the text, so that code outside each() runs once a thread.
  Word thread() const { return 0; }
  /// Number of threads that run the item: a loop by hand begins at thread() and steps by this.
  Word thread_count() const { return 1; }
  /// Whether this is the leading thread: work that must happen once is done behind `if (leads())`.
  bool leads() const { return true; }
  /// Waits for the item's other threads; their writes before it are visible after it.
  void meet() const {}
  /// Returns the value of the leading thread, on every thread.
  Word from_leader(Word value) const { return value; }
  /// Returns the smallest value of all threads, on every thread.
  Word lowest(Word value) const { return value; }
  /// Returns the sum of the values of all threads, on every thread.
  Word total(Word value) const { return value; }

  /// Whether the abort token is set. The function then returns stop(); nothing else ends it, so
  /// that long loops by hand must ask regularly.
  bool should_stop() const {
    if (frame_.abort == nullptr) return false;
    return std::atomic_ref(const_cast<Word&>(*frame_.abort)).load(std::memory_order_relaxed) != 0;
  }

  /// Appends a record to the debug log.
  void print(Word fmt, Word a, Word b) const {
    const ItemHooks* const hooks = frame_.hooks;
    if (hooks != nullptr && hooks->print != nullptr) hooks->print(hooks->self, fmt, a, b);
  }
  /// Appends a hit.
  void emit(Word a, Word b, Word c) const {
    const ItemHooks* const hooks = frame_.hooks;
    if (hooks != nullptr && hooks->emit != nullptr) hooks->emit(hooks->self, a, b, c);
  }

  // The outcomes that a handler can return.

  /// Complete.
  Outcome done() const { return {}; }
  /// Runs again, soon. Needs the effect can_yield.
  Outcome yield() const { return {Ending::yield, 0}; }
  /// Runs again, later. Needs the effect can_yield.
  Outcome requeue() const { return {Ending::requeue, 0}; }
  /// FAULT with code 256 + n.
  Outcome fault(Word n) const { return {Ending::fault, user_fault_code(n)}; }
  /// FAULT (deadline), the outcome once should_stop() is true.
  Outcome stop() const { return {Ending::fault, static_cast<Word>(abi::FaultCode::deadline)}; }
  /// Asks to read `byte_count` bytes from 4096 × `block` of a source into a buffer, and runs again
  /// when they are there. Needs the effect can_await.
  Outcome await_read(Word source, Word block, Word destination, Word byte_count) {
    frame_.io = {0, source, block, destination, byte_count};
    return {Ending::wait_io, 0};
  }
  /// Asks to write, in the same way.
  Outcome await_write(Word source, Word block, Word destination, Word byte_count) {
    frame_.io = {1, source, block, destination, byte_count};
    return {Ending::wait_io, 0};
  }

  /// The lowest fault code of the accesses so far; 0 if none failed.
  Word fault_code() const { return fault_ == kNoFault ? 0 : fault_; }

 private:
  static constexpr Word kNoFault = 0xFFFFFFFF;
  // A poll at every turn would keep loops from being vectorised.
  static constexpr Word kTurnsBetweenPolls = 256;

  void note(Word code) { fault_ = std::min(fault_, code); }

  ItemFrame& frame_;
  Word fault_ = kNoFault;
};

}  // namespace everkernel::ir
