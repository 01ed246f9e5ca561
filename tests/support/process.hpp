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
#include <vector>

#include "support/temp_dir.hpp"

namespace everkernel::test {

/// How a program is run.
struct Command {
  std::string program = {};                   ///< path of the executable
  std::vector<std::string> args = {};         ///< without the program's name
  std::filesystem::path folder = {};          ///< where it runs
  std::string stdout_path = {};               ///< a file instead of being captured
  bool stdout_closed = false;                 ///< run it as `>&-` does
  bool stderr_closed = false;                 ///< run it as `2>&-` does
  std::chrono::milliseconds timeout{20'000};  ///< then it is killed
};

/// How it ended.
struct Outcome {
  int status = -1;       ///< exit status; -1 when a signal ended it or it ran too long
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

/// Runs a program. Its output goes through files, which hold any amount; /dev/full is one of them.
inline Outcome run(const Command& command) {
  const TempDir streams;
  const std::string out = streams.path() / "out";
  const std::string err = streams.path() / "err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  detail::redirect(actions, STDOUT_FILENO, command.stdout_closed,
                   command.stdout_path.empty() ? out : command.stdout_path);
  detail::redirect(actions, STDERR_FILENO, command.stderr_closed, err);
  posix_spawn_file_actions_addchdir_np(&actions, command.folder.c_str());

  std::vector<std::string> words = command.args;
  words.insert(words.begin(), command.program);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  pid_t child = 0;
  const int error =
      posix_spawn(&child, command.program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    ADD_FAILURE() << "cannot start " << command.program << ": errno " << error;
    return {};
  }
  const int status = detail::wait_for(child, command.timeout);
  const bool exited = status >= 0 && WIFEXITED(status);
  EXPECT_TRUE(exited) << "the program did not exit: wait status " << status;
  return {.status = exited ? WEXITSTATUS(status) : -1,
          .out = std::filesystem::exists(out) ? read_text(out) : "",
          .err = std::filesystem::exists(err) ? read_text(err) : ""};
}

}  // namespace everkernel::test
