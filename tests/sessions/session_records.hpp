// What a random session has seen of its items, in memory that a child process shares.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>

#include "everkernel/live/ids.hpp"

namespace everkernel::test {

/// What is known of an item.
enum class ItemState : std::uint32_t {
  unpublished,  ///< no call accepted it
  accepted,     ///< it has a ticket
  ended,        ///< DONE or FAULT
  forgotten,    ///< it ended as DONE, and its results are no longer kept
  cancelled,    ///< it was reported as cancelled
};

/// An item, as the thread that published it sees it. Times are ticks of the trial's clock.
struct ItemRecord {
  ItemState state = ItemState::unpublished;
  bool was_unfinished = false;  ///< a fence behind it ended before all its effects were seen
  Ticket ticket = {};
  std::uint64_t publish_begin = 0, publish_end = 0;
  std::uint64_t seen_end = 0;  ///< when its end was known
  Completion completion = {};
  std::atomic<std::uint32_t> calls = 0;  ///< of its callback
  std::uint32_t expected_calls = 0;
  bool call_was_cancelled = false;
  Completion call_completion = {};
};

/// Everything that a child process writes.
class SessionRecords {
 public:
  /// Records of that many items, or none if there is no memory.
  explicit SessionRecords(std::size_t item_count) : item_count_(item_count) {
    size_ = sizeof(Header) + item_count * sizeof(ItemRecord);
    void* const memory =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    header_ = new (memory) Header;
    items_ = new (header_ + 1) ItemRecord[item_count];
  }
  SessionRecords(const SessionRecords&) = delete;
  SessionRecords& operator=(const SessionRecords&) = delete;
  ~SessionRecords() { ::munmap(header_, size_); }

  ItemRecord& operator[](std::size_t item) { return items_[item]; }
  std::span<ItemRecord> all() { return {items_, item_count_}; }

  /// The next tick: of two calls, the one that began later has the later tick.
  std::uint64_t tick() { return header_->clock.fetch_add(1, std::memory_order_seq_cst); }

  /// Notes what went wrong; only the first problem is kept.
  void report(std::string_view problem) {
    if (header_->has_problem.exchange(1, std::memory_order_acq_rel) != 0) return;
    std::snprintf(header_->problem.data(), header_->problem.size(), "%.*s",
                  static_cast<int>(problem.size()), problem.data());
    header_->is_written.store(1, std::memory_order_release);
  }
  bool has_problem() const { return header_->has_problem.load(std::memory_order_acquire) != 0; }
  /// The first problem, empty if there was none.
  std::string_view problem() const {
    if (!has_problem()) return {};
    while (header_->is_written.load(std::memory_order_acquire) == 0) {
    }
    return header_->problem.data();
  }

  /// The longest row of threads whose step the watchdog shows.
  static constexpr std::size_t kThreads = 8;
  /// Says what a thread does now, for the watchdog.
  void note_step(std::size_t thread, const char* step, std::uint64_t number) {
    header_->steps[thread].name.store(step, std::memory_order_relaxed);
    header_->steps[thread].number.store(number, std::memory_order_relaxed);
  }
  /// Prints what every thread does.
  void print_steps() const {
    for (std::size_t i = 0; i < kThreads; ++i) {
      const char* const name = header_->steps[i].name.load(std::memory_order_relaxed);
      if (name == nullptr) continue;
      std::fprintf(stderr, "  thread %zu: %s %llu\n", i, name,
                   static_cast<unsigned long long>(
                       header_->steps[i].number.load(std::memory_order_relaxed)));
    }
  }

 private:
  struct Step {
    std::atomic<const char*> name = nullptr;  // of a string literal
    std::atomic<std::uint64_t> number = 0;
  };
  struct Header {
    std::atomic<std::uint64_t> clock = 1;
    std::atomic<std::uint32_t> has_problem = 0, is_written = 0;
    std::array<char, 2000> problem = {};
    std::array<Step, kThreads> steps = {};
  };
  std::size_t item_count_;
  std::size_t size_ = 0;
  Header* header_ = nullptr;
  ItemRecord* items_ = nullptr;
};

}  // namespace everkernel::test
