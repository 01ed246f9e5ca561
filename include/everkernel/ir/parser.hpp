// Text to program. Knows the grammar and nothing else: types, names and rules are the verifier's.
#pragma once

#include <string_view>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// Parses handler text. Fails with `invalid_argument` on the first mistake; the message begins with
/// `line:column:`. Takes any bytes.
Result<Program> parse(std::string_view text);

}  // namespace everkernel::ir
