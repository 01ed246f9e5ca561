// Starts the live kernel, gives it orders, follows what it does, and ends it.
#include "backend/cuda/live_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <thread>

#include "backend/cuda/abort_word.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/base/assert.hpp"

namespace everkernel::backend::cuda {
namespace {

using device::LiveOrders;
using device::LiveParams;
using device::LiveShared;
using device::Wide;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// The large built-in operations in the order of LiveCounts::large_builtin()
// (device/live_counts.cuh).
constexpr std::array kLargeOpcodes{
    static_cast<Word>(abi::Opcode::load_miss), static_cast<Word>(abi::Opcode::printf),
    static_cast<Word>(abi::Opcode::packed_slot), static_cast<Word>(abi::Opcode::shutdown)};
// Of the small built-in operations, those below this opcode are counted by the control words.
constexpr Word kSmallOpcodes = static_cast<Word>(abi::Opcode::batch_fence) + 1;
// Between looks of the keeper: while host threads sleep on outcomes, and else.
constexpr auto kKeenNap = microseconds(50);
constexpr auto kKeeperNap = milliseconds(5);
// Between looks of stop() at a kernel that ends.
constexpr auto kLeaveLook = microseconds(20);
// Running items are told to end again this often, because a crew may have begun another one.
constexpr auto kEndInterval = milliseconds(2);
// The keeper looks for overdue items this often in the shortest timeout of a queue, and at most and
// at least in these intervals.
constexpr int kLooksPerTimeout = 4;
constexpr Clock::duration kShortestLook = microseconds(250);
constexpr Clock::duration kLongestLook = kKeeperNap;
// To compare the clocks of host and device, a crew has to see new orders within this time.
constexpr auto kClockMoment = milliseconds(2);
// A crew acknowledges orders between two looks. Only a device that does other work takes longer.
constexpr auto kAcknowledgeTimeout = std::chrono::seconds(30);
// Cycles in which a host thread that waits for an outcome sees it and publishes its next item
// (decision 0018).
constexpr Word kAnswerCycles = 300;
// Orders that crews may still have, from which on they are freed without waiting for the keeper.
constexpr std::size_t kManyRetired = 32;
// How long the keeper waits for crews to gather: at first, and after it was in vain many times.
constexpr auto kFirstPatience = milliseconds(1);
constexpr auto kMostPatience = milliseconds(16);
// Least time between two such attempts.
constexpr auto kParkingInterval = std::chrono::seconds(1);
// Longest pause between two looks of a kernel without work. A pause takes up to twice as long, so
// that a first item waits at most 16 us longer than at full speed.
constexpr Word kLongestPauseNs = 8000;

// Warps of a session on a multiprocessor. They keep items in registers, of which they take less
// than half, so that other kernels run beside them.
constexpr Word kWarpsPerSm = 4;

// Of that many crews, one is left to others by a tenant whose quota was not set.
constexpr Word kShareLeft = 8;

// Crews that serve one priority each, if that leaves at least as many for all.
Word home_crews_of(const CrewKernel& kernel, Word crew_count) {
  const Word home = kernel.has_groups ? 1 : kWarpsPerSm;
  return crew_count >= 2 * home * abi::kPriorityCount ? home : 0;
}

Failure stopped() {
  return fail(Code::invalid_argument, "session is stopped", "start a new session");
}

Result<void> without_exceptions(const std::function<Result<void>()>& act) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    return fail(Code::out_of_memory, "cuda: no memory for the code of a session");
  }
}

bool is_before(Word epoch, Word other) {
  return static_cast<std::int32_t>(epoch - other) < 0;
}

}  // namespace

Word live_worker_count(const Context& context, const CrewKernel& kernel, Word limit,
                       Word sm_count) {
  const Word there = context.facts().sm_count;
  sm_count = sm_count == 0 ? there : std::min(sm_count, there);
  const Word most = kernel.has_groups ? (sm_count + 1) / 2 : sm_count * kWarpsPerSm;
  return limit == 0 ? most : std::min(limit, most);
}

// Crews that serve one priority alone are too few to run what all other tenants publish, so the
// largest share leaves some of the others too.
Word largest_live_share(const CrewKernel& kernel, Word crew_count) {
  const Word home = home_crews_of(kernel, crew_count) * abi::kPriorityCount;
  const Word left = home == 0 ? 1 : home + crew_count / kShareLeft;
  return crew_count > left ? crew_count - left : 1;
}

// ---- starting ----

