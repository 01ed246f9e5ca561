// SIGINT, SIGTERM and SIGHUP while a command runs items: the first asks it to stop.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>

namespace everkernel::cli {

/// Makes writing to a closed pipe, or beyond the file size limit, an error of the call instead of
/// the end of the process.
void ignore_write_signals();

/// While an object exists, the first SIGINT, SIGTERM or SIGHUP sets a flag, and the second has its
/// default action: it ends the process at once. A signal that was ignored before stays ignored. One
/// object at a time.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  /// Restores the actions that the signals had before.
  ~Interrupt();

  /// True after the first signal.
  const std::atomic<bool>& flag() const;

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  static void handle(int);

  std::array<struct sigaction, kSignals.size()> before_ = {};
};

}  // namespace everkernel::cli
