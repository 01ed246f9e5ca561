// How crews are laid over the device: how many there are, in which blocks, and how the memory of a
// multiprocessor is divided between the tiles of groups and the L1 cache.
#pragma once

#include "backend/cuda/context.hpp"
#include "everkernel/memory/buffer_table.hpp"

namespace everkernel::backend::cuda {

inline constexpr Word kWarp = 32;

// A kernel whose threads work in crews.
struct CrewKernel {
  CuFunction function = nullptr;
  bool has_groups = false;  // a crew is a block; otherwise it is a warp
  bool has_tiles = false;   // groups add up in shared memory before they write their output
  Word block_threads = 0;   // the block size it was compiled for
  Word max_crews = 1;       // crews that fit the device at one time

  // The most slots that a crew holds at one time.
  Word max_slots_per_crew() const { return has_groups ? block_threads : kWarp; }
  // The most slots that are held at one time.
  Word max_workers() const { return max_crews * max_slots_per_crew(); }
};

// The crews of a launch.
struct Crews {
  Word count = 1;
  Word slots_per_crew = 1;

  // The most slots that are held at one time.
  Word worker_count() const { return count * slots_per_crew; }
};

// The largest launch that a limit on workers allows; `worker_limit` 0 is no limit. Below 32
// workers, each is a crew that holds one slot; from 32 on, crews are whole warps.
Crews max_launch(const CrewKernel& kernel, Word worker_limit);

// Crews for `work_count` slots or regions, within `most`. Each crew holds `wanted_slots`, if
// `most` allows it.
Crews choose_crews(const Crews& most, std::uint64_t work_count, std::uint64_t wanted_slots);

// The crews of the kernel that fit the device at one time. The context is current.
Result<Word> max_crews_of(const Context& context, const CrewKernel& kernel);

// The size of the tile that a group needs: that of the longest writable buffer which is short
// enough for a tile.
unsigned tile_bytes_of(const CrewKernel& kernel, const memory::BufferTableView& buffers);

// The size of the tile for tables that are not known yet.
unsigned largest_tile_bytes(const CrewKernel& kernel);

// Sets how much memory of a multiprocessor the kernel's next launches have for tiles of that size;
// the rest is L1 cache. The context is current.
Result<void> divide_cache(const Context& context, const CrewKernel& kernel, unsigned tile_bytes);

// The grid of a launch on that many multiprocessors. If crews are warps and few, each block has
// fewer of them, so that all multiprocessors have work.
Grid crew_grid(Word sm_count, const CrewKernel& kernel, Word crew_count, unsigned tile_bytes);

}  // namespace everkernel::backend::cuda
