#include "ring_generator.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace everkernel::test {
namespace {

using namespace wire;

constexpr Word kAlmostWrapped = 0xFFFFFFFDu;

// Observables: one for the fences, three for sums, twenty whose order matters, then two for each
// slot. A COMPARE_SWAP of any of them also writes the word 160 further up.
constexpr Word kFirstSum = kFirstObservable + 1;
constexpr Word kSums = 3;
constexpr Word kFirstOrdered = kFirstObservable + 4;
constexpr Word kOrdered = 20;
constexpr Word kFirstOwn = kFirstOrdered + kOrdered;

// Words of a data buffer that belong to one submission: sums, words whose order matters, then four
// for each slot.
constexpr Word kDataSums = 8;
constexpr Word kDataFirstOwn = 32;
constexpr Word data_region(Word slot_count) {
  return kDataFirstOwn + 4 * slot_count;
}

constexpr Word kUnknownOpcodes[] = {11,          30,          100,        0xFFF0u,
                                    0xFFFCu,     0xFFFFu,     0x10001u,   0x7FFFFFFEu,
                                    0x80000000u, 0x80000002u, 0xFFFFFFFEu};
constexpr Word kUnknownHandles[] = {0, 4, 0x80000001u, 0xFFFFFFFFu};

// One slot before it is written into the ring.
struct Draft {
  Word index = 0;
  Word status = 0;
  Word opcode = 0;
  Word tenant = 0;
  std::array<Word, 12> args = {};
  bool needs_priority = false;  // the item reads it: word 3 and partition must agree
};

class Maker {
 public:
  Maker(Random& random, const RingShape& shape) : random_(random), shape_(shape) {
    ring_.is_in_order = shape.is_in_order;
    ring_.has_returns = !shape.is_in_order || random.chance(40);
  }

  GeneratedRing make() {
    make_control();
    make_log();
    make_io();
    // If items come back, it is not defined which items ran before a SHUTDOWN.
    const bool has_shutdown = !(shape_.is_in_order && ring_.has_returns) && random_.chance(6);
    const Word shutdown_at = random_.below(shape_.slot_count);
    for (Word i = 0; i < shape_.slot_count; ++i) {
      Draft draft = {.index = i};
      make_slot(draft);
      if (has_shutdown && i == shutdown_at) make_shutdown(draft);
      write(draft);
    }
    return ring_;
  }

 private:
  // ---- the neighbours ----

  void make_control() {
    const Word own = 2 * shape_.slot_count;
    const Word counts[] = {
        0, 1, 4, kFirstOwn - kFirstObservable, kFirstOwn - kFirstObservable + own, 160, 400};
    const Word weights[] = {4, 6, 6, 6, 24, 14, 40};
    const Word observables = counts[random_.weighted(weights)];
    auto& control = ring_.image.control;
    control.assign(kFirstObservable + observables, 0);
    for (Word i = kFirstObservable; i < control.size(); ++i) control[i] = random_.word();
    if (random_.rarely(15)) control[0] = random_.chance(50) ? 1 : random_.word();
    make_tenants();
    make_counters();
    make_offsets();
  }

  void make_tenants() {
    auto& control = ring_.image.control;
    const Word bases[] = {0, 1, 2, 4, 10, 28, 31, 32, 0xFFFFFFF0u};
    control[2] = shape_.is_in_order || random_.chance(85) ? 3 : random_.pick(bases);
    for (Word i = 3; i < 32; ++i) {
      control[i] = random_.chance(12)   ? 0
                   : random_.chance(50) ? 0xFFFFFFFFu
                                        : 1u + random_.below(9);
    }
    if (random_.chance(80)) control[3] = 1;  // the operator
    const Word quotas[] = {0, 1, 2, 1'000'000};
    const Word weights[] = {5, 20, 15, 60};
    for (Word i = 32; i < 64; ++i) control[i] = quotas[random_.weighted(weights)];
  }

