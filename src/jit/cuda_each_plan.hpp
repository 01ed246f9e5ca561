// How the turns of an `each` are emitted as CUDA C++: which of its updates wait in a tile, and
// which of its words are loaded for several turns at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jit/cuda_known_buffers.hpp"
#include "jit/handler_facts.hpp"

namespace everkernel::jit {

/// The decisions about one each.
struct EachPlan {
  ir::LocalId counter = {};  ///< its loop counter
  LoopFacts facts = {};      ///< of its body
  /// Set if the updates of output may wait in a tile: the condition, as C++, under which they do.
  std::optional<std::string> tile_condition = {};
  /// With a tile: a turn computes and then updates output once, at its end. Several turns can then
  /// compute, and have their indices checked, before the first of them changes anything.
  bool gathers_updates = false;
  /// Loads whose words are fetched for several turns at once, in the order of evaluation.
  std::vector<ir::ExprId> ahead_loads = {};
};

/// Plans an each of a handler.
EachPlan plan_each(const ir::VerifiedHandler& handler, ir::StmtId each,
                   const KnownBuffers& buffers);

}  // namespace everkernel::jit
