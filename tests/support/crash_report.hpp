// Prints which batch of a random test was running when the program crashes.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "support/seeds.hpp"

namespace everkernel::test {

/// While an object of this class exists, a crash prints the last batch that was set; then the
/// signal takes its ordinary course. At most one object exists at a time.
class CrashReport {
 public:
  CrashReport() {
    struct sigaction action = {};
    action.sa_handler = &CrashReport::report;
    action.sa_flags = SA_NODEFER;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &action, &before_[i]);
    }
  }
  CrashReport(const CrashReport&) = delete;
  CrashReport& operator=(const CrashReport&) = delete;
  ~CrashReport() { restore(); }

  void set(std::uint64_t seed, const std::string& text) {
    const std::string message =
        fmt::format("\ncrashed; replay with\n  {}\n{}\n", replay_command(seed), text);
    const std::size_t length = std::min(message.size(), message_.size());
    std::copy_n(message.data(), length, message_.data());
    length_ = length;
  }

 private:
  static constexpr std::array<int, 5> kSignals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  static void restore() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  static void report(int number) {
    // Nothing can be done if this write fails.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message_.data(), length_);
    restore();
    if (number == SIGABRT) raise(number);
  }
  static inline std::array<struct sigaction, kSignals.size()> before_ = {};
  static inline std::array<char, 20'000> message_ = {};
  static inline std::size_t length_ = 0;
};

}  // namespace everkernel::test
