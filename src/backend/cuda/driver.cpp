// Opens libcuda and looks its functions up.
#include "backend/cuda/driver.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/shared_library.hpp"

namespace everkernel::backend::cuda {
namespace {

constexpr const char* kFiles[] = {"libcuda.so.1", "libcuda.so"};
constexpr const char* kFolders[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
    "/usr/lib/wsl/lib",          "/run/opengl-driver/lib",
};
constexpr LibraryPlaces kPlaces = {
    .variable = "EVERKERNEL_LIBCUDA",
    .files = kFiles,
    .folders = kFolders,
    .advice = "install the NVIDIA driver, or name its library in EVERKERNEL_LIBCUDA",
};
constexpr std::string_view kNewerDriver = "install an NVIDIA driver for CUDA 12.0 or newer";

// CUDA_LAUNCH_BLOCKING makes every launch wait until its kernel ends. The host could then not abort
// a kernel at its deadline.
Result<void> check_environment() {
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking == nullptr || std::string_view(blocking).empty() ||
      std::string_view(blocking) == "0") {
    return {};
  }
  return fail(
      Code::unsupported,
      fmt::format("CUDA_LAUNCH_BLOCKING={} makes every launch wait for its kernel", blocking),
      "unset CUDA_LAUNCH_BLOCKING");
}

Result<Driver> find_functions(const SharedLibrary& library) {
  Driver driver;
  const char* missing = nullptr;
  const auto bind = [&]<class Function>(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(library.find(symbol));
    if (function == nullptr && missing == nullptr) missing = symbol;
  };
#define EVERKERNEL_DRIVER_FUNCTION(name, symbol, parameters) bind(driver.name, symbol)
#include "backend/cuda/driver_functions.inl"
#undef EVERKERNEL_DRIVER_FUNCTION
  if (missing == nullptr) return driver;
  return fail(Code::unsupported, fmt::format("{} has no {}", library.name(), missing),
              std::string(kNewerDriver));
}

}  // namespace

Result<Driver> Driver::load() {
  EVERKERNEL_TRY(check_environment());
  const SharedLibrary library = EVERKERNEL_TRY(SharedLibrary::open(kPlaces));
  Driver driver = EVERKERNEL_TRY(find_functions(library));
  // Checked before cuInit, which may fail on an old driver with a less helpful error.
  if (const CuResult result = driver.cuDriverGetVersion(&driver.version); result != kCuSuccess) {
    return cuda_failure(driver, result, "cuDriverGetVersion");
  }
  if (driver.version < kOldestDriverVersion) {
    return fail(Code::unsupported,
                fmt::format("the NVIDIA driver is too old: it is for CUDA {}.{}",
                            driver.version / 1000, driver.version % 1000 / 10),
                std::string(kNewerDriver));
  }
  if (const CuResult result = driver.cuInit(0); result != kCuSuccess) {
    return cuda_failure(driver, result, "cuInit");
  }
  return driver;
}

}  // namespace everkernel::backend::cuda
