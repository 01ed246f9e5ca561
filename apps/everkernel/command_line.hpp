// Matches the arguments of the program with its commands. CLI11 does the matching; it is included
// by command_line.cpp only, because it takes seconds to compile.
#pragma once

#include <string>

#include "command.hpp"

namespace everkernel::cli {

/// The help of the whole program.
std::string help_text(const Command& program);

/// Reads the arguments into the options of the command they name and gives its action. `--help` and
/// `--version` give an action that prints them. Fails with `invalid_argument` on wrong usage.
Result<Action> parse_command_line(const Command& program, int argc, const char* const* argv);

}  // namespace everkernel::cli
