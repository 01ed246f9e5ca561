// Assumptions of generated code about the memory that it uses.
#pragma once

#include <cstdint>

namespace everkernel::jit {

/// Whether other items may use the same buffer words at the same time. If none do, accesses are
/// plain and atomics need no bus lock, so that loops vectorise. Control words are always shared:
/// they include counters of other workers.
enum class MemoryUse : std::uint8_t {
  shared,     ///< any item may: every access is atomic
  exclusive,  ///< no other item does
  planned,    ///< only items of one handler that declares `commutes`; a plan orders the rest
};

}  // namespace everkernel::jit
