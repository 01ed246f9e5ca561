#include "session_actors.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Longer than this no timeout of a plan is: what has one of this length must not end by it.
constexpr milliseconds kShortTimeout(1'000);
constexpr microseconds kHeldTime(300);

protocol::Operation operation_of(const PlannedItem& item) {
  return {item.opcode, std::span(item.args).first(item.arg_count)};
}

}  // namespace

// ---- producers ----

Queue* Producer::queue(Word index) {
  if (index < attached_.size() && attached_[index]) return &*attached_[index];
  auto& known = world_.queues[index];
  return known ? &*known : nullptr;
}

void Producer::run(const std::vector<Publication>& calls) {
  attach(calls);
  is_drained_.assign(world_.queues.size(), false);
  for (const Publication& call : calls) {
    if (world_.records.has_problem()) break;
    run(call);
  }
  resolve_attached();
  world_.records.note_step(index_, "has ended", 0);
}

void Producer::run(const Publication& call) {
  is_drained_.resize(world_.queues.size(), false);
  reads_trace_ = call.is_read && !is_child_;
  if (call.follow == Follow::hold) return hold(call);
  if (publish(call)) follow(call);
}

void Producer::attach(const std::vector<Publication>& calls) {
  attached_.resize(world_.queues.size());
  for (const Publication& call : calls) {
    const QueueKind kind = world_.plan.queues[call.queue].kind;
    const bool is_away = kind == QueueKind::attached || kind == QueueKind::child;
    if (!is_away || attached_[call.queue]) continue;
    auto received = attach_queue(world_.descriptors[call.queue]);
    if (!received) return report("attach_queue", call.first_item, received.error().message);
    attached_[call.queue].emplace(std::move(*received));
  }
}

// Nobody else can ask a queue that this producer has attached to.
void Producer::resolve_attached() {
  reads_trace_ = false;
  for (Word item = 0; item < world_.plan.items.size(); ++item) {
    const Word index = world_.plan.queue_of_item[item];
    if (index < attached_.size() && attached_[index]) resolve(item);
  }
  for (auto& queue : attached_) {
    if (queue && !world_.records.has_problem()) queue->close(StopMode::drain, kSessionPatience);
  }
}

void Producer::report(const char* what, Word item, const std::string& message) {
  const ItemRecord& record = world_.records[item];
  const Word index = world_.plan.queue_of_item[item];
  const QueueOptions& options = world_.plan.queues[index].options;
  world_.records.report(fmt::format(
      "{} of item {} (opcode {}, queue {}: tenant {}, capacity {}, {} bytes, results {}, ticket "
      "{}): {}",
      what, item, world_.plan.items[item].opcode, index, options.tenant.number, options.capacity,
      static_cast<Word>(options.entries), options.results, record.ticket.number, message));
}

// ---- publishing ----

Result<TicketRange> Producer::try_publish(const Publication& call,
                                          std::chrono::nanoseconds timeout) {
  const QueuePlan& plan = world_.plan.queues[call.queue];
  const auto items = std::span(world_.plan.items).subspan(call.first_item, call.item_count);
  Queue* const queue = this->queue(call.queue);
  Session* const session = plan.kind == QueueKind::own ? &*world_.session : nullptr;
  const PublishOptions own{plan.options.tenant, plan.options.priority, timeout};
  std::vector<protocol::Operation> operations;
  for (const PlannedItem& item : items) operations.push_back(operation_of(item));
  switch (call.way) {
    case Way::single: {
      const Ticket ticket = EVERKERNEL_TRY(session ? session->publish(operations[0], own)
                                                   : queue->publish(operations[0], timeout));
      return TicketRange{ticket, 1};
    }
    case Way::items: {
      std::vector<abi::WorkItem> work;
      for (const PlannedItem& item : items) {
        work.push_back({item.opcode, item.args[0], item.args[1], item.args[2]});
      }
      return session ? session->publish_items(work, own) : queue->publish_items(work, timeout);
    }
    case Way::batch: {
      operations.pop_back();
      const Word tag = items.back().args[1];
      return session ? session->publish_batch(operations, tag, own)
                     : queue->publish_batch(operations, tag, timeout);
    }
    case Way::packed:
      break;
  }
  std::vector<protocol::PackedOp> packed;
  for (const PlannedItem& item : items.front().inner) {
    packed.push_back({static_cast<std::uint8_t>(item.opcode), operation_of(item).args});
  }
  const Ticket ticket = EVERKERNEL_TRY(session ? session->publish_packed(packed, own)
                                               : queue->publish_packed(packed, timeout));
  return TicketRange{ticket, 1};
}

