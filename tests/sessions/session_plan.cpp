#include "session_plan.hpp"

#include <algorithm>
#include <array>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/protocol/packed.hpp"
#include "support/sanitized.hpp"

namespace everkernel::test {
namespace {

using abi::EntryFormat;
using abi::Opcode;
using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};

class Generator {
 public:
  Generator(Random& random, const SessionProgram& program, Word worker_count)
      : random_(random), program_(program), worker_count_(worker_count) {}

  SessionPlan generate() {
    draw_end();
    draw_queues();
    draw_producers();
    draw_meddler();
    draw_buffers();
    return std::move(plan_);
  }

 private:
  void draw_end() {
    const SessionEnd ends[] = {SessionEnd::quiet, SessionEnd::stopped, SessionEnd::dropped};
    const Word weights[] = {60, 28, 12};
    plan_.end = ends[random_.weighted(weights)];
    plan_.end_mode = random_.chance(50) ? StopMode::drain : StopMode::cancel;
    plan_.session_capacity = 2u << random_.below(10);
  }

  // ---- queues ----

  QueueOptions random_options(Word tenant) {
    QueueOptions options{.tenant = TenantId(tenant), .priority = Priority{random_.below(5)}};
    options.capacity = 2u << random_.below(10);
    options.entries = random_.chance(50) ? EntryFormat::full : EntryFormat::compact;
    options.results = random_.chance(50);
    const std::uint64_t laps = 2 * std::uint64_t{options.capacity};
    const std::uint64_t edges[] = {0, 0, laps, 1ull << 32, 1ull << 63, 0};
    const std::uint64_t edge = random_.pick(edges);
    options.first_ticket = edge == 0 ? 0 : edge - laps * random_.below(2);
    // Of the items with loops, some end in time.
    const Word timeouts_us[] = {1, 100, 1'000, 10'000};
    if (random_.chance(15)) {
      options.item_timeout = std::chrono::microseconds(random_.pick(timeouts_us));
    }
    return options;
  }

  static bool has_timeout(const QueuePlan& queue) {
    return queue.options.item_timeout.count() != 0;
  }

  QueueKind random_kind() {
    if (plan_.end != SessionEnd::quiet) {
      return plan_.end == SessionEnd::stopped && random_.chance(15) ? QueueKind::own
                                                                    : QueueKind::opened;
    }
    const QueueKind kinds[] = {QueueKind::opened, QueueKind::own, QueueKind::attached,
                               QueueKind::child};
    const Word weights[] = {70, 15, 11, 4};
    const QueueKind kind = kinds[random_.weighted(weights)];
    // In a child of a process with threads, the allocator of a sanitizer may wait for ever.
    return kind == QueueKind::child && kIsSanitized ? QueueKind::attached : kind;
  }

  bool is_tenant_used(Word tenant) const {
    return std::ranges::any_of(plan_.queues, [&](const QueuePlan& queue) {
      return queue.options.tenant.number == tenant;
    });
  }

  // A producer has a few queues of its own; one queue may be everyone's.
  void draw_queues() {
    producer_count_ = random_.between(1, 4);
    for (Word producer = 0; producer < producer_count_; ++producer) {
      queues_of_.emplace_back();
      const Word count = random_.between(1, 2);
      for (Word i = 0; i < count; ++i) {
        const Word tenant = random_.chance(15) ? 0 : random_.between(1, 28);
        const bool is_alone = !is_tenant_used(tenant) && tenant != 0;
        QueuePlan queue{.kind = random_kind(), .options = random_options(tenant)};
        const bool is_last = i + 1 == count;  // one process or thread for all that it publishes
        if (queue.kind == QueueKind::child && count > 1) queue.kind = QueueKind::attached;
        queue.may_hold = is_alone && is_last && queue.kind == QueueKind::opened &&
                         plan_.end != SessionEnd::dropped && random_.chance(60);
        add_queue(queue, producer);
      }
    }
    if (producer_count_ > 1 && random_.chance(50)) {
      QueuePlan shared{.options = random_options(random_.chance(20) ? 0 : random_.between(1, 28)),
                       .is_shared = true};
      while (is_held(shared.options.tenant.number)) shared.options.tenant = TenantId(0);
      for (Word producer = 0; producer < producer_count_; ++producer) {
        if (plan_.queues[queues_of_[producer].front()].kind != QueueKind::child) {
          queues_of_[producer].push_back(static_cast<Word>(plan_.queues.size()));
        }
      }
      plan_.queues.push_back(shared);
    }
  }

