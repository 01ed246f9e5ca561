// Items of sessions for compute-sanitizer: through every kind of queue, by handlers of every scope,
// while buffers come and go. The CPU runs the same items.
#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <random>
#include <span>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "sanitizer_workload.hpp"

namespace everkernel::test {
namespace {

using protocol::Operation;

constexpr Word kInput = 1, kOutput = 2, kSpare = 3;
constexpr Word kInputWords = 1024;
constexpr Word kOutputWords = 256 + 2048 * 64;  // sums, and rows that only one handler writes
constexpr Word kObservables = 8;
constexpr Word kItemsEach = 64;  // of a queue, in a round; no more than places
constexpr std::size_t kWordsOfEnd = 4;
// Under a sanitizer, the program is up to a hundred times slower.
constexpr auto kPatience = std::chrono::minutes(5);

// From opcode 64 on. What they leave in `output` does not depend on the order of items.
constexpr std::string_view kHandlers = R"(
handler add = 64 { args[9] = param * 3; args[11] = tenant; atomic_add(output[param & 255], 1); }
handler triple = 65 scope warp {
  let first = 256 + (param & 1023) * 64;
  each i in 0 .. 64 { output[first + i] = input[(param + i) & 1023] * 3 + lane; }
}
handler countdown = 66 {
  if args[3] == 0 { args[10] = param; return; }
  args[3] = args[3] - 1;
  yield;
}
handler later = 67 scope warp {
  if args[3] == 0 { return; }
  args[3] = args[3] - 1;
  requeue;
}
handler outside = 68 { output[len(output) + param] = 1; }
handler say = 69 { printf(param, tenant, 7); }
handler spread = 70 scope group {
  let first = 256 + (1024 + (param & 1023)) * 64;
  each i in 0 .. 64 { output[first + i] = input[(param + i) & 1023] + i; }
}
handler tally = 71 scope group commutes {
  each i in 0 .. len(input) { atomic_add(output[input[i] & 255], 1); }
}
handler strict = 72 scope group {
  each i in 0 .. 64 { if (i & 7) == (param & 7) { fault i; } }
}
)";
constexpr Word kOpcodes = 9;
constexpr std::uint8_t kPackable = 65;

struct Kind {
  Word tenant;
  Priority priority;
  abi::EntryFormat entries;
  bool results;
};

constexpr Kind kKinds[] = {
    {0, Priority::normal, abi::EntryFormat::compact, false},
    {1, Priority::low, abi::EntryFormat::compact, true},
    {2, Priority::critical, abi::EntryFormat::compact, false},
    {3, Priority::high, abi::EntryFormat::full, false},
    {0, Priority::idle, abi::EntryFormat::full, true},
    {1, Priority::normal, abi::EntryFormat::full, true},
};

// The items of a queue in one round.
struct Batch {
  std::vector<Operation> singles = {};
  std::vector<abi::WorkItem> together = {};
  std::vector<Operation> before_fence = {};
  std::vector<std::array<Word, 4>> args = {};  // of the operations
};

// An operation whose arguments lie in the batch.
Operation random_operation(std::mt19937& random, Batch& batch) {
  const Word number = static_cast<Word>(random());
  Word opcode = 64 + number % kOpcodes;
  std::array<Word, 4> args{kInput, kOutput, number >> 8 & 4095, number >> 20 & 3};
  if (number >> 29 == 0) {
    opcode = static_cast<Word>(abi::Opcode::atomic_add);
    args = {1, abi::kControlFirstObservable + 1 + (number >> 8) % (kObservables - 1)};
  }
  if (number >> 29 == 1) opcode = static_cast<Word>(abi::Opcode::nop);
  batch.args.push_back(args);
  return {.opcode = opcode, .args = batch.args.back()};
}

Batch random_batch(std::mt19937& random, const Kind& kind) {
  Batch batch;
  batch.args.reserve(kItemsEach);
  const bool is_full = kind.entries == abi::EntryFormat::full;
  while (batch.args.size() < kItemsEach - 2) {  // a packed item and a fence are the last
    const std::size_t way = batch.args.size() % 3;
    Operation operation = random_operation(random, batch);
    if (!is_full) operation.args = operation.args.first(3);
    if (way == 0) batch.singles.push_back(operation);
    if (way == 1) batch.before_fence.push_back(operation);
    if (way == 2) {
      const auto args = operation.args;
      batch.together.push_back({operation.opcode, args[0], args[1], args[2]});
    }
  }
  return batch;
}

// A session on one backend.
class Side {
 public:
  explicit Side(const std::shared_ptr<backend::Backend>& backend)
      : kernel_(checked(Megakernel::create(
            backend, {.handlers = checked(ir::verify(checked(ir::parse(kHandlers))))}))),
        input_(checked(kernel_.create_buffer(
            {.handle = kInput, .word_count = kInputWords, .access = memory::Access::read}))),
        output_(checked(kernel_.create_buffer({.handle = kOutput, .word_count = kOutputWords}))),
        session_(checked(kernel_.start({.observable_slots = kObservables}))) {
    std::vector<Word> words(kInputWords);
    for (Word i = 0; i < kInputWords; ++i) words[i] = i * 2654435761u >> 7;
    checked(input_.write(0, words));
    while_parked([this] { open_queues(); });
  }

