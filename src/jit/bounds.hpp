// Which index checks of an innermost loop can be made once for many turns.
//
// For every access in the loop whose buffer is known before it, an upper bound of the index is
// sought that holds for all turns of a chunk. Where every bound lies inside its buffer the chunk
// runs without those checks; where one does not, it runs with them, and faults at just the turn it
// should.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "everkernel/ir/verifier.hpp"

namespace everkernel::jit {

/// What a loop body declares and assigns; gathered before code is made for it.
struct LoopFacts {
  bool has_inner_loop = false;                         ///< for, while or each inside
  std::set<ir::LocalId> assigned = {};                 ///< variables assigned in the body
  std::map<ir::LocalId, ir::ExprId> definitions = {};  ///< values named by let in the body
  std::set<ir::LocalId> declared = {};                 ///< everything declared in the body
  std::vector<ir::ExprId> loads = {};                  ///< loads and atomics, innermost first
  std::vector<ir::StmtId> stores = {};                 ///< stores
};

/// Walks a loop's body.
LoopFacts gather_facts(const ir::VerifiedHandler& handler, ir::BlockId body);

}  // namespace everkernel::jit
