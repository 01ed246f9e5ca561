#include "child.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

#include "support/seeds.hpp"

namespace everkernel::test {

struct Journal::Page {
  char step[512];
  char failures[4096];
  std::size_t failure_count;
};

namespace {

void copy(char* target, std::size_t room, std::string_view text) {
  const std::size_t length = std::min(text.size(), room - 1);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

constexpr std::size_t kMostFailures = 8;

}  // namespace

void Journal::note(const std::string& step) {
  copy(page_.step, sizeof page_.step, step);
}

void Journal::fail(const std::string& what) {
  if (++page_.failure_count > kMostFailures) return;
  const std::size_t used = std::strlen(page_.failures);
  copy(page_.failures + used, sizeof page_.failures - used,
       fmt::format("{}: {}\n", page_.step, what));
}

double seconds_of_trial(double usual) {
  constexpr double kTrials = 7;
  const auto given = number_from("EVERKERNEL_SECONDS");
  return given ? static_cast<double>(*given) / kTrials : usual;
}

std::string run_in_child(int seconds, const std::function<void(Journal&)>& trial) {
  void* const memory = ::mmap(nullptr, sizeof(Journal::Page), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return "no memory to share with the child";
  auto& page = *static_cast<Journal::Page*>(memory);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return "cannot make a child";
  if (child == 0) {
    ::alarm(static_cast<unsigned>(seconds));
    Journal journal(page);
    try {
      trial(journal);
    } catch (const std::exception& thrown) {
      journal.fail(fmt::format("an exception came out of it: {}", thrown.what()));
    }
    std::exit(EXIT_SUCCESS);  // not _exit(): a leak checker reports at exit
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::string problem = page.failures;
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    problem += fmt::format("{}: {}\n", page.step,
                           number == SIGALRM ? "the child did not end"
                                             : fmt::format("signal {} ended the child", number));
  } else if (WEXITSTATUS(status) != EXIT_SUCCESS) {
    problem += fmt::format("{}: the child exited with {}\n", page.step, WEXITSTATUS(status));
  }
  ::munmap(memory, sizeof(Journal::Page));
  return problem;
}

}  // namespace everkernel::test
