// `everkernel run`: plans, runs and reports all items of a job file.
//
// The whole job is checked before anything runs, and everything has run before the first file is
// written: a failure leaves the output folder unchanged. If the results of a job that ran cannot be
// written or printed, delivery.cpp saves what it can.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "backends.hpp"
#include "commands.hpp"
#include "delivery.hpp"
#include "everkernel/memory/available.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "handler_file.hpp"
#include "interrupt.hpp"
#include "job.hpp"
#include "output_files.hpp"
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
  std::optional<std::uint64_t> handlers_limit = {};
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
  EVERKERNEL_TRY(check_hit_capacity(arguments.hit_capacity.value_or(0)));
  if (arguments.memory_budget == std::uint64_t{0}) {
    return bad_usage("--memory-budget: nothing fits in 0 bytes", "give more, or omit the option");
  }
  if (arguments.interpreter && arguments.jit) {
    return bad_usage("--interpreter and --jit contradict each other", "give one of them, or none");
  }
  return {};
}

// The buffers of a job must fit in the memory of a backend here: that of a device, or what this
// process may still use.
JobLimits limits_of(const RunArguments& arguments) {
  JobLimits limits{.memory = memory::available(),
                   .handlers_bytes = arguments.handlers_limit.value_or(kDefaultHandlersLimit)};
  if (arguments.backend == "cpu") return limits;
  for (const backend::Capabilities& backend : all_backends()) {
    if (!backend.supported || backend.id == "cpu") continue;
    if (backend.memory_bytes <= limits.memory.bytes) continue;
    limits.memory = {backend.memory_bytes, fmt::format("the memory of {}", backend.device)};
  }
  return limits;
}

// The outputs are copied for the report after the run: too late to find that they do not fit.
Result<void> check_outputs(const RunArguments& arguments, const Job& job, const OutputPlan& plan) {
  // The text of a word has up to 11 characters.
  const std::uint64_t bytes_per_word = sizeof(Word) + (arguments.json ? 11 : 0);
  std::uint64_t bytes = 0;
  for (const std::uint64_t count : plan.byte_counts) {
    bytes += (count / sizeof(Word) + 1) * bytes_per_word;
  }
  return check_memory(bytes, fmt::format("{}: outputs", job.path));
}

// Buffers that are parts of others.
Result<void> make_slices(const Job& job) {
  if (job.slices.empty()) return {};
  return job_error(job.path, fmt::format("buffers[{}].slice_of", job.slices.front().entry),
                   "this version has no slices of buffers",
                   "give every part a buffer of its own: \"file\" takes \"offset\" and \"length\"");
}

