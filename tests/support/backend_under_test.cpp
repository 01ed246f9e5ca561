#include "support/backend_under_test.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"

namespace everkernel::test {
namespace {

std::string_view asked_for() {
  const char* const text = std::getenv("EVERKERNEL_BACKEND");
  return text == nullptr || *text == '\0' ? "cpu" : text;
}

class BackendEnvironment final : public testing::Environment {
 public:
  void SetUp() override {
    ASSERT_TRUE(asked_for() == "cpu" || asked_for() == "cuda")
        << "EVERKERNEL_BACKEND=" << asked_for();
    const backend::Capabilities can = backend_under_test()->capabilities();
    // ctest searches the output for these words (everkernel_add_cuda_test).
    if (!can.supported) GTEST_SKIP() << "no backend to test: " << can.reason;
    std::printf("backend: %s\n", is_on_cuda() ? "cuda" : "cpu");
  }
};

[[maybe_unused]] const auto* const kEnvironment =
    testing::AddGlobalTestEnvironment(new BackendEnvironment);

}  // namespace

bool is_on_cuda() {
  return asked_for() == "cuda";
}

std::shared_ptr<backend::Backend> backend_under_test() {
  if (!is_on_cuda()) return backend::cpu::make_backend();
  static const std::shared_ptr<backend::Backend> cuda = backend::cuda::make_backend();
  return cuda;
}

}  // namespace everkernel::test
