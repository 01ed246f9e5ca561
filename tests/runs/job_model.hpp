// The results that run() must give, computed item by item and pair by pair.
//
// Simple rather than fast: items run one after the other on the reference interpreter, and every
// rule of the planner is a loop over earlier items.
#pragma once

#include <optional>
#include <vector>

#include "everkernel/abi/hit.hpp"
#include "everkernel/runtime/run.hpp"
#include "job.hpp"

namespace everkernel::test {

/// The results of a job.
struct JobEnd {
  std::vector<Word> outcomes = {};            // as in RunReport
  std::vector<std::vector<Word>> words = {};  // of each buffer
  std::vector<abi::Hit> hits = {};            // sorted by item
  std::vector<PrintRecord> prints = {};       // sorted by item
  std::size_t again = 0;                      // how often items yielded or asked to be requeued
};

/// For each item, the item that runs for it: itself, or the earlier equal item.
std::vector<Word> keepers_of(const JobProgram& program, const Job& job, bool dedupe);
/// Runs the job; with `order`, only the items it names, in that order. The other items remain.
JobEnd run_in_order(const JobProgram& program, const Job& job, const std::vector<Word>& keepers,
                    Word workgroup_size, const std::vector<Word>* order = nullptr);

/// For each kept item, the items it waits for, without those implied by others.
std::vector<std::vector<Word>> predecessors_of(const JobProgram& program, const Job& job,
                                               const std::vector<Word>& keepers);
/// Regions, sorted by first item.
std::vector<std::vector<Word>> regions_of(const JobProgram& program, const Job& job,
                                          const std::vector<Word>& keepers, bool fuse);

/// The distinct opcodes of the items that are kept, ascending.
std::vector<Word> opcodes_of(const Job& job, const std::vector<Word>& keepers);
/// For each item: bit k says whether opcodes[k] contributed to its output. At most 64 opcodes.
std::vector<std::uint64_t> contributors_of(const JobProgram& program, const Job& job,
                                           const std::vector<Word>& keepers,
                                           const std::vector<Word>& opcodes);

}  // namespace everkernel::test
