// Where a run is cut so that the buffers of each part fit a budget.
//
// A wave is a contiguous part of the order of regions. The buffers of a wave are resident while it
// runs, so each buffer counts once in a wave, however many items touch it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/detail/graph.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::planner {

using abi::Word;

/// A planned run and its memory budget. Names are those of backend::WorkGraph.
struct WaveInput {
  std::span<const abi::WorkItem> items = {};         ///< the list
  std::span<const std::uint8_t> places = {};         ///< one an item, in its region; or dropped
  std::span<const backend::Node> nodes = {};         ///< of an item: the nodes that wait for it
  std::span<const Word> order = {};                  ///< first items of regions; empty = list order
  backend::HandlePlaces handles = {};                ///< `count` is not read
  std::span<const std::uint64_t> handle_bytes = {};  ///< by place of the handle
  std::uint64_t budget_bytes = 0;                    ///< 0 = unbounded
  std::uint64_t fixed_bytes = 0;                     ///< of every wave: hits, queue
};

/// How a run is cut.
struct Waves {
  std::vector<Word> begins = {};    ///< of each wave
  std::uint64_t largest_bytes = 0;  ///< of the wave that needs most; 0 without a budget
};

/// Begins of waves, filled one after the other: places in `order`, or, where that is empty, in the
/// list. The first is 0; a run without items has no wave, one without a budget a single one.
///
/// An item touches its input and output, NOP nothing. Handle 0 and a handle without a place weigh
/// nothing: the caller checks whether they exist. A region is never cut. Time is linear in items,
/// memory is one word for each place of a handle.
///
/// Fails with `invalid_argument`, naming the item, its bytes and the budget, for an item that does
/// not fit alone, and naming its first item for a region whose items fit only one by one.
Result<Waves> split_waves(const WaveInput& input);

}  // namespace everkernel::planner