Result<std::unique_ptr<LiveKernel>> CudaLiveKernel::start(LiveCode code, const LiveLaunch& launch) {
  if (!protocol::has_whole_quad_stores()) {
    return fail(Code::unsupported, "cuda: this processor does not store 16 bytes as one",
                "use the CPU backend for sessions");
  }
  if (!code.context->facts().has_memory_pools) {  // cuMemFree waits for a kernel that stays
    return fail(Code::unsupported, "cuda: the driver has no memory pools on this device",
                "use the CPU backend for sessions");
  }
  const auto control =
      EVERKERNEL_TRY(protocol::LiveWords::bind(protocol::Buffer::control, launch.control));
  const auto debug_log =
      EVERKERNEL_TRY(protocol::LiveWords::bind(protocol::Buffer::debug_log, launch.debug_log));
  const auto io_queue =
      EVERKERNEL_TRY(protocol::LiveWords::bind(protocol::Buffer::io_queue, launch.io_queue));
  Stream stream = EVERKERNEL_TRY(Stream::create(code.context));
  std::unique_ptr<CudaLiveKernel> kernel(
      new CudaLiveKernel(std::move(code), launch, std::move(stream), control, debug_log, io_queue));
  EVERKERNEL_TRY(kernel->prepare());
  {
    const std::scoped_lock held(kernel->lock_);
    EVERKERNEL_TRY(kernel->launch());
  }
  kernel->keeper_ = EVERKERNEL_TRY(
      Thread::start([self = kernel.get()](const std::stop_token& stop) { self->keep(stop); }));
  return std::unique_ptr<LiveKernel>(std::move(kernel));
}

CudaLiveKernel::CudaLiveKernel(LiveCode code, const LiveLaunch& launch, Stream stream,
                               protocol::LiveWords control, protocol::LiveWords debug_log,
                               protocol::LiveWords io_queue)
    : context_(code.context),
      latency_(launch.latency),
      stream_(std::move(stream)),
      debug_log_(debug_log),
      code_(std::move(code)),
      control_(control),
      io_queue_(io_queue),
      parking_patience_(kFirstPatience) {}

Result<void> CudaLiveKernel::prepare() {
  const Current current = EVERKERNEL_TRY(context().enter());
  EVERKERNEL_TRY(adopt(code_));
  EVERKERNEL_TRY(control_.create_on(code_.context));
  EVERKERNEL_TRY(io_queue_.create_on(code_.context));
  device_log_ =
      EVERKERNEL_TRY(CudaMemory::create(code_.context, debug_log_.size() * abi::kWordBytes));
  shared_ = EVERKERNEL_TRY(CudaMemory::create(code_.context, sizeof(LiveShared)));
  places_ = EVERKERNEL_TRY(OrderPlaces::create(code_.context));
  // Other handlers may come with more crews.
  const Word most_crews = std::max(code_.worker_count, code_.sm_count * kWarpsPerSm);
  marks_ = EVERKERNEL_TRY(LiveMarks::create(code_.context, most_crews));
  EVERKERNEL_TRY(give_orders());
  return context().wait(context().copy_stream(), context().copy_deadline(), "giving orders");
}

// Makes this the code of the next launch. If it fails, the code before it stays.
Result<void> CudaLiveKernel::adopt(LiveCode code) {
  EVERKERNEL_TRY(divide_cache(context(), code.crew, largest_tile_bytes(code.crew)));
  std::shared_ptr<Memory> seats =
      EVERKERNEL_TRY(CudaMemory::create(context_, code.worker_count * sizeof(Wide)));
  const std::size_t counters = code.opcodes.size() + kLargeOpcodes.size();
  auto executions = EVERKERNEL_TRY(CudaMemory::create(context_, counters * sizeof(Wide)));
  std::vector<OpcodeTotal> earlier = earlier_;
  if (executions_ != nullptr) {
    earlier.clear();
    add_executions(earlier, false);
  }
  code_ = std::move(code);
  seats_ = std::move(seats);
  executions_ = std::move(executions);
  earlier_ = std::move(earlier);
  return {};
}

LiveParams CudaLiveKernel::make_params() const {
  LiveParams params{};
  params.shared = pointer_to<LiveShared>(*shared_);
  params.seats = pointer_to<Wide>(*seats_);
  params.executions = pointer_to<Wide>(*executions_);
  params.control = control_.on_device().device_address();
  params.debug_log = device_log_->device_address();
  params.io_queue = io_queue_.on_device().device_address();
  params.control_words = control_.size();
  params.debug_log_words = static_cast<Word>(debug_log_.size());
  params.io_words = io_queue_.size();
  params.crew_count = code_.worker_count;
  params.slots_per_crew = code_.worker_count < kWarp ? 1 : kWarp;
  params.group_lanes = code_.group_lanes;
  params.handler_count = static_cast<Word>(code_.opcodes.size());
  params.fuel_per_item = code_.fuel_per_item;
  params.home_crews = home_crews_of(code_.crew, code_.worker_count);
  marks_->set_in(params);
  params.longest_pause_ns = latency_ == Latency::lowest ? 0 : kLongestPauseNs;
  params.answer_cycles = kAnswerCycles;
  params.settled_epoch = settled_epoch_;
  return params;
}

// `lock_` is held.
Result<void> CudaLiveKernel::launch() {
  const Current current = EVERKERNEL_TRY(context().enter());
  const Grid grid =
      crew_grid(code_.sm_count, code_.crew, code_.worker_count, largest_tile_bytes(code_.crew));
  context().begin_stay();  // first: the end of another session must not wait for this kernel
  const auto launched = context().launch(code_.crew.function, grid, stream_.get(), make_params());
  if (!launched) {
    context().end_stay();
    return launched;
  }
  is_running_.store(true, std::memory_order_release);
  is_away_ = false;
  ++totals_.launches;
  return {};
}

