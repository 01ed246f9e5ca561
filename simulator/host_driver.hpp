// What libraries that stand for libcuda have in common: a device that is a few numbers, contexts,
// and memory that is the host's. fake_driver.cpp has the driver's functions for these; whoever
// builds with it adds modules, streams, events and graphs, and the functions at the end of this.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "backend/cuda/driver.hpp"
#include "simulator/driver_state.hpp"

namespace everkernel::simulator {

using backend::cuda::CuPointer;
using backend::cuda::CuResult;
using backend::cuda::CuStream;

inline constexpr CuResult kInvalidValue = 1;
inline constexpr CuResult kOutOfMemory = 2;
inline constexpr CuResult kInvalidDevice = 101;
inline constexpr CuResult kInvalidImage = 200;
inline constexpr CuResult kInvalidContext = 201;
inline constexpr CuResult kNoBinary = 209;
inline constexpr CuResult kInvalidHandle = 400;
inline constexpr CuResult kNotFound = 500;
inline constexpr CuResult kIllegalAddress = 700;
inline constexpr CuResult kNotSupported = 801;

/// A lock that threads get in the order in which they came: none that looks again and again keeps
/// it from another.
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

/// Memory that the device reaches, of the host all of it. What is new is full of garbage.
class DeviceMemory {
 public:
  enum class Owner { device, pinned, host };

  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  /// Frees also what a test that lost its device could not give back.
  ~DeviceMemory();

  void* allocate(std::size_t bytes, Owner owner);
  /// Memory that belongs to the host and stays its own.
  void add(void* memory, std::size_t bytes);
  bool begins_at(const void* memory, Owner owner) const;
  /// False if none of this owner begins there.
  bool release(void* memory, Owner owner);

  bool is_device(std::uintptr_t begin, std::size_t bytes) const;
  bool can_reach(std::uintptr_t begin, std::size_t bytes) const;
  std::size_t device_bytes() const { return device_bytes_; }

 private:
  struct Range {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    Owner owner = Owner::device;
    bool has(std::uintptr_t first, std::size_t count) const {
      return first - begin <= bytes && count <= bytes - (first - begin);
    }
  };
  const Range* find(std::uintptr_t begin, std::size_t bytes) const;

  std::map<std::uintptr_t, Range> ranges_ = {};
  mutable Range last_ = {};  // that was asked for: kernels stay where they are
  std::size_t device_bytes_ = 0;
};

struct HostDriver {
  DriverState state = {};
  CuResult broken = 0;  // what every call answers once a context is broken
  DeviceMemory memory = {};
};

/// Everything that was done to the device; begin_call holds its lock.
HostDriver& driver();
TurnLock& driver_lock();
void reset_driver();
/// Of the thread that asks.
int current_contexts();

/// What every function begins with: counts, and fails where the test wants it.
CuResult begin_call(std::string_view symbol);
CuResult begin_call_in_context(std::string_view symbol);

/// Makes what a handle names.
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

// ---- what a library says that uses this ----

/// The device before anything was done to it.
void set_up(DriverState& state);
/// Does it when all is done that was queued before.
void queue(CuStream stream, std::function<void()> operation);
/// Waits for everything that was queued, as the driver does before it takes memory away.
CuResult finish_all();

}  // namespace everkernel::simulator

// The first line of every function. A macro, because it returns.
#define DRIVER_CALL(begin, symbol)                                        \
  const std::scoped_lock hold(::everkernel::simulator::driver_lock());    \
  do {                                                                    \
    const ::everkernel::simulator::CuResult early_result = begin(symbol); \
    if (early_result != 0) return early_result;                           \
  } while (false)
