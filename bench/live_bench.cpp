// The time of one item through a session on a GPU, from publishing it to seeing how it ended,
// compared with a word that goes to the GPU and back, and with launches; and the same beside work
// of others (live_isolation.cpp).
//
// Every figure is a percentile of many items in a row. The kernel of a session is there only while
// its contender is measured.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_peers.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "harness.hpp"
#include "live_items.hpp"

namespace everkernel::bench {
namespace {

constexpr int kSkipped = 77;

// ---- single items ----

class PinnedWords {
 public:
  explicit PinnedWords(const Peers& peers) : memory_(peers.pinned(2 * kApart * sizeof(Word))) {}
  std::atomic_ref<Word> at(std::size_t i) const {
    return std::atomic_ref(*(reinterpret_cast<Word*>(memory_.data()) + i));
  }
  Word* device(std::size_t i) const {
    return reinterpret_cast<Word*>(memory_.device_pointer()) + i;
  }

  static constexpr std::size_t kApart = 64;  // words, so that two of them do not share a line

 private:
  backend::cuda::PinnedMemory memory_;
};

/// What a program without Everkernel does for a single piece of work.
class PeerItems {
 public:
  PeerItems(const Peers& peers, std::size_t items) : peers_(peers), items_(items) {}

  std::vector<double> ping_pong(bool has_pauses) const {
    const PinnedWords words(peers_);
    peers_.launch(peers_.kernel("ping_pong"), {.block_count = 1, .thread_count = 1},
                  words.device(0), words.device(words.kApart), static_cast<Word>(items_));
    Pauses pauses;
    Word round = 0;
    auto times = time_each(
        [&] {
          ++round;
          words.at(0).store(round, std::memory_order_release);
          while (words.at(words.kApart).load(std::memory_order_acquire) != round) {
          }
        },
        [&] {
          if (has_pauses) pauses.pass();
        });
    peers_.synchronize();
    return times;
  }

  std::vector<double> launches() const {
    const auto nothing = peers_.kernel("nothing");
    return time_each([&] {
      peers_.launch(nothing, kOneThread);
      peers_.synchronize();
    });
  }

  std::vector<double> launches_of_loop(Word turns) const {
    const PinnedWords words(peers_);
    const auto spin = peers_.kernel("spin");
    return time_each([&] {
      peers_.launch(spin, kOneThread, words.device(0), turns);
      peers_.synchronize();
    });
  }

  std::vector<double> graphs() const {
    Graph graph(peers_);
    graph.add(peers_.kernel("nothing"), kOneThread);
    graph.finish();
    return time_each([&] {
      graph.launch();
      peers_.synchronize();
    });
  }

 private:
  static constexpr backend::cuda::Grid kOneThread{.block_count = 1, .thread_count = 1};

  std::vector<double> time_each(const auto& call) const {
    return time_each(call, [] {});
  }
  std::vector<double> time_each(const auto& call, const auto& before) const {
    std::vector<double> times(items_);
    for (double& time : times) {
      before();
      time = host_ns(call);
    }
    return percentiles(times);
  }