// Says whether the items were accepted.
bool Producer::publish(const Publication& call) {
  SessionRecords& records = world_.records;
  records.note_step(index_, "publishes item", call.first_item);
  const std::uint64_t begin = records.tick();
  auto range = try_publish(call, call.waits ? kSessionPatience : std::chrono::nanoseconds(0));
  if (!range && !call.waits && range.error().code == Code::queue_full) {
    ++world_.refused;
    if (is_drained_[call.queue] && !world_.plan.queues[call.queue].is_shared) {
      report("publish", call.first_item, "an empty queue is full: " + range.error().message);
    }
    range = try_publish(call, kSessionPatience);
  }
  const std::uint64_t end = records.tick();
  is_drained_[call.queue] = false;
  if (!range) {
    if (!world_.is_ending(call.queue)) report("publish", call.first_item, range.error().message);
    return false;
  }
  if (range->count != call.item_count) report("publish", call.first_item, "wrong count");
  for (Word i = 0; i < call.item_count; ++i) {
    ItemRecord& record = records[call.first_item + i];
    record.ticket = (*range)[i];
    record.publish_begin = begin;
    record.publish_end = end;
    record.state = ItemState::accepted;
  }
  return true;
}

// ---- following ----

void Producer::follow(const Publication& call) {
  const Word end = call.first_item + call.item_count;
  switch (call.follow) {
    case Follow::nothing:
    case Follow::hold:
      return;
    case Follow::last:
      resolve(end - 1);
      if (call.way == Way::batch) check_covered(call);
      return;
    case Follow::each:
      for (Word item = call.first_item; item < end; ++item) resolve(item);
      return;
    case Follow::all:
      return follow_all(call);
    case Follow::poll:
      for (Word item = call.first_item; item < end; ++item) poll(item);
      return;
    case Follow::callback:
      for (Word item = call.first_item; item < end; ++item) call_back(item);
      return;
  }
}

void Producer::follow_all(const Publication& call) {
  world_.records.note_step(index_, "waits for all of queue", call.queue);
  Queue* const queue = this->queue(call.queue);
  const auto ended =
      queue ? queue->wait_all(kSessionPatience) : world_.session->wait_all(kSessionPatience);
  const bool is_ending = world_.is_ending(call.queue) ||
                         (queue == nullptr && world_.ending.begin != ~std::uint64_t{0});
  if (!ended) {
    // The session waits for queues that others close.
    if (!is_ending && queue != nullptr) {
      report("wait_all", call.first_item, ended.error().message);
    }
    return;
  }
  is_drained_[call.queue] = true;
  for (Word item = call.first_item; item < call.first_item + call.item_count; ++item) {
    resolve(item);
    const ItemState state = world_.records[item].state;
    if (state == ItemState::cancelled) report("wait_all", item, "it succeeded without this item");
    if (state == ItemState::forgotten && reads_trace_) check_trace(item);
  }
}

Result<Completion> Producer::wait(Word item, std::chrono::nanoseconds timeout) {
  Queue* const queue = this->queue(world_.plan.queue_of_item[item]);
  const Ticket ticket = world_.records[item].ticket;
  return queue ? queue->wait(ticket, timeout) : world_.session->wait(ticket, timeout);
}

void Producer::resolve(Word item) {
  if (world_.records[item].state != ItemState::accepted) return;
  world_.records.note_step(index_, "waits for item", item);
  note_end(item, wait(item, kSessionPatience));
}

