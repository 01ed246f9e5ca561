// The cost of planning and running a list of items, compared with the least possible.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checked.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/native.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "harness.hpp"
#include "planner/plan.hpp"

namespace everkernel::bench {
namespace {

using abi::WorkItem;
using std::chrono::seconds;

constexpr Word kCopy = 64;
constexpr Word kMix = 65;
constexpr Word kCount = 66;
constexpr Word kStep = 67;
constexpr Word kWork = 68;
constexpr Word kOther = 69;
constexpr std::string_view kHandlers = R"(
handler copy = 64 pure { for i in 0 .. len(input) { output[i] = input[i] + param; } }
handler mix = 65 { for i in 0 .. len(output) { output[i] = output[i] * 3 + input[i]; } }
handler count = 66 commutes { for i in 0 .. len(input) { atomic_add(output[input[i] & 15], 1); } }
handler step = 67 { for i in 0 .. len(output) { output[i] = rotl(output[i] * 5 + param, 7); } }
handler work = 68 pure {
  var x = param;
  for i in 0 .. 6400 { x = x * 1664525 + 1013904223; }
  output[0] = x;
}
handler other = 69 pure { for i in 0 .. len(input) { output[i] = input[i] ^ param; } }
)";

ir::VerifiedProgram handlers() {
  return checked(ir::verify(checked(ir::parse(kHandlers))));
}

// ---- planning ----

// Items with handles drawn from as many buffers as items / 16.
std::vector<WorkItem> random_items(std::size_t count) {
  std::mt19937 random(7);
  const Word buffers = static_cast<Word>(std::max<std::size_t>(1, count / 16));
  std::vector<WorkItem> items(count);
  for (WorkItem& item : items) {
    item.op_handle = (random() & 1) != 0 ? kCopy : kMix;
    item.input_handle = 1 + static_cast<Word>(random() % buffers);
    item.output_handle = 1 + static_cast<Word>(random() % buffers);
  }
  return items;
}

// Half of the items add to one buffer, the other half read it.
std::vector<WorkItem> fan(std::size_t count) {
  std::vector<WorkItem> items(count / 2, WorkItem{kCount, 1, 2, 0});
  for (Word i = 0; i < count / 2; ++i) items.push_back({kCopy, 2, 3 + i, 0});
  return items;
}

// The minimum for a planner: reads two handles of each item and writes a word.
std::uint64_t look_at_handles(std::span<const WorkItem> items, std::vector<Word>& last) {
  std::ranges::fill(last, 0);
  std::uint64_t sum = 0;
  for (Word i = 0; i < items.size(); ++i) {
    sum += last[items[i].input_handle] + last[items[i].output_handle];
    last[items[i].output_handle] = i;
  }
  return sum;
}

// A simple planner: a map of handles, and a list of edges for every item.
std::uint64_t plan_with_maps(std::span<const WorkItem> items) {
  struct Known {
    Word writer = ~Word{0};
    std::vector<Word> readers;
  };
  std::unordered_map<Word, Known> handles;
  std::vector<std::vector<Word>> waiters(items.size());
  for (Word i = 0; i < items.size(); ++i) {
    Known& input = handles[items[i].input_handle];
    if (input.writer != ~Word{0}) waiters[input.writer].push_back(i);
    input.readers.push_back(i);
    Known& output = handles[items[i].output_handle];
    if (output.writer != ~Word{0}) waiters[output.writer].push_back(i);
    for (const Word reader : output.readers) waiters[reader].push_back(i);
    output.readers.clear();
    output.writer = i;
  }
  return waiters.back().size();
}

void ask_planning(Suite& suite, std::string name, std::string text,
                  const std::vector<WorkItem>& items, bool with_peer) {
  const ir::VerifiedProgram program = handlers();
  const planner::EffectTable effects(&program);
  planner::Plan plan;
  Word most = 0;
  for (const WorkItem& item : items) most = std::max({most, item.input_handle, item.output_handle});
  std::vector<Word> last(std::size_t{most} + 1);
  std::vector<Contender> contenders{
      {"two looks an item", [&] { return look_at_handles(items, last); }},
      {"plan()",
       [&] {
         const auto planned = planner::plan({.items = items, .effects = &effects}, plan);
         if (!planned) give_up(planned.error());
         return plan.regions;
       }},
      {"plan(), fresh memory", [&] {
         planner::Plan fresh;
         const auto planned = planner::plan({.items = items, .effects = &effects}, fresh);
         if (!planned) give_up(planned.error());
         return fresh.regions;
       }}};
  if (with_peer) contenders.push_back({"maps and vectors", [&] { return plan_with_maps(items); }});
  suite.ask({std::move(name), std::move(text), items.size(), items.size() * sizeof(WorkItem),
             std::move(contenders)});
  fmt::print("  {:.1f} bytes an item beside the list, {} regions, {} dependencies\n",
             static_cast<double>(plan.size_bytes()) / static_cast<double>(items.size()),
             plan.regions, plan.dependencies);
}

// ---- running ----

struct Machine {
  Megakernel kernel;
  std::vector<DataBuffer> buffers;

  Machine(std::size_t buffer_count, std::size_t words)
      : kernel(checked(Megakernel::create(
            backend::cpu::make_backend(),
            {.slot_count = 1024, .workgroup_size = 1, .handlers = handlers()}))) {
    for (Word handle = 1; handle <= buffer_count; ++handle) {
      buffers.push_back(checked(kernel.create_buffer({.handle = handle, .word_count = words})));
    }
  }

