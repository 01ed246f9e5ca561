// PrivateWords are made by bind, which checks that the bytes are whole words.
// expect: is private within|a private constructor
#include "everkernel/protocol/words.hpp"

using namespace everkernel;

std::size_t size(std::span<std::byte> bytes) {
#if defined(EVERKERNEL_BAD)
  return protocol::PrivateWords(bytes.data(), bytes.size() / 4).size();
#else
  const auto words = protocol::PrivateWords::bind(protocol::Buffer::ring, bytes);
  return words ? words->size() : 0;
#endif
}
