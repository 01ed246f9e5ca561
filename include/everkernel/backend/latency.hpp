// How soon a kernel without work sees the next item.
#pragma once

#include "everkernel/abi/platform.hpp"

namespace everkernel::backend {

/// What a kernel that stays does while nothing is published.
enum class Latency : abi::Word {
  normal,  ///< saves power: a first item after a while may wait a little longer
  lowest,  ///< a GPU looks for items at full speed for ever; a CPU does as with `normal`
};

}  // namespace everkernel::backend
