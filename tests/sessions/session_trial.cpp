#include "session_trial.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "everkernel/abi/opcode.hpp"
#include "session_actors.hpp"

namespace everkernel::test {
namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};

// Ends the process when a session takes longer than every call in it may: then one of them hangs.
class Watchdog {
 public:
  Watchdog(const SessionRecords& records, const std::string& replay)
      : thread_([this, &records, &replay] {
          std::unique_lock held(mutex_);
          if (ended_.wait_for(held, 4 * kSessionPatience, [this] { return is_over_; })) return;
          std::fprintf(stderr, "a random session hangs\n");
          records.print_steps();
          std::fprintf(stderr, "problem so far: %s\nreplay with\n  %s\n",
                       std::string(records.problem()).c_str(), replay.c_str());
          std::abort();
        }) {}
  ~Watchdog() {
    {
      const std::scoped_lock held(mutex_);
      is_over_ = true;
    }
    ended_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::jthread thread_;
};

// A child process that publishes. Killed if it outlives the trial.
class ChildProducer {
 public:
  ChildProducer(SessionWorld& world, std::size_t index, const std::vector<Publication>& calls) {
    std::fflush(nullptr);  // or the child writes the output of the parent again
    id_ = ::fork();
    if (id_ != 0) return;
    ::alarm(static_cast<unsigned>(4 * kSessionPatience.count()));
    Producer(world, index, true).run(calls);
    ::_exit(0);
  }
  ChildProducer(ChildProducer&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  ~ChildProducer() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  // Waits for its end; whether it ended by itself.
  bool wait() {
    int status = 0;
    if (id_ <= 0 || ::waitpid(std::exchange(id_, 0), &status, 0) < 0) return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t id_ = 0;
};

// ---- the world ----

bool make_buffers(SessionWorld& world) {
  for (const SessionBuffer& plan : world.plan.buffers) {
    auto made = world.kernel.create_buffer({.handle = plan.handle,
                                            .word_count = plan.words.size(),
                                            .access = plan.access,
                                            .owner = plan.owner});
    if (!made || !made->write(0, plan.words)) {
      world.records.report("create_buffer: " + (made ? "write" : made.error().message));
      return false;
    }
    world.buffers.push_back(std::move(*made));
  }
  return true;
}

bool open_queues(SessionWorld& world) {
  auto started = world.kernel.start({.observable_slots = session_observable::kCount,
                                     .debug_records = 64,
                                     .capacity = world.plan.session_capacity});
  if (!started) {
    world.records.report("start: " + started.error().message);
    return false;
  }
  world.session.emplace(std::move(*started));
  std::vector<bool> is_meddlers(world.plan.queues.size());
  for (const MeddlerAction& action : world.plan.meddler) {
    if (action.kind == Meddling::queue) is_meddlers[action.number] = true;
  }
  for (std::size_t i = 0; i < world.plan.queues.size(); ++i) {
    const QueuePlan& plan = world.plan.queues[i];
    if (plan.kind == QueueKind::own || is_meddlers[i]) continue;
    auto opened = world.session->open_queue(plan.options);
    if (!opened) {
      world.records.report("open_queue: " + opened.error().message);
      return false;
    }
    world.queues[i].emplace(std::move(*opened));
    if (plan.kind == QueueKind::opened) continue;
    const auto given = world.queues[i]->descriptor();
    if (!given) world.records.report("descriptor: " + given.error().message);
    world.descriptors[i] = given.value_or(-1);
  }
  return true;
}

// ---- running ----

bool is_child(const SessionWorld& world, const std::vector<Publication>& calls) {
  return std::ranges::any_of(calls, [&](const Publication& call) {
    return world.plan.queues[call.queue].kind == QueueKind::child;
  });
}

void run_actors(SessionWorld& world, SessionTally& tally) {
  std::vector<ChildProducer> children;
  const auto& producers = world.plan.producers;
  // Before there are threads of the trial.
  for (std::size_t i = 0; i < producers.size(); ++i) {
    if (is_child(world, producers[i])) children.emplace_back(world, i, producers[i]);
  }
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < producers.size(); ++i) {
      if (is_child(world, producers[i])) continue;
      threads.emplace_back([&world, i] { Producer(world, i).run(world.plan.producers[i]); });
    }
    Meddler(world, producers.size()).run();
  }
  for (ChildProducer& child : children) {
    world.records.note_step(producers.size(), "waits for a child process", 0);
    if (!child.wait()) world.records.report("a child process did not end by itself");
    ++tally.children;
  }
}

// Asks for the end of every item that nobody has asked for.
void resolve(SessionWorld& world) {
  Producer judge(world, world.plan.producers.size());
  for (Word item = 0; item < world.plan.items.size(); ++item) {
    if (world.records.has_problem()) return;
    if (world.session || world.queues[world.plan.queue_of_item[item]]) judge.resolve(item);
  }
}

void end_quietly(SessionWorld& world) {
  const std::size_t thread = world.plan.producers.size();
  resolve(world);
  if (world.records.has_problem()) return;
  world.records.note_step(thread, "waits for the session", 0);
  if (const auto all = world.session->wait_all(kSessionPatience); !all) {
    world.records.report("wait_all of the session: " + all.error().message);
  }
  world.records.note_step(thread, "drains the session", 0);
  world.ending.begin = world.records.tick();
  world.report = world.session->stop(StopMode::drain, kSessionPatience);
  world.ending.end = world.records.tick();
  world.ending.cancelled = world.report->cancelled;
}

}  // namespace

