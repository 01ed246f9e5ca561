// A backend that wraps a real one and fails, delays or loses the device at a chosen step, so that a
// program can test how it handles a failing device.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "everkernel/backend/backend.hpp"

namespace everkernel::backend {

/// Steps at which a fault can be injected.
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

/// Kinds of faults.
enum class FaultKind : Word {
  fail,         ///< the step answers with an error
  delay,        ///< the step takes longer, `compile` up to its deadline
  lose_device,  ///< the device is gone from here on
  garble,       ///< read only: the bytes that come back are all ones
};

/// A fault to inject.
struct InjectedFault {
  FaultStep step = FaultStep::launch;   ///< where
  Word skip = 0;                        ///< steps of that kind that succeed before
  Word times = 1;                       ///< how many steps it affects
  FaultKind kind = FaultKind::fail;     ///< what
  Code code = Code::io;                 ///< of the error of `fail`
  std::chrono::nanoseconds delay = {};  ///< of `delay`
};

/// Wraps a backend. Thread-safe. When the device is lost, everything made before is lost with it,
/// as on a real device: call revive(), then make it again.
class FaultyBackend : public Backend {
 public:
  /// Wraps `inner`; no step fails until a fault is injected.
  static std::shared_ptr<FaultyBackend> wrap(std::shared_ptr<Backend> inner);

  /// Injects a fault. Several may be pending; a step uses the first that fits.
  virtual void inject(const InjectedFault& fault) = 0;
  /// Loses the device now. Workers of live kernels stop: up to `claimed` PUBLISHED items become
  /// CLAIMED, as if the worker that held them had died.
  virtual void lose_device(Word claimed = 0) = 0;
  /// How often a step was taken.
  virtual std::uint64_t count(FaultStep step) const = 0;
};

}  // namespace everkernel::backend
