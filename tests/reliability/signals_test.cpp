// Row 24: signals that arrive every millisecond, on whichever thread, with a handler that does not
// ask for interrupted calls to be restarted. No item is lost and no wait ends early or late.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <atomic>

#include "child.hpp"
#include "runtime_world.hpp"

namespace everkernel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

const int kChildSeconds = static_cast<int>(seconds_of_trial(0)) + 60;
std::atomic<int> signal_count{0};

// Sends SIGUSR1 to this process every millisecond.
class Signals {
 public:
  Signals() {
    struct sigaction action {};
    action.sa_handler = [](int) { signal_count.fetch_add(1, std::memory_order_relaxed); };
    sigaction(SIGUSR1, &action, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    timer_create(CLOCK_MONOTONIC, &event, &timer_);
    const itimerspec every{.it_interval = {.tv_sec = 0, .tv_nsec = 1'000'000},
                           .it_value = {.tv_sec = 0, .tv_nsec = 1'000'000}};
    timer_settime(timer_, 0, &every, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() { timer_delete(timer_); }

 private:
  timer_t timer_{};
};

// A world whose parts the trials below use directly.
class Stage final : public RuntimeWorld {
 public:
  Stage() { prepare(); }
  Result<void> act() override { return {}; }
  std::string look() override { return results(); }
  Megakernel& megakernel() { return *kernel; }
  Word counted() const {
    std::array<Word, 1> words{};
    if (!output->read(0, words)) return 0;
    return words[0];
  }
};

// Runs `step` until the time is over, and checks that signals arrived.
void repeat(Journal& journal, const auto& step) {
  const Signals signals;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds_of_trial(0.4));
  Word rounds = 0;
  for (; Clock::now() < end; ++rounds) step(rounds);
  journal.note("counting signals");
  if (signal_count.load() < 10) journal.fail("the signals did not arrive");
}

TEST(SignalsEveryMillisecond, lose_no_item_of_a_dispatch) {
  const auto problem = run_in_child(kChildSeconds, [](Journal& journal) {
    Stage stage;
    std::vector<SlotWords> slots(16, SlotWords{1, 68, 0, 2, 1, 2, 400});
    for (std::size_t i = 0; i < 8; ++i) slots[i] = {1, 64, 0, 2, 1, 2, 1};
    const Bytes ring = ring_of(slots);
    const Bytes control = control_of({{3, 1}, {32, 1'000'000}}, 170);
    repeat(journal, [&](Word round) {
      journal.note(fmt::format("dispatch {}", round));
      const Submission submission = HostBuffers{.control = control, .ring = ring};
      const auto report = stage.megakernel().dispatch({.submissions = {&submission, 1}});
      if (!report) return journal.fail(report.error().message);
      if (report->stats.items_done != 16) journal.fail("items are missing");
      if (stage.counted() != 8 * (round + 1)) journal.fail("effects are missing or doubled");
    });
  });
  EXPECT_EQ(problem, "");
}

TEST(SignalsEveryMillisecond, lose_no_item_of_a_run) {
  const auto problem = run_in_child(kChildSeconds, [](Journal& journal) {
    Stage stage;
    const std::vector<abi::WorkItem> items(2000, {64, 1, 2, 1});
    repeat(journal, [&](Word round) {
      journal.note(fmt::format("run {}", round));
      const auto report =
          stage.megakernel().run(items, {.execution = backend::Execution::interpreter});
      if (!report) return journal.fail(report.error().message);
      if (report->items_processed != items.size()) journal.fail("items are missing");
      if (stage.counted() != 2000 * (round + 1)) journal.fail("effects are missing or doubled");
    });
  });
  EXPECT_EQ(problem, "");
}

TEST(SignalsEveryMillisecond, lose_no_item_of_a_session) {
  const auto problem = run_in_child(kChildSeconds, [](Journal& journal) {
    Stage stage;
    auto session = stage.megakernel().start();
    const std::array<Word, 3> args{1, 2, 1};
    Word published = 0;
    repeat(journal, [&](Word round) {
      journal.note(fmt::format("round {}", round));
      for (int i = 0; i < 100; ++i, ++published) {
        const auto ticket = session->publish({64, args}, {.timeout = seconds(20)});
        if (!ticket) return journal.fail(ticket.error().message);
      }
      if (const auto ended = session->wait_all(seconds(20)); !ended) {
        journal.fail(ended.error().message);
      }
    });
    const StopReport report = session->stop(StopMode::drain);
    if (report.done != published || report.faulted != 0 || report.cancelled != 0) {
      journal.fail(fmt::format("{} of {} items are done", report.done, published));
    }
    if (stage.counted() != published) journal.fail("effects are missing or doubled");
  });
  EXPECT_EQ(problem, "");
}

// A timeout of 60 ms ends neither earlier nor, on a busy machine, more than a second later.
TEST(SignalsEveryMillisecond, move_no_deadline) {
  const auto problem = run_in_child(kChildSeconds, [](Journal& journal) {
    Stage stage;
    auto session = stage.megakernel().start();
    static_cast<void>(session->set_tenant_enabled(TenantId(5), false));
    const std::array<Word, 3> args{1, 2, 1};
    const auto ticket = session->publish({64, args}, {.tenant = TenantId(5)});
    const auto expect_in_time = [&](const auto& call) {
      const auto begin = Clock::now();
      call();
      const auto taken = Clock::now() - begin;
      if (taken < milliseconds(60) || taken > milliseconds(1060)) {
        journal.fail(fmt::format("it took {} us", taken / std::chrono::microseconds(1)));
      }
    };
    const Signals signals;
    journal.note("wait");
    expect_in_time([&] { static_cast<void>(session->wait(*ticket, milliseconds(60))); });
    journal.note("wait_all");
    expect_in_time([&] { static_cast<void>(session->wait_all(milliseconds(60))); });
    journal.note("stop");
    expect_in_time([&] { session->stop(StopMode::drain, milliseconds(60)); });
  });
  EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace everkernel::test
