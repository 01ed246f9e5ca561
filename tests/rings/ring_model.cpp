#include "ring_model.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace everkernel::test {

using namespace wire;
using Kind = RunEnd::Kind;
using backend::Schedule;

std::array<Word, 6> partition_offsets(const std::vector<Word>& control, Word slot_count) {
  std::array<Word, 6> offsets = {};
  std::copy_n(control.begin() + 129, 6, offsets.begin());
  if (offsets != std::array<Word, 6>{}) return offsets;
  const Word fifth = slot_count / 5;
  const Word rest = slot_count % 5;
  return {0, fifth, 2 * fifth, 3 * fifth + rest, 4 * fifth + rest, slot_count};
}

Word partition_of(const std::array<Word, 6>& offsets, Word slot) {
  Word partition = 0;
  while (partition < 4 && slot >= offsets[partition + 1]) ++partition;
  return partition;
}

RingModel::RingModel(RingImage start, std::vector<DataImage>& data, const ModelOptions& options)
    : start_(std::move(start)),
      image_(start_),
      data_(&data),
      options_(options),
      offsets_(partition_offsets(start_.control, start_.slot_count())),
      facts_(start_.slot_count()),
      freed_(start_.io_count()) {}

// ---- running ----

Word RingModel::priority_of(Word slot) const {
  if (options_.schedule == Schedule::priority) return partition_of(offsets_, slot);
  return image_.slot(slot)[3] & 0xFFFF;
}

void RingModel::end_as_done(Word slot) {
  image_.slot(slot)[0] = kDone;
  image_.control[1] += 1;
  ++done_;
}

void RingModel::end_as_fault(Word slot, std::vector<Word> codes) {
  Word* const words = image_.slot(slot);
  words[0] = kFault;
  words[3] = (words[3] & 0xFFFF) | (codes.front() << 16);
  facts_[slot].codes = std::move(codes);
  image_.control[143] += 1;
  ++faulted_;
}

bool RingModel::put_back(Word slot) {
  facts_[slot].was_put_back = true;
  return false;
}

// Ends the wait of an item for IO: its request may have been served before the dispatch.
bool RingModel::finish_io(Word slot) {
  Word* const words = image_.slot(slot);
  const Word io_slot = words[15];
  if (facts_[slot].has_request) return false;
  if (io_slot >= image_.io_count()) {
    end_as_fault(slot, {2});
    return true;
  }
  Word& status = image_.io_queue[io_slot * 8 + 6];
  if (status != kIoOk && status != kIoDone && status != kIoError) return false;
  const bool is_error = status == kIoError;
  status = 0;
  freed_[io_slot] = true;
  if (is_error) {
    end_as_fault(slot, {8});
  } else if (words[1] == kLoadMiss && !options_.has_payload) {
    end_as_done(slot);
  } else {
    words[0] = kRequeue;
  }
  return true;
}

bool RingModel::fence_is_ready(Word slot) const {
  const Word count = image_.slot(slot)[4];
  for (Word i = 1; i <= count; ++i) {
    const Word status = image_.slot(slot - i)[0];
    if (status != kEmpty && status != kDone && status != kFault) return false;
  }
  return true;
}

bool RingModel::has_free_io() const {
  std::size_t free = 0;
  for (Word i = 0; i < image_.io_count(); ++i) free += image_.io_queue[i * 8 + 6] == 0 ? 1u : 0u;
  return free > requests_.size();
}

void RingModel::claim(Word slot) {
  image_.control[64 + image_.slot(slot)[2]] += 1;
  const Word priority = priority_of(slot);
  if (priority <= 4) image_.control[136 + priority] += 1;
  if (options_.schedule == Schedule::priority) {
    image_.control[135] = priority <= 1 ? image_.control[135] + 1 : 0;
  }
  if (facts_[slot].was_put_back) ran_late_ = true;
}

// Whether the slot holds a ticket that the host has published.
bool RingModel::is_offered(Word slot) const {
  if (options_.schedule != Schedule::ticket) return true;
  const Word head = start_.control[141];
  const Word tail = start_.control[142];
  if (head == 0 && tail == 0) return true;
  const Word count = image_.slot_count();
  return (slot + count - head % count) % count < tail - head;
}

