// CUDA C++ of one handler: the turns of an `each`, split over the lanes. cuda_each_plan.hpp decides
// how they are emitted.
#include "jit/cuda_handler.hpp"
#include "jit/cuda_values.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::FaultCode;
using abi::Word;

// The fuel of all turns is charged before the first. Each turn may then spend an equal share of the
// rest, and the sum of what the turns spent is charged at the end. A fault ends its turn only; the
// item has the fault code of its lowest turn. Lanes meet before and after the turns, so that each
// sees the writes of the others.
void CudaHandlerCodegen::emit_each(StmtId id, const Stmt& stmt) {
  const std::size_t each = next_loop_++;
  each_ = {.number = each, .plan = plan_each(verified_, id, buffers_)};
  for (const ExprId load : each_.plan.ahead_loads) each_.ahead.emplace(load, next_ahead_++);
  const LoopFacts& facts = each_.plan.facts;
  const std::string first = named(Type::u32, emit(stmt.operands[0]));
  const std::string last = emit(stmt.operands[1]);
  out_.line("const Word turns_{} = {}({}, {});", each, turns_function(stmt), first, last);
  out_.open("if (turns_{} != 0) {{", each);
  out_.line("if (is_aborted(lanes, item)) {}", fault(FaultCode::deadline));
  out_.line("if (fuel < turns_{}) {}", each, fault(FaultCode::fuel_exhausted));
  out_.line("fuel -= turns_{};", each);
  if (facts.has_inner_loop) {
    out_.line("const Fuel share_{0} = fuel / turns_{0};", each);
    out_.line("Fuel spent_{} = 0;", each);
  }
  out_.line("TurnFault bad_{};", each);
  if (each_.has_tile()) {
    out_.line("const Tile<Lanes, {0}> tile_{1}(lanes, {2}, turns_{1}, {3});",
              cuda_combine(*facts.output_atomic), each, output_buffer(),
              *each_.plan.tile_condition);
  }
  out_.line("lanes.meet();");
  emit_turns(stmt, first);
  if (each_.has_tile()) out_.line("tile_{}.flush(lanes, {});", each, output_buffer());
  out_.line(
      "if (lanes.meet_any(bad_{0}.is_set())) return fault_outcome(lowest_fault(lanes, bad_{0}));",
      each);
  if (facts.has_inner_loop) out_.line("fuel -= lanes.total(spent_{});", each);
  out_.close();
}

// The turns of one lane. After every kPollEachTurns of them the lane polls the abort word.
void CudaHandlerCodegen::emit_turns(const Stmt& stmt, std::string_view first) {
  const std::size_t each = each_.number;
  out_.line("const Word step_{} = lanes.count() * kPollEachTurns;", each);
  out_.open("for (Word base_{} = 0;;) {{", each);
  out_.line("const Word some_{0} = min_u32(turns_{0} - base_{0}, step_{0});", each);
  if (each_.ahead.empty()) {
    out_.open("for (Word k_{0} = lanes.index(); k_{0} < some_{0}; k_{0} += lanes.count()) {{",
              each);
    emit_turn(stmt, first);
    out_.close();
  } else {
    out_.open(
        "for (Word j_{0} = lanes.index(); j_{0} < some_{0}; j_{0} += kAhead * lanes.count()) {{",
        each);
    out_.line("Word u_{} = 0;", each);
    emit_quick_turns(stmt, first);
    out_.line("#pragma unroll 1");
    out_.open("for (; u_{0} < kAhead; ++u_{0}) {{", each);
    out_.line("const Word k_{0} = j_{0} + u_{0} * lanes.count();", each);
    out_.line("if (k_{0} >= some_{0}) break;", each);
    emit_turn(stmt, first);
    out_.close();
    out_.close();
  }
  out_.line("if (turns_{0} - base_{0} <= step_{0}) break;", each);
  out_.line("base_{0} += step_{0};", each);
  out_.open("if (is_aborted(OneLane{{}}, item)) {{");
  out_.line("bad_{0}.note(base_{0} + lanes.index(), {1}u);", each,
            static_cast<Word>(FaultCode::deadline));
  out_.line("break;");
  out_.close();
  out_.close();
}

