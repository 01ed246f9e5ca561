#include "handler_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/debug_log.hpp"
#include "everkernel/abi/hit.hpp"
#include "everkernel/jit/cuda_source.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::SourceText;

constexpr Word kMark = 0xA5C3F00Du;
constexpr std::size_t kWatchedWords = 16;  // on either side of a region
constexpr Word kGroupThreads = 64;
constexpr unsigned kTileBytes = 4096;
constexpr Word kHitItem = 0x51070000u;  // what hits name their item by
constexpr auto kPatience = std::chrono::seconds(60);

// What a block reads, as the device sees it too.
struct DeviceFrame {
  Word args[abi::kSlotArgs];
  Word opcode, tenant, priority, slot, lanes, control_count;
  Word mask, fuel;
  Word log_count, hit_capacity;
  std::uint64_t control, entries, abort, log, hits, emitted, scratch, out;
};
static_assert(sizeof(DeviceFrame) == 152);

// What a block leaves.
struct DeviceResult {
  Word result, fuel;
  Word args[abi::kSlotArgs];
  ir::IoAsk io;
  Word differs;  // some lane came to another end
};
static_assert(sizeof(DeviceResult) == 80);

constexpr std::string_view kPrelude = R"(
#include "jit/device/item.cuh"
#include "everkernel/handlers.cuh"

using namespace everkernel;
using namespace everkernel::device;

struct Frame {
  Word args[12];
  Word opcode, tenant, priority, slot, lanes, control_count;
  Word mask, fuel;
  Word log_count, hit_capacity;
  Word* control;
  const BufferEntry* entries;
  Word* abort;
  Word* log;
  abi::Hit* hits;
  Wide* emitted;
  Word* scratch;
  Word* out;
};
static_assert(sizeof(Frame) == 152);

__device__ __forceinline__ Item item_of(const Frame& frame) {
  Item item{};
#pragma unroll
  for (Word i = 0; i < 12; ++i) item.args[i] = frame.args[i];
  item.opcode = frame.opcode;
  item.tenant = frame.tenant;
  item.priority = frame.priority;
  item.slot = frame.slot;
  item.number = frame.slot ^ 0x51070000u;
  item.lanes = frame.lanes;
  item.control = Words(frame.control, frame.control_count);
  item.buffers = {frame.entries, frame.mask};
  item.fuel = frame.fuel;
  item.abort = Words(frame.abort, frame.abort == nullptr ? 0 : 1);
  item.voice.control = Words(frame.scratch, 160);
  item.voice.log = Words(frame.log, frame.log_count);
  item.voice.hits = frame.hits;
  item.voice.hit_capacity = frame.hit_capacity;
  item.voice.emitted = frame.emitted;
  item.voice.hits_dropped = Words(frame.scratch, 1);
  return item;
}

// One text for all kernels, so that they are compiled in less time.
__device__ __noinline__ void leave(const Frame& frame, const Word* record) {
  __shared__ Word leaders[19];
  __shared__ Word differs;
  __syncthreads();
  if (threadIdx.x == 0) {
    differs = 0;
#pragma unroll 1
    for (Word i = 0; i < 19; ++i) leaders[i] = record[i];
  }
  __syncthreads();
#pragma unroll 1
  for (Word i = 0; i < 19; ++i) {
    if (leaders[i] != record[i]) atomicOr(&differs, 1);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll 1
  for (Word i = 0; i < 19; ++i) frame.out[i] = record[i];
  frame.out[19] = differs;
}

__device__ __forceinline__ void leave(const Frame& frame, const Item& item, Word result) {
  Word record[19] = {result, static_cast<Word>(item.fuel)};
#pragma unroll
  for (Word i = 0; i < 12; ++i) record[2 + i] = item.args[i];
  record[14] = item.io.is_write;
  record[15] = item.io.source;
  record[16] = item.io.block;
  record[17] = item.io.destination;
  record[18] = item.io.byte_count;
  leave(frame, record);
}
)";

