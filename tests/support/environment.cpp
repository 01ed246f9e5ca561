// Tests compile what they test, and leave the cache of whoever runs them alone. A test of the cache
// names a folder of its own.
#include <cstdlib>

namespace everkernel::test {
namespace {

// Before main(), and so before anything could open a cache; programs that tests start inherit it.
[[maybe_unused]] const int kCacheIsOff = ::setenv("EVERKERNEL_CACHE_DIR", "off", 1);

}  // namespace
}  // namespace everkernel::test
