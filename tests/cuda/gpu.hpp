// A GPU for tests that bypass the backend: a context, a stream, memory, and kernels from text.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/device_source.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/module.hpp"
#include "backend/cuda/nvrtc.hpp"

namespace everkernel::test {

using abi::Word;

/// The value of a result. Throws if it is an error, because the test cannot go on.
template <class T>
T needed(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message + "; " + result.error().hint);
  return std::move(*result);
}
inline void needed(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message + "; " + result.error().hint);
}

/// Zeroed device memory that the host can read and write between kernels.
class DeviceWords {
 public:
  DeviceWords(const std::shared_ptr<const backend::cuda::Context>& context, std::size_t count)
      : memory_(needed(backend::cuda::CudaMemory::create(context, count * sizeof(Word)))),
        count_(count) {}

  Word* address() const { return memory_->device_address(); }
  std::vector<Word> read() const {
    std::vector<Word> words(count_);
    read_into(words);
    return words;
  }
  void read_into(std::span<Word> words) const {
    needed(memory_->read(0, std::as_writable_bytes(words)));
  }
  void write(std::size_t first, std::span<const Word> words) {
    needed(memory_->write(first * sizeof(Word), std::as_bytes(words)));
  }

 private:
  std::unique_ptr<backend::Memory> memory_;
  std::size_t count_;
};

/// Zeroed host memory that the device can access.
class PinnedWords {
 public:
  PinnedWords(const std::shared_ptr<const backend::cuda::Context>& context, std::size_t count)
      : memory_(needed(backend::cuda::PinnedMemory::create(context, count * sizeof(Word)))) {}

  Word* words() const { return reinterpret_cast<Word*>(memory_.data()); }
  Word* address() const { return reinterpret_cast<Word*>(memory_.device_pointer()); }

 private:
  backend::cuda::PinnedMemory memory_;
};

/// A device with a loaded module. For one thread: the context is current during its lifetime.
class Gpu {
 public:
  /// Fails with `unsupported` if there is no GPU or no NVRTC.
  static Result<std::unique_ptr<Gpu>> open(backend::cuda::SourceText source) {
    const auto driver = EVERKERNEL_TRY(backend::cuda::Driver::load());
    const auto facts = EVERKERNEL_TRY(backend::cuda::probe_device(driver, 0));
    const auto nvrtc = EVERKERNEL_TRY(backend::cuda::Nvrtc::load());
    const auto context = EVERKERNEL_TRY(backend::cuda::Context::create(driver, facts));
    auto current = EVERKERNEL_TRY(context->enter());
    auto stream = EVERKERNEL_TRY(backend::cuda::Stream::create(context));
    const backend::cuda::CompileRequest request{.source = source,
                                                .headers = backend::cuda::device_headers(),
                                                .architecture = facts.architecture};
    auto module = EVERKERNEL_TRY(backend::cuda::Module::load(context, nvrtc, nullptr, request));
    return std::unique_ptr<Gpu>(
        new Gpu(context, std::move(current), std::move(stream), std::move(module)));
  }

  const std::shared_ptr<backend::cuda::Context>& context() const { return context_; }
  Word sm_count() const { return context_->facts().sm_count; }
  backend::cuda::CuFunction kernel(const std::string& name) const {
    return needed(module_.function(name.c_str()));
  }
  /// The number of blocks that can be resident at one time. In a larger grid, resident threads may
  /// wait for threads of blocks that never start.
  Word resident_blocks(backend::cuda::CuFunction kernel, Word threads) const {
    int blocks = 0;
    needed(context_->check(context_->driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                               &blocks, kernel, static_cast<int>(threads), 0),
                           "occupancy"));
    return static_cast<Word>(blocks) * sm_count();
  }
  template <class... Arguments>
  void launch(backend::cuda::CuFunction kernel, const backend::cuda::Grid& grid,
              const Arguments&... arguments) const {
    needed(context_->launch(kernel, grid, stream_.get(), arguments...));
  }
  /// Waits until the launched kernels have ended.
  void wait(std::chrono::seconds timeout) const {
    needed(context_->wait(stream_.get(), backend::Clock::now() + timeout, "a kernel of a test"));
  }
  /// Whether a launched kernel still runs. A host that waits for words of a kernel must call this
  /// now and then: otherwise the driver may not start the kernel.
  bool is_running() const {
    return context_->driver().cuStreamQuery(stream_.get()) == backend::cuda::kCuNotReady;
  }

 private:
  Gpu(std::shared_ptr<backend::cuda::Context> context, backend::cuda::Current current,
      backend::cuda::Stream stream, backend::cuda::Module module)
      : context_(std::move(context)),
        current_(std::move(current)),
        stream_(std::move(stream)),
        module_(std::move(module)) {}

  std::shared_ptr<backend::cuda::Context> context_;
  backend::cuda::Current current_;
  backend::cuda::Stream stream_;
  backend::cuda::Module module_;
};

}  // namespace everkernel::test
