// Random rings: a dispatch must leave the words that the model of the wire format computes.
//
// Kernels and rings of a batch follow from its seed alone, so the command that a failure prints
// repeats it. support/seeds.hpp has the variables that choose seeds and length.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "everkernel/jit/native.hpp"
#include "ring_trial.hpp"
#include "support/backend_under_test.hpp"
#include "support/sanitized.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using backend::Schedule;

constexpr std::uint64_t kBatches = kIsSanitized ? 2 : 8;
constexpr Word kBusyTrialsEach = 50;
constexpr Word kTrialsEach = 200;  // of a batch: compiling its kernels costs more than a dispatch

// ---- batches ----

struct Tally {
  std::size_t batches = 0, rings = 0, dispatches = 0, skipped = 0, met = 0;
};

Word random_slot_count(Random& random) {
  const Word counts[] = {1, 2, 3, 5, 7, 8, 16, 24, 33, 64, 128, 250};
  const Word weights[] = {2, 4, 6, 8, 8, 10, 18, 16, 14, 10, 4, 4};
  return counts[random.weighted(weights)];
}

bool has_native_code() {
  return is_on_cuda() || jit::has_native_code();
}

// Properties that all kernels and rings of a batch share. A GPU compiles for each workgroup size.
struct Batch {
  RingShape ring = {};
  Word workgroup_size = 1;
  std::vector<Word> worker_counts = {};
  bool has_payload = false;
};

Word random_workgroup_size(Random& random, Word slot_count) {
  std::vector<Word> sizes;
  for (Word size = 1; size <= slot_count; ++size) {
    if (slot_count % size == 0) sizes.push_back(size);
  }
  return random.pick_from(sizes);
}

