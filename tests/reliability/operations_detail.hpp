// Parts of the list of operations.
#pragma once

#include <string_view>

#include "operations.hpp"

namespace everkernel::test {

/// Handlers of the operations: each can run again without harm only if its first run did not count.
inline constexpr std::string_view kSampleHandlers = R"(
handler count = 64 { atomic_add(output[0], param); }
handler twice = 65 { if args[3] == 0 { args[3] = 1; yield; } atomic_add(output[1], param); }
handler tell = 66 { for i in 0 .. param { emit(i, param, 7); printf(i, 1, 2); } }
handler fail = 67 { if param == 6 { fault 6; } output[2] = param; }
handler turns = 68 {
  var x = 0;
  for i in 0 .. param { x = rotl(x, 3) ^ i; }
  output[3] = output[3] + 1 + (x & 0);
}
handler set = 69 pure { output[0] = param; }
handler come_back = 70 { if args[3] == 0 { args[3] = 1; yield; } output[1] = param; }
)";

template <class Kind>
std::unique_ptr<World> make() {
  return std::make_unique<Kind>();
}

/// Adds operations without a megakernel.
void add_pure_trials(std::vector<Trial>& all);
/// Adds megakernels, buffers, dispatches and runs.
void add_runtime_trials(std::vector<Trial>& all);
/// Adds sessions.
void add_session_trials(std::vector<Trial>& all);

}  // namespace everkernel::test
