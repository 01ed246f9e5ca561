// Which opcodes contributed to the words that a region wrote.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan.hpp"

namespace everkernel::planner {

/// Provenance of every region, in the order of their first items.
///
/// The lineage of an item is its own opcode and the opcodes of all items it depends on through read
/// after write, transitively. A handle keeps the lineage of every earlier writer: a write may leave
/// part of a buffer unchanged, so no earlier writer can be ruled out.
struct Lineage {
  std::vector<Word> opcodes;         ///< of items that run, ascending: their ranks are wide bits
  std::vector<Word> bits;            ///< a region: bit `opcode mod 32` of every contributor
  std::vector<std::uint64_t> wide;   ///< a region, above 32 opcodes: a bit a rank
  std::size_t wide_words = 0;        ///< words of a region in `wide`
  std::vector<Word> region_begins;   ///< where regions begin in `region_items`, and its end
  std::vector<Word> region_items;    ///< places in the list
  std::vector<Word> region_outputs;  ///< output of a region's last item
  std::uint64_t items = 0;           ///< items included
};

/// Computes the lineage in O(items × words).
Lineage trace(const PlanRequest& request, const Plan& plan);

}  // namespace everkernel::planner
