// Copies between the host and the device, through pinned memory of our own.
//
// The device could copy from and to the caller's memory itself. But then a copy that does not end
// would still hold it when the caller's patience is over, and whatever comes to lie there would be
// read or overwritten. Here the caller's bytes are touched by the host alone.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <span>

#include "backend/cuda/driver.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::backend::cuda {

class Context;

// Thread-safe: one copy at a time. Belongs to its context. Its memory is allocated by the first
// copy.
class Staging {
 public:
  // How much is on its way at one time: while one buffer is copied by the device, the host fills or
  // empties the other.
  static constexpr std::size_t kBufferBytes = std::size_t{2} << 20;

  explicit Staging(const Context& context) : context_(context) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  // Both come back when the copy is done. They fail as the driver does, and with `timeout` when the
  // device does not get on; the context is current.
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
  bool is_busy_ = false;  // a copy was given up on: the device may still use the buffers
};

}  // namespace everkernel::backend::cuda
