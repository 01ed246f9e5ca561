// `everkernel publish`: puts one operation, several packed ones, or a batch into a ring file.
//
// The operations are published into a private copy first, so that an error leaves the file
// unchanged. Then only the changed slots are written back, in place: other programs may have the
// file open.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "commands.hpp"
#include "delivery.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/base/json_writer.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "files.hpp"

namespace everkernel::cli {
namespace {

// How long another publisher may hold the lock of the ring; it needs milliseconds.
constexpr auto kLockTimeout = std::chrono::seconds(10);

struct PublishOptions {
  std::string ring = {};
  Word slot = 0;
  Word tenant = 0;
  std::optional<Word> priority = {};
  std::optional<Word> opcode = {};
  std::vector<Word> args = {};
  std::vector<std::string> packed = {};
  std::optional<std::string> batch = {};
  std::optional<Word> tag = {};
  std::optional<std::chrono::nanoseconds> lock_timeout = {};
  bool json = false;
};

// The value of one --packed: an operation and its operands.
struct PackedText {
  Word opcode = 0;
  std::vector<Word> args = {};
};

Result<void> check_combination(const PublishOptions& options) {
  std::vector<std::string_view> given;
  if (options.opcode) given.push_back("--opcode");
  if (!options.packed.empty()) given.push_back("--packed");
  if (options.batch) given.push_back("--batch");
  if (given.empty()) {
    return bad_usage("one of --opcode, --packed and --batch is required",
                     "--opcode OP publishes one operation, --packed several in one slot, --batch "
                     "a file of items and a fence");
  }
  if (given.size() > 1) {
    return bad_usage(fmt::format("{} and {} contradict each other", given[0], given[1]),
                     "use one command for each, with different slots");
  }
  if (!options.args.empty() && !options.opcode) {
    return bad_usage(fmt::format("--arg does not go with {}", given[0]),
                     options.batch ? "the items in the file have their own operands"
                                   : "give the operands with the operation: --packed OP:ARG,ARG");
  }
  if (options.tag && !options.batch) {
    return bad_usage(fmt::format("--tag does not go with {}", given[0]),
                     "the tag belongs to the fence of a --batch");
  }
  return {};
}

Result<PackedText> parse_packed(std::string_view text) {
  const auto colon = text.find(':');
  const Word opcode = EVERKERNEL_TRY(parse_opcode("--packed", text.substr(0, colon)));
  if (opcode > 0xFF) {
    return bad_usage(fmt::format("--packed: {} does not fit: an inner opcode has 8 bits",
                                 in_quotes(text.substr(0, colon))),
                     "publish it with --opcode, in a slot of its own");
  }
  PackedText op{.opcode = opcode};
  std::string_view rest = colon == text.npos ? "" : text.substr(colon + 1);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    op.args.push_back(EVERKERNEL_TRY(parse_number("--packed", rest.substr(0, comma))));
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty())
      return bad_usage(fmt::format("--packed: {} ends in a comma", in_quotes(text)),
                       "separate operands by single commas: --packed OP:ARG,ARG");
  }
  return op;
}

Result<Word> publish_packed(protocol::RingWriter& writer, const PublishOptions& options,
                            Word priority) {
  std::vector<PackedText> texts;
  for (const std::string& text : options.packed) {
    texts.push_back(EVERKERNEL_TRY(parse_packed(text)));
  }
  std::vector<protocol::PackedOp> ops;
  for (const PackedText& text : texts) {
    ops.push_back({.opcode = static_cast<std::uint8_t>(text.opcode), .args = text.args});
  }
  EVERKERNEL_TRY(writer.publish_packed(
      {.slot_index = options.slot, .tenant = options.tenant, .priority = priority, .ops = ops}));
  return 1;
}

Result<Word> publish_batch(protocol::RingWriter& writer, const PublishOptions& options,
                           Word priority) {
  const std::vector<abi::WorkItem> items = EVERKERNEL_TRY(read_items(*options.batch));
  std::vector<std::array<Word, 3>> args;
  args.reserve(items.size());
  for (const abi::WorkItem& item : items) {
    args.push_back({item.input_handle, item.output_handle, item.param});
  }
  std::vector<protocol::Operation> batch;
  batch.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    batch.push_back({.opcode = items[i].op_handle, .args = args[i]});
  }
  return writer.publish_batch({.first_slot = options.slot,
                               .tenant = options.tenant,
                               .priority = priority,
                               .tag = options.tag.value_or(0),
                               .operations = batch});
}

// Publishes into the private copy. Gives the number of changed slots.
Result<Word> publish_into(Bytes& ring, const PublishOptions& options) {
  auto writer = protocol::RingWriter::bind(ring);
  if (!writer) {
    Error error = writer.error();
    error.message = fmt::format("{}: {}", options.ring, error.message);
    return Failure(error);
  }
  const Word priority = options.priority.value_or(protocol::kDefaultPriority);
  if (options.batch) return publish_batch(*writer, options, priority);
  if (!options.packed.empty()) return publish_packed(*writer, options, priority);
  EVERKERNEL_TRY(writer->publish({.slot_index = options.slot,
                                  .tenant = options.tenant,
                                  .priority = priority,
                                  .opcode = *options.opcode,
                                  .args = options.args}));
  return 1;
}

