// `everkernel info`: the version, the constants of the wire format, the backends, and where
// compiled code is kept.
#include <fmt/format.h>

#include <string>

#include "backends.hpp"
#include "commands.hpp"
#include "delivery.hpp"
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/debug_log.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/io_queue.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/packed.hpp"
#include "everkernel/abi/slot.hpp"
#include "everkernel/base/json_writer.hpp"
#include "everkernel/base/version.hpp"
#include "everkernel/jit/code_cache.hpp"
#include "everkernel/jit/native.hpp"
#include "files.hpp"
#include "table.hpp"

namespace everkernel::cli {
namespace {

struct InfoOptions {
  bool json = false;
};

// Why this build cannot compile handlers to native code; empty if it can.
std::string_view native_code_reason() {
  if (jit::has_native_code()) return "";
  return "built without LLVM 19: handlers run on the interpreter";
}

// The folder of the code cache, or the reason why there is none.
struct CodeCacheState {
  std::string directory;
  std::string reason;
};

CodeCacheState code_cache_state() {
  const auto cache = jit::CodeCache::open({});
  if (!cache) return {"", fmt::format("{}; {}", cache.error().message, cache.error().hint)};
  if (!cache->is_enabled()) return {"", "EVERKERNEL_CACHE_DIR is off"};
  return {cache->directory().string(), ""};
}

struct Constant {
  std::string_view name;
  Word value;
};

constexpr Constant kConstants[] = {
    {"word_bytes", abi::kWordBytes},
    {"slot_bytes", abi::kSlotBytes},
    {"slot_words", abi::kSlotWords},
    {"slot_args", abi::kSlotArgs},
    {"max_encoded_slots", abi::kMaxEncodedSlots},
    {"max_ring_slots", abi::kMaxRingSlots},
    {"default_slot_count", abi::kDefaultSlotCount},
    {"default_workgroup_size", abi::kDefaultWorkgroupSize},
    {"work_item_bytes", abi::kWorkItemBytes},
    {"max_packed_ops", abi::kMaxPackedOps},
    {"control_words", abi::kControlWords},
    {"max_observables", abi::kMaxObservables},
    {"tenant_count", abi::kTenantCount},
    {"default_tenant_quota", abi::kDefaultTenantQuota},
    {"priority_count", abi::kPriorityCount},
    {"debug_record_words", abi::kDebugRecordWords},
    {"max_debug_records", abi::kMaxDebugRecords},
    {"io_slot_bytes", abi::kIoSlotBytes},
    {"io_slot_words", abi::kIoSlotWords},
    {"max_io_slots", abi::kMaxIoSlots},
    {"first_user_fault", abi::kFirstUserFault},
    {"first_free_opcode", abi::kFirstFreeOpcode},
};

void write_abi(JsonWriter& json) {
  json.key("abi").begin_object();
  for (const Constant& constant : kConstants) json.field(constant.name, constant.value);
  json.key("control_regions").begin_array();
  for (const abi::ControlTable& table : abi::kControlTables) {
    json.begin_object().field("name", table.name);
    json.field("first_word", table.words.first).field("word_count", table.words.count);
    json.end_object();
  }
  json.end_array().end_object();
}

std::string json_text() {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("version", version());
  write_abi(json);
  json.key("opcodes").begin_array();
  for (const abi::OpcodeInfo& row : abi::kOpcodes) {
    json.begin_object().field("opcode", static_cast<Word>(row.opcode)).field("name", row.name);
    json.field("argument_count", row.argument_count).end_object();
  }
  json.end_array().key("native_code").begin_object();
  json.field("available", jit::has_native_code()).field("reason", native_code_reason());
  const CodeCacheState cache = code_cache_state();
  json.end_object().key("code_cache").begin_object();
  json.field("available", cache.reason.empty()).field("reason", cache.reason);
  json.field("directory", cache.directory);
  json.end_object().key("backends").begin_array();
  for (const backend::Capabilities& backend : all_backends()) {
    json.begin_object().field("id", backend.id).field("available", backend.supported);
    json.field("reason", backend.reason).field("device", backend.device);
    json.field("supported", backend.supported);
    json.field("max_worker_count", backend.max_worker_count);
    json.field("memory_bytes", backend.memory_bytes).end_object();
  }
  json.end_array().end_object();
  return out + "\n";
}

std::string format_text() {
  Table table = Table::plain({Align::left, Align::left});
  table.add({"slot", fmt::format("{} bytes: {} words, {} of them arguments", abi::kSlotBytes,
                                 abi::kSlotWords, abi::kSlotArgs)});
  table.add({"ring", fmt::format("1..{} slots when encoded, {} at most",
                                 grouped(abi::kMaxEncodedSlots), grouped(abi::kMaxRingSlots))});
  table.add({"packed slot", fmt::format("up to {} operations", abi::kMaxPackedOps)});
  table.add({"work item",
             fmt::format("{} bytes: operation, input, output, parameter", abi::kWorkItemBytes)});
  table.add({"control", fmt::format("{} words, then 0..{} observables", abi::kControlWords,
                                    grouped(abi::kMaxObservables))});
  table.add({"tenants", fmt::format("0..{}; 0 is the operator", abi::kMaxTenant)});
  std::string priorities;
  for (Word priority = 0; priority < abi::kPriorityCount; ++priority) {
    priorities +=
        fmt::format("{}{} {}", priority == 0 ? "" : ", ", priority, abi::priority_name(priority));
  }
  table.add({"priorities", priorities});
  table.add({"debug log", fmt::format("0..{} records of {} words", grouped(abi::kMaxDebugRecords),
                                      abi::kDebugRecordWords)});
  table.add(
      {"IO queue", fmt::format("1..{} slots of {} words", abi::kMaxIoSlots, abi::kIoSlotWords)});
  table.add({"handlers", fmt::format("opcodes {}..0x{:x} and 0x{:x}..0x{:x}", abi::kFirstFreeOpcode,
                                     abi::kFirstReservedOpcode - 1, abi::kLastReservedOpcode + 1,
                                     abi::kReservedOpcodeBit - 1)});
  return table.text(2);
}

std::string device_text(const backend::Capabilities& backend) {
  return fmt::format("{}, {:.1f} GiB", backend.device,
                     static_cast<double>(backend.memory_bytes) / (1 << 30));
}

std::string human_text() {
  Table backends({{}, {}, {}}, 2);
  for (const backend::Capabilities& backend : all_backends()) {
    backends.add({backend.id, backend.supported ? "available" : "not available",
                  backend.supported ? device_text(backend) : backend.reason});
  }
  Table opcodes({{"opcode", Align::right}, {"name"}, {"arguments", Align::right}});
  for (const abi::OpcodeInfo& row : abi::kOpcodes) {
    const Word number = static_cast<Word>(row.opcode);
    opcodes.add(
        {number < abi::kFirstFreeOpcode ? fmt::format("{}", number) : fmt::format("0x{:x}", number),
         row.name, fmt::format("{}", row.argument_count)});
  }
  const std::string_view native_code = jit::has_native_code() ? "by LLVM 19" : native_code_reason();
  const CodeCacheState cache = code_cache_state();
  Table kept({{}, {}}, 1);
  if (cache.reason.empty()) {
    kept.add({"kept in", cache.directory});
  } else {
    kept.add({"not kept", cache.reason});
  }
  return fmt::format(
      "everkernel {}\n\nbackends\n{}\nnative code for handlers\n  {}\n\ncompiled code\n{}\n"
      "wire format\n{}\nbuilt-in operations\n{}",
      version(), backends.text(2), native_code, kept.text(2), format_text(), opcodes.text(2));
}

Result<Ending> info(const InfoOptions& options) {
  return deliver_text(options.json ? json_text() : human_text());
}

}  // namespace

Command info_command() {
  Command command("info", "Show the version, the backends and the wire format");
  InfoOptions& options = command.set_action(info);
  command.add_json(options.json);
  return command;
}

}  // namespace everkernel::cli
