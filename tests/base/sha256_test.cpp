// SHA-256 against the published results of FIPS 180-4 and of its validation suite.
#include "base/sha256.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace everkernel {
namespace {

std::string text_of(const Sha256Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

std::string digest_of(std::string_view input) {
  return text_of(sha256(std::as_bytes(std::span(input))));
}

TEST(Sha256, gives_the_published_digests) {
  EXPECT_EQ(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest_of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Lengths around the end of a block, where the padding takes one block or two.
TEST(Sha256, input_in_pieces_gives_the_digest_of_the_whole) {
  for (std::size_t size = 0; size <= 200; ++size) {
    const std::string input(size, 'x');
    for (const std::size_t piece : {1u, 7u, 55u, 64u, 65u}) {
      Sha256 hash;
      for (std::size_t at = 0; at < size; at += piece) {
        hash.add(std::as_bytes(std::span(std::string_view(input).substr(at, piece))));
      }
      EXPECT_EQ(text_of(hash.finish()), digest_of(input)) << size << " in pieces of " << piece;
    }
  }
}

}  // namespace
}  // namespace everkernel
