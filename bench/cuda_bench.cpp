// The cost of the CUDA backend, compared with kernels written by hand and with the limits of the
// device.
//
// Times are measured on the host, from the call until its end is seen; the host polls the kernels
// it compares with, without a pause. Resetting a ring between two rounds is not timed.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_peers.hpp"
#include "everkernel/abi/io_queue.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "harness.hpp"
#include "resident_items.hpp"

namespace everkernel::bench {
namespace {

using abi::WorkItem;
using backend::Schedule;
using backend::cuda::Grid;
using BackendPointer = std::shared_ptr<backend::Backend>;

constexpr int kSkipped = 77;
constexpr std::string_view kStartOption = "--start=";

// ---- handlers ----

constexpr Word kTable = 3;  // as in the text of dfa_records
constexpr Word kOwnOutputs = 16;

constexpr std::string_view kSaxpyGroup = R"(
handler saxpy = 64 scope group {
  let base = param * 256;
  each i in 0 .. 256 {
    output[base + i] = bits_u32(1.25 * bits_f32(input[base + i]) + bits_f32(output[base + i]));
  }
}
)";
constexpr std::string_view kSaxpyLane = R"(
handler saxpy = 64 {
  let base = param * 256;
  for i in 0 .. 256 {
    output[base + i] = bits_u32(1.25 * bits_f32(input[base + i]) + bits_f32(output[base + i]));
  }
}
)";

constexpr Word kHistogramWords = 65'536;
constexpr std::string_view kHistogram = R"(
handler histogram = 65 scope group commutes {
  let base = param * 65536;
  each i in 0 .. 65536 {
    atomic_add(output[input[base + i] & 255], 1);
  }
}
)";

constexpr Word kRecordWords = 64;
constexpr Word kRecords = 1024;  // per item
constexpr Word kStates = 64;
constexpr std::string_view kDfaRecords = R"(
handler dfa_records = 68 scope group commutes {
  each r in 0 .. 1024 {
    let first = (param * 1024 + r) * 64;
    var state = 0;
    var found = 0;
    for i in 0 .. 64 {
      let word = input[first + i];
      let a = buffer(3)[state * 256 + (word & 255)];
      let b = buffer(3)[(a & 0x7fffffff) * 256 + ((word >> 8) & 255)];
      let c = buffer(3)[(b & 0x7fffffff) * 256 + ((word >> 16) & 255)];
      let d = buffer(3)[(c & 0x7fffffff) * 256 + (word >> 24)];
      state = d & 0x7fffffff;
      found = found + (a >> 31) + (b >> 31) + (c >> 31) + (d >> 31);
    }
    if found != 0 { atomic_add(output[0], found); }
  }
}
)";

constexpr std::string_view kStep = R"(
handler step = 67 { for i in 0 .. len(output) { output[i] = rotl(output[i] * 5 + param, 7); } }
)";

// ---- a dispatch beside a launch ----

void ask_dispatch(Suite& suite, const Options& options, const Peers& peers,
                  const BackendPointer& cuda) {
  constexpr Word kSlots = 256;
  const std::size_t calls = options.scale(200, 5);
  Megakernel kernel = must(Megakernel::create(cuda, {.slot_count = kSlots}));
  ResidentRing ring(peers, kernel, std::vector<WorkItem>(kSlots));
  const auto nothing = peers.kernel("nothing");
  const Grid small{.block_count = 1, .thread_count = 32};
  Graph graph(peers);
  graph.add(nothing, small);
  graph.finish();
  const auto median = [&](const auto& call) {
    return median_ns(
        calls, [&] { ring.republish(); }, call);
  };
  suite.ask({.name = "dispatch_of_256_slots",
             .text = "a resident dispatch of empty slots, against launch + sync of an empty kernel",
             .items = kSlots,
             .bytes = kSlots * abi::kSlotBytes,
             .contenders = {{.name = "launch + sync",
                             .measure =
                                 [&] {
                                   return median([&] {
                                     peers.launch(nothing, small);
                                     peers.synchronize();
                                   });
                                 }},
                            {.name = "launch + polling",
                             .measure =
                                 [&] {
                                   return median([&] {
                                     peers.launch(nothing, small);
                                     peers.wait();
                                   });
                                 }},
                            {.name = "graph of one node + sync",
                             .measure =
                                 [&] {
                                   return median([&] {
                                     graph.launch();
                                     peers.synchronize();
                                   });
                                 }},
                            {.name = "resident dispatch",
                             .measure = [&] { return median([&] { ring.dispatch(); }); },
                             .least_ratio = 0.5}}});
}

