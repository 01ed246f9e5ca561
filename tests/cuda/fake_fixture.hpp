// A fixture for tests on the fake driver, a library in the folder of the test program.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "backend/cuda/context.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/driver.hpp"
#include "cuda/fake_cuda.hpp"
#include "support/results.hpp"

namespace everkernel::test {

/// The path of a file in the folder of the running program.
inline std::string beside_program(const char* file) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / file;
}

/// Loads the fake driver, and resets it before each test.
class WithFakeCuda : public ::testing::Test {
 protected:
  WithFakeCuda() {
    const std::string path = beside_program("libfake_cuda.so");
    ::setenv("EVERKERNEL_LIBCUDA", path.c_str(), 1);
    ::unsetenv("CUDA_LAUNCH_BLOCKING");
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::abort();
    state_ = reinterpret_cast<FakeCudaState*>(::dlsym(library, "fake_cuda_state"));
    reset_ = reinterpret_cast<FakeCudaReset*>(::dlsym(library, "fake_cuda_reset"));
    lock_ = reinterpret_cast<FakeCudaLock*>(::dlsym(library, "fake_cuda_lock"));
    unlock_ = reinterpret_cast<FakeCudaLock*>(::dlsym(library, "fake_cuda_unlock"));
    reset();
  }
  ~WithFakeCuda() override { ::unsetenv("EVERKERNEL_LIBCUDA"); }

  /// Resets the fake. No object made from it may exist.
  void reset() const { reset_(); }
  /// The state of the fake.
  FakeCuda& fake() const { return *state_(); }

  /// Changes the state of the fake while other threads use the driver.
  void change(const auto& act) const {
    lock_();
    act(fake());
    unlock_();
  }

  /// Makes the `call`th call of `symbol` from now on return `result`.
  void fail(const char* symbol, int result, int call = 1) const {
    change([&](FakeCuda& fake) {
      fake.failing_symbol = symbol;
      fake.failing_call = call;
      fake.failing_result = result;
    });
  }

  /// Loads the fake as a Driver. Aborts if that fails.
  static backend::cuda::Driver load_driver() {
    auto driver = backend::cuda::Driver::load();
    EXPECT_TRUE(driver) << message_of(driver);
    return driver ? *driver : backend::cuda::Driver{};
  }

  /// Creates a context on the fake device. Aborts if that fails.
  static std::shared_ptr<backend::cuda::Context> make_context(
      backend::Clock::duration copy_timeout = backend::cuda::Context::kCopyTimeout) {
    const auto driver = load_driver();
    const auto facts = backend::cuda::probe_device(driver, 0);
    EXPECT_TRUE(facts) << message_of(facts);
    if (!facts) std::abort();
    auto context = backend::cuda::Context::create(driver, *facts, copy_timeout);
    EXPECT_TRUE(context) << message_of(context);
    if (!context) std::abort();
    return *context;
  }

  /// Expects that every object made from the fake has been destroyed.
  void expect_nothing_left() const {
    EXPECT_EQ(fake().live_allocations, 0);
    EXPECT_EQ(fake().live_pinned, 0);
    EXPECT_EQ(fake().live_registered, 0);
    EXPECT_EQ(fake().live_streams, 0);
    EXPECT_EQ(fake().live_events, 0);
    EXPECT_EQ(fake().live_modules, 0);
    EXPECT_EQ(fake().retained_contexts, 0);
    EXPECT_EQ(fake().current_contexts, 0);
  }

 private:
  FakeCudaState* state_ = nullptr;
  FakeCudaReset* reset_ = nullptr;
  FakeCudaLock* lock_ = nullptr;
  FakeCudaLock* unlock_ = nullptr;
};

}  // namespace everkernel::test
