// The part that libraries in place of libcuda share: the device's properties, contexts, and memory,
// all of it host memory. host_driver.cpp exports the driver's functions for these. A library adds
// modules, streams, events and graphs, and defines the three functions at the end of this header.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "backend/cuda/driver.hpp"
#include "simulator/driver_state.hpp"

namespace everkernel::simulator {

using backend::cuda::CuPointer;
using backend::cuda::CuResult;
using backend::cuda::CuStream;

inline constexpr CuResult kInvalidValue = 1;
inline constexpr CuResult kOutOfMemory = 2;
inline constexpr CuResult kDeinitialized = 4;
inline constexpr CuResult kInvalidDevice = 101;
inline constexpr CuResult kInvalidImage = 200;
inline constexpr CuResult kInvalidContext = 201;
inline constexpr CuResult kNoBinary = 209;
inline constexpr CuResult kInvalidHandle = 400;
inline constexpr CuResult kNotFound = 500;
inline constexpr CuResult kIllegalAddress = 700;
inline constexpr CuResult kAlreadyRegistered = 712;
inline constexpr CuResult kNotRegistered = 713;
inline constexpr CuResult kNotSupported = 801;

/// A fair lock: threads get it in the order in which they asked, so that a thread that polls the
/// driver cannot starve another.
class TurnLock {
 public:
  void lock();
  void unlock();

 private:
  std::mutex lock_ = {};
  std::condition_variable next_ = {};
  std::uint64_t came_ = 0;
  std::uint64_t left_ = 0;
};

struct MemoryRange {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;

  bool has(std::uintptr_t first, std::size_t count) const {
    return first - begin <= bytes && count <= bytes - (first - begin);
  }
};

/// Memory that the device can access, all of it host memory. New memory is filled with a pattern.
class DeviceMemory {
 public:
  enum class Owner { device, pinned, host };

  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  /// Also frees allocations that were not freed because the device was lost.
  ~DeviceMemory();

  void* allocate(std::size_t bytes, Owner owner);
  /// Registers memory that the caller owns.
  void add(void* memory, std::size_t bytes);
  bool begins_at(const void* memory, Owner owner) const;
  /// False if no range of this owner begins there.
  bool release(void* memory, Owner owner);

  bool is_device(std::uintptr_t begin, std::size_t bytes) const;
  bool can_reach(std::uintptr_t begin, std::size_t bytes) const;
  /// The range that has these bytes.
  std::optional<MemoryRange> range_of(std::uintptr_t begin, std::size_t bytes) const;
  /// Whether a range has any of these bytes.
  bool has_any_of(std::uintptr_t begin, std::size_t bytes) const;
  /// How often memory was released so far. Who remembers a range forgets it when this changes; it
  /// may be called without the driver's lock.
  std::uint64_t release_count() const { return release_count_.load(std::memory_order_acquire); }
  std::size_t device_bytes() const { return device_bytes_; }

 private:
  struct Range : MemoryRange {
    Owner owner = Owner::device;
  };
  const Range* find(std::uintptr_t begin, std::size_t bytes) const;

  std::map<std::uintptr_t, Range> ranges_ = {};
  std::atomic<std::uint64_t> release_count_ = 0;
  std::size_t device_bytes_ = 0;
};

struct HostDriver {
  DriverState state = {};
  CuResult broken = 0;  // the result of every call once a context is broken, else 0
  DeviceMemory memory = {};
};

/// The one instance. DRIVER_CALL holds its lock.
HostDriver& driver();
TurnLock& driver_lock();
void reset_driver();
/// The number of contexts on the calling thread's stack.
int current_contexts();

/// Counts the call, and returns the failure that a test has scheduled for it, or 0.
CuResult begin_call(std::string_view symbol);
CuResult begin_call_in_context(std::string_view symbol);

/// Makes an object; its address is the handle.
template <class Object>
Object* make(std::map<Object*, std::unique_ptr<Object>>& objects, int& live_count) {
  auto object = std::make_unique<Object>();
  Object* const handle = object.get();
  objects.emplace(handle, std::move(object));
  ++live_count;
  return handle;
}

template <class Object>
CuResult destroy(std::map<Object*, std::unique_ptr<Object>>& objects, int& live_count,
                 Object* handle) {
  if (objects.erase(handle) == 0) return kInvalidHandle;
  --live_count;
  return 0;
}

// ---- defined by each library ----

/// Sets the initial state of the device.
void set_up(DriverState& state);
/// Runs the operation after all operations queued before it in the stream.
void queue(CuStream stream, std::function<void()> operation);
/// Waits for all queued operations, as the driver does before it frees memory. `call` names the
/// function that does.
CuResult finish_all(std::string_view call);

}  // namespace everkernel::simulator

// The first line of every exported function. A macro, because it returns.
#define DRIVER_CALL(begin, symbol)                                        \
  const std::scoped_lock hold(::everkernel::simulator::driver_lock());    \
  do {                                                                    \
    const ::everkernel::simulator::CuResult early_result = begin(symbol); \
    if (early_result != 0) return early_result;                           \
  } while (false)
