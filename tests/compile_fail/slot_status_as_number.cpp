// A status is no number: a comparison with one has to say what it means.
// expect: convert|cannot initialize|no viable|no known conversion
#include "everkernel/abi/slot.hpp"

using namespace everkernel;

abi::Word number(abi::SlotStatus status) {
#if defined(EVERKERNEL_BAD)
  return status;
#else
  return static_cast<abi::Word>(status);
#endif
}