// ---- draining ----

// A ring larger than encoders make, and kernels of the backend on it.
class LargeRing {
 public:
  LargeRing(const Peers& peers, backend::Backend& cuda, Word slots)
      : peers_(peers), cuda_(cuda), slots_(slots) {
    fresh_control_ = fresh_control();
    control_ = must(cuda.allocate(fresh_control_.size()));
    ring_ = must(cuda.allocate(std::size_t{slots} * abi::kSlotBytes));
    log_ = must(cuda.allocate(abi::kWordBytes));
    io_ = must(cuda.allocate(abi::kIoSlotBytes));
  }

  Word* ring() const { return ring_->device_address(); }
  Word* control() const { return control_->device_address(); }
  std::unique_ptr<backend::Kernel> compile(Schedule schedule) const {
    return must(cuda_.compile({.geometry = {.slot_count = slots_}, .schedule = schedule}));
  }
  // Resets the ring: PUBLISHED no-ops, counters at zero.
  void reset() {
    must(control_->write(0, fresh_control_));
    peers_.launch(peers_.kernel("republish"), peers_.whole_device(), ring(), slots_);
    peers_.wait();
  }
  double peer_ns(const auto& launch) {
    reset();
    return host_ns([&] {
      launch();
      peers_.wait();
    });
  }
  double drain_ns(backend::Kernel& kernel) {
    reset();
    const backend::DeviceBuffers row{control_.get(), ring_.get(), log_.get(), io_.get()};
    backend::DrainCounts counts;
    const double time = host_ns([&] {
      must(kernel.launch({.submissions = {&row, 1},
                          .buffers = no_buffers_.view(),
                          .deadline = backend::deadline_after(std::chrono::seconds(60)),
                          .counts = {&counts, 1}}));
    });
    expect(counts.done == slots_, "a drain runs every slot");
    return time;
  }
  // Whether every slot is DONE and the counter agrees.
  void check_drained() const {
    std::vector<std::byte> bytes(std::size_t{slots_} * abi::kSlotBytes);
    must(ring_->read(0, bytes));
    const auto view = must(protocol::RingView::parse(bytes));
    expect(must(view.count(abi::SlotStatus::done, slots_)) == slots_, "every slot is DONE");
    std::vector<std::byte> control(fresh_control_.size());
    must(control_->read(0, control));
    expect(must(protocol::read_done_count(control)) == slots_, "DONE_COUNT is the slot count");
  }

 private:
  const Peers& peers_;
  backend::Backend& cuda_;
  Word slots_;
  std::vector<std::byte> fresh_control_;
  std::unique_ptr<backend::Memory> control_, ring_, log_, io_;
  memory::BufferTable no_buffers_;
};

void ask_drain(Suite& suite, const Options& options, const Peers& peers,
               const BackendPointer& cuda) {
  const Word slots = static_cast<Word>(options.scale(1 << 24, 1 << 12));
  LargeRing ring(peers, *cuda, slots);
  const auto by_hand = [&] {
    return ring.peer_ns([&] {
      peers.launch(peers.kernel("drain"), peers.whole_device(), ring.ring(), ring.control(), slots);
    });
  };
  const auto touch = [&] {
    return ring.peer_ns(
        [&] { peers.launch(peers.kernel("touch"), peers.whole_device(), ring.ring(), slots); });
  };
  const auto direct = ring.compile(Schedule::direct);
  const auto priority = ring.compile(Schedule::priority);
  const auto ticket = ring.compile(Schedule::ticket);
  for (backend::Kernel* const kernel : {direct.get(), priority.get(), ticket.get()}) {
    ring.drain_ns(*kernel);
    ring.check_drained();
  }
  by_hand();
  ring.check_drained();
  suite.ask({.name = "drain_of_16m_slots",
             .text = "draining a resident ring of empty slots, against a drain written by hand",
             .items = slots,
             .bytes = std::uint64_t{slots} * abi::kSlotBytes,
             .contenders = {
                 {.name = "by hand", .measure = by_hand},
                 {.name = "memory traffic alone", .measure = touch},
                 {.name = "direct schedule",
                  .measure = [&] { return ring.drain_ns(*direct); },
                  .least_ratio = 0.6},
                 {.name = "priority schedule", .measure = [&] { return ring.drain_ns(*priority); }},
                 {.name = "ticket schedule", .measure = [&] { return ring.drain_ns(*ticket); }}}});
}

