// Compares both copies with what they were the last time.
#include "backend/cuda/mirrored_words.hpp"

namespace everkernel::backend::cuda {

Result<void> MirroredWords::create_on(const std::shared_ptr<Context>& context) {
  shadow_.resize(host_.size());
  found_.resize(host_.size());
  for (std::size_t i = 0; i < shadow_.size(); ++i) shadow_[i] = host_.load_acquire(i);
  device_ = EVERKERNEL_TRY(CudaMemory::create(context, shadow_.size() * abi::kWordBytes));
  return device_->write(0, std::as_bytes(std::span(shadow_)));
}

Result<void> MirroredWords::sync() {
  EVERKERNEL_TRY(device_->read(0, std::as_writable_bytes(std::span(found_))));
  return merge(0, found_);
}

Result<void> MirroredWords::sync_word(std::size_t index) {
  Word found = 0;
  EVERKERNEL_TRY(
      device_->read(index * abi::kWordBytes, std::as_writable_bytes(std::span(&found, 1))));
  return merge(index, {&found, 1});
}

Result<void> MirroredWords::merge(std::size_t first, std::span<Word> found) {
  std::size_t begin = 0;  // of the words before `i` that the device does not have yet
  for (std::size_t i = 0; i <= found.size(); ++i) {
    bool is_new = false;
    if (i < found.size()) {
      const std::size_t at = first + i;
      const Word change = found[i] - shadow_[at];
      if (change != 0) host_.add_release(at, change);
      const Word merged = host_.load_acquire(at);
      is_new = merged != found[i];
      shadow_[at] = found[i] = merged;
    }
    if (is_new) continue;
    if (begin != i) {
      EVERKERNEL_TRY(device_->write((first + begin) * abi::kWordBytes,
                                    std::as_bytes(found.subspan(begin, i - begin))));
    }
    begin = i + 1;
  }
  return {};
}

bool MirroredWords::has_host_changes() const {
  for (std::size_t i = 0; i < shadow_.size(); ++i) {
    if (host_.load_relaxed(i) != shadow_[i]) return true;
  }
  return false;
}

}  // namespace everkernel::backend::cuda
