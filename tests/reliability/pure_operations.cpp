// Operations without a megakernel: handler text, wire bytes, telemetry, buffers, the code cache.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/base/json_writer.hpp"
#include "everkernel/ir/builder.hpp"
#include "everkernel/ir/interpreter.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/printer.hpp"
#include "everkernel/jit/cuda_source.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "everkernel/planner/policy.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/telemetry/decode.hpp"
#include "everkernel/telemetry/json.hpp"
#include "injection.hpp"
#include "operations_detail.hpp"
#include "support/ir_text.hpp"
#include "support/temp_dir.hpp"
#include "support/wire_bytes.hpp"

namespace everkernel::test {
namespace {

// A function of nothing but its arguments.
class Pure final : public World {
 public:
  explicit Pure(std::function<Result<std::string>()> call) : call_(std::move(call)) {}
  Result<void> act() override {
    text_ = EVERKERNEL_TRY(call_());
    return {};
  }
  std::string look() override { return text_; }

 private:
  std::function<Result<std::string>()> call_;
  std::string text_;
};

Trial pure(std::string name, std::function<Result<std::string>()> call) {
  return {std::move(name), [call = std::move(call)] { return std::make_unique<Pure>(call); }};
}

// A call that is expected to fail: its message is its result.
template <class T>
Result<std::string> told(const Result<T>& result) {
  if (!result && result.error().code == Code::out_of_memory) return Failure(result.error());
  return result ? std::string("it succeeded") : result.error().message;
}

template <class T>
Result<std::string> done(const Result<T>& result) {
  if (!result) return Failure(result.error());
  return std::string("done");
}

std::string text_of(std::span<const std::byte> bytes) {
  return fmt::format("{}", fmt::join(words_of(bytes), " "));
}

Bytes sample_control() {
  return control_of({{3, 1}, {4, 1}, {32, 9}, {33, 9}, {96, 5}}, 164);
}

Bytes sample_ring() {
  return ring_of({{1, 64, 0, 2, 7, 0}, {3, 64, 1, 2, 7, 1}, {6, 65, 0, 0x10002, 8}, {9, 1, 2, 3}});
}

void add_text_trials(std::vector<Trial>& all) {
  all.push_back(pure("ir::parse", [] { return done(ir::parse(kSampleHandlers)); }));
  all.push_back(pure("ir::parse of text with a mistake", [] {
    return told(ir::parse("handler a = 64 { for i in 0 .. 3 { output[i] = ; } }"));
  }));
  all.push_back(pure("ir::verify of a program with a mistake",
                     [] { return told(check_text("handler a = 64 { output[0] = 1.0; }")); }));
  all.push_back(pure("ir::verify and ir::print", []() -> Result<std::string> {
    const auto program = EVERKERNEL_TRY(check_text(kSampleHandlers));
    std::string text;
    for (const auto& verified : program.handlers()) {
      text += ir::print({.handlers = {verified.handler}});
    }
    return text;
  }));
  all.push_back(pure("jit::emit_cuda", []() -> Result<std::string> {
    return jit::emit_cuda(EVERKERNEL_TRY(check_text(kSampleHandlers)), {});
  }));
  all.push_back(pure("ir::build", []() -> Result<std::string> {
    using namespace ir::build;
    HandlerBuilder h({.name = "sum", .opcode = 64});
    const Value n = h.let("n", min(len(input), len(output)));
    h.for_range("i", 0u, n, [&](const Value& i) { h.set(output[i], output[i] + input[i]); });
    return done(ir::verify(ir::Program{.handlers = {h.finish()}}));
  }));
  all.push_back(pure("ir::interpret", []() -> Result<std::string> {
    const auto program = EVERKERNEL_TRY(check_text(kSampleHandlers));
    memory::BufferTable table;
    const auto buffer = EVERKERNEL_TRY(table.create({.handle = 2, .word_count = 4}));
    ir::ItemFrame frame;
    frame.args[1] = 2;
    frame.args[2] = 5;
    frame.buffers = table.view();
    frame.fuel = 1000;
    const ir::Outcome outcome = ir::interpret(program.handlers()[0], frame);
    return fmt::format("{} {}", static_cast<int>(outcome.ending), outcome.fault_code);
  }));
}

void add_wire_trials(std::vector<Trial>& all) {
  all.push_back(pure("protocol::encode_*", []() -> Result<std::string> {
    const protocol::ControlLayout layout{.tenant_count = 2, .observable_slots = 4};
    Bytes control(EVERKERNEL_TRY(protocol::control_bytes(layout)));
    EVERKERNEL_TRY(protocol::encode_control(layout, control));
    Bytes log(EVERKERNEL_TRY(protocol::debug_log_bytes(3)));
    EVERKERNEL_TRY(protocol::encode_debug_log(3, log));
    Bytes queue(EVERKERNEL_TRY(protocol::io_queue_bytes(2)));
    EVERKERNEL_TRY(protocol::encode_io_queue(2, queue));
    Bytes ring(EVERKERNEL_TRY(protocol::ring_bytes(4)));
    const std::array<abi::WorkItem, 2> items{{{64, 1, 2, 3}, {65, 1, 2, 4}}};
    EVERKERNEL_TRY(protocol::encode_items({.items = items}, ring));
    return text_of(control) + text_of(ring);
  }));
  all.push_back(pure("protocol::encode_* of bad sizes", [] {
    return told(protocol::control_bytes({.tenant_count = 99, .observable_slots = 1}));
  }));
  all.push_back(pure("RingWriter", []() -> Result<std::string> {
    Bytes ring = ring_of(std::vector<SlotWords>(8));
    auto writer = EVERKERNEL_TRY(protocol::RingWriter::bind(ring));
    const std::array<Word, 2> args{1, 160};
    const protocol::Operation add[] = {{.opcode = 2, .args = args}};
    const protocol::PackedOp packed[] = {{.opcode = 2, .args = args}};
    EVERKERNEL_TRY(writer.publish({.slot_index = 0, .opcode = 2, .args = args}));
    EVERKERNEL_TRY(writer.publish_packed({.slot_index = 1, .ops = packed}));
    EVERKERNEL_TRY(writer.publish_batch({.first_slot = 2, .tag = 7, .operations = add}));
    return text_of(ring);
  }));
  all.push_back(pure("RingWriter on a full slot", []() -> Result<std::string> {
    Bytes ring = sample_ring();
    auto writer = EVERKERNEL_TRY(protocol::RingWriter::bind(ring));
    return told(writer.publish({.slot_index = 0, .opcode = 9}));
  }));
  all.push_back(pure("views of bytes that break their format", []() -> Result<std::string> {
    const Bytes bytes(61);
    std::string all_told = EVERKERNEL_TRY(told(protocol::ControlView::parse(bytes)));
    all_told += EVERKERNEL_TRY(told(protocol::RingView::parse(bytes)));
    all_told += EVERKERNEL_TRY(told(protocol::DebugLogView::parse(bytes)));
    return all_told + EVERKERNEL_TRY(told(protocol::IoQueueView::parse(bytes)));
  }));
  all.push_back(pure("telemetry::decode and write_json", []() -> Result<std::string> {
    const Bytes control = sample_control();
    const Bytes ring = sample_ring();
    const std::array<Word, 2> opcodes{64, 65};
    telemetry::DecodeScratch scratch;
    telemetry::RingTelemetry target;
    EVERKERNEL_TRY(telemetry::decode(
        {.control = control, .ring = ring, .window_opcodes = opcodes, .observables = true}, scratch,
        target));
    std::string text;
    JsonWriter json(text);
    json.begin_array();
    telemetry::write_json(json, target.control, true);
    telemetry::write_json(json, target.occupancy);
    telemetry::write_json(json, std::span<const telemetry::RingSlotSnapshot>(target.slots));
    telemetry::write_json(json, std::span<const telemetry::WindowTelemetry>(target.windows));
    telemetry::write_json(json, target.counters());
    json.end_array();
    return text;
  }));
}

// decode() promises to leave its target as it was when it fails.
class DecodeAgain final : public World {
 public:
  void prepare() override {
    ring_ = ring_of({{1, 64, 0, 2, 7}});
    static_cast<void>(telemetry::decode({.control = control_, .ring = ring_}, scratch_, target_));
    ring_ = sample_ring();
  }
  Result<void> act() override {
    const std::array<Word, 2> opcodes{64, 65};
    return telemetry::decode({.control = control_, .ring = ring_, .window_opcodes = opcodes},
                             scratch_, target_);
  }
  std::string look() override {
    return fmt::format("{} slots, {} windows, {} runnable", target_.slots.size(),
                       target_.windows.size(), target_.runnable_slots);
  }

