#include "everkernel/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace everkernel::detail {

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "everkernel: invariant broken: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace everkernel::detail
