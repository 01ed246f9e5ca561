#include "injection.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

// The calls behind those that the linker redirects. Names with two underscores are the linker's.
extern "C" {
void* __real_malloc(std::size_t size);
void* __real_calloc(std::size_t count, std::size_t size);
void* __real_aligned_alloc(std::size_t alignment, std::size_t size);
int __real_epoll_create1(int flags);
int __real_epoll_ctl(int poll, int operation, int file, epoll_event* event);
int __real_eventfd(unsigned count, int flags);
int __real_flock(int file, int operation);
int __real_pidfd_open(pid_t process, unsigned flags);
ssize_t __real_recvmsg(int socket, msghdr* message, int flags);
ssize_t __real_sendmsg(int socket, const msghdr* message, int flags);
int __real_socketpair(int domain, int type, int protocol, int* ends);
int __real_fcntl(int file, int command, ...);
DIR* __real_fdopendir(int file);
int __real_fstat(int file, struct stat* status);
int __real_fstatat(int folder, const char* name, struct stat* status, int flags);
int __real_ftruncate(int file, off_t length);
int __real_futimens(int file, const timespec* times);
ssize_t __real_getrandom(void* target, std::size_t size, unsigned flags);
int __real_madvise(void* address, std::size_t length, int advice);
int __real_memfd_create(const char* name, unsigned flags);
int __real_mkdir(const char* path, mode_t mode);
void* __real_mmap(void* address, std::size_t length, int rights, int flags, int file, off_t at);
int __real_munmap(void* address, std::size_t length);
int __real_nanosleep(const timespec* time, timespec* rest);
int __real_open(const char* path, int flags, ...);
int __real_openat(int folder, const char* name, int flags, ...);
ssize_t __real_read(int file, void* target, std::size_t size);
int __real_renameat(int from, const char* name, int to, const char* other);
int __real_unlinkat(int folder, const char* name, int flags);
ssize_t __real_write(int file, const void* source, std::size_t size);
long __real_syscall(long number, ...);
int __real_clock_gettime(clockid_t clock, timespec* now);
std::time_t __real_time(std::time_t* target);
int __real_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* deadline);
}