std::string kernel_name(const Entry& entry) {
  return fmt::format("run_{}_{}", entry.handler_index, static_cast<int>(entry.way));
}

// ---- memory ----

// The memory of many runs while it is put together on the host.
class Image {
 public:
  // Room for words between watched ones; `alignment` in words. Returns the index of the first.
  std::size_t place(std::size_t count, std::size_t alignment = 1) {
    words_.insert(words_.end(), kWatchedWords, kMark);
    while (words_.size() % alignment != 0) words_.push_back(kMark);
    const std::size_t first = words_.size();
    words_.resize(first + count, 0);
    regions_.push_back({first, count});
    return first;
  }
  std::size_t place(std::span<const Word> words) {
    const std::size_t first = place(words.size());
    std::ranges::copy(words, words_.begin() + static_cast<std::ptrdiff_t>(first));
    return first;
  }
  void finish() { words_.insert(words_.end(), kWatchedWords, kMark); }
  template <class T>
  void put(std::size_t first, const T& value) {
    std::memcpy(&words_[first], &value, sizeof value);
  }
  template <class T>
  T get(std::size_t first) const {
    T value;
    std::memcpy(static_cast<void*>(&value), &words_[first], sizeof value);
    return value;
  }
  std::vector<Word> words(std::size_t first, std::size_t count) const {
    const auto at = words_.begin() + static_cast<std::ptrdiff_t>(first);
    return {at, at + static_cast<std::ptrdiff_t>(count)};
  }
  std::size_t size() const { return words_.size(); }
  std::span<Word> all() { return words_; }
  std::size_t region_count() const { return regions_.size(); }
  // Whether nothing was written between the regions from `first_region` to `last_region` and the
  // ones beside them.
  bool is_intact(std::size_t first_region, std::size_t last_region) const {
    for (std::size_t i = first_region; i < last_region; ++i) {
      const std::size_t before = i == 0 ? 0 : regions_[i - 1].first + regions_[i - 1].count;
      const std::size_t behind = regions_[i].first + regions_[i].count;
      const std::size_t next = i + 1 < regions_.size() ? regions_[i + 1].first : words_.size();
      if (!is_marked(before, regions_[i].first) || !is_marked(behind, next)) return false;
    }
    return true;
  }

 private:
  struct Region {
    std::size_t first, count;
  };
  bool is_marked(std::size_t first, std::size_t last) const {
    return std::all_of(words_.begin() + static_cast<std::ptrdiff_t>(first),
                       words_.begin() + static_cast<std::ptrdiff_t>(last),
                       [](Word word) { return word == kMark; });
  }
  std::vector<Word> words_;
  std::vector<Region> regions_;
};

// Where the parts of one run lie in the image.
struct Layout {
  std::size_t first_region = 0, last_region = 0;
  std::size_t frame = 0, control = 0, entries = 0, abort = 0, log = 0, hits = 0, emitted = 0,
              scratch = 0, out = 0;
  std::vector<std::size_t> buffers = {};
  Word place_count = 0, log_count = 0, hit_capacity = 0;
};

std::size_t count_of(const std::vector<HookCall>& calls, Word kind) {
  return static_cast<std::size_t>(std::ranges::count(calls, kind, &HookCall::kind));
}

// Runs that race may say more than the interpreter; what has no room then is not compared.
constexpr Word kSpareCalls = 8;

