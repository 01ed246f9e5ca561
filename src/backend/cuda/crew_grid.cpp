// Computes sizes of launches from properties of a kernel that the driver reports.
#include "backend/cuda/crew_grid.hpp"

#include <algorithm>
#include <span>

namespace everkernel::backend::cuda {
namespace {

// Longer tiles would take too much memory from the L1 cache. Outputs longer than this gain little:
// updates of different words seldom meet.
constexpr Word kMaxTileWords = 4096;
// The part of a block's shared memory that the driver uses itself.
constexpr unsigned kReservedBytes = 1024;

// The share of a multiprocessor's memory that is shared memory in later launches. The driver may
// choose a larger share.
Result<void> prefer_shared(const Context& context, const CrewKernel& kernel, unsigned percent) {
  return context.check(context.driver().cuFuncSetAttribute(
                           kernel.function, CuFunctionAttribute::preferred_shared_percent,
                           static_cast<int>(percent)),
                       "cuFuncSetAttribute");
}

// The driver counts blocks by the share that is preferred at that time. It is set to the whole
// first, because an earlier kernel may have left the same function with a small one.
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

Crews max_launch(const CrewKernel& kernel, Word worker_limit) {
  if (worker_limit == 0) {
    return {.count = kernel.max_crews, .slots_per_crew = kernel.max_slots_per_crew()};
  }
  const Word slots = worker_limit < kWarp ? 1 : kWarp;
  return {.count = std::min(kernel.max_crews, (worker_limit + slots - 1) / slots),
          .slots_per_crew = slots};
}

Crews choose_crews(const Crews& most, std::uint64_t work_count, std::uint64_t wanted_slots) {
  const auto slots = std::clamp<std::uint64_t>(wanted_slots, 1, most.slots_per_crew);
  const auto count = std::clamp<std::uint64_t>((work_count + slots - 1) / slots, 1, most.count);
  return {.count = static_cast<Word>(count), .slots_per_crew = static_cast<Word>(slots)};
}

Result<Word> max_crews_of(const Context& context, const CrewKernel& kernel) {
  const unsigned blocks =
      EVERKERNEL_TRY(blocks_per_sm(context, kernel, largest_tile_bytes(kernel)));
  const Word crews_per_block = kernel.has_groups ? 1 : kernel.block_threads / kWarp;
  return blocks * context.facts().sm_count * crews_per_block;
}

unsigned largest_tile_bytes(const CrewKernel& kernel) {
  return kernel.has_tiles ? kMaxTileWords * abi::kWordBytes : 0;
}

unsigned tile_bytes_of(const CrewKernel& kernel, const memory::BufferTableView& buffers) {
  if (!kernel.has_tiles || buffers.entries == nullptr) return 0;
  Word longest = 0;
  for (const auto& entry : std::span(buffers.entries, std::size_t{buffers.mask} + 1)) {
    const bool is_output =
        entry.handle != 0 && entry.access == static_cast<Word>(memory::Access::read_write);
    if (is_output && entry.word_count <= kMaxTileWords) {
      longest = std::max(longest, entry.word_count);
    }
  }
  return longest * abi::kWordBytes;
}

Result<void> divide_cache(const Context& context, const CrewKernel& kernel, unsigned tile_bytes) {
  const unsigned blocks = EVERKERNEL_TRY(blocks_per_sm(context, kernel, tile_bytes));
  const Driver& driver = context.driver();
  int static_bytes = 0;
  EVERKERNEL_TRY(context.check(
      driver.cuFuncGetAttribute(&static_bytes, CuFunctionAttribute::shared_bytes, kernel.function),
      "cuFuncGetAttribute"));
  const unsigned needed =
      blocks * (static_cast<unsigned>(static_bytes) + tile_bytes + kReservedBytes);
  const unsigned most = std::max<unsigned>(context.facts().max_shared_bytes_per_sm, 1);
  const unsigned percent = std::min((needed * 100 + most - 1) / most, 100u);
  return prefer_shared(context, kernel, percent);
}

Grid crew_grid(Word sm_count, const CrewKernel& kernel, Word crew_count, unsigned tile_bytes) {
  if (kernel.has_groups) {
    return {.block_count = crew_count,
            .thread_count = kernel.block_threads,
            .shared_bytes = tile_bytes};
  }
  const Word warps =
      std::clamp<Word>((crew_count + sm_count - 1) / sm_count, 1, kernel.block_threads / kWarp);
  return {.block_count = (crew_count + warps - 1) / warps, .thread_count = warps * kWarp};
}

}  // namespace everkernel::backend::cuda
