// The cost of an item on the CPU backend, in sessions and dispatches, compared with peers.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "checked.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "harness.hpp"
#include "peers.hpp"

namespace everkernel::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr Word kSlots = 1024;
constexpr std::size_t kBatch = 256;

// One core is left to the publisher.
unsigned worker_count() {
  return std::max(1u, std::thread::hardware_concurrency() - 1);
}

// An item with a loop, which a waiting thread does not run itself.
constexpr Word kLooping = 64;
constexpr std::string_view kHandlers = "handler looping = 64 { for i in 0 .. 1 { args[3] = i; } }";

Megakernel make_kernel(Word slots, unsigned workers, std::string_view handlers = {}) {
  return checked(Megakernel::create(backend::cpu::make_backend(),
                                    {.slot_count = slots,
                                     .workgroup_size = 1,
                                     .handlers = checked(ir::verify(checked(ir::parse(handlers)))),
                                     .worker_count = workers}));
}

const PublishOptions kPatient{.timeout = seconds(10)};

// Into a queue, or into a session, which publishes into a queue with full entries.
void publish_in_batches(auto& target, const auto& patience, std::size_t items) {
  const std::vector<abi::WorkItem> batch(kBatch, abi::WorkItem{});
  for (std::size_t sent = 0; sent < items; sent += kBatch) {
    const std::size_t count = std::min(kBatch, items - sent);
    checked(target.publish_items({batch.data(), count}, patience));
  }
  check(target.wait_all(seconds(10)));
}

void publish_one_by_one(auto& target, const auto& patience, std::size_t items) {
  for (std::size_t i = 0; i < items; ++i) checked(target.publish({}, patience));
  check(target.wait_all(seconds(10)));
}

