// Helpers that the fuzz targets share. Each target is one libFuzzer entry point that decodes its
// input and checks the rules that hold for all accepted bytes; EVERKERNEL_ASSERT stops the program
// if one is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "everkernel/base/assert.hpp"
#include "everkernel/base/result.hpp"
#include "support/bytes.hpp"
#include "support/results.hpp"

namespace everkernel::fuzz {

/// The input as the decoders take it.
inline std::span<const std::byte> input_bytes(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

/// Refused bytes have the code `corrupt` and a message.
template <class T>
void check_refused(const Result<T>& result) {
  EVERKERNEL_ASSERT(!result && result.error().code == Code::corrupt);
  EVERKERNEL_ASSERT(!result.error().message.empty());
}

/// Bytes are accepted exactly if `is_sound`, and otherwise refused as above.
template <class T>
bool check_accepted(const Result<T>& result, bool is_sound) {
  EVERKERNEL_ASSERT(result.has_value() == is_sound);
  if (!is_sound) check_refused(result);
  return is_sound;
}

}  // namespace everkernel::fuzz
