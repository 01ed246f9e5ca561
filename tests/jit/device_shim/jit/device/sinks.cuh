// Replaces src/jit/device/sinks.cuh on the host: records and hits go to the hooks of the test.
#pragma once

#include "cuda_shim_frame.hpp"
#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

struct ItemSinks {
  const test::ShimHooks* hooks;
};

inline void append_record(const ItemSinks& sinks, Word, Word fmt, Word a, Word b) {
  if (sinks.hooks != nullptr) sinks.hooks->print(sinks.hooks->self, fmt, a, b);
}
inline void append_hit(const ItemSinks& sinks, Word, Word a, Word b, Word c) {
  if (sinks.hooks != nullptr) sinks.hooks->emit(sinks.hooks->self, a, b, c);
}

}  // namespace everkernel::device
