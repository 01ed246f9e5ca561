// Runs a program to its end and keeps its output. A program that hangs is killed and the test
// fails, so that no test waits for ever.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/temp_dir.hpp"

namespace everkernel::test {

/// The first of the descriptors that a program inherits by Command::inherited.
inline constexpr int kFirstInherited = 200;

/// The path of the running program, which tests start again in another role.
inline std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

/// How a program is run.
struct Command {
  std::string program = {};                   ///< path of the executable
  std::vector<std::string> args = {};         ///< without the program's name
  std::filesystem::path folder = {};          ///< where it runs
  std::string stdout_path = {};               ///< a file instead of being captured
  int stdout_descriptor = -1;                 ///< a descriptor instead of being captured
  bool stdout_closed = false;                 ///< run it as `>&-` does
  bool stderr_closed = false;                 ///< run it as `2>&-` does
  std::vector<int> inherited = {};            ///< it gets copies from kFirstInherited on
  std::chrono::milliseconds timeout{20'000};  ///< then it is killed
};

/// How it ended.
struct Outcome {
  int status = -1;       ///< exit status; -1 when a signal ended it or it ran too long
  int signal = 0;        ///< the signal that ended it; 0 = none
  std::string out = {};  ///< standard output, when it was captured
  std::string err = {};  ///< standard error
};

namespace detail {

// Waits until the timeout is over; the raw wait status, or -1 after a kill.
inline int wait_for(pid_t child, std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      ADD_FAILURE() << "the program ran past its timeout";
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return status;
}

inline void redirect(posix_spawn_file_actions_t& actions, int descriptor, bool closed,
                     const std::string& path) {
  if (closed) {
    posix_spawn_file_actions_addclose(&actions, descriptor);
  } else {
    posix_spawn_file_actions_addopen(&actions, descriptor, path.c_str(), O_WRONLY | O_CREAT, 0600);
  }
}

}  // namespace detail

/// A program that runs. Its output goes through files, which hold any amount; /dev/full is one of
/// them.
class Process {
 public:
  /// Starts it. A program that cannot be started is a failure of the test.
  explicit Process(const Command& command) : timeout_(command.timeout) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (command.stdout_descriptor >= 0) {
      posix_spawn_file_actions_adddup2(&actions, command.stdout_descriptor, STDOUT_FILENO);
    } else {
      detail::redirect(actions, STDOUT_FILENO, command.stdout_closed,
                       command.stdout_path.empty() ? out().native() : command.stdout_path);
    }
    detail::redirect(actions, STDERR_FILENO, command.stderr_closed, err());
    for (std::size_t i = 0; i < command.inherited.size(); ++i) {
      posix_spawn_file_actions_adddup2(&actions, command.inherited[i],
                                       kFirstInherited + static_cast<int>(i));
    }
    posix_spawn_file_actions_addchdir_np(&actions, command.folder.c_str());
    std::vector<std::string> words = command.args;
    words.insert(words.begin(), command.program);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int error =
        posix_spawn(&child_, command.program.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == 0) return;
    child_ = 0;
    ADD_FAILURE() << "cannot start " << command.program << ": errno " << error;
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Kills it if it still runs.
  ~Process() {
    if (child_ == 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  /// Sends it a signal.
  void send(int signal) const {
    if (child_ != 0) ::kill(child_, signal);
  }

  /// Waits for its end, which may be a signal.
  Outcome finish() {
    if (child_ == 0) return {};
    const int status = detail::wait_for(std::exchange(child_, 0), timeout_);
    const bool exited = status >= 0 && WIFEXITED(status);
    return {.status = exited ? WEXITSTATUS(status) : -1,
            .signal = status >= 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0,
            .out = std::filesystem::exists(out()) ? read_text(out()) : "",
            .err = std::filesystem::exists(err()) ? read_text(err()) : ""};
  }

 private:
  std::filesystem::path out() const { return streams_.path() / "out"; }
  std::filesystem::path err() const { return streams_.path() / "err"; }

  TempDir streams_;
  std::chrono::milliseconds timeout_;
  pid_t child_ = 0;
};

/// Runs a program to its end. An end by a signal is a failure of the test.
inline Outcome run(const Command& command) {
  Process process(command);
  const Outcome outcome = process.finish();
  EXPECT_NE(outcome.status, -1) << "the program did not exit: signal " << outcome.signal;
  return outcome;
}

}  // namespace everkernel::test
