// Reads PTX and finds accesses to global memory that bypass the accessors of device code.
//
// Device code accesses global memory only by inline PTX, and each such line has a marker that names
// the memory it accesses: a comment `ek:NAME`. The compiler generated an access without a marker
// from ordinary C++, so that it has neither order nor scope.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace everkernel::test {

/// An access that breaks a rule.
struct PtxViolation {
  std::size_t line = 0;   // from 1
  std::string text = {};  // of the line
  std::string what = {};  // the rule
};

/// All violations, and how many accesses each marker has.
struct PtxReport {
  std::vector<PtxViolation> violations = {};
  std::map<std::string, std::size_t> accesses = {};  // to global memory, by marker
};

/// Checks a text. Every access to global memory, or to memory whose kind the text does not name, is
/// in inline assembly and has a marker: `word` and `atomic` (with order and scope), `data`, `hit`,
/// `table` or `row`. Only `table` and `row`, which no kernel writes, may be read through the
/// non-coherent cache. No access is volatile, and no function is outside of the text. Lanes of a
/// warp meet before a barrier that combines values.
PtxReport check_ptx(std::string_view ptx);

/// The violations, one a line; empty if there is none.
std::string shown(const PtxReport& report);

}  // namespace everkernel::test
