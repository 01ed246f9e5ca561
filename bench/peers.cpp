#include "peers.hpp"

#include "base/spin.hpp"

#if defined(EVERKERNEL_HAS_TBB)
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_group.h>
#endif

namespace everkernel::bench {

BareRing::BareRing() : slots_(kSlots) {
  worker_ = std::thread([this] {
    std::uint64_t head = 0;
    std::uint64_t sum = 0;
    while (!must_stop_.load(std::memory_order_relaxed)) {
      const std::uint64_t tail = tail_.load(std::memory_order_acquire);
      if (head == tail) {
        spin_pause();
        continue;
      }
      for (; head != tail; ++head) sum += slots_[head % kSlots].words[0];
      sum_.store(sum, std::memory_order_relaxed);
      head_.store(head, std::memory_order_release);
    }
  });
}

BareRing::~BareRing() {
  must_stop_.store(true, std::memory_order_relaxed);
  worker_.join();
}

std::uint64_t BareRing::run(std::size_t items, std::size_t batch) {
  std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  const std::uint64_t end = tail + items;
  while (tail < end) {
    const std::uint64_t stop = std::min<std::uint64_t>(tail + batch, end);
    while (stop - head_.load(std::memory_order_acquire) > kSlots) spin_pause();
    for (; tail < stop; ++tail) {
      Line& line = slots_[tail % kSlots];
      for (std::uint32_t i = 0; i < 16; ++i) line.words[i] = static_cast<std::uint32_t>(tail) + i;
    }
    tail_.store(tail, std::memory_order_release);
  }
  while (head_.load(std::memory_order_acquire) != end) spin_pause();
  return sum_.load(std::memory_order_relaxed);
}

PingPong::PingPong() {
  worker_ = std::thread([this] {
    std::uint64_t seen = 0;
    while (!must_stop_.load(std::memory_order_relaxed)) {
      const std::uint64_t ping = ping_.load(std::memory_order_acquire);
      if (ping == seen) {
        spin_pause();
        continue;
      }
      seen = ping;
      pong_.store(ping, std::memory_order_release);
    }
  });
}

PingPong::~PingPong() {
  must_stop_.store(true, std::memory_order_relaxed);
  worker_.join();
}

void PingPong::run() {
  const std::uint64_t next = ping_.load(std::memory_order_relaxed) + 1;
  ping_.store(next, std::memory_order_release);
  while (pong_.load(std::memory_order_acquire) != next) spin_pause();
}

MutexPool::MutexPool(unsigned thread_count) {
  for (unsigned i = 0; i < thread_count; ++i) threads_.emplace_back([this] { work(); });
}

MutexPool::~MutexPool() {
  {
    const std::scoped_lock held(mutex_);
    must_stop_ = true;
  }
  filled_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void MutexPool::work() {
  std::unique_lock held(mutex_);
  for (;;) {
    filled_.wait(held, [this] { return must_stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto task = std::move(queue_.front());
    queue_.pop_front();
    held.unlock();
    task();
    held.lock();
    if (--pending_ == 0) drained_.notify_all();
  }
}

std::uint64_t MutexPool::run(std::size_t items) {
  for (std::size_t i = 0; i < items; ++i) {
    {
      const std::scoped_lock held(mutex_);
      queue_.emplace_back([this] { runs_.fetch_add(1, std::memory_order_relaxed); });
      ++pending_;
    }
    filled_.notify_one();
  }
  std::unique_lock held(mutex_);
  drained_.wait(held, [this] { return pending_ == 0; });
  return runs_.load(std::memory_order_relaxed);
}

#if defined(EVERKERNEL_HAS_TBB)

bool has_tbb() {
  return true;
}

std::uint64_t run_task_group(std::size_t items) {
  tbb::task_group group;
  for (std::size_t i = 0; i < items; ++i) group.run([] {});
  group.wait();
  return items;
}

std::uint64_t run_parallel_for(std::size_t items) {
  tbb::parallel_for(
      tbb::blocked_range<std::size_t>(0, items, 1),
      [](const tbb::blocked_range<std::size_t>& range) {
        // Empty, but the compiler must not remove the call.
        for (std::size_t i = range.begin(); i != range.end(); ++i)
          std::atomic_signal_fence(std::memory_order_relaxed);
      },
      tbb::simple_partitioner());
  return items;
}

#else

bool has_tbb() {
  return false;
}
std::uint64_t run_task_group(std::size_t) {
  return 0;
}
std::uint64_t run_parallel_for(std::size_t) {
  return 0;
}

#endif

}  // namespace everkernel::bench