namespace everkernel::test {
namespace {

struct State {
  std::atomic<int> resource{0};
  std::atomic<std::uint64_t> seen{0};
  std::atomic<bool> has_failed{false};
  std::atomic<const char*> first_failed{nullptr};
  // Atomic, because threads of earlier operations read them while a test sets them.
  std::atomic<std::uint64_t> skip{0};
  std::atomic<bool> for_ever{false};
  std::atomic<bool> all_threads{false};
  std::atomic<CallFault> call_fault{};
};

constexpr std::uint64_t kMostInterrupts = 1000;

State state;
// Whether this thread injects: a plain thread-local, because it is read inside operator new.
thread_local bool is_injecting = false;
std::atomic<std::int64_t> block_count{0};

bool must_fail(Resource resource, const char* call) {
  if (state.resource.load(std::memory_order_acquire) != static_cast<int>(resource)) return false;
  if (!state.all_threads && !is_injecting) return false;
  const std::uint64_t number = state.seen.fetch_add(1, std::memory_order_relaxed);
  // A call that is interrupted is made again: for ever means often here.
  const bool is_interrupt =
      resource == Resource::system_call && state.call_fault == CallFault::interrupted;
  const std::uint64_t end = is_interrupt ? state.skip + kMostInterrupts : ~std::uint64_t{0};
  const bool fails = state.for_ever ? number >= state.skip && number < end : number == state.skip;
  if (!fails) return false;
  const char* none = nullptr;
  state.first_failed.compare_exchange_strong(none, call, std::memory_order_relaxed);
  state.has_failed.store(true, std::memory_order_relaxed);
  return true;
}

// Of the calls that the library makes, those that wait for something.
bool can_be_interrupted(std::string_view call) {
  return call == "open" || call == "openat" || call == "read" || call == "write" ||
         call == "ftruncate" || call == "getrandom" || call == "futex";
}

// Whether a system call fails; then errno says why.
bool call_fails(const char* call) {
  if (state.call_fault == CallFault::short_transfer) return false;
  if (state.call_fault == CallFault::interrupted && !can_be_interrupted(call)) return false;
  if (!must_fail(Resource::system_call, call)) return false;
  switch (state.call_fault) {
    case CallFault::no_space:
      errno = ENOSPC;
      break;
    case CallFault::io_error:
      errno = EIO;
      break;
    case CallFault::too_many_files:
      errno = EMFILE;
      break;
    case CallFault::no_memory:
      errno = ENOMEM;
      break;
    case CallFault::interrupted:
      errno = EINTR;
      break;
    case CallFault::short_transfer:
      break;
  }
  return true;
}

// The bytes that a transfer may move.
std::size_t shortened(const char* call, std::size_t size) {
  const bool is_short = state.call_fault == CallFault::short_transfer && size > 1 &&
                        must_fail(Resource::system_call, call);
  return is_short ? 1 : size;
}

void* counted(void* block) {
  if (block != nullptr) block_count.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void* allocate(std::size_t size) noexcept {
  if (must_fail(Resource::allocation, "new")) return nullptr;
  return counted(__real_malloc(size == 0 ? 1 : size));
}

void* allocate(std::size_t size, std::align_val_t alignment) noexcept {
  if (must_fail(Resource::allocation, "new")) return nullptr;
  void* block = nullptr;
  const auto boundary = std::max(static_cast<std::size_t>(alignment), sizeof(void*));
  return posix_memalign(&block, boundary, size == 0 ? 1 : size) == 0 ? counted(block) : nullptr;
}

void* or_throw(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block) noexcept {
  if (block != nullptr) block_count.fetch_sub(1, std::memory_order_relaxed);
  std::free(block);
}

// ---- clocks ----

constexpr std::int64_t kTenDays = 10 * 24 * 3600;
constexpr std::int64_t kSecond = 1'000'000'000;
std::atomic<int> clock_speed{0};  // 0: clocks are not bent
std::atomic<std::int64_t> bent_since{0};
std::atomic<std::uint64_t> wall_readings{0};

std::int64_t nanoseconds_of(const timespec& time) {
  return time.tv_sec * kSecond + time.tv_nsec;
}

timespec time_of(std::int64_t nanoseconds) {
  return {.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
}

std::int64_t bent(std::int64_t nanoseconds) {
  const int speed = clock_speed.load(std::memory_order_acquire);
  if (speed == 0) return nanoseconds;
  const std::int64_t since = bent_since.load(std::memory_order_relaxed);
  return since + (nanoseconds - since) * speed;
}

std::int64_t straight(std::int64_t nanoseconds) {
  const int speed = clock_speed.load(std::memory_order_acquire);
  if (speed == 0) return nanoseconds;
  const std::int64_t since = bent_since.load(std::memory_order_relaxed);
  return since + (nanoseconds - since) / speed;
}

std::int64_t wall_jump() {
  if (clock_speed.load(std::memory_order_acquire) == 0) return 0;
  const bool is_ahead = wall_readings.fetch_add(1, std::memory_order_relaxed) % 2 == 0;
  return is_ahead ? kTenDays : -kTenDays;
}

}  // namespace

std::string fault_name(CallFault fault) {
  switch (fault) {
    case CallFault::no_space:
      return "ENOSPC";
    case CallFault::io_error:
      return "EIO";
    case CallFault::too_many_files:
      return "EMFILE";
    case CallFault::no_memory:
      return "ENOMEM";
    case CallFault::interrupted:
      return "EINTR";
    case CallFault::short_transfer:
      return "one byte";
  }
  return "?";
}

const std::vector<std::string>& system_calls() {
  static const std::vector<std::string> names = {
      "pidfd_open",   "epoll_create1", "epoll_ctl", "eventfd", "flock",     "recvmsg",   "sendmsg",
      "socketpair",   "fcntl",         "fdopendir", "fstat",   "fstatat",   "ftruncate", "futimens",
      "getrandom",    "mmap",          "madvise",   "mkdir",   "nanosleep", "open",      "openat",
      "memfd_create", "read",          "renameat",  "futex",   "unlinkat",  "write"};
  return names;
}

Injected::Injected(const Injection& injection) {
  state.seen.store(0, std::memory_order_relaxed);
  state.has_failed.store(false, std::memory_order_relaxed);
  state.first_failed.store(nullptr, std::memory_order_relaxed);
  state.skip = injection.skip;
  state.for_ever = injection.for_ever;
  state.all_threads = injection.all_threads;
  state.call_fault = injection.call_fault;
  is_injecting = true;
  state.resource.store(static_cast<int>(injection.resource), std::memory_order_release);
}

Injected::~Injected() {
  state.resource.store(static_cast<int>(Resource::nothing), std::memory_order_release);
  is_injecting = false;
}

bool Injected::has_failed() const {
  return state.has_failed.load(std::memory_order_relaxed);
}

std::string Injected::first_failed() const {
  const char* const name = state.first_failed.load(std::memory_order_relaxed);
  return name == nullptr ? "" : name;
}

Spared::Spared()
    : resource_(state.resource.exchange(static_cast<int>(Resource::nothing),
                                        std::memory_order_acq_rel)) {}

Spared::~Spared() {
  state.resource.store(resource_, std::memory_order_release);
}

std::int64_t live_blocks() {
  return block_count.load(std::memory_order_relaxed);
}

BentClocks::BentClocks(int speed) {
  bent_since.store(true_nanoseconds(), std::memory_order_relaxed);
  clock_speed.store(speed, std::memory_order_release);
}

BentClocks::~BentClocks() {
  clock_speed.store(0, std::memory_order_release);
}

std::int64_t true_nanoseconds() {
  timespec now{};
  __real_clock_gettime(CLOCK_MONOTONIC, &now);
  return nanoseconds_of(now);
}

}  // namespace everkernel::test

using namespace everkernel::test;

// ---- memory ----

void* operator new(std::size_t n) {
  return or_throw(allocate(n));
}
void* operator new[](std::size_t n) {
  return or_throw(allocate(n));
}
void* operator new(std::size_t n, std::align_val_t a) {
  return or_throw(allocate(n, a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return or_throw(allocate(n, a));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return allocate(n);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return allocate(n);
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, a);
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, a);
}
void operator delete(void* p) noexcept {
  release(p);
}
void operator delete[](void* p) noexcept {
  release(p);
}
void operator delete(void* p, std::size_t) noexcept {
  release(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  release(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  release(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  release(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  release(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  release(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
  release(p);
}
void operator delete[](void* p, const std::nothrow_t&) noexcept {
  release(p);
}
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  release(p);
}
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  release(p);
}

extern "C" void* __wrap_malloc(std::size_t size) {
  return must_fail(Resource::allocation, "malloc") ? nullptr : __real_malloc(size);
}
extern "C" void* __wrap_calloc(std::size_t count, std::size_t size) {
  return must_fail(Resource::allocation, "calloc") ? nullptr : __real_calloc(count, size);
}
extern "C" void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
  if (must_fail(Resource::allocation, "aligned_alloc")) return nullptr;
  return __real_aligned_alloc(alignment, size);
}

// ---- threads ----

// std::thread calls this to start; it throws what it throws when the system has no thread to give.
extern "C" void
__real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, std::unique_ptr<std::thread::_State> work, void (*depend)());
extern "C" void
__wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, std::unique_ptr<std::thread::_State> work, void (*depend)()) {
  if (must_fail(Resource::thread, "pthread_create")) {
    throw std::system_error(EAGAIN, std::generic_category());
  }
  __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
      self, std::move(work), depend);
}

// ---- system calls ----

extern "C" {
int __wrap_epoll_create1(int flags) {
  return call_fails("epoll_create1") ? -1 : __real_epoll_create1(flags);
}
int __wrap_epoll_ctl(int poll, int operation, int file, epoll_event* event) {
  return call_fails("epoll_ctl") ? -1 : __real_epoll_ctl(poll, operation, file, event);
}
int __wrap_eventfd(unsigned count, int flags) {
  return call_fails("eventfd") ? -1 : __real_eventfd(count, flags);
}
int __wrap_flock(int file, int operation) {
  return call_fails("flock") ? -1 : __real_flock(file, operation);
}
int __wrap_pidfd_open(pid_t process, unsigned flags) {
  return call_fails("pidfd_open") ? -1 : __real_pidfd_open(process, flags);
}
ssize_t __wrap_recvmsg(int socket, msghdr* message, int flags) {
  return call_fails("recvmsg") ? -1 : __real_recvmsg(socket, message, flags);
}
ssize_t __wrap_sendmsg(int socket, const msghdr* message, int flags) {
  return call_fails("sendmsg") ? -1 : __real_sendmsg(socket, message, flags);
}
int __wrap_socketpair(int domain, int type, int protocol, int* ends) {
  return call_fails("socketpair") ? -1 : __real_socketpair(domain, type, protocol, ends);
}
int __wrap_fcntl(int file, int command, ...) {
  if (call_fails("fcntl")) return -1;
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  return __real_fcntl(file, command, argument);
}
DIR* __wrap_fdopendir(int file) {
  return call_fails("fdopendir") ? nullptr : __real_fdopendir(file);
}
int __wrap_fstat(int file, struct stat* status) {
  return call_fails("fstat") ? -1 : __real_fstat(file, status);
}
int __wrap_fstatat(int folder, const char* name, struct stat* status, int flags) {
  return call_fails("fstatat") ? -1 : __real_fstatat(folder, name, status, flags);
}
int __wrap_ftruncate(int file, off_t length) {
  return call_fails("ftruncate") ? -1 : __real_ftruncate(file, length);
}
int __wrap_futimens(int file, const timespec* times) {
  return call_fails("futimens") ? -1 : __real_futimens(file, times);
}
ssize_t __wrap_getrandom(void* target, std::size_t size, unsigned flags) {
  if (call_fails("getrandom")) return -1;
  return __real_getrandom(target, shortened("getrandom", size), flags);
}
int __wrap_madvise(void* address, std::size_t length, int advice) {
  return call_fails("madvise") ? -1 : __real_madvise(address, length, advice);
}
int __wrap_memfd_create(const char* name, unsigned flags) {
  return call_fails("memfd_create") ? -1 : __real_memfd_create(name, flags);
}
int __wrap_mkdir(const char* path, mode_t mode) {
  return call_fails("mkdir") ? -1 : __real_mkdir(path, mode);
}
void* __wrap_mmap(void* address, std::size_t length, int rights, int flags, int file, off_t at) {
  return call_fails("mmap") ? MAP_FAILED : __real_mmap(address, length, rights, flags, file, at);
}
int __wrap_nanosleep(const timespec* time, timespec* rest) {
  // A sleep can only be interrupted; the rest of the time is left then.
  const bool is_interrupted =
      state.call_fault == CallFault::interrupted && must_fail(Resource::system_call, "nanosleep");
  if (is_interrupted) {
    errno = EINTR;
    if (rest != nullptr) *rest = time_of(nanoseconds_of(*time) / 2);
    return -1;
  }
  const int speed = std::max(clock_speed.load(std::memory_order_acquire), 1);
  const timespec shorter = time_of(nanoseconds_of(*time) / speed);
  return __real_nanosleep(&shorter, rest);
}
int __wrap_open(const char* path, int flags, ...) {
  if (call_fails("open")) return -1;
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return __real_open(path, flags, mode);
}
int __wrap_openat(int folder, const char* name, int flags, ...) {
  if (call_fails("openat")) return -1;
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return __real_openat(folder, name, flags, mode);
}
ssize_t __wrap_read(int file, void* target, std::size_t size) {
  if (call_fails("read")) return -1;
  return __real_read(file, target, shortened("read", size));
}
int __wrap_renameat(int from, const char* name, int to, const char* other) {
  return call_fails("renameat") ? -1 : __real_renameat(from, name, to, other);
}
int __wrap_unlinkat(int folder, const char* name, int flags) {
  return call_fails("unlinkat") ? -1 : __real_unlinkat(folder, name, flags);
}
ssize_t __wrap_write(int file, const void* source, std::size_t size) {
  if (call_fails("write")) return -1;
  return __real_write(file, source, shortened("write", size));
}
long __wrap_syscall(long number, ...) {
  // As many as the library passes: reading further would leave the caller's frame.
  int count = 3;
  if (number == SYS_futex) count = 6;
#if defined(SYS_futex_waitv)
  if (number == SYS_futex_waitv) count = 5;
#endif
  va_list rest;
  va_start(rest, number);
  long arguments[6] = {};
  for (int i = 0; i < count; ++i) arguments[i] = va_arg(rest, long);
  va_end(rest);
  // A wait on a word may end early for any reason; a call that wakes must not get lost.
  constexpr long kOperation = 0x7F;
  const bool is_wait = number == SYS_futex && (arguments[1] & kOperation) == 0;
  if (is_wait && call_fails("futex")) return -1;
  timespec shorter{};
  if (is_wait && arguments[3] != 0) {
    const int speed = std::max(clock_speed.load(std::memory_order_acquire), 1);
    shorter = time_of(nanoseconds_of(*reinterpret_cast<const timespec*>(arguments[3])) / speed);
    arguments[3] = reinterpret_cast<long>(&shorter);
  }
  return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                        arguments[4], arguments[5]);
}

// ---- clocks ----

int __wrap_clock_gettime(clockid_t clock, timespec* now) {
  const int result = __real_clock_gettime(clock, now);
  if (clock == CLOCK_MONOTONIC) *now = time_of(bent(nanoseconds_of(*now)));
  if (clock == CLOCK_REALTIME) now->tv_sec += wall_jump();
  return result;
}
std::time_t __wrap_time(std::time_t* target) {
  const std::time_t now = __real_time(nullptr) + wall_jump();
  if (target != nullptr) *target = now;
  return now;
}
std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  return bent(true_nanoseconds());
}
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* deadline) {
  const timespec true_deadline = time_of(straight(nanoseconds_of(*deadline)));
  return __real_pthread_cond_clockwait(condition, mutex, clock, &true_deadline);
}
}