CudaLiveKernel::~CudaLiveKernel() {
  stop(Clock::now(), LeaveMode::hand_over);
}

// ---- orders ----

// Crews see the new orders at their next look; those that run an item, when it has ended. `lock_`
// is held, but by start().
Result<void> CudaLiveKernel::give_orders() {
  std::vector<const DeviceQueue*> sorted;
  for (const auto& queue : queues_) sorted.push_back(queue.get());
  std::ranges::stable_sort(sorted, {}, [](const DeviceQueue* queue) {
    return std::pair(queue->live().priority, queue->live().tenant);
  });
  LiveOrders orders{};
  orders.epoch = present_.epoch + 1;
  orders.leaving = leaving_;
  orders.table = present_.table == nullptr ? nullptr : present_.table->device_address();
  orders.table_mask = table_mask_;
  const std::size_t rows_end = sizeof orders + sorted.size() * sizeof(Wide);
  const std::size_t limit_bytes = has_limits() ? sorted.size() * sizeof(Wide) : 0;
  std::vector<std::byte> image(rows_end + limit_bytes);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const Wide row = sorted[i]->row();
    std::memcpy(image.data() + sizeof orders + i * sizeof row, &row, sizeof row);
    const Wide limit = sorted[i]->live().limit.load(std::memory_order_relaxed);
    if (limit_bytes != 0) {
      std::memcpy(image.data() + rows_end + i * sizeof limit, &limit, sizeof limit);
    }
    for (Word level = sorted[i]->live().priority + 1; level <= abi::kPriorityCount; ++level) {
      orders.level_begin[level] = static_cast<Word>(i + 1);
    }
  }
  auto place = EVERKERNEL_TRY(places_->take(image.size()));
  const Wide address = place.address();
  orders.queues = reinterpret_cast<device::LiveQueueRow* const*>(address + sizeof orders);
  orders.limits = limit_bytes == 0 ? nullptr : reinterpret_cast<const Wide*>(address + rows_end);
  std::memcpy(image.data(), &orders, sizeof orders);
  EVERKERNEL_TRY(place.write(image));
  Orders next{.epoch = orders.epoch,
              .place = std::move(place),
              .table = present_.table,
              .table_owner = present_.table_owner};
  if (retired_.size() >= kManyRetired) free_retired();
  retired_.push_back(std::move(present_));
  present_ = std::move(next);
  marks_->note_orders(present_.epoch);
  EVERKERNEL_TRY(
      present_.place.store_address(driver_address(*shared_) + offsetof(LiveShared, orders)));
  return {};
}

bool CudaLiveKernel::has_limits() const {
  return std::ranges::any_of(queues_, [](const auto& queue) {
    return queue->live().limit.load(std::memory_order_relaxed) != LiveQueue::kNoLimit;
  });
}

Result<std::vector<Wide>> CudaLiveKernel::read_seats(const Memory& seats) {
  std::vector<Wide> words(seats.size_bytes() / sizeof(Wide));
  EVERKERNEL_TRY(seats.read(0, std::as_writable_bytes(std::span(words))));
  return words;
}

// Frees orders that no crew has any more. A crew that has left has none; while some have not begun,
// all orders stay.
void CudaLiveKernel::free_retired() {
  if (retired_.empty()) return;
  Word oldest = present_.epoch;
  if (is_running()) {
    const auto seats = read_seats(*seats_);
    if (!seats) return;
    for (const Wide seat : *seats) {
      if (seat == device::kSeatLeft) continue;
      const Word epoch = static_cast<Word>(seat >> 32);
      if (is_before(epoch, oldest)) oldest = epoch;
    }
  }
  retired_.remove_if([&](const Orders& orders) { return is_before(orders.epoch, oldest); });
}

// Waits until every crew works by the present orders or runs items of a queue that is not the
// closed one: it looks at the orders before it takes anything else. Fails with `timeout`.
Result<void> CudaLiveKernel::wait_acknowledged(Clock::time_point deadline, Word closed_queue) {
  Word epoch = 0;
  std::shared_ptr<const Memory> crews;
  {
    const std::scoped_lock held(lock_);
    epoch = present_.epoch;
    crews = seats_;  // if the code is replaced meanwhile, these crews have left
  }
  const auto has_acknowledged = [&](Wide seat) {
    if (seat == 0 || seat == device::kSeatLeft) return true;
    const Word queue = static_cast<Word>(seat);
    if (seat != device::kSeatArrived && queue != 0 && queue != closed_queue) return true;
    return !is_before(static_cast<Word>(seat >> 32), epoch);
  };
  while (is_running()) {
    const auto seats = EVERKERNEL_TRY(read_seats(*crews));
    if (std::ranges::all_of(seats, has_acknowledged)) return {};
    EVERKERNEL_TRY(context().check_alive());
    if (Clock::now() >= deadline) {
      return fail(Code::timeout, "cuda: the kernel of a session did not answer in time",
                  "look for an endless loop in trusted handlers");
    }
  }
  return {};
}

// ---- parking ----

