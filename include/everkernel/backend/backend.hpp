// The interface that every backend implements; the library reaches a device through nothing else.
//
// A Backend compiles a Kernel and owns device memory. A Kernel drains rings (launch), takes items
// from queues until it is stopped (start, detail/live.hpp) or runs planned work (start_graph,
// detail/graph_kernel.hpp). tests/conformance is one suite that every backend passes.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "everkernel/backend/capabilities.hpp"
#include "everkernel/backend/execution.hpp"
#include "everkernel/backend/hit_buffer.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/ir/limits.hpp"
#include "everkernel/ir/trusted.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "everkernel/protocol/geometry.hpp"

namespace everkernel::backend {

/// The clock of every deadline.
using Clock = std::chrono::steady_clock;

/// The deadline of a timeout that begins now: now if the timeout is not positive, and
/// `time_point::max()` if the sum is beyond the clock's range.
inline Clock::time_point deadline_after(std::chrono::nanoseconds timeout) {
  const auto now = Clock::now();
  if (timeout <= std::chrono::nanoseconds(0)) return now;
  return timeout < Clock::time_point::max() - now ? now + timeout : Clock::time_point::max();
}

/// When a call must return although items remain: at a point in time, or as soon as a flag is set.
struct Deadline {
  Clock::time_point time = Clock::time_point::max();  ///< when to return
  const std::atomic<bool>* stop = nullptr;  ///< return once it is true; null = only the time counts

  /// Never.
  Deadline() = default;
  /// At `when`, or once the flag is true.
  Deadline(Clock::time_point when, const std::atomic<bool>* flag = nullptr)
      : time(when), stop(flag) {}

  /// Whether the flag is set.
  bool is_stop_requested() const {
    return stop != nullptr && stop->load(std::memory_order_relaxed);
  }
  /// Whether the call must return now.
  bool has_passed() const { return is_stop_requested() || Clock::now() >= time; }
  /// The latest time at which a thread that sleeps must look at this deadline again.
  Clock::time_point next_look() const {
    return stop == nullptr ? time : std::min(time, Clock::now() + kStopInterval);
  }

 private:
  // A flag that a signal handler sets wakes no thread, so threads that wait look at it.
  static constexpr auto kStopInterval = std::chrono::milliseconds(20);
};

/// In which order workers visit slots.
enum class Schedule : Word {
  direct,    ///< every worker visits its share of the ring
  priority,  ///< by the partition of the ring a slot lies in, most urgent first
  ticket,    ///< in the order of publishing
};

/// The schedule in snake case.
std::string_view schedule_name(Schedule schedule);

/// The sources and options that a kernel is compiled from.
struct KernelOptions {
  protocol::Geometry geometry = {};                 ///< slots, and lanes of a group
  Schedule schedule = Schedule::direct;             ///< in which order workers visit slots
  std::optional<ir::VerifiedProgram> program = {};  ///< handlers, and the payload
  /// Trusted handlers beside it; a backend asks ir::check_trusted() before it takes them.
  std::vector<ir::TrustedHandler> trusted_handlers = {};
  bool payload = false;  ///< run the program's payload for every slot
  /// `automatic`: native code where the backend can, and the interpreter until the code is there.
  Execution execution = Execution::automatic;
  /// Whether a plan orders all items that touch the same words, except those of one handler that
  /// declares `commutes`. Compiled code may then assume that no other item touches its buffers, and
  /// only planned work may run.
  bool planned = false;
  /// Whether the kernel only takes over sessions (take_over): it need not be able to do more.
  bool takes_over = false;
  std::uint64_t fuel_per_item = ir::kDefaultFuel;  ///< turns of loops an item may take
  Word worker_count = 0;                           ///< 0 = as many as the device can keep busy

  /// How long compile() may wait for code. At the deadline it returns a kernel that waits for the
  /// code when it is needed; errors of compiling then come later too. Only compile() looks at it.
  Deadline compile_deadline = {};

  /// The program, null when there is none.
  const ir::VerifiedProgram* find_program() const { return program ? &*program : nullptr; }
  /// Traits of the handler of an opcode, verified or trusted; nothing if there is none.
  std::optional<ir::HandlerTraits> find_handler(Word opcode) const;
};

/// Words on the device. Thread-safe: every word is moved whole.
class Memory {
 public:
  virtual ~Memory();  ///< gives the memory back

