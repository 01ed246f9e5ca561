// How large a handler and a program may be. The verifier enforces these limits for every program;
// the parser stops at some of them early.
#pragma once

#include <cstddef>
#include <cstdint>

namespace everkernel::ir {

/// Most statements and expressions of a handler together.
inline constexpr std::size_t kMaxInstructions = 4096;
/// Most bytes of a handler's text.
inline constexpr std::size_t kMaxTextBytes = 64 * 1024;
/// Most variables of a handler, loop counters included.
inline constexpr std::size_t kMaxLocals = 256;
/// Most words of all arrays of a handler.
inline constexpr std::size_t kMaxArrayWords = 1024;
/// Most words of the arrays that a handler declares inside each.
inline constexpr std::size_t kMaxArrayWordsInEach = 64;
/// Most levels of nested blocks; the body of the handler is the first.
inline constexpr std::size_t kMaxNesting = 16;
/// Most levels of parentheses and signs in an expression.
inline constexpr std::size_t kMaxParserDepth = 256;
/// Most handlers of a program, the payload included. Handlers are compiled one by one when they are
/// needed, so that this bounds memory and the time of verifying, 0.2 seconds.
inline constexpr std::size_t kMaxHandlers = 16384;
/// Most bytes of the text of a program, unless parse() is given another limit. Comments and blanks
/// count too.
inline constexpr std::size_t kMaxProgramBytes = std::size_t{64} << 20;
/// Default fuel of an item: turns of loops it may run.
inline constexpr std::uint64_t kDefaultFuel = std::uint64_t{1} << 26;

}  // namespace everkernel::ir
