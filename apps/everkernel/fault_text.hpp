// Fault codes as text.
#pragma once

#include <string>

#include "everkernel/abi/platform.hpp"

namespace everkernel::cli {

using abi::Word;

/// The name and number of a fault code; for a code of a handler, the n of `fault n`.
std::string fault_text(Word code);

/// Which command ran the item: advice names its flags.
enum class FaultSource { dispatch, run };

/// Advice on a fault; empty for a code that the command cannot report.
std::string fault_advice(Word code, FaultSource source);

}  // namespace everkernel::cli
