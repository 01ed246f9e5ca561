// Sleeping and waking without lost wake-ups: docs/decisions/0007 argues it, tests/model checks it.
#include "everkernel/backend/detail/graph_kernel.hpp"

#include <algorithm>

#include "backend/futex.hpp"
#include "everkernel/base/assert.hpp"

namespace everkernel::backend {

std::optional<TicketDesk::Reservation> TicketDesk::reserve_at(std::uint64_t first,
                                                              std::uint64_t count,
                                                              std::uint64_t limit) {
  std::uint64_t word = word_.load(std::memory_order_relaxed);
  while (word >> kSleeperBits == first && first + count <= limit && (word & kClosed) == 0) {
    const std::uint64_t woken = std::min(word & kSleeperMask, count);
    if (word_.compare_exchange_weak(word, word + (count << kSleeperBits) - woken,
                                    std::memory_order_acq_rel, std::memory_order_relaxed)) {
      return Reservation{first, static_cast<Word>(woken)};
    }
  }
  return std::nullopt;
}

void TicketDesk::give_permits(Word sleepers) {
  permits_.fetch_add(sleepers, std::memory_order_release);
  futex::wake(permits_, static_cast<int>(sleepers));
}

void TicketDesk::wake_all() {
  const std::uint64_t word = word_.fetch_and(~kSleeperMask, std::memory_order_acq_rel);
  wake(static_cast<Word>(word & kSleeperMask));
}

void TicketDesk::close() {
  word_.fetch_or(kClosed, std::memory_order_acq_rel);
  wake_all();
}

void TicketDesk::reopen() {
  word_.fetch_and(~kClosed, std::memory_order_acq_rel);
}

bool TicketDesk::fall_asleep(std::uint64_t next_unclaimed) {
  std::uint64_t word = word_.load(std::memory_order_acquire);
  do {
    const bool is_claimed = (word >> kSleeperBits) == next_unclaimed;
    const bool has_room = (word & kSleeperMask) != kSleeperMask;
    if (!is_claimed || (word & kClosed) != 0 || !has_room) return false;
  } while (!word_.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire));
  return true;
}

void TicketDesk::sleep(std::chrono::nanoseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    std::uint32_t permits = permits_.load(std::memory_order_acquire);
    while (permits != 0) {
      if (permits_.compare_exchange_weak(permits, permits - 1, std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
        return;
      }
    }
    const auto left = deadline - Clock::now();
    if (left <= Clock::duration::zero()) break;
    futex::wait(permits_, 0, left);
  }
  if (!leave_before_woken()) take_permit();
}

// A sleeper whose timeout ends takes itself off the count, unless a publisher already did.
bool TicketDesk::leave_before_woken() {
  std::uint64_t word = word_.load(std::memory_order_relaxed);
  while ((word & kSleeperMask) != 0) {
    if (word_.compare_exchange_weak(word, word - 1, std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

// The publisher that took the sleeper off the count is about to give a permit.
void TicketDesk::take_permit() {
  for (;;) {
    std::uint32_t permits = permits_.load(std::memory_order_acquire);
    while (permits != 0) {
      if (permits_.compare_exchange_weak(permits, permits - 1, std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
        return;
      }
    }
    futex::wait(permits_, 0, std::chrono::milliseconds(100));
  }
}

CompletionBell::CompletionBell(Word worker_count)
    : worker_count_(worker_count), words_(std::make_unique<WorkerWord[]>(worker_count)) {}

std::uint32_t CompletionBell::prepare() {
  const std::uint32_t rings = rings_.load(std::memory_order_acquire);
  for (Word i = 0; i < worker_count_; ++i) words_[i].flag.fetch_or(1, std::memory_order_acq_rel);
  return rings;
}

void CompletionBell::sleep(std::uint32_t prepared, Clock::time_point deadline) {
  if (rings_.load(std::memory_order_acquire) != prepared) return;
  const auto now = Clock::now();
  if (now < deadline) futex::wait(rings_, prepared, deadline - now);
}

void CompletionBell::wake() {
  rings_.fetch_add(1, std::memory_order_acq_rel);
  futex::wake(rings_);
}

}  // namespace everkernel::backend