Result<void> CudaLiveKernel::parked(const std::function<void()>& act, Clock::time_point deadline) {
  EVERKERNEL_TRY(home_.check("session"));
  EVERKERNEL_TRY(begin_parking(deadline));
  struct Parking {
    CudaLiveKernel& kernel;
    ~Parking() { kernel.end_parking(); }
  } const parking{*this};
  EVERKERNEL_TRY(park(deadline));
  context().end_stay();
  act();
  return unpark();
}

// One thread at a time parks the kernel.
Result<void> CudaLiveKernel::begin_parking(Clock::time_point deadline) {
  std::unique_lock held(lock_);
  const bool is_free = parking_over_.wait_until(held, deadline, [this] { return !is_parking_; });
  if (has_stopped_ || !is_running()) return stopped();
  if (!is_free) {
    return fail(Code::timeout, "cuda: another thread had the session parked until the deadline",
                "raise the timeout");
  }
  is_parking_ = true;
  return {};
}

void CudaLiveKernel::end_parking() {
  {
    const std::scoped_lock held(lock_);
    is_parking_ = false;
  }
  parking_over_.notify_all();
}

// Ends the kernel when no crew holds anything. If that does not come about until the deadline, the
// kernel goes on.
Result<void> CudaLiveKernel::park(Clock::time_point deadline) {
  EVERKERNEL_TRY(tell_to(device::Leaving::gather));
  const auto waited = wait_gathered(deadline);
  const bool has_left = (waited && *waited) || EVERKERNEL_TRY(call_off());
  const std::scoped_lock held(lock_);
  if (has_stopped_) return stopped();
  if (!has_left && !waited) return Failure(waited.error());
  if (!has_left) {
    return fail(Code::timeout, "cuda: an item held up the parking of a session until the deadline",
                "raise the timeout, or park when no long items run");
  }
  leaving_ = device::Leaving::stay;
  settled_epoch_ = present_.epoch;
  is_away_ = true;
  return {};
}

// Gives orders that ask crews to gather, or no longer. A session that was stopped has others.
Result<void> CudaLiveKernel::tell_to(device::Leaving leaving) {
  const std::scoped_lock held(lock_);
  if (has_stopped_) return stopped();
  leaving_ = leaving;
  struct Undo {
    device::Leaving* leaving;
    ~Undo() {
      if (leaving != nullptr) *leaving = device::Leaving::stay;
    }
  } undo{&leaving_};
  EVERKERNEL_TRY(give_orders());
  undo.leaving = nullptr;
  return {};
}

// Waits until the kernel has ended; false at the deadline.
Result<bool> CudaLiveKernel::wait_gathered(Clock::time_point deadline) {
  const Current current = EVERKERNEL_TRY(context().enter());
  const auto ended = context().wait(stream_.get(), deadline, "parking a session");
  if (ended || ended.error().code == Code::timeout) return ended.has_value();
  return Failure(ended.error());
}

// Tells crews that have gathered to go on. If all of them had gathered before they saw that, waits
// for the end of the kernel and returns true.
Result<bool> CudaLiveKernel::call_off() {
  EVERKERNEL_TRY(tell_to(device::Leaving::stay));
  EVERKERNEL_TRY(wait_acknowledged(deadline_after(kAcknowledgeTimeout), 0));
  Word parked = 0;
  EVERKERNEL_TRY(
      shared_->read(offsetof(LiveShared, parked), std::as_writable_bytes(std::span(&parked, 1))));
  if (!is_before(settled_epoch_, parked)) return false;
  return wait_gathered(deadline_after(kAcknowledgeTimeout));
}

// Launches the kernel again on the same queues, unless the session was stopped meanwhile.
Result<void> CudaLiveKernel::unpark() {
  auto launched = [this]() -> Result<void> {
    const std::scoped_lock held(lock_);
    if (has_stopped_) return {};
    return launch();
  }();
  if (launched) return {};
  note(launched);
  note_end();
  return launched;
}

// The kernel is away only for the time in which other code is loaded. If that fails, it goes on
// with the code that it had.
Result<void> CudaLiveKernel::replace(const std::function<Result<LiveCode>(Word sm_count)>& load,
                                     Clock::time_point deadline) {
  Result<void> replaced;
  const auto act = [&]() -> Result<void> {
    LiveCode code = EVERKERNEL_TRY(load(code_.sm_count));
    const Current current = EVERKERNEL_TRY(context().enter());
    const std::scoped_lock held(lock_);
    return adopt(std::move(code));
  };
  EVERKERNEL_TRY(parked([&] { replaced = without_exceptions(act); }, deadline));
  return replaced;
}

Result<void> CudaLiveKernel::settle(Clock::time_point deadline) {
  {
    const std::scoped_lock held(lock_);
    EVERKERNEL_TRY(give_orders());
  }
  EVERKERNEL_TRY(wait_acknowledged(deadline, 0));
  const std::scoped_lock held(lock_);
  for (const auto& queue : queues_) EVERKERNEL_TRY(queue->note_head());
  return {};
}

