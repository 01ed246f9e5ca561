// Not a decoder: crashes on its one seed, so that a test shows that run_fuzz.sh notices.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 5 && std::memcmp(data, "crash", 5) == 0) std::abort();
  return 0;
}
