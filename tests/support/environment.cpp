// Tests compile what they test, and leave the cache of whoever runs them alone. A test of the cache
// names a folder of its own. EVERKERNEL_TEST_CACHE_DIR=folder is for many processes that would
// compile the same.
#include <cstdlib>

namespace everkernel::test {
namespace {

int choose_cache() {
  const char* const folder = std::getenv("EVERKERNEL_TEST_CACHE_DIR");
  return ::setenv("EVERKERNEL_CACHE_DIR", folder == nullptr ? "off" : folder, 1);
}

// Before main(), and so before anything could open a cache; programs that tests start inherit it.
[[maybe_unused]] const int kCacheIsChosen = choose_cache();

}  // namespace
}  // namespace everkernel::test

#if defined(__SANITIZE_THREAD__)
// NVRTC is not compiled for this: what it orders by atomics of its own looks like a race.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libnvrtc.so\n";
}
#endif
