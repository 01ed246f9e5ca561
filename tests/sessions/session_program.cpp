#include "session_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"

namespace everkernel::test {
namespace {

using Kind = HandlerStep::Kind;
using abi::FaultCode;
using abi::Opcode;

constexpr const char* kSumNames[] = {"atomic_add", "atomic_or", "atomic_xor", "atomic_max",
                                     "atomic_min"};
constexpr const char* kCountEffect = "  atomic_add(buffer(1)[param], 1);\n";

constexpr Word code_of(FaultCode code) {
  return static_cast<Word>(code);
}

// ---- text ----

std::string text_of(const HandlerStep& step, std::size_t index) {
  switch (step.kind) {
    case Kind::mix:
      return fmt::format("  for i{} in 0 .. {} {{ v = rotl(v, {}) ^ (i{} + {}); }}\n", index,
                         step.a, step.b, index, step.c);
    case Kind::read:
      return "  v = v ^ input[h % len(input)];\n";
    case Kind::sum:
      return fmt::format("  {}(output[{} + ((h >> {}) & {})], v | 1);\n{}", kSumNames[step.a],
                         step.a * kSumWords, step.b, step.c, kCountEffect);
    case Kind::leave:
      return fmt::format("  if args[4] < {} {{ args[4] = args[4] + 1; {}; }}\n", step.a,
                         step.b == 0 ? "yield" : "requeue");
    case Kind::fault:
      return fmt::format("  if ((h >> {}) & 7) == {} {{ fault {}; }}\n", step.a, step.b, step.c);
    case Kind::end:
      return fmt::format("  if ((h >> {}) & 7) == {} {{ return; }}\n", step.a, step.b);
    case Kind::who:
      return "  v = v + tenant * 8 + priority;\n";
    case Kind::note:
      return "  args[5] = args[5] ^ v;\n";
    case Kind::reply:
      return fmt::format("  args[9] = v; args[10] = args[5]; args[11] = {};\n", step.a);
    case Kind::meet:
      return fmt::format(
          "  let o{} = atomic_add(buffer(2)[tenant], 1);\n"
          "  atomic_max(buffer(2)[32 + tenant], o{} + 1);\n"
          "  for m{} in 0 .. {} {{ v = v + m{}; }}\n"
          "  atomic_add(buffer(2)[tenant], 0xffffffff);\n",
          index, index, index, step.a, index);
    case Kind::spin:
      return fmt::format("  if ((h >> {}) & 63) == {} {{ while true {{ v = v + 1; }} }}\n", step.a,
                         step.b);
  }
  return "";
}

std::string text_of(const SessionHandler& handler) {
  std::string text =
      fmt::format("handler h{} = {} {{\n{}", handler.opcode, handler.opcode, kCountEffect);
  text +=
      fmt::format("  let h = (param * 2654435761) ^ {};\n  var v = h + args[4];\n", handler.salt);
  for (std::size_t i = 0; i < handler.steps.size(); ++i) text += text_of(handler.steps[i], i);
  return text + "}\n";
}

// ---- generating ----

HandlerStep random_step(Random& random, Word& rests) {
  const Kind kinds[] = {Kind::mix, Kind::read,  Kind::sum,  Kind::leave, Kind::fault, Kind::end,
                        Kind::who, Kind::reply, Kind::note, Kind::meet,  Kind::spin};
  const Word weights[] = {10, 6, 30, 8, 5, 5, 8, 10, 8, 5, 2};
  const Kind kind = kinds[random.weighted(weights)];
  switch (kind) {
    case Kind::mix:
      return {kind, random.between(1, 60), random.between(1, 31), random.word()};
    case Kind::sum: {
      const Word masks[] = {0, 1, 3, 15};
      return {kind, random.below(kSumKinds), random.below(28), random.pick(masks)};
    }
    case Kind::leave:
      rests += random.between(1, 2);
      return {kind, rests, random.below(2), 0};
    case Kind::fault:
      return {kind, random.below(29), random.below(8), random.below(1000)};
    case Kind::end:
      return {kind, random.below(29), random.below(8), 0};
    case Kind::reply:
      return {kind, random.word(), 0, 0};
    case Kind::meet:
      return {kind, random.between(1, 200), 0, 0};
    case Kind::spin:
      return {kind, random.below(26), random.below(64), 0};
    default:
      return {kind, 0, 0, 0};
  }
}

SessionHandler random_handler(Random& random, Word opcode) {
  SessionHandler handler{.opcode = opcode, .salt = random.word()};
  Word rests = 0;
  const Word count = random.between(1, 7);
  for (Word i = 0; i < count; ++i) handler.steps.push_back(random_step(random, rests));
  for (const HandlerStep& step : handler.steps) {
    handler.can_leave |= step.kind == Kind::leave;
    handler.has_loops |=
        step.kind == Kind::mix || step.kind == Kind::meet || step.kind == Kind::spin;
  }
  return handler;
}

// ---- the model of a handler ----

const SessionBuffer* find_buffer(const std::vector<SessionBuffer>& buffers, Word handle) {
  const auto found = std::ranges::find(buffers, handle, &SessionBuffer::handle);
  return found == buffers.end() ? nullptr : &*found;
}

// Why the item may not do this with the buffer, or 0.
Word access_fault(const SessionBuffer* buffer, Word tenant, Word access) {
  if (buffer == nullptr) return code_of(FaultCode::bad_buffer_handle);
  const bool is_owner = buffer->owner == memory::kEveryTenant || buffer->owner == tenant;
  const bool is_allowed = (static_cast<Word>(buffer->access) & access) == access;
  return is_owner && is_allowed ? 0 : code_of(FaultCode::permission_denied);
}

// One item of a handler: its args live on from run to run.
class HandlerModel {
 public:
  HandlerModel(const SessionHandler& handler, const std::vector<SessionBuffer>& buffers,
               const std::array<Word, 12>& args, const ItemPlace& place, ItemModel& model)
      : handler_(handler), buffers_(buffers), args_(args), place_(place), model_(model) {}

