// Random handlers that always verify, frames to run them on, and damaged texts that mostly do not.
//
// The generator prefers runs that reach their end: most indices are guarded, most handles are
// known, most loops are short. The rest is random, so that every fault happens too.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "everkernel/ir/program.hpp"
#include "everkernel/ir/vocabulary.hpp"
#include "support/jit_random.hpp"
#include "support/jit_trial.hpp"

namespace everkernel::test {

/// Which kind of handler to generate.
struct HandlerRequest {
  std::size_t index = 0;    // makes name and opcode unique
  bool is_payload = false;  // a payload instead of a handler
};

/// The text of one handler.
std::string generate_handler(Random& random, const HandlerRequest& request);

/// The text of a program of that many handlers, in four of five cases with a payload among them.
std::string generate_batch(Random& random, std::size_t handler_count);

/// A frame for a handler of that scope.
FrameSpec generate_frame(Random& random, ir::Scope scope, Word opcode);

/// The text with a few tokens deleted, doubled, swapped or replaced.
std::string mutate(Random& random, std::string_view text);

/// A program of at least `handler_count` handlers, each from a damaged text that still verifies.
/// Adds the number of damaged texts it tried to `tried`, and passes each to `look` before it is
/// parsed.
ir::Program generate_survivors(Random& random, std::size_t handler_count, std::size_t& tried,
                               const std::function<void(const std::string& text)>& look);

/// A program of at least `handler_count` handlers, some of those whose trees were damaged in up to
/// three fields and still verify. Adds the number of damaged trees it tried to `tried`, and calls
/// `look` with every program that was accepted.
ir::Program generate_tree_survivors(Random& random, std::size_t handler_count, std::size_t& tried,
                                    const std::function<void(const ir::VerifiedProgram&)>& look);

}  // namespace everkernel::test