  /// Its length; a whole number of words.
  virtual std::size_t size_bytes() const = 0;
  /// Where a kernel finds it. Host code does not follow it.
  virtual Word* device_address() const = 0;
  /// Copies from the host; `offset_bytes` and the length are whole words. Fails with
  /// `invalid_argument` outside the memory, and with `device_lost`.
  virtual Result<void> write(std::size_t offset_bytes, std::span<const std::byte> bytes) = 0;
  /// Copies to the host. Fails as write does.
  virtual Result<void> read(std::size_t offset_bytes, std::span<std::byte> bytes) const = 0;
};

/// The four buffers of one submission, in the kernel's order. The runtime checked that they fit the
/// wire format and the kernel's geometry.
struct DeviceBuffers {
  Memory* control = nullptr;    ///< flags, counters, observables
  Memory* ring = nullptr;       ///< work slots
  Memory* debug_log = nullptr;  ///< PRINTF records
  Memory* io_queue = nullptr;   ///< IO requests
};

/// Why a bounded drain ended.
enum class DrainEnd : Word {
  complete,  ///< no item is left that could run
  shutdown,  ///< SHUTDOWN was set
  deadline,  ///< the deadline passed
  stopped,   ///< the flag of the deadline was set
};

/// The reason in snake case.
std::string_view drain_end_name(DrainEnd end);

/// How the items of one submission ended, counted by the workers.
struct DrainCounts {
  std::uint64_t done = 0;             ///< items that reached DONE
  std::uint64_t faulted = 0;          ///< items that reached FAULT
  std::uint64_t remaining = 0;        ///< slots that are still active
  std::uint64_t hits_dropped = 0;     ///< emits that found no room
  DrainEnd end = DrainEnd::complete;  ///< why the workers stopped
};

/// A bounded drain of one or many submissions in one native submission.
struct Launch {
  std::span<const DeviceBuffers> submissions = {};  ///< rings to drain
  memory::BufferTableView buffers = {};             ///< the buffers that handles name
  Deadline deadline = {};                           ///< latest return of the launch
  std::span<DrainCounts> counts = {};               ///< filled, one for each submission
  std::span<const HitBuffer> hits = {};             ///< one for each submission, or empty
};

/// Costs of a launch, counted where they arise.
struct LaunchStats {
  Word kernel_launches = 0;  ///< native submissions
  Word sync_points = 0;      ///< times the host waited for the device
};

/// Where the code of a kernel came from, and who ran its items, since the kernel was created.
struct CodeCounts {
  std::uint64_t compiled = 0;           ///< handlers compiled; a device compiles all in one step
  std::uint64_t from_cache = 0;         ///< handlers whose code came from a cache
  std::uint64_t compile_ns = 0;         ///< time that took, also beside the running of items
  std::uint64_t items_interpreted = 0;  ///< items that ended on the interpreter while code came
};

/// Code that a launch or a run is about to need.
struct CodeRequest {
  std::span<const Word> opcodes = {};  ///< those needed most come first
  Deadline deadline = {};              ///< latest return of the call
};

class LiveKernel;
struct LiveLaunch;
class GraphKernel;
struct GraphLaunch;

/// A compiled megakernel. One launch at a time; a live kernel may run beside it.
class Kernel {
 public:
  virtual ~Kernel();  ///< stops its workers

  /// Names the compiled code: equal ids, equal code.
  virtual std::string_view pipeline_id() const = 0;
  /// Workers it runs with.
  virtual Word worker_count() const = 0;
  /// Items of one tenant that may run at one time in a session on that many multiprocessors (0 is
  /// all of them), if its quota is not set: so few that other tenants find workers beside them.
  virtual Word largest_share(Word) const { return std::max<Word>(worker_count(), 2) - 1; }
  /// Fails with `device_lost` if the device was lost since the kernel was compiled, even if it was
  /// revived meanwhile: the code is gone, and so is all memory of that time.
  virtual Result<void> health() const { return {}; }
  /// Counts of its code.
  virtual CodeCounts code_counts() const { return {}; }
  /// Gets native code for opcodes. A kernel that runs only native code waits until all of it is
  /// there, and fails with `timeout` at the deadline; compiling goes on meanwhile, for the next
  /// call. A kernel that can interpret waits a short time for the code of the first opcode. May
  /// fail with `unsupported`.
  virtual Result<void> prepare(const CodeRequest&) { return {}; }
  /// Drains the submissions and comes back when nothing can run, or at the deadline. Fails with
  /// `device_lost` when the device went away; the buffers are then lost too.
  virtual Result<LaunchStats> launch(const Launch& launch) = 0;
  /// Starts workers that take items from queues. May fail with `unsupported`.
  virtual Result<std::unique_ptr<LiveKernel>> start(const LiveLaunch& launch) = 0;
  /// Goes on with the queues of a live kernel of the same backend: items that it takes from now on
  /// run by this kernel's handlers. No queue has an item that was taken and has not ended, and none
  /// is taken meanwhile (LiveQueue::limit). Fails with `timeout` and as start() does; the live
  /// kernel then goes on as it was, but if it could not be started again, its health() says so.
  virtual Result<void> take_over(LiveKernel& live, Clock::time_point deadline);
  /// Starts workers on planned work. May fail with `unsupported`.
  virtual Result<std::unique_ptr<GraphKernel>> start_graph(const GraphLaunch& launch) = 0;
};

/// A device that runs megakernels. Thread-safe.
class Backend {
 public:
  virtual ~Backend();  ///< after every object it made

  /// The properties of the device.
  virtual const Capabilities& capabilities() const = 0;
  /// Compiles a kernel. Fails with `unsupported` for options that the device does not support, and
  /// with `device_lost`.
  virtual Result<std::unique_ptr<Kernel>> compile(const KernelOptions& options) = 0;
  /// Zeroed memory on the device. Fails with `out_of_memory` and with `device_lost`.
  virtual Result<std::unique_ptr<Memory>> allocate(std::size_t size_bytes) = 0;
  /// Brings a lost device back if that is possible; its memory is lost. Fails with
  /// `device_lost`.
  virtual Result<void> revive() = 0;
};

}  // namespace everkernel::backend