// ---- data ----

// Words on the device for peers; DataBuffers are the same for megakernels.
class PeerWords {
 public:
  PeerWords(backend::Backend& cuda, std::size_t word_count)
      : memory_(must(cuda.allocate(word_count * sizeof(Word)))) {}

  Word* address() const { return memory_->device_address(); }
  Result<void> write(std::size_t first, std::span<const Word> words) {
    return memory_->write(first * sizeof(Word), std::as_bytes(words));
  }
  Result<void> read(std::size_t first, std::span<Word> words) const {
    return memory_->read(first * sizeof(Word), std::as_writable_bytes(words));
  }

 private:
  std::unique_ptr<backend::Memory> memory_;
};

// ---- saxpy ----

// The same work by kernels written by hand.
class SaxpyPeers {
 public:
  SaxpyPeers(const Peers& peers, backend::Backend& cuda, Word items)
      : peers_(peers), items_(items), x_(cuda, words()), y_(cuda, words()) {
    fill_saxpy(x_, y_, words());
    array();
    warps();
    check_saxpy(y_, words(), 2);
  }

  std::size_t words() const { return SaxpyItems::words_of(items_); }
  double array_ns() {
    return host_ns([this] { array(); });
  }
  double warps_ns() {
    return host_ns([this] { warps(); });
  }
  // The first items, with one launch for each.
  double launches_ns(Word count) {
    const auto kernel = peers_.kernel("saxpy_item");
    return host_ns([&] {
      for (Word i = 0; i < count; ++i) {
        peers_.launch(kernel, kOneItem, x_.address(), y_.address(), kFactor, i % items_);
      }
      peers_.wait();
    });
  }
  void add_to(Graph& graph, Word count) const {
    const auto kernel = peers_.kernel("saxpy_item");
    for (Word i = 0; i < count; ++i) {
      graph.add(kernel, kOneItem, x_.address(), y_.address(), kFactor, i % items_);
    }
    graph.finish();
  }

 private:
  static constexpr Grid kOneItem{.block_count = 1, .thread_count = kItemWords / 4};

  void array() {
    constexpr Word kItemsPerBlock = 16;
    peers_.launch(peers_.kernel("saxpy_array"),
                  {.block_count = items_ / kItemsPerBlock, .thread_count = 256}, x_.address(),
                  y_.address(), kFactor);
    peers_.wait();
  }
  void warps() {
    peers_.launch(peers_.kernel("saxpy_warps"), peers_.whole_device(), x_.address(), y_.address(),
                  kFactor, items_);
    peers_.wait();
  }

  const Peers& peers_;
  Word items_;
  PeerWords x_, y_;
};

