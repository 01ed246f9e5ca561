// Streams: when a look finds a whole window of entries, everything that is filled becomes a
// stretch, from which crews pull portions beside each other. live_kernel.cuh opens stretches and
// runs portions.
//
// The claim of a queue is one word: the number of its present stretch, and the portions of it that
// were pulled. Pulling is one addition. A crew that comes too late for a stretch adds to no other:
// the next stretch begins with another word. The stretch is looked up by its number, and its row is
// written again only when every portion of it has ended. The row says of which number it is: a crew
// that came too late may find a later stretch there.
#pragma once

#include "backend/cuda/device/live_memory.cuh"
#include "backend/cuda/live_rows.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Entries of a portion: one for each lane of a warp.
inline constexpr Word kPortion = kWarpLanes;
/// Fewest entries of a stretch.
inline constexpr Word kLeastStretch = 4 * kPortion;

/// Tickets of one queue that a crew has pulled.
struct Portion {
  Wide first = 0;
  Word count = 0;  // 0: none
  // The stretch of which it is.
  Word stretch = 0;  // its number; 0: none
  Word stretch_count = 0;
  Wide stretch_first = 0;
};

/// The stretches of one queue.
struct Stretches {
  LiveQueueRow* row;

  /// Whether portions of the present stretch are left to pull.
  EK_DEVICE bool has_more() const {
    const Wide claim = claims().load_relaxed();
    return leaves_some(claim, load_count(static_cast<Word>(claim >> 32)));
  }

  /// The number of the present stretch, and the portions of it that were pulled.
  EK_DEVICE Wide load_claim() const { return claims().load_relaxed(); }
  /// Portions of the stretch that had this number's row before which have not ended: while there
  /// are some, no stretch of this number can be opened.
  EK_DEVICE Word load_left(Word number) const { return load_field(&stretch(number).left); }
  /// Whether a claim leaves portions of the present stretch to pull, which has that many tickets.
  EK_DEVICE static bool leaves_some(Wide claim, Word count) {
    return static_cast<Word>(claim) < portions(count);
  }

  /// Tickets of the stretch of that number; 0 if all of it has ended and its row has the number of
  /// another one by now.
  EK_DEVICE Word load_count(Word number) const {
    const Wide size = WideWord(&stretch(number).size).load_relaxed();
    return static_cast<Word>(size >> 32) == number ? static_cast<Word>(size) : 0;
  }
  /// Makes `count` tickets from `first` on the stretch of that number, the next one. Only the crew
  /// that looks calls it, with one lane, when nothing is left to pull and the row is free.
  EK_DEVICE void open(Word number, Wide first, Word count) const {
    LiveStretch& next = stretch(number);
    WideWord(&next.first).store_relaxed(first);
    WideWord(&next.size).store_relaxed(Wide{number} << 32 | count);
    one_word(&next.left).store_relaxed(0, portions(count));
    claims().store_release(Wide{number} << 32);
  }

  /// Pulls a portion. One lane calls it, with the last portion that it had of this queue.
  EK_DEVICE void pull(Portion& portion) const {
    const Wide claim = claims().fetch_add_acq_rel(1);
    const Word number = static_cast<Word>(claim >> 32);
    const Word index = static_cast<Word>(claim);
    if (portion.stretch != number) {
      portion.stretch = number;
      portion.stretch_count = load_count(number);
      portion.stretch_first = WideWord(&stretch(number).first).load_relaxed();
    }
    const Word left = portion.stretch_count - index * kPortion;
    portion.count = left < kPortion ? left : kPortion;
    if (index >= portions(portion.stretch_count)) portion.count = 0;
    portion.first = portion.stretch_first + Wide{index} * kPortion;
  }
  /// Called by one lane when nothing of a portion is in use any more.
  EK_DEVICE void end(const Portion& portion) const {
    one_word(&stretch(portion.stretch).left).add_release(0, 0u - 1);
  }

 private:
  EK_DEVICE static Word portions(Word count) { return (count + kPortion - 1) / kPortion; }
  EK_DEVICE WideWord claims() const { return WideWord(&row->claim); }
  EK_DEVICE LiveStretch& stretch(Word number) const { return row->stretches[number % kStretches]; }
};

/// How far the producer of a queue has filled it, by its own word: any number.
EK_DEVICE Wide load_filled(const Word* entries) {
  const Word* const line = entries - sizeof(abi::ProducerLine) / sizeof(Word);
  Wide filled;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1]; // ek:word"
               : "=l"(filled)
               : "l"(__cvta_generic_to_global(reinterpret_cast<const Wide*>(line) + 1)));
  return filled;
}

/// The queues that have stretches, for crews that wait: each word is the epoch of the orders and
/// the queue's place in their list, plus one.
struct StreamBoard {
  Wide* words;

  /// The place in the list that word `i` names, plus one; 0 if none of these orders.
  EK_DEVICE Word load(Word i, Word epoch) const {
    const Wide word = WideWord(words + i).load_relaxed();
    return static_cast<Word>(word >> 32) == epoch ? static_cast<Word>(word) : 0;
  }
  /// Puts a queue up, unless it is there; false if there is no room. One lane calls it.
  EK_DEVICE bool put(Word place, Word epoch) const {
    const Wide wanted = Wide{epoch} << 32 | (place + 1);
    for (Word tries = 0; tries < kBoardTries; ++tries) {
      const WideWord word(words + (place + tries) % kBoardWords);
      const Wide found = word.load_relaxed();
      if (found == wanted) return true;
      if (static_cast<Word>(found >> 32) == epoch && found != 0) continue;
      if (word.exchange_if(found, wanted)) return true;
    }
    return false;
  }

 private:
  static constexpr Word kBoardTries = 4;
};

}  // namespace everkernel::device
