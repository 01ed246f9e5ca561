// Fences of two costs: a store and a load on two threads never both miss.
#include "everkernel/base/detail/fence.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace everkernel {
namespace {

// The frequent side stores and looks behind a light fence, the rare side behind a heavy one.
TEST(Fence, two_threads_never_both_miss_the_store_of_the_other) {
  fence::prepare();
  struct alignas(64) Word {
    std::atomic<int> value{0};
  };
  Word frequent, rare, round;
  int frequent_saw = 0;
  std::atomic<bool> is_over{false};
  constexpr int kRounds = 2'000;
  std::jthread other([&] {
    for (int i = 1; i <= kRounds; ++i) {
      while (round.value.load(std::memory_order_acquire) != 2 * i - 1) {
        if (is_over) return;
      }
      frequent.value.store(i, std::memory_order_relaxed);
      fence::light();
      frequent_saw = rare.value.load(std::memory_order_relaxed);
      round.value.store(2 * i, std::memory_order_release);
    }
  });
  int missed = 0;
  for (int i = 1; i <= kRounds; ++i) {
    round.value.store(2 * i - 1, std::memory_order_release);
    rare.value.store(i, std::memory_order_relaxed);
    fence::heavy();
    const int rare_saw = frequent.value.load(std::memory_order_relaxed);
    while (round.value.load(std::memory_order_acquire) != 2 * i) std::this_thread::yield();
    missed += rare_saw != i && frequent_saw != i ? 1 : 0;
  }
  is_over = true;
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace everkernel
