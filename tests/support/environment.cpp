// Tests compile the code they test, and neither read nor fill the code cache of the user. A test of
// the cache names a folder of its own. EVERKERNEL_TEST_CACHE_DIR=folder is for many processes that
// would compile the same code.
#include <cstdlib>

namespace everkernel::test {
namespace {

int choose_cache() {
  const char* const folder = std::getenv("EVERKERNEL_TEST_CACHE_DIR");
  return ::setenv("EVERKERNEL_CACHE_DIR", folder == nullptr ? "off" : folder, 1);
}

// Set before main(), and so before any code can open a cache; programs that tests start inherit it.
[[maybe_unused]] const int kCacheIsChosen = choose_cache();

}  // namespace
}  // namespace everkernel::test

#if defined(__SANITIZE_THREAD__)
// NVRTC is not instrumented by ThreadSanitizer: accesses that NVRTC orders by its own atomics are
// reported as races.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libnvrtc.so\n";
}
#endif
