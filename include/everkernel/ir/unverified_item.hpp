// What the C++ half of a native handler sees of its item. The CUDA half finds the same names in
// src/jit/device/unverified.cuh, so that simple handlers are the same text twice.
//
// Accesses are checked like those of verified handlers, but cannot stop the function: one that
// fails reads 0 or writes nothing, and the item ends as FAULT with its code, whatever the function
// returns. Of several codes the lowest counts, on every backend.
//
//   Outcome add_one(UnverifiedItem& item) {
//     const auto input = item.input(), output = item.output();
//     item.each(input.length(), [&](Word i) { output.store(i, input.load(i) + 1); });
//     return item.done();
//   }
#pragma once

#include <algorithm>
#include <atomic>
#include <span>
#include <type_traits>

#include "everkernel/ir/unverified.hpp"

namespace everkernel::ir {

/// A buffer as one item may use it, or the control words. Belongs to its item. Words that others
/// use at the same time are read and written whole, in no particular order.
class UnverifiedBuffer {
 public:
  /// Words in it. A handle that names nothing has none, and asking is a fault.
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

  /// Adds to a word, and gives the one before.
  Word atomic_add(Word index, Word value) const {
    return change(index, [&](auto word) { return word.fetch_add(value, kRelaxed); });
  }
  /// The smaller of the word and the value becomes the word; gives the one before.
  Word atomic_min(Word index, Word value) const {
    return exchange_by(index, [&](Word before) { return std::min(before, value); });
  }
  /// The larger of the word and the value becomes the word; gives the one before.
  Word atomic_max(Word index, Word value) const {
    return exchange_by(index, [&](Word before) { return std::max(before, value); });
  }
  /// Bits that are in both stay; gives the word before.
  Word atomic_and(Word index, Word value) const {
    return change(index, [&](auto word) { return word.fetch_and(value, kRelaxed); });
  }
  /// Bits that are in either are set; gives the word before.
  Word atomic_or(Word index, Word value) const {
    return change(index, [&](auto word) { return word.fetch_or(value, kRelaxed); });
  }
  /// Bits of the value are flipped; gives the word before.
  Word atomic_xor(Word index, Word value) const {
    return change(index, [&](auto word) { return word.fetch_xor(value, kRelaxed); });
  }
  /// Replaces a word, and gives the one before.
  Word atomic_exchange(Word index, Word value) const {
    return change(index, [&](auto word) { return word.exchange(value, kRelaxed); });
  }
  /// Replaces a word if it is `expected`; gives the one before.
  Word atomic_cas(Word index, Word expected, Word desired) const {
    return change(index, [&](auto word) {
      word.compare_exchange_strong(expected, desired, kRelaxed);
      return expected;
    });
  }

  /// All its words, as plain memory for loops that shall vectorise: for what no other item writes
  /// meanwhile. Empty without the right, which is a fault.
  std::span<const Word> readable() const {
    const Word reason = missing_right(0, kRead);
    if (reason != 0) note(reason);
    return {words_, readable_};
  }
  /// All its words to write, and to read where it may be read. For what no other item touches
  /// meanwhile. Empty without the right, which is a fault.
  std::span<Word> writable() const {
    const Word reason = missing_right(0, kWrite);
    if (reason != 0) note(reason);
    return {words_, reason == 0 ? writable_ : 0};
  }

 private:
  friend class UnverifiedItem;
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  static constexpr Word kRead = static_cast<Word>(memory::Access::read);
  static constexpr Word kWrite = static_cast<Word>(memory::Access::write);

  explicit UnverifiedBuffer(Word& fault) : fault_(&fault) {}
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
  Word first_writable_ = 0;  // of the control words: those below are the operator's
  Word access_ = 0;          // bits of memory::Access
  Word reason_ = 0;          // why there is nothing
  Word* fault_;
};

/// One run of one item. On the CPU one thread does the work of all lanes.
class UnverifiedItem {
 public:
  /// An item over a frame; tests of handlers make one by hand.
  explicit UnverifiedItem(ItemFrame& frame) : frame_(frame) {}
  UnverifiedItem(const UnverifiedItem&) = delete;             ///< buffers refer to it
  UnverifiedItem& operator=(const UnverifiedItem&) = delete;  ///< buffers refer to it

  Word opcode() const { return frame_.opcode; }      ///< of the slot
  Word tenant() const { return frame_.tenant; }      ///< of the slot
  Word priority() const { return frame_.priority; }  ///< of the slot
  Word slot() const { return frame_.slot; }          ///< its index
  Word param() const { return frame_.args[2]; }      ///< args()[2]
  /// The item's own copy of its arguments. What is written stays if the effects say so.
  std::span<Word, abi::kSlotArgs> args() { return frame_.args; }

  /// The buffer of a handle. Never a fault: using it may be one.
  UnverifiedBuffer buffer(Word handle);
  /// The buffer that args()[0] names.
  UnverifiedBuffer input() { return buffer(frame_.args[0]); }
  /// The buffer that args()[1] names.
  UnverifiedBuffer output() { return buffer(frame_.args[1]); }
  /// The control words: any may be read, those from 160 up written, and any by tenant 0.
  UnverifiedBuffer control();

  /// Lanes of the scope: 1, 32 or the workgroup size.
  Word lanes() const { return frame_.lanes; }
  /// Runs `turn(i)`, or `turn(i, lane)`, for i below `count`. Turns are split over the lanes, turn
  /// k belongs to lane k mod lanes(); all have ended afterwards. Ends early when the item is to
  /// stop, and then the item is FAULT (deadline).
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

  /// Which of the threads that run this item together this is. The CPU has one; on a GPU every
  /// thread runs the text, and what stands outside each() happens once a thread.
  Word thread() const { return 0; }
  /// How many they are: loops by hand begin at thread() and step by this.
  Word thread_count() const { return 1; }
  /// Whether this thread is the one to do what happens once.
  bool leads() const { return true; }
  /// Waits for the others, and sees what they did before.
  void meet() const {}
  /// The value that the leading thread has, for all.
  Word from_leader(Word value) const { return value; }
  /// The smallest value any thread has, for all.
  Word lowest(Word value) const { return value; }
  /// The sum of what the threads have, for all.
  Word total(Word value) const { return value; }

  /// The abort token: whether the item is to end, with stop(). Nothing else can end it, so that
  /// loops by hand ask now and then.
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

  // What a handler returns.

  /// Complete.
  Outcome done() const { return {}; }
  /// Runs again, soon. Needs the effect can_yield.
  Outcome yield() const { return {Ending::yield, 0}; }
  /// Runs again, later. Needs the effect can_yield.
  Outcome requeue() const { return {Ending::requeue, 0}; }
  /// FAULT with code 256 + n.
  Outcome fault(Word n) const { return {Ending::fault, user_fault_code(n)}; }
  /// FAULT (deadline): what should_stop() asks for.
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

  /// Code of the accesses that failed so far, 0 when none did.
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
