// A device in use: its primary context, the stream for copies, and whether the device is lost.
//
// Every driver call that can fail goes through check(). The first result that means a lost device
// is kept, and later calls fail with it before they reach the driver.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/staging.hpp"
#include "base/process.hpp"
#include "everkernel/backend/backend.hpp"

namespace everkernel::backend::cuda {

class Context;

// Makes a context current on the calling thread for the lifetime of this object. Destroy several in
// reverse order of their creation.
class Current {
 public:
  Current(Current&& other) noexcept : driver_(other.driver_) { other.driver_ = nullptr; }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current();

 private:
  friend class Context;
  explicit Current(const Driver& driver) : driver_(&driver) {}
  const Driver* driver_;
};

// The size of a kernel launch.
struct Grid {
  unsigned block_count = 1;
  unsigned thread_count = 1;  // threads of a block
  unsigned shared_bytes = 0;  // dynamic shared memory of a block
};

// Thread-safe. Streams, events and memory of the context share its ownership.
class Context {
 public:
  // A copy fails if the device makes no progress for this long. Only a kernel that occupies the
  // whole device can delay a copy that much.
  static constexpr Clock::duration kCopyTimeout = std::chrono::seconds(30);

  // Retains the primary context of the device. Fails with the error of the driver.
  static Result<std::shared_ptr<Context>> create(const Driver& driver, const DeviceFacts& facts,
                                                 Clock::duration copy_timeout = kCopyTimeout);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  const Driver& driver() const { return driver_; }
  const DeviceFacts& facts() const { return facts_; }
  // The stream of copies, fills and allocations. It does not synchronize with other streams.
  CuStream copy_stream() const { return copy_stream_; }
  // Copies bytes through the copy stream.
  Staging& staging() const { return *staging_; }
  // The deadline of a wait for the copy stream that begins now.
  Clock::time_point copy_deadline() const { return Clock::now() + copy_timeout_; }

  // Makes the context current. Fails with `device_lost`.
  Result<Current> enter() const;
  // Turns the result of the driver call `what` into an Error. If the result means that the device
  // is lost, later calls fail too.
  Result<void> check(CuResult result, std::string_view what) const;
  // Waits until all work of a stream is done: spins for the length of a short kernel, then sleeps
  // between polls. At the deadline it fails with `timeout`, and the work continues. The context is
  // current.
  Result<void> wait(CuStream stream, const Deadline& deadline, std::string_view what) const;
  // Waits in the same way until the stream has reached a recorded event.
  Result<void> wait(CuEvent event, const Deadline& deadline, std::string_view what) const;

  // Whether the calling process made the context. A driver works in no child of its process.
  bool is_here() const { return home_.is_here(); }
  bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }
  // Fails with the error that lost the device, if it is lost, and in a child of fork().
  Result<void> check_alive() const;
  // Marks the device as lost and returns the error. Later calls fail with the first such error.
  Failure lose(Error error) const;

  // A kernel is there from begin_stay() to end_stay(): that of a session, which stays, or one that
  // may run until its deadline. Driver calls that wait for the device would not return meanwhile.
  void begin_stay() const;
  void end_stay() const;
  // Makes room for one thing that is given to one of the next three, which need no memory then.
  // Call it before the thing is made, and return the place if it could not be.
  void reserve_place_to_keep() const;
  void return_place_to_keep() const;
  // Free page-locked memory, unload a module, or unmap pages of the host and let go of their owner:
  // now, or when no kernel stays any more.
  void free_pinned(void* memory) const;
  void unload(CuModule module) const;
  void unmap(void* pages, std::size_t size_bytes, std::shared_ptr<const void> owner) const;
  // Whether much waits for the only kernel that stays: more than kManyKept things or kManyBytes of
  // pages.
  static constexpr std::size_t kManyKept = 128;
  static constexpr std::size_t kManyBytes = std::size_t{64} << 20;
  bool has_much_to_free() const;

  // Launches a kernel. The arguments are copied before the call returns. The context is current.
  template <class... Arguments>
  Result<void> launch(CuFunction function, const Grid& grid, CuStream stream,
                      const Arguments&... arguments) const {
    // The driver takes pointers to non-const, but only reads the arguments.
    std::array<void*, sizeof...(arguments)> pointers{
        const_cast<void*>(static_cast<const void*>(&arguments))...};
    return launch_kernel(function, grid, stream, pointers.data());
  }

 private:
  // Mapped pages that nobody uses any more.
  struct KeptPages {
    void* begin;
    std::shared_ptr<const void> owner;
  };

  Context(const Driver& driver, const DeviceFacts& facts, Clock::duration copy_timeout);
  Result<void> open();
  template <class Handle>
  Result<void> poll(CuResult (*query)(Handle), Handle handle, const Deadline& deadline,
                    std::string_view what) const;
  Result<void> launch_kernel(CuFunction function, const Grid& grid, CuStream stream,
                             void** arguments) const;

  HomeProcess home_;
  Driver driver_;
  DeviceFacts facts_;
  Clock::duration copy_timeout_;
  CuContext context_ = nullptr;
  CuStream copy_stream_ = nullptr;
  std::unique_ptr<Staging> staging_;
  mutable std::atomic<bool> is_lost_{false};
  mutable std::mutex loss_lock_;
  mutable std::optional<Error> loss_;  // the first error that lost the device
  mutable std::mutex stay_lock_;       // guards the next six
  mutable int staying_kernels_ = 0;
  mutable std::size_t places_to_keep_ = 0;  // of things that are there
  mutable std::size_t kept_page_bytes_ = 0;
  mutable std::vector<KeptPages> kept_pages_;
  mutable std::vector<void*> kept_memory_;
  mutable std::vector<CuModule> kept_modules_;
};

// A kernel of a bounded launch, while it may run: what would wait for it is freed afterwards.
class RunningKernel {
 public:
  explicit RunningKernel(const Context& context) : context_(context) { context_.begin_stay(); }
  RunningKernel(const RunningKernel&) = delete;
  RunningKernel& operator=(const RunningKernel&) = delete;
  ~RunningKernel() { context_.end_stay(); }

 private:
  const Context& context_;
};

// A stream that does not synchronize with other streams.
class Stream {
 public:
  static Result<Stream> create(std::shared_ptr<const Context> context);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  CuStream get() const { return stream_; }

 private:
  Stream(std::shared_ptr<const Context> context, CuStream stream);
  std::shared_ptr<const Context> context_;
  CuStream stream_;
};

// A point in a stream.
class Event {
 public:
  // An event without timing costs less.
  static Result<Event> create(std::shared_ptr<const Context> context, bool has_timing);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  CuEvent get() const { return event_; }

 private:
  Event(std::shared_ptr<const Context> context, CuEvent event);
  std::shared_ptr<const Context> context_;
  CuEvent event_;
};

// Page-locked host memory that the device can access. It is zeroed.
class PinnedMemory {
 public:
  // Allocates at least one byte. Fails with `out_of_memory`.
  static Result<PinnedMemory> create(std::shared_ptr<const Context> context,
                                     std::size_t size_bytes);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();

  // The address for the host.
  std::byte* data() const { return data_; }
  // The address for the device.
  CuPointer device_pointer() const { return device_pointer_; }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  PinnedMemory(std::shared_ptr<const Context> context, std::byte* data, std::size_t size_bytes);
  std::shared_ptr<const Context> context_;
  std::byte* data_;
  CuPointer device_pointer_ = 0;
  std::size_t size_bytes_;
};

}  // namespace everkernel::backend::cuda
