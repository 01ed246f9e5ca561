// A program for compute-sanitizer: items of every kind on the GPU, compared with the CPU.
//
//   sanitizer_workload [--items=N] [--only=drains|lanes|groups|live]
//
// `lanes` dispatches built-in operations and handlers of scope lane and warp, under every schedule;
// `groups` those of scope group, which use shared memory; `drains` both. `live` runs items of every
// kind through the queues of a session. If there is no GPU, the program prints the reason and exits
// with 77.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "sanitizer_workload.hpp"

namespace everkernel::test {
namespace {

using abi::Hit;
using backend::Schedule;

constexpr int kSkipped = 77;
constexpr Word kSlots = 4096;
constexpr Word kWindow = 64;  // slots of a window; its last slot is a fence over the window
constexpr Word kInput = 1, kOutput = 2;
constexpr Word kInputWords = 1024;
constexpr Word kOutputWords = 256 + kSlots * 64;  // sums, then 64 words for each slot
constexpr Word kObservables = 8;
constexpr Word kRecords = 512;
constexpr Word kHits = 1 << 15;
// Under a sanitizer, the program is up to a hundred times slower.
constexpr auto kTimeout = std::chrono::minutes(5);

// Handlers from opcode 64 on. Their effect on `output` does not depend on the order of items.
constexpr std::string_view kLaneHandlers = R"(
handler add = 64 { atomic_add(output[slot & 255], param); }
handler triple = 65 scope warp {
  let first = 256 + slot * 64;
  each i in 0 .. 64 { output[first + i] = input[(slot + i) & 1023] * 3 + lane; }
}
handler countdown = 66 {
  if args[3] == 0 { return; }
  args[3] = args[3] - 1;
  yield;
}
handler later = 67 scope warp {
  if args[3] == 0 { return; }
  args[3] = args[3] - 1;
  requeue;
}
handler outside = 68 { output[len(output) + param] = 1; }
handler say = 69 { printf(param, slot, 7); }
handler shout = 70 scope warp { each i in 0 .. 4 { emit(i, param, 0); } }
handler fold = 71 {
  var sum = 0;
  for i in 0 .. 32 { sum = rotl(sum, 5) ^ input[(param + i) & 1023]; }
  output[256 + slot * 64] = sum;
}
)";
constexpr Word kLaneOpcodes = 8;

constexpr std::string_view kGroupHandlers = R"(
handler tally = 64 scope group commutes {
  each i in 0 .. len(input) { atomic_add(output[input[i] & 255], 1); }
}
handler spread = 65 scope group {
  var sum = 0;
  for i in 0 .. 8 { sum = sum + input[(param + i) & 1023]; }
  let first = 256 + slot * 64;
  each i in 0 .. 64 { output[first + i] = sum + i; }
  if output[first + 63] != sum + 63 { fault 1; }
  each i in 0 .. 32 { output[first + i] = output[first + 63 - i] + lane; }
}
handler strict = 66 scope group {
  each i in 0 .. 64 { if (i & 7) == (param & 7) { fault i; } }
}
handler twice = 67 scope group {
  if args[3] == 0 { return; }
  args[3] = args[3] - 1;
  let first = 256 + slot * 64;
  each i in 0 .. 16 { atomic_max(output[first + i], param); }
  yield;
}
)";
constexpr Word kGroupOpcodes = 4;
constexpr std::uint8_t kPackable = 65;  // a handler of scope warp, or group

// ---- both sides ----

struct Kind {
  std::string_view handlers;
  Word opcodes;
  Schedule schedule;
};

// A megakernel with its buffers, on one backend.
class Side {
 public:
  Side(const std::shared_ptr<backend::Backend>& backend, const Kind& kind)
      : kernel_(checked(Megakernel::create(
            backend, {.slot_count = kSlots,
                      .handlers = checked(ir::verify(checked(ir::parse(kind.handlers)))),
                      .schedule = kind.schedule}))),
        input_(checked(kernel_.create_buffer(
            {.handle = kInput, .word_count = kInputWords, .access = memory::Access::read}))),
        output_(checked(kernel_.create_buffer({.handle = kOutput, .word_count = kOutputWords}))) {
    std::vector<Word> words(kInputWords);
    for (Word i = 0; i < kInputWords; ++i) words[i] = i * 2654435761u >> 7;
    checked(input_.write(0, words));
  }

