// `everkernel inspect`: reads buffers, decodes them, and shows them as JSON or text.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "commands.hpp"
#include "delivery.hpp"
#include "everkernel/telemetry/decode.hpp"
#include "everkernel/telemetry/json.hpp"
#include "files.hpp"
#include "inspection.hpp"

namespace everkernel::cli {
namespace {

struct InspectOptions {
  std::optional<std::string> control = {};
  std::optional<std::string> ring = {};
  std::optional<std::string> debug_log = {};
  std::optional<std::string> io_queue = {};
  std::optional<std::string> previous_control = {};
  std::vector<Word> window_opcodes = {};
  bool observables = false;
  bool all = false;
  bool json = false;
};

Result<void> check_combination(const InspectOptions& options) {
  if (options.previous_control && !(options.control && options.ring)) {
    return bad_usage("--previous-control needs --control and --ring",
                     "the watchdog compares the earlier control buffer with the current buffers");
  }
  if (options.observables && !options.control) {
    return bad_usage("--observables needs --control", "observables lie in the control buffer");
  }
  if (!options.window_opcodes.empty() && !options.ring) {
    return bad_usage("--window-opcode needs --ring", "windows group the slots of a ring");
  }
  if (!options.control && !options.ring && !options.debug_log && !options.io_queue) {
    return bad_usage("nothing to inspect",
                     "give at least one of --control, --ring, --debug-log and --io-queue");
  }
  return {};
}

Result<void> read_watchdog(const std::string& path, Inspection& inspection) {
  const Bytes bytes = EVERKERNEL_TRY(read_file(path));
  const auto done_count = protocol::read_done_count(bytes);
  if (!done_count) return in_file(path, done_count.error());
  inspection.watchdog = inspection.telemetry.watchdog(*done_count);
  return {};
}

Result<void> read_inspection(const InspectOptions& options, Inspection& inspection) {
  EVERKERNEL_TRY(read_input(options.control, inspection.control));
  EVERKERNEL_TRY(read_input(options.ring, inspection.ring));
  EVERKERNEL_TRY(read_input(options.debug_log, inspection.debug_log));
  EVERKERNEL_TRY(read_input(options.io_queue, inspection.io_queue));
  inspection.has_observables = options.observables;
  inspection.has_windows = !options.window_opcodes.empty();
  telemetry::DecodeRequest request{.window_opcodes = options.window_opcodes,
                                   .observables = options.observables};
  if (inspection.control) request.control = inspection.control->bytes;
  if (inspection.ring) request.ring = inspection.ring->bytes;
  telemetry::DecodeScratch scratch;
  EVERKERNEL_TRY(telemetry::decode(request, scratch, inspection.telemetry));
  if (!options.previous_control) return {};
  return read_watchdog(*options.previous_control, inspection);
}

std::string json_text(const Inspection& inspection) {
  const telemetry::RingTelemetry& telemetry = inspection.telemetry;
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  const auto write = [&](std::string_view key, const auto&... content) {
    json.key(key);
    telemetry::write_json(json, content...);
  };
  if (inspection.control) write("control", telemetry.control, inspection.has_observables);
  if (inspection.ring) {
    write("occupancy", telemetry.occupancy);
    write("slots", std::span(telemetry.slots));
    write("windows", std::span(telemetry.windows));
  }
  if (inspection.control && inspection.ring) write("counters", telemetry.counters());
  if (inspection.watchdog) write("watchdog", *inspection.watchdog);
  if (inspection.debug_log) write("debug_log", inspection.debug_log->view);
  if (inspection.io_queue) write("io_queue", inspection.io_queue->view);
  json.end_object();
  return out += '\n';
}

Result<Ending> inspect(const InspectOptions& options) {
  EVERKERNEL_TRY(check_combination(options));
  Inspection inspection;
  EVERKERNEL_TRY(read_inspection(options, inspection));
  return deliver_text(options.json ? json_text(inspection) : human_text(inspection, options.all));
}

}  // namespace

Command inspect_command() {
  Command command("inspect", "Decode buffer files and show their contents");
  InspectOptions& options = command.set_action(inspect);
  command.add_path("--control", options.control, "Control buffer: counters, tenants, priorities");
  command.add_path("--ring", options.ring,
                   "Ring: slots and their states; with --control also ratios");
  command.add_path("--debug-log", options.debug_log, "Debug log: PRINTF records");
  command.add_path("--io-queue", options.io_queue, "IO queue: requests and their states");
  command.add_words("--window-opcode", options.window_opcodes,
                    "Group the slots of this opcode by ticket (operand 0); repeat\n"
                    "for more opcodes",
                    kOpcode);
  command.add_path("--previous-control", options.previous_control,
                   "An earlier copy of the control buffer: shows whether the\n"
                   "workers have made progress since");
  command.add_flag("--observables", options.observables,
                   "Show the observables of the control buffer");
  command.add_flag("--all", options.all, "Show every row of long tables; --json always does");
  command.add_memory_limit();
  command.add_json(options.json);
  command.set_footer(
      "Examples:\n"
      "  everkernel inspect --control control.bin --ring ring.bin\n"
      "  everkernel inspect --control now.bin --ring ring.bin --previous-control before.bin "
      "--json");
  return command;
}

}  // namespace everkernel::cli