// Runs a slot once. False when it cannot run now.
bool RingModel::step(Word slot) {
  const Word* const words = image_.slot(slot);
  if (!is_offered(slot)) return false;
  if (words[0] == kWaitIo) return finish_io(slot);
  if (words[0] != kPublished && words[0] != kYield && words[0] != kRequeue) return false;

  const Word opcode = words[1];
  const Word tenant = words[2];
  const std::uint64_t mask_index = std::uint64_t{image_.control[2]} + tenant;
  if (mask_index < 3 || mask_index > 31) {
    end_as_fault(slot, {3});
    return true;
  }
  if (image_.control[mask_index] == 0 || image_.control[32 + tenant] == 0) return false;

  ItemRun run = {.opcode = opcode, .tenant = tenant, .priority = priority_of(slot), .slot = slot};
  std::copy_n(words + 4, 12, run.args.begin());
  const bool is_payload =
      options_.has_payload && opcode != kFence && opcode != kShutdown && opcode != kPacked;
  if (opcode == kFence && run.args[0] <= slot && !fence_is_ready(slot)) return put_back(slot);
  if (!is_payload && (opcode == kLoadMiss || will_await(opcode, run.args)) && !has_free_io()) {
    starved_of_io_ = true;
    return put_back(slot);
  }
  claim(slot);
  ItemWorld around = world();
  const RunEnd end = is_payload ? run_payload(run, around) : execute(run);
  if (end.kind == Kind::done) count_execution(opcode);
  end_run(slot, run, end);
  return true;
}

void RingModel::count_execution(Word opcode) {
  if (opcode < 32) image_.control[96 + opcode] += 1;
}

void RingModel::end_run(Word slot, const ItemRun& run, const RunEnd& end) {
  Word* const words = image_.slot(slot);
  // An inner handler has args of its own; those of the packed slot stay.
  if (run.opcode != kPacked) std::copy(run.args.begin(), run.args.end(), words + 4);
  switch (end.kind) {
    case Kind::done:
      return end_as_done(slot);
    case Kind::fault:
      return end_as_fault(slot, end.codes);
    case Kind::yield:
      words[0] = kYield;
      return;
    case Kind::requeue:
      words[0] = kRequeue;
      return;
    case Kind::wait_io:
      words[0] = kWaitIo;
      facts_[slot].has_request = true;
      requests_.push_back({.words = end.request, .slot = slot, .has_tag = run.opcode == kLoadMiss});
      return;
  }
}

RunEnd RingModel::execute(ItemRun& run) {
  if (is_handler(run.opcode)) {
    ItemWorld around = world();
    return run_handler(run, around);
  }
  return run_builtin(run);
}

RunEnd RingModel::run_builtin(ItemRun& run) {
  ItemWorld around = world();
  const auto& args = run.args;
  std::vector<Word> codes;
  switch (run.opcode) {
    case kNop:
      return {};
    case kStore:
    case kAdd: {
      Word* const word = control_word(around, args[1], run.tenant, codes);
      if (word == nullptr) return {.kind = Kind::fault, .codes = codes};
      *word = run.opcode == kStore ? args[0] : *word + args[0];
      return {};
    }
    case kLoad: {
      if (args[0] >= around.control.size()) codes.push_back(2);
      Word* const target =
          control_word(around, std::uint64_t{kFirstObservable} + args[1], run.tenant, codes);
      if (!codes.empty()) return {.kind = Kind::fault, .codes = codes};
      *target = around.control[args[0]];
      return {};
    }
    case kSwap: {
      Word* const word = control_word(around, args[0], run.tenant, codes);
      Word* const before =
          control_word(around, std::uint64_t{kFirstObservable} + args[0], run.tenant, codes);
      if (!codes.empty()) return {.kind = Kind::fault, .codes = codes};
      const Word old = *word;
      if (old == args[1]) *word = args[2];
      *before = old;
      return {};
    }
    case kCopy:
      return run_copy(run, around);
    case kDfa:
      return run_dfa(run, around);
    case kFence:
      if (args[0] > run.slot) return {.kind = Kind::fault, .codes = {7}};
      run_fence(run);
      return {};
    case kLoadMiss:
      return run_load_miss(run);
    case kPrintf:
      records_.push_back({args[0], args[1], args[2], run.slot * 16});
      return {};
    case kPacked:
      return run_packed(run);
    case kShutdown:
      if (run.tenant != 0) return {.kind = Kind::fault, .codes = {5}};
      image_.control[0] = 1;
      return {};
    default:
      return {.kind = Kind::fault, .codes = {1}};
  }
}

