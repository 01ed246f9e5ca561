// What the CUDA backend is measured against: kernels written by hand, a launch an item, graphs.
//
// The kernels are CUDA C++ text that NVRTC compiles when the benchmark starts, in the context that
// the backend uses too: both see the same memory.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include "backend/cuda/context.hpp"
#include "backend/cuda/module.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::bench {

/// A question that cannot be answered. The others can.
struct Failed {
  Error error;
};

/// The value, or the end of the question.
template <class T>
T must(Result<T> result) {
  if (!result) throw Failed{std::move(result).error()};
  return std::move(*result);
}
/// Goes on, or ends the question.
inline void must(const Result<void>& result) {
  if (!result) throw Failed{result.error()};
}
/// Ends the question unless it holds.
void expect(bool holds, std::string_view what);

/// Nanoseconds a call took on the host.
double host_ns(const auto& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

/// Whether the kernels compile for every architecture that matters. Needs NVRTC and no GPU.
Result<void> check_peer_source();

/// The device with the kernels loaded. One thread; its context is current there as long as it
/// lives.
class Peers {
 public:
  /// Fails with `unsupported` where there is no GPU or no NVRTC.
  static Result<std::unique_ptr<Peers>> open();

  const backend::cuda::DeviceFacts& facts() const { return context_->facts(); }
  int driver_version() const { return context_->driver().version; }
  unsigned sm_count() const { return facts().sm_count; }
  /// Blocks of 256 threads that fill the device.
  backend::cuda::Grid whole_device() const {
    return {.block_count = 8 * sm_count(), .thread_count = 256};
  }
  /// A kernel by its name.
  backend::cuda::CuFunction kernel(const char* name) const { return must(module_.function(name)); }

  /// Launches; wait() waits for everything that was.
  template <class... Arguments>
  void launch(backend::cuda::CuFunction kernel, const backend::cuda::Grid& grid,
              const Arguments&... arguments) const {
    must(context_->launch(kernel, grid, stream_.get(), arguments...));
  }
  /// Looks again and again: nothing is seen sooner.
  void wait() const;
  /// As cuStreamSynchronize waits, which most programs call.
  void synchronize() const;

 private:
  using Context = backend::cuda::Context;
  Peers(std::shared_ptr<Context> context, backend::cuda::Current current,
        backend::cuda::Stream stream, backend::cuda::Module module);

  std::shared_ptr<Context> context_;
  backend::cuda::Current current_;
  backend::cuda::Stream stream_;
  backend::cuda::Module module_;
  friend class Graph;
};

/// Kernels without order among them, recorded once and launched together.
class Graph {
 public:
  /// An empty graph. `peers` outlives it.
  explicit Graph(const Peers& peers);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  /// Adds a kernel; the arguments are copied.
  template <class... Arguments>
  void add(backend::cuda::CuFunction kernel, const backend::cuda::Grid& grid,
           Arguments... arguments) {
    std::array<void*, sizeof...(arguments)> pointers{static_cast<void*>(&arguments)...};
    add_node(kernel, grid, pointers.data());
  }
  /// Makes it ready; nothing is added afterwards.
  void finish();
  /// Launches all of it.
  void launch() const;

 private:
  void add_node(backend::cuda::CuFunction kernel, const backend::cuda::Grid& grid,
                void** arguments);
  const Peers& peers_;
  backend::cuda::CuGraph graph_ = nullptr;
  backend::cuda::CuGraphExec executable_ = nullptr;
};

}  // namespace everkernel::bench