Layout lay_out(Image& image, const RunRequest& request) {
  const FrameSpec& spec = *request.spec;
  Layout layout{.first_region = image.region_count()};
  for (const BufferSpec& buffer : spec.buffers) {
    layout.buffers.push_back(buffer.alias_of ? layout.buffers[*buffer.alias_of] + buffer.alias_first
                                             : image.place(buffer.words));
  }
  layout.control = image.place(spec.control);
  layout.abort = image.place(std::vector<Word>{Word{spec.abort == Abort::set}});
  layout.place_count = 1;
  while (layout.place_count < 2 * (spec.buffers.size() + 1)) layout.place_count *= 2;
  layout.entries = image.place(layout.place_count * sizeof(memory::BufferEntry) / sizeof(Word), 2);
  const auto& calls = request.expected->calls;
  if (spec.has_hooks) {
    layout.log_count =
        1 + abi::kDebugRecordWords * (static_cast<Word>(count_of(calls, 0)) + kSpareCalls);
    layout.hit_capacity = static_cast<Word>(count_of(calls, 1)) + kSpareCalls;
  } else {
    layout.log_count = 1;  // no record fits
  }
  layout.log = image.place(layout.log_count);
  layout.hits = image.place(layout.hit_capacity * sizeof(abi::Hit) / sizeof(Word), 4);
  layout.emitted = image.place(2, 2);
  layout.scratch = image.place(abi::kControlWords);
  layout.out = image.place(sizeof(DeviceResult) / sizeof(Word));
  layout.last_region = image.region_count();
  return layout;
}

// Read-only words that a handler could write under another handle are not constant; the further bit
// says so.
constexpr Word kAccessChanging = 4;

bool has_writable_alias(const FrameSpec& spec, const Layout& layout, std::size_t index) {
  const std::size_t first = layout.buffers[index];
  const std::size_t last = first + spec.buffers[index].words.size();
  for (std::size_t i = 0; i < spec.buffers.size(); ++i) {
    const std::size_t other = layout.buffers[i];
    const bool overlaps = other < last && first < other + spec.buffers[i].words.size();
    if (overlaps && spec.buffers[i].access != memory::Access::read) return true;
  }
  return false;
}

void fill_table(Image& image, const FrameSpec& spec, const Layout& layout, std::uint64_t device) {
  const Word mask = layout.place_count - 1;
  std::vector<memory::BufferEntry> entries(layout.place_count);
  for (std::size_t i = 0; i < spec.buffers.size(); ++i) {
    const BufferSpec& buffer = spec.buffers[i];
    Word at = memory::BufferTableView::home(buffer.handle, mask);
    while (entries[at].handle != 0) at = (at + 1) & mask;
    Word access = static_cast<Word>(buffer.access);
    if (access == 1 && has_writable_alias(spec, layout, i)) access |= kAccessChanging;
    entries[at] = {.words = reinterpret_cast<Word*>(device + layout.buffers[i] * sizeof(Word)),
                   .word_count = static_cast<Word>(buffer.words.size()),
                   .handle = buffer.handle,
                   .access = access,
                   .owner = buffer.owner};
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    image.put(layout.entries + i * sizeof entries[i] / sizeof(Word), entries[i]);
  }
}

void fill_frame(Image& image, const FrameSpec& spec, const Layout& layout, std::uint64_t device) {
  const auto address = [&](std::size_t first) { return device + first * sizeof(Word); };
  DeviceFrame frame{};
  std::ranges::copy(spec.args, frame.args);
  frame.opcode = spec.opcode;
  frame.tenant = spec.tenant;
  frame.priority = spec.priority;
  frame.slot = spec.slot;
  frame.lanes = spec.lanes;
  frame.control_count = static_cast<Word>(spec.control.size());
  frame.mask = layout.place_count - 1;
  frame.fuel = static_cast<Word>(spec.fuel);
  frame.log_count = layout.log_count;
  frame.hit_capacity = layout.hit_capacity;
  frame.control = address(layout.control);
  // A frame without buffers has no table at all.
  frame.entries = spec.buffers.empty() ? 0 : address(layout.entries);
  frame.abort = spec.abort == Abort::absent ? 0 : address(layout.abort);
  frame.log = address(layout.log);
  frame.hits = address(layout.hits);
  frame.emitted = spec.has_hooks ? address(layout.emitted) : 0;
  frame.scratch = address(layout.scratch);
  frame.out = address(layout.out);
  image.put(layout.frame, frame);
}