  void add_queue(QueuePlan queue, Word producer) {
    if (is_held(queue.options.tenant.number)) queue.options.tenant = TenantId(0);
    if (queue.kind == QueueKind::own) {
      queue.options.capacity = plan_.session_capacity;
      queue.options.entries = EntryFormat::full;
      queue.options.results = false;
      queue.options.first_ticket = 0;
      queue.options.item_timeout = {};
      queue.is_shared = true;  // two producers may have drawn the same
    }
    queues_of_[producer].push_back(static_cast<Word>(plan_.queues.size()));
    plan_.queues.push_back(queue);
  }

  bool is_held(Word tenant) const {
    return std::ranges::any_of(plan_.queues, [&](const QueuePlan& queue) {
      return queue.may_hold && queue.options.tenant.number == tenant;
    });
  }

  // ---- items ----

  Word random_output() {
    using namespace session_handle;
    const Word handles[] = {kSums, kOwned, kReadOnly, kShort, kAbsent};
    const Word weights[] = {85, 5, 2, 6, 2};
    return handles[random_.weighted(weights)];
  }

  PlannedItem handler_item(const SessionHandler& handler, bool is_full) {
    PlannedItem item{.opcode = handler.opcode, .arg_count = 3};
    item.args[0] = random_.chance(96) ? session_handle::kSource : session_handle::kAbsent;
    item.args[1] = random_output();
    item.args[2] = plan_.trace_count++;
    if (!is_full || random_.chance(50)) return item;
    item.arg_count = random_.between(4, 12);
    for (Word i = 3; i < item.arg_count; ++i) item.args[i] = random_.word();
    item.args[4] = item.arg_count > 4 ? random_.below(4) : 0;
    return item;
  }

