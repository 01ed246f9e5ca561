// Makes threads, and finds out why one could not be made.
#include "base/thread.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <system_error>

namespace everkernel {
namespace {

constexpr std::string_view kNoThread = "thread: the system refused another one";

std::size_t stack_bytes() {
  pthread_attr_t attributes;
  std::size_t bytes = std::size_t{8} << 20;
  if (::pthread_attr_init(&attributes) != 0) return bytes;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  ::pthread_attr_destroy(&attributes);
  return bytes;
}

// pthread_create() reports a missing stack and a missing thread alike, as EAGAIN.
bool has_room_for_stack() {
  void* const stack =
      ::mmap(nullptr, stack_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) return false;
  ::munmap(stack, stack_bytes());
  return true;
}

// `RLIMIT_NPROC is 64`, or that it is not set.
std::string limit_text(std::string_view name, int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return "";
  if (limit.rlim_cur == RLIM_INFINITY) return fmt::format("{} is not set", name);
  return fmt::format("{} is {}", name, limit.rlim_cur);
}

// The limit of the control group of this process, where it is mounted in the usual place.
std::string group_limit() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto colon = line.rfind(':');
    if (colon == std::string::npos) continue;
    const std::string path = line.substr(colon + 1);
    for (const std::string_view root : {"/sys/fs/cgroup", "/sys/fs/cgroup/pids"}) {
      std::ifstream file(fmt::format("{}{}/pids.max", root, path));
      if (std::string text; std::getline(file, text)) return fmt::format("; pids.max is {}", text);
    }
  }
  return "";
}

Failure no_memory(int native) {
  return fail(Code::out_of_memory,
              fmt::format("thread: no memory for another one with a stack of {} bytes ({})",
                          stack_bytes(), limit_text("RLIMIT_AS", RLIMIT_AS)),
              "raise the memory limit (ulimit -v), or use fewer workers or smaller stacks "
              "(ulimit -s)",
              native);
}

Failure refused(int native) {
  if (!has_room_for_stack()) return no_memory(native);
  return fail(
      Code::unsupported,
      fmt::format("{} ({}{})", kNoThread, limit_text("RLIMIT_NPROC", RLIMIT_NPROC), group_limit()),
      "raise the limit of threads (ulimit -u, pids.max), or use fewer workers", native);
}

}  // namespace

Result<Thread> Thread::start(std::function<void(std::stop_token)> body) {
  try {
    return Thread(std::jthread(std::move(body)));
  } catch (const std::system_error& error) {
    return refused(error.code().value());
  } catch (const std::bad_alloc&) {
    return no_memory(ENOMEM);
  }
}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this == &other) return *this;
  Thread ended(std::move(*this));
  home_ = other.home_;
  thread_ = std::move(other.thread_);
  return *this;
}

Thread::~Thread() {
  if (thread_.joinable() && !home_.is_here()) {
    abandon(std::make_shared<std::jthread>(std::move(thread_)));
  }
}

void Thread::join() {
  if (home_.is_here()) thread_.join();
}

}  // namespace everkernel
