// Threads that help the caller of a bounded dispatch, and sleep otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/thread.hpp"
#include "everkernel/abi/platform.hpp"

namespace everkernel::backend::cpu {

/// Threads that all run the same job when they are called.
class Helpers {
 public:
  /// Threads are made at the first call.
  explicit Helpers(abi::Word thread_count) : thread_count_(thread_count) {
    threads_.reserve(thread_count);
  }
  Helpers(const Helpers&) = delete;             ///< threads refer to it
  Helpers& operator=(const Helpers&) = delete;  ///< threads refer to it
  ~Helpers();                                   ///< ends the threads

  /// Helpers that wake from now on run `job`. One job at a time.
  void open(const std::function<void()>& job);
  /// Wakes the threads, and makes those that are missing. If the system refuses threads, the job
  /// runs with fewer. Only while a job is open.
  void call();
  /// Waits until no helper runs the job; no helper begins it afterwards. Says whether helpers were
  /// called.
  bool close();

 private:
  void run(const std::stop_token& stop);
  bool join_job();

  static constexpr std::uint32_t kOpen = 1u << 31;

  abi::Word thread_count_;
  const std::function<void()>* job_ = nullptr;
  bool is_called_ = false;
  std::atomic<std::uint32_t> gate_{0};   // kOpen, and the helpers inside
  std::atomic<std::uint32_t> calls_{0};  // helpers sleep on it
  std::vector<Thread> threads_;
};

}  // namespace everkernel::backend::cpu