  PlannedItem builtin_item(Word tenant, bool is_full) {
    using namespace session_observable;
    constexpr Word kFirst = abi::kControlFirstObservable;
    const Word place = random_.below(kWords);
    const Word scratch = kFirstScratch + random_.below(30);
    const bool is_wild = random_.chance(6);
    const Word far = random_.chance(50) || tenant == 0 ? 100'000 : random_.below(kFirst);
    const Word weights[] = {30, 10, 25, 6, 8, 6, is_full ? 8u : 0u, 6, 3};
    switch (random_.weighted(weights)) {
      case 0:
        return {.opcode = Word(Opcode::nop)};
      case 1:
        return builtin(Opcode::store_u32, {stored_value(kFirstStore + place),
                                           is_wild ? far : kFirst + kFirstStore + place});
      case 2:
        return builtin(Opcode::atomic_add,
                       {random_.word(), is_wild ? far : kFirst + kFirstSum + place});
      case 3:
        return builtin(Opcode::load_u32, {random_.below(kFirst), is_wild ? 9'999u : scratch});
      case 4:  // the word before goes to the observable of the same number
        return builtin(Opcode::compare_swap, {is_wild ? far | 512u : kFirst + kFirstSwap + place, 0,
                                              stored_value(kFirstSwap + place)});
      case 5:
        return builtin(Opcode::memcpy, {kFirst + scratch, is_wild ? far : kFirst + kFirstScratch,
                                        random_.below(20)});
      case 6:
        return builtin(Opcode::dfa_step,
                       {is_wild ? 7u : random_.below(2), random_.word(), scratch,
                        random_.chance(90) ? session_handle::kSource : random_output()});
      case 7:
        return builtin(Opcode::printf, {random_.below(9), random_.word(), random_.word()});
      default:
        return {.opcode = 5'000};  // no handler has it
    }
  }

  static PlannedItem builtin(Opcode opcode, std::initializer_list<Word> args) {
    PlannedItem item{.opcode = Word(opcode), .arg_count = static_cast<Word>(args.size())};
    std::ranges::copy(args, item.args.begin());
    return item;
  }

  PlannedItem look_item() {
    PlannedItem item{.opcode = program_.look_opcode, .arg_count = 3};
    item.args[0] = session_handle::kMoving;
    item.args[2] = plan_.trace_count++;
    return item;
  }

  PlannedItem random_item(const QueuePlan& queue, bool is_full) {
    const Word kind = random_.below(100);
    if (kind < 8) return look_item();
    if (kind < 34) return builtin_item(queue.options.tenant.number, is_full);
    if (kind < 37) return builtin(Opcode::batch_fence, {random_.below(12), random_.word()});
    return handler_item(random_.pick_from(program_.handlers), is_full);
  }

  PlannedItem packed_item(const QueuePlan& queue) {
    PlannedItem item{.opcode = Word(Opcode::packed_slot), .arg_count = 12};
    const bool has_handlers = random_.chance(60);
    const Word count = random_.between(1, has_handlers ? 3 : 4);
    for (Word i = 0; i < count; ++i) {
      if (!has_handlers) {
        const PlannedItem inner = builtin_item(queue.options.tenant.number, false);
        const bool fits = inner.opcode < abi::kFirstFreeOpcode && inner.arg_count <= 2;
        item.inner.push_back(fits ? inner : PlannedItem{.opcode = Word(Opcode::nop)});
        continue;
      }
      const SessionHandler& handler = random_.pick_from(program_.handlers);
      // Of a packed item that was aborted nobody knows which operation it was in.
      const bool may_abort = plan_.end != SessionEnd::quiet || has_timeout(queue);
      if (handler.has_loops && may_abort) continue;
      item.inner.push_back(handler_item(handler, false));
    }
    std::vector<protocol::PackedOp> ops;
    for (const PlannedItem& inner : item.inner) {
      ops.push_back(
          {static_cast<std::uint8_t>(inner.opcode), std::span(inner.args).first(inner.arg_count)});
    }
    if (const auto args = protocol::pack(ops)) item.args = *args;
    return item;
  }

  // ---- producers ----

  void draw_producers() {
    for (Word producer = 0; producer < producer_count_; ++producer) {
      plan_.producers.emplace_back();
      const Word count = random_.between(3, 30);
      for (Word i = 0; i < count; ++i) {
        const Word queue = random_.pick_from(queues_of_[producer]);
        plan_.producers.back().push_back(random_publication(queue));
      }
    }
  }

  // Long rows of items are on their way when a queue or session ends.
  Word random_most() {
    const bool is_long = random_.chance(plan_.end == SessionEnd::quiet ? 20 : 40);
    return is_long ? random_.between(50, 400) : 12;
  }

  Publication random_publication(Word queue_index) {
    const QueuePlan& queue = plan_.queues[queue_index];
    const Word capacity = queue.options.capacity;
    Publication call{.queue = queue_index,
                     .first_item = static_cast<Word>(plan_.items.size()),
                     .waits = random_.chance(70),
                     .is_read = random_.chance(60),
                     .by_quota = random_.chance(30)};
    const Word ways[] = {40, 35, 20, queue.options.entries == EntryFormat::full ? 12u : 0u};
    call.way = Way(random_.weighted(ways));
    const Word follows[] = {30, 15, 15, 10, 8, 10, queue.may_hold ? 20u : 0u};
    call.follow = Follow(random_.weighted(follows));
    const Word most = random_most();
    if (call.way == Way::items) call.item_count = random_.between(1, std::min(most, capacity));
    if (call.way == Way::batch) call.item_count = random_.between(1, std::min(most, capacity));
    const Row row = random_row();
    for (Word i = 0; i < call.item_count; ++i) {
      const bool is_fence = call.way == Way::batch && i + 1 == call.item_count;
      if (is_fence) {
        add_item(builtin(Opcode::batch_fence, {call.item_count - 1, random_.word()}), queue_index);
      } else if (call.way == Way::packed) {
        add_item(packed_item(queue), queue_index);
      } else {
        add_item(row_item(queue, row, call.way == Way::items), queue_index);
      }
    }
    return call;
  }

  // Items published together: of all kinds, or of one. Workers take short ones by the batch.
  struct Row {
    bool is_nops = false;
    const SessionHandler* handler = nullptr;
  };

  Row random_row() {
    if (random_.chance(15)) return {.is_nops = true};
    if (random_.chance(50)) return {};
    return {.handler = &random_.pick_from(program_.handlers)};
  }

  PlannedItem row_item(const QueuePlan& queue, const Row& row, bool is_work_item) {
    if (row.is_nops) return {.opcode = Word(Opcode::nop)};
    const bool is_full = queue.options.entries == EntryFormat::full && !is_work_item;
    if (row.handler != nullptr) return handler_item(*row.handler, is_full);
    return random_item(queue, is_full);
  }

  void add_item(PlannedItem item, Word queue) {
    plan_.items.push_back(std::move(item));
    plan_.queue_of_item.push_back(queue);
  }

  // ---- the meddler ----

  Word random_meddled_tenant() {
    for (int i = 0; i < 8; ++i) {
      const Word tenant = random_.pick_from(plan_.queues).options.tenant.number;
      if (!is_held(tenant)) return tenant;
    }
    return 0;
  }

  void draw_meddler() {
    const Word count = random_.between(0, 14);
    const Word stop_at = plan_.end == SessionEnd::quiet ? count : random_.between(0, count);
    const std::size_t producers_queues = plan_.queues.size();
    for (Word i = 0; i < count; ++i) {
      if (plan_.end != SessionEnd::quiet && i == stop_at) break;
      plan_.meddler.push_back(random_action(producers_queues));
    }
    if (plan_.end == SessionEnd::quiet) return;
    const milliseconds timeouts[] = {milliseconds(0), milliseconds(2), kLong, kLong};
    MeddlerAction stop{.kind = Meddling::stop,
                       .pause_us = random_.below(random_.chance(50) ? 500 : 4'000),
                       .mode = plan_.end_mode,
                       .timeout = random_.pick(timeouts)};
    if (plan_.end == SessionEnd::dropped) {
      stop.mode = plan_.end_mode = StopMode::cancel;
      stop.timeout = milliseconds(0);
    }
    plan_.meddler.push_back(stop);
  }

  MeddlerAction random_action(std::size_t producers_queues) {
    const Word weights[] = {12, 10, 14, 14, 30, 18, 4, 14, 10};
    MeddlerAction action{.kind = Meddling(random_.weighted(weights)),
                         .pause_us = random_.chance(50) ? 0 : random_.below(800),
                         .mode = random_.chance(50) ? StopMode::drain : StopMode::cancel,
                         .timeout = kLong};
    switch (action.kind) {
      case Meddling::mask:
        action.number = random_meddled_tenant();
        action.value = random_.below(1'500);
        break;
      case Meddling::quota:
        action.number = random_meddled_tenant();
        action.value = random_.between(1, worker_count_ + 2);
        break;
      case Meddling::queue:
        draw_short_queue(action);
        break;
      case Meddling::park: {
        const milliseconds timeouts[] = {milliseconds(0), milliseconds(1), kLong};
        action.number = random_.below(3);
        action.value = random_.below(500);
        action.timeout = random_.pick(timeouts);
        break;
      }
      case Meddling::replace: {
        const milliseconds timeouts[] = {milliseconds(1), milliseconds(20), milliseconds(200)};
        action.timeout = random_.pick(timeouts);
        break;
      }
      case Meddling::close:
        action.number = random_.below(static_cast<Word>(producers_queues));
        if (plan_.queues[action.number].kind != QueueKind::opened) action.kind = Meddling::snapshot;
        break;
      default:
        action.number = random_.below(2);
        break;
    }
    return action;
  }

  void draw_short_queue(MeddlerAction& action) {
    const milliseconds timeouts[] = {milliseconds(0), milliseconds(1), kLong, kLong, kLong};
    action.timeout = random_.pick(timeouts);
    action.number = static_cast<Word>(plan_.queues.size());
    plan_.queues.push_back({.options = random_options(random_meddled_tenant())});
    Publication call = random_publication(action.number);
    while (call.follow == Follow::hold) call.follow = Follow::nothing;
    if (random_.chance(50)) call.follow = Follow::nothing;
    action.items = call;
  }

  // ---- buffers ----

  void draw_buffers() {
    using namespace session_handle;
    constexpr Word kAll = kSumKinds * kSumWords;
    const auto words = [&](Word count) {
      std::vector<Word> random_words(count);
      for (Word& word : random_words) word = random_.word();
      return random_words;
    };
    const std::size_t traces = std::max<Word>(plan_.trace_count, 1);
    plan_.buffers = {
        {.handle = kTrace, .words = std::vector<Word>(traces)},
        {.handle = kPeak, .words = std::vector<Word>(64)},
        {.handle = kSums, .words = words(kAll)},
        {.handle = kOwned, .words = words(kAll), .owner = random_.below(29)},
        {.handle = kReadOnly, .words = words(kAll), .access = memory::Access::read},
        {.handle = kShort, .words = words(kAll - 8 - random_.below(50))},
        {.handle = kSource, .words = words(512), .access = memory::Access::read},
        {.handle = kSeen, .words = std::vector<Word>(traces)},
    };
  }

  Random& random_;
  const SessionProgram& program_;
  const Word worker_count_;
  SessionPlan plan_;
  Word producer_count_ = 0;
  std::vector<std::vector<Word>> queues_of_;
};

}  // namespace

SessionPlan generate_session(Random& random, const SessionProgram& program, Word worker_count) {
  return Generator(random, program, worker_count).generate();
}

}  // namespace everkernel::test
