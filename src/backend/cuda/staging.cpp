// Two halves of pinned memory, in turn.
#include "backend/cuda/staging.hpp"

#include <algorithm>
#include <cstring>

#include "backend/cuda/context.hpp"

namespace everkernel::backend::cuda {

// Nothing is given back that the device may still use, or that it took with it.
Staging::~Staging() {
  if (halves_[0].data == nullptr) return;
  const auto current = context_.enter();
  if (!current) return;
  if (is_busy_ && !context_.wait(context_.copy_stream(), context_.patience_ends(), "a copy"))
    return;
  for (const Half& half : halves_) {
    if (half.done != nullptr) context_.driver().cuEventDestroy(half.done);
  }
  context_.driver().cuMemFreeHost(halves_[0].data);
}

Result<void> Staging::prepare() {
  const Driver& driver = context_.driver();
  if (halves_[0].data == nullptr) {
    void* data = nullptr;
    EVERKERNEL_TRY(context_.check(
        driver.cuMemHostAlloc(&data, 2 * kHalfBytes, kCuHostAllocMapped | kCuHostAllocPortable),
        "cuMemHostAlloc"));
    halves_[0].data = static_cast<std::byte*>(data);
    halves_[1].data = halves_[0].data + kHalfBytes;
  }
  for (Half& half : halves_) {
    if (half.done != nullptr) continue;
    EVERKERNEL_TRY(
        context_.check(driver.cuEventCreate(&half.done, kCuEventDisableTiming), "cuEventCreate"));
  }
  if (is_busy_) {
    EVERKERNEL_TRY(context_.wait(context_.copy_stream(), context_.patience_ends(),
                                 "a copy that was given up"));
  }
  is_busy_ = true;
  return {};
}

Result<void> Staging::write(CuPointer target, std::span<const std::byte> bytes) {
  const std::scoped_lock lock(lock_);
  EVERKERNEL_TRY(prepare());
  for (std::size_t at = 0, turn = 0; at < bytes.size(); at += kHalfBytes, ++turn) {
    const Half& half = halves_[turn % 2];
    const auto part = bytes.subspan(at, std::min(kHalfBytes, bytes.size() - at));
    if (turn >= 2) EVERKERNEL_TRY(wait_for(half));
    std::memcpy(half.data, part.data(), part.size());
    EVERKERNEL_TRY(context_.check(context_.driver().cuMemcpyHtoDAsync(
                                      target + at, half.data, part.size(), context_.copy_stream()),
                                  "copying to the device"));
    EVERKERNEL_TRY(mark(half));
  }
  EVERKERNEL_TRY(
      context_.wait(context_.copy_stream(), context_.patience_ends(), "copying to the device"));
  is_busy_ = false;
  return {};
}

Result<void> Staging::read(CuPointer source, std::span<std::byte> bytes) {
  const std::scoped_lock lock(lock_);
  EVERKERNEL_TRY(prepare());
  const auto part_at = [&](std::size_t at) {
    return bytes.subspan(at, std::min(kHalfBytes, bytes.size() - at));
  };
  const auto request = [&](std::size_t at) -> Result<void> {
    const Half& half = halves_[at / kHalfBytes % 2];
    EVERKERNEL_TRY(
        context_.check(context_.driver().cuMemcpyDtoHAsync(
                           half.data, source + at, part_at(at).size(), context_.copy_stream()),
                       "copying from the device"));
    return mark(half);
  };
  if (!bytes.empty()) EVERKERNEL_TRY(request(0));
  for (std::size_t at = 0; at < bytes.size(); at += kHalfBytes) {
    if (at + kHalfBytes < bytes.size()) EVERKERNEL_TRY(request(at + kHalfBytes));
    const Half& half = halves_[at / kHalfBytes % 2];
    EVERKERNEL_TRY(wait_for(half));
    const auto part = part_at(at);
    std::memcpy(part.data(), half.data, part.size());
  }
  is_busy_ = false;
  return {};
}

Result<void> Staging::mark(const Half& half) {
  return context_.check(context_.driver().cuEventRecord(half.done, context_.copy_stream()),
                        "cuEventRecord");
}

Result<void> Staging::wait_for(const Half& half) {
  return context_.wait(half.done, context_.patience_ends(), "a copy");
}

}  // namespace everkernel::backend::cuda
