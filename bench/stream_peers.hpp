// The peers of streams: the least that a kernel must do to read a flood of entries from the memory
// of the host and to say which of them are done.
#pragma once

#include <memory>

#include "cuda_peers.hpp"
#include "everkernel/live/ids.hpp"

namespace everkernel::bench {

/// Publishers on the host, and a kernel that reads what they store.
class StreamPeers {
 public:
  /// Allocates what all rounds use. `peers` outlives it.
  explicit StreamPeers(const Peers& peers);

  /// The time of entries of 64 bytes in one ring, published in chunks of 2,048. `items` is a
  /// multiple of a chunk.
  double full_ns(unsigned publishers, Word items);
  /// The time of entries of 16 bytes, a queue for each publisher, published in chunks of 128.
  /// `items` is a multiple of a chunk for each publisher; at most 8 publishers.
  double compact_ns(unsigned publishers, Word items);

 private:
  const Peers& peers_;
  backend::cuda::PinnedMemory ring_;    // of full entries
  backend::cuda::PinnedMemory words_;   // its tail, what is done, a word for each portion
  backend::cuda::PinnedMemory queues_;  // of compact entries
  std::unique_ptr<backend::Memory> state_;
};

}  // namespace everkernel::bench