// The keeper parks the kernel for a moment when much waits to be freed. An item that takes long
// holds up the others meanwhile, so that it waits only a short time for them, and tries again.
void CudaLiveKernel::free_what_waits() {
  const auto now = Clock::now();
  if (now < next_parking_ || !context().has_much_to_free()) return;
  {
    const std::scoped_lock held(lock_);
    if (is_parking_) return;
  }
  const auto freed = parked([] {}, now + parking_patience_);
  parking_patience_ =
      freed ? kFirstPatience : std::min<Clock::duration>(2 * parking_patience_, kMostPatience);
  next_parking_ = Clock::now() + kParkingInterval;
}

// ---- queues and buffers ----

Result<void> CudaLiveKernel::open(std::shared_ptr<LiveQueue> queue) {
  const std::scoped_lock held(lock_);
  queues_.reserve(queues_.size() + 1);
  std::shared_ptr<DeviceQueue> made =
      EVERKERNEL_TRY(DeviceQueue::create(code_.context, std::move(queue), ++queues_made_));
  queues_.push_back(made);
  auto given = give_orders();
  if (!given) queues_.pop_back();
  return given;
}

std::shared_ptr<DeviceQueue> CudaLiveKernel::take_queue(const LiveQueue& queue) {
  const std::scoped_lock held(lock_);
  const auto found =
      std::ranges::find_if(queues_, [&](const auto& known) { return &known->live() == &queue; });
  if (found == queues_.end()) return nullptr;
  auto taken = *found;
  queues_.erase(found);
  closing_.push_back(taken);
  note(give_orders());
  return taken;
}

std::uint64_t CudaLiveKernel::close(LiveQueue& queue, Clock::time_point deadline) {
  if (!home_.is_here()) return 0;
  const auto closing = take_queue(queue);
  if (closing == nullptr) return 0;
  auto untouched = wait_acknowledged(deadline, closing->number());
  if (!untouched && untouched.error().code == Code::timeout) {
    untouched = wait_for_runs(deadline_after(kAbortTimeout), closing->number());
  }
  if (!untouched) {
    note(context().lose({.code = Code::device_lost,
                         .message = "cuda: items of a queue did not end after its deadline",
                         .hint = "start a new process; look for endless loops in trusted handlers",
                         .native = {}}));
  }
  const std::uint64_t cancelled = cancel_taken(*closing);
  {
    const std::scoped_lock held(lock_);
    std::erase(closing_, closing);
  }
  queue.notify();
  return cancelled;
}

// Ends the items of a closed queue until no crew runs one: a crew may have a row of them.
Result<void> CudaLiveKernel::wait_for_runs(Clock::time_point deadline, Word closed_queue) {
  for (;;) {
    EVERKERNEL_TRY(
        marks_->end_runs([&](const LiveMarks::Run& run) { return run.queue == closed_queue; }));
    const auto next = std::min(deadline, Clock::now() + kEndInterval);
    auto untouched = wait_acknowledged(next, closed_queue);
    if (untouched || untouched.error().code != Code::timeout || next == deadline) return untouched;
  }
}

// Cancels what the kernel has taken and not ended, when it does not touch the queue any more.
std::uint64_t CudaLiveKernel::cancel_taken(DeviceQueue& queue) const {
  note(queue.note_head());
  LiveQueue& live = queue.live();
  std::uint64_t cancelled = 0;
  const abi::LongWord end = live.head.load(std::memory_order_acquire);
  for (abi::LongWord ticket = live.raise_floor(); ticket < end; ++ticket) {
    if (live.words.has_ended(ticket)) continue;
    live.words.end(ticket, abi::OutcomeCode::cancelled, 0, {});
    ++cancelled;
  }
  return cancelled;
}

// The table of the host is copied; the old one stays until no crew has it any more.
void CudaLiveKernel::set_buffers(const memory::BufferTableView& buffers,
                                 std::shared_ptr<const void> owner) {
  const auto replace = [&]() -> Result<void> {
    const std::scoped_lock held(lock_);
    std::shared_ptr<Memory> table;
    if (buffers.entries != nullptr) {
      const auto entries = std::span(buffers.entries, std::size_t{buffers.mask} + 1);
      table = EVERKERNEL_TRY(CudaMemory::create(code_.context, entries.size_bytes()));
      EVERKERNEL_TRY(table->write(0, std::as_bytes(entries)));
    }
    // The present orders, which are about to be retired, keep what they had.
    Orders kept{.epoch = present_.epoch,
                .place = {},
                .table = std::exchange(present_.table, std::move(table)),
                .table_owner = std::exchange(present_.table_owner, std::move(owner))};
    retired_.push_back(std::move(kept));
    table_mask_ = buffers.mask;
    return give_orders();
  };
  auto replaced = replace();
  if (replaced) replaced = wait_acknowledged(deadline_after(kAcknowledgeTimeout), 0);
  note(std::move(replaced));
}

void CudaLiveKernel::look_again() {
  if (!home_.is_here()) return;
  const auto push = [&]() -> Result<void> {
    {
      const std::scoped_lock held(lock_);
      EVERKERNEL_TRY(control_.sync());
      EVERKERNEL_TRY(io_queue_.sync());
      if (!is_running()) return {};
      EVERKERNEL_TRY(give_orders());
    }
    return wait_acknowledged(deadline_after(kAcknowledgeTimeout), 0);
  };
  note(push());
}

