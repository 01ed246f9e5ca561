// Compares a session that has ended with its model. Timing decides which items were cancelled and
// how far aborted ones came; records and trace say so, and everything else follows exactly.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"
#include "session_trial.hpp"
#include "support/backend_under_test.hpp"

namespace everkernel::test {
namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};

constexpr Word code_of(abi::FaultCode code) {
  return static_cast<Word>(code);
}

class Judge {
 public:
  Judge(SessionWorld& world, SessionTally& tally) : world_(world), tally_(tally) {}

  void run() {
    if (!read_buffers()) return;
    for (item_ = 0; item_ < world_.plan.items.size() && !world_.records.has_problem(); ++item_) {
      judge_item();
    }
    if (world_.records.has_problem()) return;
    judge_buffers();
    judge_peaks();
    for (Word queue = 0; queue < world_.plan.queues.size(); ++queue) judge_closing(queue);
    judge_stop();
    if (world_.session) judge_totals();
  }

 private:
  const ItemRecord& record() const { return world_.records[item_]; }
  const ItemModel& model() const { return world_.models[item_]; }
  const PlannedItem& item() const { return world_.plan.items[item_]; }
  Word queue() const { return world_.plan.queue_of_item[item_]; }
  const QueueOptions& options() const { return world_.plan.queues[queue()].options; }

  void report(const std::string& what) {
    const Completion& end = record().completion;
    world_.records.report(fmt::format(
        "item {}, opcode {}, ticket {} of queue {} (tenant {}, priority {}, capacity {}, {} bytes, "
        "results {}): {}; it ended as state {}, code {}, results {:x} {:x} {:x}; the model: code "
        "{}, results {:x} {:x} {:x}, {} effects",
        item_, item().opcode, record().ticket.number, queue(), options().tenant.number,
        static_cast<Word>(options().priority), options().capacity,
        static_cast<Word>(options().entries), options().results, what,
        static_cast<Word>(record().state), end.fault_code, end.results[0], end.results[1],
        end.results[2], model().fault_code, model().results[0], model().results[1],
        model().results[2], model().effects.size()));
  }
  void expect_equal(std::uint64_t found, std::uint64_t expected, const std::string& what) {
    if (found == expected) return;
    world_.records.report(fmt::format("{}: {} instead of {}", what, found, expected));
  }

  // ---- items ----

  bool read_buffers() {
    for (const SessionBuffer& plan : world_.plan.buffers) {
      auto& words = found_[plan.handle];
      words.resize(plan.words.size());
      expected_[plan.handle] = plan.words;
      if (world_.buffer(plan.handle).read(0, words)) continue;
      world_.records.report("a buffer cannot be read");
      return false;
    }
    return true;
  }

  void judge_item() {
    effects_ = 0;
    for (const Word trace : world_.traces_of(item())) {
      effects_ += found_[session_handle::kTrace][trace];
    }
    switch (record().state) {
      case ItemState::unpublished:
        if (effects_ != 0) report("it ran and was not accepted");
        return;
      case ItemState::accepted:
        return report("nothing says how it ended");
      case ItemState::ended:
        judge_ended();
        break;
      case ItemState::forgotten:
        judge_forgotten();
        break;
      case ItemState::cancelled:
        judge_cancelled();
        break;
    }
    if (record().was_unfinished && record().state != ItemState::cancelled && !is_aborted()) {
      report("a fence behind it ended before its effects were there");
    }
    judge_callback();
    apply_effects();
    ++published_;
  }

  bool is_aborted() const {
    return record().state == ItemState::ended &&
           record().completion.fault_code == code_of(abi::FaultCode::deadline);
  }

  // Whether a closing may have cancelled or aborted it.
  bool is_late(const Closing& closing) const {
    return record().publish_end > closing.begin && record().publish_begin < closing.end;
  }