RunEnd RingModel::run_copy(const ItemRun& run, ItemWorld& world) {
  const auto [source, target, count] = std::array{run.args[0], run.args[1], run.args[2]};
  std::vector<Word> codes;
  if (run.tenant != 0 && target < kFirstObservable) codes.push_back(5);
  if (std::uint64_t{source} + count > world.control.size() ||
      std::uint64_t{target} + count > world.control.size()) {
    codes.push_back(2);
  }
  if (!codes.empty()) return {.kind = Kind::fault, .codes = codes};
  const std::vector<Word> copied(world.control.begin() + source,
                                 world.control.begin() + source + count);
  std::ranges::copy(copied, world.control.begin() + target);
  return {};
}

RunEnd RingModel::run_dfa(const ItemRun& run, ItemWorld& world) {
  std::vector<Word> codes;
  const std::uint64_t index = std::uint64_t{run.args[0]} * 256 + (run.args[1] & 255);
  const Word* const next = data_word(world, run.args[3], index, 1, run.tenant, codes);
  Word* const target =
      control_word(world, std::uint64_t{kFirstObservable} + run.args[2], run.tenant, codes);
  if (!codes.empty()) return {.kind = Kind::fault, .codes = codes};
  *target = *next;
  return {};
}

void RingModel::run_fence(const ItemRun& run) {
  if (image_.control.size() > kFirstObservable) image_.control[kFirstObservable] = run.args[1];
  image_.control[128] += 1;
  fences_.push_back(run.slot);
}

RunEnd RingModel::run_load_miss(const ItemRun& run) {
  const Word resource = run.args[0];
  const std::array<Word, 8> request = {1, resource, resource, 0, 0, 0, 1, resource};
  if (run.args[1] == 0) return {.kind = Kind::wait_io, .request = request};
  requests_.push_back({.words = request, .slot = run.slot, .is_prefetch = true});
  return {};
}

RunEnd RingModel::run_packed(const ItemRun& run) {
  const auto byte = [&](Word i) { return (run.args[i / 4] >> (8 * (i % 4))) & 0xFF; };
  const RunEnd bad = {.kind = Kind::fault, .codes = {6}};
  const Word count = byte(0);
  const Word total = byte(1);
  const Word first_arg = (2 + 2 * count + 3) / 4;
  if (first_arg + total > 12) return bad;
  const auto end_of = [&](Word i) { return i + 1 < count ? byte(3 + 2 * (i + 1)) : total; };
  for (Word i = 0; i < count; ++i) {
    const Word opcode = byte(2 + 2 * i);
    if (byte(3 + 2 * i) > end_of(i) || end_of(i) > total) return bad;
    if (opcode == kFence || can_return(opcode)) return bad;
  }
  for (Word i = 0; i < count; ++i) {
    ItemRun inner = {.opcode = byte(2 + 2 * i),
                     .tenant = run.tenant,
                     .priority = run.priority,
                     .slot = run.slot};
    for (Word k = byte(3 + 2 * i); k < end_of(i); ++k) {
      inner.args[k - byte(3 + 2 * i)] = run.args[first_arg + k];
    }
    const RunEnd end = execute(inner);
    if (end.kind != Kind::done) return end;
    count_execution(inner.opcode);
  }
  return {};
}

// ---- orders ----

void RingModel::follow(const RingImage& seen) {
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (Word i = 0; i < image_.slot_count(); ++i) {
      if (!is_as_seen(i, seen) && step(i)) has_moved = true;
    }
  }
}

// One claim by the rule of the priority schedule; false when there is nothing to claim.
bool RingModel::step_by_priority() {
  const Word count = image_.slot_count();
  std::vector<Word> order;
  if (image_.control[135] >= 16) {
    for (Word i = offsets_[2]; i < count; ++i) order.push_back(i);
  }
  for (Word i = 0; i < count; ++i) order.push_back(i);
  return std::ranges::any_of(order, [&](Word i) { return step(i); });
}

void RingModel::run_in_order() {
  if (image_.control[0] != 0) return;
  if (options_.schedule == Schedule::priority) {
    while (image_.control[0] == 0 && step_by_priority()) {
    }
    return;
  }
  const Word count = image_.slot_count();
  const Word first = options_.schedule == Schedule::ticket ? start_.control[141] % count : 0;
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (Word i = 0; i < count; ++i) {
      if (step((first + i) % count)) has_moved = true;
      if (image_.control[0] != 0) return;
    }
  }
}

std::int64_t RingModel::next_runnable() const {
  std::vector<DataImage> data = *data_;
  RingModel copy = *this;
  copy.data_ = &data;
  for (Word i = 0; i < image_.slot_count(); ++i) {
    if (copy.step(i)) return i;
  }
  return -1;
}

// ---- comparing ----

