// What tenants of one session cost each other: times of one while another misbehaves, of urgent
// items in a flood, beside a client that writes nonsense, of a busy queue among many quiet ones,
// and of a session in which nothing happens.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "checked.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "harness.hpp"
#include "live/handover.hpp"
#include "neighbours.hpp"

namespace everkernel::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr Word kWork = 64;     // takes the turns that its first argument says
constexpr Word kForever = 65;  // yields for ever
constexpr std::string_view kHandlers =
    "handler work = 64 { for i in 0 .. args[0] { args[3] = args[3] * 1664525 + i; } }"
    "handler forever = 65 { yield; }";
constexpr TenantId kNeighbour(1);
constexpr Word kFirstVictim = 2;

// Two cores are left to the producers and two to the rest of the machine: a worker that the
// operating system takes its core from shows in a p99, whatever the other tenants do.
unsigned worker_count() {
  return static_cast<unsigned>(
      std::max(2, static_cast<int>(std::thread::hardware_concurrency()) - 4));
}

Megakernel make_kernel(unsigned workers) {
  const auto backend = backend::cpu::make_backend();
  // A build to be copied elsewhere has no LLVM; items are as long all the same.
  const auto execution = backend->capabilities().native_code ? backend::Execution::native
                                                             : backend::Execution::interpreter;
  return checked(
      Megakernel::create(backend, {.handlers = checked(ir::verify(checked(ir::parse(kHandlers)))),
                                   .execution = execution,
                                   .fuel_per_item = std::uint64_t{1} << 50,
                                   .worker_count = workers}));
}

// Turns of an item that takes that long.
Word turns_of(nanoseconds time) {
  static const double turn_ns = [] {
    Megakernel kernel = make_kernel(1);
    Session session = checked(kernel.start());
    constexpr Word kTurns = 10'000'000;
    const std::array<Word, 1> args{kTurns};
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const auto begin = Clock::now();
      checked(session.wait(checked(session.publish({kWork, args})), seconds(60)));
      const std::chrono::duration<double, std::nano> passed = Clock::now() - begin;
      best = std::min(best, passed.count() / kTurns);
    }
    return best;
  }();
  return static_cast<Word>(static_cast<double>(time.count()) / turn_ns);
}

// ---- tenants that behave ----

// Publishes short items of several tenants in turn at a steady rate.
class Victims {
 public:
  Victims(Session& session, Word tenants, Priority priority = Priority::normal)
      : session_(session) {
    for (Word i = 0; i < tenants; ++i) {
      queues_.push_back(checked(
          session.open_queue({.tenant = TenantId(kFirstVictim + i), .priority = priority})));
    }
  }

  // The p99 from publishing to the end, of items of that length, one every `interval`. Items of the
  // first moments do not count: they wake workers that slept.
  double run(nanoseconds length, nanoseconds interval, nanoseconds time) {
    publish(length, interval, kWarmUp);
    const Histogram before = ended();
    publish(length, interval, time);
    Histogram after = ended();
    for (std::size_t i = 0; i < after.counts.size(); ++i) after.counts[i] -= before.counts[i];
    return static_cast<double>(after.quantile(0.99).count());
  }

 private:
  static constexpr auto kWarmUp = milliseconds(50);

  void publish(nanoseconds length, nanoseconds interval, nanoseconds time) {
    const std::array<Word, 1> args{turns_of(length)};
    const auto begin = Clock::now();
    const auto end = begin + time;
    auto next = begin;
    std::size_t turn = 0;
    for (auto now = begin; now < end; now = Clock::now()) {
      if (now < next) continue;
      next += interval;
      static_cast<void>(queues_[turn % queues_.size()].publish({kWork, args}));
      ++turn;
    }
    for (Queue& queue : queues_) check(queue.wait_all(seconds(60)));
  }

  // Times of the items of these tenants that have ended.
  Histogram ended() {
    SessionSnapshot snapshot;
    check(session_.snapshot(snapshot));
    Histogram sum;
    for (const QueueSnapshot& queue : snapshot.queues) {
      if (queue.tenant.number >= kFirstVictim) sum.add(queue.published_to_end);
    }
    return sum;
  }

  Session& session_;
  std::vector<Queue> queues_;
};

// ---- tenants that do not ----

// A process that writes random words into everything it can write, until it is killed.
class HostileClient {
 public:
  explicit HostileClient(Queue& queue) {
    const Descriptor descriptor(checked(queue.descriptor()));
    id_ = ::fork();
    if (id_ != 0) return;
    const live::Handover given = checked(live::receive(descriptor.get()));
    ClientMemory memory = checked(ClientMemory::map(given));
    std::mt19937_64 random(1);
    for (std::uint64_t round = 0;; ++round) {
      memory.scribble(random);
      const std::uint64_t ring = 1;
      if (round % 256 == 0 && ::write(given.bell.get(), &ring, sizeof ring) < 0) break;
    }
    ::_exit(1);
  }
  ~HostileClient() {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }

 private:
  pid_t id_ = 0;
};

struct Neighbour {
  const char* name;
  void (*misbehave)(Session&, Queue&);
};

abi::WorkItem work_of(nanoseconds length) {
  return {kWork, turns_of(length), 0, 0};
}

constexpr std::array kNeighbours{
    Neighbour{"disabled",
              [](Session& session, Queue& queue) {
                check(session.set_tenant_enabled(kNeighbour, false));
                fill(queue, work_of(microseconds(5)));
              }},
    Neighbour{"quota 0",
              [](Session& session, Queue& queue) {
                check(session.set_tenant_quota(kNeighbour, 0));
                fill(queue, work_of(microseconds(5)));
              }},
    Neighbour{"yields for ever",
              [](Session&, Queue& queue) {
                fill(queue, {kForever, 0, 0, 0});
              }},
    Neighbour{"items of 60 ms",
              [](Session&, Queue& queue) { fill(queue, work_of(milliseconds(60))); }},
    Neighbour{"a producer that died",
              [](Session&, Queue& queue) { check(reserve_and_die(queue)); }}};

// ---- questions ----

constexpr auto kItem = microseconds(5);
constexpr std::size_t kBatch = 64;  // of a flood

void ask_head_of_line(Suite& suite, const Options& options, Word tenants) {
  const unsigned workers = worker_count();
  const unsigned quota = std::max(1u, workers / 2);
  const unsigned left = std::max(1u, workers - quota);
  const nanoseconds interval = nanoseconds(kItem) * 2 / left;  // half of the load of those workers
  const auto time = milliseconds(options.scale(300, 20));
  const auto measure = [=](unsigned used, const auto& misbehave) {
    Megakernel kernel = make_kernel(used);
    Session session = checked(kernel.start());
    Queue queue = checked(session.open_queue({.tenant = kNeighbour}));
    check(session.set_tenant_quota(kNeighbour, quota));
    [[maybe_unused]] const auto lives_on = misbehave(session, queue);
    const double p99 = Victims(session, tenants - 1).run(kItem, interval, time);
    session.stop(StopMode::cancel, nanoseconds(0));
    return p99;
  };
  Question question{
      .name = fmt::format("p99_beside_a_bad_neighbour_of_{}", tenants),
      .text = fmt::format("p99 from publishing to the end of items of 5 us of {} "
                          "tenants at half load, against the same alone",
                          tenants - 1),
      .items = 1,
      .bytes = abi::kQuadBytes,
      .contenders = {{.name = "alone",
                      .measure =
                          [=] { return measure(left, [](Session&, Queue&) { return 0; }); }}},
      .rounds = 7};
  for (const Neighbour& neighbour : kNeighbours) {
    question.contenders.push_back(
        {.name = fmt::format("beside: {}", neighbour.name), .measure = [=] {
           return measure(workers, [&](Session& session, Queue& queue) {
             neighbour.misbehave(session, queue);
             return 0;
           });
         }});
  }
  question.contenders.push_back({.name = "beside: a flood into a full queue", .measure = [=] {
                                   return measure(workers, [](Session&, Queue& queue) {
                                     return std::make_unique<Flood>(queue, work_of(kItem), kBatch);
                                   });
                                 }});
  question.contenders.push_back({.name = "beside: a hostile client", .measure = [=] {
                                   return measure(workers, [](Session&, Queue& queue) {
                                     return std::make_unique<HostileClient>(queue);
                                   });
                                 }});
  suite.ask(question);
}

void ask_priority(Suite& suite, const Options& options) {
  constexpr auto kIdleItem = microseconds(20);
  const auto time = milliseconds(options.scale(400, 20));
  const auto measure = [=](bool has_flood) {
    Megakernel kernel = make_kernel(worker_count());
    Session session = checked(kernel.start());
    Queue queue = checked(session.open_queue({.tenant = kNeighbour, .priority = Priority::idle}));
    check(session.set_tenant_quota(kNeighbour, worker_count()));
    std::optional<Flood> flood;
    if (has_flood) flood.emplace(queue, work_of(kIdleItem), kBatch);
    const double p99 =
        Victims(session, 1, Priority::critical).run(microseconds(1), microseconds(50), time);
    flood.reset();
    session.stop(StopMode::cancel, nanoseconds(0));
    return p99;
  };
  suite.ask({.name = "p99_of_critical_items",
             .text = "p99 from publishing to the end of CRITICAL items, alone and in a flood of "
                     "IDLE items of 20 us on every worker",
             .items = 1,
             .bytes = abi::kQuadBytes,
             .contenders = {{.name = "alone", .measure = [=] { return measure(false); }},
                            {.name = "in a flood of IDLE items",
                             .measure = [=] { return measure(true); },
                             .most_ns = 2.0 * nanoseconds(kIdleItem).count()}},
             .rounds = 7});
}