  void judge_ended() {
    const Completion& end = record().completion;
    runs_ = model().runs;
    executed_ = model().executed;
    if (is_aborted()) return judge_aborted();
    Word code = model().fault_code;
    std::array<Word, 3> results = model().results;
    if (model().is_look) judge_look(code, results);
    if (model().is_fence) {
      const std::uint64_t before = record().ticket.number - options().first_ticket;
      if (item().args[0] > before) code = code_of(abi::FaultCode::bad_fence);
      results = {};
      fences_ += code == 0 ? 1 : 0;
    }
    if (code != 0 && (model().is_look || model().is_fence)) executed_.clear();
    if (end.fault_code != code) report("another end");
    if (end.is_done() && options().results && end.results != results) report("other results");
    if (effects_ != model().effects.size()) report(fmt::format("{} effects", effects_));
    ++(end.is_done() ? done_ : faulted_);
    apply_observables();
  }

  void judge_forgotten() {
    runs_ = model().runs;
    executed_ = model().executed;
    Word code = model().fault_code;
    std::array<Word, 3> results{};
    if (model().is_look) judge_look(code, results);
    if (code != 0) report("a fault was forgotten");
    if (model().is_fence) ++fences_;
    if (!options().results) report("it was forgotten in a queue without results");
    if (auto& queue = world_.queues[this->queue()]) {
      const std::uint64_t index = record().ticket.number - options().first_ticket;
      const bool is_given = world_.plan.queues[this->queue()].kind != QueueKind::opened;
      if (!is_given && queue->counters().noted - index <= options().capacity) {
        report("it was forgotten less than a lap later");
      }
    }
    if (effects_ != model().effects.size()) report(fmt::format("{} effects", effects_));
    ++done_;
    ++tally_.forgotten;
    apply_observables();
  }

  void judge_cancelled() {
    const Closing& closing = world_.closing_of(queue());
    executed_.clear();
    runs_ = begun_runs();
    const auto& rests = model().rests;
    const bool has_rested = std::ranges::find(rests, effects_) != rests.end();
    if (effects_ != 0 && !has_rested) report(fmt::format("cancelled after {} effects", effects_));
    tally_.begun_and_cancelled += effects_ != 0 ? 1 : 0;
    if (closing.begin == kNever) return report("cancelled in an open queue");
    const bool may_be = closing.mode == StopMode::cancel || closing.is_short || is_late(closing);
    if (!may_be) report("cancelled by a drain");
    ++cancelled_of_[queue()];
    late_of_[queue()] += is_late(closing) ? 1u : 0u;
    ++tally_.cancelled;
  }

  void judge_aborted() {
    const Closing& closing = world_.closing_of(queue());
    executed_.clear();
    runs_ = item().inner.empty() ? std::max<Word>(begun_runs(), 1) : 1;
    const bool has_timeout = options().item_timeout.count() != 0;
    if (closing.begin == kNever && !has_timeout) return report("aborted in an open queue");
    if (!closing.is_short && !is_late(closing) && !has_timeout) {
      report("aborted before the deadline");
    }
    for (const PlannedItem& inner :
         item().inner) {  // without loops: it ended, or it waits for code
      if (found_[session_handle::kTrace][inner.args[2]] != 0) executed_.push_back(inner.opcode);
    }
    // An item that waits for its code has begun.
    const bool may_have_none = world_.program.is_native;
    if ((effects_ == 0 && !may_have_none) || effects_ > model().effects.size()) {
      report(fmt::format("aborted after {} effects", effects_));
    }
    ++aborted_;
    ++faulted_;
    ++tally_.aborted;
  }

  // Runs that the effects which the trace counts belong to.
  Word begun_runs() const {
    const auto& effects = model().effects;
    const std::size_t count = std::min(effects_, effects.size());
    return static_cast<Word>(
        std::ranges::count(std::span(effects).first(count), true, &SessionEffect::begins_run));
  }