  DispatchReport dispatch(const HostBuffers& buffers, bool is_resident) {
    std::optional<ResidentBuffers> resident;
    Submission submission = buffers;
    if (is_resident) {
      resident.emplace(checked(kernel_.make_resident(buffers)));
      submission = &*resident;
    }
    return checked(kernel_.dispatch({.submissions = {&submission, 1},
                                     .readback = Readback::full,
                                     .workspace = &workspace_,
                                     .timeout = kTimeout,
                                     .hit_capacity = kHits}));
  }
  std::vector<Word> output() const {
    std::vector<Word> words(kOutputWords);
    checked(output_.read(0, words));
    return words;
  }

 private:
  Megakernel kernel_;
  DataBuffer input_, output_;
  Workspace workspace_;
};

// ---- rings ----

struct Buffers {
  std::vector<std::byte> control, ring, log;

  HostBuffers view() const { return {.control = control, .ring = ring, .debug_log = log}; }
};

Buffers empty_buffers() {
  Buffers buffers;
  const protocol::ControlLayout layout{.tenant_count = 4, .observable_slots = kObservables};
  buffers.control.resize(checked(protocol::control_bytes(layout)));
  checked(protocol::encode_control(layout, buffers.control));
  buffers.ring.resize(checked(protocol::ring_bytes(kSlots)));
  checked(protocol::encode_ring(kSlots, buffers.ring));
  buffers.log.resize(checked(protocol::debug_log_bytes(kRecords)));
  checked(protocol::encode_debug_log(kRecords, buffers.log));
  return buffers;
}

// Slots with handlers and fences; every eighth slot has a built-in operation, and every eighth is a
// packed slot of three operations.
Buffers random_buffers(std::mt19937& random, const Kind& kind) {
  Buffers buffers = empty_buffers();
  auto writer = checked(protocol::RingWriter::bind(buffers.ring));
  for (Word slot = 0; slot < kSlots; ++slot) {
    const Word number = static_cast<Word>(random());
    Word opcode = 64 + number % kind.opcodes;
    std::array<Word, 4> args{kInput, kOutput, number >> 8 & 1023, number >> 20 & 3};
    if (number >> 29 == 0) {
      opcode = static_cast<Word>(abi::Opcode::atomic_add);
      args = {1, abi::kControlFirstObservable + 1 + slot % (kObservables - 1)};
    }
    if (number >> 29 == 1 && slot % kWindow != kWindow - 1) {
      const Word add[] = {1, abi::kControlFirstObservable + 1 + slot % (kObservables - 1)};
      const protocol::PackedOp ops[] = {
          {.opcode = static_cast<std::uint8_t>(abi::Opcode::atomic_add), .args = add},
          {.opcode = kPackable, .args = args},
          {.opcode = static_cast<std::uint8_t>(abi::Opcode::atomic_add), .args = add}};
      checked(writer.publish_packed({.slot_index = slot, .tenant = slot / 16 % 4, .ops = ops}));
      continue;
    }
    if (slot % kWindow == kWindow - 1) {
      opcode = static_cast<Word>(abi::Opcode::batch_fence);
      args = {kWindow - 1, 7};
    }
    checked(writer.publish(
        {.slot_index = slot, .tenant = slot / 16 % 4, .opcode = opcode, .args = args}));
  }
  return buffers;
}

// ---- comparing ----

std::vector<Word> words_of(std::span<const std::byte> bytes) {
  std::vector<Word> words(bytes.size() / sizeof(Word));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(Word));
  return words;
}

}  // namespace

void compare(std::string_view what, const std::vector<Word>& gpu, const std::vector<Word>& cpu) {
  if (gpu == cpu) return;
  if (gpu.size() != cpu.size()) give_up(fmt::format("{}: different lengths", what));
  const auto at = std::ranges::mismatch(gpu, cpu).in1 - gpu.begin();
  const auto place = static_cast<std::size_t>(at);
  give_up(fmt::format("{}: word {} is {:#x} on the GPU and {:#x} on the CPU", what, at, gpu[place],
                      cpu[place]));
}