bool RingModel::is_as_seen(Word slot, const RingImage& seen) const {
  const Word* const ours = image_.slot(slot);
  const Word* const theirs = seen.slot(slot);
  const SlotFacts& facts = facts_[slot];
  const Word opcode = ours[1];
  if (theirs[0] != ours[0]) {
    // A worker may have claimed the item and put it back, or may have seen without a claim that it
    // cannot run.
    const Word back = opcode == kFence ? kYield : kRequeue;
    const bool is_claimable = ours[0] == kPublished || ours[0] == kYield || ours[0] == kRequeue;
    const bool may_be_put_back =
        opcode == kFence || opcode == kLoadMiss || opcode == handler::kWaiter;
    if (!is_claimable || !may_be_put_back || theirs[0] != back) return false;
  }
  for (Word i = 1; i < 15; ++i) {
    if (i != 3 && theirs[i] != ours[i]) return false;
  }
  if (!facts.has_request && theirs[15] != ours[15]) return false;
  if (theirs[3] == ours[3]) return true;
  if ((theirs[3] & 0xFFFF) != (ours[3] & 0xFFFF)) return false;
  return std::ranges::find(facts.codes, theirs[3] >> 16) != facts.codes.end();
}

namespace {

bool is_active(Word status) {
  return status == kPublished || status == kClaimed || status == kWaitIo || status == kYield ||
         status == kRequeue;
}

std::string slot_text(const Word* words) {
  std::string text;
  for (Word i = 0; i < 4; ++i) text += fmt::format(" {:#x}", words[i]);
  for (Word i = 4; i < 16; ++i) text += fmt::format(" {}", words[i]);
  return text;
}

bool is_sub_multiset(std::vector<Record> part, std::vector<Record> whole) {
  std::ranges::sort(part);
  std::ranges::sort(whole);
  return std::ranges::includes(whole, part);
}

}  // namespace

std::string RingModel::ring_difference(const RingImage& seen) const {
  if (seen.ring.size() != image_.ring.size()) return "the ring has another length";
  for (Word i = 0; i < image_.slot_count(); ++i) {
    if (is_as_seen(i, seen)) continue;
    return fmt::format("slot {}:\n  expected{}\n  got     {}\n  from    {}", i,
                       slot_text(image_.slot(i)), slot_text(seen.slot(i)),
                       slot_text(start_.slot(i)));
  }
  return {};
}

Word RingModel::record_room() const {
  if (start_.debug_log.empty()) return 0;
  const Word cursor = start_.debug_log[0];
  const Word capacity = static_cast<Word>((start_.debug_log.size() - 1) / 4);
  return cursor / 4 >= capacity ? 0 : capacity - cursor / 4;
}

std::string RingModel::ticket_difference(const RingImage& seen) const {
  const Word count = image_.slot_count();
  const Word start = start_.control[141];
  const bool is_fresh = start == 0 && start_.control[142] == 0;
  const Word end = is_fresh ? count : start_.control[142];
  const Word head = seen.control[141];
  const Word tail = seen.control[142];
  const bool was_stopped = seen.control[0] != 0;
  bool is_right = tail == end && head == end;
  // If every slot that is left could not run, workers may leave the head at the first of them for
  // the next dispatch. Workers that SHUTDOWN stopped leave the head anywhere, or never took a
  // ticket.
  if (!is_right && head - start <= end - start) {
    Word first_left = start;
    while (first_left != end && !is_active(seen.slot(first_left % count)[0])) ++first_left;
    is_right = was_stopped ? tail == end || tail == start_.control[142]
                           : tail == end && head == first_left;
  }
  if (is_right) return {};
  return fmt::format("TICKET_HEAD {} and TICKET_TAIL {} after {} and {} with {} slots", head, tail,
                     start, start_.control[142], count);
}

std::string RingModel::first_observable_difference(const RingImage& seen) const {
  // A fence inside the batch of another fence cannot have been the last.
  std::vector<Word> tags;
  for (const Word fence : fences_) {
    const bool has_later = std::ranges::any_of(fences_, [&](Word other) {
      return other > fence && other - fence <= image_.slot(other)[4];
    });
    if (!has_later) tags.push_back(image_.slot(fence)[5]);
  }
  if (std::ranges::find(tags, seen.control[kFirstObservable]) != tags.end()) return {};
  return fmt::format("observable 0 is {}, the tag of none of {} last fences",
                     seen.control[kFirstObservable], tags.size());
}

