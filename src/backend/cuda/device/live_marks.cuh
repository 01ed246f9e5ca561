// Marks: before a crew runs items that may take long, it says which ones, where and since when, so
// that the host can show them and end them.
//
// A run of long items has a number, and an abort word that belongs to its number modulo
// kAbortWords. To end a run the host begins a pass, reads the marks and sets the abort words of the
// runs it has seen, and ends the pass. So an abort word may be set after its run is over, but it is
// the word of no other run before the numbers have gone round. Where they do, the crew says that it
// runs nothing, waits until no pass is under way that may have seen it run, and clears its words.
// The host needs no atomic operation and no kernel beside this one for that, and a crew pays for it
// once in kAbortWords runs.
#pragma once

#include "backend/cuda/device/crew.cuh"
#include "backend/cuda/device/live_memory.cuh"
#include "backend/cuda/live_rows.hpp"
#include "jit/device/lanes.cuh"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// Nanoseconds on a clock of the whole device.
EK_DEVICE Wide device_time() {
  Wide now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// The multiprocessor of this thread.
EK_DEVICE Word multiprocessor() {
  Word index;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(index));
  return index;
}

/// Stores a quad as one, for the host to copy.
EK_DEVICE void store_mark_quad(const void* at, const Quad& quad) {
  const Wide low = quad.a | Wide{quad.b} << 32;
  const Wide high = quad.c | Wide{quad.d} << 32;
  asm volatile(
      "{ .reg .b128 quad;\nmov.b128 quad, {%1, %2};\n"
      "st.relaxed.gpu.global.b128 [%0], quad; // ek:word\n}" ::"l"(__cvta_generic_to_global(at)),
      "l"(low), "l"(high)
      : "memory");
}

/// What a crew seldom needs, in shared memory: registers are for looking.
struct CrewNotes {
  Word* abort;      ///< word that ends the items that run; while none is marked, always zero
  Word number;      ///< of the last run
  Word idle_since;  ///< on the device's clock, its lower half
  Word pause;       ///< the last one between two looks, in nanoseconds; 0: none yet
};
EK_DEVICE CrewNotes& crew_notes() {
  __shared__ CrewNotes notes[kHasGroupHandlers ? 1 : EVERKERNEL_BLOCK_THREADS / kWarpLanes];
  return notes[kHasGroupHandlers ? 0 : threadIdx.x / kWarpLanes];
}

/// The mark of one crew. All lanes of the warp that looks call its functions together.
struct LiveMarker {
  const LiveParams& params;

  /// Called before the first orders: the kernel that had the marks before this one counted on.
  EK_DEVICE void arrive() const {
    const Word number = load_field(&mark()->state) / 2;
    if (lane_index() == 0) crew_notes() = {never(), number, 0, 0};
    __syncwarp();
    clear_aborts();
  }

  /// Says that the crew works by these orders: the host compares the clocks by it.
  EK_DEVICE void acknowledge(Word epoch) const {
    const Wide now = device_time();
    if (lane_index() == 0) {
      store_mark_quad(&mark()->epoch, {epoch, 0, static_cast<Word>(now), high_half(now)});
    }
    __syncwarp();
  }

  /// Marks a run of the items `ticket` + i of a queue, for the bits i of `lanes`. The first one has
  /// that opcode.
  EK_DEVICE void begin(Word queue, Wide ticket, Word lanes, Word opcode) const {
    const Wide now = device_time();
    const Word number = crew_notes().number + 1;
    const Word state = number * 2 + 1;
    Quad quad{state, queue, static_cast<Word>(now), high_half(now)};
    if (lane_index() == 1) quad = {state, lanes, static_cast<Word>(ticket), high_half(ticket)};
    if (lane_index() == 2) quad = {state, opcode, multiprocessor(), 0};
    if (lane_index() < kQuads) store_mark_quad(&mark()->state + 4 * lane_index(), quad);
    __syncwarp();
    if (lane_index() == 0) {
      crew_notes().number = number;
      crew_notes().abort = aborts() + number % kAbortWords;
    }
    __syncwarp();
  }

  /// The items of the run, if one is marked, have ended, and their outcomes are stored.
  EK_DEVICE void end() const {
    if (crew_notes().abort == never()) return;
    const Word number = crew_notes().number;
    __syncwarp();
    if (lane_index() == 0) {
      one_word(&mark()->state).store_relaxed(0, number * 2);
      crew_notes().abort = never();
    }
    __syncwarp();
    if ((number + 1) % kAbortWords == 0) clear_aborts();
  }

 private:
  static constexpr Word kQuads = 3;
  /// Nanoseconds between two looks whether the pass of the host is over.
  static constexpr Word kPassLook = 1000;

  EK_DEVICE LiveMark* mark() const { return params.marks + crew_index(); }
  EK_DEVICE Word* aborts() const { return params.aborts + Wide{crew_index()} * kAbortWords; }
  EK_DEVICE Word* never() const { return const_cast<Word*>(&params.passes->never); }
  EK_DEVICE static Word high_half(Wide value) { return static_cast<Word>(value >> 32); }

  /// Clears the abort words, which no pass of the host writes any more for runs up to this one.
  EK_DEVICE void clear_aborts() const {
    static_assert(kAbortWords == kWarpLanes);
    fence_all();  // a pass that this crew does not see has not read its mark, and finds it idle
    for (;;) {
      const Wide passes = WideWord(&params.passes->begun_and_over).load_relaxed();
      if (__all_sync(kAllLanes, high_half(passes) == static_cast<Word>(passes))) break;
      sleep(kPassLook);
    }
    one_word(aborts() + lane_index()).store_relaxed(0, 0);
    fence();
    __syncwarp();
  }
};

}  // namespace everkernel::device
