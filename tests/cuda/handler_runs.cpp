#include "handler_runs.hpp"

#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>

namespace everkernel::test {
namespace {

using backend::cuda::SourceText;

constexpr Word kGroupThreads = 64;
constexpr unsigned kTileBytes = 4096;
constexpr auto kTimeout = std::chrono::seconds(60);

}  // namespace

const Result<GpuAccess>& gpu() {
  static const Result<GpuAccess> access = []() -> Result<GpuAccess> {
    const auto driver = EVERKERNEL_TRY(backend::cuda::Driver::load());
    const auto facts = EVERKERNEL_TRY(backend::cuda::probe_device(driver, 0));
    auto nvrtc = EVERKERNEL_TRY(backend::cuda::Nvrtc::load());
    auto context = EVERKERNEL_TRY(backend::cuda::Context::create(driver, facts));
    return GpuAccess{driver, facts, std::move(nvrtc), std::move(context)};
  }();
  return access;
}

jit::CodeCache* compiled_ahead() {
  static std::optional<jit::CodeCache> cache = []() -> std::optional<jit::CodeCache> {
    const char* const folder = std::getenv("EVERKERNEL_COMPILED_DIR");
    if (folder == nullptr) return std::nullopt;
    auto opened = jit::CodeCache::open(
        {.directory = folder, .max_bytes = std::uint64_t{64} << 30, .max_entries = 1'000'000});
    if (!opened) throw std::runtime_error(opened.error().message);
    return *std::move(opened);
  }();
  return cache ? &*cache : nullptr;
}

Result<HandlerRunner> HandlerRunner::create(const GpuAccess& gpu, const RunnerSource& source) {
  std::vector<SourceText> headers;
  const auto request = request_for(source, gpu.facts.architecture, headers);
  auto module = EVERKERNEL_TRY(
      backend::cuda::Module::load(gpu.context, gpu.nvrtc, compiled_ahead(), request));
  auto stream = EVERKERNEL_TRY(backend::cuda::Stream::create(gpu.context));
  return HandlerRunner(gpu, std::move(module), std::move(stream));
}

Result<std::vector<RunResult>> HandlerRunner::run(std::span<const RunRequest> requests) const {
  RunImage image(requests);
  const auto memory =
      EVERKERNEL_TRY(backend::cuda::CudaMemory::create(gpu_->context, image.words().size_bytes()));
  const auto device = reinterpret_cast<std::uint64_t>(memory->device_address());
  image.fill(device);
  EVERKERNEL_TRY(memory->write(0, std::as_bytes(image.words())));
  for (const FrameRow& row : image.rows()) {
    const auto kernel = EVERKERNEL_TRY(module_.function(kernel_name(row.entry).c_str()));
    constexpr Word kThreads[] = {1, 32, kGroupThreads};
    const backend::cuda::Grid grid{
        .block_count = static_cast<unsigned>(row.runs.size()),
        .thread_count = kThreads[static_cast<std::size_t>(row.entry.way)],
        .shared_bytes = kTileBytes};
    const std::uint64_t frames = device + row.first_frame * sizeof(Word);
    EVERKERNEL_TRY(gpu_->context->launch(kernel, grid, stream_.get(), frames));
  }
  EVERKERNEL_TRY(
      gpu_->context->wait(stream_.get(), backend::Clock::now() + kTimeout, "handlers of a test"));
  EVERKERNEL_TRY(memory->read(0, std::as_writable_bytes(image.words())));
  return image.collect();
}

}  // namespace everkernel::test
