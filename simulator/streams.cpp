#include "simulator/streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/thread.hpp"

namespace everkernel::backend::cuda {

// The object behind the driver's handle.
struct CuStreamOpaque {
  std::deque<simulator::Operation> operations = {};
  bool is_destroyed = false;  // removed when its operations are done
};

}  // namespace everkernel::backend::cuda

namespace everkernel::simulator {
namespace {

using backend::cuda::CuStreamOpaque;
using backend::cuda::kCuNotReady;

using Clock = std::chrono::steady_clock;

// Instructions of one turn of a kernel. Beside another one turns are short, because whoever waits
// for a resident kernel waits for a turn of every other.
constexpr std::uint64_t kLongTurn = 50'000;
constexpr std::uint64_t kShortTurn = 5'000;
// Turns in which no kernel wrote anything before the machine yields its core in each: all warps
// sleep, or wait for a host that may need the core.
constexpr unsigned kQuietTurns = 8;

// The memory that a kernel may use: the variables of its module, and what the driver allocated. The
// machine's thread does not hold the driver's lock; it takes it for ranges that it does not
// remember.
class Reach {
 public:
  explicit Reach(std::span<const std::byte> globals)
      : globals_{reinterpret_cast<std::uintptr_t>(globals.data()), globals.size()} {}

  bool has(std::uintptr_t begin, std::size_t bytes) {
    if (remembered_ != memory_.release_count()) forget();
    if (ranges_[newest_].has(begin, bytes)) return true;
    for (std::size_t i = 0; i < kRanges; ++i) {
      if (!ranges_[i].has(begin, bytes)) continue;
      newest_ = i;
      return true;
    }
    return look_up(begin, bytes);
  }

 private:
  static constexpr std::size_t kRanges = 8;

  void forget() {
    ranges_ = {};
    ranges_[0] = globals_;
    remembered_ = memory_.release_count();
  }
  bool look_up(std::uintptr_t begin, std::size_t bytes) {
    const std::scoped_lock hold(driver_lock());
    const auto range = memory_.range_of(begin, bytes);
    if (!range) return globals_.has(begin, bytes);
    oldest_ = (oldest_ + 1) % kRanges;
    newest_ = oldest_;
    ranges_[newest_] = *range;
    return true;
  }

  const DeviceMemory& memory_ = driver().memory;
  MemoryRange globals_;
  std::array<MemoryRange, kRanges> ranges_ = {};
  std::size_t newest_ = 0, oldest_ = 0;
  std::uint64_t remembered_ = ~std::uint64_t{0};
};

// Each launch has its own seed; the sequence is the same in every process.
std::uint64_t next_seed() {
  static auto seed = static_cast<std::uint64_t>(number_from_environment("SIMULATED_SEED", 1));
  return seed++;
}

}  // namespace

class Resident {
 public:
  explicit Resident(Start start)
      : start_(std::move(start)), reach_(start_.cubin->globals()), seed_(next_seed()) {}

  // Only the machine's thread calls it. Its registers are made at the first turn, because a stream
  // can hold many launches.
  Result<bool> run(std::uint64_t instructions, const std::atomic<bool>& is_disturbed) {
    if (!grid_) {
      Launch launch = start_.launch;
      launch.parameters = start_.parameters;
      launch.seed = seed_;
      grid_.emplace(start_.program, *start_.cubin, launch,
                    [this](auto address, auto size, bool) { return reach_.has(address, size); });
    }
    return grid_->run(instructions, &is_disturbed);
  }
  const std::string& name() const { return start_.kernel->name; }
  bool has_written() {
    return std::exchange(written_, grid_->write_count()) != grid_->write_count();
  }

 private:
  Start start_;
  Reach reach_;
  std::uint64_t seed_;
  std::optional<Grid> grid_ = {};
  std::uint64_t written_ = 0;
};

namespace {

using Streams = std::vector<std::unique_ptr<CuStreamOpaque>>;

// Never destroyed, as the driver's state.
Streams& streams() {
  static Streams& all = *new Streams;  // they run in this order
  return all;
}

// ---- the machine's thread ----

class Machine {
 public:
  // A kernel has become the first of its stream.
  void wake() {
    if (driver().broken != 0) return;
    if (!thread_.joinable()) start();
    is_disturbed_.store(true, std::memory_order_relaxed);
    work_.notify_one();
  }
  // Something is done that others may wait for.
  void announce() { progress_.notify_all(); }
  // A device is also lost without an announcement, so nobody waits for one longer than this.
  void wait_for_progress() { progress_.wait_for(driver_lock(), std::chrono::milliseconds(20)); }
  void stop();

 private:
  void start();
  void run(const std::stop_token& stop);

  std::atomic<bool> is_disturbed_ = false;  // the turn of a kernel shall end early
  std::condition_variable_any work_ = {};
  std::condition_variable_any progress_ = {};
  Thread thread_ = {};
};

// Stops the machine when the process ends: the program then unmaps memory that a kernel which never
// ends still uses. Later calls fail, as those of the driver. A child of fork() has no thread to
// stop.
class Ending {
 public:
  explicit Ending(Machine& machine) : machine_(machine) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    if (home_.is_here()) machine_.stop();
  }

