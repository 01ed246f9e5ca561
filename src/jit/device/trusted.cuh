// The item as the CUDA text of a trusted handler sees it. Names and meanings are those of
// include/everkernel/ir/trusted_item.hpp, which the C++ function sees.
//
// On a GPU every thread of the scope runs the text. Each has its own copy of the item; the copies
// are equal at first. Each thread returns how the item ended. If threads disagree, a fault of any
// thread wins, else the result of the leading thread.
//
// The number of threads may differ from the number of lanes: a block has whole warps, and at most
// 512 threads.
#pragma once

#include "jit/device/handler.cuh"

namespace everkernel::device {

/// Fault code of an item that ended in a way its handler has not declared; ir::kUndeclaredFault.
inline constexpr Word kUndeclaredFault = 0xFFFD;
/// Greater than every fault code.
inline constexpr Word kNoFault = 0xFFFFFFFFu;

/// The lowest fault code of the refused accesses of this thread.
struct FaultNote {
  Word code = kNoFault;

  EK_DEVICE void add(Word its_code) { code = min_u32(code, its_code); }
};

/// Consecutive words as plain memory.
template <class T>
struct WordSpan {
  T* words = nullptr;
  Word count = 0;

  EK_DEVICE T* data() const { return words; }
  EK_DEVICE Word size() const { return count; }
  EK_DEVICE bool empty() const { return count == 0; }
  EK_DEVICE T& operator[](Word index) const { return words[index]; }
};

// ---- buffers --------------------------------------------------------------------------------

/// Checked accesses. A refused access reads 0 or writes nothing, and its fault code is noted.
/// `Self` checks an index and makes the access.
template <class Self>
class CheckedWords {
 public:
  EK_DEVICE explicit CheckedWords(FaultNote& note) : note_(&note) {}

  EK_DEVICE Word load(Word index) const {
    if (self().can_load(index)) return self().load_word(index);
    note_->add(self().fault_of(index, kAccessRead));
    return 0;
  }
  EK_DEVICE void store(Word index, Word value) const {
    if (self().can_store(index)) return self().store_word(index, value);
    note_->add(self().fault_of(index, kAccessWrite));
  }
  EK_DEVICE Word atomic_add(Word index, Word value) const {
    return change(index, [&](const AtomicWord& word) { return word.fetch_add(value); });
  }
  EK_DEVICE Word atomic_min(Word index, Word value) const {
    return change(index, [&](const AtomicWord& word) { return word.fetch_min(value); });
  }
  EK_DEVICE Word atomic_max(Word index, Word value) const {
    return change(index, [&](const AtomicWord& word) { return word.fetch_max(value); });
  }
  EK_DEVICE Word atomic_and(Word index, Word value) const {
    return change(index, [&](const AtomicWord& word) { return word.fetch_and(value); });
  }
  EK_DEVICE Word atomic_or(Word index, Word value) const {
    return change(index, [&](const AtomicWord& word) { return word.fetch_or(value); });
  }
  EK_DEVICE Word atomic_xor(Word index, Word value) const {
    return change(index, [&](const AtomicWord& word) { return word.fetch_xor(value); });
  }
  EK_DEVICE Word atomic_exchange(Word index, Word value) const {
    return change(index, [&](const AtomicWord& word) { return word.exchange(value); });
  }
  EK_DEVICE Word atomic_cas(Word index, Word expected, Word desired) const {
    return change(index,
                  [&](const AtomicWord& word) { return word.exchange_if(expected, desired); });
  }

 protected:
  EK_DEVICE void note(Word code) const { note_->add(code); }

 private:
  EK_DEVICE const Self& self() const { return static_cast<const Self&>(*this); }

  template <class Operation>
  EK_DEVICE Word change(Word index, const Operation& operation) const {
    if (self().can_update(index)) return operation(self().atomic(index));
    note_->add(self().fault_of(index, kAccessRead | kAccessWrite));
    return 0;
  }

  FaultNote* note_;
};

/// A buffer as one item may use it.
class TrustedBuffer : public CheckedWords<TrustedBuffer> {
 public:
  EK_DEVICE TrustedBuffer(const Buffer& buffer, FaultNote& note)
      : CheckedWords(note), buffer_(buffer) {}

  EK_DEVICE Word length() const {
    if (buffer_.fault != 0) note(buffer_.fault);
    return buffer_.length;
  }
  /// All words of the buffer. No other item may write them while this one runs.
  EK_DEVICE WordSpan<const Word> readable() const {
    return plain<const Word>(kAccessRead, buffer_.readable);
  }
  /// All words of the buffer. No other item may access them while this one runs.
  EK_DEVICE WordSpan<Word> writable() const { return plain<Word>(kAccessWrite, buffer_.writable); }

