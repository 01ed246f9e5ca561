// The peers of sessions: a minimal ring, a minimal round trip between two threads, a simple thread
// pool, and oneTBB.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace everkernel::bench {

/// The floor of throughput: a ring of 64-byte slots with one publisher, one worker, a head and a
/// tail.
class BareRing {
 public:
  BareRing();
  ~BareRing();
  /// Sends that many slots in batches and waits until the last was read.
  std::uint64_t run(std::size_t items, std::size_t batch);

 private:
  struct alignas(64) Line {
    std::uint32_t words[16];
  };
  static constexpr std::size_t kSlots = 1024;
  std::vector<Line> slots_;
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint64_t> sum_{0};
  std::atomic<bool> must_stop_{false};
  std::thread worker_;
};

/// The floor of a round trip: two threads that pass one word to each other and back.
class PingPong {
 public:
  PingPong();
  ~PingPong();
  /// One round trip.
  void run();

 private:
  alignas(64) std::atomic<std::uint64_t> ping_{0};
  alignas(64) std::atomic<std::uint64_t> pong_{0};
  std::atomic<bool> must_stop_{false};
  std::thread worker_;
};

/// A thread pool with a queue of functions under a mutex.
class MutexPool {
 public:
  explicit MutexPool(unsigned thread_count);
  ~MutexPool();
  /// Runs that many functions and waits for them.
  std::uint64_t run(std::size_t items);

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable drained_;
  std::deque<std::function<void()>> queue_;
  std::size_t pending_ = 0;
  bool must_stop_ = false;
  std::atomic<std::uint64_t> runs_{0};
  std::vector<std::thread> threads_;
};

/// Whether the benchmark was built with oneTBB.
bool has_tbb();
/// Empty tasks through a task_group.
std::uint64_t run_task_group(std::size_t items);
/// Empty iterations of a parallel_for with grain 1, so that each is a task.
std::uint64_t run_parallel_for(std::size_t items);

}  // namespace everkernel::bench
