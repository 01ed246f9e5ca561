// Base64 with the standard alphabet, decoded into words.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "everkernel/abi/platform.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::cli {

/// The number of bytes that a text of this length stands for, less the padding at its end.
std::size_t base64_bytes(std::string_view text);

/// Decodes a text into little-endian words; the last one ends with zeros. Fails with
/// `invalid_argument` on the first character that is not base64, or if the padding is missing.
Result<std::vector<abi::Word>> decode_base64(std::string_view text);

}  // namespace everkernel::cli