 private:
  Bytes control_ = sample_control();
  Bytes ring_;
  telemetry::DecodeScratch scratch_;
  telemetry::RingTelemetry target_;
};

// A table in which a handle stays free if its buffer could not be made.
class TableBuffers final : public World {
 public:
  Result<void> act() override {
    while (buffers_.size() < 12) {
      const Word handle = static_cast<Word>(buffers_.size()) + 1;
      buffers_.push_back(EVERKERNEL_TRY(table_.create({.handle = handle, .word_count = 3})));
    }
    return {};
  }
  std::string look() override {
    std::string text;
    for (Word handle = 0; handle < 14; ++handle) {
      const auto* const entry = table_.view().find(handle);
      text += entry == nullptr ? "-" : fmt::format("{}", entry->word_count);
    }
    return text;
  }

 private:
  memory::BufferTable table_;
  std::vector<memory::Buffer> buffers_;
};

class Policies final : public World {
 public:
  Result<void> act() override {
    for (; asked_ < 4; ++asked_) {
      text_ = fmt::format("{}", cache_.recommend({.queue_length = 100u * (1 + asked_)}).workers);
    }
    return {};
  }
  std::string look() override { return text_; }

 private:
  planner::PolicyCache cache_;
  Word asked_ = 0;
  std::string text_;
};

// The cache never fails an operation for want of the system's help, but it counts what it has not
// stored. This operation fails then, so that a fault that should not be noticed is found.
class Cache final : public World {
 public:
  Result<void> act() override {
    auto cache = jit::CodeCache::open({.directory = folder_.path() / "codes"});
    if (!cache && cache.error().code == Code::out_of_memory) return Failure(cache.error());
    if (!cache) return not_stored("open");
    cache->put(key_, bytes_);
    const auto found = cache->get(key_);
    if (found && *found != bytes_) text_ = "other bytes";
    cache->reject(key_, "trial");
    cache->put(key_, bytes_);
    const auto counters = cache->counters();
    if (counters.stored + counters.not_stored != 2) text_ = "an entry was not counted";
    if (!found || counters.stored != 2) return not_stored(cache->last_problem());
    return {};
  }
  std::string look() override {
    auto cache = jit::CodeCache::open({.directory = folder_.path() / "codes"});
    const auto found = cache->get(key_);
    return text_ + (!found ? ", none" : *found == bytes_ ? ", stored" : ", wrong");
  }

 private:
  static Result<void> not_stored(const std::string& problem) {
    const Spared spared;
    return fail(Code::io, "not stored: " + problem);
  }
  static jit::CodeKey make_key() {
    const jit::CodeKeyPart parts[] = {{"kind", "trial"}};
    return jit::make_code_key(parts);
  }

  TempDir folder_;
  const jit::CodeKey key_ = make_key();
  const Bytes bytes_ = Bytes(5000, std::byte{7});
  std::string text_ = "right bytes or none";
};

}  // namespace

void add_pure_trials(std::vector<Trial>& all) {
  add_text_trials(all);
  add_wire_trials(all);
  all.push_back({"telemetry::decode into a used target", make<DecodeAgain>});
  all.push_back({"BufferTable::create", make<TableBuffers>});
  all.push_back({"PolicyCache::recommend", make<Policies>});
  all.push_back({"CodeCache", make<Cache>});
  all.push_back(pure("cpu::make_backend", []() -> Result<std::string> {
    return backend::cpu::make_backend()->capabilities().id;
  }));
}

}  // namespace everkernel::test
