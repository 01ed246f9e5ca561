// SHA-256 (FIPS 180-4): a digest for which nobody knows two inputs with equal results.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace everkernel {

using Sha256Digest = std::array<std::byte, 32>;

/// Computes a digest of bytes that arrive in pieces.
class Sha256 {
 public:
  /// Appends bytes to the input.
  void add(std::span<const std::byte> bytes);
  /// The digest of all bytes so far. Ends the input.
  Sha256Digest finish();

 private:
  void add_block(const std::byte* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_ = {};  // its first size_bytes_ % 64 bytes wait for a block
  std::uint64_t size_bytes_ = 0;
};

/// The digest of some bytes.
Sha256Digest sha256(std::span<const std::byte> bytes);

}  // namespace everkernel