// ---- results ----

void collect_calls(const Image& image, const FrameSpec& spec, const Layout& layout,
                   RunResult& result) {
  if (!spec.has_hooks) return;
  const Word cursor = image.get<Word>(layout.log + abi::kDebugCursor);
  const Word records = std::min(cursor, layout.log_count - 1) / abi::kDebugRecordWords;
  for (Word i = 0; i < records; ++i) {
    const auto record = image.get<abi::DebugRecord>(layout.log + abi::kDebugFirstRecord +
                                                    i * abi::kDebugRecordWords);
    result.calls.push_back({0, record.fmt_id, record.args[0], record.args[1]});
    result.is_intact &= record.args[2] == spec.slot * abi::kSlotWords;
  }
  const auto emitted = image.get<std::uint64_t>(layout.emitted);
  for (Word i = 0; i < std::min<std::uint64_t>(emitted, layout.hit_capacity); ++i) {
    const auto hit = image.get<abi::Hit>(layout.hits + i * sizeof(abi::Hit) / sizeof(Word));
    result.calls.push_back({1, hit.a, hit.b, hit.c});
    result.is_intact &= hit.item == (spec.slot ^ kHitItem);
  }
}

RunResult collect(const Image& image, const RunRequest& request, const Layout& layout) {
  const FrameSpec& spec = *request.spec;
  const auto left = image.get<DeviceResult>(layout.out);
  RunResult result{
      .outcome = {static_cast<ir::Ending>(left.result & 0xFF), left.result >> 8},
      .fuel = left.fuel,
      .io = left.io,
      .is_intact = left.differs == 0 && image.is_intact(layout.first_region, layout.last_region)};
  std::ranges::copy(left.args, result.args.begin());
  for (std::size_t i = 0; i < spec.buffers.size(); ++i) {
    result.buffers.push_back(image.words(layout.buffers[i], spec.buffers[i].words.size()));
  }
  result.control = image.words(layout.control, spec.control.size());
  collect_calls(image, spec, layout, result);
  return result;
}

}  // namespace

std::string way_name(Way way) {
  constexpr std::string_view kNames[] = {"one thread", "a warp", "a block"};
  return std::string(kNames[static_cast<std::size_t>(way)]);
}

const Result<GpuAccess>& gpu() {
  static const Result<GpuAccess> access = []() -> Result<GpuAccess> {
    const auto driver = backend::cuda::Driver::load();
    if (!driver) return Failure(driver.error());
    const auto facts = backend::cuda::probe_device(*driver, 0);
    if (!facts) return Failure(facts.error());
    auto nvrtc = backend::cuda::Nvrtc::load();
    if (!nvrtc) return Failure(nvrtc.error());
    auto context = backend::cuda::Context::create(*driver, *facts);
    if (!context) return Failure(context.error());
    return GpuAccess{*driver, *facts, *std::move(nvrtc), *std::move(context)};
  }();
  return access;
}

RunnerSource runner_source(const ir::VerifiedProgram& program, std::span<const Entry> entries,
                           jit::MemoryUse memory) {
  RunnerSource source{.handlers = jit::emit_cuda(program, {.memory = memory, .payload = true}),
                      .kernels = std::string(kPrelude)};
  constexpr std::string_view kLanes[] = {"OneLane", "WarpLanes", "GroupLanes"};
  for (const Entry& entry : entries) {
    source.kernels += fmt::format(
        "extern \"C\" __global__ void {}(const Frame* frames) {{\n"
        "  Item item = item_of(frames[blockIdx.x]);\n"
        "  const Word result = handler_{}({}{{}}, item);\n"
        "  leave(frames[blockIdx.x], item, result);\n}}\n",
        kernel_name(entry), entry.handler_index, kLanes[static_cast<std::size_t>(entry.way)]);
  }
  return source;
}

