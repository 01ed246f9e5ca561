// The reference execution of handlers: slow and simple. Every other execution must give its
// results.
#pragma once

#include "everkernel/ir/item.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::ir {

/// Runs one item to its end, bounded by the frame's fuel and abort word. Words of buffers and
/// control are read and written with relaxed atomics, so that any number of items may run at one
/// time.
Outcome interpret(const VerifiedHandler& handler, ItemFrame& frame);

}  // namespace everkernel::ir
