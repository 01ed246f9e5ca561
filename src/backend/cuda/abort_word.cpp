// Waits for a kernel, and stops it at its deadline.
#include "backend/cuda/abort_word.hpp"

#include <fmt/format.h>

namespace everkernel::backend::cuda {

AbortWord::AbortWord(std::shared_ptr<Context> context, std::unique_ptr<Memory> word,
                     PinnedMemory one)
    : context_(std::move(context)), word_(std::move(word)), one_(std::move(one)) {
  one_.data()[0] = std::byte{1};
}

Result<AbortWord> AbortWord::create(std::shared_ptr<Context> context) {
  auto word = EVERKERNEL_TRY(CudaMemory::create(context, abi::kWordBytes));
  auto one = EVERKERNEL_TRY(PinnedMemory::create(context, abi::kWordBytes));
  return AbortWord(std::move(context), std::move(word), std::move(one));
}

Result<void> AbortWord::clear(CuStream stream) {
  if (!is_set_) return {};
  EVERKERNEL_TRY(
      context_->check(context_->driver().cuMemsetD32Async(driver_address(*word_), 0, 1, stream),
                      "clearing the abort word"));
  is_set_ = false;
  return {};
}

Result<void> AbortWord::wait(CuStream stream, const Deadline& deadline) {
  auto done = context_->wait(stream, deadline, "waiting for a kernel");
  if (done || done.error().code != Code::timeout) return done;
  done = abort(stream);
  if (done || context_->is_lost()) return done;
  return context_->lose(
      {.code = Code::device_lost,
       .message =
           fmt::format("cuda: a kernel did not end after its deadline: {}", done.error().message),
       .hint = "start a new process; look for an endless loop in trusted handlers",
       .native = done.error().native});
}

Result<void> AbortWord::abort(CuStream stream) {
  EVERKERNEL_TRY(set());
  EVERKERNEL_TRY(
      context_->wait(stream, deadline_after(kAbortTimeout), "waiting for a kernel to stop"));
  // If the kernel ended by itself, the copy that sets the word may still be on its way. It must
  // arrive before clear(), or it would abort the next launch.
  return context_->wait(context_->copy_stream(), deadline_after(kAbortTimeout),
                        "storing the abort word");
}

// Copies on another stream than the kernel's, where the copy would wait for the kernel. A second
// kernel could not store the word: the first may occupy every multiprocessor.
Result<void> AbortWord::set() {
  is_set_ = true;
  return context_->check(
      context_->driver().cuMemcpyHtoDAsync(driver_address(*word_), one_.data(), abi::kWordBytes,
                                           context_->copy_stream()),
      "storing the abort word");
}

}  // namespace everkernel::backend::cuda
