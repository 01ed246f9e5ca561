// The time of one item through a session on a GPU, from publishing it to seeing how it ended,
// compared with a word that goes to the GPU and back, and with launches.
//
// Every figure is a percentile of many items in a row. The kernel of a session is there only while
// its contender is measured.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_peers.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "harness.hpp"

namespace everkernel::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr int kSkipped = 77;
constexpr auto kPatience = seconds(10);
constexpr Word kStore = 1;
constexpr Word kAddToBuffer = 64;
constexpr Word kFiveMicroseconds = 65;
constexpr Word kBuffer = 7;
// The turns of `spin` are set so that it takes about 5 us on an H200; the contender "launch of the
// same loop" says how long it takes in the same run.
constexpr std::string_view kHandlers = R"(
handler add = 64 { atomic_add(output[0], param); }
handler spin = 65 { var x = 1; for i in 0 .. param { x = x * 1664525 + 1013904223; } args[9] = x; }
)";

Megakernel make_kernel(const std::shared_ptr<backend::Backend>& backend) {
  return must(
      Megakernel::create(backend, {.handlers = must(ir::verify(must(ir::parse(kHandlers))))}));
}

/// A percentile of the times of single items.
double percentile(std::vector<double>& times, double part) {
  const auto at =
      times.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(times.size() - 1));
  std::ranges::nth_element(times, at);
  return *at;
}

/// What a contender publishes, and where.
struct Scene {
  protocol::Operation item = {};
  QueueOptions queue = {.capacity = 256};
  Word queue_count = 1;
  bool through_session = false;  // into the session's own queue, which has full entries
  bool pauses = false;           // up to kLongestPause before each item
};

constexpr std::chrono::nanoseconds kLongestPause = std::chrono::microseconds(4);

/// Draws random numbers, and passes random times.
class Pauses {
 public:
  std::uint64_t draw() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 33;
  }
  void pass() {
    const auto longest = static_cast<std::uint64_t>(kLongestPause.count());
    const auto end = Clock::now() + std::chrono::nanoseconds(draw() % longest);
    while (Clock::now() < end) {
    }
  }

 private:
  std::uint64_t state_ = 1;
};

class LiveItems {
 public:
  LiveItems(Peers& peers, Megakernel& kernel, std::size_t items)
      : peers_(peers), kernel_(kernel), items_(items) {}

  double ping_pong(double part, bool has_pauses) {
    const PinnedWords words(peers_);
    peers_.launch(peers_.kernel("ping_pong"), {.block_count = 1, .thread_count = 1},
                  words.device(0), words.device(kApart), static_cast<Word>(items_));
    std::vector<double> times(items_);
    Pauses pauses;
    for (std::size_t i = 0; i < items_; ++i) {
      const Word round = static_cast<Word>(i + 1);
      if (has_pauses) pauses.pass();
      times[i] = host_ns([&] {
        words.at(0).store(round, std::memory_order_release);
        while (words.at(kApart).load(std::memory_order_acquire) != round) {
        }
      });
    }
    peers_.synchronize();
    return percentile(times, part);
  }

  double launches(double part) const {
    std::vector<double> times(items_);
    const auto nothing = peers_.kernel("nothing");
    for (double& time : times) {
      time = host_ns([&] {
        peers_.launch(nothing, {.block_count = 1, .thread_count = 1});
        peers_.synchronize();
      });
    }
    return percentile(times, part);
  }

  double graphs(double part) const {
    Graph graph(peers_);
    graph.add(peers_.kernel("nothing"), {.block_count = 1, .thread_count = 1});
    graph.finish();
    std::vector<double> times(items_);
    for (double& time : times) {
      time = host_ns([&] {
        graph.launch();
        peers_.synchronize();
      });
    }
    return percentile(times, part);
  }