  // What an item saw in the moving buffer must have been there while it was on its way.
  void judge_look(Word& code, std::array<Word, 3>& results) {
    const Word seen = found_[session_handle::kSeen][item().args[2]];
    expected_[session_handle::kSeen][item().args[2]] = seen;
    const std::uint64_t begin = record().publish_begin;
    const std::uint64_t end = record().seen_end;
    if (seen == 0) {
      code = code_of(abi::FaultCode::bad_buffer_handle);
      std::uint64_t absent_since = 0;
      for (const Incarnation& one : world_.incarnations) {
        if (absent_since <= end && one.create_end >= begin) return;
        absent_since = one.drop_begin;
      }
      if (absent_since > end) report("it missed a buffer that was there all the time");
      return;
    }
    results = {seen - 1, 0, 0};
    for (const Incarnation& one : world_.incarnations) {
      const bool has_its_number = seen - 1 == one.number || (seen == 1 && begin <= one.write_end);
      if (has_its_number && one.create_begin <= end && one.drop_end >= begin) return;
    }
    report(fmt::format("it saw number {} of a buffer that was not there", seen - 1));
  }

  void judge_callback() {
    tally_.callbacks += record().calls;
    if (record().calls != record().expected_calls) {
      report(fmt::format("its callback was called {} times", record().calls.load()));
    }
    if (record().calls == 0) return;
    const bool was_cancelled = record().state == ItemState::cancelled;
    if (record().call_was_cancelled != was_cancelled) report("its callback says otherwise");
    if (was_cancelled) return;
    const Completion& called = record().call_completion;
    const Completion& end = record().completion;
    if (record().state == ItemState::forgotten) {
      if (!called.is_done()) report("its callback says that it faulted");
    } else if (called.fault_code != end.fault_code || called.results != end.results) {
      report("its callback has another completion");
    }
  }

  // ---- effects ----

  void apply_effects() {
    const Word tenant = options().tenant.number;
    claims_by_tenant_[tenant] += runs_;
    claims_by_priority_[static_cast<Word>(options().priority)] += runs_;
    for (const Word opcode : executed_) ++executions_[opcode];
    executed_.clear();
    runs_ = 0;
    const std::size_t count = std::min(effects_, model().effects.size());
    for (const SessionEffect& effect : std::span(model().effects).first(count)) {
      ++expected_[session_handle::kTrace][effect.trace];
      if (effect.begins_run) continue;
      apply_sum(effect.kind, effect.value, expected_[effect.handle][effect.index]);
    }
  }

  void apply_observables() {
    for (const ObservableEffect& effect : model().observables) {
      Word& word = observables_[effect.observable];
      word = effect.is_sum ? word + effect.value : effect.value;
    }
  }

  void judge_buffers() {
    for (const auto& [handle, words] : found_) {
      if (handle == session_handle::kPeak) continue;
      const auto& expected = expected_[handle];
      for (std::size_t i = 0; i < words.size(); ++i) {
        expect_equal(words[i], expected[i], fmt::format("word {} of buffer {}", i, handle));
      }
    }
  }

  // An item that was aborted may have left its tenant's count too high.
  void judge_peaks() {
    const auto& peaks = found_[session_handle::kPeak];
    // A worker runs one item, but from 32 on each of a GPU is a warp whose lanes run one each. A
    // thread that waits runs items too.
    const Word workers = world_.kernel.worker_count();
    const bool has_lanes = is_on_cuda() && workers >= 32;
    const std::uint64_t seats = std::uint64_t{workers} * (has_lanes ? 32 : 1) + 1;
    for (Word tenant = 0; tenant < abi::kTenantCount; ++tenant) {
      const std::uint64_t most = std::min<std::uint64_t>(world_.largest_quota[tenant], seats);
      if (peaks[32 + tenant] > most + aborted_) {
        world_.records.report(fmt::format("{} items of tenant {} ran at one time, its quota was {}",
                                          peaks[32 + tenant], tenant, most));
      }
      if (peaks[tenant] > aborted_) {
        world_.records.report(fmt::format("items of tenant {} have not ended", tenant));
      }
    }
  }

  // ---- totals ----

  // What closing said it cancelled is what was cancelled, but for calls that published meanwhile.
  void judge_count(const std::optional<std::uint64_t>& told, std::uint64_t cancelled,
                   std::uint64_t late, const std::string& what) {
    if (!told || (*told <= cancelled && cancelled - *told <= late)) return;
    world_.records.report(fmt::format("{} says that it cancelled {} items, and {} were (late: {})",
                                      what, *told, cancelled, late));
  }

