// Copies between the host and the device through pinned buffers.
//
// The device could access the caller's memory directly. But a copy that has timed out may still run
// later, when the caller has reused that memory. With pinned buffers in between, only the host
// accesses the caller's bytes.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <span>

#include "backend/cuda/driver.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::backend::cuda {

class Context;

// Thread-safe: copies run one after the other. The first copy allocates the buffers. The context
// owns this object.
class Staging {
 public:
  // While the device copies one buffer, the host fills or empties the other.
  static constexpr std::size_t kBufferBytes = std::size_t{2} << 20;

  explicit Staging(const Context& context) : context_(context) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  // Both return when the copy is done. They fail with the error of the driver, and with `timeout`
  // if the device makes no progress for Context::kCopyTimeout. The context is current.
  Result<void> write(CuPointer target, std::span<const std::byte> bytes);
  Result<void> read(CuPointer source, std::span<std::byte> bytes);

 private:
  struct PinnedBuffer {
    std::byte* data = nullptr;
    CuEvent done = nullptr;
  };

  Result<void> prepare();
  Result<void> mark(const PinnedBuffer& buffer);
  Result<void> wait_for(const PinnedBuffer& buffer);

  const Context& context_;
  std::mutex lock_;
  std::array<PinnedBuffer, 2> buffers_ = {};
  bool is_busy_ = false;  // a copy runs, or has failed and the device may still use the buffers
};

}  // namespace everkernel::backend::cuda
