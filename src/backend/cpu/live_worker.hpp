// One worker of a live kernel: which queue is next, taking entries, running them, sleeping.
#pragma once

#include <array>
#include <chrono>

#include "backend/cpu/live_kernel.hpp"
#include "backend/cpu/lookout.hpp"

namespace everkernel::backend::cpu {

/// Takes and runs items on one thread.
class LiveWorker {
 public:
  /// Counts in the seat of that index.
  LiveWorker(CpuLiveKernel& kernel, Word seat);

  /// Works until the kernel must leave.
  void run();
  /// As LiveKernel::help.
  Word help(LiveQueue& queue, LongWord awaited);

 private:
  class Turn;
  enum class Take { nothing, lost, items };
  /// Tickets that were taken together.
  struct Taken {
    LongWord first;
    Word count;
    Word opcode;  // of the first, as it was seen before
    bool waits;   // whether the item, which is alone then, has a room in the table
  };

  bool must_leave() const;
  bool step();
  bool step_in(const Roster::Levels& levels);
  bool try_level(const Roster::Levels& levels, Word level);
  bool serve(CpuQueue& queue);
  Take take(CpuQueue& queue, bool only_short);
  Word count_short(const CpuQueue& queue, LongWord first, LongWord most) const;
  LongWord most_short(const LiveQueue& live, LongWord first, LongWord room) const;
  static bool is_left_to_helper(CpuQueue& queue, LongWord first);
  bool admit(Word tenant, bool& is_counted);
  void run_taken(CpuQueue& queue, const Taken& taken);
  void run_tickets(CpuQueue& queue, const Taken& taken);
  void cancel(LiveQueue& live, LongWord first, Word count);
  Word end_nops(const LiveQueue& live, LongWord ticket, Word most);
  void run_ticket(CpuQueue& queue, LongWord ticket, bool waits,
                  const memory::BufferTableView& buffers);
  bool visit_waiting(CpuQueue& queue);
  bool is_ready(CpuQueue& queue, WaitingItem& item);
  bool end_io_wait(CpuQueue& queue, WaitingItem& item);
  void run_item(CpuQueue& queue, WaitingItem& item, const memory::BufferTableView& buffers);
  void run_fence(CpuQueue& queue, WaitingItem& item);
  static bool is_fence_ready(const LiveQueue& live, WaitingItem& item);
  std::int64_t begin_of_run(const LiveQueue& live) const;
  void wait_with(CpuQueue& queue, WaitingItem& item, abi::SlotStatus status);
  void end_done(CpuQueue& queue, const WaitingItem& item);
  void end_fault(CpuQueue& queue, const WaitingItem& item, Word code);
  bool must_cancel(const CpuQueue& queue, bool has_begun) const;
  bool has_work(const Roster& roster) const;
  bool is_takeable(const LiveQueue& live) const;
  static bool has_waiting(const Roster& roster);

  void choose_interval(bool is_short, bool is_long_row);
  static void wait_a_while(int pauses);
  void count_idle(bool is_idle);
  void be_idle();
  void rest();
  void sleep(std::chrono::nanoseconds time);
  void finish_counting(const LiveQueue& live);
  void flush();

  CpuLiveKernel& kernel_;
  LiveSeat& seat_;
  ItemContext& context_;
  const Executor& executor_;
  Tally& tally_;
  ItemRunner runner_;
  Lookout lookout_;

  const bool is_helper_;  // runs items on host threads
  Word urgent_ = 0;       // items in a row that were CRITICAL or HIGH
  bool prefers_waiting_ = false;
  std::array<std::size_t, abi::kPriorityCount> tenant_turns_ = {};
  std::array<std::array<std::size_t, abi::kTenantCount>, abi::kPriorityCount> queue_turns_ = {};

  Word batches_ = 0;              // of several items
  Tally::Stretch stretch_ = {};   // items since the last addition to the tally
  bool is_announced_ = false;     // the ends of the items that run are announced already
  bool ends_nops_ = false;        // a NOP of the queue that runs ends without a runner
  bool has_room_ = false;         // the item that runs has a room in the table of waiting items
  bool is_stuck_ = false;         // the last step left items that wait
  bool is_counted_idle_ = false;  // among CpuLiveKernel::idle_workers_
  std::int64_t looked_at_ = 0;    // when the look that is under way began; 0 = not known
  int interval_ = 0;
  int empty_polls_ = 0;
  int idle_pauses_ = 0;
  int look_pauses_ = 0;  // the time that a look at every queue takes
  int pauses_before_yield_ = 0;
  std::chrono::milliseconds nap_;
  std::uint64_t flushed_at_ = 0;
  std::uint32_t seen_requests_ = 0;
};

}  // namespace everkernel::backend::cpu
