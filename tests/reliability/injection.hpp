// Makes the n-th allocation, thread creation or system call of the library fail, and changes what
// its clocks show.
//
// The linker redirects the library's calls to injection.cpp (CMakeLists.txt lists them): what the
// C++ runtime and LLVM call by themselves is not touched, but for operator new, which is replaced
// for the whole program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace everkernel::test {

/// What fails.
enum class Resource : int {
  nothing,
  allocation,   ///< operator new, malloc, calloc, aligned_alloc
  thread,       ///< creating a thread
  system_call,  ///< the calls that system_calls() names
};

/// How a system call fails.
enum class CallFault : int {
  no_space,        ///< ENOSPC, or what the call may answer that is closest to it
  io_error,        ///< EIO
  too_many_files,  ///< EMFILE
  no_memory,       ///< ENOMEM
  interrupted,     ///< EINTR
  short_transfer,  ///< read and write move one byte; other calls succeed
};

/// The name of a system call's fault.
std::string fault_name(CallFault fault);

/// What fails, and when.
struct Injection {
  Resource resource = Resource::nothing;
  std::uint64_t skip = 0;     ///< calls that succeed before the first that fails
  bool for_ever = false;      ///< whether all later calls fail as well
  bool all_threads = false;   ///< whether calls of other threads count and fail too
  CallFault call_fault = {};  ///< of Resource::system_call
};

/// While an object of this class exists, calls fail as `injection` says. One at a time.
class Injected {
 public:
  explicit Injected(const Injection& injection);
  Injected(const Injected&) = delete;
  Injected& operator=(const Injected&) = delete;
  ~Injected();

  /// Whether a call has failed so far.
  bool has_failed() const;
  /// The name of the first call that failed; empty if none has.
  std::string first_failed() const;
};

/// While an object of this class exists, nothing fails: for what a test itself does in the middle.
class Spared {
 public:
  Spared();
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;
  ~Spared();

 private:
  int resource_;
};

/// The system calls that can fail.
const std::vector<std::string>& system_calls();

/// Blocks from operator new that are not freed.
std::int64_t live_blocks();

/// While an object of this class exists, the wall clock jumps by ten days, forwards and backwards,
/// at every reading, and the monotonic clock runs `speed` times as fast as it should.
class BentClocks {
 public:
  explicit BentClocks(int speed);
  BentClocks(const BentClocks&) = delete;
  BentClocks& operator=(const BentClocks&) = delete;
  ~BentClocks();
};

/// The monotonic clock of the machine, bent or not.
std::int64_t true_nanoseconds();

}  // namespace everkernel::test
