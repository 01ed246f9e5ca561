// Rewrites the line at most ten times per second, because writing to a terminal is slow.
#include "progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "numbers.hpp"

namespace everkernel::cli {
namespace {

constexpr std::size_t kBarColumns = 20;
constexpr std::size_t kLeastBarColumns = 4;
constexpr auto kPause = std::chrono::milliseconds(100);
// Moves to the first column and clears the line.
constexpr const char* kClearLine = "\r\x1b[K";

std::string left_text(double left) {
  return left < 60 ? fmt::format("{:.1f} s left", left) : fmt::format("{:.0f} m left", left / 60);
}

}  // namespace

std::string progress_line(const RunProgress& progress, double items_per_second,
                          std::size_t columns) {
  const std::uint64_t ended = std::min(progress.items_ended, progress.item_count);
  const double part = progress.item_count == 0
                          ? 1
                          : static_cast<double>(ended) / static_cast<double>(progress.item_count);
  // In order of importance: what does not fit is left out.
  std::string line = fmt::format("{:3.0f} %", part * 100);
  std::vector<std::string> more = {
      fmt::format("  {} of {} items", grouped(ended), grouped(progress.item_count))};
  if (items_per_second >= 1) {
    const auto left = static_cast<double>(progress.item_count - ended);
    more.push_back("  " + left_text(left / items_per_second));
    more.push_back(fmt::format("  {}/s", grouped(static_cast<std::uint64_t>(items_per_second))));
  }
  if (line.size() > columns) return {};
  for (const std::string& text : more) {
    if (line.size() + text.size() <= columns) line += text;
  }
  constexpr std::size_t kFrame = 3;  // the brackets and a space
  if (line.size() + kFrame + kLeastBarColumns > columns) return line;
  const std::size_t bar = std::min(kBarColumns, columns - line.size() - kFrame);
  const auto filled = static_cast<std::size_t>(part * static_cast<double>(bar));
  return fmt::format("[{:-<{}}] {}", std::string(filled, '#'), bar, line);
}

namespace {

// A terminal without a size, such as a serial line, is taken for the usual one. The last column
// stays free: some terminals begin a new line when it is filled.
std::size_t terminal_columns() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
  return (is_known ? size.ws_col : kUsual) - 1;
}

}  // namespace

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
  const std::string line =
      progress_line(progress, seconds > 0 ? items / seconds : 0, terminal_columns());
  std::fputs((kClearLine + line).c_str(), stderr);
}

}  // namespace everkernel::cli
