// Reports every memory access of the interpreter, so that tests can tell whether the turns of an
// `each` depend on their order. Used by tests only.
#pragma once

#include <optional>

#include "everkernel/ir/item.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::ir {

/// One access to a buffer or control word.
struct Touch {
  const Word* word = nullptr;              ///< the word
  bool is_write = false;                   ///< a store, or an atomic whose result is used
  std::optional<AtomicOp> commuting = {};  ///< an atomic that commutes, its result unused
};

/// Receives the accesses as they happen.
class TouchWatch {
 public:
  virtual ~TouchWatch() = default;
  virtual void on_each() = 0;                     ///< an each begins: its turns are independent
  virtual void on_turn(Word turn) = 0;            ///< a turn of the each begins
  virtual void on_each_end() = 0;                 ///< the each has ended
  virtual void on_touch(const Touch& touch) = 0;  ///< after every check, before the access
};

/// Like interpret(), and reports to a watch.
Outcome interpret_watched(const VerifiedHandler& handler, ItemFrame& frame, TouchWatch& watch);

}  // namespace everkernel::ir
