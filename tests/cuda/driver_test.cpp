// Loading the driver and reading a device's properties. The error names the part that is missing.
#include "backend/cuda/driver.hpp"

#include <filesystem>

#include "backend/cuda/shared_library.hpp"
#include "cuda/fake_fixture.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::Driver;
using backend::cuda::probe_device;

class LoadingTheDriver : public WithFakeCuda {
 protected:
  /// Expects `unsupported` with this message, and a hint that contains this text.
  template <class T>
  static void expect_unsupported(const Result<T>& result, std::string_view message,
                                 std::string_view hint, std::int64_t native = 0) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::unsupported);
    EXPECT_EQ(result.error().message, message);
    EXPECT_NE(result.error().hint.find(hint), std::string::npos) << result.error().hint;
    EXPECT_EQ(result.error().native, native);
  }
};

TEST_F(LoadingTheDriver, finds_every_function_and_the_version) {
  const auto driver = Driver::load();
  ASSERT_TRUE(driver) << message_of(driver);
  EXPECT_EQ(driver->version, 13000);
#define EVERKERNEL_DRIVER_FUNCTION(name, symbol, parameters) EXPECT_NE(driver->name, nullptr)
#include "backend/cuda/driver_functions.inl"
#undef EVERKERNEL_DRIVER_FUNCTION
}

TEST_F(LoadingTheDriver, a_library_that_is_not_there_is_named) {
  ::setenv("EVERKERNEL_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  expect_unsupported(Driver::load(),
                     "EVERKERNEL_LIBCUDA: /nowhere/libcuda.so.1: cannot open shared object file: "
                     "No such file or directory",
                     "unset the variable");
}

TEST_F(LoadingTheDriver, a_file_that_is_no_library_is_named) {
  ::setenv("EVERKERNEL_LIBCUDA", "/proc/self/status", 1);
  const auto driver = Driver::load();
  EXPECT_EQ(code_of(driver), Code::unsupported);
  EXPECT_NE(message_of(driver).find("/proc/self/status"), std::string::npos);
}

TEST_F(LoadingTheDriver, a_library_is_found_where_a_variable_says_its_toolkit_is) {
  const TempDir home;
  std::filesystem::create_directory(home.path() / "lib");
  std::filesystem::create_symlink(beside_program("libfake_cuda.so"),
                                  home.path() / "lib" / "libof_a_toolkit.so");
  ::setenv("EVERKERNEL_TEST_HOME", home.path().c_str(), 1);
  constexpr const char* kFiles[] = {"libof_a_toolkit.so"};
  constexpr const char* kHomes[] = {"EVERKERNEL_TEST_HOME"};
  const backend::cuda::LibraryPlaces places{.files = kFiles, .homes = kHomes};
  const auto found = backend::cuda::SharedLibrary::open(places);
  ::unsetenv("EVERKERNEL_TEST_HOME");
  ASSERT_TRUE(found) << message_of(found);
  EXPECT_EQ(found->name(), (home.path() / "lib" / "libof_a_toolkit.so").string());
  EXPECT_EQ(code_of(backend::cuda::SharedLibrary::open(places)), Code::unsupported);
}

TEST_F(LoadingTheDriver, a_missing_function_is_named) {
  const std::string path = beside_program("libfake_cuda_without_graphs.so");
  ::setenv("EVERKERNEL_LIBCUDA", path.c_str(), 1);
  expect_unsupported(Driver::load(), path + " has no cuGraphDestroy", "CUDA 12.0 or newer");
}

TEST_F(LoadingTheDriver, an_old_driver_is_called_old) {
  fake().version = 11080;
  expect_unsupported(Driver::load(), "the NVIDIA driver is too old: it is for CUDA 11.8",
                     "CUDA 12.0 or newer");
}

TEST_F(LoadingTheDriver, the_oldest_driver_will_do) {
  fake().version = 12000;
  EXPECT_TRUE(Driver::load());
}