void Producer::poll(Word item) {
  world_.records.note_step(index_, "polls item", item);
  Queue* const queue = this->queue(world_.plan.queue_of_item[item]);
  const Ticket ticket = world_.records[item].ticket;
  const auto deadline = backend::Clock::now() + kSessionPatience;
  for (;;) {
    const auto seen = queue ? queue->poll(ticket) : world_.session->poll(ticket);
    if (!seen) return note_end(item, Failure(seen.error()));
    if (*seen) return note_end(item, **seen);
    if (backend::Clock::now() > deadline) return report("poll", item, "it has not ended");
    std::this_thread::yield();
  }
}

void Producer::note_end(Word item, const Result<Completion>& end) {
  ItemRecord& record = world_.records[item];
  const Word queue = world_.plan.queue_of_item[item];
  if (end) {
    record.completion = *end;
    record.seen_end = world_.records.tick();
    record.state = ItemState::ended;
    if (reads_trace_) check_trace(item);
    return;
  }
  const std::string& message = end.error().message;
  if (message.find("no longer kept") != std::string::npos) {
    record.seen_end = world_.records.tick();
    record.state = ItemState::forgotten;
    return;
  }
  const bool is_cancelled = message.find("was closed before") != std::string::npos;
  if (!world_.is_ending(queue)) return report("wait", item, message);
  if (is_cancelled) record.state = ItemState::cancelled;
}

// Whoever has seen an item's end sees all that it wrote.
void Producer::check_trace(Word item) {
  const ItemRecord& record = world_.records[item];
  const ItemModel& model = world_.models[item];
  const bool is_aborted =
      record.completion.fault_code == static_cast<Word>(abi::FaultCode::deadline);
  if (record.state == ItemState::ended && is_aborted) return;
  const std::size_t found = world_.traced_effects(item);
  if (found == model.effects.size()) return;
  report("the end", item, fmt::format("seen after {} of {} effects", found, model.effects.size()));
}

// The items before a fence have ended when it has, and each of them has had its effects unless it
// turns out to be cancelled.
void Producer::check_covered(const Publication& batch) {
  const Word fence = batch.first_item + batch.item_count - 1;
  const ItemRecord& end = world_.records[fence];
  if (end.state != ItemState::ended || !end.completion.is_done() || is_child_) return;
  for (Word item = batch.first_item; item < fence; ++item) {
    if (world_.traced_effects(item) != world_.models[item].effects.size()) {
      world_.records[item].was_unfinished = true;
    }
  }
}

void Producer::call_back(Word item) {
  ItemRecord& record = world_.records[item];
  Queue* const queue = this->queue(world_.plan.queue_of_item[item]);
  const auto called = [&record](Ticket ticket, const Completion& completion, bool cancelled) {
    record.call_completion = completion;
    record.call_was_cancelled = cancelled;
    if (ticket == record.ticket) record.calls.fetch_add(1, std::memory_order_acq_rel);
  };
  ++record.expected_calls;
  const auto added = queue ? queue->on_complete(record.ticket, called)
                           : world_.session->on_complete(record.ticket, called);
  if (added) return;
  --record.expected_calls;
  if (added.error().message.find("no longer kept") != std::string::npos) return;
  if (!world_.is_ending(world_.plan.queue_of_item[item])) {
    report("on_complete", item, added.error().message);
  }
}

// ---- holding ----

bool Producer::switch_off(const Publication& call, bool is_off) {
  const TenantId tenant = world_.plan.queues[call.queue].options.tenant;
  Session& session = *world_.session;
  const Word quota = std::max<Word>(world_.kernel.worker_count(), 2) - 1;
  const auto changed = call.by_quota ? session.set_tenant_quota(tenant, is_off ? 0 : quota)
                                     : session.set_tenant_enabled(tenant, !is_off);
  if (!changed) report("switching a tenant", call.first_item, changed.error().message);
  return changed.has_value();
}

