// Everything that happens in a random session, drawn before it starts: queues, the items of every
// producer, and what a meddler does meanwhile. Only the timing is left to the machine.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "everkernel/runtime/session.hpp"
#include "session_program.hpp"

namespace everkernel::test {

/// Who publishes into a queue, and through what.
enum class QueueKind {
  opened,    ///< by the session, for producers of this process
  own,       ///< the session's own queue of that tenant and priority
  attached,  ///< given away, and received by a thread of this process
  child,     ///< given away to a child process
};

/// A queue of a session.
struct QueuePlan {
  QueueKind kind = QueueKind::opened;
  QueueOptions options = {};
  bool is_shared = false;  ///< several producers publish into it
  bool may_hold = false;   ///< nobody else touches its tenant
};

/// How items are published.
enum class Way { single, items, batch, packed };

/// What a producer does with items that it has published.
enum class Follow {
  nothing,   ///< until the end
  last,      ///< waits for the last
  each,      ///< waits for each
  all,       ///< waits for everything in the queue
  poll,      ///< polls each until it has ended
  callback,  ///< is called back for each
  hold,      ///< published while the tenant is off: nothing may run until it is on again
};

/// One call that publishes.
struct Publication {
  Way way = Way::single;
  Follow follow = Follow::nothing;
  Word queue = 0;
  Word first_item = 0;
  Word item_count = 1;    ///< with the fence of a batch
  bool waits = true;      ///< for room; else it tries without first
  bool is_read = false;   ///< the trace of what has ended is read at once
  bool by_quota = false;  ///< of a hold: by a quota of 0 instead of the mask
};

/// What the meddler does.
enum class Meddling {
  mask,      ///< switches a tenant off and on
  quota,     ///< changes a quota
  snapshot,  ///< takes a snapshot
  counters,  ///< reads totals, observables and the log
  buffer,    ///< makes, replaces or gives up the moving buffer
  queue,     ///< opens a queue, publishes into it, and closes it
  close,     ///< closes the queue of a producer
  park,      ///< parks the session, and looks or moves a buffer meanwhile
  replace,   ///< replaces the handlers by the same ones
  stop,      ///< stops or drops the session
};

/// One action of the meddler.
struct MeddlerAction {
  Meddling kind = Meddling::snapshot;
  Word pause_us = 0;  ///< before it
  Word number = 0;    ///< tenant, or queue
  Word value = 0;     ///< quota, or how long a tenant is off or parking lasts in microseconds
  StopMode mode = StopMode::drain;
  std::chrono::milliseconds timeout = {};  ///< of closing, parking, replacing or stopping
  std::optional<Publication> items = {};   ///< of a queue of its own
};

/// How a session ends.
enum class SessionEnd { quiet, stopped, dropped };

/// A session.
struct SessionPlan {
  std::vector<QueuePlan> queues = {};  ///< those of the meddler come last
  std::vector<PlannedItem> items = {};
  std::vector<Word> queue_of_item = {};
  std::vector<std::vector<Publication>> producers = {};
  std::vector<MeddlerAction> meddler = {};
  std::vector<SessionBuffer> buffers = {};
  Word trace_count = 0;  ///< words of the trace buffer
  Word session_capacity = 64;
  SessionEnd end = SessionEnd::quiet;
  StopMode end_mode = StopMode::drain;
};

/// A session that follows from the random numbers.
SessionPlan generate_session(Random& random, const SessionProgram& program, Word worker_count);

}  // namespace everkernel::test