  void judge_closing(Word queue) {
    const Closing& closing = world_.closings[queue];
    if (closing.begin == kNever) {
      cancelled_at_end_ += cancelled_of_[queue];
      late_at_end_ += late_of_[queue];
    } else {
      judge_count(closing.cancelled, cancelled_of_[queue], late_of_[queue],
                  fmt::format("closing queue {}", queue));
    }
  }

  void judge_stop() {
    tally_.done += done_;
    tally_.faulted += faulted_;
    if (!world_.report) return;
    judge_count(world_.ending.cancelled, cancelled_at_end_, late_at_end_, "stop()");
    expect_equal(world_.report->done, done_, "stop(): done");
    expect_equal(world_.report->faulted, faulted_, "stop(): faulted");
    expect_equal(world_.report->callbacks_dropped, 0, "stop(): callbacks dropped");
  }

  void judge_totals() {
    const SessionCounters totals = world_.session->counters();
    expect_equal(totals.published, published_, "published");
    expect_equal(totals.kernel.done, done_, "done");
    expect_equal(totals.kernel.faulted, faulted_, "faulted");
    expect_equal(totals.forgotten_faults, 0, "forgotten faults");
    expect_equal(totals.failed_callbacks, 0, "failed callbacks");
    for (Word tenant = 0; tenant < abi::kTenantCount; ++tenant) {
      expect_equal(totals.kernel.tenant_claims[tenant], claims_by_tenant_[tenant],
                   fmt::format("claims of tenant {}", tenant));
    }
    for (Word priority = 0; priority < abi::kPriorityCount; ++priority) {
      expect_equal(totals.kernel.priority_claims[priority], claims_by_priority_[priority],
                   fmt::format("claims of priority {}", priority));
    }
    for (Word opcode = 0; opcode < totals.kernel.executions.size(); ++opcode) {
      expect_equal(totals.kernel.executions[opcode], executions_[opcode],
                   fmt::format("executions of opcode {}", opcode));
    }
    judge_snapshot();
  }

  void judge_snapshot() {
    SessionSnapshot last;
    if (const auto taken = world_.session->snapshot(last); !taken) {
      return world_.records.report("the last snapshot: " + taken.error().message);
    }
    for (const backend::OpcodeTotal& row : last.executions) {
      expect_equal(row.done, executions_[row.opcode],
                   fmt::format("row of opcode {} in the snapshot", row.opcode));
    }
    expect_equal(last.telemetry.control.epoch, fences_, "epoch");
    for (const QueueSnapshot& queue : last.queues) {
      expect_equal(queue.waiting + queue.taken, 0, "items left in a queue");
    }
    using namespace session_observable;
    for (const Word first : {kFirstSum, kFirstStore, kFirstSwap}) {
      for (Word i = first; i < first + kWords; ++i) {
        expect_equal(world_.session->observable(i).value_or(~0u), observables_[i],
                     fmt::format("observable {}", i));
      }
    }
  }

  SessionWorld& world_;
  SessionTally& tally_;
  Word item_ = 0;
  std::size_t effects_ = 0;  // of the item, as the trace counts them
  Word runs_ = 0;            // of the item, as far as they are counted as claims
  std::vector<Word> executed_ = {};
  std::map<Word, std::vector<Word>> found_ = {}, expected_ = {};
  std::array<Word, session_observable::kCount> observables_ = {};
  std::map<Word, std::uint64_t> executions_ = {}, cancelled_of_ = {}, late_of_ = {};
  std::array<std::uint64_t, abi::kTenantCount> claims_by_tenant_ = {};
  std::array<std::uint64_t, abi::kPriorityCount> claims_by_priority_ = {};
  std::uint64_t published_ = 0, done_ = 0, faulted_ = 0, aborted_ = 0, fences_ = 0;
  std::uint64_t cancelled_at_end_ = 0, late_at_end_ = 0;
};

}  // namespace

void check_session(SessionWorld& world, SessionTally& tally) {
  Judge(world, tally).run();
}

}  // namespace everkernel::test
