#include "live_items.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"
#include "neighbours.hpp"

namespace everkernel::bench {
namespace {

constexpr std::string_view kHandlers = R"(
handler add = 64 { atomic_add(output[0], param); }
handler spin = 65 { var x = 1; for i in 0 .. param { x = x * 1664525 + 1013904223; } args[9] = x; }
handler answer = 66 { args[9] = args[0]; args[10] = args[1]; args[11] = param; }
)";
constexpr std::string_view kHandlerForever = "handler forever = 67 { yield; }";

constexpr Word kFloodCapacity = 1 << 16;
constexpr std::size_t kFloodBatch = 1024;
constexpr auto kFloodLead = std::chrono::milliseconds(20);

// Producers at full speed, for as long as it exists.
class FloodsOf {
 public:
  FloodsOf(Session& session, const Floods& floods) {
    for (unsigned i = 0; i < floods.count; ++i) {
      queues_.push_back(
          must(session.open_queue({.priority = floods.priority, .capacity = kFloodCapacity})));
    }
    for (Queue& queue : queues_) {
      floods_.push_back(std::make_unique<Flood>(queue, floods.item, kFloodBatch));
    }
    if (floods.count != 0) std::this_thread::sleep_for(kFloodLead);
  }
  // Publishes no more.
  void end() { floods_.clear(); }
  // Items whose end their producers have noted.
  std::uint64_t ended() const {
    std::uint64_t sum = 0;
    for (const Queue& queue : queues_) sum += queue.counters().noted;
    return sum;
  }

 private:
  std::vector<Queue> queues_;
  std::vector<std::unique_ptr<Flood>> floods_;  // last: they use the queues
};

}  // namespace

Megakernel make_live_kernel(const std::shared_ptr<backend::Backend>& backend, bool has_forever) {
  const std::string text = fmt::format("{}{}", kHandlers, has_forever ? kHandlerForever : "");
  return must(Megakernel::create(backend, {.handlers = must(ir::verify(must(ir::parse(text)))),
                                           .compile_timeout = std::chrono::seconds(60)}));
}

Word turns_of(Megakernel& kernel, const Options& options, std::chrono::nanoseconds length) {
  if (options.smoke) return 50;
  LiveItems items(kernel, 500, 50);
  const auto p50 = [&](Word turns) {
    const std::array<Word, 3> args{0, 0, turns};
    return items.live({.item = {.opcode = kSpin, .args = args}}).front();
  };
  // Short enough that the waiting thread does not go to sleep.
  constexpr Word kTurns = 500;
  const double turn_ns = (p50(3 * kTurns) - p50(kTurns)) / (2 * kTurns);
  expect(turn_ns > 0, "more turns take longer");
  return static_cast<Word>(static_cast<double>(length.count()) / turn_ns);
}

std::vector<std::string> percentile_names() {
  return {"p50", "p99", "p99.9"};
}

double percentile(std::vector<double>& times, double part) {
  expect(!times.empty(), "there are times");
  const auto at =
      times.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(times.size() - 1));
  std::ranges::nth_element(times, at);
  return *at;
}

std::vector<double> percentiles(std::vector<double>& times) {
  return {percentile(times, 0.5), percentile(times, 0.99), percentile(times, 0.999)};
}

std::vector<double> LiveItems::live(const Scene& scene) {
  return calls(scene, [&scene](Session& session, Queue& queue) {
    const Completion completion =
        scene.through_session ? must(session.wait(must(session.publish(scene.item)), kPatience))
                              : must(queue.wait(must(queue.publish(scene.item)), kPatience));
    expect(completion.is_done(), "an item ends as DONE");
  });
}

std::vector<double> LiveItems::calls(const Scene& scene,
                                     const std::function<void(Session&, Queue&)>& call) {
  Session session = must(kernel_.start());
  std::vector<Queue> queues;
  for (Word i = 0; i < scene.queue_count; ++i) {
    queues.push_back(must(session.open_queue(scene.queue)));
  }
  FloodsOf floods(session, scene.beside);
  std::vector<double> times(count_);
  Pauses pauses;
  const std::uint64_t ended_before = floods.ended();
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < warm_count_ + count_; ++i) {
    Queue& queue = queues[pauses.draw() % queues.size()];
    if (scene.pauses) pauses.pass();
    const double time = host_ns([&] { call(session, queue); });
    if (i >= warm_count_) times[i - warm_count_] = time;
  }
  const std::chrono::duration<double> passed = Clock::now() - begin;
  flood_rate_ = static_cast<double>(floods.ended() - ended_before) / passed.count();
  expect(scene.beside.count == 0 || flood_rate_ > 0, "floods go on beside the items");
  floods.end();
  session.stop(StopMode::cancel, std::chrono::nanoseconds(0));
  return percentiles(times);
}

}  // namespace everkernel::bench