  void make_counters() {
    auto& control = ring_.image.control;
    const Word start = random_.chance(35) ? kAlmostWrapped : random_.chance(50) ? 0 : 7;
    control[1] = control[128] = control[143] = control[144] = start;
    for (Word i = 64; i < 128; ++i) control[i] = start;
    for (Word i = 136; i < 141; ++i) control[i] = start;
    const Word starvations[] = {0, 0, 13, 15, 16, 40, kAlmostWrapped};
    control[135] = random_.pick(starvations);
    if (random_.chance(80)) return;
    // Tickets of a lap that begins anywhere; past 2^32 only if the number of slots is a power of
    // two.
    const bool is_power = (shape_.slot_count & (shape_.slot_count - 1)) == 0;
    control[141] = is_power && random_.chance(50) ? kAlmostWrapped : random_.below(1000);
    const bool is_whole = random_.chance(60);
    control[142] =
        control[141] + (is_whole ? shape_.slot_count : random_.below(shape_.slot_count + 1));
  }

  void make_offsets() {
    if (random_.chance(60)) return;
    std::array<Word, 4> cuts = {};
    for (Word& cut : cuts) cut = random_.below(shape_.slot_count + 1);
    std::ranges::sort(cuts);
    std::ranges::copy(cuts, ring_.image.control.begin() + 130);
    ring_.image.control[134] = shape_.slot_count;
  }

  void make_log() {
    ring_.without_log = random_.chance(5);
    const Word records = random_.below(9);
    const Word extra = random_.chance(10) ? random_.between(1, 3) : 0;
    auto& log = ring_.image.debug_log;
    if (ring_.without_log) return;
    log.assign(1 + records * 4 + extra, 0);
    for (Word& word : log) word = random_.word();
    log[0] = random_.chance(70) ? 0 : 4 * random_.below(records + 1);
  }

  void make_io() {
    ring_.without_queue = random_.chance(4);
    auto& queue = ring_.image.io_queue;
    if (ring_.without_queue) {
      queue.assign(8, 0);
      return;
    }
    queue.assign(8 * random_.between(1, 4), 0);
    for (Word& word : queue) word = random_.word();
    const Word statuses[] = {0, 1, 2, 3, 0x10, 0x11, 4, 0xFFFFFFFFu};
    const Word weights[] = {50, 10, 8, 9, 10, 9, 2, 2};
    for (Word i = 6; i < queue.size(); i += 8) queue[i] = statuses[random_.weighted(weights)];
  }

  // ---- words to use ----

  bool is_operator(const Draft& draft) const { return draft.tenant == 0; }
  Word group_of(Word slot) const {
    const auto offsets = partition_offsets(ring_.image.control, shape_.slot_count);
    return ring_.has_returns ? 4 * partition_of(offsets, slot) : 4 * random_group();
  }
  Word random_group() const { return random_.below(5); }
  Word control_words() const { return static_cast<Word>(ring_.image.control.size()); }
  Word own_observable(Word slot) { return kFirstOwn + 2 * slot + random_.below(2); }
  Word ordered_observable(Word slot) {
    const Word group = group_of(slot);
    return kFirstOrdered + group + random_.below(4);
  }
  Word data_base() const { return shape_.submission * data_region(shape_.slot_count); }
  Word data_sum() { return data_base() + random_.below(kDataSums); }
  Word data_own(Word slot) const { return data_base() + kDataFirstOwn + 4 * slot; }
  Word data_ordered(Word slot) {
    const Word group = group_of(slot);
    return data_base() + kDataSums + group + random_.below(4);
  }

  // Sometimes an index that is out of range, even after 160 is added to it.
  Word wild_or(Word index) {
    if (!random_.chance(5)) return index;
    const Word wild[] = {control_words(), control_words() + 1, 0xFFFFFFFFu, 0xFFFFFF60u,
                         0x80000000u + random_.below(100)};
    return random_.pick(wild);
  }
  Word wild_data_or(Word index) {
    if (!random_.chance(5)) return index;
    const Word end = kMaxSubmissions * data_region(shape_.slot_count);
    const Word wild[] = {end, end + 1, 0xFFFFFFFFu};
    return random_.pick(wild);
  }
  // A word that the tenant may not write, or a system word that the operator may write.
  Word low_word(const Draft& draft) {
    if (!is_operator(draft)) return random_.below(kFirstObservable);
    const Word sums[] = {1,   64 + random_.below(32), 96 + random_.below(32), 128, 143,
                         144, 136 + random_.below(5), 152 + random_.below(8)};
    return random_.pick(sums);
  }
  Word output_handle() {
    const Word handles[] = {handle::kShared,    handle::kLarge, handle::kOwned,
                            handle::kWriteOnly, handle::kTable, random_.pick(kUnknownHandles)};
    const Word weights[] = {70, 10, 7, 4, 4, 5};
    return handles[random_.weighted(weights)];
  }
  Word input_handle() {
    const Word handles[] = {handle::kTable, handle::kWriteOnly, random_.pick(kUnknownHandles)};
    const Word weights[] = {88, 6, 6};
    return handles[random_.weighted(weights)];
  }

