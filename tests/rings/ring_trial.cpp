#include "ring_trial.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "support/backend_under_test.hpp"
#include "support/bytes.hpp"
#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

using namespace wire;

struct Host {
  Bytes control, ring, debug_log, io_queue;
  HostBuffers buffers() const { return {control, ring, debug_log, io_queue}; }
};

Host host_of(const GeneratedRing& ring) {
  return {.control = bytes_of(ring.image.control),
          .ring = bytes_of(ring.image.ring),
          .debug_log = ring.without_log ? Bytes() : bytes_of(ring.image.debug_log),
          .io_queue = ring.without_queue ? Bytes() : bytes_of(ring.image.io_queue)};
}

std::uint64_t active_slots(const RingImage& image) {
  std::uint64_t count = 0;
  for (Word i = 0; i < image.slot_count(); ++i) {
    const Word status = image.slot(i)[0];
    count += status == kPublished || status == kClaimed || status == kWaitIo || status == kYield ||
                     status == kRequeue
                 ? 1
                 : 0;
  }
  return count;
}

// Answers requests that exactly one item waits for: if two items share a request, either of them
// could be first.
void serve_io(RingImage& image) {
  for (Word at = 0; at < image.io_count(); ++at) {
    Word askers = 0;
    for (Word i = 0; i < image.slot_count(); ++i) {
      askers += image.slot(i)[0] == kWaitIo && image.slot(i)[15] == at ? 1u : 0u;
    }
    Word& status = image.io_queue[at * 8 + 6];
    if (status == 1 && askers == 1) status = at % 2 == 0 ? kIoOk : kIoError;
  }
}

// Makes the words that a dispatch left the start of the next dispatch.
void go_on(const Between& between, const RingImage& seen, GeneratedRing& ring) {
  ring.image = seen;
  auto& control = ring.image.control;
  control[0] = 0;
  if (between.enables_everyone) {
    std::fill(control.begin() + 3, control.begin() + 32, 1u);
    std::fill(control.begin() + 32, control.begin() + 64, 1'000'000u);
  }
  if (ring.image.io_queue.empty()) ring.image.io_queue.assign(8, 0);
  ring.without_queue = false;
  ring.without_log = ring.image.debug_log.empty();
  if (between.serves_io && !ring.is_in_order) serve_io(ring.image);
}

std::string failure(std::string_view call, const Error& error) {
  return fmt::format("{} failed: {}", call, error.message);
}

std::string counts_difference(const RingModel& model, const RingImage& seen,
                              const backend::DrainCounts& counts) {
  if (counts.done != model.done() || counts.faulted != model.faulted() ||
      counts.remaining != active_slots(seen)) {
    return fmt::format("counts: expected {} done, {} faulted, {} remaining, got {}, {}, {}",
                       model.done(), model.faulted(), active_slots(seen), counts.done,
                       counts.faulted, counts.remaining);
  }
  // Workers that find SHUTDOWN when no slot can run may report either reason.
  const bool is_shut_down = seen.control[0] != 0;
  const bool is_right = counts.end == backend::DrainEnd::shutdown ? is_shut_down
                        : counts.end == backend::DrainEnd::complete
                            ? !is_shut_down || model.next_runnable() < 0
                            : false;
  if (is_right) return {};
  return fmt::format("ended by {} with SHUTDOWN {}", backend::drain_end_name(counts.end),
                     seen.control[0]);
}

}  // namespace

std::string describe(const KernelShape& shape) {
  return fmt::format("{} schedule, {} workers, {}, {} slots, groups of {}{}",
                     backend::schedule_name(shape.schedule), shape.worker_count,
                     shape.execution == backend::Execution::native ? "native" : "interpreter",
                     shape.slot_count, shape.workgroup_size, shape.has_payload ? ", payload" : "");
}

// One dispatch: the words before and after it.
struct RingKernel::Pass {
  std::vector<GeneratedRing> starts = {};
  std::vector<bool> is_resident = {};
  std::vector<DataImage> data = {};  // as the model leaves the buffers
  std::vector<RingImage> seen = {};
  std::vector<backend::DrainCounts> counts = {};
};

