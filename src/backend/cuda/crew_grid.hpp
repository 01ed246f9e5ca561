// How crews are laid over the device: blocks, threads, and how the memory beside each
// multiprocessor is divided between the tiles of groups and the cache.
#pragma once

#include "backend/cuda/context.hpp"
#include "everkernel/memory/buffer_table.hpp"

namespace everkernel::backend::cuda {

inline constexpr Word kWarp = 32;

// A kernel whose threads are crews.
struct CrewKernel {
  CuFunction function = nullptr;
  bool has_groups = false;  // a crew is a block, else a warp
  bool has_tiles = false;   // groups add up in memory of their own
  Word block_threads = 0;   // as compiled

  // That a crew can look at together.
  Word most_slots() const { return has_groups ? block_threads : kWarp; }
};

// Crews that fit the device at one time.
Result<Word> most_crews_of(const Context& context, const CrewKernel& kernel);

// The longest tile that a group can use: as long as the longest buffer that can be added up there.
unsigned tile_bytes_of(const CrewKernel& kernel, const memory::BufferTableView& buffers);

// Leaves to the cache what tiles of that size do not need. The context is current.
Result<void> divide_cache(const Context& context, const CrewKernel& kernel, unsigned tile_bytes);

// A launch of so many crews. Few are spread over the device, a warp a block.
Grid crew_grid(const Context& context, const CrewKernel& kernel, Word crew_count,
               unsigned tile_bytes);

}  // namespace everkernel::backend::cuda
