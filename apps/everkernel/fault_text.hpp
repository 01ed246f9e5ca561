// Fault codes as text.
#pragma once

#include <string>

#include "everkernel/abi/platform.hpp"

namespace everkernel::cli {

using abi::Word;

/// The name and number of a fault code; for a code of a handler, the n of `fault n`.
std::string fault_text(Word code);

}  // namespace everkernel::cli
