// A word on the device that ends the items of a kernel at their next turn of a loop.
#pragma once

#include <chrono>
#include <memory>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_memory.hpp"

namespace everkernel::backend::cuda {

// Time from an abort until the kernel must have ended. After it the device counts as lost.
inline constexpr auto kAbortTimeout = std::chrono::seconds(30);

// The abort word of the launches of one stream.
class AbortWord {
 public:
  // Fails with `out_of_memory` and `device_lost`.
  static Result<AbortWord> create(std::shared_ptr<Context> context);

  Word* device_address() const { return word_->device_address(); }
  // Clears the word, if an earlier launch was aborted. Call it before every launch.
  Result<void> clear(CuStream stream);
  // Waits for the kernel that was launched on the stream. At the deadline the word is set, and the
  // wait goes on until the kernel has ended. Fails with `device_lost` if it does not end.
  Result<void> wait(CuStream stream, const Deadline& deadline);

 private:
  AbortWord(std::shared_ptr<Context> context, std::unique_ptr<Memory> word, PinnedMemory one);
  Result<void> set();
  Result<void> abort(CuStream stream);

  std::shared_ptr<Context> context_;
  std::unique_ptr<Memory> word_;
  PinnedMemory one_;  // the number 1, copied to the word to set it
  bool is_set_ = false;
};

}  // namespace everkernel::backend::cuda
