// Facts about parts of a verified handler that both code generators need before they emit code.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "everkernel/abi/platform.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::jit {

/// Facts about the body of one loop.
struct LoopFacts {
  bool has_inner_loop = false;                         ///< for, while or each inside
  bool uses_lane = false;                              ///< reads the builtin `lane`
  std::size_t instruction_count = 0;                   ///< statements and expressions
  std::set<ir::LocalId> assigned = {};                 ///< variables assigned in the body
  std::map<ir::LocalId, ir::ExprId> definitions = {};  ///< values named by let in the body
  std::set<ir::LocalId> declared = {};                 ///< names declared in the body
  /// Loads and atomics in the order of the text, each before the ones inside its own index.
  std::vector<ir::ExprId> accesses = {};
  std::vector<ir::StmtId> stores = {};             ///< stores in the order of the text
  std::optional<ir::AtomicOp> output_atomic = {};  ///< an atomic on output
};

/// Walks the body of a loop, the loops inside it included.
LoopFacts gather_loop_facts(const ir::VerifiedHandler& handler, ir::BlockId body);

/// The value of an index into args that is a literal below their count; none for any other index.
std::optional<abi::Word> constant_arg(const ir::Body& body, ir::ExprId index);

/// How many calls of functions of numbers become part of a handler's code. Further ones stay calls:
/// each is up to 150 instructions long, and a handler may have hundreds.
inline constexpr std::size_t kMostInlinedNumberCalls = 16;

/// Whether it is exp, log, exp2, log2, sin, cos, tanh or pow.
bool is_number_function(ir::Function function);

/// Whether evaluating the expression has no effect and cannot fault, so that code may evaluate it
/// even where the handler would not.
bool is_plain(const ir::Body& body, ir::ExprId id);

}  // namespace everkernel::jit
