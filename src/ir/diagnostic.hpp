// How parser and verifier word a mistake: first the place, then the mistake, then the remedy.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// An error at a place of the text; nodes built from C++ have no place and are named by handler.
inline Failure mistake(Location location, std::string_view handler, std::string_view what,
                       std::string hint = {}) {
  std::string place;
  if (location.line != 0) place = fmt::format("{}:{}: ", location.line, location.column);
  std::string where;
  if (location.line == 0 && !handler.empty()) where = fmt::format("handler {}: ", handler);
  return fail(Code::invalid_argument, fmt::format("{}{}{}", place, where, what), std::move(hint));
}

}  // namespace everkernel::ir
