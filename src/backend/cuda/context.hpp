// One device in use: its primary context, the stream that copies go through, and whether it is
// lost.
//
// Every call of the driver that can fail goes through check(), so that a lost device is noticed
// where it first shows, and never asked again.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "backend/cuda/device.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/staging.hpp"
#include "everkernel/backend/backend.hpp"

namespace everkernel::backend::cuda {

class Context;

// Makes a context current on the calling thread, until it ends. One after the other: the last that
// was made ends first.
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

// How a kernel is launched.
struct Grid {
  unsigned block_count = 1;
  unsigned thread_count = 1;  // a block
  unsigned shared_bytes = 0;  // a block, beside what the kernel declares
};

// Thread-safe. Everything made from it holds it.
class Context {
 public:
  // How long a copy may take to get on. Nothing a device does for itself takes that long; a kernel
  // that holds all of it may.
  static constexpr Clock::duration kCopyTimeout = std::chrono::seconds(30);

  // Retains the primary context of the device. Fails as the driver does.
  static Result<std::shared_ptr<Context>> create(const Driver& driver, const DeviceFacts& facts,
                                                 Clock::duration copy_timeout = kCopyTimeout);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  const Driver& driver() const { return driver_; }
  const DeviceFacts& facts() const { return facts_; }
  // The stream of copies, sets and allocations. It waits for no other stream, and none for it.
  CuStream copy_stream() const { return copy_stream_; }
  // What copies bytes through that stream.
  Staging& staging() const { return *staging_; }
  // When a wait for the copy stream that begins now is over at the latest.
  Clock::time_point copy_deadline() const { return Clock::now() + copy_timeout_; }

  // Makes it current. Fails with `device_lost`.
  Result<Current> enter() const;
  // A call's result as ours; notes when it means that the device is lost.
  Result<void> check(CuResult result, std::string_view what) const;
  // Waits until all work of a stream is done: turns for as long as short kernels take, then sleeps
  // between looks. Fails with `timeout`; what it waited for goes on then. The context is current.
  Result<void> wait(CuStream stream, Clock::time_point deadline, std::string_view what) const;
  // The same until a recorded event came about.
  Result<void> wait(CuEvent event, Clock::time_point deadline, std::string_view what) const;

  // Whether it is lost.
  bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }
  // `device_lost` with what happened, once it is lost.
  Result<void> check_alive() const;
  // Gives the device up: every later call fails with this.
  Failure lose(Error error) const;

  // Launches a kernel; the arguments are copied before it returns. The context is current.
  template <class... Arguments>
  Result<void> launch(CuFunction function, const Grid& grid, CuStream stream,
                      const Arguments&... arguments) const {
    // The driver takes pointers it does not write through.
    std::array<void*, sizeof...(arguments)> pointers{
        const_cast<void*>(static_cast<const void*>(&arguments))...};
    return launch_kernel(function, grid, stream, pointers.data());
  }

 private:
  Context(const Driver& driver, const DeviceFacts& facts, Clock::duration copy_timeout);
  Result<void> open();
  template <class Handle>
  Result<void> poll(CuResult (*query)(Handle), Handle handle, Clock::time_point deadline,
                    std::string_view what) const;
  Result<void> launch_kernel(CuFunction function, const Grid& grid, CuStream stream,
                             void** arguments) const;

  Driver driver_;
  DeviceFacts facts_;
  Clock::duration copy_timeout_;
  CuContext context_ = nullptr;
  CuStream copy_stream_ = nullptr;
  std::unique_ptr<Staging> staging_;
  mutable std::atomic<bool> is_lost_{false};
  mutable std::mutex loss_lock_;
  mutable std::optional<Error> loss_;  // the first
};

// A stream of its own, which waits for no other.
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
  // Without timing it is cheaper.
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

// Host memory that stays where it is and that the device can reach; zeroed.
class PinnedMemory {
 public:
  // Fails with `out_of_memory`. At least one byte.
  static Result<PinnedMemory> create(std::shared_ptr<const Context> context,
                                     std::size_t size_bytes);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();

  // For the host.
  std::byte* data() const { return data_; }
  // For the device.
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
