// Row 21: a wall clock that jumps by ten days at every reading changes nothing, and a monotonic
// clock that runs at double speed halves every timeout.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "child.hpp"
#include "everkernel/jit/code_cache.hpp"
#include "injection.hpp"
#include "runtime_world.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using std::chrono::milliseconds;

constexpr int kChildSeconds = 60;
constexpr std::int64_t kMillisecond = 1'000'000;
constexpr auto kTimeout = milliseconds(80);

class Stage final : public RuntimeWorld {
 public:
  Stage() { prepare(); }
  Result<void> act() override { return {}; }
  std::string look() override { return results(); }
  Megakernel& megakernel() { return *kernel; }
  const SampleBuffers& buffers() const { return sample; }
};

// Expects that a call takes the timeout by the bent clock, and at most a second more.
void expect_timeout(Journal& journal, int speed, const std::string& name, const auto& call) {
  journal.note(name);
  const std::int64_t begin = true_nanoseconds();
  call();
  const std::int64_t taken = (true_nanoseconds() - begin) / kMillisecond;
  const std::int64_t expected = kTimeout.count() / speed;
  if (taken < expected - 1 || taken > expected + 1000) {
    journal.fail(fmt::format("it took {} ms instead of {}", taken, expected));
  }
}

void try_clocks(Journal& journal, int speed) {
  journal.note("preparing");
  Stage stage;
  const BentClocks bent(speed);
  std::vector<SlotWords> slots(16);
  slots[0] = {1, 68, 0, 2, 1, 2, 0xFFFFFFFF};  // takes longer than the timeout
  const Bytes ring = ring_of(slots);
  const Submission endless = HostBuffers{.control = stage.buffers().control, .ring = ring};
  expect_timeout(journal, speed, "dispatch", [&] {
    const auto report =
        stage.megakernel().dispatch({.submissions = {&endless, 1}, .timeout = kTimeout});
    if (!report || report->stats.items_faulted != 1) journal.fail("no fault at the deadline");
  });
  auto session = stage.megakernel().start();
  static_cast<void>(session->set_tenant_enabled(TenantId(5), false));
  const std::array<Word, 3> args{1, 2, 1};
  const auto ticket = session->publish({64, args}, {.tenant = TenantId(5)});
  expect_timeout(journal, speed, "wait", [&] {
    if (session->wait(*ticket, kTimeout)) journal.fail("an item that cannot run has ended");
  });
  expect_timeout(journal, speed, "stop",
                 [&] { static_cast<void>(session->stop(StopMode::drain, kTimeout)); });
  journal.note("run");
  const std::vector<abi::WorkItem> items(500, {64, 1, 2, 1});
  const auto report = stage.megakernel().run(items, {.execution = backend::Execution::interpreter});
  if (!report || report->items_processed != items.size()) journal.fail("items are missing");
}

TEST(Clocks, a_wall_clock_that_jumps_changes_no_timeout) {
  EXPECT_EQ(run_in_child(kChildSeconds, [](Journal& journal) { try_clocks(journal, 1); }), "");
}

TEST(Clocks, a_clock_at_double_speed_halves_every_timeout) {
  EXPECT_EQ(run_in_child(kChildSeconds, [](Journal& journal) { try_clocks(journal, 2); }), "");
}

TEST(Clocks, a_wall_clock_that_jumps_loses_no_cached_code) {
  const BentClocks bent(1);
  const TempDir folder;
  auto cache = jit::CodeCache::open({.directory = folder.path() / "codes", .max_entries = 4});
  ASSERT_TRUE(cache.has_value());
  for (int round = 0; round < 20; ++round) {
    const std::string text = fmt::format("{}", round);
    const jit::CodeKeyPart parts[] = {{"round", text}};
    const jit::CodeKey key = jit::make_code_key(parts);
    cache->put(key, Bytes(100, std::byte{1}));
    EXPECT_TRUE(cache->get(key).has_value()) << round;
  }
  EXPECT_EQ(cache->counters().stored, 20u);
}

}  // namespace
}  // namespace everkernel::test
