// Copies in parts of kBufferBytes, through two pinned buffers in turn.
#include "backend/cuda/staging.hpp"

#include <algorithm>
#include <cstring>

#include "backend/cuda/context.hpp"

namespace everkernel::backend::cuda {

// The buffers leak if the device is lost or may still use them.
Staging::~Staging() {
  if (buffers_[0].data == nullptr) return;
  const auto current = context_.enter();
  if (!current) return;
  if (is_busy_ && !context_.wait(context_.copy_stream(), context_.copy_deadline(), "a copy"))
    return;
  for (const PinnedBuffer& buffer : buffers_) {
    if (buffer.done != nullptr) context_.driver().cuEventDestroy(buffer.done);
  }
  context_.driver().cuMemFreeHost(buffers_[0].data);
}

Result<void> Staging::prepare() {
  const Driver& driver = context_.driver();
  if (buffers_[0].data == nullptr) {
    void* data = nullptr;
    EVERKERNEL_TRY(context_.check(
        driver.cuMemHostAlloc(&data, 2 * kBufferBytes, kCuHostAllocMapped | kCuHostAllocPortable),
        "cuMemHostAlloc"));
    buffers_[0].data = static_cast<std::byte*>(data);
    buffers_[1].data = buffers_[0].data + kBufferBytes;
  }
  for (PinnedBuffer& buffer : buffers_) {
    if (buffer.done != nullptr) continue;
    EVERKERNEL_TRY(
        context_.check(driver.cuEventCreate(&buffer.done, kCuEventDisableTiming), "cuEventCreate"));
  }
  if (is_busy_) {
    EVERKERNEL_TRY(context_.wait(context_.copy_stream(), context_.copy_deadline(),
                                 "a copy that was given up"));
  }
  is_busy_ = true;
  return {};
}

Result<void> Staging::write(CuPointer target, std::span<const std::byte> bytes) {
  const std::scoped_lock lock(lock_);
  EVERKERNEL_TRY(prepare());
  for (std::size_t at = 0, turn = 0; at < bytes.size(); at += kBufferBytes, ++turn) {
    const PinnedBuffer& buffer = buffers_[turn % 2];
    const auto part = bytes.subspan(at, std::min(kBufferBytes, bytes.size() - at));
    if (turn >= 2) EVERKERNEL_TRY(wait_for(buffer));
    std::memcpy(buffer.data, part.data(), part.size());
    EVERKERNEL_TRY(
        context_.check(context_.driver().cuMemcpyHtoDAsync(target + at, buffer.data, part.size(),
                                                           context_.copy_stream()),
                       "copying to the device"));
    EVERKERNEL_TRY(mark(buffer));
  }
  EVERKERNEL_TRY(
      context_.wait(context_.copy_stream(), context_.copy_deadline(), "copying to the device"));
  is_busy_ = false;
  return {};
}

Result<void> Staging::read(CuPointer source, std::span<std::byte> bytes) {
  const std::scoped_lock lock(lock_);
  EVERKERNEL_TRY(prepare());
  const auto part_at = [&](std::size_t at) {
    return bytes.subspan(at, std::min(kBufferBytes, bytes.size() - at));
  };
  const auto request = [&](std::size_t at) -> Result<void> {
    const PinnedBuffer& buffer = buffers_[at / kBufferBytes % 2];
    EVERKERNEL_TRY(
        context_.check(context_.driver().cuMemcpyDtoHAsync(
                           buffer.data, source + at, part_at(at).size(), context_.copy_stream()),
                       "copying from the device"));
    return mark(buffer);
  };
  if (!bytes.empty()) EVERKERNEL_TRY(request(0));
  for (std::size_t at = 0; at < bytes.size(); at += kBufferBytes) {
    if (at + kBufferBytes < bytes.size()) EVERKERNEL_TRY(request(at + kBufferBytes));
    const PinnedBuffer& buffer = buffers_[at / kBufferBytes % 2];
    EVERKERNEL_TRY(wait_for(buffer));
    const auto part = part_at(at);
    std::memcpy(part.data(), buffer.data, part.size());
  }
  is_busy_ = false;
  return {};
}

Result<void> Staging::mark(const PinnedBuffer& buffer) {
  return context_.check(context_.driver().cuEventRecord(buffer.done, context_.copy_stream()),
                        "cuEventRecord");
}

Result<void> Staging::wait_for(const PinnedBuffer& buffer) {
  return context_.wait(buffer.done, context_.copy_deadline(), "a copy");
}

}  // namespace everkernel::backend::cuda