// Writes the slots back, their status words last, as the wire format requires of every publisher: a
// reader of the file sees a slot either free or complete. If a write fails, the bytes that were
// there are written back; should that fail too, words of slots that stay free have changed.
Result<void> write_slots(const InPlaceFile& file, const Bytes& before, const Bytes& after,
                         Word first_slot, Word slot_count) {
  const std::size_t offset = std::size_t{first_slot} * abi::kSlotBytes;
  const std::size_t size = std::size_t{slot_count} * abi::kSlotBytes;
  const auto slots = std::span(after).subspan(offset, size);
  Bytes payload(slots.begin(), slots.end());
  for (std::size_t at = 0; at < size; at += abi::kSlotBytes) {
    std::memcpy(payload.data() + at, before.data() + offset + at, abi::kWordBytes);
  }
  auto written = file.write(offset, payload);
  if (written) written = file.write(offset, slots);
  if (!written) static_cast<void>(file.write(offset, std::span(before).subspan(offset, size)));
  return written;
}

std::string report_text(const PublishOptions& options, Word slot_count) {
  if (options.json) {
    std::string text;
    JsonWriter json(text);
    json.begin_object().field("path", options.ring);
    json.field("first_slot", options.slot).field("slot_count", slot_count).end_object();
    return text + "\n";
  }
  if (options.batch) {
    return fmt::format("published {} and a fence into {}, slots {}..{}\n",
                       counted(slot_count - 1, "item"), options.ring, options.slot,
                       options.slot + slot_count - 1);
  }
  if (options.packed.empty()) {
    const bool is_built_in = abi::find_opcode(*options.opcode) != nullptr;
    return fmt::format("published {}{} into {}, slot {}\n", is_built_in ? "" : "opcode ",
                       opcode_text(*options.opcode), options.ring, options.slot);
  }
  return fmt::format("published {} into {}, slot {}\n",
                     counted(options.packed.size(), "packed operation"), options.ring,
                     options.slot);
}

Result<InPlaceFile> open_ring(const std::string& path, std::chrono::nanoseconds lock_timeout) {
  auto file = InPlaceFile::open(path, lock_timeout);
  if (file || file.error().native != ENOENT) return file;
  Error error = file.error();
  error.hint = "make a ring first: everkernel encode ring --slots N -o FILE";
  return Failure(std::move(error));
}

Result<Ending> publish(const PublishOptions& options) {
  EVERKERNEL_TRY(check_combination(options));
  const InPlaceFile file =
      EVERKERNEL_TRY(open_ring(options.ring, options.lock_timeout.value_or(kLockTimeout)));
  const Bytes before = EVERKERNEL_TRY(file.read());
  EVERKERNEL_TRY(check_memory(before.size(), in_quotes(options.ring)));  // for the copy
  Bytes after = before;
  const Word slot_count = EVERKERNEL_TRY(publish_into(after, options));
  // Printed first: a publisher that cannot say where it published has published nothing.
  const Ending ending = deliver_text(report_text(options, slot_count));
  if (ending != Ending::done) return ending;
  EVERKERNEL_TRY(write_slots(file, before, after, options.slot, slot_count));
  return ending;
}

}  // namespace

Command publish_command() {
  Command command("publish", "Write operations into the slots of a ring file");
  PublishOptions& options = command.set_action(publish);
  command.add_path("--ring", options.ring, "Ring file to change in place");
  command.add_word("--slot", options.slot, "First slot to fill; it must be EMPTY or DONE");
  command.add_word("--tenant", options.tenant, "Tenant of the operations, 0..28");
  command.add_word("--priority", options.priority,
                   "0..4, or critical, high, normal, low, idle; normal by default", kPriority);
  command.add_word("--opcode", options.opcode,
                   "Publish one operation: an opcode or a built-in name", kOpcode);
  command.add_words("--arg", options.args, "Next operand of --opcode; repeat for more, up to 12");
  command.add_texts("--packed", options.packed,
                    "Publish several operations in one slot; repeat for each", "OP:ARG,ARG");
  command.add_path("--batch", options.batch,
                   "Publish the items of a file into consecutive slots, then a\n"
                   "fence that completes after them");
  command.add_word("--tag", options.tag, "Word that the fence of --batch stores; 0 by default");
  command.add_duration("--lock-timeout", options.lock_timeout,
                       "How long to wait while another process has locked the ring, 10s\n"
                       "by default");
  command.add_memory_limit();
  command.add_json(options.json);
  command.set_footer(
      "Examples:\n"
      "  everkernel publish --ring ring.bin --slot 0 --tenant 0 --opcode STORE_U32 \\\n"
      "    --arg 7 --arg 160\n"
      "  everkernel publish --ring ring.bin --slot 1 --tenant 0 --packed STORE_U32:7,160 \\\n"
      "    --packed NOP\n"
      "  everkernel publish --ring ring.bin --slot 2 --tenant 0 --batch items.bin --tag 1\n"
      "If a slot is in use, the command fails and the file stays unchanged.");
  return command;
}

}  // namespace everkernel::cli
