// Writes the bar at most ten times a second: a terminal is slower than a run.
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
// To the first column, and everything behind it gone.
constexpr const char* kClearLine = "\r\x1b[K";

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string left_text(double left) {
  return left < 60 ? fmt::format("{:.1f} s left", left) : fmt::format("{:.0f} m left", left / 60);
}

}  // namespace

std::string progress_line(const RunProgress& progress, std::chrono::nanoseconds elapsed) {
  const auto count = static_cast<double>(progress.item_count);
  const auto ended = static_cast<double>(std::min(progress.items_ended, progress.item_count));
  const double part = progress.item_count == 0 ? 1 : ended / count;
  const auto filled = static_cast<std::size_t>(part * static_cast<double>(kBarColumns));
  std::string line = fmt::format("[{:-<{}}] {:3.0f} %  {} of {} items", std::string(filled, '#'),
                                 kBarColumns, std::min(part * 100, 100.0),
                                 grouped(progress.items_ended), grouped(progress.item_count));
  if (ended == 0 || elapsed.count() <= 0) return line;
  const double rate = ended / seconds(elapsed);
  return line + fmt::format("  {}/s  {}", grouped(static_cast<std::uint64_t>(rate)),
                            left_text((count - ended) / rate));
}

ProgressBar::ProgressBar() : is_terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (has_line_) std::fputs(kClearLine, stderr);
}

void ProgressBar::update(const RunProgress& progress) {
  const auto now = Clock::now();
  if (!is_terminal_ || now < next_) return;
  next_ = now + kPause;
  has_line_ = true;
  std::fputs((kClearLine + progress_line(progress, now - begin_)).c_str(), stderr);
}

}  // namespace everkernel::cli