double cpu_ns() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return 1e9 * static_cast<double>(time.tv_sec) + 1e3 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

constexpr Word kMostQueues = 1024;

// One worker, so that every look at a quiet queue is time in which the busy one is not served.
void ask_busy_queue(Suite& suite, const Options& options) {
  const auto ask = [&](std::string name, std::string text, std::size_t items, const auto& use) {
    Question question{.name = std::move(name),
                      .text = std::move(text),
                      .items = items,
                      .bytes = items * abi::kQuadBytes,
                      .contenders = {},
                      .rounds = 21};
    const auto most = static_cast<Word>(options.scale(kMostQueues, 64));
    for (const Word count : {1u, 32u, most}) {
      question.contenders.push_back(
          {.name = count == 1 ? "alone" : fmt::format("one of {}", count), .measure = [=] {
             Megakernel kernel = make_kernel(1);
             Session session = checked(kernel.start());
             Queue busy = checked(session.open_queue({.tenant = kNeighbour}));
             const std::vector<Queue> quiet = checked(open_quiet_queues(session, count - 1));
             use(busy, items / 8);  // the quiet queues count as such after a while
             return use(busy, items);
           }});
    }
    suite.ask(question);
  };
  const auto publish = [](Queue& queue, std::size_t items, Word opcode) {
    const std::vector<abi::WorkItem> batch(256, abi::WorkItem{opcode, 1, 0, 0});
    const auto begin = Clock::now();
    for (std::size_t sent = 0; sent < items; sent += batch.size()) {
      checked(queue.publish_items(batch, seconds(10)));
    }
    check(queue.wait_all(seconds(10)));
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  };
  ask("busy_queue_of_nops", "empty items in batches of 256 through a busy queue among quiet ones",
      options.scale(1 << 20, 1 << 12),
      [=](Queue& queue, std::size_t items) { return publish(queue, items, 0); });
  ask("busy_queue_of_items", "the same with items that are taken one by one",
      options.scale(1 << 16, 1 << 10),
      [=](Queue& queue, std::size_t items) { return publish(queue, items, kWork); });
  ask("busy_queue_round_trip", "publishing one such item and waiting for it",
      options.scale(1 << 13, 1 << 6), [](Queue& queue, std::size_t items) {
        const std::array<Word, 1> args{1};
        const auto begin = Clock::now();
        for (std::size_t i = 0; i < items; ++i) {
          checked(queue.wait(checked(queue.publish({kWork, args})), seconds(10)));
        }
        return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
      });
}

void ask_idle(Suite& suite, const Options& options) {
  const auto time = milliseconds(options.scale(1000, 20));
  const auto measure = [=](Word count) {
    Megakernel kernel = make_kernel(worker_count());
    std::optional<Session> session;
    std::vector<Queue> queues;
    if (count != 0) {
      session.emplace(checked(kernel.start()));
      queues = checked(open_quiet_queues(*session, count));
    }
    std::this_thread::sleep_for(milliseconds(20));
    const double before = cpu_ns();
    std::this_thread::sleep_for(time);
    // The time of a core in a second; never 0, which has no ratio.
    return std::max(1.0, (cpu_ns() - before) * 1000.0 / static_cast<double>(time.count()));
  };
  Question question{.name = "idle",
                    .text =
                        "processor time in a second in which nothing is published, against a "
                        "process without a session",
                    .items = 1,
                    .bytes = abi::kQuadBytes,
                    .contenders = {{.name = "no session", .measure = [=] { return measure(0); }}},
                    .rounds = 3};
  for (const Word count : {1u, 28u, kMostQueues}) {
    question.contenders.push_back({.name = fmt::format("{} queues", count),
                                   .measure = [=] { return measure(count); },
                                   .most_ns = 1e6});
  }
  suite.ask(question);
}

int run(int argc, char** argv) {
  const Options options = Options::parse(argc, argv);
  Suite suite("tenants", options);
  suite.note("workers", fmt::format("{}", worker_count()));
  ask_head_of_line(suite, options, 2);
  ask_head_of_line(suite, options, 28);
  ask_priority(suite, options);
  ask_busy_queue(suite, options);
  ask_idle(suite, options);
  return suite.finish();
}

}  // namespace
}  // namespace everkernel::bench

int main(int argc, char** argv) {
  return everkernel::bench::run(argc, argv);
}
