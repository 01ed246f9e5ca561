// The rate of floods: how many items a session on a GPU takes from publishers that never wait,
// compared with what a CUDA graph takes.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuda_peers.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "harness.hpp"

namespace everkernel::bench {
namespace {

constexpr int kSkipped = 77;
constexpr auto kPatience = std::chrono::seconds(10);

/// Items that a number of threads publish in batches, each into a queue of its own.
double stream_ns(Megakernel& kernel, abi::EntryFormat entries, unsigned publishers,
                 std::size_t items_each) {
  constexpr std::size_t kBatch = 1024;
  Session session = must(kernel.start());
  std::vector<Queue> queues;
  for (unsigned i = 0; i < publishers; ++i) {
    queues.push_back(must(session.open_queue({.capacity = 1 << 16, .entries = entries})));
  }
  return host_ns([&] {
    std::vector<std::jthread> threads;
    for (Queue& queue : queues) {
      threads.emplace_back([&queue, items_each] {
        const std::vector<abi::WorkItem> batch(kBatch, abi::WorkItem{});
        for (std::size_t sent = 0; sent < items_each; sent += kBatch) {
          must(queue.publish_items(batch, kPatience));
        }
        must(queue.wait_all(kPatience));
      });
    }
  });
}

void ask_streams(Suite& suite, const Options& options, Peers& peers, Megakernel& kernel) {
  const std::size_t items = options.scale(std::size_t{1} << 22, 1 << 12);
  const auto nodes = static_cast<std::size_t>(options.scale(10'000, 16));
  for (const unsigned publishers : {1u, 4u}) {
    const auto streamed = [&, publishers, items](std::string name, abi::EntryFormat entries) {
      return Contender{.name = std::move(name), .measure = [&kernel, publishers, items, entries] {
                         return stream_ns(kernel, entries, publishers, items / publishers);
                       }};
    };
    suite.ask({.name = fmt::format("streams_of_{}_publishers", publishers),
               .text = "items without work, published in batches, against nodes of a CUDA graph",
               .items = items,
               .contenders = {{.name = "independent nodes of a CUDA graph, scaled",
                               .measure =
                                   [&, nodes, items] {
                                     Graph graph(peers);
                                     const auto nothing = peers.kernel("nothing");
                                     for (std::size_t i = 0; i < nodes; ++i) {
                                       graph.add(nothing, {.block_count = 1, .thread_count = 1});
                                     }
                                     graph.finish();
                                     const double ns = host_ns([&] {
                                       graph.launch();
                                       peers.synchronize();
                                     });
                                     return ns * static_cast<double>(items) /
                                            static_cast<double>(nodes);
                                   }},
                              streamed("compact entries", abi::EntryFormat::compact),
                              streamed("full entries", abi::EntryFormat::full)},
               .rounds = 5});
  }
}

int run(int argc, char** argv) {
  const Options options = Options::parse(argc, argv);
  auto peers = Peers::open();
  if (!peers) {
    fmt::print("live_rate_bench measures nothing: {}\n", peers.error().message);
    return kSkipped;
  }
  Suite suite("live_rate_bench", options);
  suite.note("device", (*peers)->facts().name);
  try {
    Megakernel kernel = must(Megakernel::create(backend::cuda::make_backend()));
    ask_streams(suite, options, **peers, kernel);
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
