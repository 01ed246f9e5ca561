#include "job_trial.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "support/backend_under_test.hpp"

namespace everkernel::test {
namespace {

constexpr int kRunsOfAttempt = 4;                // when shrinking: a race does not show every time
constexpr std::chrono::seconds kShrinkTime{20};  // a run that hangs takes its whole timeout

std::string outcome_name(Word outcome) {
  if (outcome == backend::kItemDone) return "processed";
  if (outcome == backend::kItemRemaining) return "remaining";
  return fmt::format("FAULT {}", outcome);
}

template <class T>
std::string differ(std::string_view what, const T& expected, const T& actual) {
  if (expected == actual) return "";
  return fmt::format("{}: expected {}, got {}", what, expected, actual);
}

std::string first_of(std::initializer_list<std::string> differences) {
  for (const std::string& text : differences) {
    if (!text.empty()) return text;
  }
  return "";
}

// ---- parts of a report ----

std::string check_outcomes(JobModel& model, bool dedupe, const JobEnd& end,
                           const RunReport& report) {
  if (report.outcomes.size() != end.outcomes.size()) return "outcomes: not one an item";
  std::uint64_t processed = 0, faulted = 0, remaining = 0, dropped = 0;
  std::map<std::pair<Word, Word>, std::pair<std::uint64_t, std::uint64_t>> faults;
  for (Word i = 0; i < end.outcomes.size(); ++i) {
    const Word outcome = end.outcomes[i];
    const bool is_done = outcome == backend::kItemDone;
    const bool remains = outcome == backend::kItemRemaining;
    if (outcome != report.outcomes[i]) {
      return fmt::format("item {}: expected {}, got {}", i, outcome_name(outcome),
                         outcome_name(report.outcomes[i]));
    }
    const ItemEnd how = is_done   ? ItemEnd::processed
                        : remains ? ItemEnd::remaining
                                  : ItemEnd::faulted;
    if (report.end_of(i) != how || report.fault_code(i) != (is_done ? 0 : outcome)) {
      return fmt::format("item {}: end_of and fault_code say otherwise", i);
    }
    processed += is_done ? 1u : 0u;
    remaining += remains ? 1u : 0u;
    faulted += is_done || remains ? 0u : 1u;
    dropped += model.keepers(dedupe)[i] != i ? 1u : 0u;
    if (is_done || remains) continue;
    const auto [row, is_new] = faults.try_emplace({outcome, model.job().items[i].op_handle},
                                                  std::pair(std::uint64_t{0}, std::uint64_t{i}));
    ++row->second.first;
  }
  std::string text = first_of({differ("items_processed", processed, report.items_processed),
                               differ("items_faulted", faulted, report.items_faulted),
                               differ("items_remaining", remaining, report.items_remaining),
                               differ("deduped_items", dropped, report.deduped_items)});
  if (!text.empty()) return text;
  const std::uint64_t kept = end.outcomes.size() - dropped;
  if (remaining == 0 ? report.published_items != kept : report.published_items > kept) {
    return fmt::format("published_items: {} of {}", report.published_items, kept);
  }
  auto row = faults.begin();
  for (const FaultCount& count : report.faults) {
    if (row == faults.end() || row->first != std::pair(count.code, count.opcode) ||
        row->second != std::pair(count.items, count.first_item)) {
      return fmt::format("faults: code {}, opcode {} is wrong", count.code, count.opcode);
    }
    ++row;
  }
  return row == faults.end() ? "" : "faults: a row is missing";
}

std::string hit_text(const abi::Hit& hit) {
  return fmt::format("{{{}, {}, {}, {}}}", hit.item, hit.a, hit.b, hit.c);
}

// A capacity that was asked for keeps the first hits in the order of items; without one all are
// kept. On a device, hits that one launch has no room for are dropped, whichever they are.
std::string check_hits(const JobEnd& end, const RunChoice& choice, const RunReport& report) {
  const std::size_t room = choice.hit_capacity == 0 ? end.hits.size() : choice.hit_capacity;
  const std::size_t kept = std::min(room, end.hits.size());
  if (report.hits.size() != kept || report.hits_dropped != end.hits.size() - kept) {
    return fmt::format("hits: {} emitted, room for {}; got {} and {} dropped", end.hits.size(),
                       room, report.hits.size(), report.hits_dropped);
  }
  auto expected = end.hits.begin();
  for (const abi::Hit& hit : report.hits) {
    while (is_on_cuda() && expected != end.hits.end() && *expected != hit) ++expected;
    if (expected == end.hits.end() || *expected != hit) {
      return fmt::format("hits: {} is unexpected", hit_text(hit));
    }
    ++expected;
  }
  return {};
}

// Records of printf are all kept: no random job makes as many as a run keeps. Those of a device go
// through a log that may be full.
std::string check_prints(const JobEnd& end, const RunReport& report) {
  if (report.prints.size() + report.prints_dropped != end.prints.size()) {
    return fmt::format("printf: {} made; got {} and {} dropped", end.prints.size(),
                       report.prints.size(), report.prints_dropped);
  }
  if (report.prints_dropped != 0 && !is_on_cuda()) return "printf: records are dropped";
  if (report.prints_dropped == 0 && report.prints != end.prints) return "printf: records differ";
  return {};
}

std::string check_rules(JobModel& model, const std::vector<Word>& opcodes,
                        const RunReport& report) {
  if (report.lineage_rules.size() != opcodes.size()) {
    return fmt::format("lineage_rules: expected {}, got {}", opcodes.size(),
                       report.lineage_rules.size());
  }
  for (Word k = 0; k < opcodes.size(); ++k) {
    const LineageRule& rule = report.lineage_rules[k];
    const ir::VerifiedHandler* const handler = model.program().verified.find(opcodes[k]);
    if (rule.opcode != opcodes[k] || rule.bit != opcodes[k] % 32 ||
        (opcodes.size() > 32 && rule.wide_bit != k) ||
        rule.name != (handler == nullptr ? "NOP" : handler->handler.name)) {
      return fmt::format("lineage_rules[{}]: opcode {}, bit {}, wide bit {}, {}", k, rule.opcode,
                         rule.bit, rule.wide_bit, rule.name);
    }
  }
  return "";
}

std::string check_region(JobModel& model, bool dedupe, const std::vector<Word>& items,
                         const RegionView& view) {
  if (!std::ranges::equal(items, view.items) || view.first_item != items[0]) {
    return fmt::format("expected items {}, got {}", fmt::join(items, " "),
                       fmt::join(view.items, " "));
  }
  const std::vector<Word>& opcodes = model.opcodes(dedupe);
  std::uint64_t wide = 0;
  for (const Word item : items) wide |= model.contributors(dedupe)[item];
  Word lineage = 0;
  for (std::size_t k = 0; k < opcodes.size(); ++k) {
    if ((wide >> k & 1) != 0) lineage |= Word{1} << opcodes[k] % 32;
  }
  if (opcodes.size() <= 32 && !view.wide.empty()) return "wide lineage of few opcodes";
  if (opcodes.size() > 32 && (view.wide.size() != 1 || view.wide[0] != wide)) {
    return fmt::format("wide lineage: expected {:#x}, got {:#x}", wide, fmt::join(view.wide, " "));
  }
  if (lineage != view.lineage) {
    return fmt::format("lineage: expected {:#x}, got {:#x}", lineage, view.lineage);
  }
  return differ("output", model.job().items[items.back()].output_handle, view.output);
}

std::string check_regions(JobModel& model, const RunChoice& choice, const RunReport& report) {
  const auto& regions = model.regions(choice.dedupe, choice.fuse);
  std::string text = differ("shape.regions", std::uint64_t{regions.size()}, report.shape.regions);
  if (!choice.lineage) {
    const bool is_empty = report.region_lineage.empty() && report.region_count() == 0;
    return is_empty ? text : "lineage that nobody asked for";
  }
  if (report.region_count() == regions.size() && report.region_lineage.size() == regions.size()) {
    for (std::size_t r = 0; r < regions.size(); ++r) {
      const std::string difference =
          check_region(model, choice.dedupe, regions[r], report.region(r));
      if (!difference.empty()) return fmt::format("region {}: {}", r, difference);
    }
  } else {
    text = fmt::format("regions: expected {}, got {} and {} lineages", regions.size(),
                       report.region_count(), report.region_lineage.size());
  }
  if (!text.empty()) return text;
  std::uint64_t kept = 0;
  for (const auto& region : regions) kept += region.size();
  return first_of({differ("lineage_items", kept, report.lineage_items),
                   check_rules(model, model.opcodes(choice.dedupe), report)});
}

}  // namespace

std::string describe(const JobKernelShape& shape, const RunChoice& choice) {
  return fmt::format(
      "kernel: {} slots, workgroup {}, {} workers, execution {}\n"
      "run: {} workers, {}, dedupe {}, fuse {}, lineage {}, hit capacity {}, budget {}, {} quotas, "
      "{} ns",
      shape.slot_count, shape.workgroup_size, shape.worker_count,
      static_cast<Word>(shape.execution), choice.worker_count,
      backend::execution_name(choice.execution), choice.dedupe, choice.fuse, choice.lineage,
      choice.hit_capacity, choice.budget_bytes, choice.quotas.size(), choice.timeout.count());
}

// ---- the model ----

const std::vector<Word>& JobModel::keepers(bool dedupe) {
  auto& place = keepers_[dedupe];
  if (place.empty()) place = keepers_of(program_, job_, dedupe);
  return place;
}

const JobEnd& JobModel::end(bool dedupe) {
  auto& place = ends_[dedupe];
  if (place.words.empty()) place = run_in_order(program_, job_, keepers(dedupe), workgroup_size_);
  return place;
}

JobEnd JobModel::end_of_some(bool dedupe, const std::vector<Word>& items) {
  return run_in_order(program_, job_, keepers(dedupe), workgroup_size_, &items);
}

const std::vector<std::vector<Word>>& JobModel::regions(bool dedupe, bool fuse) {
  auto& place = regions_[{dedupe, fuse}];
  if (place.empty()) place = regions_of(program_, job_, keepers(dedupe), fuse);
  return place;
}

const std::vector<std::uint64_t>& JobModel::contributors(bool dedupe) {
  auto& place = contributors_[dedupe];
  if (place.empty()) place = contributors_of(program_, job_, keepers(dedupe), opcodes(dedupe));
  return place;
}

const std::vector<Word>& JobModel::opcodes(bool dedupe) {
  auto& place = opcodes_[dedupe];
  if (place.empty()) place = opcodes_of(job_, keepers(dedupe));
  return place;
}

// ---- the megakernel ----

Result<JobKernel> JobKernel::make(const JobKernelShape& shape, const JobProgram& program,
                                  const std::vector<JobBuffer>& buffers) {
  auto made = EVERKERNEL_TRY(
      Megakernel::create(backend_under_test(), {.slot_count = shape.slot_count,
                                                .workgroup_size = shape.workgroup_size,
                                                .handlers = program.verified,
                                                .execution = shape.execution,
                                                .fuel_per_item = kJobFuel,
                                                .worker_count = shape.worker_count}));
  JobKernel kernel(shape, std::move(made));
  for (const JobBuffer& buffer : buffers) {
    auto data = EVERKERNEL_TRY(kernel.kernel_.create_buffer({.handle = buffer.handle,
                                                             .word_count = buffer.words.size(),
                                                             .access = buffer.access,
                                                             .owner = buffer.owner}));
    kernel.buffers_.push_back(std::move(data));
  }
  return kernel;
}

std::string JobKernel::check_words(const JobEnd& end) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    std::vector<Word> words(buffers_[i].word_count());
    if (!buffers_[i].read(0, words)) return "a buffer cannot be read";
    const auto [expected, actual] = std::ranges::mismatch(end.words[i], words);
    if (actual == words.end()) continue;
    return fmt::format("buffer {}, word {}: expected {:#x}, got {:#x}", buffers_[i].handle(),
                       actual - words.begin(), *expected, *actual);
  }
  return "";
}

