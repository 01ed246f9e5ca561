// LiveWords are made by bind, which checks that the memory is aligned to a line.
// expect: is private within|a private constructor
#include "everkernel/protocol/words.hpp"

using namespace everkernel;

std::size_t size(std::span<abi::Word> memory) {
#if defined(EVERKERNEL_BAD)
  return protocol::LiveWords(protocol::Buffer::ring, memory.data(), memory.size()).size();
#else
  const auto bytes = std::as_writable_bytes(memory);
  const auto words = protocol::LiveWords::bind(protocol::Buffer::ring, bytes);
  return words ? words->size() : 0;
#endif
}
