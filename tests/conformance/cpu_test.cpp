// The conformance suite on the CPU backend, and tests of promises that only this backend makes.
#include "everkernel/backend/cpu/cpu_backend.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>

#include "conformance/backend_suite.hpp"
#include "everkernel/backend/testing/faulty_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/native.hpp"
#include "everkernel/protocol/control.hpp"
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
  return {.program = *ir::verify(*std::move(parsed)),
          .execution =
              jit::has_native_code() ? backend::Execution::native : backend::Execution::automatic,
          .worker_count = 1};
}

constexpr std::string_view kHandler = "handler h = 64 { args[3] = args[3] + 1; }";

/// Compiles the handler; says whether its code came from the cache.
bool is_from_cache(const std::shared_ptr<backend::Backend>& backend,
                   const backend::KernelOptions& options = options_for(kHandler)) {
  const auto kernel = *backend->compile(options);
  const backend::Word opcode = 64;
  EXPECT_TRUE(kernel->prepare({.opcodes = {&opcode, 1}}));
  const backend::CodeCounts counts = kernel->code_counts();
  EXPECT_EQ(counts.compiled + counts.from_cache, jit::has_native_code() ? 1u : 0u);
  return counts.from_cache == 1;
}

TEST(CpuBackend, compiles_a_program_once_for_all_backends_with_one_cache) {
  if (!jit::has_native_code()) GTEST_SKIP() << "this build has no LLVM";
  const test::TempDir dir;
  const backend::cpu::CpuBackendOptions options{.cache = {{.directory = dir.path()}}};
  const auto first = backend::cpu::make_backend(options);
  EXPECT_FALSE(is_from_cache(first));
  EXPECT_TRUE(is_from_cache(first));
  const auto second = backend::FaultyBackend::wrap(backend::cpu::make_backend(options));
  EXPECT_TRUE(is_from_cache(second));
}

TEST(CpuBackend, works_without_a_cache) {
  const auto backend = backend::cpu::make_backend({.cache = std::nullopt});
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE(is_from_cache(backend));
  }
}

TEST(CpuBackend, works_with_a_cache_that_cannot_be_opened) {
  const test::TempDir dir;
  dir.write("file", {});
  const auto backend = backend::cpu::make_backend({.cache = {{.directory = dir.path() / "file"}}});
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE(is_from_cache(backend));
  }
}

/// Limits the size of files that this process writes, as a disk that is almost full does.
class FullDisk {
 public:
  FullDisk() {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const ::rlimit small{.rlim_cur = 100, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  ::rlimit before_{};
};

TEST(CpuBackend, dispatches_although_the_disk_of_its_cache_is_full) {
  if (!jit::has_native_code()) GTEST_SKIP() << "this build has no LLVM";
  const test::TempDir dir;
  std::vector<Word> control(must(protocol::control_bytes({.tenant_count = 1})) / sizeof(Word));
  must(protocol::encode_control({.tenant_count = 1}, std::as_writable_bytes(std::span(control))));
  Job job{.control = control, .ring = std::vector<Word>(16), .debug_log = {0}};
  job.put(0, {1, 64, 0, 2, 0, 0, 0, 41});
  const Submission submission = job.buffers();
  const auto dispatch = [&] {
    const auto backend = backend::cpu::make_backend({.cache = {{.directory = dir.path()}}});
    auto kernel = must(Megakernel::create(backend, {.slot_count = 1,
                                                    .workgroup_size = 1,
                                                    .handlers = options_for(kHandler).program,
                                                    .execution = backend::Execution::native}));
    const auto report = must(kernel.dispatch({.submissions = std::span(&submission, 1)}));
    EXPECT_EQ(report.submissions[0].counts.done, 1u);
  };
  {
    const FullDisk full;
    dispatch();
    EXPECT_EQ(dir.names(), std::vector<std::string>{}) << "nothing was stored";
  }
  dispatch();
  EXPECT_EQ(dir.names().size(), 1u) << "with room, the code is stored";
}

// The names are such that FNV-1a of 64 bits, taken over the default fuel and the text of the
// handler, gives the same for both.
TEST(CpuBackend, handlers_made_to_collide_in_a_fast_hash_have_different_ids) {
  const auto backend = backend::cpu::make_backend({.cache = std::nullopt});
  const auto id_of = [&](std::string_view name) {
    backend::KernelOptions options =
        options_for(fmt::format("handler {} = 64 {{ args[3] = args[3] + 1; }}", name));
    options.execution = backend::Execution::interpreter;
    return std::string((*backend->compile(options))->pipeline_id());
  };
  EXPECT_NE(id_of("inevhAfaeCDrb"), id_of("DavEbgpbxtvkf"));
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
  EXPECT_NE(planned->pipeline_id(), shared->pipeline_id());
  EXPECT_FALSE(is_from_cache(backend));
  EXPECT_FALSE(is_from_cache(backend, options));
  EXPECT_TRUE(is_from_cache(backend, options));
}

}  // namespace
}  // namespace everkernel::conformance

EVERKERNEL_INSTANTIATE_CONFORMANCE(cpu, cpu_under_test());
