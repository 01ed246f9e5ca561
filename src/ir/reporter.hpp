// How the parser and the verifier add a mistake.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "everkernel/ir/diagnostic.hpp"

namespace everkernel::ir {

/// Adds mistakes of one handler to a list. Nodes that were built from C++ have no place: their
/// mistakes begin with the name of the handler.
class Reporter {
 public:
  /// Adds to `diagnostics`, which must outlive this object, as must the name.
  explicit Reporter(Diagnostics& diagnostics, std::string_view handler = {})
      : diagnostics_(diagnostics), handler_(handler) {}

  /// Adds a mistake.
  void operator()(Rule rule, Location location, std::string_view what,
                  std::string hint = {}) const {
    std::string where;
    if (location.line == 0 && !handler_.empty()) where = fmt::format("handler {}: ", handler_);
    diagnostics_.add({.rule = rule,
                      .location = location,
                      .message = fmt::format("{}{}", where, what),
                      .hint = std::move(hint)});
  }

  /// Mistakes in the list so far.
  std::size_t count() const { return diagnostics_.count(); }

 private:
  Diagnostics& diagnostics_;
  std::string_view handler_;
};

}  // namespace everkernel::ir
