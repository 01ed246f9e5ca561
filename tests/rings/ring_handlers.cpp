#include "ring_handlers.hpp"

#include <algorithm>
#include <bit>

namespace everkernel::test {
namespace {

using Kind = RunEnd::Kind;

constexpr std::string_view kText = R"(
handler countdown = 8 {
  atomic_add(output[args[4]], param);
  if args[3] == 0 {
    if args[6] != 0 { fault args[7]; }
    return;
  }
  args[3] = args[3] - 1;
  if args[3] % 2 == args[5] { requeue; }
  yield;
}
handler faulter = 9 { atomic_add(output[args[4]], param); fault args[3]; }
handler looper = 10 {
  if args[5] == 0 {
    let others = atomic_add(buffer(6)[0], 1);
    atomic_max(buffer(6)[1], others + 1);
  }
  var sum = 0;
  for i in 0 .. args[3] { sum = rotl(sum, 5) ^ (i + param); }
  if args[5] == 0 { atomic_add(buffer(6)[0], 0xffffffff); }
  atomic_add(output[args[4]], sum);
}
handler twice = 16 { atomic_add(output[param], args[3]); atomic_add(output[param], args[3]); }
handler observe = 31 { atomic_add(control[args[4]], param); control[args[3]] = param; }
handler mover = 64 { output[args[3]] = input[args[4]] * 3 + param; }
handler mark = 200 {
  output[args[3]] = slot;
  output[args[3] + 1] = tenant;
  output[args[3] + 2] = priority;
  output[args[3] + 3] = opcode;
  args[5] = ~args[5];
}
handler total = 255 scope group {
  each i in 0 .. args[3] { atomic_add(output[args[4]], input[i]); }
}
handler printer = 0xffef {
  printf(param, args[3], slot);
  if args[5] != 0 {
    args[5] = args[5] - 1;
    yield;
  }
  printf(args[4], tenant, args[5]);
}
handler stamp = 0x10000 {
  output[args[3]] = slot;
  output[args[3] + 1] = tenant;
  output[args[3] + 2] = priority;
  output[args[3] + 3] = opcode;
  args[5] = ~args[5];
}
handler waiter = 0x7fffffff {
  if args[3] == 0 {
    args[3] = 1;
    if args[8] == 0 { await read(args[4], args[5], args[6], args[7]); }
    await write(args[4], args[5], args[6], args[7]);
  }
  atomic_add(output[args[9]], param);
}
payload {
  atomic_add(buffer(5)[args[4] % 80], opcode + param);
  if args[3] != 0 && args[3] < 4 {
    args[3] = args[3] - 1;
    yield;
  }
}
)";

RunEnd fault(std::vector<Word> codes) {
  return {.kind = Kind::fault, .codes = std::move(codes)};
}

// Adds to a word of `output`; false if the access is a fault.
bool add_to_output(const ItemRun& run, ItemWorld& world, Word index, Word addend,
                   std::vector<Word>& codes) {
  Word* const word = data_word(world, run.args[1], index, 3, run.tenant, codes);
  if (word != nullptr) *word += addend;
  return word != nullptr;
}

RunEnd run_countdown(ItemRun& run, ItemWorld& world) {
  std::vector<Word> codes;
  auto& args = run.args;
  if (!add_to_output(run, world, args[4], args[2], codes)) return fault(codes);
  if (args[3] == 0) {
    if (args[6] != 0) return fault({256 + std::min<Word>(args[7], 65279)});
    return {};
  }
  args[3] -= 1;
  return {.kind = args[3] % 2 == args[5] ? Kind::requeue : Kind::yield};
}

RunEnd run_looper(const ItemRun& run, ItemWorld& world) {
  std::vector<Word> codes;
  if (run.args[3] > world.fuel) return fault({4});
  Word sum = 0;
  for (Word i = 0; i < run.args[3]; ++i) sum = std::rotl(sum, 5) ^ (i + run.args[2]);
  return add_to_output(run, world, run.args[4], sum, codes) ? RunEnd{} : fault(codes);
}

RunEnd run_observe(const ItemRun& run, ItemWorld& world) {
  std::vector<Word> codes;
  Word* const sum = control_word(world, run.args[4], run.tenant, codes);
  if (sum == nullptr) return fault(codes);
  *sum += run.args[2];
  Word* const value = control_word(world, run.args[3], run.tenant, codes);
  if (value == nullptr) return fault(codes);
  *value = run.args[2];
  return {};
}

RunEnd run_mover(const ItemRun& run, ItemWorld& world) {
  std::vector<Word> codes;
  Word* const target = data_word(world, run.args[1], run.args[3], 2, run.tenant, codes);
  const Word* const source = data_word(world, run.args[0], run.args[4], 1, run.tenant, codes);
  if (target == nullptr || source == nullptr) return fault(codes);
  *target = *source * 3 + run.args[2];
  return {};
}

RunEnd run_stamp(ItemRun& run, ItemWorld& world) {
  const Word seen[] = {run.slot, run.tenant, run.priority, run.opcode};
  for (Word i = 0; i < 4; ++i) {
    std::vector<Word> codes;
    // Index arithmetic of handlers wraps.
    const Word index = run.args[3] + i;
    Word* const word = data_word(world, run.args[1], index, 2, run.tenant, codes);
    if (word == nullptr) return fault(codes);
    *word = seen[i];
  }
  run.args[5] = ~run.args[5];
  return {};
}

// A turn that faults ends alone; the item takes the code of the lowest turn that faulted.
RunEnd run_total(const ItemRun& run, ItemWorld& world) {
  std::vector<Word> first_codes;
  for (Word i = 0; i < run.args[3]; ++i) {
    std::vector<Word> codes;
    const Word* const source = data_word(world, run.args[0], i, 1, run.tenant, codes);
    Word* const target = data_word(world, run.args[1], run.args[4], 3, run.tenant, codes);
    if (source != nullptr && target != nullptr) {
      *target += *source;
    } else if (first_codes.empty()) {
      first_codes = codes;
    }
  }
  return first_codes.empty() ? RunEnd{} : fault(first_codes);
}

RunEnd run_printer(ItemRun& run, ItemWorld& world) {
  auto& args = run.args;
  world.records.push_back({args[2], args[3], run.slot, run.slot * 16});
  if (args[5] != 0) {
    args[5] -= 1;
    return {.kind = Kind::yield};
  }
  world.records.push_back({args[4], run.tenant, args[5], run.slot * 16});
  return {};
}

RunEnd run_waiter(ItemRun& run, ItemWorld& world) {
  auto& args = run.args;
  if (args[3] == 0) {
    args[3] = 1;
    const std::uint64_t offset = std::uint64_t{args[5]} * 4096;
    return {.kind = Kind::wait_io,
            .request = {args[8] == 0 ? 1u : 2u, args[4], args[6], static_cast<Word>(offset),
                        static_cast<Word>(offset >> 32), args[7], 1, 0}};
  }
  std::vector<Word> codes;
  return add_to_output(run, world, args[9], args[2], codes) ? RunEnd{} : fault(codes);
}

}  // namespace