std::string JobKernel::run(JobModel& model, const RunChoice& choice) {
  const Job& job = model.job();
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].write(0, job.buffers[i].words)) return "a buffer cannot be written";
  }
  RunProgress progress;
  bool is_rising = true;
  RunOptions options = {.origins = job.origins,
                        .origin = job.origin,
                        .ordered = job.is_ordered,
                        .dedupe = choice.dedupe,
                        .fuse = choice.fuse,
                        .lineage = choice.lineage,
                        .timeout = choice.timeout,
                        .worker_count = choice.worker_count,
                        .execution = choice.execution,
                        .hit_capacity = choice.hit_capacity,
                        .memory_budget_bytes = choice.budget_bytes,
                        .tenant_quotas = choice.quotas};
  if (choice.has_progress) {
    options.progress = [&](const RunProgress& now) {
      is_rising =
          is_rising && progress.items_ended <= now.items_ended && now.items_ended <= now.item_count;
      progress = now;
    };
  }
  auto report = kernel_.run(job.items, options);
  if (!report) return "run: " + report.error().message;
  last_report_ = *std::move(report);
  if (last_report_->items_remaining > 0) return check_part(model, choice);
  const JobEnd& end = model.end(choice.dedupe);
  return first_of({check_outcomes(model, choice.dedupe, end, *last_report_), check_words(end),
                   check_hits(end, choice, *last_report_), check_prints(end, *last_report_),
                   check_regions(model, choice, *last_report_),
                   is_rising ? "" : "progress went back"});
}

