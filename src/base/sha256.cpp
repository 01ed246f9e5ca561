// SHA-256 as FIPS 180-4 defines it, in portable C++. It hashes hundreds of megabytes a second;
// programs and compiled code are hashed once per compilation and have some kilobytes.
#include "base/sha256.hpp"

#include <algorithm>
#include <bit>

namespace everkernel {
namespace {

using Word = std::uint32_t;

constexpr std::size_t kBlockBytes = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<Word, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

Word load_big_endian(const std::byte* bytes) {
  Word word = 0;
  for (std::size_t i = 0; i < sizeof word; ++i)
    word = (word << 8) | std::to_integer<Word>(bytes[i]);
  return word;
}

Word small_sigma(Word x, int first, int second, int shift) {
  return std::rotr(x, first) ^ std::rotr(x, second) ^ (x >> shift);
}

Word big_sigma(Word x, int first, int second, int third) {
  return std::rotr(x, first) ^ std::rotr(x, second) ^ std::rotr(x, third);
}

}  // namespace

void Sha256::add_block(const std::byte* block) {
  std::array<Word, 64> schedule;
  for (std::size_t i = 0; i < 16; ++i) schedule[i] = load_big_endian(block + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    schedule[i] = schedule[i - 16] + small_sigma(schedule[i - 15], 7, 18, 3) + schedule[i - 7] +
                  small_sigma(schedule[i - 2], 17, 19, 10);
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const Word choice = (e & f) ^ (~e & g);
    const Word majority = (a & b) ^ (a & c) ^ (b & c);
    const Word first = h + big_sigma(e, 6, 11, 25) + choice + kRoundConstants[i] + schedule[i];
    const Word second = big_sigma(a, 2, 13, 22) + majority;
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<Word, 8> sums = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state_.size(); ++i) state_[i] += sums[i];
}

void Sha256::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t pending = size_bytes_ % kBlockBytes;
    const std::size_t taken = std::min(bytes.size(), kBlockBytes - pending);
    std::ranges::copy(bytes.first(taken), pending_.begin() + static_cast<std::ptrdiff_t>(pending));
    size_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (size_bytes_ % kBlockBytes == 0) add_block(pending_.data());
  }
}

Sha256Digest Sha256::finish() {
  // The input ends with a one bit, zeros up to a block less 8 bytes, and the number of its bits.
  const std::uint64_t size_bits = size_bytes_ * 8;
  constexpr std::byte kEnd{0x80};
  add({&kEnd, 1});
  constexpr std::byte kZero{};
  while (size_bytes_ % kBlockBytes != kBlockBytes - sizeof size_bits) add({&kZero, 1});
  std::array<std::byte, sizeof size_bits> length;
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(size_bits >> (56 - 8 * i));
  }
  add(length);
  Sha256Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

Sha256Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

}  // namespace everkernel
