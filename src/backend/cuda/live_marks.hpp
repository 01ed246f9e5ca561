// The marks of a live kernel as the host has them: which long items run, since when, and a way to
// end one of them (device/live_marks.cuh).
//
// Clocks: a mark says on the device's clock when a run began. A crew that acknowledges orders notes
// the time on that clock, and the host knows when it gave them. The crew that was fastest tells how
// far the clocks are apart, to the microseconds in which it saw the orders; from then on they drift
// apart by some millionths. Timeouts need neither: the host measures them from the time at which it
// first saw a run.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/live_rows.hpp"

namespace everkernel::backend::cuda {

// Thread-safe.
class LiveMarks {
 public:
  // Fails as CudaMemory::create does.
  static Result<std::unique_ptr<LiveMarks>> create(const std::shared_ptr<Context>& context,
                                                   Word crew_count);

  // Tells the kernel where they are.
  void set_in(device::LiveParams& params) const;
  // Called before the crews can see orders of that epoch.
  void note_orders(Word epoch);
  // Whether it is time to give orders by which the clocks can be compared.
  bool must_compare_clocks() const;

  // A run of items that may take long.
  struct Run {
    Word crew = 0;
    Word state = 0;  // names the run among those of the crew
    Word queue = 0;  // its number
    abi::LongWord ticket = 0;
    Word lanes = 0;   // bit i: the crew runs ticket + i
    Word opcode = 0;  // of the first item
    Word multiprocessor = 0;
    Clock::time_point since = {};
    bool was_told_to_end = false;
  };
  // The runs that are under way. Fails with `device_lost`.
  Result<std::vector<Run>> read();
  // Whether a crew has acknowledged the last orders, as read() saw it.
  bool has_compared_clocks() const;

  // Ends those of the runs under way for which `must_end` is true at their next turn of a loop.
  // Fails with `device_lost`.
  Result<void> end_runs(const std::function<bool(const Run&)>& must_end);
  // Those of the runs that were there longer ago than `timeout_of` their queue, 0 being no limit.
  // Give it every read, at least one after the other as often as a timeout is to be exact.
  std::vector<Run> overdue(std::span<const Run> runs,
                           const std::function<std::chrono::nanoseconds(Word queue)>& timeout_of);

 private:
  // Orders that were given.
  struct Given {
    Word epoch = 0;
    Clock::time_point time = {};
  };
  // A run, and when it was first seen.
  struct Sight {
    Word state = 0;
    Clock::time_point since = {};
  };
  static constexpr std::size_t kGivenOrders = 64;
  // The clocks are compared anew after this time.
  static constexpr auto kClockLife = std::chrono::seconds(10);

  LiveMarks(std::unique_ptr<Memory> block, Word crew_count);
  std::size_t marks_offset() const { return sizeof(device::LivePasses); }
  std::size_t aborts_offset() const {
    return marks_offset() + crew_count_ * sizeof(device::LiveMark);
  }
  Result<std::vector<Run>> read_locked();
  void compare_clocks(std::span<const device::LiveMark> marks);
  Clock::time_point host_time(device::Wide time) const;
  Result<void> write_passes(Word begun, Word over);

  const std::unique_ptr<Memory> block_;  // passes, marks, abort words
  const Word crew_count_;
  mutable std::mutex lock_;  // guards everything below
  Word passes_ = 0;
  std::vector<Sight> sights_;  // by crew
  std::vector<Word> told_;     // by crew: the state of the run that was last told to end
  std::array<Given, kGivenOrders> given_ = {};  // by epoch
  Word last_epoch_ = 0;                         // of given_
  Word seen_epoch_ = 0;                         // the last one that a crew has acknowledged
  Clock::time_point compared_at_ = {};          // when the orders were given that set the next one
  std::int64_t offset_ns_ = 0;                  // of the host's clock to that of the device
};

}  // namespace everkernel::backend::cuda
