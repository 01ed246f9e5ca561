// The conformance suite on the CPU backend, and what only that backend promises.
#include "everkernel/backend/cpu/cpu_backend.hpp"

#include "conformance/backend_suite.hpp"
#include "everkernel/jit/native.hpp"

namespace everkernel::conformance {
namespace {

const BackendUnderTest& cpu_under_test() {
  static const BackendUnderTest backend{.name = "cpu", .make = backend::cpu::make_backend};
  return backend;
}

TEST(CpuBackend, runs_everywhere_and_serves_sessions) {
  const auto backend = backend::cpu::make_backend();
  const backend::Capabilities& capabilities = backend->capabilities();
  EXPECT_TRUE(capabilities.supported);
  EXPECT_TRUE(capabilities.live);
  EXPECT_EQ(capabilities.id, "cpu");
  EXPECT_EQ(capabilities.native_code, jit::has_native_code());
  EXPECT_EQ(backend->revive().has_value(), true) << "a CPU is never lost";
}

TEST(CpuBackend, more_workers_than_it_can_have_are_refused) {
  MegakernelOptions options{.worker_count = backend::cpu::kMaxWorkers + 1};
  EXPECT_FALSE(Megakernel::create(backend::cpu::make_backend(), options).has_value());
  options.worker_count = ~0u;
  EXPECT_FALSE(Megakernel::create(backend::cpu::make_backend(), options).has_value());
}

}  // namespace
}  // namespace everkernel::conformance

EVERKERNEL_INSTANTIATE_CONFORMANCE(cpu, cpu_under_test());
