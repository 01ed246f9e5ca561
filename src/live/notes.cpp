// Notes outcomes in the order of tickets, and answers for tickets that were noted.
#include "live/notes.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

namespace everkernel::live {
namespace {

using abi::OutcomeCode;

// Most outcomes other than DONE that are kept; before one more is noted, all of them are dropped.
constexpr std::size_t kMostKept = std::size_t{1} << 20;
// How long a fault word may be on the way. On a CPU it is there before the outcome.
constexpr auto kFaultPatience = std::chrono::milliseconds(50);
// The code of a FAULT whose word never arrives: no item ends with it, and 0 would be DONE.
constexpr Word kLostCode = abi::kFirstUserFault - 1;

// The code of a ticket that is FAULT. Outcome and code of an item on a GPU may arrive in any order.
Word fault_code_of(const protocol::QueueProducer& queue, LongWord ticket) {
  if (const auto code = queue.fault_code(ticket)) return *code;
  const auto deadline = backend::Clock::now() + kFaultPatience;
  while (backend::Clock::now() < deadline) {
    if (const auto code = queue.fault_code(ticket)) return *code;
  }
  return kLostCode;
}

}  // namespace

Notes::Notes(const protocol::QueueProducer& queue, PublishTimes& times)
    : queue_(queue), times_(times), noted_(queue.first_ticket()) {
  if (queue.has_results()) {
    results_ = std::make_unique<protocol::ItemResults[]>(queue.capacity());
  }
}

void Notes::advance(LongWord end) {
  const std::scoped_lock held(mutex_);
  const LongWord begin = noted_.load(std::memory_order_relaxed);
  LongWord ticket = begin;
  while (ticket < end) {
    if (results_ == nullptr) {
      ticket += queue_.count_done(ticket, end - ticket);
      if (ticket == end) break;
    }
    if (!note(ticket)) break;
    ++ticket;
  }
  times_.count(begin, ticket);
  // Release: a producer that reserves these places next sees that their outcomes were read.
  noted_.store(ticket, std::memory_order_release);
}

std::uint64_t Notes::finish(LongWord end) {
  const std::scoped_lock held(mutex_);
  for (LongWord ticket = noted_.load(std::memory_order_relaxed); ticket < end; ++ticket) {
    if (!note(ticket)) keep(ticket, {.was_cancelled = true});
    noted_.store(ticket + 1, std::memory_order_release);
  }
  return cancelled_;
}

// Notes one ticket if it has ended; says whether it has.
bool Notes::note(LongWord ticket) {
  switch (queue_.outcome(ticket)) {
    case OutcomeCode::none:
      return false;
    case OutcomeCode::done:
      if (results_ != nullptr) keep_results(ticket);
      return true;
    case OutcomeCode::cancelled:
      keep(ticket, {.was_cancelled = true});
      return true;
    case OutcomeCode::fault:
      break;
  }
  keep(ticket, {.fault_code = fault_code_of(queue_, ticket)});
  return true;
}

void Notes::keep_results(LongWord ticket) {
  const protocol::ItemResults results = queue_.results(ticket);
  results_[queue_.place_of(ticket)] = results;
  tell_followed(ticket, {.has_ended = true, .completion = {.results = results}});
}

void Notes::keep(LongWord ticket, const Kept& outcome) {
  if (outcome.was_cancelled) {
    ++cancelled_;
    if (ticket < first_cancelled_.load(std::memory_order_relaxed)) {
      first_cancelled_.store(ticket, std::memory_order_release);
    }
  }
  tell_followed(ticket, {.has_ended = true,
                         .was_cancelled = outcome.was_cancelled,
                         .completion = {.fault_code = outcome.fault_code}});
  const auto forget = [&](LongWord before) {
    forgotten_ += kept_.size();
    forgotten_before_ = before;
    kept_.clear();
  };
  if (kept_.size() >= kMostKept) forget(ticket);
  try {
    kept_.emplace(ticket, outcome);
  } catch (const std::bad_alloc&) {  // the place is freed all the same: the queue must go on
    forget(ticket + 1);
    ++forgotten_;
  }
}

Notes::Outcome Notes::find(LongWord ticket) {
  if (ticket < noted()) return find_noted(ticket);
  const OutcomeCode code = queue_.outcome(ticket);
  Outcome outcome{.has_ended = code != OutcomeCode::none,
                  .was_cancelled = code == OutcomeCode::cancelled};
  if (code == OutcomeCode::fault) outcome.completion.fault_code = fault_code_of(queue_, ticket);
  if (code == OutcomeCode::done && results_ != nullptr) {
    outcome.completion.results = queue_.results(ticket);
  }
  // If the ticket was noted meanwhile, its place may have been used again: the note counts.
  return ticket < noted() ? find_noted(ticket) : outcome;
}

Notes::Outcome Notes::find_noted(LongWord ticket) {
  const std::scoped_lock held(mutex_);
  const auto followed = followed_.find(ticket);
  return followed != followed_.end() ? followed->second.outcome : recall(ticket);
}

// How a ticket that was noted ended, as far as that is kept for tickets without followers.
Notes::Outcome Notes::recall(LongWord ticket) const {
  Outcome outcome{.has_ended = true};
  if (const auto found = kept_.find(ticket); found != kept_.end()) {
    outcome.was_cancelled = found->second.was_cancelled;
    outcome.completion.fault_code = found->second.fault_code;
  } else if (ticket < forgotten_before_) {
    outcome.is_forgotten = true;
  } else if (results_ != nullptr) {
    const bool is_kept = noted_.load(std::memory_order_relaxed) - ticket <= queue_.capacity();
    outcome.is_forgotten = !is_kept;
    if (is_kept) outcome.completion.results = results_[queue_.place_of(ticket)];
  }
  return outcome;
}

bool Notes::follow(LongWord ticket) {
  const std::scoped_lock held(mutex_);
  const auto [at, is_first] = followed_.try_emplace(ticket);
  if (is_first && ticket < noted_.load(std::memory_order_relaxed)) {
    at->second.outcome = recall(ticket);
    if (at->second.outcome.is_forgotten) {
      followed_.erase(at);
      return false;
    }
  }
  ++at->second.followers;
  return true;
}

void Notes::unfollow(LongWord ticket) {
  const std::scoped_lock held(mutex_);
  const auto at = followed_.find(ticket);
  if (at != followed_.end() && --at->second.followers == 0) followed_.erase(at);
}

// Needs no memory: the place was made by follow().
void Notes::tell_followed(LongWord ticket, const Outcome& outcome) {
  if (followed_.empty()) return;
  if (const auto at = followed_.find(ticket); at != followed_.end()) at->second.outcome = outcome;
}

std::uint64_t Notes::forgotten() const {
  const std::scoped_lock held(mutex_);
  return forgotten_;
}

}  // namespace everkernel::live
