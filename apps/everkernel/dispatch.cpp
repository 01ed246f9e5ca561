// `everkernel dispatch`: runs the published slots of a ring file once and writes the results.
//
// The input files are only read. Everything is checked and run before the first file is written, so
// that a failure leaves the output folder unchanged.
#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <memory>
#include <numeric>
#include <string>

#include "backends.hpp"
#include "commands.hpp"
#include "delivery.hpp"
#include "dispatch_outcome.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "handler_file.hpp"
#include "input.hpp"
#include "interrupt.hpp"

namespace everkernel::cli {
namespace {

// Hits that are kept without --hit-capacity.
constexpr Word kDefaultHitCapacity = 1024;

struct DispatchArguments {
  std::string control = {};
  std::string ring = {};
  std::optional<std::string> debug_log = {};
  std::optional<std::string> io_queue = {};
  std::optional<std::string> handlers = {};
  std::optional<std::uint64_t> handlers_limit = {};
  bool jit = false;
  std::vector<std::string> buffers = {};
  std::vector<std::string> files = {};
  std::string schedule = "direct";
  std::optional<Word> workgroup_size = {};
  std::optional<Word> hit_capacity = {};
  std::optional<std::chrono::nanoseconds> timeout = {};
  std::optional<Word> workers = {};
  std::string backend = "auto";
  std::string out = {};
  bool json = false;
};

// The value of one --buffer, with the words of its file.
struct BufferInput {
  Word handle = 0;
  std::string path = {};
  memory::Access access = memory::Access::read_write;
  std::vector<Word> words = {};
};

// Everything a dispatch reads, checked.
struct DispatchInput {
  Input<protocol::ControlView> control;
  Input<protocol::RingView> ring;
  std::optional<Input<protocol::DebugLogView>> debug_log = {};
  std::optional<Input<protocol::IoQueueView>> io_queue = {};
  std::optional<ir::VerifiedProgram> handlers = {};
  std::vector<BufferInput> buffers = {};
};

// --- reading -----------------------------------------------------------------------------------

// An option of a later version is an error: ignoring it would give other results than asked for.
Result<void> check_usage(const DispatchArguments& arguments) {
  if (!arguments.files.empty()) {
    return bad_usage("--file: this version has no IO service",
                     "items that request IO remain WAIT_IO, with the request in io_queue.bin; use "
                     "--buffer to give handlers the words of a file");
  }
  if (arguments.jit && !arguments.handlers) {
    return bad_usage("--jit needs --handlers",
                     "--jit runs the payload of the handler file for every slot");
  }
  return check_hit_capacity(arguments.hit_capacity.value_or(0));
}

// Removes the access from the end of `text` and gives it; without one it is read and write.
memory::Access take_access(std::string_view& text) {
  constexpr std::pair<std::string_view, memory::Access> kAccesses[] = {
      {":rw", memory::Access::read_write},
      {":r", memory::Access::read},
      {":w", memory::Access::write}};
  for (const auto& [ending, access] : kAccesses) {
    if (!text.ends_with(ending)) continue;
    text.remove_suffix(ending.size());
    return access;
  }
  return memory::Access::read_write;
}

Result<BufferInput> parse_buffer(std::string_view text) {
  const auto equals = text.find('=');
  std::string_view path = equals == text.npos ? "" : text.substr(equals + 1);
  const memory::Access access = take_access(path);
  if (path.empty()) {
    return bad_usage(fmt::format("--buffer: {} names no file", in_quotes(text)),
                     "the form is --buffer HANDLE=FILE, optionally followed by :r, :w or :rw");
  }
  const Word handle = EVERKERNEL_TRY(parse_number("--buffer", text.substr(0, equals)));
  if (handle == 0 || handle > memory::kMaxHandle) {
    return bad_usage(fmt::format("--buffer: {} is not a handle", handle),
                     fmt::format("handles are 1..{}", memory::kMaxHandle));
  }
  return BufferInput{.handle = handle, .path = std::string(path), .access = access};
}

Result<BufferInput> read_buffer(std::string_view text) {
  auto buffer = parse_buffer(text);
  if (!buffer) return buffer;
  auto words = read_words(buffer->path);
  if (!words) {
    Error error = words.error();
    if (error.native == ENOENT && buffer->path.find(':') != std::string::npos) {
      error.hint = "only :r, :w and :rw may follow the file name";
    }
    return Failure(std::move(error));
  }
  buffer->words = std::move(*words);
  return buffer;
}

Result<void> read_handlers(const DispatchArguments& arguments, DispatchInput& input) {
  if (!arguments.handlers) return {};
  HandlerFile file = EVERKERNEL_TRY(check_handlers(
      *arguments.handlers, arguments.handlers_limit.value_or(kDefaultHandlersLimit)));
  ir::VerifiedProgram verified = EVERKERNEL_TRY(verified_program(std::move(file)));
  if (arguments.jit && verified.payload() == nullptr) {
    return bad_usage(fmt::format("--jit: {} has no payload", in_quotes(*arguments.handlers)),
                     "add payload { ... } to the file: it runs for every slot");
  }
  input.handlers = std::move(verified);
  return {};
}

Result<DispatchInput> read_all(const DispatchArguments& arguments) {
  auto control = EVERKERNEL_TRY(read_input<protocol::ControlView>(arguments.control));
  auto ring = EVERKERNEL_TRY(read_input<protocol::RingView>(arguments.ring));
  if (ring.view.slot_count() == 0) {
    return bad_usage(fmt::format("{}: the ring has no slots", arguments.ring),
                     "make one with slots: everkernel encode ring --slots N -o FILE");
  }
  DispatchInput input{.control = std::move(control), .ring = std::move(ring)};
  EVERKERNEL_TRY(read_input(arguments.debug_log, input.debug_log));
  EVERKERNEL_TRY(read_input(arguments.io_queue, input.io_queue));
  EVERKERNEL_TRY(read_handlers(arguments, input));
  for (const std::string& text : arguments.buffers) {
    input.buffers.push_back(EVERKERNEL_TRY(read_buffer(text)));
  }
  return input;
}

// --- running -----------------------------------------------------------------------------------

backend::Schedule schedule_of(const std::string& name) {
  for (const auto schedule : {backend::Schedule::priority, backend::Schedule::ticket}) {
    if (backend::schedule_name(schedule) == name) return schedule;
  }
  return backend::Schedule::direct;
}

// The largest power of two that divides the slots, at most the default.
Word default_workgroup_size(Word slot_count) {
  return std::gcd(slot_count, abi::kDefaultWorkgroupSize);
}
static_assert(std::has_single_bit(abi::kDefaultWorkgroupSize), "so every divisor is a power");

Result<Megakernel> make_kernel(const DispatchArguments& arguments, const DispatchInput& input,
                               const std::shared_ptr<backend::Backend>& backend) {
  const Word slot_count = input.ring.view.slot_count();
  return Megakernel::create(
      backend,
      {.slot_count = slot_count,
       .workgroup_size = arguments.workgroup_size.value_or(default_workgroup_size(slot_count)),
       .handlers = input.handlers,
       .payload = arguments.jit,
       .schedule = schedule_of(arguments.schedule),
       .worker_count = arguments.workers.value_or(0),
       .compile_timeout = std::chrono::nanoseconds(0)});  // the deadline covers compiling
}

Result<std::vector<DataBuffer>> make_buffers(Megakernel& kernel, const DispatchInput& input) {
  std::vector<DataBuffer> buffers;
  for (const BufferInput& given : input.buffers) {
    auto buffer = kernel.create_buffer(
        {.handle = given.handle, .word_count = given.words.size(), .access = given.access});
    if (!buffer) return in_file(given.path, buffer.error());
    EVERKERNEL_TRY(buffer->write(0, given.words));
    buffers.push_back(std::move(*buffer));
  }
  return buffers;
}

// Everything is read. The backend copies it, and the results are copied once more for the report
// and the files.
Result<void> check_copies(const DispatchInput& input) {
  constexpr std::uint64_t kCopies = 3;
  std::uint64_t bytes = input.control.bytes.size() + input.ring.bytes.size();
  if (input.debug_log) bytes += input.debug_log->bytes.size();
  for (const BufferInput& buffer : input.buffers) bytes += buffer.words.size() * sizeof(Word);
  return check_memory(bytes * kCopies, "dispatch");
}

Result<DispatchReport> run(Megakernel& kernel, const DispatchArguments& arguments,
                           const DispatchInput& input, const Interrupt& interrupt) {
  HostBuffers buffers{.control = input.control.bytes, .ring = input.ring.bytes};
  if (input.debug_log) buffers.debug_log = input.debug_log->bytes;
  if (input.io_queue) buffers.io_queue = input.io_queue->bytes;
  const Submission submissions[] = {buffers};
  return kernel.dispatch({.submissions = submissions,
                          .timeout = arguments.timeout.value_or(kDefaultDispatchTimeout),
                          .stop = &interrupt.flag(),
                          .hit_capacity = arguments.hit_capacity.value_or(kDefaultHitCapacity)});
}

// --- writing -----------------------------------------------------------------------------------

Result<void> stage(OutputFolder& folder, const std::string& name, std::span<const std::byte> bytes,
                   DispatchOutcome& outcome) {
  std::string path = EVERKERNEL_TRY(folder.stage(name, {bytes}));
  outcome.files.push_back({.path = std::move(path), .bytes = bytes.size()});
  return {};
}

std::string file_name(Word handle) {
  return fmt::format("buffer-{}.bin", handle);
}

// A name that cannot be written is reported before anything runs.
Result<void> check_names(const OutputFolder& folder, const DispatchInput& input) {
  for (const char* const name :
       {"control.bin", "ring.bin", "debug_log.bin", "io_queue.bin", "hits.bin"}) {
    EVERKERNEL_TRY(folder.check(name));
  }
  for (const BufferInput& buffer : input.buffers) {
    if (buffer.access == memory::Access::read) continue;
    EVERKERNEL_TRY(folder.check(file_name(buffer.handle)));
  }
  return {};
}

Result<void> stage_all(OutputFolder& folder, const SubmissionReport& report,
                       const DispatchInput& input, std::span<const DataBuffer> buffers,
                       DispatchOutcome& outcome) {
  EVERKERNEL_TRY(stage(folder, "control.bin", report.control, outcome));
  EVERKERNEL_TRY(stage(folder, "ring.bin", report.ring, outcome));
  EVERKERNEL_TRY(stage(folder, "debug_log.bin", report.debug_log, outcome));
  EVERKERNEL_TRY(stage(folder, "io_queue.bin", report.io_queue, outcome));
  EVERKERNEL_TRY(stage(folder, "hits.bin", std::as_bytes(report.hits), outcome));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (input.buffers[i].access == memory::Access::read) continue;
    std::vector<Word> words(buffers[i].word_count());
    EVERKERNEL_TRY(buffers[i].read(0, words));
    EVERKERNEL_TRY(
        stage(folder, file_name(buffers[i].handle()), std::as_bytes(std::span(words)), outcome));
  }
  return {};
}

Result<DispatchOutcome> judge(const Megakernel& kernel, const ChosenBackend& chosen,
                              const DispatchInput& input, const DispatchReport& report) {
  const SubmissionReport& submission = report.submissions.front();
  const protocol::ControlView control =
      EVERKERNEL_TRY(protocol::ControlView::parse(submission.control));
  const protocol::RingView ring = EVERKERNEL_TRY(protocol::RingView::parse(submission.ring));
  const backend::Capabilities& capabilities = chosen.backend->capabilities();
  const backend::DrainEnd end = submission.counts.end;
  return DispatchOutcome{
      .backend = capabilities.id,
      .backend_reason = chosen.reason,
      .device = capabilities.device,
      .pipeline_id = std::string(kernel.pipeline_id()),
      .worker_count = kernel.worker_count(),
      .slot_count = kernel.slot_count(),
      .workgroup_size = kernel.workgroup_size(),
      .stats = report.stats,
      .end = end,
      .debug_dropped = control.debug_dropped() - input.control.view.debug_dropped(),
      .faults = fault_groups(input.ring.view, ring),
      .remaining = remaining_groups(control, ring, end)};
}

Result<Ending> dispatch(const DispatchArguments& arguments) {
  EVERKERNEL_TRY(check_usage(arguments));
  const DispatchInput input = EVERKERNEL_TRY(read_all(arguments));
  EVERKERNEL_TRY(check_copies(input));
  const ChosenBackend chosen = EVERKERNEL_TRY(choose_backend(arguments.backend));
  Megakernel kernel = EVERKERNEL_TRY(make_kernel(arguments, input, chosen.backend));
  const std::vector<DataBuffer> buffers = EVERKERNEL_TRY(make_buffers(kernel, input));
  // From here on a signal ends the dispatch, not the process: what is done is written.
  const Interrupt interrupt;
  // Opened before the run, which may take a minute: a folder that cannot be written is reported at
  // once.
  OutputFolder folder = EVERKERNEL_TRY(OutputFolder::open(arguments.out));
  EVERKERNEL_TRY(check_names(folder, input));

  const DispatchReport report = EVERKERNEL_TRY(run(kernel, arguments, input, interrupt));
  DispatchOutcome outcome = EVERKERNEL_TRY(judge(kernel, chosen, input, report));
  outcome.schedule = schedule_of(arguments.schedule);
  auto written = stage_all(folder, report.submissions.front(), input, buffers, outcome);
  if (written) written = folder.commit();
  if (!written) outcome.files.clear();
  const DispatchStats& stats = outcome.stats;
  const bool is_whole =
      stats.items_faulted == 0 && stats.items_remaining == 0 && stats.hits_dropped == 0;
  return deliver({.report = arguments.json ? json_text(outcome) : human_text(outcome),
                  .report_name = arguments.json ? "report.json" : "report.txt",
                  .folder = &folder,
                  .files_written = std::move(written),
                  .ending = is_whole ? Ending::done : Ending::incomplete});
}

void add_inputs(Command& command, DispatchArguments& arguments) {
  command.add_path("--control", arguments.control, "Control buffer to start from");
  command.add_path("--ring", arguments.ring, "Ring whose published slots run");
  command.add_path("--debug-log", arguments.debug_log,
                   "Debug log to append to; without it PRINTF records are dropped\n"
                   "and counted");
  command.add_path("--io-queue", arguments.io_queue,
                   "IO queue to start from; one empty slot by default");
  command.add_path("--handlers", arguments.handlers,
                   "Handlers of the ring's opcodes (docs/handlers.md)");
  command.add_bytes("--handlers-limit", arguments.handlers_limit,
                    "Longest file of handlers, 64MiB by default");
  command.add_flag("--jit", arguments.jit, "Run the payload of --handlers for every slot");
  command.add_texts("--buffer", arguments.buffers,
                    "Buffer that handlers address by HANDLE; repeat for more.\n"
                    "Handlers may read and write it unless :r or :w is given",
                    "HANDLE=FILE[:r|w|rw]");
  command.add_texts("--file", arguments.files, "Not available: this version has no IO service",
                    "HANDLE=PATH[:r|w|rw]");
  command.add_word("--hit-capacity", arguments.hit_capacity,
                   "Hits of emit to keep, 1024 by default; further hits are\n"
                   "dropped and counted");
}

void add_how(Command& command, DispatchArguments& arguments) {
  command.add_choice("--schedule", arguments.schedule, {"direct", "priority", "ticket"},
                     "Order of the slots: direct gives each worker a share of the\n"
                     "ring (default), priority starts with the most urgent slots,\n"
                     "ticket follows the order of publishing");
  command.add_word("--workgroup-size", arguments.workgroup_size,
                   "Lanes of a workgroup; must divide the number of slots. By\n"
                   "default the largest power of two up to 256 that does");
  command.add_duration("--deadline", arguments.timeout,
                       "Time limit, such as 500ms, 5s or 2h; 60s by default. Items\n"
                       "that have not ended by then remain");
  command.add_word("--workers", arguments.workers,
                   "Number of workers; by default as many as the device has");
  command.add_memory_limit();
  command.add_backend(arguments.backend);
}

}  // namespace

