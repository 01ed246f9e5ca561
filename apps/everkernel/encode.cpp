// `everkernel encode`: makes a fresh control buffer, ring, debug log or IO queue as a file.
//
// The library makes the bytes; publish.cpp fills the ring afterwards.
#include <fmt/format.h>

#include <string>

#include "commands.hpp"
#include "delivery.hpp"
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

// A number of the report: scripts read it instead of computing it from the length.
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

// A regular file is put in place after its report is printed: a command that fails leaves no file.
// Bytes written to a device cannot be taken back, so for a device the report is printed last.
Result<Ending> write_buffer(const EncodeOptions& options, protocol::Buffer buffer,
                            const Bytes& bytes, std::initializer_list<Fact> facts) {
  OutputFile file = EVERKERNEL_TRY(OutputFile::stage(options.output, {bytes}));
  if (file.is_standard_output()) return file.commit().map([] { return Ending::done; });
  const std::string report = report_text(options, buffer, bytes.size(), facts);
  if (file.is_direct()) {
    EVERKERNEL_TRY(file.commit());
    return deliver_text(report);
  }
  const Ending ending = deliver_text(report);
  if (ending == Ending::done) EVERKERNEL_TRY(file.commit());
  return ending;
}

Result<Bytes> make_bytes(const EncodeOptions& options, std::size_t size) {
  EVERKERNEL_TRY(check_memory(size, in_quotes(options.output)));
  return Bytes(size);
}

Result<Ending> encode_control(const EncodeControlOptions& options) {
  const protocol::ControlLayout layout{.shutdown = options.shutdown,
                                       .tenant_count = options.tenants,
                                       .observable_slots = options.observable_slots.value_or(0)};
  const std::size_t size = EVERKERNEL_TRY(protocol::control_bytes(layout));
  Bytes bytes = EVERKERNEL_TRY(make_bytes(options, size));
  EVERKERNEL_TRY(protocol::encode_control(layout, bytes));
  if (options.priority_slots) {
    protocol::ControlWriter writer = EVERKERNEL_TRY(protocol::ControlWriter::bind(bytes));
    EVERKERNEL_TRY(writer.set_priority_offsets(*options.priority_slots));
  }
  return write_buffer(options, protocol::Buffer::control, bytes,
                      {{"tenants", "tenant", layout.tenant_count},
                       {"observable_slots", "observable", layout.observable_slots}});
}

Result<Ending> encode_ring(const EncodeRingOptions& options) {
  const std::size_t size = EVERKERNEL_TRY(protocol::ring_bytes(options.slots));
  std::vector<abi::WorkItem> items;
  if (options.items) {
    items = EVERKERNEL_TRY(read_items(*options.items));
  }
  if (items.size() > options.slots) {
    return bad_usage(fmt::format("--items: {} holds {}, the ring has {}", in_quotes(*options.items),
                                 counted(items.size(), "item"), counted(options.slots, "slot")),
                     fmt::format("make the ring larger: --slots {}", items.size()));
  }
  Bytes bytes = EVERKERNEL_TRY(make_bytes(options, size));
  // Without items this makes an empty ring and still checks the tenant.
  EVERKERNEL_TRY(
      protocol::encode_items({.tenant = options.tenant.value_or(0), .items = items}, bytes));
  return write_buffer(options, protocol::Buffer::ring, bytes,
                      {{"slots", "slot", options.slots}, {"items", "item", items.size()}});
}

Result<Ending> encode_debug_log(const EncodeDebugLogOptions& options) {
  const std::size_t size = EVERKERNEL_TRY(protocol::debug_log_bytes(options.records));
  Bytes bytes = EVERKERNEL_TRY(make_bytes(options, size));
  EVERKERNEL_TRY(protocol::encode_debug_log(options.records, bytes));
  return write_buffer(options, protocol::Buffer::debug_log, bytes,
                      {{"records", "record", options.records}});
}

Result<Ending> encode_io_queue(const EncodeIoQueueOptions& options) {
  const std::size_t size = EVERKERNEL_TRY(protocol::io_queue_bytes(options.slots));
  Bytes bytes = EVERKERNEL_TRY(make_bytes(options, size));
  EVERKERNEL_TRY(protocol::encode_io_queue(options.slots, bytes));
  return write_buffer(options, protocol::Buffer::io_queue, bytes,
                      {{"slots", "slot", options.slots}});
}

void add_common(Command& command, EncodeOptions& options) {
  command.add_path("-o,--output", options.output, "File to write; an existing file is replaced");
  command.add_memory_limit();
  command.add_json(options.json);
}

Command control_command() {
  Command command("control", "Make a control buffer: flags, counters and observables");
  EncodeControlOptions& options = command.set_action(encode_control);
  command.add_word("--tenants", options.tenants, "Number of tenants whose items may run, 0..29");
  command.add_word("--observable-slots", options.observable_slots,
                   "Number of result words behind the fixed part; 0 by default");
  command.add_word("--priority-slots", options.priority_slots,
                   "Divide a ring of N slots among the priorities");
  command.add_flag("--shutdown", options.shutdown, "Set the shutdown flag: workers run nothing");
  add_common(command, options);
  command.set_footer(
      "Example:\n"
      "  everkernel encode control --tenants 2 --observable-slots 8 -o control.bin");
  return command;
}

Command ring_command() {
  Command command("ring", "Make a ring of work slots, empty or filled with items");
  EncodeRingOptions& options = command.set_action(encode_ring);
  command.add_word("--slots", options.slots, "Number of slots");
  command.add_word("--tenant", options.tenant, "Tenant of the items, 0..28; 0 by default");
  command.add_path("--items", options.items,
                   "Items to publish from slot 0 on, as 16-byte records:\n"
                   "op_handle, input_handle, output_handle, param");
  add_common(command, options);
  command.set_footer(
      "Example:\n"
      "  everkernel encode ring --slots 256 --items items.bin -o ring.bin");
  return command;
}

Command debug_log_command() {
  Command command("debug-log", "Make an empty log for PRINTF records");
  EncodeDebugLogOptions& options = command.set_action(encode_debug_log);
  command.add_word("--records", options.records, "Number of records the log has room for");
  add_common(command, options);
  command.set_footer(
      "Example:\n"
      "  everkernel encode debug-log --records 1024 -o debug_log.bin");
  return command;
}

Command io_queue_command() {
  Command command("io-queue", "Make an empty queue for IO requests");
  EncodeIoQueueOptions& options = command.set_action(encode_io_queue);
  command.add_word("--slots", options.slots, "Number of IO slots, 1..64");
  add_common(command, options);
  command.set_footer(
      "Example:\n"
      "  everkernel encode io-queue --slots 64 -o io_queue.bin");
  return command;
}

}  // namespace

Command encode_command() {
  constexpr std::string_view kBuffers = "Buffers";
  Command command("encode", "Make a fresh buffer file: control, ring, debug-log or io-queue");
  command.add_command(kBuffers, control_command());
  command.add_command(kBuffers, ring_command());
  command.add_command(kBuffers, debug_log_command());
  command.add_command(kBuffers, io_queue_command());
  command.set_footer("everkernel encode BUFFER --help shows the options of each buffer.");
  return command;
}

}  // namespace everkernel::cli
