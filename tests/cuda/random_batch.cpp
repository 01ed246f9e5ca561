#include "random_batch.hpp"

#include <fmt/format.h>

#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/printer.hpp"
#include "jit/coverage.hpp"
#include "support/jit_program_generator.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

// A quarter of the batches are programs with damaged text that still verify.
bool is_damaged(std::uint64_t seed) {
  return seed % 4 == 3;
}

// Some batches are compiled for memory that no other item accesses. Here this holds: every run has
// memory of its own.
jit::MemoryUse memory_of(std::uint64_t seed) {
  return seed % 5 == 4 ? jit::MemoryUse::exclusive : jit::MemoryUse::shared;
}

Result<ir::VerifiedProgram> program_of(Random& random, std::uint64_t seed, std::size_t& damaged) {
  if (is_damaged(seed)) {
    return ir::verify(generate_survivors(random, kHandlersEach, damaged, [](const auto&) {}));
  }
  return ir::verify(EVERKERNEL_TRY(ir::parse(generate_batch(random, kHandlersEach))));
}

}  // namespace

Result<Batch> batch_of(std::uint64_t seed, Tally& tally) {
  Random random(is_damaged(seed) ? seed ^ 0x5EED0FDA3A6ED000u : seed);
  const auto program = EVERKERNEL_TRY(program_of(random, seed, tally.damaged));
  Batch batch{.seed = seed, .program = program};
  for (std::size_t i = 0; i < program.handlers().size(); ++i) {
    const ir::VerifiedHandler& handler = program.handlers()[i];
    batch.entries.push_back({i, way_of(handler.handler.scope)});
    batch.specs.emplace_back();
    batch.expected.emplace_back();
    for (std::size_t k = 0; k < kFramesEach; ++k) {
      batch.specs[i].push_back(
          generate_frame(random, handler.handler.scope, handler.handler.opcode));
      batch.expected[i].push_back(interpret_once(handler, batch.specs[i].back()));
      ++tally.endings[ending_name(batch.expected[i].back().outcome)];
    }
  }
  tally.programs += program.handlers().size();
  return batch;
}

RunnerSource source_of(const Batch& batch) {
  RunnerSource source = runner_source(batch.program, batch.entries, memory_of(batch.seed));
  source.has_wide_fuel = batch.seed % 6 == 5;
  return source;
}

std::vector<RunRequest> requests_of(const Batch& batch) {
  std::vector<RunRequest> requests;
  for (const Entry& entry : batch.entries) {
    for (std::size_t k = 0; k < kFramesEach; ++k) {
      requests.push_back(
          {entry, &batch.specs[entry.handler_index][k], &batch.expected[entry.handler_index][k]});
    }
  }
  return requests;
}

std::string report(const Batch& batch, const RunRequest& request, const std::string& found) {
  const auto& handler = batch.program.handlers()[request.entry.handler_index];
  return fmt::format("{}: {}\nreplay with\n  {}\n{}{}", way_name(request.entry.way), found,
                     replay_command(batch.seed), ir::print({.handlers = {handler.handler}}),
                     describe(*request.spec));
}

std::string first_difference(const Batch& batch, std::span<const RunRequest> requests,
                             std::vector<RunResult> results, Tally& tally) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RunResult& expected = *requests[i].expected;
    const bool is_parallel = requests[i].entry.way != Way::lane;
    ++tally.runs;
    tally.racy += is_parallel && expected.is_racy ? 1 : 0;
    const Run run{
        .is_parallel = is_parallel, .has_two_logs = true, .result = std::move(results[i])};
    if (auto found = difference(expected, run); !found.empty()) {
      return report(batch, requests[i], found);
    }
  }
  return std::string();
}

}  // namespace everkernel::test