Result<RingKernel> RingKernel::make(const KernelShape& shape, const std::vector<DataImage>& data) {
  auto program = EVERKERNEL_TRY(check_text(handlers_text()));
  auto kernel = EVERKERNEL_TRY(
      Megakernel::create(backend_under_test(), {.slot_count = shape.slot_count,
                                                .workgroup_size = shape.workgroup_size,
                                                .handlers = program,
                                                .payload = shape.has_payload,
                                                .schedule = shape.schedule,
                                                .execution = shape.execution,
                                                .fuel_per_item = shape.fuel,
                                                .worker_count = shape.worker_count}));
  RingKernel made(shape, std::move(kernel));
  for (const DataImage& image : data) {
    auto buffer = EVERKERNEL_TRY(made.kernel_.create_buffer({.handle = image.handle,
                                                             .word_count = image.words.size(),
                                                             .access = memory::Access{image.access},
                                                             .owner = image.owner}));
    made.buffers_.push_back(std::move(buffer));
  }
  made.meeting_ =
      EVERKERNEL_TRY(made.kernel_.create_buffer({.handle = handle::kMeeting, .word_count = 2}));
  return made;
}

ModelOptions RingKernel::model_options() const {
  return {.schedule = shape_.schedule, .has_payload = shape_.has_payload, .fuel = shape_.fuel};
}

Exactness RingKernel::exactness(const GeneratedRing& ring) const {
  if (!ring.is_in_order) return Exactness::any_order;
  return ring.has_returns ? Exactness::in_partitions : Exactness::in_order;
}

// Whether an item that could not run at first ran later: the wire format does not say when a worker
// visits it again.
bool RingKernel::order_is_open(const RingTrial& trial) const {
  return std::ranges::any_of(trial.rings, [&](const GeneratedRing& ring) {
    if (!ring.is_in_order) return false;
    std::vector<DataImage> data = trial.data;
    RingModel model(ring.image, data, model_options());
    model.run_in_order();
    return model.ran_late();
  });
}

std::string RingKernel::dispatch(const RingTrial& trial, Pass& pass) {
  std::vector<Host> hosts;
  for (const GeneratedRing& ring : pass.starts) hosts.push_back(host_of(ring));
  std::vector<ResidentBuffers> residents;
  residents.reserve(hosts.size());
  std::vector<Submission> submissions;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (!pass.is_resident[i]) {
      submissions.emplace_back(hosts[i].buffers());
      continue;
    }
    auto resident = kernel_.make_resident(hosts[i].buffers());
    if (!resident) return failure("make_resident", resident.error());
    residents.push_back(*std::move(resident));
    submissions.emplace_back(&residents.back());
  }
  const auto report = kernel_.dispatch({.submissions = submissions,
                                        .workspace = trial.has_workspace ? &workspace_ : nullptr,
                                        .timeout = trial.timeout});
  if (!report) return failure("dispatch", report.error());
  if (report->submissions.size() != hosts.size()) return "another number of reports";

  std::uint64_t done = 0, faulted = 0, remaining = 0;
  pass.seen.clear();
  pass.counts.clear();
  for (const SubmissionReport& part : report->submissions) {
    pass.seen.push_back({.control = words_of(part.control),
                         .ring = words_of(part.ring),
                         .debug_log = words_of(part.debug_log),
                         .io_queue = words_of(part.io_queue)});
    pass.counts.push_back(part.counts);
    done += part.counts.done;
    faulted += part.counts.faulted;
    remaining += part.counts.remaining;
  }
  const DispatchStats& stats = report->stats;
  if (stats.items_done != done || stats.items_faulted != faulted ||
      stats.items_remaining != remaining || stats.resident_resource_rows != residents.size()) {
    return "the statistics are not the sum of the submissions";
  }
  for (std::size_t i = 0, resident = 0; i < hosts.size(); ++i) {
    if (!pass.is_resident[i]) continue;
    Bytes ring(hosts[i].ring.size());
    if (const auto read = residents[resident++].read(protocol::Buffer::ring, 0, ring); !read) {
      return failure("read", read.error());
    }
    if (words_of(ring) != pass.seen[i].ring) return "a resident ring differs from its report";
  }
  return {};
}

