// `everkernel run`: plans, runs and reports all items of a job file.
//
// The whole job is checked before anything runs, and everything has run before the first file is
// written: a failure leaves the output folder unchanged.
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

// Slots of the ring, which a run refills while workers drain it.
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
    return bad_usage("--max-wall-time: 0 leaves no time to run",
                     "give at least 1ns, or omit the option");
  }
  if (arguments.workers == 0u) {
    return bad_usage("--workers: a run needs at least 1 worker",
                     "give 1 or more, or omit the option");
  }
  if (arguments.hit_capacity == 0u) {
    return bad_usage("--hit-capacity: 0 keeps no hit", "give 1 or more, or omit the option");
  }
  if (arguments.memory_budget == std::uint64_t{0}) {
    return bad_usage("--memory-budget: nothing fits in 0 bytes", "give more, or omit the option");
  }
  if (arguments.interpreter && arguments.jit) {
    return bad_usage("--interpreter and --jit contradict each other", "give one of them, or none");
  }
  return {};
}

// The largest memory of a backend here: buffers of a job that exceed it cannot run.
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
    given.words = {};  // copied to the buffer; often the largest allocation of the process
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

backend::Execution execution_of(const RunArguments& arguments) {
  if (arguments.interpreter) return backend::Execution::interpreter;
  return arguments.jit ? backend::Execution::native : backend::Execution::automatic;
}

Result<RunReport> run_items(Megakernel& kernel, const RunArguments& arguments, const Job& job) {
  ProgressBar bar;
  RunOptions options{.origins = job.origins,
                     .ordered = job.ordered,
                     .dedupe = !arguments.no_dedupe,
                     .fuse = !arguments.no_fuse,
                     .lineage = arguments.lineage,
                     .timeout = arguments.timeout.value_or(kDefaultRunTimeout),
                     .worker_count = arguments.workers.value_or(0),
                     .execution = execution_of(arguments),
                     .hit_capacity = arguments.hit_capacity.value_or(0),
                     .memory_budget_bytes = arguments.memory_budget.value_or(0)};
  if (bar.is_shown()) {
    options.progress = [&bar](const RunProgress& progress) { bar.update(progress); };
  }
  return kernel.run(job.items, options);
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
  // A run compiles its own code if that pays; the kernel itself need not be compiled.
  const auto execution = chosen.backend->capabilities().interpreter
                             ? backend::Execution::interpreter
                             : backend::Execution::automatic;
  Megakernel kernel = EVERKERNEL_TRY(Megakernel::create(
      chosen.backend,
      {.slot_count = kRingSlots, .handlers = job.handlers, .execution = execution}));
  const std::vector<DataBuffer> buffers = EVERKERNEL_TRY(make_buffers(kernel, job));
  // Opened before the run, which may take an hour: a folder that cannot be written is reported at
  // once.
  std::optional<OutputFolder> folder;
  if (arguments.outputs) folder.emplace(EVERKERNEL_TRY(OutputFolder::open(*arguments.outputs)));

  const RunReport report = EVERKERNEL_TRY(run_items(kernel, arguments, job));
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
  command.add_path("JOB", arguments.job, "The job, a JSON file (docs/running-jobs.md)");
  command.add_duration("--max-wall-time", arguments.timeout,
                       "Time limit, such as 500ms, 10s or 2m; an hour by default.\n"
                       "Items that have not ended by then remain");
  command.add_word("--workers", arguments.workers,
                   "Number of workers; by default the launch policy decides");
  command.add_flag("--no-dedupe", arguments.no_dedupe,
                   "Run every item, even if an equal pure item has run");
  command.add_flag("--no-fuse", arguments.no_fuse, "Run every item as its own region");
  command.add_flag("--lineage", arguments.lineage,
                   "Report which handlers contributed to each output");
  command.add_flag("--interpreter", arguments.interpreter,
                   "Run on the reference interpreter, without compiling");
  command.add_flag("--jit", arguments.jit, "Compile the handlers for this job");
  command.add_word("--hit-capacity", arguments.hit_capacity,
                   "Hits of emit to keep; by default the launch policy decides");
  command.add_bytes("--memory-budget", arguments.memory_budget,
                    "Memory that the run may use: bytes, or a number with KiB, MiB\n"
                    "or GiB; no limit by default");
  command.add_folder("--outputs", arguments.outputs,
                     "Folder to write the outputs of the job to; created if it does\n"
                     "not exist");
  command.add_backend(arguments.backend);
  command.add_json(arguments.json);
}

}  // namespace

Command run_command() {
  Command command("run", "Run all items of a job file");
  RunArguments& arguments = command.set_action(run);
  add_options(command, arguments);
  command.set_footer(
      "The result is the same as if the items ran one after the other. A job "
      "(docs/running-jobs.md\n"
      "describes all of its fields, and the report):\n"
      "  { \"handlers\": \"ops.ek\",\n"
      "    \"buffers\": [ {\"handle\": 1, \"u32\": [1, 2, 3]}, {\"handle\": 2, \"zeros\": 3} ],\n"
      "    \"items\": [ {\"op\": 64, \"input\": 1, \"output\": 2} ],\n"
      "    \"outputs\": [2] }\n"
      "Example:\n"
      "  everkernel run job.json --outputs results\n"
      "Exit status:\n"
      "  0  every item is processed\n"
      "  1  items ended as FAULT or have not ended\n"
      "  2  wrong usage or wrong input; no file was written\n"
      "  3  the backend failed or is not available; no file was written");
  return command;
}

}  // namespace everkernel::cli