namespace {

// What the compiler is asked for; `headers` holds what it refers to.
backend::cuda::CompileRequest request_for(const RunnerSource& source, int architecture,
                                          std::vector<SourceText>& headers) {
  static const std::vector<std::string> usual = {"-fmad=false"};
  static const std::vector<std::string> wide = {"-fmad=false", "-DEVERKERNEL_WIDE_FUEL"};
  headers.assign(backend::cuda::device_headers().begin(), backend::cuda::device_headers().end());
  headers.push_back({"everkernel/handlers.cuh", source.handlers});
  return {.source = {"handler_runs.cu", source.kernels},
          .headers = headers,
          .options = source.has_wide_fuel ? wide : usual,
          .architecture = architecture};
}

}  // namespace

Result<backend::cuda::CompiledCode> compile_runner(const backend::cuda::Nvrtc& nvrtc,
                                                   const RunnerSource& source, int architecture) {
  std::vector<SourceText> headers;
  return nvrtc.compile(request_for(source, architecture, headers));
}

Result<HandlerRunner> HandlerRunner::create(const GpuAccess& gpu, const RunnerSource& source) {
  std::vector<SourceText> headers;
  auto module = backend::cuda::Module::load(gpu.context, gpu.nvrtc, nullptr,
                                            request_for(source, gpu.facts.architecture, headers));
  if (!module) return Failure(module.error());
  auto stream = backend::cuda::Stream::create(gpu.context);
  if (!stream) return Failure(stream.error());
  return HandlerRunner(gpu, *std::move(module), *std::move(stream));
}

Result<std::vector<RunResult>> HandlerRunner::run(std::span<const RunRequest> requests) const {
  // Frames of one kernel lie side by side, so that one launch runs them all.
  std::vector<std::size_t> order(requests.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto kernel_of = [&](std::size_t i) {
    const Entry& entry = requests[i].entry;
    return std::pair(entry.handler_index, entry.way);
  };
  std::ranges::stable_sort(order, {}, kernel_of);
  Image image;
  constexpr std::size_t kFrameWords = sizeof(DeviceFrame) / sizeof(Word);
  const std::size_t frames = image.place(requests.size() * kFrameWords, 2);
  std::vector<Layout> layouts(requests.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    layouts[order[k]] = lay_out(image, requests[order[k]]);
    layouts[order[k]].frame = frames + k * kFrameWords;
  }
  image.finish();
  auto memory = backend::cuda::CudaMemory::create(gpu_->context, image.size() * sizeof(Word));
  if (!memory) return Failure(memory.error());
  const auto device = reinterpret_cast<std::uint64_t>((*memory)->device_address());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    fill_table(image, *requests[i].spec, layouts[i], device);
    fill_frame(image, *requests[i].spec, layouts[i], device);
  }
  EVERKERNEL_TRY((*memory)->write(0, std::as_bytes(image.all())));
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last < order.size() && kernel_of(order[last]) == kernel_of(order[first])) ++last;
    const Entry& entry = requests[order[first]].entry;
    const auto function = module_.function(kernel_name(entry).c_str());
    if (!function) return Failure(function.error());
    constexpr Word kThreads[] = {1, 32, kGroupThreads};
    const backend::cuda::Grid grid{.block_count = static_cast<unsigned>(last - first),
                                   .thread_count = kThreads[static_cast<std::size_t>(entry.way)],
                                   .shared_bytes = kTileBytes};
    const std::uint64_t its_frames = device + (frames + first * kFrameWords) * sizeof(Word);
    EVERKERNEL_TRY(gpu_->context->launch(*function, grid, stream_.get(), its_frames));
    first = last;
  }
  EVERKERNEL_TRY(
      gpu_->context->wait(stream_.get(), backend::Clock::now() + kPatience, "handlers of a test"));
  EVERKERNEL_TRY((*memory)->read(0, std::as_writable_bytes(image.all())));
  std::vector<RunResult> results;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    results.push_back(collect(image, requests[i], layouts[i]));
  }
  return results;
}

}  // namespace everkernel::test
