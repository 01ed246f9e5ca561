// Text to program. Checks the grammar only; the verifier checks names, types and rules.
#pragma once

#include <string_view>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/diagnostic.hpp"
#include "everkernel/ir/limits.hpp"
#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// Parses handler text, which may be any bytes. Fails with `invalid_argument` at the first mistake;
/// the message begins with `line:column:`. A text longer than `limit` bytes is refused unread.
/// If the text is refused, `diagnostics` receives every mistake, and also those that the verifier
/// finds in the statements without one.
Result<Program> parse(std::string_view text, std::size_t limit = kMaxProgramBytes,
                      Diagnostics* diagnostics = nullptr);

}  // namespace everkernel::ir