void CudaLiveKernel::copy_waiting(const LiveQueue& queue, std::vector<LiveItem>& items) const {
  if (!home_.is_here()) return;
  const std::scoped_lock held(lock_);
  for (const auto& known : queues_) {
    if (&known->live() == &queue) note(known->copy_waiting(items));
  }
}

// ---- items that run ----

const DeviceQueue* CudaLiveKernel::find_queue(Word number) const {
  for (const auto* list : {&queues_, &closing_}) {
    const auto found = std::ranges::find(*list, number, &DeviceQueue::number);
    if (found != list->end()) return found->get();
  }
  return nullptr;
}

// Gives orders that change nothing, unless some were given lately, and waits until a crew has
// acknowledged them: that compares the clocks (live_marks.hpp). A kernel of which every crew runs
// long items keeps the last comparison.
Result<void> CudaLiveKernel::compare_clocks() {
  if (!marks_->must_compare_clocks()) return {};
  {
    const std::scoped_lock held(lock_);
    EVERKERNEL_TRY(give_orders());
  }
  const auto end = Clock::now() + kClockMoment;
  do {
    EVERKERNEL_TRY(marks_->read());
  } while (!marks_->has_compared_clocks() && Clock::now() < end);
  return {};
}

Result<void> CudaLiveKernel::copy_running(std::vector<LiveRunning>& items) {
  if (!home_.is_here() || !is_running()) return {};
  EVERKERNEL_TRY(compare_clocks());
  const std::scoped_lock held(lock_);
  for (const LiveMarks::Run& run : EVERKERNEL_TRY(marks_->read())) add_running(run, items);
  return {};
}

void CudaLiveKernel::add_running(const LiveMarks::Run& run, std::vector<LiveRunning>& items) const {
  const DeviceQueue* const queue = find_queue(run.queue);
  if (queue == nullptr) return;
  const LiveQueue& live = queue->live();
  for (Word lane = 0; lane < kWarp; ++lane) {
    const abi::LongWord ticket = run.ticket + lane;
    if ((run.lanes >> lane & 1) == 0 || live.words.has_ended(ticket)) continue;
    // A mark has the opcode of the first item. Those of the others are in their entries.
    const auto slot = lane == 0 ? std::nullopt : live.words.copy_slot(ticket);
    items.push_back({.queue = &live,
                     .ticket = ticket,
                     .opcode = slot ? slot->opcode : run.opcode,
                     .worker = run.crew,
                     .multiprocessor = run.multiprocessor,
                     .since = run.since,
                     .was_told_to_end = run.was_told_to_end});
  }
}

// How often the keeper looks for overdue items; kLongestLook or less only if a queue has a timeout.
Clock::duration CudaLiveKernel::look_interval() const {
  const std::scoped_lock held(lock_);
  auto shortest = Clock::duration::max();
  for (const auto* list : {&queues_, &closing_}) {
    for (const auto& queue : *list) {
      const Clock::duration timeout = queue->live().item_timeout;
      if (timeout.count() != 0) shortest = std::min(shortest, timeout);
    }
  }
  if (shortest == Clock::duration::max()) return shortest;
  return std::clamp(shortest / kLooksPerTimeout, kShortestLook, kLongestLook);
}

// Tells items to end that have run longer than their queue allows; `lock_` is held.
Result<void> CudaLiveKernel::end_overdue() {
  const auto timeout_of = [this](Word number) {
    const DeviceQueue* const queue = find_queue(number);
    return queue == nullptr ? std::chrono::nanoseconds(0) : queue->live().item_timeout;
  };
  const auto overdue = marks_->overdue(EVERKERNEL_TRY(marks_->read()), timeout_of);
  if (overdue.empty()) return {};
  return marks_->end_runs([&](const LiveMarks::Run& run) {
    return std::ranges::any_of(overdue, [&](const LiveMarks::Run& found) {
      return found.crew == run.crew && found.state == run.state;
    });
  });
}

// ---- counts and copies ----

// Crews that look have added the counts of their items when they acknowledge orders, and crews that
// run long items add theirs before the outcome.
LiveCounters CudaLiveKernel::flush_counters() {
  if (!home_.is_here()) return {};
  const auto flush = [&]() -> Result<void> {
    if (is_running()) {
      {
        const std::scoped_lock held(lock_);
        EVERKERNEL_TRY(give_orders());
      }
      EVERKERNEL_TRY(wait_acknowledged(deadline_after(kAcknowledgeTimeout), 0));
    }
    const std::scoped_lock held(lock_);
    return sync();
  };
  note(flush());
  const std::scoped_lock held(lock_);
  return totals_;
}

void CudaLiveKernel::mirror() {
  if (!home_.is_here()) return;
  const std::scoped_lock held(lock_);
  note(sync());
}

void CudaLiveKernel::refresh_control(std::size_t word) {
  if (!home_.is_here() || word >= control_.size()) return;
  const std::scoped_lock held(lock_);
  note(control_.sync_word(word));
}

