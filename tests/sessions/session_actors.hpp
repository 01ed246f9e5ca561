// The threads of a random session: producers and the meddler.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "session_trial.hpp"
#include "support/sanitized.hpp"

namespace everkernel::test {

/// The time after which a call that waits has failed.
inline constexpr std::chrono::seconds kSessionPatience(kIsSanitized ? 40 : 20);

/// Publishes and follows items; in this process or in a child.
class Producer {
 public:
  /// `index` names its thread.
  Producer(SessionWorld& world, std::size_t index, bool is_child = false)
      : world_(world), index_(index), is_child_(is_child) {}

  /// Does what the plan says; receives queues that were given away first.
  void run(const std::vector<Publication>& calls);
  /// One call.
  void run(const Publication& call);
  /// Asks how an item ended that nobody has asked for, waiting if need be.
  void resolve(Word item);

 private:
  Queue* queue(Word index);
  void attach(const std::vector<Publication>& calls);
  void resolve_attached();
  Result<TicketRange> try_publish(const Publication& call, std::chrono::nanoseconds timeout);
  bool publish(const Publication& call);
  void follow(const Publication& call);
  void follow_all(const Publication& call);
  void call_back(Word item);
  void poll(Word item);
  void hold(const Publication& call);
  bool switch_off(const Publication& call, bool is_off);
  Result<Completion> wait(Word item, std::chrono::nanoseconds timeout);
  void note_end(Word item, const Result<Completion>& end);
  void check_trace(Word item);
  void check_covered(const Publication& batch);
  void report(const char* what, Word item, const std::string& message);

  SessionWorld& world_;
  const std::size_t index_;
  const bool is_child_;
  bool reads_trace_ = false;
  std::vector<std::optional<Queue>> attached_ = {};  // by queue
  std::vector<bool> is_drained_ = {};                // by queue: all of its items have ended
};

/// Changes masks, quotas, buffers and queues while items run, looks, and ends the session.
class Meddler {
 public:
  /// `index` names its thread.
  Meddler(SessionWorld& world, std::size_t index) : world_(world), index_(index) {}

  /// Does what the plan says, and leaves every tenant on.
  void run();

 private:
  void act(const MeddlerAction& action);
  void look();
  void look_at_totals();
  void check(const SessionCounters& now);
  void move_buffer(bool only_drops);
  void use_queue(const MeddlerAction& action);
  void close(const MeddlerAction& action);
  void park(const MeddlerAction& action);
  void replace(const MeddlerAction& action);
  void stop(const MeddlerAction& action);
  void expect(bool is_true, const char* what);

  SessionWorld& world_;
  const std::size_t index_;
  std::optional<DataBuffer> moving_ = {};
  SessionCounters before_ = {};
  SessionSnapshot snapshot_ = {};
};

}  // namespace everkernel::test
