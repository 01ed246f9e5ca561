// Looks at marks and ends items.
#include "backend/cpu/running_mark.hpp"

#include <thread>

#include "base/spin.hpp"

namespace everkernel::backend::cpu {
namespace {

// Pauses in which the thread that ends an item sets the abort word, unless it lost its core.
constexpr int kSpins = 64;

}  // namespace

std::optional<RunningMark::Sight> RunningMark::look() const {
  for (;;) {
    const std::uint64_t before = state_.load(std::memory_order_acquire);
    if (before % kStates == kIdle) return std::nullopt;
    Sight sight{.number = before / kStates,
                .queue = queue_.load(std::memory_order_acquire),
                .ticket = ticket_.load(std::memory_order_acquire),
                .opcode = opcode_.load(std::memory_order_acquire),
                .timeout = std::chrono::nanoseconds(timeout_ns_.load(std::memory_order_acquire)),
                .since = Clock::time_point(
                    std::chrono::nanoseconds(since_.load(std::memory_order_acquire)))};
    const std::uint64_t after = state_.load(std::memory_order_relaxed);
    if (after / kStates != sight.number) continue;  // another run began
    if (after % kStates == kIdle) return std::nullopt;
    sight.was_told_to_end = after % kStates == kMustEnd;
    return sight;
  }
}

void RunningMark::tell_to_end(std::uint64_t number) {
  std::uint64_t expected = number * kStates + kRuns;
  if (!state_.compare_exchange_strong(expected, number * kStates + kMustEnd,
                                      std::memory_order_acq_rel, std::memory_order_relaxed)) {
    return;
  }
  std::atomic_ref(abort_).store(1, std::memory_order_relaxed);
}

void RunningMark::clear_abort() {
  std::atomic_ref<Word> abort(abort_);
  for (int spins = 0; abort.load(std::memory_order_relaxed) == 0; ++spins) {
    if (spins < kSpins) {
      spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
  abort.store(0, std::memory_order_relaxed);
}

}  // namespace everkernel::backend::cpu