 private:
  Machine& machine_;
  HomeProcess home_ = {};
};

Machine& machine() {
  // Never destroyed: in a child of fork() a condition waits for its waiters for ever.
  static Machine& instance = *new Machine;
  static const Ending ending(instance);
  return instance;
}

// The kernels that are the first operation of their stream.
std::vector<std::shared_ptr<Resident>> residents() {
  std::vector<std::shared_ptr<Resident>> found;
  for (const auto& stream : streams()) {
    if (stream->operations.empty()) continue;
    const auto& kernel = stream->operations.front().kernel;
    if (kernel != nullptr) found.push_back(kernel);
  }
  return found;
}

// Does what is not a kernel, as far as that is possible.
void run_steps() {
  if (driver().broken != 0) return;
  bool has_done = false, has_new_kernel = false;
  // A step may be what another stream waits for.
  for (bool is_going_on = true; is_going_on;) {
    is_going_on = false;
    for (const auto& stream : streams()) {
      auto& operations = stream->operations;
      while (!operations.empty() && operations.front().step && operations.front().step()) {
        operations.pop_front();
        is_going_on = has_done = true;
        has_new_kernel |= !operations.empty() && operations.front().kernel != nullptr;
      }
    }
  }
  if (!has_done) return;
  std::erase_if(streams(), [](const auto& stream) {
    return stream->is_destroyed && stream->operations.empty();
  });
  machine().announce();
  if (has_new_kernel) machine().wake();
}

// The kernel is the first operation of its stream.
void end(const std::shared_ptr<Resident>& kernel) {
  for (const auto& stream : streams()) {
    if (!stream->operations.empty() && stream->operations.front().kernel == kernel) {
      stream->operations.pop_front();
    }
  }
  std::erase_if(streams(), [](const auto& stream) {
    return stream->is_destroyed && stream->operations.empty();
  });
}

void Machine::start() {
  auto thread = Thread::start([this](const std::stop_token& stop) { run(stop); });
  if (!thread) {
    say(thread.error().message);
    std::abort();
  }
  thread_ = *std::move(thread);
}

void Machine::stop() {
  {
    const std::scoped_lock hold(driver_lock());
    driver().broken = kDeinitialized;
    is_disturbed_.store(true, std::memory_order_relaxed);
  }
  const Thread ended = std::move(thread_);
}

void Machine::run(const std::stop_token& stop) {
  std::unique_lock hold(driver_lock());
  unsigned quiet = 0;
  while (!stop.stop_requested()) {
    is_disturbed_.store(false, std::memory_order_relaxed);
    const auto kernels = driver().broken == 0 ? residents() : decltype(residents()){};
    if (kernels.empty()) {
      work_.wait(hold, stop, [] { return driver().broken == 0 && !residents().empty(); });
      continue;
    }
    ++quiet;
    for (const auto& kernel : kernels) {
      hold.unlock();
      if (quiet > kQuietTurns) std::this_thread::yield();
      const auto is_over = kernel->run(kernels.size() == 1 ? kLongTurn : kShortTurn, is_disturbed_);
      if (kernel->has_written()) quiet = 0;
      hold.lock();
      if (!is_over) {
        say(is_over.error().message);
        driver().broken = kIllegalAddress;
        announce();
        break;
      }
      if (!*is_over) continue;
      end(kernel);
      run_steps();
      announce();
    }
  }
}

}  // namespace

// ---- streams ----

CuStream make_stream() {
  streams().push_back(std::make_unique<CuStreamOpaque>());
  return streams().back().get();
}

bool is_stream(CuStream stream) {
  return std::ranges::any_of(
      streams(), [&](const auto& known) { return known.get() == stream && !known->is_destroyed; });
}

void destroy_stream(CuStream stream) {
  stream->is_destroyed = true;
  std::erase_if(streams(),
                [&](const auto& known) { return known.get() == stream && is_idle(stream); });
}

void queue_step(CuStream stream, std::function<bool()> step) {
  stream->operations.push_back({.step = std::move(step)});
  if (stream->operations.size() == 1) run_steps();
}

void queue_launch(CuStream stream, Start start) {
  stream->operations.push_back({.kernel = std::make_shared<Resident>(std::move(start))});
  if (stream->operations.size() == 1) machine().wake();
}

void queue(CuStream stream, std::function<void()> operation) {
  queue_step(stream, [operation = std::move(operation)] {
    operation();
    return true;
  });
}

std::shared_ptr<const Mark> put_mark(CuStream stream) {
  auto mark = std::make_shared<Mark>();
  queue_step(stream, [mark] {
    *mark = {true, Clock::now()};
    return true;
  });
  return mark;
}

bool is_idle(CuStream stream) {
  return stream->operations.empty();
}

// ---- waiting ----

CuResult look(const std::function<bool()>& is_done) {
  if (driver().broken != 0) return driver().broken;
  return is_done() ? 0 : kCuNotReady;
}

CuResult wait_until(const std::function<bool()>& is_done) {
  for (;;) {
    if (const CuResult result = look(is_done); result != kCuNotReady) return result;
    machine().wait_for_progress();
  }
}

CuResult finish_all(std::string_view call) {
  std::vector<std::shared_ptr<Mark>> marks;
  for (const auto& stream : streams()) {
    marks.push_back(std::make_shared<Mark>());
    stream->operations.push_back(
        {.step = [mark = marks.back()] { return mark->is_reached = true; }});
  }
  run_steps();
  const auto is_done = [&] { return std::ranges::all_of(marks, &Mark::is_reached); };
  const std::chrono::seconds patience(number_from_environment("SIMULATED_PATIENCE_S", 10));
  const auto deadline = Clock::now() + patience;
  while (Clock::now() < deadline) {
    if (const CuResult result = look(is_done); result != kCuNotReady) return result;
    machine().wait_for_progress();
  }
  for (const auto& kernel : residents()) {
    say(
        fmt::format("{} waits for the end of all kernels, and {} has run on for {} s: a device "
                    "would block until it ends. The process is aborted.",
                    call, kernel->name(), patience.count()));
  }
  std::abort();
}

int number_from_environment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::max(std::atoi(text), 1);
}

void say(const std::string& message) {
  fmt::print(stderr, "simulated GPU: {}\n", message);
}

}  // namespace everkernel::simulator
