// Reads, parses and verifies files of handlers.
#include "handler_file.hpp"

#include <utility>

#include "everkernel/ir/parser.hpp"
#include "files.hpp"

namespace everkernel::cli {

Result<HandlerFile> check_handlers(const std::string& path, std::uint64_t limit) {
  auto read = read_file(path, limit);
  if (!read && read.error().native == 0 && read.error().hint.empty()) {
    read.error().hint = "--handlers-limit SIZE sets the length of the longest file of handlers";
  }
  const Bytes bytes = EVERKERNEL_TRY(std::move(read));
  HandlerFile file{.path = path,
                   .text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  auto program = ir::parse(file.text, limit, &file.mistakes);
  if (!program) return file;
  file.program = *program;
  auto verified = ir::verify(*std::move(program), &file.mistakes);
  if (verified) file.verified = *std::move(verified);
  return file;
}

Result<ir::VerifiedProgram> verified_program(HandlerFile file) {
  if (file.verified) return *std::move(file.verified);
  return fail(Code::invalid_argument, ir::render(file.mistakes, file.text, file.path));
}

}  // namespace everkernel::cli