  double live(const Scene& scene, double part) const {
    Session session = must(kernel_.start());
    std::vector<Queue> queues;
    for (Word i = 0; i < scene.queue_count; ++i) {
      queues.push_back(must(session.open_queue(scene.queue)));
    }
    std::vector<double> times(items_);
    Pauses pauses;
    for (std::size_t i = 0; i < kWarmItems + items_; ++i) {
      Queue& queue = queues[pauses.draw() % queues.size()];
      if (scene.pauses) pauses.pass();
      const double time = host_ns([&] {
        if (scene.through_session) {
          must(session.wait(must(session.publish(scene.item)), kPatience));
        } else {
          must(queue.wait(must(queue.publish(scene.item)), kPatience));
        }
      });
      if (i >= kWarmItems) times[i - kWarmItems] = time;
    }
    return percentile(times, part);
  }

 private:
  static constexpr std::size_t kApart = 64;  // words, so that they do not share a line
  static constexpr std::size_t kWarmItems = 200;

  class PinnedWords {
   public:
    explicit PinnedWords(Peers& peers) : memory_(peers.pinned(2 * kApart * sizeof(Word))) {}
    std::atomic_ref<Word> at(std::size_t i) const {
      return std::atomic_ref(*(reinterpret_cast<Word*>(memory_.data()) + i));
    }
    Word* device(std::size_t i) const {
      return reinterpret_cast<Word*>(memory_.device_pointer()) + i;
    }

   private:
    backend::cuda::PinnedMemory memory_;
  };

  Peers& peers_;
  Megakernel& kernel_;
  std::size_t items_;
};

void ask_items(Suite& suite, const Options& options, Peers& peers, Megakernel& kernel) {
  const std::array<Word, 2> store{7, 160};
  const std::array<Word, 3> add{0, kBuffer, 1};
  const std::array<Word, 3> spin{0, 0, 1300};
  const protocol::Operation storing{.opcode = kStore, .args = store};
  const QueueOptions with_results{.capacity = 256, .results = true};
  LiveItems items(peers, kernel, options.scale(20'000, 200));
  const auto with = [&](std::string name, const Scene& scene, double part) {
    return Contender{.name = std::move(name),
                     .measure = [&items, scene, part] { return items.live(scene, part); }};
  };
  for (const auto& [name, part] : {std::pair{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}}) {
    const double p = part;
    suite.ask(
        {.name = fmt::format("one_live_item_{}", name),
         .text = fmt::format("{} of one item, from publishing it to seeing its end", name),
         .items = 1,
         .contenders =
             {{.name = "a word there and back",
               .measure = [&, p] { return items.ping_pong(p, false); }},
              {.name = "a word there and back, at random times",
               .measure = [&, p] { return items.ping_pong(p, true); }},
              with("nop", {}, p),
              with("store, one queue", {.item = storing}, p),
              with("store, one queue, at random times", {.item = storing, .pauses = true}, p),
              with("store, 32 queues", {.item = storing, .queue_count = 32}, p),
              with("store, through the session", {.item = storing, .through_session = true}, p),
              with("store, with results", {.item = storing, .queue = with_results}, p),
              with("handler that adds to a buffer", {.item = {.opcode = kAddToBuffer, .args = add}},
                   p),
              with("handler with a loop", {.item = {.opcode = kFiveMicroseconds, .args = spin}}, p),
              {.name = "launch and wait", .measure = [&, p] { return items.launches(p); }},
              {.name = "graph launch and wait", .measure = [&, p] { return items.graphs(p); }}},
         .rounds = 7});
  }
}

int run(int argc, char** argv) {
  const Options options = Options::parse(argc, argv);
  auto peers = Peers::open();
  if (!peers) {
    fmt::print("live_bench measures nothing: {}\n", peers.error().message);
    return kSkipped;
  }
  Suite suite("live_bench", options);
  suite.note("device", (*peers)->facts().name);
  const auto backend = backend::cuda::make_backend();
  try {
    Megakernel kernel = make_kernel(backend);
    const DataBuffer buffer = must(kernel.create_buffer({.handle = kBuffer, .word_count = 16}));
    ask_items(suite, options, **peers, kernel);
  } catch (const Failed& failed) {
    fmt::print(stderr, "error: {}\nhint: {}\n", failed.error.message, failed.error.hint);
    return 1;
  }
  return suite.finish();
}

}  // namespace
}  // namespace everkernel::bench

int main(int argc, char** argv) {
  return everkernel::bench::run(argc, argv);
}