Batch random_batch(Random& random, bool is_in_order) {
  Batch batch;
  batch.ring.slot_count = random_slot_count(random);
  batch.ring.is_in_order = is_in_order;
  batch.workgroup_size = random_workgroup_size(random, batch.ring.slot_count);
  batch.worker_counts = {1};
  if (is_in_order) return batch;
  batch.worker_counts.push_back(random.between(2, 8));
  // From 32 workers on the lanes of a warp look at a slot each; 0 is all that fit the device.
  if (is_on_cuda()) batch.worker_counts.insert(batch.worker_counts.end(), {64, 0});
  batch.has_payload = random.chance(15);
  if (!is_on_cuda() && has_native_code() && random.chance(30)) {
    // Busy rings: sleeping threads would wake up too late for a ring that takes a few microseconds.
    batch.ring = {.slot_count = random.between(8, 32), .is_busy = true, .fuel = 400'000};
    batch.workgroup_size = random_workgroup_size(random, batch.ring.slot_count);
    batch.worker_counts = {random.between(2, 3), random.between(4, 8)};
  }
  return batch;
}

KernelShape random_shape(Random& random, const Batch& batch, Schedule schedule, Word workers) {
  const bool is_native = has_native_code() && (batch.ring.is_busy || random.chance(50));
  return {.slot_count = batch.ring.slot_count,
          .workgroup_size = batch.workgroup_size,
          .worker_count = workers,
          .schedule = schedule,
          .execution = is_native ? backend::Execution::native : usual_execution(),
          .has_payload = batch.has_payload,
          .fuel = batch.ring.fuel};
}

RingTrial random_trial(Random& random, RingShape shape) {
  RingTrial trial;
  const Word count = random.chance(75) ? 1 : random.between(2, kMaxSubmissions);
  for (shape.submission = 0; shape.submission < count; ++shape.submission) {
    trial.rings.push_back(generate_ring(random, shape));
    trial.is_resident.push_back(random.chance(30));
  }
  trial.data = generate_data(random, shape.slot_count);
  trial.has_workspace = random.chance(80);
  if (random.chance(35)) {
    trial.between = {.enables_everyone = random.chance(50), .serves_io = random.chance(70)};
  }
  return trial;
}

std::string between_text(const RingTrial& trial) {
  if (!trial.between) return "dispatched once";
  return fmt::format("dispatched twice{}{}",
                     trial.between->enables_everyone ? ", then everyone enabled" : "",
                     trial.between->serves_io ? ", IO served between" : "");
}

void report(std::uint64_t seed, RingKernel& kernel, const RingTrial& trial,
            const std::string& difference) {
  const RingTrial smaller = shrunk(kernel, trial);
  std::string text = fmt::format("{}\n{}\nreplay with\n  {}\nshrunk, {} ({}):\n",
                                 describe(kernel.shape()), difference, replay_command(seed),
                                 between_text(trial), kernel.run(smaller).difference);
  for (std::size_t i = 0; i < smaller.rings.size(); ++i) {
    text += fmt::format(" submission {}{}\n{}", i, smaller.is_resident[i] ? ", resident" : "",
                        describe(smaller.rings[i]));
  }
  ADD_FAILURE() << text;
}

// The kernels of a batch: each schedule with each number of workers.
std::vector<RingKernel> random_kernels(Random& random, const Batch& batch) {
  std::vector<RingKernel> kernels;
  const std::vector<DataImage> data = generate_data(random, batch.ring.slot_count);
  for (const Schedule schedule : {Schedule::direct, Schedule::priority, Schedule::ticket}) {
    for (const Word workers : batch.worker_counts) {
      const KernelShape shape = random_shape(random, batch, schedule, workers);
      auto kernel = RingKernel::make(shape, data);
      if (!kernel) {
        ADD_FAILURE() << describe(shape) << ": " << kernel.error().message;
        return {};
      }
      kernels.push_back(*std::move(kernel));
    }
  }
  return kernels;
}

// Runs every trial on every kernel; false after the first difference.
bool run_batch(std::uint64_t seed, bool is_in_order, Tally& tally) {
  Random random(seed * 2 + (is_in_order ? 1 : 0));
  const Batch batch = random_batch(random, is_in_order);
  auto kernels = random_kernels(random, batch);
  if (kernels.empty()) return false;
  const std::uint64_t trials = trials_to_run(batch.ring.is_busy ? kBusyTrialsEach : kTrialsEach);
  for (std::uint64_t i = 0; i < trials; ++i) {
    const RingTrial trial = random_trial(random, batch.ring);
    tally.rings += trial.rings.size();
    for (RingKernel& kernel : kernels) {
      const TrialResult result = kernel.run(trial);
      tally.skipped += result.was_skipped ? 1 : 0;
      tally.met += result.did_workers_meet ? 1 : 0;
      ++tally.dispatches;
      if (result.difference.empty()) continue;
      report(seed, kernel, trial, result.difference);
      return false;
    }
  }
  ++tally.batches;
  return true;
}

void dispatch_batches(bool is_in_order) {
  Tally tally;
  const double elapsed = run_batches(
      kBatches, [&](std::uint64_t seed) { return run_batch(seed, is_in_order, tally); });
  std::printf(
      "%zu batches, %zu rings, %zu dispatches in %.1f s; in %zu of them workers met, "
      "%zu were skipped: their order is open\n",
      tally.batches, tally.rings, tally.dispatches, elapsed, tally.met, tally.skipped);
  EXPECT_LE(tally.skipped, tally.dispatches / 2);
}

TEST(RandomRings, every_dispatch_leaves_what_the_model_allows) {
  dispatch_batches(false);
}

TEST(RandomRings, one_worker_leaves_the_bytes_of_its_order) {
  dispatch_batches(true);
}

// ---- the generator ----

// Fixed seeds: the shares are those of this generator, not of a lucky run.
TEST(RingGenerator, the_generator_reaches_everything) {
  constexpr std::uint64_t kRings = 6000;
  std::map<std::string, std::size_t> counts;
  for (std::uint64_t seed = 1; seed <= kRings; ++seed) {
    Random random(seed);
    const Word slot_count = random_slot_count(random);
    const GeneratedRing ring =
        generate_ring(random, {.slot_count = slot_count, .is_in_order = seed % 4 == 0});
    std::vector<DataImage> data = generate_data(random, slot_count);
    RingModel model(ring.image, data, {});
    model.run_in_order();
    for (const std::string& feature : features_of(ring)) ++counts[feature];
    for (const std::string& ending : endings_of(ring.image, model)) ++counts["ends: " + ending];
  }
  std::vector<std::string> names = all_features();
  for (const std::string& ending : all_endings()) names.push_back("ends: " + ending);
  std::printf("share of %llu rings\n", static_cast<unsigned long long>(kRings));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double share = 100.0 * static_cast<double>(counts[names[i]]) / double{kRings};
    std::printf("%-44s%5.1f %%%s", names[i].c_str(), share, i % 2 == 1 ? "\n" : "   ");
    EXPECT_GE(share, 1.0) << names[i];
  }
  std::printf("\n");
}

// A seed reported by one build must replay in every other; g++ and clang build the tests in turn.
// The number belongs to the present generator: update it with every change of the generator.
TEST(RingGenerator, a_seed_means_the_same_rings_with_every_compiler) {
  std::uint64_t digest = 0xCBF29CE484222325u;  // FNV-1a
  const auto add = [&](const std::vector<Word>& words) {
    for (const Word word : words) digest = (digest ^ word) * 0x100000001B3u;
  };
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const Word slot_count = random_slot_count(random);
    const RingShape shape = {
        .slot_count = slot_count, .is_in_order = seed % 2 == 0, .is_busy = seed % 3 == 0};
    const RingImage image = generate_ring(random, shape).image;
    add(image.control);
    add(image.ring);
    add(image.debug_log);
    add(image.io_queue);
  }
  EXPECT_EQ(digest, 0x164D07AC05EE6CE5u);
}

}  // namespace
}  // namespace everkernel::test
