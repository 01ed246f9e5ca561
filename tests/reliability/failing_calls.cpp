// A library for LD_PRELOAD: makes a system call of a program fail.
//
// EVERKERNEL_FAIL="CALL:SKIP:ERRNO:FOREVER" lets SKIP calls of CALL pass and fails the next one, or
// all later ones if FOREVER is 1. ERRNO 0 makes the call move one byte. Calls before the program's
// main() and calls on /proc and /sys pass. EVERKERNEL_FAIL_LOG names a file that is made when a
// call has failed.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Plan {
  char call[32] = "";
  unsigned long skip = 0;
  int number = 0;
  int for_ever = 0;
};

std::atomic<bool> is_armed{false};
std::atomic<unsigned long> seen{0};
Plan plan;
constexpr unsigned long kMostInterrupts = 1000;

template <class Call>
Call* real(const char* name) {
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}

void note_failure() {
  const char* const log = std::getenv("EVERKERNEL_FAIL_LOG");
  if (log == nullptr) return;
  using Open = int(const char*, int, ...);
  const int file = real<Open>("open")(log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) real<int(int)>("close")(file);
}

bool is_planned(const char* call) {
  if (!is_armed.load() || std::strcmp(call, plan.call) != 0) return false;
  const unsigned long number = seen.fetch_add(1);
  const bool is_over = plan.number == EINTR && number >= plan.skip + kMostInterrupts;
  const bool fails = plan.for_ever != 0 ? number >= plan.skip && !is_over : number == plan.skip;
  if (fails) note_failure();
  return fails;
}

bool fails(const char* call) {
  if (!is_armed.load() || plan.number == 0 || !is_planned(call)) return false;
  errno = plan.number;
  return true;
}

size_t shortened(const char* call, size_t size) {
  const bool is_short = is_armed.load() && plan.number == 0 && size > 1 && is_planned(call);
  return is_short ? 1 : size;
}

bool is_of_the_system(const char* path) {
  return std::strncmp(path, "/proc", 5) == 0 || std::strncmp(path, "/sys", 4) == 0 ||
         std::strncmp(path, "/usr", 4) == 0 || std::strncmp(path, "/etc", 4) == 0;
}

[[gnu::constructor(65535)]] void arm() {
  const char* const text = std::getenv("EVERKERNEL_FAIL");
  if (text == nullptr) return;
  const int read =
      std::sscanf(text, "%31[^:]:%lu:%d:%d", plan.call, &plan.skip, &plan.number, &plan.for_ever);
  if (read == 4) is_armed.store(true);
}

}  // namespace

extern "C" {
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  if (!is_of_the_system(path) && fails("open")) return -1;
  return real<int(const char*, int, ...)>("open")(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  if (fails("openat")) return -1;
  return real<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
}
ssize_t read(int file, void* target, size_t size) {
  if (fails("read")) return -1;
  return real<ssize_t(int, void*, size_t)>("read")(file, target, shortened("read", size));
}
ssize_t write(int file, const void* source, size_t size) {
  if (fails("write")) return -1;
  return real<ssize_t(int, const void*, size_t)>("write")(file, source, shortened("write", size));
}
ssize_t pwrite(int file, const void* source, size_t size, off_t offset) {
  if (fails("pwrite")) return -1;
  return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(
      file, source, shortened("pwrite", size), offset);
}
int close(int file) {
  // The file is closed all the same, as Linux does it.
  const int result = real<int(int)>("close")(file);
  return file > STDERR_FILENO && fails("close") ? -1 : result;
}
int fstat(int file, struct stat* status) {
  if (fails("fstat")) return -1;
  return real<int(int, struct stat*)>("fstat")(file, status);
}
int stat(const char* path, struct stat* status) {
  if (!is_of_the_system(path) && fails("stat")) return -1;
  return real<int(const char*, struct stat*)>("stat")(path, status);
}
int mkdir(const char* path, mode_t mode) {
  if (fails("mkdir")) return -1;
  return real<int(const char*, mode_t)>("mkdir")(path, mode);
}
int rename(const char* from, const char* to) {
  if (fails("rename")) return -1;
  return real<int(const char*, const char*)>("rename")(from, to);
}
int flock(int file, int operation) {
  if (fails("flock")) return -1;
  return real<int(int, int)>("flock")(file, operation);
}
int memfd_create(const char* name, unsigned flags) noexcept {
  if (fails("memfd_create")) return -1;
  return real<int(const char*, unsigned)>("memfd_create")(name, flags);
}
int ftruncate(int file, off_t length) noexcept {
  if (fails("ftruncate")) return -1;
  return real<int(int, off_t)>("ftruncate")(file, length);
}
}
