// Which parts of the language a handler uses, and how its runs end: the generator must reach them
// all.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "everkernel/ir/item.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::test {

/// The parts of the language in this handler, found by walking it.
std::set<std::string> features_of(const ir::VerifiedHandler& handler);
/// What a handler uses of its program, and does not hold any more when it runs.
std::set<std::string> features_of(const ir::Program& program, std::size_t handler);
/// Every part there is.
std::vector<std::string> all_features();

/// How a run ended: the ending, and the fault code by name.
std::string ending_name(const ir::Outcome& outcome);
/// Every ending a handler can have.
std::vector<std::string> all_endings();

}  // namespace everkernel::test
