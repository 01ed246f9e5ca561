// CUDA C++ of one handler: the loops whose turns run in order, and the fuel that they pay.
#include "jit/cuda_handler.hpp"
#include "jit/cuda_values.hpp"

namespace everkernel::jit {

using namespace ir;
using abi::FaultCode;
using abi::Word;

// Emits a call that returns a fault code, or 0, and the fault.
void CudaHandlerCodegen::emit_fault_code(const std::string& call) {
  const std::string code = named(Type::u32, call);
  out_.line("if ({} != 0) {}", code, fault(code));
}

void CudaHandlerCodegen::emit_spend_turn() {
  emit_fault_code(fmt::format("spend_turn({}, item, {})", lanes(), fuel()));
}

// The first turn of an outermost loop polls the abort word; spend_turn() polls it from then on,
// each time a fixed amount of fuel has been spent.
void CudaHandlerCodegen::emit_while(const Stmt& stmt) {
  const bool is_outermost = loops_.empty();
  const std::size_t number = next_loop_++;
  if (is_outermost) out_.line("const Fuel start_{} = fuel;", number);
  out_.open("for (;;) {{");
  const std::string condition = emit(stmt.operands[0]);
  out_.line("if (!{}) break;", condition);
  if (is_outermost) {
    out_.line("if (fuel == start_{} && is_aborted(lanes, item)) {}", number,
              fault(FaultCode::deadline));
  }
  emit_spend_turn();
  loops_.push_back({stmt.kind});
  emit(stmt.body);
  loops_.pop_back();
  out_.close();
}

void CudaHandlerCodegen::emit_for(StmtId id, const Stmt& stmt) {
  const std::size_t number = next_loop_++;
  const std::string first = named(Type::u32, emit(stmt.operands[0]));
  const std::string last = emit(stmt.operands[1]);
  emit_turn_count(stmt, number, first, last);
  if (loops_.empty()) {
    out_.line("if (turns_{} != 0 && is_aborted(lanes, item)) {}", number,
              fault(FaultCode::deadline));
  }
  if (!gather_loop_facts(verified_, stmt.body).has_inner_loop)
    return emit_chunks(id, stmt, first, number);
  const std::string factor = stmt.has_step ? fmt::format(" * step_{}", number) : "";
  out_.open("for (Word turn_{0} = 0; turn_{0} < turns_{0}; ++turn_{0}) {{", number);
  emit_spend_turn();
  emit_counter(verified_.local(id), fmt::format("{} + turn_{}{}", first, number, factor));
  loops_.push_back({stmt.kind});
  emit(stmt.body);
  loops_.pop_back();
  out_.close();
}

// The turns of a for, after its step, which is refused also where the range is empty.
void CudaHandlerCodegen::emit_turn_count(const Stmt& stmt, std::size_t number,
                                         std::string_view first, std::string_view last) {
  const std::string_view function = turns_function(stmt);
  if (!stmt.has_step) {
    return out_.line("const Word turns_{} = {}({}, {});", number, function, first, last);
  }
  out_.line("const Word step_{} = {};", number, emit(stmt.operands[2]));
  const bool is_signed = verified_.type(stmt.operands[0]) == Type::i32;
  out_.line("if (step_{0} == 0{1}) {2}", number,
            is_signed ? fmt::format(" || step_{} >= 0x80000000u", number) : "",
            fault(FaultCode::index_out_of_range));
  out_.line("const Word span_{} = {}({}, {});", number, function, first, last);
  out_.line("const Word turns_{0} = span_{0} == 0 ? 0 : (span_{0} - 1) / step_{0} + 1;", number);
}

// An innermost loop pays at once for all turns until the next poll of the abort word. A loop with
// loops inside cannot: where their fuel runs out is visible in the outcome.
void CudaHandlerCodegen::emit_chunks(StmtId id, const Stmt& stmt, std::string_view first,
                                     std::size_t number) {
  const bool outer_is_broken = loop_is_broken_;
  loop_is_broken_ = false;
  out_.open("for (Word done_{0} = 0; done_{0} < turns_{0};) {{", number);
  out_.line("Word some_{0} = turns_{0} - done_{0};", number);
  emit_fault_code(fmt::format("spend_turns({}, item, {}, some_{})", lanes(), fuel(), number));
  out_.open("for (Word k_{0} = 0; k_{0} < some_{0}; ++k_{0}) {{", number);
  const std::string factor = stmt.has_step ? fmt::format(" * step_{}", number) : "";
  emit_counter(verified_.local(id),
               fmt::format("{0} + (done_{1} + k_{1}){2}", first, number, factor));
  loops_.push_back({.kind = stmt.kind, .number = number, .pays_ahead = true});
  emit(stmt.body);
  loops_.pop_back();
  out_.close();
  out_.line("done_{0} += some_{0};", number);
  out_.close();
  if (loop_is_broken_) out_.line("broken_{}:;", number);
  loop_is_broken_ = outer_is_broken;
}

void CudaHandlerCodegen::emit_counter(LocalId counter, std::string_view value) {
  out_.line("const Word {} = opaque({});", cuda_local(counter), value);
  if (buffers_.is_handle(counter)) {
    out_.line("const Buffer {}_buffer = {};", cuda_local(counter),
              find_buffer(cuda_local(counter)));
  }
}

}  // namespace everkernel::jit
