// Characters of a text that may be any bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace everkernel::ir {

/// The character at the front of a text.
struct Character {
  char32_t point = 0;          ///< its number
  std::size_t size_bytes = 1;  ///< its bytes
  bool is_valid = false;       ///< whether the bytes are UTF-8; else it is one byte
  bool is_visible = false;     ///< whether a terminal draws it and nothing else happens
  std::size_t width = 1;       ///< columns that a terminal gives it
};

/// The character at the front of a text that is not empty.
Character first_character(std::string_view text);

}  // namespace everkernel::ir