std::string RingKernel::check_ring(Pass& pass, std::size_t index) {
  const GeneratedRing& start = pass.starts[index];
  RingImage seen = pass.seen[index];
  const bool is_blind = start.without_queue && seen.io_queue.empty();
  if (start.without_log) seen.debug_log = start.image.debug_log;
  RingModel model(start.image, pass.data, model_options());
  const Exactness exact = exactness(start);
  if (start.image.control[0] == 0) {
    if (exact == Exactness::any_order) {
      model.follow(seen);
    } else {
      model.run_in_order();
      if (model.ran_late()) return {};
    }
  }
  if (is_blind) seen.io_queue = model.image().io_queue;
  if (std::string text = model.difference(seen, exact); !text.empty()) return text;
  if (seen.control[0] == 0 && model.next_runnable() >= 0) {
    return fmt::format("slot {} could still run", model.next_runnable());
  }
  return counts_difference(model, seen, pass.counts[index]);
}

std::string RingKernel::check_data(const Pass& pass) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    std::vector<Word> words(pass.data[i].words.size());
    if (const auto read = buffers_[i].read(0, words); !read) return failure("read", read.error());
    const auto [expected, got] = std::ranges::mismatch(pass.data[i].words, words);
    if (got == words.end()) continue;
    return fmt::format("buffer {:#x}, word {}: expected {}, got {}", pass.data[i].handle,
                       got - words.begin(), *expected, *got);
  }
  return {};
}

std::string RingKernel::check(Pass& pass) {
  for (std::size_t i = 0; i < pass.starts.size(); ++i) {
    const std::string text = check_ring(pass, i);
    if (!text.empty()) return fmt::format("submission {}: {}", i, text);
  }
  return check_data(pass);
}

// Reads the two words of the meeting buffer and clears them.
bool RingKernel::did_workers_meet() {
  std::array<Word, 2> words = {};
  const bool has_read = meeting_->read(0, words).has_value();
  return has_read && meeting_->write(0, std::array<Word, 2>{}) && words[1] > 1;
}

TrialResult RingKernel::run(const RingTrial& trial) {
  if (order_is_open(trial)) return {.was_skipped = true};
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const auto written = buffers_[i].write(0, trial.data[i].words);
    if (!written) return {.difference = failure("write", written.error())};
  }
  Pass pass = {.starts = trial.rings, .is_resident = trial.is_resident, .data = trial.data};
  std::string text = dispatch(trial, pass);
  if (text.empty()) text = check(pass);
  if (!text.empty() || !trial.between) {
    return {.difference = text, .did_workers_meet = did_workers_meet()};
  }
  for (std::size_t i = 0; i < pass.starts.size(); ++i) {
    go_on(*trial.between, pass.seen[i], pass.starts[i]);
  }
  text = dispatch(trial, pass);
  if (text.empty()) text = check(pass);
  return {.difference = text.empty() ? text : "in the second dispatch: " + text,
          .did_workers_meet = did_workers_meet()};
}

RingTrial shrunk(RingKernel& kernel, RingTrial trial) {
  // With several workers a difference may not show in every run.
  const int attempts = kernel.shape().worker_count == 1 ? 1 : 20;
  const auto still_differs = [&](const RingTrial& smaller) {
    for (int i = 0; i < attempts; ++i) {
      if (!kernel.run(smaller).difference.empty()) return true;
    }
    return false;
  };
  trial.timeout = std::chrono::milliseconds(500);
  for (std::size_t i = trial.rings.size(); i-- > 0 && trial.rings.size() > 1;) {
    RingTrial smaller = trial;
    smaller.rings.erase(smaller.rings.begin() + static_cast<std::ptrdiff_t>(i));
    smaller.is_resident.erase(smaller.is_resident.begin() + static_cast<std::ptrdiff_t>(i));
    if (still_differs(smaller)) trial = smaller;
  }
  for (std::size_t i = 0; i < trial.rings.size(); ++i) {
    for (Word slot = 0; slot < trial.rings[i].image.slot_count(); ++slot) {
      if (trial.rings[i].image.slot(slot)[0] == kEmpty) continue;
      RingTrial smaller = trial;
      smaller.rings[i].image.slot(slot)[0] = kEmpty;
      if (still_differs(smaller)) trial = smaller;
    }
  }
  return trial;
}

}  // namespace everkernel::test
