// Times of some items, and what follows from them for the others.
#include "live/publish_times.hpp"

#include <ctime>

namespace everkernel::live {
namespace {

// Milliseconds. The clock of the last tick takes a quarter of the time of an exact one.
std::uint32_t coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint32_t>(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

}  // namespace

void PublishTimes::stamp_some(LongWord first, LongWord end) {
  const std::uint32_t now = coarse_now();
  for (LongWord ticket = next_stamped(first); ticket < end; ticket += kStampInterval) {
    coarse(ticket).store(now, std::memory_order_relaxed);
  }
  LongWord sampled = backend::next_sample(first);
  if (sampled >= end) return;
  const std::int64_t exact = backend::steady_now();
  for (; sampled < end; sampled += backend::kSampleInterval) {
    exact_[backend::sample_place(sampled, capacity_)].store(exact, std::memory_order_relaxed);
  }
}

// Of a ticket without a time, the next one that has a time was published later.
std::optional<std::chrono::milliseconds> PublishTimes::least_age(LongWord ticket,
                                                                 LongWord end) const {
  const LongWord stamped = next_stamped(ticket);
  if (stamped >= end) return std::nullopt;
  return std::chrono::milliseconds(coarse_now() - coarse(stamped).load(std::memory_order_relaxed));
}

// Items that were published together and end without a time of their own have the same time.
void PublishTimes::count(LongWord begin, LongWord end) {
  LongWord ticket = backend::next_sample(begin);
  if (ticket >= end) return;
  std::int64_t now = 0;  // not read yet
  std::int64_t time = 0;
  std::uint64_t times = 0;
  for (; ticket < end; ticket += backend::kSampleInterval) {
    const std::size_t place = backend::sample_place(ticket, capacity_);
    const std::int64_t published = exact_[place].load(std::memory_order_relaxed);
    std::int64_t ended = queue_ != nullptr ? queue_->sampled_end(place) : 0;
    // A kernel elsewhere does not say when: the item has ended by now.
    if (ended < published) {
      if (now == 0) now = backend::steady_now();
      ended = now;
    }
    if (times != 0 && ended - published != time) {
      histogram_.record(std::chrono::nanoseconds(time), times);
      times = 0;
    }
    time = ended - published;
    ++times;
  }
  histogram_.record(std::chrono::nanoseconds(time), times);
}

}  // namespace everkernel::live