std::string_view handlers_text() {
  return kText;
}

Word* data_word(ItemWorld& world, Word handle, std::uint64_t index, Word access, Word tenant,
                std::vector<Word>& codes) {
  const auto found =
      std::ranges::find_if(world.data, [&](const DataImage& d) { return d.handle == handle; });
  if (found == world.data.end()) {
    codes.push_back(9);
    return nullptr;
  }
  const bool is_allowed =
      (found->access & access) == access && (found->owner == 0xFFFFFFFFu || found->owner == tenant);
  if (!is_allowed) codes.push_back(5);
  if (index >= found->words.size()) codes.push_back(2);
  return is_allowed && index < found->words.size() ? &found->words[index] : nullptr;
}

Word* control_word(ItemWorld& world, std::uint64_t index, Word tenant, std::vector<Word>& codes) {
  const bool is_inside = index < world.control.size();
  const bool is_allowed = tenant == 0 || index >= 160;
  if (!is_allowed) codes.push_back(5);
  if (!is_inside) codes.push_back(2);
  return is_allowed && is_inside ? &world.control[index] : nullptr;
}

bool is_handler(Word opcode) {
  using namespace handler;
  constexpr Word kAll[] = {kCountdown, kFaulter, kLooper,  kTwice, kObserve, kMover,
                           kMark,      kTotal,   kPrinter, kStamp, kWaiter};
  return std::ranges::find(kAll, opcode) != std::end(kAll);
}

bool can_return(Word opcode) {
  return opcode == handler::kCountdown || opcode == handler::kPrinter || opcode == handler::kWaiter;
}

bool will_await(Word opcode, const std::array<Word, 12>& args) {
  return opcode == handler::kWaiter && args[3] == 0;
}

RunEnd run_handler(ItemRun& run, ItemWorld& world) {
  std::vector<Word> codes;
  switch (run.opcode) {
    case handler::kCountdown:
      return run_countdown(run, world);
    case handler::kFaulter:
      if (!add_to_output(run, world, run.args[4], run.args[2], codes)) return fault(codes);
      return fault({256 + std::min<Word>(run.args[3], 65279)});
    case handler::kLooper:
      return run_looper(run, world);
    case handler::kTwice:
      return add_to_output(run, world, run.args[2], run.args[3] * 2, codes) ? RunEnd{}
                                                                            : fault(codes);
    case handler::kObserve:
      return run_observe(run, world);
    case handler::kMover:
      return run_mover(run, world);
    case handler::kMark:
    case handler::kStamp:
      return run_stamp(run, world);
    case handler::kTotal:
      return run_total(run, world);
    case handler::kPrinter:
      return run_printer(run, world);
    case handler::kWaiter:
      return run_waiter(run, world);
    default:
      return fault({1});
  }
}

RunEnd run_payload(ItemRun& run, ItemWorld& world) {
  std::vector<Word> codes;
  auto& args = run.args;
  Word* const word = data_word(world, handle::kPayload, args[4] % 80, 3, run.tenant, codes);
  if (word == nullptr) return fault(codes);
  *word += run.opcode + args[2];
  if (args[3] == 0 || args[3] >= 4) return {};
  args[3] -= 1;
  return {.kind = Kind::yield};
}

}  // namespace everkernel::test