std::string RingModel::control_difference(const RingImage& seen, Exactness exactness) const {
  if (seen.control.size() != image_.control.size()) return "the control buffer has another length";
  const Word room = record_room();
  const auto printed = static_cast<Word>(records_.size());
  for (std::size_t i = 0; i < image_.control.size(); ++i) {
    Word expected = image_.control[i];
    if (i == 144) expected += printed - std::min(printed, room);
    if (seen.control[i] == expected) continue;
    if (options_.schedule == Schedule::ticket && (i == 141 || i == 142)) continue;
    if (exactness == Exactness::any_order && options_.schedule == Schedule::priority && i == 135) {
      continue;
    }
    if (exactness != Exactness::in_order && i == kFirstObservable && !fences_.empty()) continue;
    return fmt::format("control[{}]: expected {}, got {}, from {}", i, expected, seen.control[i],
                       start_.control[i]);
  }
  if (options_.schedule == Schedule::ticket) {
    const std::string tickets = ticket_difference(seen);
    if (!tickets.empty()) return tickets;
  }
  const bool has_tag = !fences_.empty() && image_.control.size() > kFirstObservable;
  return has_tag ? first_observable_difference(seen) : "";
}

std::string RingModel::log_difference(const RingImage& seen, Exactness exactness) const {
  const auto& log = seen.debug_log;
  if (log.size() != start_.debug_log.size()) return "the debug log has another length";
  if (log.empty()) return {};
  const Word first = start_.debug_log[0];
  const Word count = std::min(static_cast<Word>(records_.size()), record_room());
  if (log[0] != first + count * 4) {
    return fmt::format("debug log cursor: expected {}, got {}, from {}; {} records",
                       first + count * 4, log[0], first, records_.size());
  }
  std::vector<Record> found;
  for (Word i = 0; i < count; ++i) {
    Record record = {};
    std::copy_n(log.begin() + 1 + first + i * 4, 4, record.begin());
    found.push_back(record);
  }
  const std::vector<Record> written(records_.begin(), records_.begin() + count);
  const bool in_order = exactness == Exactness::in_order;
  if (in_order ? found != written : !is_sub_multiset(found, records_)) {
    return "the debug log holds other records than were printed";
  }
  for (std::size_t i = 1; i < log.size(); ++i) {
    const bool is_new = i > first && i <= first + count * 4;
    if (!is_new && log[i] != start_.debug_log[i]) {
      return fmt::format("debug log word {} was changed", i);
    }
  }
  return {};
}

std::string RingModel::io_difference(const RingImage& seen) const {
  if (seen.io_queue.size() != image_.io_queue.size()) return "the IO queue has another length";
  std::vector<bool> is_taken(image_.io_count());
  const auto holds = [&](Word at, const Request& request) {
    if (is_taken[at] || image_.io_queue[at * 8 + 6] != 0) return false;
    const Word words = request.has_tag ? 8 : 7;
    return std::equal(request.words.begin(), request.words.begin() + words,
                      seen.io_queue.begin() + at * 8);
  };
  for (const Request& request : requests_) {
    if (request.is_prefetch) continue;
    const Word at = seen.slot(request.slot)[15];
    if (at >= image_.io_count() || !holds(at, request)) {
      return fmt::format("slot {} waits for IO slot {}, which does not hold its request",
                         request.slot, at);
    }
    is_taken[at] = true;
  }
  for (const Request& request : requests_) {
    if (!request.is_prefetch) continue;
    Word at = 0;
    while (at < image_.io_count() && !holds(at, request)) ++at;
    if (at == image_.io_count()) {
      return fmt::format("the request of slot {} is in no IO slot", request.slot);
    }
    is_taken[at] = true;
  }
  for (Word at = 0; at < image_.io_count(); ++at) {
    if (is_taken[at]) continue;
    const auto ours = image_.io_queue.begin() + at * 8;
    const auto theirs = seen.io_queue.begin() + at * 8;
    const bool is_zero = std::all_of(theirs, theirs + 8, [](Word word) { return word == 0; });
    if (std::equal(ours, ours + 8, theirs) || (freed_[at] && is_zero)) continue;
    return fmt::format("IO slot {}: status expected {}, got {}, from {}", at, *(ours + 6),
                       *(theirs + 6), start_.io_queue[at * 8 + 6]);
  }
  return {};
}

std::string RingModel::difference(const RingImage& seen, Exactness exactness) const {
  if (std::string text = ring_difference(seen); !text.empty()) return text;
  if (std::string text = control_difference(seen, exactness); !text.empty()) return text;
  if (std::string text = log_difference(seen, exactness); !text.empty()) return text;
  return io_difference(seen);
}

}  // namespace everkernel::test