  // Runs it to its end; gives its fault code.
  Word run() {
    const std::size_t runs_before = model_.rests.size();
    while (run_once()) model_.rests.push_back(model_.effects.size());
    model_.runs = static_cast<Word>(model_.rests.size() - runs_before + 1);
    return fault_code_;
  }
  std::array<Word, 3> results() const { return {args_[9], args_[10], args_[11]}; }

 private:
  // Says whether it leaves and runs again.
  bool run_once() {
    model_.effects.push_back({.trace = args_[2], .begins_run = true});
    hash_ = (args_[2] * 2654435761u) ^ handler_.salt;
    value_ = hash_ + args_[4];
    for (const HandlerStep& step : handler_.steps) {
      switch (walk(step)) {
        case Next::step:
          continue;
        case Next::again:
          return true;
        case Next::end:
          return false;
      }
    }
    return false;
  }

  enum class Next { step, again, end };

  Next fault(Word code) {
    fault_code_ = code;
    return code == 0 ? Next::step : Next::end;
  }
  bool is_chosen(const HandlerStep& step, Word mask) const {
    return ((hash_ >> step.a) & mask) == step.b;
  }

  Next walk(const HandlerStep& step) {
    switch (step.kind) {
      case Kind::mix:
        for (Word i = 0; i < step.a; ++i) {
          value_ = std::rotl(value_, static_cast<int>(step.b)) ^ (i + step.c);
        }
        return Next::step;
      case Kind::read:
        return read();
      case Kind::sum:
        return sum(step);
      case Kind::leave:
        if (args_[4] >= step.a) return Next::step;
        ++args_[4];
        return Next::again;
      case Kind::fault:
        return is_chosen(step, 7) ? fault(abi::kFirstUserFault + step.c) : Next::step;
      case Kind::end:
        return is_chosen(step, 7) ? Next::end : Next::step;
      case Kind::who:
        value_ += place_.tenant * 8 + place_.priority;
        return Next::step;
      case Kind::note:
        args_[5] ^= value_;
        return Next::step;
      case Kind::reply:
        args_[9] = value_;
        args_[10] = args_[5];
        args_[11] = step.a;
        return Next::step;
      case Kind::meet:
        for (Word i = 0; i < step.a; ++i) value_ += i;
        return Next::step;
      case Kind::spin:
        return is_chosen(step, 63) ? fault(code_of(FaultCode::fuel_exhausted)) : Next::step;
    }
    return Next::step;
  }

