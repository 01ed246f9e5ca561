// Threads that sleep until a dispatch calls for help.
#include "backend/cpu/helpers.hpp"

#include <new>

#include "backend/cpu/float_guard.hpp"
#include "backend/futex.hpp"
#include "base/spin.hpp"

namespace everkernel::backend::cpu {
namespace {

constexpr int kSpinsBeforeSleep = 2000;
constexpr auto kLongSleep = std::chrono::hours(1);

}  // namespace

Helpers::~Helpers() {
  for (Thread& thread : threads_) thread.request_stop();
  calls_.fetch_add(1, std::memory_order_release);
  futex::wake(calls_);
}

void Helpers::open(const std::function<void()>& job) {
  job_ = &job;
  is_called_ = false;
  gate_.store(kOpen, std::memory_order_release);
}

void Helpers::call() {
  if (is_called_) return;
  is_called_ = true;
  try {
    while (threads_.size() < thread_count_) {
      auto thread = Thread::start([this](const std::stop_token& stop) { run(stop); });
      if (!thread) break;  // the caller does the work of the missing helpers
      threads_.push_back(std::move(*thread));
    }
  } catch (const std::bad_alloc&) {  // no memory even for the error; items run already
  }
  calls_.fetch_add(1, std::memory_order_release);
  futex::wake(calls_);
}

bool Helpers::close() {
  gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spins = 0;; ++spins) {
    const std::uint32_t inside = gate_.load(std::memory_order_acquire);
    if (inside == 0) break;
    if (spins < kSpinsBeforeSleep) {
      spin_pause();
    } else {
      futex::wait(gate_, inside, kLongSleep);
    }
  }
  job_ = nullptr;
  return is_called_;
}

bool Helpers::join_job() {
  std::uint32_t gate = gate_.load(std::memory_order_acquire);
  while ((gate & kOpen) != 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

void Helpers::run(const std::stop_token& stop) {
  const FloatGuard floats;
  std::uint32_t seen = 0;  // calls_ is at least 1 when a thread starts, so it joins the job at once
  while (!stop.stop_requested()) {
    const std::uint32_t calls = calls_.load(std::memory_order_acquire);
    if (calls == seen) {
      futex::wait(calls_, seen, kLongSleep);
      continue;
    }
    seen = calls;
    if (!join_job()) continue;
    (*job_)();
    if (gate_.fetch_sub(1, std::memory_order_acq_rel) == 1) futex::wake(gate_);
  }
}

}  // namespace everkernel::backend::cpu
