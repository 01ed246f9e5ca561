// Program to text, in one canonical form: the text parses to the same program, which prints to the
// same text.
#pragma once

#include <string>

#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// Prints every handler, verified or not, with no more parentheses than needed.
std::string print(const Program& program);

}  // namespace everkernel::ir
