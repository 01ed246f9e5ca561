// `everkernel encode`: makes a fresh control buffer, ring, debug log or IO queue as a file.
//
// The library makes the bytes; publish.cpp fills the ring afterwards.
#include <fmt/format.h>

#include <string>

#include "commands.hpp"
#include "everkernel/base/json_writer.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "files.hpp"

namespace everkernel::cli {
namespace {

struct EncodeOptions {
  std::string output = {};
  bool json = false;
};

struct EncodeControlOptions : EncodeOptions {
  Word tenants = 0;
  std::optional<Word> observable_slots = {};
  bool shutdown = false;
  std::optional<Word> priority_slots = {};
};

struct EncodeRingOptions : EncodeOptions {
  Word slots = 0;
  std::optional<Word> tenant = {};
  std::optional<std::string> items = {};
};

struct EncodeDebugLogOptions : EncodeOptions {
  Word records = 0;
};

struct EncodeIoQueueOptions : EncodeOptions {
  Word slots = 0;
};

// A number the report repeats, so that a script need not compute it from the length.
struct Fact {
  std::string_view key;   // in JSON
  std::string_view noun;  // for people
  std::uint64_t number;
};

std::string report_text(const EncodeOptions& options, protocol::Buffer buffer, std::size_t bytes,
                        std::initializer_list<Fact> facts) {
  if (!options.json) {
    std::string text = fmt::format("wrote {}: {}", options.output, protocol::buffer_name(buffer));
    for (const Fact& fact : facts) text += ", " + counted(fact.number, fact.noun);
    return text + fmt::format(", {}\n", counted(bytes, "byte"));
  }
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("buffer", protocol::buffer_name(buffer)).field("path", options.output);
  json.field("bytes", bytes);
  for (const Fact& fact : facts) json.field(fact.key, fact.number);
  json.end_object();
  return text + "\n";
}

// A file appears only after its report went out: a failed command leaves none. What a device has
// taken cannot be taken back, so there the report comes last.
Result<void> write_buffer(const EncodeOptions& options, protocol::Buffer buffer, const Bytes& bytes,
                          std::initializer_list<Fact> facts) {
  OutputFile file = EVERKERNEL_TRY(OutputFile::stage(options.output, bytes));
  if (file.is_standard_output()) return file.commit();
  const std::string report = report_text(options, buffer, bytes.size(), facts);
  if (file.is_direct()) {
    EVERKERNEL_TRY(file.commit());
    return print(report);
  }
  EVERKERNEL_TRY(print(report));
  return file.commit();
}

Result<void> encode_control(const EncodeControlOptions& options) {
  const protocol::ControlLayout layout{.shutdown = options.shutdown,
                                       .tenant_count = options.tenants,
                                       .observable_slots = options.observable_slots.value_or(0)};
  const std::size_t size = EVERKERNEL_TRY(protocol::control_bytes(layout));
  Bytes bytes(size);
  EVERKERNEL_TRY(protocol::encode_control(layout, bytes));
  if (options.priority_slots) {
    protocol::ControlWriter writer = EVERKERNEL_TRY(protocol::ControlWriter::bind(bytes));
    EVERKERNEL_TRY(writer.set_priority_offsets(*options.priority_slots));
  }
  return write_buffer(options, protocol::Buffer::control, bytes,
                      {{"tenants", "tenant", layout.tenant_count},
                       {"observable_slots", "observable", layout.observable_slots}});
}

Result<void> encode_ring(const EncodeRingOptions& options) {
  const std::size_t size = EVERKERNEL_TRY(protocol::ring_bytes(options.slots));
  std::vector<abi::WorkItem> items;
  if (options.items) {
    items = EVERKERNEL_TRY(read_items(*options.items));
  }
  if (items.size() > options.slots) {
    return bad_usage(fmt::format("--items: {} holds {}, the ring has {}", in_quotes(*options.items),
                                 counted(items.size(), "item"), counted(options.slots, "slot")),
                     fmt::format("--slots {} or more has room for them", items.size()));
  }
  Bytes bytes(size);
  // Without items this is an empty ring, and the tenant is still checked.
  EVERKERNEL_TRY(
      protocol::encode_items({.tenant = options.tenant.value_or(0), .items = items}, bytes));
  return write_buffer(options, protocol::Buffer::ring, bytes,
                      {{"slots", "slot", options.slots}, {"items", "item", items.size()}});
}

Result<void> encode_debug_log(const EncodeDebugLogOptions& options) {
  const std::size_t size = EVERKERNEL_TRY(protocol::debug_log_bytes(options.records));
  Bytes bytes(size);
  EVERKERNEL_TRY(protocol::encode_debug_log(options.records, bytes));
  return write_buffer(options, protocol::Buffer::debug_log, bytes,
                      {{"records", "record", options.records}});
}

Result<void> encode_io_queue(const EncodeIoQueueOptions& options) {
  const std::size_t size = EVERKERNEL_TRY(protocol::io_queue_bytes(options.slots));
  Bytes bytes(size);
  EVERKERNEL_TRY(protocol::encode_io_queue(options.slots, bytes));
  return write_buffer(options, protocol::Buffer::io_queue, bytes,
                      {{"slots", "slot", options.slots}});
}

void add_common(Command& command, EncodeOptions& options) {
  command.add_path("-o,--output", options.output, "File to write; replaced if it is there");
  command.add_json(options.json);
}

Command control_command() {
  Command command("control", "Flags, counters and observables");
  EncodeControlOptions& options = command.set_action(encode_control);
  command.add_word("--tenants", options.tenants, "Tenants that may run, 0..29");
  command.add_word("--observable-slots", options.observable_slots,
                   "Result words behind the fixed part");
  command.add_word("--priority-slots", options.priority_slots,
                   "Split a ring of N slots among the priorities");
  command.add_flag("--shutdown", options.shutdown, "Set the shutdown flag");
  add_common(command, options);
  command.set_footer(
      "Example:\n  everkernel encode control --tenants 2 --observable-slots 8 -o control.bin");
  return command;
}

Command ring_command() {
  Command command("ring", "Work slots, empty or filled");
  EncodeRingOptions& options = command.set_action(encode_ring);
  command.add_word("--slots", options.slots, "Slots of the ring");
  command.add_word("--tenant", options.tenant, "Whose items they are, 0..28; 0 unless given");
  command.add_path("--items", options.items,
                   "Publish these from slot 0 on: 16-byte records of\n"
                   "op_handle, input_handle, output_handle, param");
  add_common(command, options);
  command.set_footer(
      "Example:\n  everkernel encode ring --slots 256 --items items.bin -o ring.bin");
  return command;
}

Command debug_log_command() {
  Command command("debug-log", "Room for PRINTF records");
  EncodeDebugLogOptions& options = command.set_action(encode_debug_log);
  command.add_word("--records", options.records, "Records the log has room for");
  add_common(command, options);
  command.set_footer("Example:\n  everkernel encode debug-log --records 1024 -o debug_log.bin");
  return command;
}

Command io_queue_command() {
  Command command("io-queue", "Slots for IO requests");
  EncodeIoQueueOptions& options = command.set_action(encode_io_queue);
  command.add_word("--slots", options.slots, "IO slots, 1..64");
  add_common(command, options);
  command.set_footer("Example:\n  everkernel encode io-queue --slots 64 -o io_queue.bin");
  return command;
}

}  // namespace

Command encode_command() {
  constexpr std::string_view kBuffers = "Buffers";
  Command command("encode", "Make a fresh buffer as a file");
  command.add_command(kBuffers, control_command());
  command.add_command(kBuffers, ring_command());
  command.add_command(kBuffers, debug_log_command());
  command.add_command(kBuffers, io_queue_command());
  command.set_footer("everkernel encode BUFFER --help shows the options of each buffer.");
  return command;
}

}  // namespace everkernel::cli
