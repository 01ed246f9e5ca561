// Words that the host and the items of a live kernel both read and write: the host has one copy, the
// device another.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/cuda_memory.hpp"
#include "everkernel/protocol/words.hpp"

namespace everkernel::backend::cuda {

// Brings the two copies together: a change of either side since the last time is made on the other.
// Where both have changed a word, its changes are added, so that no count is lost.
class MirroredWords {
 public:
  // Both copies begin as the host's. `create_on` fails as CudaMemory::create does.
  explicit MirroredWords(protocol::LiveWords host) : host_(host) {}
  Result<void> create_on(const std::shared_ptr<Context>& context);

  // The device's copy.
  const Memory& on_device() const { return *device_; }
  // Its words.
  Word size() const { return static_cast<Word>(host_.size()); }
  // The host's copy.
  protocol::LiveWords& host() { return host_; }

  // Fail as Memory::read and Memory::write do.
  Result<void> sync();
  Result<void> sync_word(std::size_t index);

  // Whether the host has changed a word since the last time.
  bool has_host_changes() const;

 private:
  Result<void> merge(std::size_t first, std::span<Word> found);

  protocol::LiveWords host_;
  std::unique_ptr<Memory> device_;
  std::vector<Word> shadow_;  // both copies after the last sync()
  std::vector<Word> found_;   // the device's, while they are brought together
};

}  // namespace everkernel::backend::cuda
