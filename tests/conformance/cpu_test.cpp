// The conformance suite on the CPU backend, and tests of promises that only this backend makes.
#include "everkernel/backend/cpu/cpu_backend.hpp"

#include "conformance/backend_suite.hpp"
#include "everkernel/backend/testing/faulty_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/native.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::conformance {
namespace {

const BackendUnderTest& cpu_under_test() {
  static const BackendUnderTest backend{.name = "cpu",
                                        .make = [] { return backend::cpu::make_backend(); }};
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

backend::KernelOptions options_for(std::string_view text) {
  auto parsed = ir::parse(text);
  return {.program = *ir::verify(*std::move(parsed)), .worker_count = 1};
}

constexpr std::string_view kHandler = "handler h = 64 { args[3] = args[3] + 1; }";

TEST(CpuBackend, compiles_a_program_once_for_all_backends_with_one_cache) {
  if (!jit::has_native_code()) GTEST_SKIP() << "this build has no LLVM";
  const test::TempDir dir;
  const backend::cpu::CpuBackendOptions options{.cache = {{.directory = dir.path()}}};
  const auto first = backend::cpu::make_backend(options);
  EXPECT_FALSE((*first->compile(options_for(kHandler)))->is_from_cache());
  EXPECT_TRUE((*first->compile(options_for(kHandler)))->is_from_cache());
  const auto second = backend::FaultyBackend::wrap(backend::cpu::make_backend(options));
  EXPECT_TRUE((*second->compile(options_for(kHandler)))->is_from_cache());
}

TEST(CpuBackend, works_without_a_cache) {
  const auto backend = backend::cpu::make_backend({.cache = std::nullopt});
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE((*backend->compile(options_for(kHandler)))->is_from_cache());
  }
}

TEST(CpuBackend, works_with_a_cache_that_cannot_be_opened) {
  const test::TempDir dir;
  dir.write("file", {});
  const auto backend = backend::cpu::make_backend({.cache = {{.directory = dir.path() / "file"}}});
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE((*backend->compile(options_for(kHandler)))->is_from_cache());
  }
}

TEST(CpuBackend, opens_no_cache_for_what_is_not_compiled) {
  const test::TempDir dir;
  const auto backend = backend::cpu::make_backend({.cache = {{.directory = dir.path() / "new"}}});
  backend::KernelOptions options = options_for(kHandler);
  options.execution = backend::Execution::interpreter;
  EXPECT_TRUE(backend->compile(options));
  EXPECT_TRUE(backend->compile({.worker_count = 1}));
  EXPECT_EQ(dir.names(), std::vector<std::string>{});
}

TEST(CpuBackend, planned_code_is_other_code) {
  if (!jit::has_native_code()) GTEST_SKIP() << "this build has no LLVM";
  const test::TempDir dir;
  const auto backend = backend::cpu::make_backend({.cache = {{.directory = dir.path()}}});
  backend::KernelOptions options = options_for(kHandler);
  const auto shared = *backend->compile(options);
  options.planned = true;
  const auto planned = *backend->compile(options);
  EXPECT_FALSE(planned->is_from_cache());
  EXPECT_NE(planned->pipeline_id(), shared->pipeline_id());
  EXPECT_TRUE((*backend->compile(options))->is_from_cache());
}

}  // namespace
}  // namespace everkernel::conformance

EVERKERNEL_INSTANTIATE_CONFORMANCE(cpu, cpu_under_test());