  Next read() {
    const SessionBuffer* const source = find_buffer(buffers_, args_[0]);
    if (const Word code = access_fault(source, place_.tenant, 1); code != 0) return fault(code);
    value_ ^= source->words[hash_ % source->words.size()];
    return Next::step;
  }

  Next sum(const HandlerStep& step) {
    const SessionBuffer* const target = find_buffer(buffers_, args_[1]);
    if (const Word code = access_fault(target, place_.tenant, 3); code != 0) return fault(code);
    const Word index = step.a * kSumWords + ((hash_ >> step.b) & step.c);
    if (index >= target->words.size()) return fault(code_of(FaultCode::index_out_of_range));
    model_.effects.push_back({.trace = args_[2],
                              .kind = SumKind{step.a},
                              .handle = args_[1],
                              .index = index,
                              .value = value_ | 1});
    return Next::step;
  }

  const SessionHandler& handler_;
  const std::vector<SessionBuffer>& buffers_;
  std::array<Word, 12> args_;
  const ItemPlace place_;
  ItemModel& model_;
  Word hash_ = 0, value_ = 0, fault_code_ = 0;
};

// ---- the model of built-in operations ----

// The observable at an index of the control words, if the tenant may write it; else a fault code.
Word control_fault(Word index, Word tenant) {
  const std::uint64_t size = abi::kControlFirstObservable + session_observable::kCount;
  if (index >= size) return code_of(FaultCode::index_out_of_range);
  const bool may_write = tenant == 0 || index >= abi::kControlFirstObservable;
  return may_write ? 0 : code_of(FaultCode::permission_denied);
}

Word model_builtin(const std::vector<SessionBuffer>& buffers, const PlannedItem& item,
                   const ItemPlace& place, ItemModel& model) {
  const auto& args = item.args;
  constexpr std::uint64_t kSize = abi::kControlFirstObservable + session_observable::kCount;
  const auto has_observable = [](std::uint64_t number) {
    return number < session_observable::kCount;
  };
  const Word outside = code_of(FaultCode::index_out_of_range);
  switch (Opcode{item.opcode}) {
    case Opcode::nop:
    case Opcode::printf:
      return 0;
    case Opcode::store_u32:
    case Opcode::atomic_add: {
      const Word code = control_fault(args[1], place.tenant);
      if (code != 0) return code;
      model.observables.push_back({.is_sum = item.opcode == Word(Opcode::atomic_add),
                                   .observable = args[1] - abi::kControlFirstObservable,
                                   .value = args[0]});
      return 0;
    }
    case Opcode::load_u32:
      return args[0] < kSize && has_observable(args[1]) ? 0 : outside;
    case Opcode::compare_swap: {
      if (args[0] >= kSize || !has_observable(args[0])) return outside;
      const Word code = control_fault(args[0], place.tenant);
      if (code != 0) return code;
      model.observables.push_back(
          {.observable = args[0] - abi::kControlFirstObservable, .value = args[2]});
      return 0;
    }
    case Opcode::memcpy: {
      const std::uint64_t end = std::uint64_t{std::max(args[0], args[1])} + args[2];
      if (end > kSize) return outside;
      return args[2] == 0 ? 0 : control_fault(args[1], place.tenant);
    }
    case Opcode::dfa_step: {
      const SessionBuffer* const table = find_buffer(buffers, args[3]);
      if (const Word code = access_fault(table, place.tenant, 1); code != 0) return code;
      const std::uint64_t index = std::uint64_t{args[0]} * 256 + (args[1] & 0xFF);
      return index < table->words.size() && has_observable(args[2]) ? 0 : outside;
    }
    default:
      return code_of(FaultCode::unknown_opcode);
  }
}

// One operation, alone or packed; gives its fault code.
Word model_operation(const SessionProgram& program, const std::vector<SessionBuffer>& buffers,
                     const PlannedItem& item, const ItemPlace& place, ItemModel& model) {
  if (item.opcode == program.look_opcode) {
    model.effects.push_back({.trace = item.args[2], .begins_run = true});
    model.is_look = true;
    model.executed.push_back(item.opcode);
    return 0;
  }
  Word code = 0;
  if (const SessionHandler* const handler = program.find(item.opcode)) {
    HandlerModel run(*handler, buffers, item.args, place, model);
    code = run.run();
    model.results = run.results();
  } else {
    code = model_builtin(buffers, item, place, model);
    model.results = {item.args[9], item.args[10], item.args[11]};
  }
  if (code == 0) model.executed.push_back(item.opcode);
  return code;
}

void model_packed(const SessionProgram& program, const std::vector<SessionBuffer>& buffers,
                  const PlannedItem& item, const ItemPlace& place, ItemModel& model) {
  for (const PlannedItem& inner : item.inner) {
    const SessionHandler* const handler = program.find(inner.opcode);
    if (handler == nullptr || !handler->can_leave) continue;
    model.fault_code = code_of(FaultCode::bad_packed_payload);
    return;
  }
  for (const PlannedItem& inner : item.inner) {
    model.fault_code = model_operation(program, buffers, inner, place, model);
    if (model.fault_code != 0) return;
  }
  model.executed.push_back(static_cast<Word>(Opcode::packed_slot));
}

}  // namespace

const SessionHandler* SessionProgram::find(Word opcode) const {
  const auto found = std::ranges::find(handlers, opcode, &SessionHandler::opcode);
  return found == handlers.end() ? nullptr : &*found;
}

SessionProgram generate_session_program(Random& random) {
  SessionProgram program;
  const Word count = random.between(2, 8);
  for (Word i = 0; i < count; ++i) {
    // Opcodes below 32 have counters in the control words; packed operations have one byte.
    const Word opcode = i < 2 ? 8 + i + 2 * random.below(10) : 40 + i * 20 + random.below(20);
    program.handlers.push_back(random_handler(random, opcode));
  }
  program.look_opcode = random.between(300, 400);
  program.fuel = random.between(2'000, 8'000);
  for (const SessionHandler& handler : program.handlers) program.text += text_of(handler);
  program.text += fmt::format(
      "handler look = {} {{\n{}  let n = input[0];\n  buffer({})[param] = n + 1;\n"
      "  args[9] = n;\n}}\n",
      program.look_opcode, kCountEffect, session_handle::kSeen);
  return program;
}

ItemModel model_item(const SessionProgram& program, const std::vector<SessionBuffer>& buffers,
                     const PlannedItem& item, const ItemPlace& place) {
  ItemModel model;
  if (item.opcode == Word(Opcode::packed_slot)) {
    model_packed(program, buffers, item, place, model);
    model.runs = 1;
    model.results = {item.args[9], item.args[10], item.args[11]};  // of the payload itself
  } else if (item.opcode == Word(Opcode::batch_fence)) {
    model.is_fence = true;
    model.executed.push_back(item.opcode);
  } else {
    model.fault_code = model_operation(program, buffers, item, place, model);
  }
  return model;
}

void apply_sum(SumKind kind, Word value, Word& word) {
  switch (kind) {
    case SumKind::add:
      word += value;
      return;
    case SumKind::bit_or:
      word |= value;
      return;
    case SumKind::bit_xor:
      word ^= value;
      return;
    case SumKind::most:
      word = std::max(word, value);
      return;
    case SumKind::least:
      word = std::min(word, value);
      return;
  }
}

}  // namespace everkernel::test
