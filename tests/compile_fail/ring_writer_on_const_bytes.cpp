// A writer needs bytes that may be written.
// expect: no matching|cannot convert|could not convert|no viable|invalid conversion
#include "everkernel/protocol/ring_writer.hpp"

using namespace everkernel;

#if defined(EVERKERNEL_BAD)
using Bytes = std::span<const std::byte>;
#else
using Bytes = std::span<std::byte>;
#endif

bool can_bind(Bytes bytes) {
  return protocol::RingWriter::bind(bytes).has_value();
}