// kAhead turns in a row, if that many are left and all their ahead words lie inside their buffers:
// quick turns do not check those indices again. Otherwise the careful turns behind them run.
void CudaHandlerCodegen::emit_quick_turns(const Stmt& stmt, std::string_view first) {
  const std::size_t each = each_.number;
  quick_is_left_ = false;
  // A single lane must run its turns in order.
  out_.open("if ({1}some_{0} - j_{0} > (kAhead - 1) * lanes.count()) {{", each,
            each_.plan.gathers_updates ? "!Lanes::kKeepsOrder && " : "");
  out_.line("const Word begin_{0} = {1} + base_{0} + j_{0};", each, first);
  emit_ahead_loads();
  if (each_.plan.gathers_updates) out_.line("Word to_{0}[kAhead], by_{0}[kAhead];", each);
  out_.line("#pragma unroll");
  out_.open("for (Word q_{0} = 0; q_{0} < kAhead; ++q_{0}) {{", each);
  out_.line("const Word k_{0} = j_{0} + q_{0} * lanes.count();", each);
  each_.is_quick = true;
  emit_turn(stmt, first);
  each_.is_quick = false;
  out_.close();
  if (each_.plan.gathers_updates) {
    out_.open("if (are_inside({}.updatable, to_{})) {{", output_buffer(), each);
    out_.line("tile_{0}.update({1}, to_{0}, by_{0});", each, output_buffer());
  }
  out_.line("continue;");
  if (each_.plan.gathers_updates) out_.close();
  out_.close();
  out_.close();
  if (quick_is_left_) out_.line("careful_{}:;", each);
}

void CudaHandlerCodegen::emit_turn(const Stmt& stmt, std::string_view first) {
  const std::size_t each = each_.number;
  each_.has_effect = false;
  out_.line("const Word turn_{0} = base_{0} + k_{0};", each);
  if (each_.plan.facts.has_inner_loop) out_.line("Fuel turn_fuel = share_{};", each);
  out_.open("{{");
  if (each_.plan.facts.uses_lane) out_.line("const Word lane_{0} = turn_{0} % item.lanes;", each);
  emit_counter(each_.plan.counter, each_.is_quick
                                       ? fmt::format("begin_{0} + q_{0} * lanes.count()", each)
                                       : fmt::format("{} + turn_{}", first, each));
  is_in_turn_ = true;
  turn_is_left_ = false;
  loops_.push_back({stmt.kind});
  emit(stmt.body);
  loops_.pop_back();
  is_in_turn_ = false;
  out_.close();
  if (turn_is_left_) out_.line("{}:;", turn_end());
  if (each_.plan.facts.has_inner_loop) out_.line("spent_{0} += share_{0} - turn_fuel;", each);
}

// Fetches the ahead words of kAhead turns, and opens the block that runs if all of them could be.
void CudaHandlerCodegen::emit_ahead_loads() {
  const std::size_t each = each_.number;
  for (const auto& [load, number] : each_.ahead) out_.line("Word at_{}[kAhead];", number);
  out_.line("#pragma unroll");
  out_.open("for (Word q_{0} = 0; q_{0} < kAhead; ++q_{0}) {{", each);
  out_.line("const Word {0} = opaque(begin_{1} + q_{1} * lanes.count());",
            cuda_local(each_.plan.counter), each);
  for (const auto& [load, number] : each_.ahead) {
    const std::string index = emit(body_[load].operands[0]);
    out_.line("at_{}[q_{}] = {};", number, each, index);
  }
  out_.close();
  std::vector<std::string> conditions;
  for (const auto& [load, number] : each_.ahead) {
    conditions.push_back(
        fmt::format("are_inside({}.readable, at_{})", *buffers_.find(body_[load].buffer), number));
  }
  out_.open("if ({}) {{", fmt::join(conditions, " && "));
  for (const auto& [load, number] : each_.ahead) {
    out_.line("Word ahead_{}[kAhead];", number);
    out_.line("load_ahead_{0}(lanes, {1}, at_{2}, ahead_{2});",
              has_shared_buffers_ ? "shared" : "owned", *buffers_.find(body_[load].buffer), number);
  }
}

}  // namespace everkernel::jit
