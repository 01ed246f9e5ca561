// Tests against the fake driver, which lies beside the test program.
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

/// A file beside the program that runs.
inline std::string beside_program(const char* file) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / file;
}

/// Everything here is loaded from the fake, in the state a test begins with.
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
    reset();
  }
  ~WithFakeCuda() override { ::unsetenv("EVERKERNEL_LIBCUDA"); }

  /// Forgets everything that was done to the fake; nothing may be left of it.
  void reset() const { reset_(); }
  /// What the fake does and saw.
  FakeCuda& fake() const { return *state_(); }

  /// The call of `symbol` that is `call`th from now answers `result`.
  void fail(const char* symbol, int result, int call = 1) const {
    fake().failing_symbol = symbol;
    fake().failing_call = call;
    fake().failing_result = result;
  }

  /// The fake as the library loads it; must work.
  static backend::cuda::Driver load_driver() {
    auto driver = backend::cuda::Driver::load();
    EXPECT_TRUE(driver) << message_of(driver);
    return driver ? *driver : backend::cuda::Driver{};
  }

  /// A context on its device; must work.
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

  /// Expects that everything that was made was given back.
  void expect_nothing_left() const {
    EXPECT_EQ(fake().live_allocations, 0);
    EXPECT_EQ(fake().live_pinned, 0);
    EXPECT_EQ(fake().live_streams, 0);
    EXPECT_EQ(fake().live_events, 0);
    EXPECT_EQ(fake().live_modules, 0);
    EXPECT_EQ(fake().retained_contexts, 0);
    EXPECT_EQ(fake().current_contexts, 0);
  }

 private:
  FakeCudaState* state_ = nullptr;
  FakeCudaReset* reset_ = nullptr;
};

}  // namespace everkernel::test