Result<std::vector<DataBuffer>> make_buffers(Megakernel& kernel, Job& job) {
  EVERKERNEL_TRY(make_slices(job));
  std::vector<DataBuffer> buffers;
  for (JobBuffer& given : job.buffers) {
    DataBuffer buffer = EVERKERNEL_TRY(kernel.create_buffer({.handle = given.handle,
                                                             .word_count = given.word_count,
                                                             .access = given.access,
                                                             .owner = given.owner}));
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

Result<RunReport> run_items(Megakernel& kernel, const RunArguments& arguments, const Job& job,
                            const Interrupt& interrupt) {
  ProgressBar bar;
  RunOptions options{.origins = job.origins,
                     .ordered = job.ordered,
                     .dedupe = !arguments.no_dedupe,
                     .fuse = !arguments.no_fuse,
                     .lineage = arguments.lineage,
                     .timeout = arguments.timeout.value_or(kDefaultRunTimeout),
                     .stop = &interrupt.flag(),
                     .worker_count = arguments.workers.value_or(0),
                     .execution = execution_of(arguments),
                     .hit_capacity = arguments.hit_capacity.value_or(0),
                     .memory_budget_bytes = arguments.memory_budget.value_or(0)};
  if (bar.is_shown()) {
    options.progress = [&bar](const RunProgress& progress) { bar.update(progress); };
  }
  return kernel.run(job.items.compact(), options);  // read_job() refuses wider items
}

Result<void> read_outputs(std::span<const DataBuffer> buffers, const OutputPlan& plan,
                          RunOutcome& outcome) {
  std::unordered_map<Word, const DataBuffer*> by_handle;
  for (const DataBuffer& buffer : buffers) by_handle.emplace(buffer.handle(), &buffer);
  for (std::size_t i = 0; i < outcome.job.outputs.size(); ++i) {
    const OutputText& given = outcome.job.outputs[i];
    const DataBuffer* const buffer = by_handle.at(given.handle);
    RunOutput output{.handle = given.handle,
                     .element = given.element,
                     .byte_count = plan.byte_counts[i],
                     .words = std::vector<Word>(buffer->word_count())};
    if (!output.words.empty()) EVERKERNEL_TRY(buffer->read(0, output.words));
    outcome.outputs.push_back(std::move(output));
  }
  return {};
}

Result<Ending> run(const RunArguments& arguments) {
  CommandTimes times;
  EVERKERNEL_TRY(check_usage(arguments));
  Job job = EVERKERNEL_TRY(read_job(arguments.job, limits_of(arguments)));
  const OutputPlan plan = EVERKERNEL_TRY(plan_outputs(job, arguments.outputs));
  times.read_job = times.total();
  const ChosenBackend chosen = EVERKERNEL_TRY(choose_backend(arguments.backend));
  // A run compiles its own code if that pays; the kernel itself need not be compiled.
  const auto execution = chosen.backend->capabilities().interpreter
                             ? backend::Execution::interpreter
                             : backend::Execution::automatic;
  Megakernel kernel = EVERKERNEL_TRY(Megakernel::create(
      chosen.backend,
      {.slot_count = kRingSlots,
       .handlers = job.handlers,
       .execution = execution,
       .compile_timeout = std::chrono::nanoseconds(0)}));  // the time limit covers compiling
  const std::vector<DataBuffer> buffers = EVERKERNEL_TRY(make_buffers(kernel, job));
  EVERKERNEL_TRY(check_outputs(arguments, job, plan));
  // From here on a signal ends the run, not the process: what is done is written.
  const Interrupt interrupt;
  // Opened before the run, which may take an hour: a folder that cannot be written is reported at
  // once.
  std::optional<OutputFolder> folder;
  if (plan.folder) folder.emplace(EVERKERNEL_TRY(OutputFolder::open(*plan.folder)));
  times.prepare = times.total() - times.read_job;

  if (folder) EVERKERNEL_TRY(check_files(*folder, plan));
  const RunReport report = EVERKERNEL_TRY(run_items(kernel, arguments, job, interrupt));
  const auto outputs_begin = times.total();
  const backend::Capabilities& capabilities = chosen.backend->capabilities();
  RunOutcome outcome{.job = job,
                     .report = report,
                     .backend = capabilities.id,
                     .backend_reason = chosen.reason,
                     .device = capabilities.device,
                     .lineage = arguments.lineage};
  EVERKERNEL_TRY(read_outputs(buffers, plan, outcome));
  Delivery delivery{.report_name = arguments.json ? "report.json" : "report.txt"};
  if (folder) {
    delivery.folder = &*folder;
    delivery.files_written = write_outputs(*folder, plan, outcome);
  }
  times.outputs = times.total() - outputs_begin;
  outcome.times = times;
  delivery.report = arguments.json ? json_text(outcome) : human_text(outcome);
  const bool is_whole =
      report.items_faulted == 0 && report.items_remaining == 0 && report.hits_dropped == 0;
  if (!is_whole) delivery.ending = Ending::incomplete;
  return deliver(delivery);
}

void add_options(Command& command, RunArguments& arguments) {
  command.add_path("JOB", arguments.job,
                   "The job, a JSON file (docs/running-jobs.md); - is standard input");
  command.add_duration("--max-wall-time", arguments.timeout,
                       "Time limit, such as 500ms, 10s or 2h; an hour by default.\n"
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
                   "Hits of emit to keep; by default as many as fit the memory\n"
                   "budget, or an eighth of the memory");
  command.add_bytes("--memory-budget", arguments.memory_budget,
                    "Memory that the run may use: bytes, or a number with KiB, MiB\n"
                    "or GiB; no limit by default");
  command.add_memory_limit();
  command.add_bytes("--handlers-limit", arguments.handlers_limit,
                    "Longest file of handlers, 64MiB by default");
  command.add_folder("--outputs", arguments.outputs,
                     "Folder to write the outputs of the job to, created if it does\n"
                     "not exist; or a file FILE.npz that has them all, for numpy");
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
      "    \"items\": [ {\"op\": \"scale\", \"input\": 1, \"output\": 2, \"param\": 10} ],\n"
      "    \"outputs\": [2] }\n"
      "A buffer is a list (u32, i32, f32, u8), base64, zeros, or a file (offset, length; .npy).\n"
      "An op is a name or a number; an item has input, output and param, or args. An output is a\n"
      "handle, or {\"handle\": 2, \"file\": \"labels.npy\", \"type\": \"f32\"}.\n"
      "Examples:\n"
      "  everkernel run job.json --outputs results\n"
      "  make_job | everkernel run - --outputs results.npz\n"
      "Exit status:\n"
      "  0  every item is processed\n"
      "  1  items ended as FAULT or have not ended (the time limit was reached, or the first\n"
      "     SIGINT (Ctrl-C), SIGTERM or SIGHUP came), or hits were dropped; what was done is\n"
      "     written\n"
      "  2  wrong usage or wrong input; no file was written\n"
      "  3  the backend failed or is not available; no file was written\n"
      "  4  the job ran, but its results could not be written or printed; the message says what\n"
      "     is where");
  return command;
}

}  // namespace everkernel::cli
