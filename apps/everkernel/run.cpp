// `everkernel run`: a whole work queue, planned, published, run and reported.
//
// The job is checked whole before anything runs, and everything has run before the first file is
// written: a failure leaves the output folder as it was.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "backends.hpp"
#include "commands.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "files.hpp"
#include "job.hpp"
#include "progress.hpp"
#include "run_outcome.hpp"

namespace everkernel::cli {
namespace {

// Slots of the ring the run refills as it drains.
constexpr Word kRingSlots = 1024;

struct RunArguments {
  std::string job = {};
  std::optional<std::chrono::nanoseconds> timeout = {};
  std::optional<Word> workers = {};
  bool no_dedupe = false;
  bool no_fuse = false;
  bool lineage = false;
  bool interpreter = false;
  bool jit = false;
  std::optional<Word> hit_capacity = {};
  std::optional<std::uint64_t> memory_budget = {};
  std::optional<std::string> outputs = {};
  std::string backend = "auto";
  bool json = false;
};

Result<void> check_usage(const RunArguments& arguments) {
  if (arguments.timeout && arguments.timeout->count() <= 0) {
    return bad_usage("--max-wall-time: no time at all", "give at least 1ns, or leave it out");
  }
  if (arguments.workers == 0u) {
    return bad_usage("--workers: 0 is no number of workers", "give 1 or more, or leave it out");
  }
  if (arguments.hit_capacity == 0u) {
    return bad_usage("--hit-capacity: 0 has no room", "give 1 or more, or leave it out");
  }
  if (arguments.memory_budget == std::uint64_t{0}) {
    return bad_usage("--memory-budget: nothing fits in 0 bytes", "give more, or leave it out");
  }
  if (arguments.interpreter && arguments.jit) {
    return bad_usage("--interpreter and --jit do not go together", "give one of them, or none");
  }
  return {};
}

// What the buffers of any backend here may take: they lie in this machine's memory first.
std::uint64_t host_memory_bytes() {
  std::uint64_t bytes = 0;
  for (const backend::Capabilities& backend : all_backends()) {
    if (backend.supported) bytes = std::max(bytes, backend.memory_bytes);
  }
  return bytes;
}

Result<std::vector<DataBuffer>> make_buffers(Megakernel& kernel, Job& job) {
  std::vector<DataBuffer> buffers;
  for (JobBuffer& given : job.buffers) {
    DataBuffer buffer = EVERKERNEL_TRY(kernel.create_buffer(
        {.handle = given.handle, .word_count = given.word_count, .owner = given.owner}));
    if (!given.words.empty()) EVERKERNEL_TRY(buffer.write(0, given.words));
    given.words = {};  // they lie in the buffer now, and may be most of the memory
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

RunExecution execution_of(const RunArguments& arguments) {
  if (arguments.interpreter) return RunExecution::interpreter;
  return arguments.jit ? RunExecution::jit : RunExecution::automatic;
}

Result<Report> run_items(Megakernel& kernel, const RunArguments& arguments, const Job& job) {
  ProgressBar bar;
  RunConfig config{.origins = job.origins,
                   .ordered = job.ordered,
                   .dedupe = !arguments.no_dedupe,
                   .fuse = !arguments.no_fuse,
                   .lineage = arguments.lineage,
                   .max_wall_time = arguments.timeout.value_or(kDefaultRunTime),
                   .worker_count = arguments.workers.value_or(0),
                   .execution = execution_of(arguments),
                   .hit_capacity = arguments.hit_capacity.value_or(0),
                   .memory_budget_bytes = arguments.memory_budget.value_or(0)};
  if (bar.is_shown()) {
    config.progress = [&bar](const RunProgress& progress) { bar.update(progress); };
  }
  return kernel.run(job.items, config);
}

Result<void> read_outputs(std::span<const DataBuffer> buffers, RunOutcome& outcome) {
  std::unordered_map<Word, const DataBuffer*> by_handle;
  for (const DataBuffer& buffer : buffers) by_handle.emplace(buffer.handle(), &buffer);
  for (const Word handle : outcome.job.outputs) {
    const DataBuffer* const buffer = by_handle.at(handle);
    RunOutput output{.handle = handle, .words = std::vector<Word>(buffer->word_count())};
    if (!output.words.empty()) EVERKERNEL_TRY(buffer->read(0, output.words));
    outcome.outputs.push_back(std::move(output));
  }
  return {};
}

Result<void> stage_outputs(OutputFolder& folder, RunOutcome& outcome) {
  for (const RunOutput& output : outcome.outputs) {
    const auto bytes = std::as_bytes(std::span(output.words));
    std::string path =
        EVERKERNEL_TRY(folder.stage(fmt::format("buffer-{}.bin", output.handle), bytes));
    outcome.files.push_back({.path = std::move(path), .bytes = bytes.size()});
  }
  return {};
}

Result<Ending> run(const RunArguments& arguments) {
  EVERKERNEL_TRY(check_usage(arguments));
  Job job = EVERKERNEL_TRY(read_job(arguments.job, host_memory_bytes()));
  const ChosenBackend chosen = EVERKERNEL_TRY(choose_backend(arguments.backend));
  // A run compiles code of its own where that pays.
  const auto execution = chosen.backend->capabilities().interpreter
                             ? backend::Execution::interpreter
                             : backend::Execution::automatic;
  Megakernel kernel = EVERKERNEL_TRY(Megakernel::create(
      chosen.backend,
      {.slot_count = kRingSlots, .handlers = job.handlers, .execution = execution}));
  const std::vector<DataBuffer> buffers = EVERKERNEL_TRY(make_buffers(kernel, job));
  // Before the run, which may take an hour: a folder that cannot be written is known at once.
  std::optional<OutputFolder> folder;
  if (arguments.outputs) folder.emplace(EVERKERNEL_TRY(OutputFolder::open(*arguments.outputs)));

  const Report report = EVERKERNEL_TRY(run_items(kernel, arguments, job));
  const backend::Capabilities& capabilities = chosen.backend->capabilities();
  RunOutcome outcome{.job = job,
                     .report = report,
                     .backend = capabilities.id,
                     .backend_reason = chosen.reason,
                     .device = capabilities.device,
                     .lineage = arguments.lineage};
  EVERKERNEL_TRY(read_outputs(buffers, outcome));
  if (folder) EVERKERNEL_TRY(stage_outputs(*folder, outcome));
  EVERKERNEL_TRY(print(arguments.json ? json_text(outcome) : human_text(outcome)));
  if (folder) EVERKERNEL_TRY(folder->commit());
  const bool is_whole = report.items_faulted == 0 && report.items_remaining == 0;
  return is_whole ? Ending::done : Ending::incomplete;
}

void add_options(Command& command, RunArguments& arguments) {
  command.add_path("JOB", arguments.job, "The job, as JSON");
  command.add_duration("--max-wall-time", arguments.timeout,
                       "Time limit, such as 500ms, 10s or 2m; an hour by default.\nItems that have "
                       "not ended by then remain");
  command.add_word("--workers", arguments.workers,
                   "Workers; the launch policy decides unless given");
  command.add_flag("--no-dedupe", arguments.no_dedupe, "Run equal pure items each for itself");
  command.add_flag("--no-fuse", arguments.no_fuse, "Run every item as a region of its own");
  command.add_flag("--lineage", arguments.lineage, "Say which handlers contributed to each region");
  command.add_flag("--interpreter", arguments.interpreter, "Run the reference interpreter");
  command.add_flag("--jit", arguments.jit, "Run code compiled for this job");
  command.add_word("--hit-capacity", arguments.hit_capacity,
                   "Room for hits of emit; the launch policy decides\nunless given");
  command.add_bytes(
      "--memory-budget", arguments.memory_budget,
      "Memory the run may take, in bytes, or with KiB, MiB or\nGiB; no limit unless given");
  command.add_folder("--outputs", arguments.outputs,
                     "Folder for the buffers the job names as outputs; made if\nit is not there");
  command.add_backend(arguments.backend);
  command.add_json(arguments.json);
}

}  // namespace

Command run_command() {
  Command command("run", "Run a whole work queue from a job file");
  RunArguments& arguments = command.set_action(run);
  add_options(command, arguments);
  command.set_footer(
      "The result is the same as if the items ran one after the other. docs/running-jobs.md "
      "describes\n"
      "jobs and the report. A job:\n"
      "  { \"handlers\": \"ops.ek\",\n"
      "    \"buffers\": [ {\"handle\": 1, \"u32\": [1, 2, 3]}, {\"handle\": 2, \"zeros\": 3} ],\n"
      "    \"items\": [ {\"op\": 64, \"input\": 1, \"output\": 2} ],\n"
      "    \"outputs\": [2] }\n"
      "Exit status: 0 every item is processed, 1 items became FAULT or remain, 2 bad usage or bad\n"
      "input, 3 the backend failed or is not there. With 2 and 3 nothing is written.");
  return command;
}

}  // namespace everkernel::cli
