#include "run_image.hpp"

#include <algorithm>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/debug_log.hpp"
#include "everkernel/abi/hit.hpp"

namespace everkernel::test {
namespace {

constexpr Word kMark = 0xA5C3F00Du;
constexpr std::size_t kGuardWords = 16;  // on either side of a range
constexpr Word kHitItem = 0x51070000u;   // the item that hits name

// The input of a block. runner_source.cpp declares the same layout for the device.
struct DeviceFrame {
  Word args[abi::kSlotArgs];
  Word opcode, tenant, priority, slot, lanes, control_count;
  Word mask, fuel;
  Word log_count, hit_capacity;
  std::uint64_t control, entries, abort, log, hits, emitted, scratch, out;
};
static_assert(sizeof(DeviceFrame) == 152);

// The output of a block.
struct DeviceResult {
  Word result, fuel;
  Word args[abi::kSlotArgs];
  ir::IoAsk io;
  Word differs;  // some lane ended with another result
};
static_assert(sizeof(DeviceResult) == 80);

constexpr std::size_t kFrameWords = sizeof(DeviceFrame) / sizeof(Word);

}  // namespace

std::string way_name(Way way) {
  constexpr std::string_view kNames[] = {"one thread", "a warp", "a block"};
  return std::string(kNames[static_cast<std::size_t>(way)]);
}

// ---- words ----

std::size_t Image::place(std::size_t count, std::size_t alignment) {
  words_.insert(words_.end(), kGuardWords, kMark);
  while (words_.size() % alignment != 0) words_.push_back(kMark);
  const std::size_t first = words_.size();
  words_.resize(first + count, 0);
  ranges_.push_back({first, count});
  return first;
}

std::size_t Image::place(std::span<const Word> words) {
  const std::size_t first = place(words.size());
  std::ranges::copy(words, words_.begin() + static_cast<std::ptrdiff_t>(first));
  return first;
}

void Image::finish() {
  words_.insert(words_.end(), kGuardWords, kMark);
}

std::vector<Word> Image::words(std::size_t first, std::size_t count) const {
  const auto at = words_.begin() + static_cast<std::ptrdiff_t>(first);
  return {at, at + static_cast<std::ptrdiff_t>(count)};
}

bool Image::is_intact(std::size_t first_range, std::size_t last_range) const {
  for (std::size_t i = first_range; i < last_range; ++i) {
    const std::size_t before = i == 0 ? 0 : ranges_[i - 1].first + ranges_[i - 1].count;
    const std::size_t behind = ranges_[i].first + ranges_[i].count;
    const std::size_t next = i + 1 < ranges_.size() ? ranges_[i + 1].first : words_.size();
    if (!is_marked(before, ranges_[i].first) || !is_marked(behind, next)) return false;
  }
  return true;
}

bool Image::is_marked(std::size_t first, std::size_t last) const {
  return std::all_of(words_.begin() + static_cast<std::ptrdiff_t>(first),
                     words_.begin() + static_cast<std::ptrdiff_t>(last),
                     [](Word word) { return word == kMark; });
}

// ---- one run ----

namespace {

std::size_t count_of(const std::vector<HookCall>& calls, Word kind) {
  return static_cast<std::size_t>(std::ranges::count(calls, kind, &HookCall::kind));
}

// Runs with races may print and emit more than the interpreter. Records that do not fit are not
// compared.
constexpr Word kSpareCalls = 8;

Layout lay_out(Image& image, const RunRequest& request) {
  const FrameSpec& spec = *request.spec;
  Layout layout{.first_range = image.ranges().size()};
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
  layout.last_range = image.ranges().size();
  return layout;
}

// Words that are read-only under one handle but writable under another are not constant. The
// additional bit marks them.
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
  // A frame without buffers has no table.
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
      .is_intact = left.differs == 0 && image.is_intact(layout.first_range, layout.last_range)};
  std::ranges::copy(left.args, result.args.begin());
  for (std::size_t i = 0; i < spec.buffers.size(); ++i) {
    result.buffers.push_back(image.words(layout.buffers[i], spec.buffers[i].words.size()));
  }
  result.control = image.words(layout.control, spec.control.size());
  collect_calls(image, spec, layout, result);
  return result;
}

}  // namespace

// ---- many runs ----

RunImage::RunImage(std::span<const RunRequest> requests)
    : requests_(requests), layouts_(requests.size()) {
  std::vector<std::size_t> order(requests.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::pair(requests[i].entry.handler_index, requests[i].entry.way);
  });
  const std::size_t frames = image_.place(requests.size() * kFrameWords, 2);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const RunRequest& request = requests[order[k]];
    layouts_[order[k]] = lay_out(image_, request);
    layouts_[order[k]].frame = frames + k * kFrameWords;
    if (rows_.empty() || rows_.back().entry != request.entry) {
      rows_.push_back({.entry = request.entry, .first_frame = layouts_[order[k]].frame});
    }
    rows_.back().runs.push_back(order[k]);
  }
  image_.finish();
}

void RunImage::fill(std::uint64_t base) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    fill_table(image_, *requests_[i].spec, layouts_[i], base);
    fill_frame(image_, *requests_[i].spec, layouts_[i], base);
  }
}

std::vector<RunResult> RunImage::collect() const {
  std::vector<RunResult> results;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    results.push_back(test::collect(image_, requests_[i], layouts_[i]));
  }
  return results;
}

}  // namespace everkernel::test
