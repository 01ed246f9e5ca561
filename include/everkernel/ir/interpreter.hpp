// The reference execution of handlers: slow and simple. Every other execution must give its
// results.
#pragma once

#include <cstdint>
#include <optional>

#include "everkernel/ir/item.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::ir {

/// Runs one item to its end, bounded by the frame's fuel and abort word. Words of buffers and
/// control are read and written with relaxed atomics, so that any number of items may run at one
/// time.
Outcome interpret(const VerifiedHandler& handler, ItemFrame& frame);

/// Lets an item that turns out to be long leave the interpreter for faster code. That is possible
/// until its first effect, because until then running it again from the start shows nowhere.
class WayOut {
 public:
  /// Called every 4,096 turns with the turns so far. Returns whether the item should leave.
  virtual bool look(std::uint64_t turns) = 0;
  /// Called before a long loop, while the item can still leave, with the turns that the loop is
  /// expected to take; may wait for the faster code. Returns whether the item should leave.
  virtual bool expect(std::uint64_t turns) = 0;

  /// Turns that the interpreter ran, when it has returned.
  std::uint64_t turns_run = 0;

 protected:
  /// Nobody destroys an implementation through this class.
  ~WayOut() = default;
};

/// As interpret(). Returns nothing if the item left: frame and memory are then as before the call.
std::optional<Outcome> interpret(const VerifiedHandler& handler, ItemFrame& frame, WayOut& way_out);

}  // namespace everkernel::ir
