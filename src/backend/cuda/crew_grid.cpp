// Sizes of launches: how many crews fit, how long tiles are, what is left to the cache.
#include "backend/cuda/crew_grid.hpp"

#include <algorithm>
#include <span>

namespace everkernel::backend::cuda {
namespace {

// More would be memory that caches lack; longer outputs have their words apart anyway.
constexpr Word kMostTileWords = 4096;
// What the driver keeps of every block's shared memory.
constexpr unsigned kReservedBytes = 1024;

// Only a hint to the driver, for the launches that follow.
Result<void> prefer_shared(const Context& context, const CrewKernel& kernel, unsigned percent) {
  return context.check(context.driver().cuFuncSetAttribute(
                           kernel.function, CuFunctionAttribute::preferred_shared_percent,
                           static_cast<int>(percent)),
                       "cuFuncSetAttribute");
}

// What an earlier kernel of the same code preferred would count: a small part for tiles would leave
// room for few blocks.
Result<unsigned> blocks_per_sm(const Context& context, const CrewKernel& kernel,
                               unsigned tile_bytes) {
  EVERKERNEL_TRY(prefer_shared(context, kernel, 100));
  int blocks = 0;
  EVERKERNEL_TRY(context.check(
      context.driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
          &blocks, kernel.function, static_cast<int>(kernel.block_threads), tile_bytes),
      "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
  return static_cast<unsigned>(std::max(blocks, 1));
}

}  // namespace

Result<Word> most_crews_of(const Context& context, const CrewKernel& kernel) {
  const auto blocks =
      blocks_per_sm(context, kernel, kernel.has_tiles ? kMostTileWords * abi::kWordBytes : 0);
  if (!blocks) return Failure(blocks.error());
  const Word crews_per_block = kernel.has_groups ? 1 : kernel.block_threads / kWarp;
  return *blocks * context.facts().sm_count * crews_per_block;
}

unsigned tile_bytes_of(const CrewKernel& kernel, const memory::BufferTableView& buffers) {
  if (!kernel.has_tiles || buffers.entries == nullptr) return 0;
  Word longest = 0;
  for (const auto& entry : std::span(buffers.entries, std::size_t{buffers.mask} + 1)) {
    const bool is_output =
        entry.handle != 0 && entry.access == static_cast<Word>(memory::Access::read_write);
    if (is_output && entry.word_count <= kMostTileWords) {
      longest = std::max(longest, entry.word_count);
    }
  }
  return longest * abi::kWordBytes;
}

Result<void> divide_cache(const Context& context, const CrewKernel& kernel, unsigned tile_bytes) {
  const auto blocks = blocks_per_sm(context, kernel, tile_bytes);
  if (!blocks) return Failure(blocks.error());
  const Driver& driver = context.driver();
  int static_bytes = 0;
  EVERKERNEL_TRY(context.check(
      driver.cuFuncGetAttribute(&static_bytes, CuFunctionAttribute::shared_bytes, kernel.function),
      "cuFuncGetAttribute"));
  const unsigned needed =
      *blocks * (static_cast<unsigned>(static_bytes) + tile_bytes + kReservedBytes);
  const unsigned most = std::max<unsigned>(context.facts().max_shared_bytes_per_sm, 1);
  const unsigned percent = std::min((needed * 100 + most - 1) / most, 100u);
  return prefer_shared(context, kernel, percent);
}

Grid crew_grid(const Context& context, const CrewKernel& kernel, Word crew_count,
               unsigned tile_bytes) {
  if (kernel.has_groups) {
    return {.block_count = crew_count,
            .thread_count = kernel.block_threads,
            .shared_bytes = tile_bytes};
  }
  const Word sm_count = context.facts().sm_count;
  const Word warps =
      std::clamp<Word>((crew_count + sm_count - 1) / sm_count, 1, kernel.block_threads / kWarp);
  return {.block_count = (crew_count + warps - 1) / warps, .thread_count = warps * kWarp};
}

}  // namespace everkernel::backend::cuda
