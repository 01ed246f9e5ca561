// Rewrites the line at most ten times per second, because writing to a terminal is slow.
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "numbers.hpp"

namespace everkernel::cli {
namespace {

constexpr std::size_t kBarColumns = 20;
constexpr auto kPause = std::chrono::milliseconds(100);
// Moves to the first column and clears the line.
constexpr const char* kClearLine = "\r\x1b[K";

std::string left_text(double left) {
  return left < 60 ? fmt::format("{:.1f} s left", left) : fmt::format("{:.0f} m left", left / 60);
}

}  // namespace

std::string progress_line(const RunProgress& progress, double items_per_second) {
  const std::uint64_t ended = std::min(progress.items_ended, progress.item_count);
  const double part = progress.item_count == 0
                          ? 1
                          : static_cast<double>(ended) / static_cast<double>(progress.item_count);
  const auto filled = static_cast<std::size_t>(part * static_cast<double>(kBarColumns));
  std::string line =
      fmt::format("[{:-<{}}] {:3.0f} %  {} of {} items", std::string(filled, '#'), kBarColumns,
                  part * 100, grouped(ended), grouped(progress.item_count));
  if (items_per_second < 1) return line;
  const auto left = static_cast<double>(progress.item_count - ended);
  return line + fmt::format("  {}/s  {}", grouped(static_cast<std::uint64_t>(items_per_second)),
                            left_text(left / items_per_second));
}

ProgressBar::ProgressBar() : is_terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (has_line_) std::fputs(kClearLine, stderr);
}

void ProgressBar::update(const RunProgress& progress) {
  const auto now = Clock::now();
  if (!is_terminal_ || now < next_) return;
  next_ = now + kPause;
  if (!has_line_) {
    begin_ = now;
    items_before_ = progress.items_ended;
  }
  has_line_ = true;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const auto items = static_cast<double>(progress.items_ended - items_before_);
  const std::string line = progress_line(progress, seconds > 0 ? items / seconds : 0);
  std::fputs((kClearLine + line).c_str(), stderr);
}

}  // namespace everkernel::cli
