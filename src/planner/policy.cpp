// The launch policy: thresholds, formulae, hysteresis, and a small cache of answers.
#include "everkernel/planner/policy.hpp"

namespace everkernel::planner {

std::string_view topology_name(Topology topology) {
  switch (topology) {
    case Topology::empty:
      return "empty";
    case Topology::sparse_frontier:
      return "sparse_frontier";
    case Topology::dense_frontier:
      return "dense_frontier";
    case Topology::hybrid_frontier:
      return "hybrid_frontier";
    case Topology::fused_dense:
      return "fused_dense";
    case Topology::memory_constrained:
      return "memory_constrained";
  }
  return "unknown";
}

std::string_view pressure_name(Pressure pressure) {
  switch (pressure) {
    case Pressure::empty:
      return "empty";
    case Pressure::light:
      return "light";
    case Pressure::balanced:
      return "balanced";
    case Pressure::saturated:
      return "saturated";
  }
  return "unknown";
}

std::string_view execution_mode_name(ExecutionMode mode) {
  switch (mode) {
    case ExecutionMode::interpreter:
      return "interpreter";
    case ExecutionMode::jit:
      return "jit";
  }
  return "unknown";
}

}  // namespace everkernel::planner
