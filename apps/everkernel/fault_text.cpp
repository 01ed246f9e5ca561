// The text of a fault code, the same in every report.
#include "fault_text.hpp"

#include <fmt/format.h>

#include "everkernel/abi/fault.hpp"

namespace everkernel::cli {

std::string fault_text(Word code) {
  if (code < abi::kFirstUserFault) return fmt::format("{} ({})", abi::fault_name(code), code);
  return fmt::format("handler fault {} ({})", code - abi::kFirstUserFault, code);
}

}  // namespace everkernel::cli
