// Fault codes as people read them.
#pragma once

#include <string>

#include "everkernel/abi/platform.hpp"

namespace everkernel::cli {

using abi::Word;

/// The name of a code and the code; of a handler's own, the number it raised.
std::string fault_text(Word code);

}  // namespace everkernel::cli