  // ---- slots ----

  void make_slot(Draft& draft) {
    make_tenant(draft);
    make_status(draft);
    const bool may_order = shape_.is_in_order && draft.status == kPublished;
    if (may_order && random_.chance(55)) {
      make_ordered(draft);
    } else {
      make_free(draft);
    }
    if (draft.status == kWaitIo) make_waiting(draft);
  }

  void make_tenant(Draft& draft) {
    if (random_.chance(30)) {
      draft.tenant = 0;
    } else {
      draft.tenant = random_.chance(70) ? random_.between(1, 4) : random_.below(29);
    }
    // It is not defined whether a slot that is refused counts as a claim for word 135.
    if (shape_.is_in_order) {
      draft.tenant = std::min(draft.tenant, 28u);
      return;
    }
    if (!random_.chance(3)) return;
    const Word base = ring_.image.control[2];
    const Word outside[] = {29, 30, 31, 32, 0xFFFFFFFFu, 5 - base, 64, 0x80000000u};
    draft.tenant = random_.pick(outside);
  }

  void make_status(Draft& draft) {
    const Word statuses[] = {kPublished, kEmpty, kYield,   kRequeue, kWaitIo,
                             kDone,      kFault, kClaimed, 8,        0xFFFFFFFFu};
    const Word weights[] = {720, 70, 45, 45, 50, 25, 20, 15, 5, 5};
    draft.status = statuses[random_.weighted(weights)];
    if (!ring_.has_returns && (draft.status == kYield || draft.status == kRequeue)) {
      draft.status = kPublished;
    }
  }

  // Operations whose result depends on the items that ran before.
  void make_ordered(Draft& draft) {
    auto& args = draft.args;
    const Word slot = draft.index;
    const Word word = wild_or(ordered_observable(slot));
    const Word other = ordered_observable(slot);
    const Word small = random_.below(4);
    switch (random_.below(6)) {
      case 0:
        draft.opcode = kStore;
        args = {small, word};
        return;
      case 1:
        draft.opcode = kAdd;
        args = {random_.word(), word};
        return;
      case 2:
        draft.opcode = kLoad;
        args = {word, other - kFirstObservable};
        return;
      case 3:
        // In a long ring, COMPARE_SWAP also writes a word that belongs to another slot, perhaps of
        // another partition.
        draft.opcode = ring_.has_returns && shape_.slot_count > 64 ? kStore : kSwap;
        args = {word, small, random_.below(4)};
        if (draft.opcode == kStore) std::swap(args[0], args[1]);
        return;
      case 4: {
        draft.opcode = kCopy;
        const Word first = kFirstOrdered + (ring_.has_returns ? group_of(slot) : 0);
        const Word length = ring_.has_returns ? 4 : kOrdered;
        const Word count = random_.between(1, length / 2);
        args = {first + random_.below(length - count + 1),
                first + random_.below(length - count + 1), count};
        return;
      }
      default:
        draft.opcode = handler::kMover;
        args = {handle::kShared, handle::kShared, random_.word(), data_ordered(slot),
                data_ordered(slot)};
        return;
    }
  }

  // Operations whose result is the same in every order.
  void make_free(Draft& draft) {
    if (shape_.is_busy && random_.chance(50)) {
      return random_.chance(25) ? make_fence(draft) : make_adder(draft, handler::kLooper);
    }
    const Word kinds[] = {5, 6, 10, 5, 5, 5, 6, 9, 7, 7, 10, 5, 24};
    switch (random_.weighted(kinds)) {
      case 7:
        return make_fence(draft);
      case 8:
        return make_load_miss(draft);
      case 9:
        draft.opcode = kPrintf;
        draft.args = {random_.word(), random_.word(), random_.below(3)};
        return;
      case 10:
        return make_packed(draft);
      case 11:
        draft.opcode = random_.pick(kUnknownOpcodes);
        for (Word& arg : draft.args) arg = random_.word();
        return;
      case 12:
        return make_handler(draft);
      default: {
        const Word opcode = random_.below(7);
        draft.opcode = opcode;
        const auto args = builtin_args(draft, opcode);
        std::ranges::copy(args, draft.args.begin());
      }
    }
  }

