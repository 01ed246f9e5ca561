// Reads marks, compares clocks and sets abort words.
#include "backend/cuda/live_marks.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace everkernel::backend::cuda {

using device::kAbortWords;
using device::LiveMark;
using device::LivePasses;
using device::Wide;
using std::chrono::nanoseconds;

Result<std::unique_ptr<LiveMarks>> LiveMarks::create(const std::shared_ptr<Context>& context,
                                                     Word crew_count) {
  const std::size_t crew_bytes = sizeof(LiveMark) + kAbortWords * sizeof(Word);
  auto block =
      EVERKERNEL_TRY(CudaMemory::create(context, sizeof(LivePasses) + crew_count * crew_bytes));
  return std::unique_ptr<LiveMarks>(new LiveMarks(std::move(block), crew_count));
}

LiveMarks::LiveMarks(std::unique_ptr<Memory> block, Word crew_count)
    : block_(std::move(block)), crew_count_(crew_count), sights_(crew_count), told_(crew_count) {}

void LiveMarks::set_in(device::LiveParams& params) const {
  const Wide begin = driver_address(*block_);
  params.passes = reinterpret_cast<const LivePasses*>(begin);
  params.marks = reinterpret_cast<LiveMark*>(begin + marks_offset());
  params.aborts = reinterpret_cast<Word*>(begin + aborts_offset());
}

// ---- clocks ----

void LiveMarks::note_orders(Word epoch) {
  const std::scoped_lock held(lock_);
  given_[epoch % kGivenOrders] = {.epoch = epoch, .time = Clock::now()};
  last_epoch_ = epoch;
}

bool LiveMarks::must_compare_clocks() const {
  const std::scoped_lock held(lock_);
  return Clock::now() - given_[last_epoch_ % kGivenOrders].time >= kClockLife;
}

bool LiveMarks::has_compared_clocks() const {
  const std::scoped_lock held(lock_);
  return seen_epoch_ == last_epoch_;
}

// A crew acknowledges orders after they were given. So every crew gives a lower bound of the
// difference, and the highest one is the best, as long as the clocks have not drifted apart.
void LiveMarks::compare_clocks(std::span<const LiveMark> marks) {
  for (const LiveMark& mark : marks) {
    const Given& given = given_[mark.epoch % kGivenOrders];
    const bool is_known = mark.epoch != 0 && given.epoch == mark.epoch;
    if (!is_known || given.time < compared_at_) continue;
    const std::int64_t bound_ns = nanoseconds(given.time.time_since_epoch()).count() -
                                  static_cast<std::int64_t>(mark.acknowledged);
    if (given.time - compared_at_ >= kClockLife) {
      compared_at_ = given.time;
      offset_ns_ = bound_ns;
    }
    offset_ns_ = std::max(offset_ns_, bound_ns);
    if (static_cast<std::int32_t>(mark.epoch - seen_epoch_) > 0) seen_epoch_ = mark.epoch;
  }
}

Clock::time_point LiveMarks::host_time(Wide time) const {
  const Clock::time_point there{nanoseconds(static_cast<std::int64_t>(time) + offset_ns_)};
  return std::min(there, Clock::now());
}

// ---- runs ----

Result<std::vector<LiveMarks::Run>> LiveMarks::read() {
  const std::scoped_lock held(lock_);
  return read_locked();
}

Result<std::vector<LiveMarks::Run>> LiveMarks::read_locked() {
  std::vector<LiveMark> marks(crew_count_);
  EVERKERNEL_TRY(block_->read(marks_offset(), std::as_writable_bytes(std::span(marks))));
  compare_clocks(marks);
  std::vector<Run> runs;
  for (Word crew = 0; crew < crew_count_; ++crew) {
    const LiveMark& mark = marks[crew];
    const bool is_sound = mark.state == mark.state_of_items && mark.state == mark.state_of_place;
    if (mark.state % 2 == 0 || !is_sound) continue;  // nothing runs, or it is just beginning
    runs.push_back({.crew = crew,
                    .state = mark.state,
                    .queue = mark.queue,
                    .ticket = mark.ticket,
                    .lanes = mark.lanes,
                    .opcode = mark.opcode,
                    .multiprocessor = mark.multiprocessor,
                    .since = host_time(mark.since),
                    .was_told_to_end = told_[crew] == mark.state});
  }
  return runs;
}

Result<void> LiveMarks::write_passes(Word begun, Word over) {
  const Wide words = Wide{begun} << 32 | over;
  return block_->write(0, std::as_bytes(std::span(&words, 1)));
}

// The marks are read after the pass has begun: a crew that has not seen it is idle or runs what the
// marks say (device/live_marks.cuh).
Result<void> LiveMarks::end_runs(const std::function<bool(const Run&)>& must_end) {
  const std::scoped_lock held(lock_);
  ++passes_;
  const auto pass = [&]() -> Result<void> {
    EVERKERNEL_TRY(write_passes(passes_, passes_ - 1));
    for (const Run& run : EVERKERNEL_TRY(read_locked())) {
      if (run.was_told_to_end || !must_end(run)) continue;
      const Word one = 1;
      const std::size_t word = std::size_t{run.crew} * kAbortWords + run.state / 2 % kAbortWords;
      EVERKERNEL_TRY(
          block_->write(aborts_offset() + word * sizeof(Word), std::as_bytes(std::span(&one, 1))));
      told_[run.crew] = run.state;
    }
    return {};
  };
  const auto done = pass();
  EVERKERNEL_TRY(write_passes(passes_, passes_));  // crews may wait for it, also after a failure
  return done;
}

std::vector<LiveMarks::Run> LiveMarks::overdue(
    std::span<const Run> runs, const std::function<nanoseconds(Word queue)>& timeout_of) {
  const std::scoped_lock held(lock_);
  const auto now = Clock::now();
  std::vector<Run> found;
  for (const Run& run : runs) {
    Sight& sight = sights_[run.crew];
    if (sight.state != run.state) sight = {.state = run.state, .since = now};
    const nanoseconds timeout = timeout_of(run.queue);
    if (run.was_told_to_end || timeout.count() == 0 || now - sight.since < timeout) continue;
    found.push_back(run);
  }
  return found;
}

}  // namespace everkernel::backend::cuda
