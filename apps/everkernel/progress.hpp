// The progress of a run, as one line on a terminal that is rewritten and cleared at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "everkernel/runtime/run.hpp"

namespace everkernel::cli {

/// The line: a bar, the items, and, if the rate is known, the time left and items per second. It
/// has at most `columns` columns: what does not fit is left out.
std::string progress_line(const RunProgress& progress, double items_per_second,
                          std::size_t columns);

/// Shows the line on standard error if that is a terminal; otherwise does nothing.
class ProgressBar {
 public:
  /// Shows nothing yet.
  ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// Clears the line.
  ~ProgressBar();

  /// Whether standard error is a terminal.
  bool is_shown() const { return is_terminal_; }
  /// Shows the progress, at most ten times per second.
  void update(const RunProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_terminal_;
  bool has_line_ = false;           // whether a line is shown
  std::uint64_t items_before_ = 0;  // ended at the first update, when planning is over
  Clock::time_point begin_ = {};    // of the first update
  Clock::time_point next_ = {};     // of the next update
};

}  // namespace everkernel::cli