  std::vector<Word> builtin_args(const Draft& draft, Word opcode) {
    const Word own = own_observable(draft.index);
    const bool is_low = random_.chance(12);
    switch (opcode) {
      case kStore: {
        // The operator may store into reserved words; each slot has its own.
        const bool is_own_low = !is_operator(draft) || draft.index < 7;
        const Word low = is_operator(draft) ? 145 + draft.index : low_word(draft);
        return {random_.word(), is_low && is_own_low ? low : wild_or(own)};
      }
      case kAdd:
        return {random_.word(),
                is_low ? low_word(draft) : wild_or(kFirstSum + random_.below(kSums))};
      case kLoad:
        return {wild_or(random_.between(2, 63)), wild_or(own - kFirstObservable)};
      case kSwap:
        // In a long ring, COMPARE_SWAP also writes a word that belongs to another slot.
        if (shape_.slot_count > 64) return {control_words(), 0, 0};
        return {is_low && !is_operator(draft) ? low_word(draft) : wild_or(own),
                random_.chance(50) && own < control_words() ? ring_.image.control[own] : 5,
                random_.word()};
      case kCopy: {
        const Word first = kFirstOwn + 2 * draft.index;
        if (is_low && !is_operator(draft)) return {random_.between(2, 60), low_word(draft), 1};
        const Word count = random_.chance(8) && first < control_words() ? 0 : random_.between(1, 2);
        if (random_.chance(6)) return {wild_or(first), first, 0xFFFFFFFFu - random_.below(200)};
        return {wild_or(random_.between(2, 61)), first, count};
      }
      case kDfa: {
        const Word states[] = {0, 1, 2, 3, 0x01000000u, 0xFFFFFFFFu};
        const Word weights[] = {30, 30, 30, 4, 3, 3};
        return {states[random_.weighted(weights)], random_.word(), wild_or(own - kFirstObservable),
                input_handle()};
      }
      default:
        return {};
    }
  }

  void make_fence(Draft& draft) {
    draft.opcode = kFence;
    const bool is_bad = random_.chance(8);
    const Word bad[] = {draft.index + 1, draft.index + 2, 0xFFFFFFFFu, 0x80000000u};
    const Word longest = random_.chance(20) ? draft.index : std::min(draft.index, 6u);
    draft.args = {is_bad ? random_.pick(bad) : random_.below(longest + 1), random_.word()};
    // If items come back, the order of a fence and the items it waits for is not defined.
    if (shape_.is_in_order && ring_.has_returns && !is_bad) draft.args[0] = 0;
  }

  void make_load_miss(Draft& draft) {
    if (shape_.is_in_order && ring_.has_returns) return make_adder(draft, handler::kLooper);
    draft.opcode = kLoadMiss;
    draft.args = {random_.word(), random_.chance(60) ? 0 : random_.between(1, 9)};
    draft.args[11] = random_.word();
  }

  void make_adder(Draft& draft, Word opcode) {
    draft.opcode = opcode;
    const Word index = random_.chance(50) ? data_sum() : data_own(draft.index);
    draft.args = {random_.word(), output_handle(), random_.word(), 0, wild_data_or(index)};
    if (opcode == handler::kLooper) {
      // An item that runs out of fuel never leaves its loop, so it does not count itself as being
      // in the loop.
      draft.args[5] = random_.chance(85) ? 0 : 1;
      draft.args[3] = draft.args[5] == 0 ? random_.below(shape_.fuel / 2)
                                         : shape_.fuel * 2 + random_.below(1000);
    } else if (opcode == handler::kFaulter) {
      draft.args[3] = random_.chance(30) ? 65279 : random_.below(65280);
    } else if (opcode == handler::kTotal) {
      draft.args[0] = input_handle();
      draft.args[3] = random_.below(40);
    } else if (opcode == handler::kCountdown) {
      draft.args[3] = ring_.has_returns ? random_.below(6) : 0;
      draft.args[5] = random_.below(3);
      draft.args[6] = random_.chance(20) ? 1 : 0;
      draft.args[7] = random_.below(1000);
    }
  }