  const Peers& peers_;
  std::size_t items_;
};

// Limits of an item beside those of a word there and back, and of launches.
std::vector<Comparison> limits(double p50_times, double p99_times) {
  return {{.than = "a word there and back", .figure = "p50", .most_times = p50_times},
          {.than = "a word there and back", .figure = "p99", .most_times = p99_times},
          {.than = "launch and wait", .figure = "p50", .most_times = 1 / 2.5},
          {.than = "graph launch and wait", .figure = "p50", .most_times = 1 / 1.8}};
}

void ask_items(Suite& suite, const Options& options, const Peers& peers, Megakernel& kernel) {
  const Word turns = turns_of(kernel, options, std::chrono::microseconds(5));
  suite.note("turns_of_5_us", fmt::format("{}", turns));
  const std::array<Word, 2> store{7, 160};
  const std::array<Word, 3> add{0, kBuffer, 1};
  const std::array<Word, 3> spin{0, 0, turns};
  const std::array<Word, 3> no_turns{0, 0, 0};
  const protocol::Operation storing{.opcode = kStore, .args = store};
  const QueueOptions with_results{.capacity = 256, .results = true};
  const std::size_t count = options.scale(10'000, 20);
  LiveItems items(kernel, count, options.scale(200, 5));
  const PeerItems peer_items(peers, count);
  const auto with = [&](std::string name, const Scene& scene,
                        std::vector<Comparison> comparisons = {}) {
    return Contender{.name = std::move(name),
                     .measure_all = [&items, scene] { return items.live(scene); },
                     .comparisons = std::move(comparisons)};
  };
  // A call is timed like an item. "parked with an empty function" is one more contender, whose
  // `measure_all` is items.calls({}, [](Session& session, Queue&) { ... }); `most_ns` limits its
  // p50.
  suite.ask(
      {.name = "one_live_item",
       .text = "one item, from publishing it to seeing its end",
       .items = 1,
       .contenders =
           {{.name = "a word there and back",
             .measure_all = [&] { return peer_items.ping_pong(false); }},
            {.name = "a word there and back, at random times",
             .measure_all = [&] { return peer_items.ping_pong(true); }},
            with("nop", {}),
            with("store, one queue", {.item = storing}, limits(1.15, 1.4)),
            with("store, one queue, at random times", {.item = storing, .pauses = true}),
            with("store, 32 queues", {.item = storing, .queue_count = 32}, limits(1.25, 1.6)),
            with("store, through the session", {.item = storing, .through_session = true}),
            with("store, with results", {.item = storing, .queue = with_results},
                 limits(1.15, 1.4)),
            with("handler that adds to a buffer", {.item = {.opcode = kAddToBuffer, .args = add}}),
            with("handler that answers with three words",
                 {.item = {.opcode = kAnswer, .args = add}, .queue = with_results}),
            with("handler with a loop of no turns", {.item = {.opcode = kSpin, .args = no_turns}}),
            with("handler with a loop of 5 us", {.item = {.opcode = kSpin, .args = spin}},
                 {{.than = "nop", .figure = "p50", .most_more_ns = 5'300},
                  {.than = "handler with a loop of no turns", .figure = "p50"}}),
            {.name = "launch of the same loop and wait",
             .measure_all = [&] { return peer_items.launches_of_loop(turns); }},
            {.name = "launch and wait", .measure_all = [&] { return peer_items.launches(); }},
            {.name = "graph launch and wait", .measure_all = [&] { return peer_items.graphs(); }}},
       .rounds = options.scale(5, 1),
       .figures = percentile_names()});
}

// How long a session is away when it is parked for nothing.
void ask_parking(Suite& suite, const Options& options, const Peers& peers, Megakernel& kernel) {
  const std::size_t count = options.scale(2'000, 3);
  LiveItems items(kernel, count, options.scale(20, 1));
  const PeerItems peer_items(peers, count);
  const auto park = [&] {
    return items.calls({},
                       [](Session& session, Queue&) { must(session.parked([] {}, kPatience)); });
  };
  suite.ask(
      {.name = "parking",
       .text = "letting the kernel of a session end and launching it again",
       .items = 1,
       .contenders =
           {{.name = "launch and wait", .measure_all = [&] { return peer_items.launches(); }},
            {.name = "parked with an empty function", .measure_all = park, .most_ns = 60'000}},
       .rounds = options.scale(5, 1),
       .figures = percentile_names()});
}

// ---- the program ----

int ask_all(Suite& suite, const Options& options, const Peers& peers) {
  const auto backend = backend::cuda::make_backend();
  std::string unanswered;
  const Answer answer = [&](std::string_view name, const std::function<void()>& ask) {
    try {
      ask();
    } catch (const Failed& failed) {
      fmt::print("{}: NOT ANSWERED: {}; {}\n", name, failed.error.message, failed.error.hint);
      unanswered +=
          fmt::format("{}{}: {}", unanswered.empty() ? "" : "; ", name, failed.error.message);
    }
    std::fflush(stdout);
  };
  const bool asks_items = options.asks_for("one_live_item", percentile_names());
  const bool asks_parking = options.asks_for("parking", percentile_names());
  if (asks_items || asks_parking) {
    answer("single items and parking", [&] {
      Megakernel kernel = make_live_kernel(backend);
      const DataBuffer buffer = must(kernel.create_buffer({.handle = kBuffer, .word_count = 16}));
      if (asks_items) answer("one_live_item", [&] { ask_items(suite, options, peers, kernel); });
      if (asks_parking) answer("parking", [&] { ask_parking(suite, options, peers, kernel); });
    });
  }
  ask_isolation(suite, options, peers, backend, answer);
  if (!unanswered.empty()) suite.note("unanswered", unanswered);
  const int status = suite.finish();
  return unanswered.empty() ? status : 1;
}

int run(int argc, char** argv) {
  const Options options = Options::parse(argc, argv);
  const auto peers = Peers::open();
  if (!peers) {
    fmt::print("live_bench measures nothing: {}\n", peers.error().message);
    return kSkipped;
  }
  Suite suite("live_bench", options);
  // A contender takes a second or two; a simulated GPU is slower.
  suite.set_patience(std::chrono::seconds(options.scale(60, 300)));
  suite.note("device", (*peers)->facts().name);
  try {
    return ask_all(suite, options, **peers);
  } catch (const Failed& failed) {
    fmt::print(stderr, "error: {}\nhint: {}\n", failed.error.message, failed.error.hint);
    return 1;
  }
}

}  // namespace
}  // namespace everkernel::bench

int main(int argc, char** argv) {
  return everkernel::bench::run(argc, argv);
}