// Publishes while the tenant is off. Nothing of it may begin before the tenant is on again, not
// even while this thread waits and so would run items itself.
void Producer::hold(const Publication& call) {
  Queue& queue = *this->queue(call.queue);
  world_.records.note_step(index_, "holds the tenant of item", call.first_item);
  const auto drained = queue.wait_all(kSessionPatience);
  if (!drained) {
    if (!world_.is_ending(call.queue)) report("wait_all", call.first_item, drained.error().message);
    return;
  }
  is_drained_[call.queue] = true;
  if (!switch_off(call, true)) return;
  ++world_.holds;
  if (publish(call)) {
    const auto early = wait(call.first_item, kHeldTime);
    if (early) report("wait", call.first_item, "it ended while its tenant was off");
    for (Word item = call.first_item; item < call.first_item + call.item_count; ++item) {
      if (world_.traced_effects(item) != 0) report("a hold", item, "it ran, its tenant was off");
      const auto seen = queue.poll(world_.records[item].ticket);
      if (seen && *seen) report("poll", item, "it ended while its tenant was off");
    }
  }
  switch_off(call, false);
}

// ---- the meddler ----

void Meddler::run() {
  for (const MeddlerAction& action : world_.plan.meddler) {
    if (world_.records.has_problem()) break;
    if (action.pause_us != 0) std::this_thread::sleep_for(microseconds(action.pause_us));
    act(action);
  }
  world_.records.note_step(index_, "has ended its meddling", 0);
  if (!moving_) return;
  Incarnation& last = world_.incarnations.back();
  last.drop_begin = world_.records.tick();
  moving_.reset();
  last.drop_end = world_.records.tick();
}

void Meddler::act(const MeddlerAction& action) {
  const char* const names[] = {"switches tenant",  "sets the quota of tenant", "takes a snapshot",
                               "reads totals",     "moves a buffer",           "uses queue",
                               "closes queue",     "parks the session",        "replaces handlers",
                               "stops the session"};
  world_.records.note_step(index_, names[static_cast<std::size_t>(action.kind)], action.number);
  switch (action.kind) {
    case Meddling::mask:
      expect(world_.session->set_tenant_enabled(TenantId(action.number), false).has_value(), "off");
      std::this_thread::sleep_for(microseconds(action.value));
      expect(world_.session->set_tenant_enabled(TenantId(action.number), true).has_value(), "on");
      return;
    case Meddling::quota: {
      Word& largest = world_.largest_quota[action.number];
      largest = std::max(largest, action.value);
      expect(world_.session->set_tenant_quota(TenantId(action.number), action.value).has_value(),
             "quota");
      return;
    }
    case Meddling::snapshot:
      return look();
    case Meddling::counters:
      return look_at_totals();
    case Meddling::buffer:
      return move_buffer(action.number == 0);
    case Meddling::queue:
      return use_queue(action);
    case Meddling::close:
      return close(action);
    case Meddling::park:
      return park(action);
    case Meddling::replace:
      return replace(action);
    case Meddling::stop:
      return stop(action);
  }
}

void Meddler::expect(bool is_true, const char* what) {
  if (!is_true) world_.records.report(fmt::format("meddler: {}", what));
}

// ---- looking ----

void Meddler::check(const SessionCounters& now) {
  const auto ended = now.kernel.done + now.kernel.faulted;
  expect(ended <= now.published, "more items ended than were published");
  expect(now.noted <= now.published, "more items are noted than were published");
  expect(now.kernel.done >= before_.kernel.done, "done falls");
  expect(now.kernel.faulted >= before_.kernel.faulted, "faulted falls");
  expect(now.published >= before_.published, "published falls");
  expect(now.noted >= before_.noted, "noted falls");
  before_ = now;
}

void Meddler::look() {
  const auto taken = world_.session->snapshot(snapshot_);
  if (!taken) return world_.records.report("snapshot: " + taken.error().message);
  check(snapshot_.counters);
  for (const QueueSnapshot& queue : snapshot_.queues) {
    expect(queue.waiting + queue.taken <= queue.capacity, "a queue holds more than its capacity");
  }
}