  void make_handler(Draft& draft) {
    using namespace handler;
    const Word kinds[] = {24, 7, 8, 5, 8, 5, 8, 6, 10, 10};
    constexpr Word kOpcodes[] = {kCountdown, kFaulter, kLooper, kTwice,   kObserve,
                                 kMover,     kStamp,   kTotal,  kPrinter, kWaiter};
    draft.opcode = kOpcodes[random_.weighted(kinds)];
    switch (draft.opcode) {
      case kTwice:
      case kMover:
      case kObserve:
      case kStamp: {
        const auto args = small_handler_args(draft, draft.opcode);
        std::ranges::copy(args, draft.args.begin());
        draft.needs_priority = draft.opcode == kStamp;
        draft.args[5] = random_.word();
        return;
      }
      case kPrinter:
        draft.args = {0,
                      0,
                      random_.word(),
                      random_.word(),
                      random_.word(),
                      ring_.has_returns ? random_.below(3) : 0};
        return;
      case kWaiter:
        return make_waiter(draft);
      default:
        return make_adder(draft, draft.opcode);
    }
  }

  // Arguments of handlers that also fit a packed slot.
  std::vector<Word> small_handler_args(const Draft& draft, Word opcode) {
    switch (opcode) {
      case handler::kTwice:
        return {0, output_handle(), wild_data_or(data_sum()), random_.word()};
      case handler::kObserve:
        return {0, 0, random_.word(),
                random_.chance(10) && !is_operator(draft) ? low_word(draft)
                                                          : wild_or(own_observable(draft.index)),
                random_.chance(10) ? low_word(draft) : kFirstSum + random_.below(kSums)};
      case handler::kMover:
        return {input_handle(), output_handle(), random_.word(), data_own(draft.index),
                random_.below(800)};
      default:
        return {0, output_handle(), 0, wild_data_or(data_own(draft.index))};
    }
  }

  void make_waiter(Draft& draft) {
    if (shape_.is_in_order && ring_.has_returns) return make_adder(draft, handler::kLooper);
    draft.opcode = handler::kWaiter;
    draft.args = {0,
                  output_handle(),
                  random_.word(),
                  0,
                  random_.word(),
                  random_.word(),
                  random_.word(),
                  random_.word(),
                  random_.below(2),
                  wild_data_or(data_sum()),
                  0,
                  random_.word()};
    if (draft.status != kPublished && random_.chance(50)) draft.args[3] = 1;
  }

  // An item that waits for IO. Each served request has one item that waits for it.
  void make_waiting(Draft& draft) {
    auto& queue = ring_.image.io_queue;
    const Word count = ring_.image.io_count();
    if (random_.chance(40)) {
      make_load_miss(draft);
    } else if (random_.chance(60)) {
      make_waiter(draft);
      if (draft.opcode == handler::kWaiter) draft.args[3] = 1;
    }
    const auto is_answered = [&](Word at) {
      const Word status = queue[at * 8 + 6];
      return status == kIoDone || status == kIoOk || status == kIoError;
    };
    Word io_slot = random_.below(count);
    for (Word i = 0; i < count && random_.chance(60) && !is_answered(io_slot); ++i) {
      io_slot = (io_slot + 1) % count;
    }
    const bool is_served = is_answered(io_slot);
    const bool is_known = std::ranges::find(asked_, io_slot) != asked_.end();
    if (is_served && (is_known || shape_.is_in_order)) {
      draft.status = kPublished;
      return;
    }
    if (random_.chance(6)) io_slot = count + random_.below(3);
    draft.args[11] = io_slot;
    asked_.push_back(io_slot);
  }

  void make_shutdown(Draft& draft) {
    draft = {.index = draft.index, .status = kPublished, .opcode = kShutdown};
    draft.tenant = random_.chance(80) ? 0 : random_.between(1, 3);
  }

  // ---- packed slots ----

  struct Inner {
    Word opcode = 0;
    std::vector<Word> args = {};
  };

  Inner make_inner(Draft& draft) {
    constexpr Word kSmall[] = {handler::kTwice, handler::kObserve, handler::kMark, handler::kMover};
    const Word roll = random_.below(100);
    if (roll < 3) return {.opcode = random_.chance(50) ? 17u : 100u};
    if (roll < 5)
      return {.opcode = handler::kFaulter, .args = {0, handle::kShared, 1, 7, data_sum()}};
    if (roll < 8 && !is_operator(draft)) return {.opcode = kStore};  // missing arguments read 0
    if (roll < 10) return {.opcode = kNop, .args = {random_.word()}};
    if (roll < 40) {
      const Word opcode = random_.pick(kSmall);
      if (opcode == handler::kMark) draft.needs_priority = true;
      return {.opcode = opcode, .args = small_handler_args(draft, opcode)};
    }
    const Word opcode = random_.below(7);
    return {.opcode = opcode, .args = builtin_args(draft, opcode)};
  }

