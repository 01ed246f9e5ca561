// Decides from a program's handlers how blocks are shaped, and puts source and options together.
#include "backend/cuda/megakernel_code.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/launch_rows.hpp"
#include "everkernel/jit/cuda_source.hpp"

namespace everkernel::backend::cuda {
namespace {

static_assert(static_cast<Word>(Schedule::direct) == static_cast<Word>(device::Schedule::direct) &&
              static_cast<Word>(Schedule::priority) ==
                  static_cast<Word>(device::Schedule::priority) &&
              static_cast<Word>(Schedule::ticket) == static_cast<Word>(device::Schedule::ticket));

constexpr Word kMaxBlockThreads = 256;
constexpr Word kMaxGroupThreads = 512;
// Threads resident on a multiprocessor. With more of them each has fewer registers, and spills.
constexpr Word kThreadsPerSm = 1024;

// Properties of the handlers that decide how they are compiled and launched.
struct ProgramShape {
  bool has_groups = false;      // a handler needs a whole block
  bool has_tiles = false;       // a group handler adds up in shared memory first
  bool has_long_items = false;  // an item may run for long
};

ProgramShape shape_of(const KernelOptions& options) {
  ProgramShape shape;
  for (const ir::TrustedHandler& handler : options.trusted_handlers) {
    shape.has_groups |= handler.scope == ir::Scope::group;
    shape.has_long_items |= !handler.is_short;
  }
  if (!options.program) return shape;
  for (const ir::VerifiedHandler& verified : options.program->handlers()) {
    const ir::Handler& handler = verified.handler;
    if (handler.is_payload && !options.payload) continue;
    shape.has_groups |= handler.scope == ir::Scope::group;
    shape.has_tiles |= handler.scope == ir::Scope::group && handler.commutes;
    shape.has_long_items |= ir::has_loops(handler.body);
  }
  return shape;
}

// With group handlers, a block has a thread for each lane of a group, up to kMaxGroupThreads.
Word block_threads_of(const ProgramShape& shape, Word workgroup_size) {
  if (!shape.has_groups) return kMaxBlockThreads;
  const Word whole_warps = (std::min(workgroup_size, kMaxGroupThreads) + kWarp - 1) / kWarp * kWarp;
  return std::max(whole_warps, kWarp);
}

Result<void> check_options(const KernelOptions& options) {
  EVERKERNEL_TRY(
      ir::check_trusted(options.trusted_handlers, options.find_program(), ir::TrustedCode::cuda));
  if (options.execution == Execution::interpreter && options.program) {
    return fail(Code::unsupported, "cuda: there is no interpreter, handlers are always compiled",
                "leave the execution to the backend, or use the CPU backend");
  }
  if (!options.payload) return {};
  if (options.program && options.program->payload() != nullptr) return {};
  return fail(Code::invalid_argument, "megakernel: the program has no payload to run",
              "add a `payload { … }` to the handlers, or do not ask for it");
}

std::string handler_text(const KernelOptions& options) {
  const jit::CudaOptions cuda_options{
      .memory = options.planned ? jit::MemoryUse::planned : jit::MemoryUse::shared,
      .payload = options.payload,
      .trusted_handlers = options.trusted_handlers};
  if (options.program) return jit::emit_cuda(*options.program, cuda_options);
  return jit::emit_cuda(*ir::verify({}), cuda_options);
}

}  // namespace

Result<MegakernelCode> MegakernelCode::generate(const KernelOptions& options) {
  EVERKERNEL_TRY(check_options(options));
  const ProgramShape shape = shape_of(options);
  const Word block_threads = block_threads_of(shape, options.geometry.workgroup_size);
  const Word blocks_per_sm = std::max<Word>(1, kThreadsPerSm / block_threads);
  MegakernelCode code;
  code.handlers_ = handler_text(options);
  // Without fused multiply-add, handlers agree with the interpreter bit for bit.
  code.common_options_ = {"-fmad=false",
                          fmt::format("-DEVERKERNEL_BLOCK_THREADS={}", block_threads)};
  code.occupancy_option_ = fmt::format("-DEVERKERNEL_BLOCKS_PER_SM={}", blocks_per_sm);
  if (options.fuel_per_item > ~Word{0}) {
    code.common_options_.emplace_back("-DEVERKERNEL_WIDE_FUEL");
  }
  code.schedule_option_ =
      fmt::format("-DEVERKERNEL_SCHEDULE={}", static_cast<Word>(options.schedule));
  code.shape_ = {
      .has_groups = shape.has_groups, .has_tiles = shape.has_tiles, .block_threads = block_threads};
  code.has_long_items_ = shape.has_long_items;
  return code;
}

auto MegakernelCode::with_request(const Context& context, CodePart part, const auto& use) const {
  std::vector<std::string> options = common_options_;
  if (part == CodePart::live) {
    // Threads keep items in registers; few of them stay on a multiprocessor.
    options.emplace_back("-DEVERKERNEL_LIVE");
    options.emplace_back("-DEVERKERNEL_BLOCKS_PER_SM=1");
  } else {
    options.push_back(occupancy_option_);
    options.push_back(part == CodePart::graph ? "-DEVERKERNEL_GRAPH" : schedule_option_);
  }
  std::vector<SourceText> headers(device_headers().begin(), device_headers().end());
  headers.push_back({"everkernel/handlers.cuh", handlers_});
  return use(CompileRequest{.source = megakernel_source(),
                            .headers = headers,
                            .options = options,
                            .architecture = context.facts().architecture});
}

Result<std::shared_ptr<const Module>> MegakernelCode::load(
    const std::shared_ptr<const Context>& context, ModuleCache& module_cache, CodePart part,
    const std::atomic<bool>* is_cancelled) const {
  return with_request(*context, part, [&](CompileRequest request) {
    request.is_cancelled = is_cancelled;
    return module_cache.get(context, request);
  });
}

Result<CompiledModule> MegakernelCode::compile(const Context& context, ModuleCache& module_cache,
                                               CodePart part,
                                               const std::atomic<bool>* is_cancelled) const {
  return with_request(context, part, [&](CompileRequest request) {
    request.is_cancelled = is_cancelled;
    return module_cache.compile(context, request);
  });
}

jit::CodeKey MegakernelCode::key(const Context& context, const ModuleCache& module_cache,
                                 CodePart part) const {
  return with_request(context, part, [&](const CompileRequest& request) {
    return module_cache.key(context, request);
  });
}

Result<CrewKernel> MegakernelCode::find_kernel(const Context& context, const Module& module,
                                               const char* name) const {
  CrewKernel kernel = shape_;
  kernel.function = EVERKERNEL_TRY(module.function(name));
  kernel.max_crews = EVERKERNEL_TRY(max_crews_of(context, kernel));
  return kernel;
}

}  // namespace everkernel::backend::cuda