// Brings everything of the host up to date; `lock_` is held.
Result<void> CudaLiveKernel::sync() {
  EVERKERNEL_TRY(context().check_alive());
  EVERKERNEL_TRY(sync_counts());
  EVERKERNEL_TRY(control_.sync());
  EVERKERNEL_TRY(io_queue_.sync());
  std::vector<Word> log(debug_log_.size());
  EVERKERNEL_TRY(device_log_->read(0, std::as_writable_bytes(std::span(log))));
  protocol::LiveWords host_log = debug_log_;
  for (std::size_t i = log.size(); i-- > 0;) host_log.store_release(i, log[i]);
  for (const auto& queue : queues_) EVERKERNEL_TRY(queue->note_head());
  return {};
}

Result<void> CudaLiveKernel::sync_counts() {
  LiveShared shared{};
  constexpr std::size_t kFirst = offsetof(LiveShared, totals);
  EVERKERNEL_TRY(
      shared_->read(kFirst, std::as_writable_bytes(std::span(&shared, 1)).subspan(kFirst)));
  LiveCounters now = totals_;
  now.done = shared.totals.done;
  now.faulted = shared.totals.faulted;
  now.hits_dropped = shared.hits_dropped;
  std::ranges::copy(shared.totals.tenant_claims, now.tenant_claims.begin());
  std::ranges::copy(shared.totals.priority_claims, now.priority_claims.begin());
  std::ranges::copy(shared.totals.executions, now.executions.begin());
  add_counts(now);
  return {};
}

// Adds to the control words what was counted since the last time.
void CudaLiveKernel::add_counts(const LiveCounters& now) {
  const auto add = [this](std::size_t word, std::uint64_t count, std::uint64_t before) {
    if (count != before) control_.host().add_release(word, static_cast<Word>(count - before));
  };
  add(abi::kControlDoneCount.first, now.done, totals_.done);
  add(abi::kControlFaultCount.first, now.faulted, totals_.faulted);
  for (std::size_t i = 0; i < now.tenant_claims.size(); ++i) {
    add(abi::kControlTenantFairness.first + i, now.tenant_claims[i], totals_.tenant_claims[i]);
  }
  for (std::size_t i = 0; i < now.priority_claims.size(); ++i) {
    add(abi::kControlPriorityFairness.first + i, now.priority_claims[i],
        totals_.priority_claims[i]);
  }
  for (std::size_t i = 0; i < now.executions.size(); ++i) {
    add(abi::kControlMetrics.first + i, now.executions[i], totals_.executions[i]);
  }
  totals_ = now;
}

void CudaLiveKernel::add_executions(std::vector<OpcodeTotal>& totals) const {
  if (!home_.is_here()) return;
  const std::scoped_lock held(lock_);
  add_executions(totals, true);
}

// Executions by small opcodes are counted over all code that a session has had.
void CudaLiveKernel::add_executions(std::vector<OpcodeTotal>& totals, bool with_small) const {
  std::vector<Wide> counts(code_.opcodes.size() + kLargeOpcodes.size());
  note(executions_->read(0, std::as_writable_bytes(std::span(counts))));
  const auto add = [&](Word opcode, std::uint64_t count) {
    auto row = std::ranges::lower_bound(totals, opcode, {}, &OpcodeTotal::opcode);
    if (row == totals.end() || row->opcode != opcode) row = totals.insert(row, {.opcode = opcode});
    row->done += count;
  };
  const auto small = [&](Word opcode) { return with_small ? totals_.executions[opcode] : 0; };
  for (Word opcode = 0; opcode < kSmallOpcodes; ++opcode) add(opcode, small(opcode));
  for (std::size_t i = 0; i < kLargeOpcodes.size(); ++i) {
    add(kLargeOpcodes[i], counts[code_.opcodes.size() + i]);
  }
  for (std::size_t i = 0; i < code_.opcodes.size(); ++i) {
    const Word opcode = code_.opcodes[i];
    add(opcode, opcode < totals_.executions.size() ? small(opcode) : counts[i]);
  }
  for (const OpcodeTotal& total : earlier_) {
    const bool is_small = total.opcode < totals_.executions.size();
    const bool is_new = is_small && total.opcode >= kSmallOpcodes &&
                        std::ranges::find(code_.opcodes, total.opcode) == code_.opcodes.end();
    add(total.opcode, is_new ? small(total.opcode) : total.done);
  }
}

// ---- the keeper ----

void CudaLiveKernel::expect_sleeper() {
  {
    const std::scoped_lock held(keeper_lock_);
    expects_sleeper_ = true;
  }
  keeper_wake_.notify_one();
}