TEST_F(LoadingTheDriver, launches_that_block_are_refused) {
  ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  expect_unsupported(Driver::load(),
                     "CUDA_LAUNCH_BLOCKING=1 makes every launch wait for its kernel",
                     "unset CUDA_LAUNCH_BLOCKING");
  ::setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
  EXPECT_TRUE(Driver::load());
}

TEST_F(LoadingTheDriver, the_toolkits_stub_is_told_apart) {
  fail("cuInit", 34);
  expect_unsupported(Driver::load(), "cuda: cuInit: the fake says so (CUDA_ERROR_FAKE)", "stub",
                     34);
}

TEST_F(LoadingTheDriver, a_driver_that_sees_no_device_says_so_when_it_starts) {
  fail("cuInit", 100);
  expect_unsupported(Driver::load(), "cuda: cuInit: the fake says so (CUDA_ERROR_FAKE)",
                     "CUDA_VISIBLE_DEVICES", 100);
}

using AskingForADevice = LoadingTheDriver;

TEST_F(AskingForADevice, gives_what_the_driver_says) {
  const auto facts = probe_device(load_driver(), 0);
  ASSERT_TRUE(facts) << message_of(facts);
  EXPECT_EQ(facts->name, "Fake GPU");
  EXPECT_EQ(facts->architecture, 90);
  EXPECT_EQ(facts->sm_count, 4u);
  EXPECT_EQ(facts->max_threads_per_sm, 2048u);
  EXPECT_EQ(facts->max_threads_per_block, 1024u);
  EXPECT_EQ(facts->max_worker_count(), 8192u);
  EXPECT_EQ(facts->memory_bytes, std::size_t{1} << 30);
  EXPECT_TRUE(facts->can_map_host_memory);
  EXPECT_TRUE(facts->has_memory_pools);
  EXPECT_TRUE(facts->has_cooperative_launch);
  EXPECT_TRUE(facts->has_concurrent_managed_access);
  EXPECT_FALSE(facts->has_kernel_timeout);
  EXPECT_FALSE(facts->has_host_native_atomics);
  EXPECT_FALSE(facts->has_pageable_memory_access);
}

TEST_F(AskingForADevice, what_the_driver_does_not_know_the_device_does_not_have) {
  const auto facts = probe_device(load_driver(), 0);
  ASSERT_TRUE(facts);
  EXPECT_FALSE(facts->has_only_partial_host_native_atomics);
}

TEST_F(AskingForADevice, none_is_a_reason) {
  fake().device_count = 0;
  expect_unsupported(probe_device(load_driver(), 0), "the NVIDIA driver sees no GPU",
                     "CUDA_VISIBLE_DEVICES");
}

TEST_F(AskingForADevice, one_too_many_is_a_reason) {
  fake().device_count = 2;
  EXPECT_TRUE(probe_device(load_driver(), 1));
  expect_unsupported(probe_device(load_driver(), 2),
                     "there is no GPU 2: the driver sees 2 GPUs, counted from 0", "nvidia-smi -L");
  expect_unsupported(probe_device(load_driver(), -1),
                     "there is no GPU -1: the driver sees 2 GPUs, counted from 0", "nvidia-smi -L");
}

TEST_F(AskingForADevice, an_old_one_is_a_reason) {
  fake().architecture = 75;
  expect_unsupported(probe_device(load_driver(), 0),
                     "Fake GPU has compute capability 7.5; at least 8.0 is needed", "Ampere");
  fake().architecture = 80;
  EXPECT_TRUE(probe_device(load_driver(), 0));
}

TEST_F(AskingForADevice, one_that_cannot_map_host_memory_is_a_reason) {
  fake().can_map_host_memory = false;
  expect_unsupported(probe_device(load_driver(), 0), "Fake GPU cannot map host memory",
                     "another GPU");
}

TEST_F(AskingForADevice, a_call_that_fails_is_passed_on) {
  const Driver driver = load_driver();
  for (const char* symbol :
       {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2"}) {
    fail(symbol, 304);
    const auto facts = probe_device(driver, 0);
    EXPECT_EQ(code_of(facts), Code::io) << symbol;
    EXPECT_EQ(fake().failing_call, 0) << symbol;
  }
}

}  // namespace
}  // namespace everkernel::test
