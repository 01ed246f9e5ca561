// Runs a random session and compares what it left with the model.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "everkernel/runtime/megakernel.hpp"
#include "session_plan.hpp"
#include "session_records.hpp"

namespace everkernel::test {

/// A moving buffer that was there for a while. Times are ticks; of what did not happen, the last.
struct Incarnation {
  Word number = 0;
  std::uint64_t create_begin = 0, create_end = 0, write_end = 0;
  std::uint64_t drop_begin = ~std::uint64_t{0}, drop_end = ~std::uint64_t{0};
};

/// The closing of a queue, or the end of the session for all queues that are still open.
struct Closing {
  std::atomic<std::uint64_t> begin = ~std::uint64_t{0};
  std::uint64_t end = ~std::uint64_t{0};
  StopMode mode = StopMode::drain;
  bool is_short = false;  ///< the timeout may pass
  std::optional<std::uint64_t> cancelled = {};
};

/// How many things of each kind happened.
struct SessionTally {
  std::size_t sessions = 0, items = 0, done = 0, faulted = 0, cancelled = 0, forgotten = 0;
  std::size_t aborted = 0, begun_and_cancelled = 0, callbacks = 0, holds = 0, refused = 0;
  std::size_t given = 0, children = 0, meddled = 0;
};

/// What producers, meddler and the comparison share.
struct SessionWorld {
  SessionWorld(Megakernel& kernel, const SessionProgram& program, const SessionPlan& plan);

  const SessionProgram& program;
  const SessionPlan& plan;
  Megakernel& kernel;
  std::vector<ItemModel> models = {};
  SessionRecords records;
  std::vector<DataBuffer> buffers = {};  ///< as plan.buffers
  std::optional<Session> session = {};
  std::vector<std::optional<Queue>> queues = {};  ///< as plan.queues
  std::vector<int> descriptors = {};              ///< of queues that are given away
  std::vector<Closing> closings;                  ///< by queue
  Closing ending = {};                            ///< of the session
  std::optional<StopReport> report = {};
  std::vector<Incarnation> incarnations = {};
  std::array<Word, abi::kTenantCount> largest_quota = {};
  std::atomic<std::size_t> refused = 0, holds = 0;

  /// The plan's word of a buffer.
  DataBuffer& buffer(Word handle);
  /// The queue, or the session, began to end: calls may fail.
  bool is_ending(Word queue) const;
  /// The words of the trace that count the effects of an item.
  std::vector<Word> traces_of(const PlannedItem& item) const;
  /// Effects that the trace counts for an item.
  std::size_t traced_effects(Word item);
  /// When, at the earliest, items of that queue may have been cancelled.
  const Closing& closing_of(Word queue) const;
};

/// Runs the session of a plan; gives the first difference from the model, empty if there is none.
/// A session that hangs ends the process with a message and the command that repeats it.
std::string run_session(Megakernel& kernel, const SessionProgram& program, const SessionPlan& plan,
                        const std::string& replay, SessionTally& tally);

/// Compares a session that has ended with its model.
void check_session(SessionWorld& world, SessionTally& tally);

}  // namespace everkernel::test