// A run that ended early ran some of the items, and for each of them all items it waits for.
std::string JobKernel::check_part(JobModel& model, const RunChoice& choice) const {
  const std::vector<Word>& keepers = model.keepers(choice.dedupe);
  if (choice.timeout > std::chrono::seconds(1)) return "the run hangs";
  const auto waits_for = predecessors_of(model.program(), model.job(), keepers);
  std::vector<Word> ended;
  for (Word j = 0; j < keepers.size(); ++j) {
    if (keepers[j] != j) continue;
    // An item that yielded and did not end may have written words.
    const Word opcode = model.job().items[j].op_handle;
    const bool has_ended = last_report_->end_of(j) != ItemEnd::remaining;
    if (!has_ended && effects_of(model.program().verified, opcode).can_yield) return "";
    if (!has_ended) continue;
    ended.push_back(j);
    for (const Word i : waits_for[j]) {
      if (last_report_->end_of(i) == ItemEnd::remaining) {
        return fmt::format("item {} ended, item {} before it remains", j, i);
      }
    }
  }
  const JobEnd end = model.end_of_some(choice.dedupe, ended);
  return first_of({check_outcomes(model, choice.dedupe, end, *last_report_), check_words(end),
                   check_hits(end, choice, *last_report_), check_prints(end, *last_report_)});
}

