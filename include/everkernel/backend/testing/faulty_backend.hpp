// A backend that wraps a real one and fails, delays or loses the device at a chosen step. With it a
// program tests what it does when the device lets it down.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "everkernel/backend/backend.hpp"

namespace everkernel::backend {

/// Where something can go wrong.
enum class FaultStep : Word {
  compile,       ///< compiling a kernel
  allocate,      ///< allocating memory
  write,         ///< copying to the device
  read,          ///< copying to the host
  launch,        ///< before a drain begins
  after_launch,  ///< after a drain has done its work
  start,         ///< starting a live kernel
  revive,        ///< bringing a lost device back
};

/// Number of steps.
inline constexpr std::size_t kFaultStepCount = 8;

/// What goes wrong.
enum class FaultKind : Word {
  fail,         ///< the step answers with an error
  delay,        ///< the step takes longer
  lose_device,  ///< the device is gone from here on
  garble,       ///< read only: the bytes that come back are all ones
};

/// One thing that will go wrong.
struct InjectedFault {
  FaultStep step = FaultStep::launch;   ///< where
  Word skip = 0;                        ///< steps of that kind that still go well
  Word times = 1;                       ///< how often, then it goes well again
  FaultKind kind = FaultKind::fail;     ///< what
  Code code = Code::io;                 ///< of the error of `fail`
  std::chrono::nanoseconds delay = {};  ///< of `delay`
};

/// Wraps a backend. Thread-safe. When the device is lost, everything made before is lost with it
/// until revive() and making it anew, as on a real device.
class FaultyBackend : public Backend {
 public:
  /// Wraps `inner`; nothing goes wrong until it is told to.
  static std::shared_ptr<FaultyBackend> wrap(std::shared_ptr<Backend> inner);

  /// Lets something go wrong. Several may be waiting; the first that fits is used up.
  virtual void inject(const InjectedFault& fault) = 0;
  /// The device is gone, now. Workers of live kernels stop where they are: up to `claimed` items
  /// that were published stay CLAIMED, as if a worker had died with them in its hands.
  virtual void lose_device(Word claimed = 0) = 0;
  /// How often a step was taken.
  virtual std::uint64_t count(FaultStep step) const = 0;
};

}  // namespace everkernel::backend
