// Files of handlers: read, parsed and verified in one step, with all their mistakes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/diagnostic.hpp"
#include "everkernel/ir/program.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::cli {

/// Longest file of handlers, unless --handlers-limit says otherwise.
inline constexpr std::uint64_t kDefaultHandlersLimit = std::uint64_t{64} << 20;

/// A file of handlers. It has either mistakes or a verified program.
struct HandlerFile {
  std::string path = {};                             ///< as the user wrote it
  std::string text = {};                             ///< what the file holds
  ir::Program program = {};                          ///< as written
  std::optional<ir::VerifiedProgram> verified = {};  ///< what may run
  ir::Diagnostics mistakes = {};                     ///< why nothing may
};

/// Reads and checks a file of at most `limit` bytes. Fails with `io` if it cannot be read; mistakes
/// in the text are in the result.
Result<HandlerFile> check_handlers(const std::string& path, std::uint64_t limit);

/// The verified program of a file. If the text has mistakes, fails with `invalid_argument`; the
/// message shows them with their lines and carets.
Result<ir::VerifiedProgram> verified_program(HandlerFile file);

}  // namespace everkernel::cli
