// Program to text, in one form: what is printed parses to the same program and prints the same
// again.
#pragma once

#include <string>

#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// Prints every handler, verified or not. Parentheses stand only where they are needed.
std::string print(const Program& program);

}  // namespace everkernel::ir