// ---- shrinking ----

namespace {

bool still_differs(JobKernel& kernel, const JobProgram& program, const Job& job,
                   const RunChoice& choice) {
  JobModel model(program, job, kernel.shape().workgroup_size);
  for (int i = 0; i < kRunsOfAttempt; ++i) {
    if (!kernel.run(model, choice).empty()) return true;
  }
  return false;
}

Job without(const Job& job, std::size_t first, std::size_t count) {
  Job smaller = job;
  const auto cut = [&](auto& rows) {
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(first);
    rows.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  cut(smaller.items);
  if (!smaller.origins.empty()) cut(smaller.origins);
  return smaller;
}

}  // namespace

Job shrunk(JobKernel& kernel, const JobProgram& program, Job job, const RunChoice& choice) {
  const auto end = std::chrono::steady_clock::now() + kShrinkTime;
  const auto has_time = [&] { return std::chrono::steady_clock::now() < end; };
  for (std::size_t piece = std::max<std::size_t>(job.items.size() / 2, 1); piece > 0;) {
    bool has_changed = false;
    for (std::size_t at = 0; at < job.items.size() && has_time();) {
      const Job smaller = without(job, at, std::min(piece, job.items.size() - at));
      if (still_differs(kernel, program, smaller, choice)) {
        job = smaller;
        has_changed = true;
      } else {
        at += piece;
      }
    }
    if (!has_changed || !has_time()) piece /= 2;
  }
  return job;
}

}  // namespace everkernel::test
