// Reads, parses and verifies files of handlers.
#include "handler_file.hpp"

#include <fmt/format.h>

#include <utility>

#include "everkernel/ir/parser.hpp"
#include "files.hpp"

namespace everkernel::cli {
namespace {

// The message already begins with line and column.
Failure at_place(const std::string& path, Error error) {
  error.message = fmt::format("{}:{}", path, error.message);
  return Failure(std::move(error));
}

}  // namespace

Result<ir::Program> parse_handlers(const std::string& path, std::uint64_t limit) {
  auto read = read_file(path, limit);
  if (!read && read.error().native == 0 && read.error().hint.empty()) {
    read.error().hint = "--handlers-limit SIZE sets the length of the longest file of handlers";
  }
  const Bytes bytes = EVERKERNEL_TRY(std::move(read));
  auto program = ir::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, limit);
  if (!program) return at_place(path, program.error());
  return program;
}

Result<ir::VerifiedProgram> verify_handlers(const std::string& path, ir::Program program) {
  auto verified = ir::verify(std::move(program));
  if (!verified) return at_place(path, verified.error());
  return verified;
}

}  // namespace everkernel::cli