SessionWorld::SessionWorld(Megakernel& kernel_under_test, const SessionProgram& handlers,
                           const SessionPlan& what)
    : program(handlers),
      plan(what),
      kernel(kernel_under_test),
      records(what.items.size()),
      queues(what.queues.size()),
      descriptors(what.queues.size(), -1),
      closings(what.queues.size()) {
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const QueueOptions& options = plan.queues[plan.queue_of_item[i]].options;
    models.push_back(model_item(program, plan.buffers, plan.items[i],
                                {options.tenant.number, static_cast<Word>(options.priority)}));
  }
  largest_quota.fill(std::max<Word>(kernel.worker_count(), 2) - 1);
  largest_quota[0] = 1'000'000;
}

DataBuffer& SessionWorld::buffer(Word handle) {
  return *std::ranges::find(buffers, handle, &DataBuffer::handle);
}

bool SessionWorld::is_ending(Word queue) const {
  return ending.begin != kNever || closings[queue].begin != kNever;
}

const Closing& SessionWorld::closing_of(Word queue) const {
  return closings[queue].begin != kNever ? closings[queue] : ending;
}

std::vector<Word> SessionWorld::traces_of(const PlannedItem& item) const {
  std::vector<Word> traces;
  const auto add = [&](const PlannedItem& one) {
    if (program.find(one.opcode) != nullptr || one.opcode == program.look_opcode) {
      traces.push_back(one.args[2]);
    }
  };
  add(item);
  for (const PlannedItem& inner : item.inner) add(inner);
  return traces;
}

std::size_t SessionWorld::traced_effects(Word item) {
  std::size_t sum = 0;
  for (const Word trace : traces_of(plan.items[item])) {
    Word word = 0;
    if (!buffer(session_handle::kTrace).read(trace, std::span(&word, 1))) {
      records.report("the trace cannot be read");
    }
    sum += word;
  }
  return sum;
}

std::string run_session(Megakernel& kernel, const SessionProgram& program, const SessionPlan& plan,
                        const std::string& replay, SessionTally& tally) {
  SessionWorld world(kernel, program, plan);
  const Watchdog watchdog(world.records, replay);
  if (make_buffers(world) && open_queues(world) && !world.records.has_problem()) {
    run_actors(world, tally);
    if (plan.end == SessionEnd::quiet && !world.records.has_problem()) {
      end_quietly(world);
    } else {
      resolve(world);
    }
    if (!world.records.has_problem()) check_session(world, tally);
  }
  for (const int descriptor : world.descriptors) {
    if (descriptor >= 0) ::close(descriptor);
    tally.given += descriptor >= 0 ? 1 : 0;
  }
  world.records.note_step(plan.producers.size(), "drops the session", 0);
  world.session.reset();
  world.queues.clear();
  tally.refused += world.refused;
  tally.holds += world.holds;
  tally.items += plan.items.size();
  ++tally.sessions;
  return std::string(world.records.problem());
}

}  // namespace everkernel::test
