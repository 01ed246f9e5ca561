// One hit: the record that emit(a, b, c) appends to the hit buffer of a run or dispatch.
#pragma once

#include "everkernel/abi/platform.hpp"

namespace everkernel::abi {

/// The values of one emit and the item that emitted them. Fixed layout: kernels write it.
struct Hit {
  Word item = 0;  ///< in a run, the index of the item in the list; in a dispatch, its slot index
  Word a = 0;     ///< first value
  Word b = 0;     ///< second value
  Word c = 0;     ///< third value

  /// Equal in every field.
  EVERKERNEL_HOST_DEVICE friend constexpr bool operator==(const Hit& x, const Hit& y) {
    return x.item == y.item && x.a == y.a && x.b == y.b && x.c == y.c;
  }
};
static_assert(sizeof(Hit) == 16 && alignof(Hit) == 4);

}  // namespace everkernel::abi
