// What generated code may assume about the memory it touches.
#pragma once

#include <cstdint>

namespace everkernel::jit {

/// Whether other items may touch the same buffer words at the same time. Where none can, accesses
/// are plain and atomics need no bus lock, so that loops vectorise. Control words are shared in any
/// case: counters of other workers lie there.
enum class MemoryUse : std::uint8_t {
  shared,     ///< any item may, so that every access is atomic
  exclusive,  ///< none does
  planned,    ///< only items of one handler that declares `commutes`; a plan orders all others
};

}  // namespace everkernel::jit
