// A writer for private bytes is no writer for memory that workers use: it would not be atomic.
// expect: convert|no viable|no known conversion|invalid initialization
#include "everkernel/protocol/ring_writer.hpp"

using namespace everkernel;

abi::Word count(protocol::LiveRingWriter& writer) {
  return writer.slot_count();
}

#if defined(EVERKERNEL_BAD)
using Writer = protocol::RingWriter;
#else
using Writer = protocol::LiveRingWriter;
#endif

abi::Word count_all(Writer& writer) {
  return count(writer);
}
