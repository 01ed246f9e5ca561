// The rate of many items on a GPU: floods through a session, saxpy items that publishers feed to
// it, a dispatch beside it, and runs of items that wait for each other. Each is compared with small
// kernels written by hand, or with CUDA graphs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda_peers.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "harness.hpp"
#include "resident_items.hpp"
#include "stream_peers.hpp"

namespace everkernel::bench {
namespace {

using abi::EntryFormat;
using abi::WorkItem;
using backend::cuda::Grid;
using BackendPointer = std::shared_ptr<backend::Backend>;

constexpr int kSkipped = 77;
constexpr auto kPatience = std::chrono::seconds(10);
constexpr std::size_t kRounds = 5;
constexpr std::size_t kBatch = 1024;
constexpr Word kMostPlaces = 1 << 16;
constexpr unsigned kMostPublishers = 4;
constexpr Grid kOneThread{.block_count = 1, .thread_count = 1};

/// What publishers feed to a session: each has a share of the items, a thread and a queue.
struct Feed {
  std::span<const WorkItem> items = {};
  std::size_t passes = 1;  // how often each item is published
  unsigned publishers = 1;
  EntryFormat entries = EntryFormat::compact;
  Word capacity = kMostPlaces;
};

/// Publishes in batches and waits for all items.
double publish_ns(Session& session, const Feed& feed) {
  const unsigned publishers = feed.publishers;
  const std::size_t share = feed.items.size() / publishers;
  const std::size_t batch = std::min<std::size_t>(kBatch, feed.capacity);
  std::vector<Queue> queues;
  for (unsigned i = 0; i < publishers; ++i) {
    const QueueOptions shape{.capacity = feed.capacity, .entries = feed.entries};
    queues.push_back(must(session.open_queue(shape)));
  }
  std::vector<std::optional<Failed>> failures(publishers);
  const auto publish = [&](unsigned id) {
    try {
      const auto own = feed.items.subspan(id * share, share);
      for (std::size_t pass = 0; pass < feed.passes; ++pass) {
        for (std::size_t sent = 0; sent < share; sent += batch) {
          const std::size_t count = std::min(batch, share - sent);
          must(queues[id].publish_items(own.subspan(sent, count), kPatience));
        }
      }
      must(queues[id].wait_all(kPatience));
    } catch (const Failed& failed) {
      failures[id] = failed;
    }
  };
  const double time = host_ns([&] {
    std::vector<std::jthread> threads;
    for (unsigned id = 0; id < publishers; ++id) threads.emplace_back(publish, id);
  });
  for (const auto& failure : failures) {
    if (failure) throw *failure;
  }
  return time;
}

// ---- floods ----

/// NOPs through a session of their own.
double stream_ns(Megakernel& kernel, EntryFormat entries, unsigned publishers, std::size_t items) {
  Session session = must(kernel.start());
  const std::vector<WorkItem> pass(kBatch * publishers);
  return publish_ns(
      session,
      {.items = pass, .passes = items / pass.size(), .publishers = publishers, .entries = entries});
}

struct StreamQuestion {
  std::string_view name;
  std::string_view text;
  EntryFormat entries;
  double (StreamPeers::*peer)(unsigned, Word);
};

void ask_streams(Suite& suite, const Options& options, const Peers& peers,
                 const BackendPointer& cuda) {
  const auto items = static_cast<Word>(options.scale(1 << 24, 1 << 12));
  const std::size_t nodes = options.scale(10'000, 16);
  Megakernel kernel = must(Megakernel::create(cuda));
  StreamPeers streams(peers);
  Graph graph(peers);
  for (std::size_t i = 0; i < nodes; ++i) graph.add(peers.kernel("nothing"), kOneThread);
  graph.finish();
  const auto graph_ns = [&] {
    const double ns = host_ns([&] {
      graph.launch();
      peers.synchronize();
    });
    return ns * static_cast<double>(items) / static_cast<double>(nodes);
  };
  const auto streamed = [&](std::string name, EntryFormat entries, unsigned publishers,
                            double least) {
    return Contender{
        .name = std::move(name),
        .measure = [&, entries,
                    publishers] { return stream_ns(kernel, entries, publishers, items); },
        .least_ratio = least};
  };
  for (const unsigned publishers : {1u, kMostPublishers}) {
    suite.ask({.name = fmt::format("streams_of_{}_publishers", publishers),
               .text = "items without work, published in batches, against nodes of a CUDA graph",
               .items = items,
               .contenders = {{.name = "graph nodes, scaled", .measure = graph_ns},
                              streamed("compact entries", EntryFormat::compact, publishers,
                                       publishers == 1 ? 0 : 500),
                              streamed("full entries", EntryFormat::full, publishers, 0)},
               .rounds = kRounds});
    for (const StreamQuestion& question :
         {StreamQuestion{"full", "a bare reader of 64-byte entries", EntryFormat::full,
                         &StreamPeers::full_ns},
          StreamQuestion{"compact", "a bare reader of 16-byte entries", EntryFormat::compact,
                         &StreamPeers::compact_ns}}) {
      const auto peer_ns = [&, question, publishers] {
        return (streams.*question.peer)(publishers, items);
      };
      suite.ask({.name = fmt::format("{}_streams_of_{}_publishers", question.name, publishers),
                 .text = fmt::format("the same, against {}", question.text),
                 .items = items,
                 .bytes = items * static_cast<std::uint64_t>(question.entries),
                 .contenders = {{.name = "by hand", .measure = peer_ns},
                                streamed("session", question.entries, publishers, 0.8)},
                 .rounds = kRounds});
    }
  }
}

// ---- items with work ----

void ask_saxpy(Suite& suite, const Options& options, const Peers& peers,
               const BackendPointer& cuda) {
  const auto count = static_cast<Word>(options.scale(1 << 18, 1 << 8));
  SaxpyItems saxpy(peers, cuda, kSaxpyWarp, count);
  const std::vector<WorkItem> items = numbered_items(64, count);
  const auto feed_ns = [&](EntryFormat entries, unsigned publishers) {
    Session session = must(saxpy.kernel().start());
    Feed feed{.items = items, .publishers = publishers, .entries = entries};
    feed.capacity = std::min(kMostPlaces, count / publishers);
    return publish_ns(session, feed);
  };
  feed_ns(EntryFormat::compact, kMostPublishers);
  feed_ns(EntryFormat::full, kMostPublishers);
  check_saxpy(saxpy.y(), SaxpyItems::words_of(count), 3);
  const auto fed = [&](std::string name, EntryFormat entries, unsigned publishers, double least) {
    return Contender{.name = std::move(name),
                     .measure = [&, entries, publishers] { return feed_ns(entries, publishers); },
                     .least_ratio = least};
  };
  suite.ask({.name = "saxpy_fed_live",
             .text =
                 "items of 256 words that publishers feed to a session, against one dispatch of "
                 "the same items",
             .items = count,
             .bytes = SaxpyItems::words_of(count) * sizeof(Word) * 3,
             .contenders = {{.name = "dispatch", .measure = [&] { return saxpy.dispatch_ns(); }},
                            fed("1 publisher, compact entries", EntryFormat::compact, 1, 0),
                            fed("4 publishers, compact entries", EntryFormat::compact, 4, 0.85),
                            fed("4 publishers, full entries", EntryFormat::full, 4, 0)},
             .rounds = kRounds});
}

// ---- a dispatch beside a session ----

void ask_dispatch(Suite& suite, const Options& options, const Peers& peers,
                  const BackendPointer& cuda) {
  constexpr Word kSlots = 256;
  const std::size_t calls = options.scale(400, 3);
  Megakernel kernel = must(Megakernel::create(cuda, {.slot_count = kSlots}));
  const std::vector<WorkItem> items(kSlots);
  ResidentRing ring(peers, kernel, items);
  Graph graph(peers);
  graph.add(peers.kernel("nothing"), kOneThread);
  graph.finish();
  const auto launch_graph = [&] {
    graph.launch();
    peers.synchronize();
  };
  const auto graph_ns = [&] {
    return median_ns(
        calls, [] {}, launch_graph);
  };
  const auto dispatch_ns = [&] {
    return median_ns(
        calls, [&] { ring.republish(); }, [&] { ring.dispatch(); });
  };
  const auto beside_a_session = [&](const auto& measure) {
    const Session session = must(kernel.start());
    return measure();
  };
  const auto batch_ns = [&] {
    Session session = must(kernel.start());
    Queue queue = must(session.open_queue({.capacity = 4 * kSlots}));
    const auto publish = [&] {
      must(queue.publish_items(items, kPatience));
      must(queue.wait_all(kPatience));
    };
    return median_ns(
        calls, [] {}, publish);
  };
  constexpr double kLeast = 1 / 1.3;
  suite.ask({.name = "dispatch_beside_a_session",
             .text = "256 empty slots, against launch + sync of a graph of one empty node",
             .items = kSlots,
             .bytes = kSlots * abi::kSlotBytes,
             .contenders = {{.name = "graph + sync", .measure = graph_ns},
                            {.name = "resident dispatch", .measure = dispatch_ns},
                            {.name = "resident dispatch, beside a session",
                             .measure = [&] { return beside_a_session(dispatch_ns); },
                             .least_ratio = kLeast},
                            {.name = "published as a batch and waited for", .measure = batch_ns}},
             .rounds = kRounds});
}

// ---- runs ----

constexpr Word kMark = 64;
constexpr std::string_view kMarkHandler = "handler mark = 64 { output[0] = param; }";

double run_ns(Megakernel& kernel, std::span<const WorkItem> items, const RunOptions& options) {
  return host_ns([&] {
    const RunReport report = must(kernel.run(items, options));
    expect(report.items_processed == items.size(), "a run processes every item");
  });
}

void ask_runs(Suite& suite, const Options& options, const Peers& peers,
              const BackendPointer& cuda) {
  MegakernelOptions shape = options_for(kMarkHandler, 1024);
  shape.workgroup_size = 1;
  Megakernel kernel = must(Megakernel::create(cuda, shape));
  const DataBuffer words = make_buffer(kernel, kOutput, 16);
  const auto count = static_cast<Word>(options.scale(10'000, 200));
  const std::vector<WorkItem> chain = numbered_items(kMark, count);
  Graph graph(peers, Graph::Order::chain);
  for (Word i = 0; i < count; ++i) graph.add(peers.kernel("nothing"), kOneThread);
  graph.finish();
  const auto graph_ns = [&] {
    return host_ns([&] {
      graph.launch();
      peers.synchronize();
    });
  };
  constexpr double kInRegionNs = 250, kHopNs = 900;
  const RunOptions alone{.fuse = false};
  suite.ask({.name = "run_of_dependent_items",
             .text = "a chain of items that each store a word, plan and report included, against a "
                     "chain of nodes of a CUDA graph",
             .items = count,
             .contenders = {{.name = "graph of empty nodes", .measure = graph_ns},
                            {.name = "run, 64 items a region",
                             .measure = [&] { return run_ns(kernel, chain, {}); },
                             .most_ns = kInRegionNs * count},
                            {.name = "run, an item a region",
                             .measure = [&] { return run_ns(kernel, chain, alone); },
                             .most_ns = kHopNs * count}},
             .rounds = kRounds});
  Word last = 0;
  must(words.read(0, {&last, 1}));
  expect(last == count - 1, "the last item of a chain ran last");

  // Twice the rate of benchmarks/gpu.json (run_of_nops, cuda: 22.4 ms for a million).
  constexpr double kMostNsPerItem = 11.2;
  const std::vector<WorkItem> nops(options.scale(1'000'000, 2'000));
  suite.ask({.name = "run_of_independent_items",
             .text = "empty items, plan and report included, against a session with one publisher",
             .items = nops.size(),
             .bytes = nops.size() * sizeof(WorkItem),
             .contenders = {{.name = "session, batches of 1,024",
                             .measure =
                                 [&] {
                                   Session session = must(kernel.start());
                                   return publish_ns(session, {.items = nops});
                                 }},
                            {.name = "run",
                             .measure = [&] { return run_ns(kernel, nops, {}); },
                             .most_ns = kMostNsPerItem * static_cast<double>(nops.size())}},
             .rounds = kRounds});
}

// ---- the program ----

int ask_all(const Options& options) {
  const auto opened = Peers::open();
  if (!opened) {
    if (opened.error().code != Code::unsupported) throw Failed{opened.error()};
    fmt::print("live_rate_bench measures nothing: {}\n", opened.error().message);
    return kSkipped;
  }
  const Peers& peers = **opened;
  const auto cuda = backend::cuda::make_backend();
  Suite suite("live_rate_bench", options);
  suite.set_patience(std::chrono::seconds(60));
  suite.note("gpu", peers.facts().name);
  suite.note("driver_cuda_version", fmt::format("{}", peers.driver_version()));
  std::string unanswered;
  const auto answer = [&](std::initializer_list<std::string_view> names, const auto& ask) {
    // Preparing takes longer than measuring, so questions that are filtered out are not prepared.
    const auto is_asked = [&](std::string_view name) {
      return name.find(options.only) != std::string_view::npos;
    };
    if (std::ranges::none_of(names, is_asked)) return;
    try {
      ask(suite, options, peers, cuda);
    } catch (const Failed& failed) {
      const std::string_view first = *names.begin();
      fmt::print("{}: NOT ANSWERED: {}; {}\n", first, failed.error.message, failed.error.hint);
      unanswered +=
          fmt::format("{}{}: {}", unanswered.empty() ? "" : "; ", first, failed.error.message);
    }
    std::fflush(stdout);
  };
  answer({"streams_of_1_publishers", "streams_of_4_publishers", "full_streams_of_1_publishers",
          "full_streams_of_4_publishers", "compact_streams_of_1_publishers",
          "compact_streams_of_4_publishers"},
         ask_streams);
  answer({"saxpy_fed_live"}, ask_saxpy);
  answer({"dispatch_beside_a_session"}, ask_dispatch);
  answer({"run_of_dependent_items", "run_of_independent_items"}, ask_runs);
  if (!unanswered.empty()) suite.note("unanswered", unanswered);
  const int status = suite.finish();
  return unanswered.empty() ? status : 1;
}

int run(int argc, char** argv) {
  try {
    return ask_all(Options::parse(argc, argv));
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