  std::uint64_t run(std::span<const WorkItem> items, const RunOptions& options = {}) {
    const RunReport report = checked(kernel.run(items, options));
    if (report.items_processed != items.size()) std::abort();
    return report.items_processed;
  }
};

void ask_nops(Suite& suite, std::size_t count) {
  Machine machine(0, 0);
  Session session = checked(machine.kernel.start());
  const std::vector<WorkItem> items(count);
  const PublishOptions patient{.timeout = seconds(10)};
  suite.ask({"run_of_nops",
             "a run of independent empty items, against the same through a session",
             count,
             count * sizeof(WorkItem),
             {{"session, batches of 256",
               [&] {
                 for (std::size_t sent = 0; sent < count; sent += 256) {
                   const std::size_t batch = std::min<std::size_t>(256, count - sent);
                   checked(session.publish_items({items.data() + sent, batch}, patient));
                 }
                 const auto waited = session.wait_all(seconds(10));
                 if (!waited) give_up(waited.error());
                 return count;
               }},
              {"run, plan and report included", [&] { return machine.run(items); }}}});
}

// The floor: a loop that calls the native code for one item after the other.
class BareLoop {
 public:
  BareLoop(std::size_t words) : words_(words) {
    buffer_ = std::make_unique<memory::Buffer>(
        checked(table_.create({.handle = 1, .word_count = words_})));
  }

  std::uint64_t run(std::size_t handler, std::size_t count) {
    ir::ItemFrame frame;
    frame.buffers = table_.view();
    for (std::size_t i = 0; i < count; ++i) {
      frame.args[0] = 0;
      frame.args[1] = 1;
      frame.args[2] = static_cast<Word>(i);
      frame.fuel = ir::kDefaultFuel;
      if (native_.run(handler, frame).ending != ir::Ending::done) std::abort();
    }
    return buffer_->words()[0];
  }

 private:
  std::size_t words_;
  memory::BufferTable table_;
  std::unique_ptr<memory::Buffer> buffer_;
  jit::NativeProgram native_ =
      checked(jit::NativeProgram::compile(handlers(), {.memory = jit::MemoryUse::exclusive}));
};

void ask_chain(Suite& suite, std::size_t count, std::size_t words) {
  Machine machine(1, words);
  BareLoop loop(words);
  std::vector<WorkItem> items;
  for (Word i = 0; i < count; ++i) items.push_back({kStep, 0, 1, i});
  const RunOptions one{.worker_count = 1};
  suite.ask({fmt::format("chain_of_{}_words", words),
             fmt::format("a chain of dependent items of {} words each, against the bare loop of "
                         "handler calls",
                         words),
             count,
             count * words * sizeof(Word),
             {{"bare loop", [&] { return loop.run(3, count); }},
              {"run", [&] { return machine.run(items); }},
              {"run, one worker", [&] { return machine.run(items, one); }}}});
}

void ask_dedupe(Suite& suite, std::size_t count) {
  Machine machine(64, 16);
  std::vector<WorkItem> items;
  for (Word i = 0; i < count; ++i) items.push_back({kWork, 0, 1 + i / 2 % 64, i / 2});
  RunOptions all;
  all.dedupe = false;
  suite.ask({"dedupe",
             "half of the items are duplicates; a handler of about 1 us",
             count,
             0,
             {{"all of them run", [&] { return machine.run(items, all); }},
              {"duplicates dropped", [&] { return machine.run(items); }}}});
}

void ask_execution(Suite& suite, std::size_t count) {
  Machine machine(64, 256);
  std::mt19937 random(3);
  std::vector<WorkItem> items;
  for (Word i = 0; i < count; ++i) {
    const Word opcode = (random() & 1) != 0 ? kCopy : kOther;
    items.push_back(
        {opcode, 1 + static_cast<Word>(random() % 32), 33 + static_cast<Word>(random() % 32), i});
  }
  const RunOptions interpreted{.execution = backend::Execution::interpreter};
  const RunOptions compiled{.execution = backend::Execution::native};
  suite.ask({"execution_mode",
             "256 words an item, interpreted and as specialised native code",
             count,
             count * 256 * sizeof(Word),
             {{"interpreter", [&] { return machine.run(items, interpreted); }},
              {"jit", [&] { return machine.run(items, compiled); }}}});
}

}  // namespace
}  // namespace everkernel::bench

int main(int argc, char** argv) {
  using namespace everkernel::bench;
  const Options options = Options::parse(argc, argv);
  Suite suite("run", options);
  ask_planning(suite, "plan_1m", "planning a million items over as many buffers as items / 16",
               random_items(options.scale(1'000'000, 2'000)), true);
  ask_planning(suite, "plan_10m", "planning ten million",
               random_items(options.scale(10'000'000, 4'000)), false);
  ask_planning(suite, "plan_fan", "commuting writers of a buffer, then as many readers",
               fan(options.scale(200'000, 2'000)), false);
  ask_nops(suite, options.scale(1'000'000, 2'000));
  ask_chain(suite, options.scale(100'000, 1'000), 16);
  ask_chain(suite, options.scale(100'000, 1'000), 64);
  ask_chain(suite, options.scale(100'000, 1'000), 256);
  ask_chain(suite, options.scale(100'000, 1'000), 1024);
  ask_dedupe(suite, options.scale(1'000'000, 1'000));
  ask_execution(suite, options.scale(20'000, 500));
  return suite.finish();
}
