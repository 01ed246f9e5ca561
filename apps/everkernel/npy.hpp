// Headers of .npy files, the files of numpy.save(): read from any bytes, and made.
//
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html describes the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "element.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::cli {

/// Bytes at the beginning of a file from which npy_header_bytes() tells the length of its header.
inline constexpr std::size_t kNpyPrefixBytes = 12;
/// Longest header that is read; numpy writes 128 bytes for an array of numbers.
inline constexpr std::size_t kMaxNpyHeaderBytes = std::size_t{1} << 16;

/// What a header says.
struct NpyHeader {
  Element element = Element::u32;
  std::uint64_t count = 0;  ///< elements, at most 2^62 bytes together

  /// Bytes of the elements, which follow the header.
  std::uint64_t data_bytes() const { return count * info_of(element).bytes; }
};

/// The length of the header that begins with these bytes. Fails with `corrupt` if they are fewer
/// than kNpyPrefixBytes, do not begin a .npy file, or name a header that is too long.
Result<std::size_t> npy_header_bytes(std::span<const std::byte> prefix);

/// Reads a whole header. Fails with `corrupt` if it is none, and with `invalid_argument` if it
/// describes an array that is not of little-endian u1, i4, u4 or f4 in C order; never crashes.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> bytes);

/// The header of a one-dimensional array; its length is a multiple of 64 bytes.
std::string npy_header(const NpyHeader& header);

}  // namespace everkernel::cli
