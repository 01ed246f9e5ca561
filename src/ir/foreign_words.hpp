// Words of other languages that people write in handlers.
#pragma once

#include <string_view>

#include "everkernel/base/suggestion.hpp"

namespace everkernel::ir {

/// The language's word for one of another language, such as `len` for `length`; else empty.
std::string_view foreign_word(std::string_view word);

}  // namespace everkernel::ir
