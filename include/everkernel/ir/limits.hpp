// How large a handler may be. The verifier holds everything to these; the parser stops early at
// them.
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
/// Most blocks inside each other; the body of the handler is the first.
inline constexpr std::size_t kMaxNesting = 16;
/// Most parentheses and signs inside each other that the parser follows.
inline constexpr std::size_t kMaxParserDepth = 256;
/// Fuel an item has unless the megakernel says otherwise.
inline constexpr std::uint64_t kDefaultFuel = std::uint64_t{1} << 26;

}  // namespace everkernel::ir