void Meddler::look_at_totals() {
  check(world_.session->counters());
  expect(world_.session->observable(session_observable::kCount - 1).has_value(), "last observable");
  expect(!world_.session->observable(session_observable::kCount).has_value(), "one too many");
  std::vector<std::byte> log;
  world_.session->copy_debug_log(log);
  expect(!log.empty(), "no log");
}

// ---- changing ----

void Meddler::move_buffer(bool only_drops) {
  SessionRecords& records = world_.records;
  const bool was_there = moving_.has_value();
  if (was_there) {
    Incarnation& last = world_.incarnations.back();
    last.drop_begin = records.tick();
    moving_.reset();
    last.drop_end = records.tick();
  }
  if (was_there && only_drops) return;
  Incarnation& next = world_.incarnations.emplace_back();
  next.number = static_cast<Word>(world_.incarnations.size());
  next.create_begin = records.tick();
  auto made = world_.kernel.create_buffer(
      {.handle = session_handle::kMoving, .word_count = 1 + next.number});
  next.create_end = records.tick();
  if (!made) return records.report("create_buffer: " + made.error().message);
  moving_.emplace(std::move(*made));
  expect(moving_->write(0, std::span(&next.number, 1)).has_value(), "write");
  next.write_end = records.tick();
}

void Meddler::use_queue(const MeddlerAction& action) {
  auto opened = world_.session->open_queue(world_.plan.queues[action.number].options);
  if (!opened) return world_.records.report("open_queue: " + opened.error().message);
  world_.queues[action.number].emplace(std::move(*opened));
  Producer(world_, index_).run(*action.items);
  close(action);
}

void Meddler::close(const MeddlerAction& action) {
  Closing& closing = world_.closings[action.number];
  auto& queue = world_.queues[action.number];
  if (!queue || closing.begin != ~std::uint64_t{0}) return;
  world_.records.note_step(index_, "closes queue", action.number);
  closing.mode = action.mode;
  closing.is_short = action.timeout < kShortTimeout;
  closing.begin = world_.records.tick();
  closing.cancelled = queue->close(action.mode, action.timeout);
  closing.end = world_.records.tick();
}

void Meddler::park(const MeddlerAction& action) {
  bool was_called = false;
  const auto parked = world_.session->parked(
      [&] {
        was_called = true;
        if (action.number == 1) look();
        if (action.number == 2) move_buffer(false);
        std::this_thread::sleep_for(microseconds(action.value));
      },
      action.timeout);
  expect(parked.has_value() == was_called, "parked() says whether it called its function");
  const bool may_fail = action.timeout < kShortTimeout;
  if (parked || (may_fail && parked.error().code == Code::timeout)) return;
  world_.records.report("parked: " + parked.error().message);
}

// Items that a producer holds, or that wait for something, may hold it up.
void Meddler::replace(const MeddlerAction& action) {
  auto program = ir::parse(world_.program.text);
  if (!program) return world_.records.report("parsing: " + program.error().message);
  const auto handlers = ir::verify(*std::move(program));
  if (!handlers) return world_.records.report("verifying: " + handlers.error().message);
  const auto replaced = world_.session->replace_handlers(*handlers, action.timeout);
  if (replaced || replaced.error().code == Code::timeout) return;
  world_.records.report("replace_handlers: " + replaced.error().message);
}

void Meddler::stop(const MeddlerAction& action) {
  Closing& ending = world_.ending;
  ending.mode = action.mode;
  ending.is_short = action.timeout < kShortTimeout;
  ending.begin = world_.records.tick();
  if (world_.plan.end == SessionEnd::dropped) {
    world_.session.reset();
  } else {
    world_.report = world_.session->stop(action.mode, action.timeout);
    ending.cancelled = world_.report->cancelled;
  }
  ending.end = world_.records.tick();
}

}  // namespace everkernel::test
