// Files of handlers. Errors begin with FILE:LINE:COLUMN.
#pragma once

#include <string>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/program.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::cli {

/// Reads and parses a file. Fails with `io`, or `invalid_argument` on the first mistake.
Result<ir::Program> parse_handlers(const std::string& path);
/// Verifies the program of that file. Fails with `invalid_argument` on the first mistake.
Result<ir::VerifiedProgram> verify_handlers(const std::string& path, ir::Program program);

}  // namespace everkernel::cli
