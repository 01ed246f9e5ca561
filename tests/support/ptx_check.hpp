// Reads PTX and finds accesses to memory that go around the accessors.
//
// Device code reaches global memory by inline PTX alone, and each such line says what it is for: a
// comment `ek:WHAT`. An access without one was made by the compiler from ordinary C++, with no
// order and no scope.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace everkernel::test {

/// Something that must not be there.
struct PtxViolation {
  std::size_t line = 0;   // from 1
  std::string text = {};  // of the line
  std::string what = {};  // is wrong
};

/// What was found.
struct PtxReport {
  std::vector<PtxViolation> violations = {};
  std::map<std::string, std::size_t> accesses = {};  // to global memory, by marker
};

/// Checks a text. Every access to global memory, or to memory of a kind the text does not name,
/// lies in inline assembly and has a marker of its own: `word` and `atomic` with an order and a
/// scope, `data`, `hit`, or one of the tables that nobody writes while a kernel runs, `table` and
/// `row`, which alone may be read through the non-coherent cache. Nothing is volatile, and no
/// function lies outside the text.
PtxReport check_ptx(std::string_view ptx);

/// The violations, one a line; empty if there is none.
std::string shown(const PtxReport& report);

}  // namespace everkernel::test