 private:
  friend CheckedWords;
  EK_DEVICE bool can_load(Word index) const { return index < buffer_.readable; }
  EK_DEVICE bool can_store(Word index) const { return index < buffer_.writable; }
  EK_DEVICE bool can_update(Word index) const { return index < buffer_.updatable; }
  EK_DEVICE Word load_word(Word index) const { return load_shared(buffer_, index); }
  EK_DEVICE void store_word(Word index, Word value) const { store_shared(buffer_, index, value); }
  EK_DEVICE AtomicWord atomic(Word index) const { return buffer_.atomic(index); }
  EK_DEVICE Word fault_of(Word, Word needed) const { return access_fault(buffer_, needed); }

  template <class T>
  EK_DEVICE WordSpan<T> plain(Word needed, Word count) const {
    const bool may = buffer_.fault == 0 && (buffer_.access & needed) != 0;
    if (!may) note(access_fault(buffer_, needed));
    return {buffer_.words, count};
  }

  Buffer buffer_;
};

/// The control words. There is no way around the accessors.
class TrustedControl : public CheckedWords<TrustedControl> {
 public:
  EK_DEVICE TrustedControl(const Item& item, FaultNote& note) : CheckedWords(note), item_(&item) {}

  EK_DEVICE Word length() const { return item_->control.size(); }

 private:
  friend CheckedWords;
  EK_DEVICE bool can_load(Word index) const { return control_fault(*item_, index, false) == 0; }
  EK_DEVICE bool can_store(Word index) const { return control_fault(*item_, index, true) == 0; }
  EK_DEVICE bool can_update(Word index) const { return can_store(index); }
  EK_DEVICE Word load_word(Word index) const { return item_->control.load_relaxed(index); }
  EK_DEVICE void store_word(Word index, Word value) const {
    item_->control.store_relaxed(index, value);
  }
  EK_DEVICE AtomicWord atomic(Word index) const { return item_->control.atomic(index); }
  EK_DEVICE Word fault_of(Word index, Word needed) const {
    return control_fault(*item_, index, (needed & kAccessWrite) != 0);
  }

  const Item* item_;
};

// ---- the item -------------------------------------------------------------------------------

/// One run of one item, on one of the threads that run it together.
template <class Lanes>
class TrustedItem {
 public:
  EK_DEVICE TrustedItem(const Lanes& lanes, Item& item) : lanes_(lanes), item_(item) {}
  TrustedItem(const TrustedItem&) = delete;
  TrustedItem& operator=(const TrustedItem&) = delete;

  EK_DEVICE Word opcode() const { return item_.opcode; }
  EK_DEVICE Word tenant() const { return item_.tenant; }
  EK_DEVICE Word priority() const { return item_.priority; }
  EK_DEVICE Word slot() const { return item_.slot; }
  EK_DEVICE Word param() const { return item_.args[2]; }
  /// The args of this thread's copy. Those of the leading thread are stored if the handler declares
  /// that it writes args.
  EK_DEVICE Word (&args())[abi::kSlotArgs] { return item_.args; }

  EK_DEVICE TrustedBuffer buffer(Word handle) {
    return {find_buffer(item_.buffers, handle, item_.tenant), note_};
  }
  EK_DEVICE TrustedBuffer input() { return buffer(item_.args[0]); }
  EK_DEVICE TrustedBuffer output() { return buffer(item_.args[1]); }
  EK_DEVICE TrustedControl control() { return {item_, note_}; }

  /// `lanes` of the handler language; the number of threads may be less or greater.
  EK_DEVICE Word lanes() const { return item_.lanes; }
  /// Runs `turn(i)`, or `turn(i, lane)`, for i below `count` on all threads, which then meet.
  template <class Turn>
  EK_DEVICE void each(Word count, const Turn& turn) {
    Word turns_to_poll = 0;
    for (Wide at = thread(); at < count; at += thread_count()) {
      if (turns_to_poll == 0) {
        if (should_stop()) {
          note_.add(static_cast<Word>(FaultCode::deadline));
          break;
        }
        turns_to_poll = kPollEachTurns;
      }
      --turns_to_poll;
      const Word i = static_cast<Word>(at);
      if constexpr (requires { turn(i, i); }) {
        turn(i, thread_count() == lanes() ? thread() : i % lanes());
      } else {
        turn(i);
      }
    }
    meet();
  }

  EK_DEVICE Word thread() const { return lanes_.index(); }
  EK_DEVICE Word thread_count() const { return lanes_.count(); }
  EK_DEVICE bool leads() const { return lanes_.leads(); }
  EK_DEVICE void meet() const { lanes_.meet(); }
  EK_DEVICE Word from_leader(Word value) const { return lanes_.from_leader(value); }
  EK_DEVICE Word lowest(Word value) const { return lanes_.lowest(value); }
  EK_DEVICE Word total(Word value) const { return lanes_.total(value); }

