// How far a run is, as one line on a terminal that is written over and cleared at the end.
#pragma once

#include <chrono>
#include <string>

#include "everkernel/runtime/run.hpp"

namespace everkernel::cli {

/// The line: a bar, items, items a second and the time left; at most 79 columns.
std::string progress_line(const RunProgress& progress, std::chrono::nanoseconds elapsed);

/// Shows it on standard error, if that is a terminal; otherwise does nothing.
class ProgressBar {
 public:
  /// Begins now.
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
  bool has_line_ = false;  // to be cleared
  Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_;  // not before
};

}  // namespace everkernel::cli