namespace {

// The turns of an `each` run in any order.
std::vector<Word> sorted_hits(std::span<const Hit> hits) {
  std::vector<std::array<Word, 4>> rows;
  for (const Hit& hit : hits) rows.push_back({hit.item, hit.a, hit.b, hit.c});
  std::ranges::sort(rows);
  std::vector<Word> words;
  for (const auto& row : rows) words.insert(words.end(), row.begin(), row.end());
  return words;
}

void compare_reports(const SubmissionReport& gpu, const SubmissionReport& cpu) {
  compare("ring", words_of(gpu.ring), words_of(cpu.ring));
  std::vector<Word> gpu_control = words_of(gpu.control), cpu_control = words_of(cpu.control);
  gpu_control[abi::kControlStarvation.first] = 0;  // depends on timing
  cpu_control[abi::kControlStarvation.first] = 0;
  compare("control", gpu_control, cpu_control);
  compare("debug log", {words_of(gpu.debug_log)[0]}, {words_of(cpu.debug_log)[0]});
  compare("hits", sorted_hits(gpu.hits), sorted_hits(cpu.hits));
}

// Dispatches rings until that many items have run.
std::size_t run_kind(const std::shared_ptr<backend::Backend>& cuda, const Kind& kind,
                     std::size_t items) {
  Side gpu(cuda, kind);
  Side cpu(backend::cpu::make_backend(), kind);
  std::mt19937 random(static_cast<unsigned>(kind.schedule) + kind.opcodes);
  std::size_t done = 0;
  for (std::size_t round = 0; done < items; ++round, done += kSlots) {
    const Buffers buffers = random_buffers(random, kind);
    const DispatchReport on_gpu = gpu.dispatch(buffers.view(), round % 2 == 1);
    const DispatchReport on_cpu = cpu.dispatch(buffers.view(), false);
    compare_reports(on_gpu.submissions[0], on_cpu.submissions[0]);
    compare("output", gpu.output(), cpu.output());
  }
  fmt::print("{} opcodes, {} schedule: {} items, as on the CPU\n", kind.opcodes,
             backend::schedule_name(kind.schedule), done);
  std::fflush(stdout);
  return done;
}

struct Options {
  std::size_t items = 100'000;
  bool lanes = true;
  bool groups = true;
  bool live = true;
};

bool choose(Options& options, std::string_view part) {
  if (part != "drains" && part != "lanes" && part != "groups" && part != "live") return false;
  options.lanes = options.lanes && (part == "lanes" || part == "drains");
  options.groups = options.groups && (part == "groups" || part == "drains");
  options.live = options.live && part == "live";
  return true;
}

Options parse(int argc, char** argv) {
  Options options;
  for (const std::string_view arg : std::span(argv + 1, argv + argc)) {
    constexpr std::string_view kItems = "--items=", kOnly = "--only=";
    if (arg.starts_with(kItems)) {
      const auto text = arg.substr(kItems.size());
      const auto end = text.data() + text.size();
      const auto [at, error] = std::from_chars(text.data(), end, options.items);
      if (error == std::errc() && at == end && options.items != 0) continue;
    }
    if (arg.starts_with(kOnly) && choose(options, arg.substr(kOnly.size()))) continue;
    fmt::print(stderr, "error: what is {}?\nhint: --items=N, --only=drains|lanes|groups|live\n",
               arg);
    std::exit(2);
  }
  return options;
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto cuda = backend::cuda::make_backend({.cache = std::nullopt});
  if (!cuda->capabilities().supported) {
    fmt::print("skipped: {}\n", cuda->capabilities().reason);
    return kSkipped;
  }
  constexpr Kind kLanes[] = {{kLaneHandlers, kLaneOpcodes, Schedule::direct},
                             {kLaneHandlers, kLaneOpcodes, Schedule::priority},
                             {kLaneHandlers, kLaneOpcodes, Schedule::ticket}};
  constexpr Kind kGroups[] = {{kGroupHandlers, kGroupOpcodes, Schedule::direct}};
  std::vector<Kind> kinds;
  if (options.lanes) kinds.insert(kinds.end(), std::begin(kLanes), std::end(kLanes));
  if (options.groups) kinds.insert(kinds.end(), std::begin(kGroups), std::end(kGroups));
  const std::size_t parts = kinds.size() + (options.live ? 1 : 0);
  std::size_t items = 0;
  for (const Kind& kind : kinds) items += run_kind(cuda, kind, options.items / parts);
  if (options.live) items += run_sessions(cuda, options.items / parts);
  fmt::print("{} items\n", items);
  return items < options.items / parts * parts ? 1 : 0;
}

}  // namespace
}  // namespace everkernel::test

int main(int argc, char** argv) {
  return everkernel::test::run(argc, argv);
}
