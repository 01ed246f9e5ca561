// How far a run is, as one line on a terminal that is written over and cleared at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "everkernel/runtime/run.hpp"

namespace everkernel::cli {

/// The line: a bar, items, and, where the rate is known, items a second and the time left.
std::string progress_line(const RunProgress& progress, double items_per_second);

/// Shows it on standard error, if that is a terminal; otherwise does nothing.
class ProgressBar {
 public:
  /// Shows nothing yet.
  ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// Clears the line.
  ~ProgressBar();

  /// Whether there is a terminal.
  bool is_shown() const { return is_terminal_; }
  /// Shows how far the run is; calls that come too soon are passed over.
  void update(const RunProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_terminal_;
  bool has_line_ = false;           // to be cleared
  std::uint64_t items_before_ = 0;  // ended when the first update came: planning is over then
  Clock::time_point begin_ = {};    // of the first update
  Clock::time_point next_ = {};     // not before
};

}  // namespace everkernel::cli
