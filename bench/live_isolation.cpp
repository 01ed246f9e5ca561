// What a session on a GPU and what happens in it cost others: an item beside floods of another
// priority, tenants beside a hostile one, and kernels beside a session in which nothing happens.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "live_items.hpp"
#include "neighbours.hpp"

namespace everkernel::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::array<Word, 2> kStoreArgs{7, 160};
constexpr protocol::Operation kStoring{.opcode = kStore, .args = kStoreArgs};

struct World {
  Suite& suite;
  const Options& options;
  const Peers& peers;
  const std::shared_ptr<backend::Backend>& backend;
  Megakernel& kernel;

  std::size_t rounds() const { return options.scale(5, 1); }
};

// ---- items beside floods ----

// Notes the rates of the floods beside a contender.
class Rates {
 public:
  void add(double rate) { rates_.push_back(rate); }
  void note(Suite& suite, const std::string& key) {
    if (!rates_.empty()) suite.note(key, fmt::format("{:.0f}", percentile(rates_, 0.5)));
  }

 private:
  std::vector<double> rates_;
};

void ask_beside_floods(const World& world) {
  LiveItems items(world.kernel, world.options.scale(10'000, 20), world.options.scale(200, 5));
  std::array<Rates, 5> rates;  // by the number of producers
  Question question{
      .name = "item_beside_floods",
      .text = "a store, while producers of a lower priority publish NOPs at full speed",
      .items = 1,
      .contenders = {},
      .rounds = world.rounds(),
      .figures = percentile_names()};
  for (const auto& [what, results] : {std::pair{"store", false}, {"store with results", true}}) {
    const QueueOptions queue{.capacity = 256, .results = results};
    const std::string alone = fmt::format("{}, alone", what);
    const auto with = [&](std::string name, unsigned floods, std::vector<Comparison> comparisons) {
      const Scene scene{.item = kStoring, .queue = queue, .beside = {.count = floods}};
      question.contenders.push_back({.name = std::move(name),
                                     .measure_all =
                                         [&items, &rates, scene] {
                                           auto figures = items.live(scene);
                                           rates[scene.beside.count].add(items.flood_rate());
                                           return figures;
                                         },
                                     .comparisons = std::move(comparisons)});
    };
    with(alone, 0, {});
    with(fmt::format("{}, beside one flood", what), 1,
         {{.than = alone, .figure = "p50", .most_times = 1.3},
          {.than = alone, .figure = "p99", .most_times = 3}});
    with(fmt::format("{}, beside four floods", what), 4,
         {{.than = alone, .figure = "p50", .most_times = 2},
          {.than = alone, .figure = "p99", .most_times = 5}});
  }
  world.suite.ask(question);
  rates[1].note(world.suite, "items_per_second_of_one_flood_beside");
  rates[4].note(world.suite, "items_per_second_of_four_floods_beside");
}

void ask_critical(const World& world) {
  const Word turns = turns_of(world.kernel, world.options, microseconds(20));
  LiveItems items(world.kernel, world.options.scale(10'000, 20), world.options.scale(200, 5));
  Rates rates;
  const Scene alone{.item = kStoring, .queue = {.priority = Priority::critical, .capacity = 256}};
  Scene flooded = alone;
  flooded.beside = {.count = 4, .priority = Priority::idle, .item = spin_of(turns)};
  world.suite.ask(
      {.name = "critical_item",
       .text = "a CRITICAL store, beside four floods of IDLE items of 20 us",
       .items = 1,
       .contenders = {{.name = "alone", .measure_all = [&] { return items.live(alone); }},
                      {.name = "in a flood of IDLE items",
                       .measure_all =
                           [&] {
                             auto figures = items.live(flooded);
                             rates.add(items.flood_rate());
                             return figures;
                           },
                       .comparisons = {{.than = "alone", .figure = "p50"},
                                       {.than = "alone", .figure = "p99", .most_times = 2}}}},
       .rounds = world.rounds(),
       .figures = percentile_names()});
  rates.note(world.suite, "items_of_20_us_per_second_in_the_flood");
}

// ---- tenants beside a hostile one ----

constexpr TenantId kHostile(1);
constexpr Word kFirstVictim = 2;
constexpr Word kVictims = 27;
constexpr std::size_t kLongEvery = 5;  // of the victims' items, one in that many takes 5 us

// Tenants that publish items in turn at a steady rate, whether the ones before have ended or not.
class Victims {
 public:
  Victims(Session& session, Word turns) : spin_args_{0, 0, turns} {
    for (Word i = 0; i < kVictims; ++i) {
      queues_.push_back(
          must(session.open_queue({.tenant = TenantId(kFirstVictim + i), .capacity = 256})));
    }
  }

  // The percentiles of short items, and the p99 of those with a loop. Items that have not ended
  // after a second count with their age: a neighbour that starves others is a figure too.
  std::vector<double> run(std::size_t count) {
    short_times_.clear();
    long_times_.clear();
    auto next = Clock::now();
    const auto deadline = next + kLongest;
    for (std::size_t sent = 0; sent < count || !on_their_way_.empty();) {
      const auto now = Clock::now();
      if (now >= deadline) {
        for (const Item& item : on_their_way_) add_time(item);
        break;
      }
      if (sent < count && now >= next && publish(sent, now)) {
        ++sent;
        next = now + kInterval;
      }
      std::erase_if(on_their_way_, [&](const Item& item) { return has_ended(item); });
    }
    std::vector<double> figures = percentiles(short_times_);
    figures.push_back(percentile(long_times_, 0.99));
    return figures;
  }

 private:
  static constexpr auto kInterval = microseconds(10);
  static constexpr auto kLongest = std::chrono::seconds(1);

  struct Item {
    Queue* queue;
    Ticket ticket;
    Clock::time_point begin;
    bool is_long;
  };

  // A full queue refuses the item, whose time begins all the same.
  bool publish(std::size_t number, Clock::time_point now) {
    const bool is_long = number % kLongEvery == 0;
    Queue& queue = queues_[number % queues_.size()];
    const auto ticket = queue.publish(
        is_long ? protocol::Operation{.opcode = kSpin, .args = spin_args_} : kStoring);
    if (!ticket && ticket.error().code == Code::queue_full) {
      if (!refused_at_) refused_at_ = now;
      return false;
    }
    on_their_way_.push_back({&queue, must(ticket), refused_at_.value_or(now), is_long});
    refused_at_.reset();
    return true;
  }

  bool has_ended(const Item& item) {
    const auto completion = must(item.queue->poll(item.ticket));
    if (!completion) return false;
    expect(completion->is_done(), "an item of a tenant beside a hostile one ends as DONE");
    add_time(item);
    return true;
  }

  void add_time(const Item& item) {
    const std::chrono::duration<double, std::nano> time = Clock::now() - item.begin;
    (item.is_long ? long_times_ : short_times_).push_back(time.count());
  }

  std::array<Word, 3> spin_args_;
  std::vector<Queue> queues_;
  std::vector<Item> on_their_way_;
  std::optional<Clock::time_point> refused_at_;
  std::vector<double> short_times_, long_times_;
};

// What the hostile tenant does; what it returns goes on until it is destroyed.
struct Neighbour {
  const char* name;
  std::shared_ptr<void> (*misbehave)(Session&, Queue&, Word turns_of_60_ms);
};

constexpr std::size_t kBatch = 1024;

constexpr std::array kNeighbours{
    Neighbour{"floods with NOPs",
              [](Session&, Queue& queue, Word) -> std::shared_ptr<void> {
                return std::make_shared<Flood>(queue, abi::WorkItem{}, kBatch);
              }},
    Neighbour{"floods with items of 60 ms",
              [](Session&, Queue& queue, Word turns) -> std::shared_ptr<void> {
                return std::make_shared<Flood>(queue, spin_of(turns), kBatch);
              }},
    Neighbour{"yields for ever",
              [](Session&, Queue& queue, Word) -> std::shared_ptr<void> {
                fill(queue, {kForever, 0, 0, 0});
                return nullptr;
              }},
    Neighbour{"fills its queue and never reads",
              [](Session&, Queue& queue, Word) -> std::shared_ptr<void> {
                fill(queue, {});
                return nullptr;
              }},
    Neighbour{"is disabled",
              [](Session& session, Queue& queue, Word) -> std::shared_ptr<void> {
                must(session.set_tenant_enabled(kHostile, false));
                fill(queue, {});
                return nullptr;
              }},
    Neighbour{"has quota 0",
              [](Session& session, Queue& queue, Word) -> std::shared_ptr<void> {
                must(session.set_tenant_quota(kHostile, 0));
                fill(queue, {});
                return nullptr;
              }},
    Neighbour{"died while it published",
              [](Session&, Queue& queue, Word) -> std::shared_ptr<void> {
                must(reserve_and_die(queue));
                return nullptr;
              }},
    Neighbour{"writes random words over its entries",
              [](Session&, Queue& queue, Word) -> std::shared_ptr<void> {
                return must(Scribbler::start(queue));
              }}};

constexpr const char* kLongFigure = "p99_of_5_us";

std::vector<std::string> tenant_figures() {
  std::vector<std::string> figures = percentile_names();
  figures.emplace_back(kLongFigure);
  return figures;
}

void ask_tenants(const World& world) {
  const Options& options = world.options;
  const Word turns_of_5_us = turns_of(world.kernel, options, microseconds(5));
  const auto turns_of_60_ms = static_cast<Word>(options.scale(12'000, 1)) * turns_of_5_us;
  const auto measure = [&](const Neighbour* neighbour) {
    Session session = must(world.kernel.start());
    Queue hostile = must(session.open_queue(
        {.tenant = kHostile, .capacity = static_cast<Word>(options.scale(1 << 16, 1 << 10))}));
    Victims victims(session, turns_of_5_us);
    victims.run(options.scale(200, 10));
    std::shared_ptr<void> goes_on;
    if (neighbour != nullptr) {
      goes_on = neighbour->misbehave(session, hostile, turns_of_60_ms);
      std::this_thread::sleep_for(milliseconds(10));
    }
    auto figures = victims.run(options.scale(10'000, 40));
    goes_on.reset();
    session.stop(StopMode::cancel, nanoseconds(0));
    return figures;
  };
  Question question{.name = "tenants",
                    .text = fmt::format("stores of {} tenants, one every 10 us; one item in {} is "
                                        "a handler of 5 us",
                                        kVictims, kLongEvery),
                    .items = 1,
                    .contenders = {{.name = "beside an idle tenant",
                                    .measure_all = [&] { return measure(nullptr); }}},
                    .rounds = world.rounds(),
                    .figures = tenant_figures()};
  for (const Neighbour& neighbour : kNeighbours) {
    question.contenders.push_back(
        {.name = fmt::format("beside one that {}", neighbour.name),
         .measure_all = [&] { return measure(&neighbour); },
         .comparisons = {
             {.than = "beside an idle tenant", .figure = "p99", .most_times = 2},
             {.than = "beside an idle tenant", .figure = kLongFigure, .most_times = 2}}});
  }
  world.suite.ask(question);
}

// ---- kernels beside an idle session ----

// Kernels written by hand: a copy within the device, and arithmetic in registers.
class Kernels {
 public:
  explicit Kernels(const World& world)
      : peers_(world.peers),
        copied_bytes_(world.options.scale(std::size_t{512} << 20, 4 * kBytesPerBlock)),
        launches_(world.options.scale(20, 2)),
        compute_blocks_(static_cast<Word>(world.options.scale(512 * world.peers.sm_count(), 4))),
        from_(must(world.backend->allocate(copied_bytes_))),
        to_(must(world.backend->allocate(copied_bytes_))) {}

  // Nanoseconds of one copy, and of one piece of arithmetic, at the clock rate of a busy device.
  std::vector<double> measure() const {
    const auto blocks = static_cast<Word>(copied_bytes_ / kBytesPerBlock);
    return {time("copy_array", blocks, from_->device_address(), to_->device_address()),
            time("compute", compute_blocks_, to_->device_address(), kTurns)};
  }

 private:
  static constexpr std::size_t kBytesPerBlock = 16 << 10;
  static constexpr Word kTurns = 400;

  template <class... Arguments>
  double time(const char* name, Word blocks, const Arguments&... arguments) const {
    const auto kernel = peers_.kernel(name);
    const auto launch_all = [&] {
      for (std::size_t i = 0; i < launches_; ++i) {
        peers_.launch(kernel, {.block_count = blocks, .thread_count = 256}, arguments...);
      }
      peers_.wait();
    };
    launch_all();
    return host_ns(launch_all) / static_cast<double>(launches_);
  }

  const Peers& peers_;
  std::size_t copied_bytes_;
  std::size_t launches_;
  Word compute_blocks_;
  std::unique_ptr<backend::Memory> from_, to_;
};

std::vector<std::string> kernel_figures() {
  return {"copy", "compute"};
}

// A session with that many queues takes at most that much more time from a kernel beside it.
void ask_idle_session(const World& world, const std::string& name, Word queue_count,
                      double most_times) {
  const Kernels kernels(world);
  const auto beside = [&] {
    Session session = must(world.kernel.start());
    const std::vector<Queue> queues = must(open_quiet_queues(session, queue_count));
    std::this_thread::sleep_for(milliseconds(20));
    auto figures = kernels.measure();
    session.stop(StopMode::cancel, nanoseconds(0));
    return figures;
  };
  constexpr const char* kWithout = "without a session";
  world.suite.ask(
      {.name = name,
       .text = "a kernel written by hand, on the whole device",
       .items = 1,
       .contenders = {{.name = kWithout, .measure_all = [&] { return kernels.measure(); }},
                      {.name = fmt::format("beside a session of {} quiet queues", queue_count),
                       .measure_all = beside,
                       .comparisons = {{kWithout, "copy", most_times},
                                       {kWithout, "compute", most_times}}}},
       .rounds = world.rounds(),
       .figures = kernel_figures()});
}

}  // namespace

void ask_isolation(Suite& suite, const Options& options, const Peers& peers,
                   const std::shared_ptr<backend::Backend>& backend, const Answer& answer) {
  std::optional<Megakernel> kernel;
  const auto ask = [&](const char* name, std::vector<std::string> figures, const auto& question) {
    if (!options.asks_for(name, figures)) return;  // not prepared either
    answer(name, [&] {
      if (!kernel) kernel.emplace(make_live_kernel(backend, true));
      question(World{suite, options, peers, backend, *kernel});
    });
  };
  ask("item_beside_floods", percentile_names(), ask_beside_floods);
  ask("critical_item", percentile_names(), ask_critical);
  ask("tenants", tenant_figures(), ask_tenants);
  ask("kernel_beside_32_queues", kernel_figures(),
      [](const World& world) { ask_idle_session(world, "kernel_beside_32_queues", 32, 1.01); });
  ask("kernel_beside_1024_queues", kernel_figures(), [&options](const World& world) {
    const auto count = static_cast<Word>(options.scale(1024, 40));
    ask_idle_session(world, "kernel_beside_1024_queues", count, 1.02);
  });
}

}  // namespace everkernel::bench