// A thread of the host wakes those that sleep on outcomes, ends items that have run too long, frees
// what crews do not have any more, notes what was taken of queues that other processes have, and
// notices the end of the kernel.
void CudaLiveKernel::keep(const std::stop_token& stop) {
  Clock::time_point next_note = {}, next_look = {};
  while (!stop.stop_requested() && is_running()) {
    const bool is_keen = has_sleepers();
    const auto look = look_interval();
    {
      std::unique_lock held(keeper_lock_);
      if (is_keen) {
        keeper_wake_.wait_for(held, stop, kKeenNap, [] { return false; });
      } else {
        const auto nap = std::min<Clock::duration>(kKeeperNap, look);
        keeper_wake_.wait_for(held, stop, nap, [this] { return expects_sleeper_; });
      }
      expects_sleeper_ = false;
    }
    wake_sleepers();
    if (has_ended()) return note_end();
    free_what_waits();
    const std::unique_lock held(lock_, std::try_to_lock);
    if (!held) continue;
    free_retired();
    if (look != Clock::duration::max() && Clock::now() >= next_look) {
      note(end_overdue());
      next_look = Clock::now() + look;
    }
    if (Clock::now() < next_note) continue;
    note_given_heads();
    next_note = Clock::now() + kKeeperNap;
  }
}

// Whether the kernel has ended by itself, or the device is lost. Whoever parks the kernel looks at
// it meanwhile.
bool CudaLiveKernel::has_ended() {
  const std::scoped_lock held(lock_);
  if (is_parking_) return context().is_lost();
  const auto current = context().enter();
  if (!current) return true;
  return context().wait(stream_.get(), Clock::time_point::min(), "looking at a session") ||
         context().is_lost();
}

// Draining such a queue ends when its head has reached the tail: no publisher of this process knows
// how far it is.
void CudaLiveKernel::note_given_heads() const {
  for (const auto& queue : queues_) {
    if (queue->live().is_given.load(std::memory_order_relaxed)) note(queue->note_head());
  }
}

bool CudaLiveKernel::has_sleepers() const {
  const std::scoped_lock held(lock_);
  return std::ranges::any_of(queues_, [](const auto& queue) {
    const LiveQueue& live = queue->live();
    return live.sleepers.load(std::memory_order_relaxed) != 0 ||
           (live.is_given.load(std::memory_order_relaxed) && live.words.is_waiting());
  });
}

void CudaLiveKernel::wake_sleepers() {
  const std::scoped_lock held(lock_);
  for (const auto& queue : queues_) queue->live().notify();
}

// After SHUTDOWN nothing that is published would run.
void CudaLiveKernel::note_end() {
  is_running_.store(false, std::memory_order_release);
  const std::scoped_lock held(lock_);
  if (!has_stopped_) {
    for (const auto& queue : queues_) queue->live().words.set_state(abi::QueueState::draining);
  }
  for (const auto& queue : queues_) queue->live().notify();
}

// ---- ending ----

Result<void> CudaLiveKernel::give_order_to_leave() {
  const std::scoped_lock held(lock_);
  leaving_ = device::Leaving::leave;
  return give_orders();
}

// Tells crews to leave and waits for them: until the deadline for items that run, and then until
// these are aborted.
void CudaLiveKernel::end_kernel(Clock::time_point deadline) {
  const auto wait_until = [this](Clock::time_point time) -> bool {
    const auto current = context().enter();
    if (!current) return true;
    for (;;) {
      if (context().wait(stream_.get(), Clock::time_point::min(), "ending a session")) return true;
      if (context().is_lost()) return true;
      if (Clock::now() >= time) return false;
      std::this_thread::sleep_for(kLeaveLook);
    }
  };
  note(give_order_to_leave());
  if (wait_until(deadline)) return;
  for (const auto end = deadline_after(kAbortTimeout); Clock::now() < end;) {
    note(marks_->end_runs([](const LiveMarks::Run&) { return true; }));
    if (wait_until(Clock::now() + kEndInterval)) return;
  }
  note(context().lose({.code = Code::device_lost,
                       .message = "cuda: items of a session did not end after its deadline",
                       .hint = "start a new process; look for endless loops in trusted handlers",
                       .native = {}}));
}

std::uint64_t CudaLiveKernel::stop(Clock::time_point deadline, LeaveMode mode) {
  if (!home_.is_here()) return 0;  // a child of fork() has no keeper, and no device
  {
    const std::scoped_lock held(lock_);
    if (has_stopped_ || totals_.launches == 0) return 0;
    has_stopped_ = true;
  }
  if (is_running()) end_kernel(deadline);
  is_running_.store(false, std::memory_order_release);
  keeper_.request_stop();
  if (keeper_.joinable()) keeper_.join();
  const std::scoped_lock held(lock_);
  note(sync());
  std::uint64_t cancelled = 0;
  for (const auto& queue : queues_) {
    if (mode == LeaveMode::cancel) cancelled += cancel_taken(*queue);
    queue->live().notify();
  }
  if (!std::exchange(is_away_, true)) context().end_stay();
  queues_.clear();
  retired_.clear();
  return cancelled;
}

void CudaLiveKernel::note(Result<void> result) const {
  if (result) return;
  const std::scoped_lock held(failure_lock_);
  if (!failure_) failure_ = std::move(result).error();
}

Result<void> CudaLiveKernel::health() const {
  EVERKERNEL_TRY(context().check_alive());
  const std::scoped_lock held(failure_lock_);
  if (!failure_) return {};
  return Failure(*failure_);
}

}  // namespace everkernel::backend::cuda
