// Who touches what while the interpreter runs, for those who must know whether turns of an `each`
// depend on their order. Nothing outside the tests asks.
#pragma once

#include <optional>

#include "everkernel/ir/item.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::ir {

/// One access to a buffer or control word.
struct Touch {
  const Word* word = nullptr;              ///< which
  bool is_write = false;                   ///< a store, or an atomic whose result is used
  std::optional<AtomicOp> commuting = {};  ///< an atomic that commutes, its result unused
};

/// Is told what happens, as it happens.
class TouchWatch {
 public:
  virtual ~TouchWatch() = default;
  virtual void on_each() = 0;                     ///< an each begins: its turns are independent
  virtual void on_turn(Word turn) = 0;            ///< a turn of it begins
  virtual void on_each_end() = 0;                 ///< it has ended
  virtual void on_touch(const Touch& touch) = 0;  ///< after every check, before the access
};

/// Like interpret(), with someone watching.
Outcome interpret_watched(const VerifiedHandler& handler, ItemFrame& frame, TouchWatch& watch);

}  // namespace everkernel::ir
