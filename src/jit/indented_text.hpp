// Generated source text that is indented by its blocks.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace everkernel::jit {

/// Text that grows line by line.
class IndentedText {
 public:
  /// Adds a line.
  template <class... Parts>
  void line(fmt::format_string<Parts...> pattern, Parts&&... parts) {
    text_.append(2 * level_, ' ');
    fmt::format_to(std::back_inserter(text_), pattern, std::forward<Parts>(parts)...);
    text_ += '\n';
  }
  /// Adds a line that opens a block: lines after it are one level deeper.
  template <class... Parts>
  void open(fmt::format_string<Parts...> pattern, Parts&&... parts) {
    line(pattern, std::forward<Parts>(parts)...);
    ++level_;
  }
  /// Ends the innermost block.
  void close() {
    --level_;
    line("}}");
  }
  /// Ends the innermost block and opens its else.
  void open_else() {
    --level_;
    open("}} else {{");
  }
  /// The text so far; the object is empty afterwards.
  std::string take() { return std::exchange(text_, {}); }

 private:
  std::string text_;
  std::size_t level_ = 0;
};

}  // namespace everkernel::jit
