// Replaces src/jit/device/lanes.cuh on the host: the lanes of a warp or group are fibers that take
// turns at every barrier. Accesses between two barriers run in two orders, so that code which
// relies on one order fails.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include "jit/device/types.hpp"
#include "jit/device/values.cuh"

namespace everkernel::device {

struct OneLane {
  static constexpr bool kHasTile = false;
  static constexpr bool kKeepsOrder = true;
  static constexpr bool kIsOne = true;
  Word index() const { return 0; }
  Word count() const { return 1; }
  bool leads() const { return true; }
  void meet() const {}
  void converge() const {}
  Word from_leader(Word value) const { return value; }
  bool meet_any(bool value) const { return value; }
  Word lowest(Word value) const { return value; }
  template <class Number>
  Number total(Number value) const {
    return value;
  }
};

/// The lanes of an item. Each runs to its next barrier, then the next lane runs.
class Fibers {
 public:
  static constexpr Word kLanes = 5;  // few, and no power of two
  static constexpr unsigned long kStackBytes = 256 * 1024;

  /// Runs `lane(index)` for every lane. Returns a text if the lanes did not reach the same
  /// barriers, else null.
  template <class Lane>
  const char* run(const Lane& lane) {
    body_ = [](const void* callable, Word index) { (*static_cast<const Lane*>(callable))(index); };
    callable_ = &lane;
    for (Word i = 0; i < kLanes; ++i) prepare(lanes_[i]);
    for (Word round = 0;; ++round) {
      // The leader is first in one round and last in the next: code that relies on either fails.
      for (Word i = 0; i < kLanes; ++i) {
        current_ = round % 2 == 0 ? kLanes - 1 - i : i;
        resume(lanes_[current_]);
      }
      Word ended = 0;
      for (const Fiber& fiber : lanes_) ended += fiber.has_ended ? 1 : 0;
      if (ended == kLanes) return nullptr;
      if (ended != 0) return "some lanes ended while others wait to meet";
      for (const Fiber& fiber : lanes_) {
        if (fiber.where != lanes_[0].where) return "lanes wait to meet at different places";
      }
    }
  }

  Word current() const { return current_; }
  /// A barrier to which every lane brings a value; returns the values of all lanes.
  const Wide* meet(Word where, Wide value) {
    Fiber& fiber = lanes_[current_];
    // A lane reads the values of one barrier before it reaches the next: two boards are enough.
    Wide* const board = boards_[fiber.meetings++ % 2];
    board[current_] = value;
    fiber.where = where;
    pause(fiber);
    return board;
  }

 private:
  struct Fiber {
    alignas(16) char stack[kStackBytes];
    ucontext_t context;  // of the lane's first instruction
    jmp_buf place;       // where the lane continues
    Word where;
    Word meetings;
    bool has_begun;
    bool has_ended;
  };

  static void prepare(Fiber& fiber);
  static void begin();
  void resume(Fiber& fiber);
  void pause(Fiber& fiber);

  Fiber lanes_[kLanes];
  jmp_buf main_;
  Wide boards_[2][kLanes];
  Word current_;
  void (*body_)(const void*, Word);
  const void* callable_;
};
inline Fibers fibers;

inline void Fibers::prepare(Fiber& fiber) {
  fiber.meetings = 0;
  fiber.has_begun = fiber.has_ended = false;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = kStackBytes;
  makecontext(&fiber.context, &Fibers::begin, 0);
}
inline void Fibers::begin() {
  fibers.body_(fibers.callable_, fibers.current_);
  fibers.lanes_[fibers.current_].has_ended = true;
  _longjmp(fibers.main_, 1);
}
// By longjmp: swapcontext() makes a system call for the signal mask each time.
inline void Fibers::resume(Fiber& fiber) {
  if (_setjmp(main_) != 0) return;
  if (fiber.has_begun) _longjmp(fiber.place, 1);
  fiber.has_begun = true;
  setcontext(&fiber.context);
}
inline void Fibers::pause(Fiber& fiber) {
  if (_setjmp(fiber.place) == 0) _longjmp(main_, 1);
}

/// The lanes of a warp or group, as fibers.
struct ManyLanes {
  static constexpr bool kHasTile = true;
  static constexpr bool kKeepsOrder = false;
  static constexpr bool kIsOne = false;
  Word index() const { return fibers.current(); }
  Word count() const { return Fibers::kLanes; }
  bool leads() const { return fibers.current() == 0; }
  void meet() const { fibers.meet(1, 0); }
  void converge() const {}
  Word from_leader(Word value) const { return static_cast<Word>(fibers.meet(2, value)[0]); }
  bool meet_any(bool value) const {
    const Wide* const all = fibers.meet(3, value);
    bool any = false;
    for (Word i = 0; i < Fibers::kLanes; ++i) any = any || all[i] != 0;
    return any;
  }
  Word lowest(Word value) const {
    const Wide* const all = fibers.meet(4, value);
    Word least = ~0u;
    for (Word i = 0; i < Fibers::kLanes; ++i) least = min_u32(least, static_cast<Word>(all[i]));
    return least;
  }
  template <class Number>
  Number total(Number value) const {
    const Wide* const all = fibers.meet(5, value);
    Number sum = 0;
    for (Word i = 0; i < Fibers::kLanes; ++i) sum += static_cast<Number>(all[i]);
    return sum;
  }
};
using WarpLanes = ManyLanes;
using GroupLanes = ManyLanes;

/// The barrier of a block.
inline void __syncthreads() {
  fibers.meet(6, 0);
}

}  // namespace everkernel::device
