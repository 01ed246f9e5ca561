// The peers of the CUDA backend: kernels written by hand, launched per item, at once, or as graphs.
//
// The kernels are CUDA C++ text, compiled by NVRTC when the benchmark starts, in the context that
// the backend uses too, so that both can use the same memory.
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

/// Thrown if a question cannot be measured; the other questions are still measured.
struct Failed {
  Error error;
};

/// The value; an error ends the question.
template <class T>
T must(Result<T> result) {
  if (!result) throw Failed{std::move(result).error()};
  return std::move(*result);
}
/// Ends the question if there is an error.
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

/// Fails unless the kernels compile for compute capability 8.0, 9.0 and 10.0. Needs NVRTC, no GPU.
Result<void> check_peer_source();

/// The device with the kernels loaded. Used by one thread, in which its context is current during
/// its lifetime.
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

  /// Launches a kernel; wait() waits for all launches.
  template <class... Arguments>
  void launch(backend::cuda::CuFunction kernel, const backend::cuda::Grid& grid,
              const Arguments&... arguments) const {
    must(context_->launch(kernel, grid, stream_.get(), arguments...));
  }
  /// Zeroed words on the device.
  std::unique_ptr<backend::Memory> words(std::size_t count) const;
  /// Memory of the host that the device reads and writes.
  backend::cuda::PinnedMemory pinned(std::size_t size_bytes) const;
  /// Polls for the end of all launches, which sees it soonest.
  void wait() const;
  /// Waits by cuStreamSynchronize, as most programs do.
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

/// A graph of kernels, recorded once and launched together.
class Graph {
 public:
  /// Whether each kernel waits for the one that was added before it.
  enum class Order { independent, chain };
  /// An empty graph. `peers` outlives it.
  explicit Graph(const Peers& peers, Order order = Order::independent);
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
  /// Instantiates the graph; no kernel may be added afterwards.
  void finish();
  /// Launches the graph.
  void launch() const;

 private:
  void add_node(backend::cuda::CuFunction kernel, const backend::cuda::Grid& grid,
                void** arguments);
  const Peers& peers_;
  Order order_;
  backend::cuda::CuGraph graph_ = nullptr;
  backend::cuda::CuGraphNode last_ = nullptr;
  backend::cuda::CuGraphExec executable_ = nullptr;
};

}  // namespace everkernel::bench
