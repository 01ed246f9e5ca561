// Runs a trial in a child process: a crash or a hang of the library is one failed expectation that
// says which step of the trial was running.
#pragma once

#include <functional>
#include <string>

namespace everkernel::test {

/// The child's side of a trial.
class Journal {
 public:
  /// Notes what the child does next; the parent names the last note when the child dies.
  void note(const std::string& step);
  /// Notes a broken promise and goes on.
  void fail(const std::string& what);

  /// Memory that parent and child share.
  struct Page;
  explicit Journal(Page& page) : page_(page) {}

 private:
  Page& page_;
};

/// Runs `trial` in a child process that has `seconds` to end. Returns what went wrong, or nothing.
/// The caller must have no other threads.
std::string run_in_child(int seconds, const std::function<void(Journal&)>& trial);

/// The seconds of one trial that goes on for a while: EVERKERNEL_SECONDS shared by the seven of
/// this program, else `usual`.
double seconds_of_trial(double usual);

}  // namespace everkernel::test