  // Publishes the items of every queue, then waits for each; gives how they ended.
  std::vector<Word> run(std::span<const Batch> batches, Word tag) {
    // The table of buffers changes.
    while_parked([this] {
      spare_.reset();
      spare_.emplace(checked(kernel_.create_buffer({.handle = kSpare, .word_count = 64})));
    });
    std::vector<std::vector<TicketRange>> ranges(queues_.size());
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      ranges[i] = publish(queues_[i], kKinds[i], batches[i], tag);
    }
    std::vector<Word> ends;
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      for (const TicketRange& range : ranges[i]) {
        for (Word k = 0; k < range.count; ++k) {
          const Completion end = checked(queues_[i].wait(range[k], kPatience));
          ends.push_back(end.fault_code);
          ends.insert(ends.end(), end.results.begin(), end.results.end());
        }
      }
    }
    return ends;
  }

  std::vector<Word> output() const {
    std::vector<Word> words(kOutputWords);
    checked(output_.read(0, words));
    return words;
  }
  std::vector<Word> observables() const {
    std::vector<Word> words;
    for (Word i = 0; i < kObservables; ++i) words.push_back(checked(session_.observable(i)));
    return words;
  }
  std::vector<Word> stop() {
    const StopReport report = session_.stop(StopMode::drain, kPatience);
    return {static_cast<Word>(report.done), static_cast<Word>(report.faulted),
            static_cast<Word>(report.cancelled)};
  }

 private:
  // The sanitizer knows the memory that was there when a kernel was launched: the kernel of a
  // session is launched again behind whatever allocates or maps memory.
  template <class Act>
  void while_parked(const Act& act) {
    checked(session_.parked(act, kPatience));
  }

  void open_queues() {
    for (const Kind& kind : kKinds) {
      queues_.push_back(checked(session_.open_queue({.tenant = TenantId(kind.tenant),
                                                     .priority = kind.priority,
                                                     .capacity = 2 * kItemsEach,
                                                     .entries = kind.entries,
                                                     .results = kind.results})));
    }
  }

  static std::vector<TicketRange> publish(Queue& queue, const Kind& kind, const Batch& batch,
                                          Word tag) {
    std::vector<TicketRange> ranges;
    for (const Operation& single : batch.singles) {
      ranges.push_back({checked(queue.publish(single, kPatience)), 1});
    }
    ranges.push_back(checked(queue.publish_items(batch.together, kPatience)));
    ranges.push_back(checked(queue.publish_batch(batch.before_fence, tag, kPatience)));
    if (kind.entries == abi::EntryFormat::full) {
      const Word add[] = {1, abi::kControlFirstObservable + 1};
      const auto atomic_add = static_cast<std::uint8_t>(abi::Opcode::atomic_add);
      const protocol::PackedOp ops[] = {{.opcode = atomic_add, .args = add},
                                        {.opcode = kPackable, .args = batch.args[0]},
                                        {.opcode = atomic_add, .args = add}};
      ranges.push_back({checked(queue.publish_packed(ops, kPatience)), 1});
    }
    return ranges;
  }

  Megakernel kernel_;
  DataBuffer input_, output_;
  std::optional<DataBuffer> spare_;
  Session session_;
  std::vector<Queue> queues_;
};

}  // namespace

std::size_t run_sessions(const std::shared_ptr<backend::Backend>& cuda, std::size_t items) {
  Side gpu(cuda);
  Side cpu(backend::cpu::make_backend());
  std::mt19937 random(1);
  std::size_t done = 0;
  for (Word round = 1; done < items; ++round) {
    std::vector<Batch> batches;
    for (const Kind& kind : kKinds) batches.push_back(random_batch(random, kind));
    const std::vector<Word> ends = gpu.run(batches, round);
    compare("ends of items", ends, cpu.run(batches, round));
    compare("output", gpu.output(), cpu.output());
    compare("observables", gpu.observables(), cpu.observables());
    done += ends.size() / kWordsOfEnd;
  }
  compare("report", gpu.stop(), cpu.stop());
  fmt::print("sessions: {} items, as on the CPU\n", done);
  std::fflush(stdout);
  return done;
}

}  // namespace everkernel::test