  void make_packed(Draft& draft) {
    draft.opcode = kPacked;
    std::vector<Inner> ops;
    for (Word room = 12, want = random_.below(6); want > 0; --want) {
      Inner op = make_inner(draft);
      // Two operations fill at most one word of metadata.
      if (op.args.size() + 1 > room - 1) break;
      room -= static_cast<Word>(op.args.size()) + 1;
      ops.push_back(std::move(op));
    }
    if (random_.chance(5)) {
      const Word opcode = random_.chance(50) ? kFence : handler::kCountdown;
      const Word at = random_.below(static_cast<Word>(ops.size() + 1));
      ops.insert(ops.begin() + at, {.opcode = opcode});
    }
    if (!pack(ops, draft)) return make_packed(draft);
    if (random_.chance(8)) damage_packed(draft, static_cast<Word>(ops.size()));
  }

  static bool pack(const std::vector<Inner>& ops, Draft& draft) {
    const auto set_byte = [&](std::size_t at, Word value) {
      draft.args[at / 4] |= value << (8 * (at % 4));
    };
    const std::size_t first = (2 + 2 * ops.size() + 3) / 4;
    draft.args = {};
    std::size_t offset = 0;
    for (const Inner& op : ops) offset += op.args.size();
    if (first + offset > 12) return false;
    set_byte(0, static_cast<Word>(ops.size()));
    set_byte(1, static_cast<Word>(offset));
    offset = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      set_byte(2 + 2 * i, ops[i].opcode);
      set_byte(3 + 2 * i, static_cast<Word>(offset));
      std::ranges::copy(ops[i].args,
                        draft.args.begin() + static_cast<std::ptrdiff_t>(first + offset));
      offset += ops[i].args.size();
    }
    return true;
  }

  // Breaks a payload so that none of its operations may run.
  void damage_packed(Draft& draft, Word op_count) {
    switch (random_.below(3)) {
      case 0:
        draft.args[0] |= 0xFF;  // operations
        return;
      case 1:
        draft.args[0] |= 0xFF00;  // argument words
        return;
      default:
        if (op_count > 0) draft.args[0] |= 0xFF000000u;  // offset of the first arguments
    }
  }

  void write(const Draft& draft) {
    auto& ring = ring_.image.ring;
    const auto offsets = partition_offsets(ring_.image.control, shape_.slot_count);
    Word priority = partition_of(offsets, draft.index);
    if (!draft.needs_priority && random_.chance(20)) priority = random_.below(5);
    if (!draft.needs_priority && !shape_.is_in_order && random_.rarely(5)) {
      priority = random_.chance(50) ? 5 : 0xFFFF;
    }
    if (draft.status == kFault) priority |= random_.between(1, 300) << 16;
    ring.insert(ring.end(), {draft.status, draft.opcode, draft.tenant, priority});
    ring.insert(ring.end(), draft.args.begin(), draft.args.end());
  }

  Random& random_;
  RingShape shape_;
  GeneratedRing ring_ = {};
  std::vector<Word> asked_ = {};  // IO slots that an item waits for
};

}  // namespace

std::vector<DataImage> generate_data(Random& random, Word slot_count) {
  const Word words = kMaxSubmissions * data_region(slot_count);
  std::vector<DataImage> data = {
      {.handle = handle::kShared, .words = std::vector<Word>(words)},
      {.handle = handle::kTable, .access = 1, .words = std::vector<Word>(768)},
      {.handle = handle::kWriteOnly, .access = 2, .words = std::vector<Word>(words)},
      {.handle = handle::kPayload, .words = std::vector<Word>(kPayloadWords)},
      {.handle = handle::kOwned, .owner = kOwnerOfOwned, .words = std::vector<Word>(words)},
      {.handle = handle::kLarge, .words = std::vector<Word>(words)}};
  for (DataImage& image : data) {
    for (Word& word : image.words) word = random.word();
  }
  return data;
}

GeneratedRing generate_ring(Random& random, const RingShape& shape) {
  return Maker(random, shape).make();
}

}  // namespace everkernel::test