void ask_saxpy(Suite& suite, const Options& options, const Peers& peers,
               const BackendPointer& cuda) {
  const Word items = static_cast<Word>(options.scale(1 << 20, 1 << 10));
  const Word launches = static_cast<Word>(options.scale(20'000, 100));
  const Word nodes = static_cast<Word>(options.scale(10'000, 100));
  SaxpyPeers by_hand(peers, *cuda, items);
  SaxpyItems warp(peers, cuda, kSaxpyWarp, items);
  SaxpyItems group(peers, cuda, kSaxpyGroup, items);
  SaxpyItems lane(peers, cuda, kSaxpyLane, items);
  Graph graph(peers);
  by_hand.add_to(graph, nodes);
  const std::uint64_t bytes = by_hand.words() * sizeof(Word) * 3;
  const Contender dispatch{.name = "dispatch, scope warp",
                           .measure = [&] { return warp.dispatch_ns(); }};
  Contender near = dispatch;
  near.least_ratio = 0.7;
  suite.ask({.name = "saxpy_beside_one_kernel",
             .text = "a million items of 256 words, against one kernel over all of them",
             .items = items,
             .bytes = bytes,
             .contenders = {
                 {.name = "by hand, as one array", .measure = [&] { return by_hand.array_ns(); }},
                 {.name = "by hand, a warp an item", .measure = [&] { return by_hand.warps_ns(); }},
                 near,
                 {.name = "dispatch, scope group", .measure = [&] { return group.dispatch_ns(); }},
                 {.name = "dispatch, scope lane", .measure = [&] { return lane.dispatch_ns(); }}}});
  Contender far = dispatch;
  far.least_ratio = 100;
  suite.ask(
      {.name = "saxpy_beside_launches",
       .text = fmt::format("the same, against a launch an item ({} measured, scaled) and a "
                           "graph ({} nodes measured, scaled)",
                           launches, nodes),
       .items = items,
       .bytes = bytes,
       .contenders = {{.name = "a launch an item, scaled",
                       .measure = [&] { return by_hand.launches_ns(launches) * items / launches; }},
                      {.name = "a graph node an item, scaled",
                       .measure =
                           [&] {
                             return host_ns([&] {
                                      graph.launch();
                                      peers.wait();
                                    }) *
                                    items / nodes;
                           }},
                      far}});
}

// ---- histogram ----

Word histogram_word(std::size_t i) {
  return mixed(i, 3);
}

// A megakernel whose items read one buffer, which no item writes.
struct ReadingKernel {
  ReadingKernel(const BackendPointer& cuda, std::string_view handler, Word items,
                std::size_t input_words, const auto& word_at)
      : kernel(must(Megakernel::create(cuda, options_for(handler, items)))),
        input(make_buffer(kernel, kInput, input_words, memory::Access::read)) {
    for_each_piece(input_words, word_at,
                   [&](std::size_t first, auto piece) { must(input.write(first, piece)); });
  }

  Megakernel kernel;
  DataBuffer input;
};

// The counts of each item, computed on the CPU.
std::vector<Word> histograms(Word items) {
  std::vector<Word> counts(std::size_t{items} * 256);
  for (std::size_t i = 0; i < std::size_t{items} * kHistogramWords; ++i) {
    ++counts[i / kHistogramWords * 256 + (histogram_word(i) & 255)];
  }
  return counts;
}

// Whether the sums over all outputs and the output of the first item equal those of the CPU.
void check_histograms(std::span<const Word> found, std::span<const Word> expected) {
  std::array<Word, 256> sums{};
  for (std::size_t i = 0; i < expected.size(); ++i) sums[i % 256] += expected[i];
  if (found.size() == 256) {
    expect(std::ranges::equal(found, sums), "one histogram of all items is the CPU's");
  } else {
    expect(std::ranges::equal(found, expected), "the histograms of all items are the CPU's");
  }
}

void ask_histograms(Suite& suite, const Options& options, const Peers& peers,
                    const BackendPointer& cuda, bool is_one) {
  const Word items = static_cast<Word>(options.scale(4096, 256));
  const std::size_t words = std::size_t{items} * kHistogramWords;
  const std::vector<Word> expected = histograms(items);
  const std::size_t outputs = is_one ? 1 : items;

  ReadingKernel reading(cuda, kHistogram, items, words, histogram_word);
  std::vector<DataBuffer> counts;
  std::vector<WorkItem> list = numbered_items(65, items);
  for (Word i = 0; i < outputs; ++i) {
    counts.push_back(make_buffer(reading.kernel, kOwnOutputs + i, 256));
  }
  for (Word i = 0; i < items; ++i) list[i].output_handle = kOwnOutputs + (is_one ? 0 : i);
  ResidentRing ring(peers, reading.kernel, list);

  PeerWords input(*cuda, words);
  PeerWords peer_counts(*cuda, 256 * outputs);
  for_each_piece(words, histogram_word,
                 [&](std::size_t first, auto piece) { must(input.write(first, piece)); });
  const auto by_hand = [&] {
    peers.launch(peers.kernel("histogram"), {.block_count = items, .thread_count = 256},
                 input.address(), peer_counts.address(), kHistogramWords / 4, is_one ? 0u : 256u);
    peers.wait();
  };

  std::vector<Word> found(256 * outputs);
  ring.dispatch();
  for (std::size_t i = 0; i < outputs; ++i) {
    must(counts[i].read(0, std::span(found).subspan(256 * i, 256)));
  }
  check_histograms(found, expected);
  by_hand();
  must(peer_counts.read(0, found));
  check_histograms(found, expected);

  suite.ask({.name = is_one ? "histogram_into_one" : "histogram_each_its_own",
             .text = "items of 65,536 words counted by a group, against a block an item with bins "
                     "in shared memory",
             .items = items,
             .bytes = words * sizeof(Word),
             .contenders = {{.name = "by hand", .measure = [&] { return host_ns(by_hand); }},
                            {.name = "dispatch, scope group",
                             .measure = [&] { return ring.dispatch_ns(); },
                             .least_ratio = 0.7}}});
}

// ---- an automaton ----

Word record_word(std::size_t i) {
  return mixed(i, 4);
}

// Random next states; one byte in 256 ends a match.
Word table_word(std::size_t i) {
  const Word word = mixed(i, 5);
  const Word match = (word >> 8 & 255) == 0 ? 0x80000000u : 0u;
  return (word & (kStates - 1)) | match;
}

Word matches(std::size_t record_count) {
  std::vector<Word> table(std::size_t{kStates} * 256);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = table_word(i);
  Word found = 0;
  for (std::size_t record = 0; record < record_count; ++record) {
    Word state = 0;
    for (std::size_t i = 0; i < kRecordWords * sizeof(Word); ++i) {
      const Word word = record_word(record * kRecordWords + i / 4);
      const Word next = table[state * 256 + (word >> (i % 4 * 8) & 255)];
      state = next & 0x7FFFFFFFu;
      found += next >> 31;
    }
  }
  return found;
}

void ask_dfa(Suite& suite, const Options& options, const Peers& peers, const BackendPointer& cuda) {
  const Word items = static_cast<Word>(options.scale(1024, 256));
  const std::size_t records = std::size_t{items} * kRecords;
  const std::size_t words = records * kRecordWords;
  const std::size_t table_words = std::size_t{kStates} * 256;
  ReadingKernel reading(cuda, kDfaRecords, items, words, record_word);
  DataBuffer table = make_buffer(reading.kernel, kTable, table_words, memory::Access::read);
  DataBuffer output = make_buffer(reading.kernel, kOutput, 1);
  ResidentRing ring(peers, reading.kernel, numbered_items(68, items));
  PeerWords input(*cuda, words), peer_table(*cuda, table_words), peer_output(*cuda, 1);
  for_each_piece(words, record_word,
                 [&](std::size_t first, auto piece) { must(input.write(first, piece)); });
  for_each_piece(table_words, table_word, [&](std::size_t first, auto piece) {
    must(table.write(first, piece));
    must(peer_table.write(first, piece));
  });
  const auto by_hand = [&](const char* kernel) {
    peers.launch(peers.kernel(kernel), {.block_count = items, .thread_count = 256}, input.address(),
                 peer_table.address(), peer_output.address(), kRecords);
    peers.wait();
  };

  const Word expected = matches(records);
  Word found = 0;
  ring.dispatch();
  must(output.read(0, {&found, 1}));
  expect(found == expected, "the scan finds the matches of the CPU");
  by_hand("scan_records");
  by_hand("scan_records_wide");
  must(peer_output.read(0, {&found, 1}));
  expect(found == 2 * expected, "the scans by hand find them too");

  suite.ask(
      {.name = "dfa_records",
       .text = "an automaton over records of 256 bytes, a record a turn, against a thread a "
               "record",
       .items = items,
       .bytes = words * sizeof(Word),
       .contenders = {{.name = "by hand",
                       .measure = [&] { return host_ns([&] { by_hand("scan_records"); }); }},
                      {.name = "by hand, 16 bytes a load",
                       .measure = [&] { return host_ns([&] { by_hand("scan_records_wide"); }); }},
                      {.name = "dispatch, scope group",
                       .measure = [&] { return ring.dispatch_ns(); },
                       .least_ratio = 0.7}}});
}

// ---- compiling and starting ----

std::string start_handlers() {
  std::string text(kSaxpyWarp);
  text += kHistogram;
  text += kDfaRecords;
  return text;
}

struct Start {
  double context_ns = 0;
  double compile_ns = 0;
  bool is_from_cache = false;
};

// Starts a backend: its context, then a kernel from handler text to a function that can be
// launched.
Start start_backend(const std::optional<jit::CodeCacheOptions>& cache) {
  Start start;
  const auto cuda = backend::cuda::make_backend({.cache = cache});
  std::unique_ptr<backend::Memory> memory;
  start.context_ns = host_ns([&] { memory = must(cuda->allocate(64)); });
  std::unique_ptr<backend::Kernel> kernel;
  start.compile_ns = host_ns([&] {
    kernel = must(
        cuda->compile({.geometry = {.slot_count = 1024}, .program = program_of(start_handlers())}));
  });
  start.is_from_cache = kernel->code_counts().compiled == 0;
  return start;
}

// The same in a child process, which prints one line.
Start start_process(const std::filesystem::path& folder) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = fmt::format("'{}' {}'{}'", program, kStartOption, folder.string());
  std::FILE* const pipe = popen(command.c_str(), "r");
  expect(pipe != nullptr, "a process can be started");
  Start start;
  int from_cache = 0;
  const int count =
      std::fscanf(pipe, "%lf %lf %d", &start.context_ns, &start.compile_ns, &from_cache);
  const int status = pclose(pipe);
  expect(count == 3 && status == 0, "the process that starts a kernel answers");
  start.is_from_cache = from_cache != 0;
  return start;
}

int answer_start(const char* folder) {
  const Start start = start_backend(jit::CodeCacheOptions{.directory = folder});
  fmt::print("{:.0f} {:.0f} {}\n", start.context_ns, start.compile_ns, start.is_from_cache ? 1 : 0);
  return 0;
}

// A temporary folder; the destructor removes it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "everkernel-XXXXXX").string();
    expect(::mkdtemp(name.data()) != nullptr, "a folder can be made");
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void ask_start(Suite& suite) {
  const TempFolder folder;
  const jit::CodeCacheOptions cache{.directory = folder.path()};
  expect(!start_backend(cache).is_from_cache, "a fresh cache is empty");
  Start process;
  suite.ask({.name = "start",
             .text = "a kernel of three handlers: compiled, from the cache on disk, and what "
                     "making a context takes",
             .items = 1,
             .contenders = {{.name = "compiled, no cache",
                             .measure = [&] { return start_backend(std::nullopt).compile_ns; },
                             .most_ns = 2e9},
                            {.name = "from the cache",
                             .measure =
                                 [&] {
                                   const Start start = start_backend(cache);
                                   expect(start.is_from_cache, "the code is in the cache");
                                   return start.compile_ns;
                                 },
                             .most_ns = 150e6},
                            {.name = "from the cache, new process",
                             .measure =
                                 [&] {
                                   process = start_process(folder.path());
                                   expect(process.is_from_cache, "the code is in the cache");
                                   return process.compile_ns;
                                 },
                             .most_ns = 150e6},
                            {.name = "its context", .measure = [&] { return process.context_ns; }}},
             .rounds = 7});
}

// ---- runs ----

std::uint64_t run_items(Megakernel& kernel, std::span<const WorkItem> items) {
  const RunReport report = must(kernel.run(items));
  expect(report.items_processed == items.size(), "a run processes every item");
  return report.items_processed;
}

void ask_runs(Suite& suite, const Options& options, const BackendPointer& cuda) {
  constexpr Word kWords = 16;
  const MegakernelOptions shape{
      .slot_count = 1024, .workgroup_size = 1, .handlers = program_of(kStep)};
  Megakernel on_cpu = must(Megakernel::create(backend::cpu::make_backend(), shape));
  Megakernel on_gpu = must(Megakernel::create(cuda, shape));
  const DataBuffer cpu_words = make_buffer(on_cpu, kOutput, kWords);
  const DataBuffer gpu_words = make_buffer(on_gpu, kOutput, kWords);
  const std::vector<WorkItem> nops(options.scale(1'000'000, 2'000));
  std::vector<WorkItem> chain;
  for (Word i = 0; i < options.scale(100'000, 200); ++i) chain.push_back({67, 0, kOutput, i});

  const auto ask = [&](std::string name, std::string text, std::span<const WorkItem> items) {
    suite.ask({.name = std::move(name),
               .text = std::move(text),
               .items = items.size(),
               .bytes = items.size_bytes(),
               .contenders = {{.name = "cpu", .run = [&] { return run_items(on_cpu, items); }},
                              {.name = "cuda", .run = [&] { return run_items(on_gpu, items); }}},
               .rounds = 7});
  };
  ask("run_of_nops", "a run of independent empty items, plan and report included", nops);
  ask("run_of_a_chain", "a run of items that wait for one another, 16 words each", chain);
  std::array<Word, kWords> left{}, right{};
  must(cpu_words.read(0, left));
  must(gpu_words.read(0, right));
  expect(left == right, "both leave the same words");
}

// ---- the program ----

// The checks that need no GPU: handlers verify, and the kernels written by hand compile.
int skip(const Error& error) {
  for (const std::string_view text :
       {kSaxpyWarp, kSaxpyGroup, kSaxpyLane, kHistogram, kDfaRecords, kStep}) {
    program_of(text);
  }
  const auto compiled = check_peer_source();
  if (!compiled && compiled.error().code != Code::unsupported) throw Failed{compiled.error()};
  fmt::print("skipped: {}{}{}\n", error.message, error.hint.empty() ? "" : "; ", error.hint);
  fmt::print("peers: {}\n", compiled ? "compile" : compiled.error().message);
  return kSkipped;
}

int ask_all(const Options& options) {
  const auto opened = Peers::open();
  if (!opened) {
    if (opened.error().code == Code::unsupported) return skip(opened.error());
    throw Failed{opened.error()};
  }
  const Peers& peers = **opened;
  const auto cuda = backend::cuda::make_backend({.cache = std::nullopt});
  Suite suite("cuda", options);
  suite.note("gpu", peers.facts().name);
  suite.note("driver_cuda_version", fmt::format("{}", peers.driver_version()));
  std::string unanswered;
  const auto answer = [&](std::string_view name, const auto& ask) {
    // Preparing a question takes longer than measuring it, so questions that are filtered out are
    // not prepared.
    const bool may_match = options.only.starts_with(name) || name.starts_with(options.only);
    if (!may_match) return;
    try {
      ask();
    } catch (const Failed& failed) {
      fmt::print("{}: NOT ANSWERED: {}; {}\n", name, failed.error.message, failed.error.hint);
      unanswered +=
          fmt::format("{}{}: {}", unanswered.empty() ? "" : "; ", name, failed.error.message);
    }
    std::fflush(stdout);
  };
  answer("dispatch", [&] { ask_dispatch(suite, options, peers, cuda); });
  answer("drain", [&] { ask_drain(suite, options, peers, cuda); });
  answer("saxpy", [&] { ask_saxpy(suite, options, peers, cuda); });
  answer("histogram_into_one", [&] { ask_histograms(suite, options, peers, cuda, true); });
  answer("histogram_each_its_own", [&] { ask_histograms(suite, options, peers, cuda, false); });
  answer("dfa", [&] { ask_dfa(suite, options, peers, cuda); });
  answer("start", [&] { ask_start(suite); });
  answer("runs", [&] { ask_runs(suite, options, cuda); });
  if (!unanswered.empty()) suite.note("unanswered", unanswered);
  const int status = suite.finish();
  return unanswered.empty() ? status : 1;
}

int run(int argc, char** argv) {
  try {
    const std::string_view first = argc == 2 ? argv[1] : "";
    if (first.starts_with(kStartOption)) return answer_start(argv[1] + kStartOption.size());
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