Command dispatch_command() {
  Command command("dispatch", "Run the published slots of a ring file once");
  DispatchArguments& arguments = command.set_action(dispatch);
  add_inputs(command, arguments);
  add_how(command, arguments);
  command.add_folder("--out", arguments.out,
                     "Folder for the result files; created if it does not exist");
  command.add_json(arguments.json);
  command.set_footer(
      "Writes control.bin, ring.bin, debug_log.bin, io_queue.bin, hits.bin (16-byte records: slot\n"
      "and the three values of emit), and buffer-HANDLE.bin for each buffer that handlers may\n"
      "write. The input files are only read.\n"
      "Examples:\n"
      "  everkernel dispatch --control control.bin --ring ring.bin --out results\n"
      "  everkernel dispatch --control control.bin --ring ring.bin --handlers saxpy.ek \\\n"
      "    --buffer 1=x.bin:r --buffer 2=y.bin --deadline 5s --out results\n"
      "Exit status:\n"
      "  0  every item is done\n"
      "  1  items ended as FAULT or have not ended: the time limit was reached, or the first\n"
      "     SIGINT (Ctrl-C), SIGTERM or SIGHUP came; what was done is written\n"
      "  2  wrong usage or wrong input; no file was written\n"
      "  3  the backend failed or is not available; no file was written\n"
      "  4  the ring ran, but results could not be written or printed; the message says what is\n"
      "     where");
  return command;
}

}  // namespace everkernel::cli
