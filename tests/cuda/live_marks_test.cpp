// The host's half of marks, on the fake driver, whose device memory is host memory: which runs it
// sees, which it ends, and when they began. The test stands for the crews.
#include "backend/cuda/live_marks.hpp"

#include <chrono>
#include <thread>

#include "cuda/fake_fixture.hpp"

namespace everkernel::test {
namespace {

using abi::Word;
using backend::Clock;
using backend::cuda::LiveMarks;
using device::kAbortWords;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int kNotPermitted = 304;
constexpr Word kCrews = 3;
// The clock of the device is this far ahead of that of the host.
constexpr std::int64_t kAhead = 5'000'000'000;

device::Wide device_now() {
  return static_cast<device::Wide>(nanoseconds(Clock::now().time_since_epoch()).count() + kAhead);
}

class Marks : public WithFakeCuda {
 protected:
  Marks() {
    auto made = LiveMarks::create(context, kCrews);
    EXPECT_TRUE(made) << message_of(made);
    marks = std::move(*made);
    marks->set_in(params);
  }
  void begin(Word crew, Word number, Word queue = 1) {
    device::LiveMark& mark = params.marks[crew];
    mark.state = mark.state_of_items = mark.state_of_place = number * 2 + 1;
    mark.queue = queue;
    mark.since = device_now();
    mark.ticket = 100 + number;
    mark.lanes = 1;
    mark.opcode = 64;
    mark.multiprocessor = crew * 7;
  }
  void end(Word crew) { params.marks[crew].state &= ~Word{1}; }
  void acknowledge(Word crew, Word epoch) {
    params.marks[crew].epoch = epoch;
    params.marks[crew].acknowledged = device_now();
  }
  Word abort_word(Word crew, Word number) const {
    return params.aborts[crew * kAbortWords + number % kAbortWords];
  }
  Word aborts() const {
    Word sum = 0;
    for (Word i = 0; i < kCrews * kAbortWords; ++i) sum += params.aborts[i];
    return sum;
  }
  std::vector<LiveMarks::Run> read() {
    auto runs = marks->read();
    EXPECT_TRUE(runs) << message_of(runs);
    return runs ? *runs : std::vector<LiveMarks::Run>();
  }
  void expect_no_pass_under_way(Word passes) const {
    EXPECT_EQ(params.passes->begun_and_over, device::Wide{passes} << 32 | passes);
  }

  std::shared_ptr<backend::cuda::Context> context = make_context();
  std::unique_ptr<LiveMarks> marks;
  device::LiveParams params = {};
};

TEST_F(Marks, show_runs_that_are_under_way_and_whole) {
  EXPECT_TRUE(read().empty());
  begin(0, 1);
  begin(2, 40);
  const auto both = read();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].crew, 2u);
  EXPECT_EQ(both[1].queue, 1u);
  EXPECT_EQ(both[1].ticket, 140u);
  EXPECT_EQ(both[1].multiprocessor, 14u);
  end(0);
  params.marks[2].state_of_items -= 2;  // of the run before: the next one is just beginning
  EXPECT_TRUE(read().empty());
}

TEST_F(Marks, only_the_run_that_was_seen_is_ended) {
  begin(0, 31, 5);
  begin(1, 31, 6);
  ASSERT_TRUE(marks->end_runs([](const LiveMarks::Run& run) { return run.queue == 5; }));
  expect_no_pass_under_way(1);
  EXPECT_EQ(abort_word(0, 31), 1u);
  EXPECT_EQ(aborts(), 1u);
  const auto runs = read();
  EXPECT_TRUE(runs[0].was_told_to_end);
  EXPECT_FALSE(runs[1].was_told_to_end);
  begin(0, 32, 5);  // with another word, which nobody has set
  EXPECT_EQ(abort_word(0, 32), 0u);
  EXPECT_FALSE(read()[0].was_told_to_end);
  ASSERT_TRUE(marks->end_runs([](const LiveMarks::Run&) { return false; }));
  expect_no_pass_under_way(2);
  EXPECT_EQ(aborts(), 1u);
}

// Crews wait for the end of a pass, so that one which fails must end too.
TEST_F(Marks, a_pass_that_fails_is_over) {
  begin(0, 3);
  fail("cuMemcpyDtoHAsync_v2", kNotPermitted);
  EXPECT_FALSE(marks->end_runs([](const LiveMarks::Run&) { return true; }));
  expect_no_pass_under_way(1);
  EXPECT_EQ(aborts(), 0u);
}

TEST_F(Marks, a_run_is_overdue_from_when_it_was_first_seen) {
  const auto timeout_of = [](Word queue) {
    return queue == 1 ? nanoseconds(milliseconds(20)) : nanoseconds(0);
  };
  begin(0, 1, 1);
  begin(1, 1, 2);
  params.marks[0].since -= 3'600'000'000'000;  // the clocks may differ by any time
  EXPECT_TRUE(marks->overdue(read(), timeout_of).empty());
  std::this_thread::sleep_for(milliseconds(25));
  const auto overdue = marks->overdue(read(), timeout_of);
  ASSERT_EQ(overdue.size(), 1u);
  EXPECT_EQ(overdue[0].crew, 0u);
  begin(0, 2, 1);  // another run has all of its time
  EXPECT_TRUE(marks->overdue(read(), timeout_of).empty());
}

TEST_F(Marks, the_fastest_crew_tells_how_far_the_clocks_are_apart) {
  EXPECT_TRUE(marks->must_compare_clocks());
  marks->note_orders(1);
  EXPECT_FALSE(marks->must_compare_clocks());
  EXPECT_FALSE(marks->has_compared_clocks());
  acknowledge(1, 1);
  std::this_thread::sleep_for(milliseconds(50));
  acknowledge(0, 1);  // late: it was busy
  const auto before = Clock::now();
  begin(2, 1);
  const auto after = Clock::now();
  const auto runs = read();
  EXPECT_TRUE(marks->has_compared_clocks());
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_GE(runs[0].since, before - milliseconds(40));
  EXPECT_LE(runs[0].since, after);
  marks->note_orders(2);
  std::this_thread::sleep_for(milliseconds(50));
  acknowledge(1, 2);  // a worse comparison than the one before
  EXPECT_EQ(read()[0].since, runs[0].since);
}

}  // namespace
}  // namespace everkernel::test