  /// Whether the abort word is set. Threads may see different values; from_leader(should_stop()) is
  /// equal on all of them.
  EK_DEVICE bool should_stop() const {
    return item_.abort.size() != 0 && item_.abort.load_relaxed(0) != 0;
  }

  EK_DEVICE void print(Word fmt, Word a, Word b) const { print_record(item_, fmt, a, b); }
  EK_DEVICE void emit(Word a, Word b, Word c) const { append_hit(item_, a, b, c); }

  EK_DEVICE Word done() const { return outcome(Ending::done); }
  EK_DEVICE Word yield() const { return outcome(Ending::yield); }
  EK_DEVICE Word requeue() const { return outcome(Ending::requeue); }
  EK_DEVICE Word fault(Word n) const { return fault_outcome(user_fault(n)); }
  EK_DEVICE Word stop() const { return fault_outcome(static_cast<Word>(FaultCode::deadline)); }
  EK_DEVICE Word await_read(Word source, Word block, Word destination, Word byte_count) {
    item_.io = {0, source, block, destination, byte_count};
    return outcome(Ending::wait_io);
  }
  EK_DEVICE Word await_write(Word source, Word block, Word destination, Word byte_count) {
    item_.io = {1, source, block, destination, byte_count};
    return outcome(Ending::wait_io);
  }

  /// The lowest fault code of the refused accesses of this thread, 0 if there is none.
  EK_DEVICE Word fault_code() const { return note_.code == kNoFault ? 0 : note_.code; }

 private:
  Lanes lanes_;
  Item& item_;
  FaultNote note_;
};

// ---- running --------------------------------------------------------------------------------

/// The declarations of a handler that limit how its items may end.
struct Declared {
  bool can_yield, can_await, writes_args;
};

/// A copy of the args, which restores them for a handler that does not declare to write them.
struct KeptArgs {
  Word args[abi::kSlotArgs];

  EK_DEVICE explicit KeptArgs(const Item& item) {
#pragma unroll
    for (Word i = 0; i < abi::kSlotArgs; ++i) args[i] = item.args[i];
  }
  EK_DEVICE void restore(Item& item) const {
#pragma unroll
    for (Word i = 0; i < abi::kSlotArgs; ++i) item.args[i] = args[i];
  }
};

/// Gives all threads the words of the leading one: any thread may be the one that completes the
/// item.
template <class Lanes>
EK_DEVICE void share_words(const Lanes& lanes, Word* words, Word count) {
#pragma unroll
  for (Word i = 0; i < count; ++i) words[i] = lanes.from_leader(words[i]);
}
EK_DEVICE void share_words(const GroupLanes& lanes, Word* words, Word count) {
  __shared__ Word board[abi::kSlotArgs];
  __syncthreads();  // all threads have read the previous words
  if (lanes.leads()) {
    for (Word i = 0; i < count; ++i) board[i] = words[i];
  }
  __syncthreads();
  for (Word i = 0; i < count; ++i) words[i] = board[i];
}
EK_DEVICE void share_words(const OneLane&, Word*, Word) {}

/// The fault code of an ending that is a fault or was not declared; kNoFault for any other ending.
EK_DEVICE Word fault_of_ending(Word ended, const Declared& declared) {
  const Word code = ended >> 8;
  switch (static_cast<Ending>(ended & 0xFF)) {
    case Ending::done:
      return kNoFault;
    case Ending::yield:
    case Ending::requeue:
      if (declared.can_yield) return kNoFault;
      break;
    case Ending::wait_io:
      if (declared.can_await) return kNoFault;
      break;
    case Ending::fault:
      if (code != 0 && code <= 0xFFFF) return code;
      break;
  }
  return kUndeclaredFault;
}

/// Combines the results of all threads of an item into one.
template <class Lanes>
EK_DEVICE Word end_trusted(const TrustedItem<Lanes>& view, const Lanes& lanes, Item& item,
                           const KeptArgs& before, Word ended, const Declared& declared) {
  Word code = fault_of_ending(ended, declared);
  if (view.fault_code() != 0) code = min_u32(code, view.fault_code());
  if (lanes.meet_any(code != kNoFault)) code = lanes.lowest(code);
  if (declared.writes_args) {
    share_words(lanes, item.args, abi::kSlotArgs);
  } else {
    before.restore(item);
  }
  if (code != kNoFault) return fault_outcome(code);
  if (declared.can_await) share_words(lanes, &item.io.is_write, sizeof(IoAsk) / sizeof(Word));
  return outcome(static_cast<Ending>(lanes.from_leader(ended & 0xFF)));
}

}  // namespace everkernel::device
