// Files of handlers. Errors begin with FILE:LINE:COLUMN.
#pragma once

#include <cstdint>
#include <string>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/program.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::cli {

/// Longest file of handlers, unless --handlers-limit says otherwise.
inline constexpr std::uint64_t kDefaultHandlersLimit = std::uint64_t{64} << 20;

/// Reads and parses a file of at most `limit` bytes. Fails with `io`, or `invalid_argument` on the
/// first mistake.
Result<ir::Program> parse_handlers(const std::string& path, std::uint64_t limit);
/// Verifies the program of that file. Fails with `invalid_argument` on the first mistake.
Result<ir::VerifiedProgram> verify_handlers(const std::string& path, ir::Program program);

}  // namespace everkernel::cli