double timed_ns(const auto& call) {
  const auto begin = Clock::now();
  call();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

// The threads of a contender exist only while it is measured, so that contenders do not compete.
std::vector<Contender> throughput_contenders(Megakernel& kernel, std::size_t items) {
  const auto with_session = [&kernel, items](const auto& publish) {
    Session session = checked(kernel.start());
    publish(session, kPatient, kSlots);  // the first lap touches fresh pages
    return timed_ns([&] { publish(session, kPatient, items); });
  };
  const auto with_queue = [&kernel, items](const auto& publish) {
    Session session = checked(kernel.start());
    Queue queue = checked(session.open_queue({.capacity = kSlots}));
    publish(queue, kPatient.timeout, kSlots);
    return timed_ns([&] { publish(queue, kPatient.timeout, items); });
  };
  const auto in_batches = [](auto&... arguments) { publish_in_batches(arguments...); };
  const auto one_by_one = [](auto&... arguments) { publish_one_by_one(arguments...); };
  return {
      {.name = "compact queue, batches of 256", .measure = [=] { return with_queue(in_batches); }},
      {.name = "compact queue, one by one", .measure = [=] { return with_queue(one_by_one); }},
      {.name = "session, batches of 256", .measure = [=] { return with_session(in_batches); }},
      {.name = "session, one by one", .measure = [=] { return with_session(one_by_one); }}};
}

void ask_throughput(Suite& suite, const Options& options) {
  const std::size_t items = options.scale(1 << 18, 1 << 10);
  Megakernel kernel = make_kernel(kSlots, worker_count());
  const auto ask = [&](std::string name, std::string text, const std::vector<Contender>& peers) {
    Question question{.name = std::move(name),
                      .text = std::move(text),
                      .items = items,
                      .bytes = items * abi::kSlotBytes,
                      .contenders = peers};
    std::ranges::move(throughput_contenders(kernel, items),
                      std::back_inserter(question.contenders));
    suite.ask(question);
  };
  ask("items_beside_a_bare_ring",
      "empty items through a session, against slots through a bare ring",
      {{.name = "bare ring",
        .measure =
            [=] {
              BareRing bare;
              bare.run(kSlots, kBatch);
              return timed_ns([&] { bare.run(items, kBatch); });
            }},
       {.name = "mutex and deque", .measure = [=] {
          MutexPool pool(worker_count());
          return timed_ns([&] { pool.run(items); });
        }}});
  if (!has_tbb()) {
    fmt::print("oneTBB was not there at build time: its questions are left out\n");
    return;
  }
  ask("items_beside_task_group", "the same, against empty tasks of oneTBB's task_group",
      {{.name = "tbb::task_group", .run = [=] { return run_task_group(items); }}});
  ask("items_beside_parallel_for", "the same, against oneTBB's parallel_for with grain 1",
      {{.name = "tbb::parallel_for, grain 1", .run = [=] { return run_parallel_for(items); }}});
}

// Median time of one call, each timed alone.
double median_ns(std::size_t calls, const auto& call) {
  std::vector<double> times;
  times.reserve(calls);
  for (std::size_t i = 0; i < calls; ++i) {
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(calls / 2));
  return times[calls / 2];
}

void ask_round_trip(Suite& suite, const Options& options) {
  const std::size_t calls = options.scale(20'000, 100);
  Megakernel kernel = make_kernel(kSlots, 1, kHandlers);
  const auto round_trip = [&](Session& session, Word opcode) {
    const Ticket ticket = checked(session.publish({.opcode = opcode}));
    checked(session.wait(ticket, seconds(10)));
  };
  // Contenders that are not being measured must not spin: their threads do not exist then.
  suite.ask({.name = "round_trip",
             .text = "p50 of publishing one item and waiting for it, against a bare ping-pong",
             .items = 1,
             .bytes = abi::kSlotBytes,
             .contenders = {{.name = "two-thread ping-pong",
                             .measure =
                                 [&] {
                                   PingPong peer;
                                   return median_ns(calls, [&] { peer.run(); });
                                 }},
                            {.name = "session, run by the waiter",
                             .measure =
                                 [&] {
                                   Session session = checked(kernel.start());
                                   return median_ns(calls, [&] { round_trip(session, 0); });
                                 }},
                            {.name = "session, run by a worker", .measure = [&] {
                               Session session = checked(kernel.start());
                               return median_ns(calls, [&] { round_trip(session, kLooping); });
                             }}}});
}

struct Rings {
  std::vector<std::byte> control;
  std::vector<std::byte> ring;
};

Rings make_rings(Word slots) {
  Rings rings;
  const protocol::ControlLayout layout{.tenant_count = 1};
  rings.control.resize(checked(protocol::control_bytes(layout)));
  check(protocol::encode_control(layout, rings.control));
  rings.ring.resize(checked(protocol::ring_bytes(slots)));
  const std::vector<abi::WorkItem> items(slots, abi::WorkItem{});
  check(protocol::encode_items({.items = items}, rings.ring));
  return rings;
}

// Fills the resident rings again, then times the dispatch alone.
double dispatch_ns(Megakernel& kernel, std::vector<ResidentBuffers>& resident,
                   std::span<const std::byte> ring, Workspace& workspace) {
  std::vector<Submission> submissions;
  for (ResidentBuffers& buffers : resident) {
    check(buffers.write(protocol::Buffer::ring, 0, ring));
    submissions.emplace_back(&buffers);
  }
  const auto begin = Clock::now();
  checked(kernel.dispatch(
      {.submissions = submissions, .readback = Readback::none, .workspace = &workspace}));
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

void ask_batch(Suite& suite) {
  constexpr Word kRows = 64;
  constexpr Word kRowSlots = 256;
  Megakernel large = make_kernel(kRows * kRowSlots, std::thread::hardware_concurrency());
  Megakernel small = make_kernel(kRowSlots, std::thread::hardware_concurrency());
  const Rings large_rings = make_rings(kRows * kRowSlots);
  const Rings small_rings = make_rings(kRowSlots);
  std::vector<ResidentBuffers> one, many;
  one.push_back(
      checked(large.make_resident({.control = large_rings.control, .ring = large_rings.ring})));
  for (Word i = 0; i < kRows; ++i) {
    many.push_back(
        checked(small.make_resident({.control = small_rings.control, .ring = small_rings.ring})));
  }
  Workspace large_workspace, small_workspace;
  suite.ask(
      {.name = "dispatch_of_64_submissions",
       .text = "64 resident submissions of 256 empty slots, against one of 16384",
       .items = kRows * kRowSlots,
       .bytes = std::uint64_t{kRows} * kRowSlots * abi::kSlotBytes,
       .contenders = {
           {.name = "one submission",
            .measure = [&] { return dispatch_ns(large, one, large_rings.ring, large_workspace); }},
           {.name = "64 submissions", .measure = [&] {
              return dispatch_ns(small, many, small_rings.ring, small_workspace);
            }}}});
}

int run(int argc, char** argv) {
  const Options options = Options::parse(argc, argv);
  Suite suite("session", options);
  ask_throughput(suite, options);
  ask_round_trip(suite, options);
  ask_batch(suite);
  return suite.finish();
}

}  // namespace
}  // namespace everkernel::bench

int main(int argc, char** argv) {
  return everkernel::bench::run(argc, argv);
}
