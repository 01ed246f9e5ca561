// Checks every item of a list, so that the scan can rely on opcodes and origins.
#include "planner/plan_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "everkernel/abi/control.hpp"
#include "planner/opcode_ranks.hpp"

namespace everkernel::planner {
namespace {

Failure bad_item(std::size_t item, std::string what, std::string hint) {
  return fail(Code::invalid_argument, fmt::format("run: item {}: {}", item, std::move(what)),
              std::move(hint));
}

Result<void> check_origin(std::size_t item, const Origin& origin) {
  if (origin.tenant >= abi::kTenantCount) {
    return bad_item(item,
                    fmt::format("tenant {} is above {}", origin.tenant, abi::kTenantCount - 1),
                    "use a tenant of 0..28");
  }
  if (origin.priority >= abi::kPriorityCount) {
    return bad_item(
        item, fmt::format("priority {} is above {}", origin.priority, abi::kPriorityCount - 1),
        "use a priority of 0 (most urgent) to 4");
  }
  return {};
}

}  // namespace

Result<CheckedList> check_list(const PlanRequest& request) {
  EVERKERNEL_TRY(check_origin(0, request.origin));
  if (!request.origins.empty() && request.origins.size() != request.items.size()) {
    return fail(
        Code::invalid_argument,
        fmt::format("run: {} origins for {} items", request.origins.size(), request.items.size()),
        "give one origin for each item, or none");
  }
  CheckedList checked;
  for (std::size_t i = 0; i < request.origins.size(); ++i) {
    EVERKERNEL_TRY(check_origin(i, request.origins[i]));
    checked.has_priorities |= request.origins[i].priority != request.origins[0].priority;
  }
  OpcodeRanks ranks;
  // Items of one opcode often follow each other: a row of them is counted at once.
  for (std::size_t i = 0; i < request.items.size();) {
    const Word opcode = request.items[i].op_handle;
    const Effects effects = request.effects->find(opcode);
    if ((effects & kUnknownOpcode) != 0) {
      return bad_item(i, fmt::format("no handler has opcode {}", opcode),
                      "use the opcode of a handler of the megakernel, or NOP (0)");
    }
    checked.effects |= effects;
    const std::size_t first = i;
    Word max_handle = checked.max_handle;
    for (; i < request.items.size() && request.items[i].op_handle == opcode; ++i) {
      max_handle =
          std::max({max_handle, request.items[i].input_handle, request.items[i].output_handle});
    }
    checked.max_handle = max_handle;
    const Word rank = ranks[opcode];
    if (rank == checked.opcodes.size()) checked.opcodes.push_back({.opcode = opcode});
    checked.opcodes[rank].items += i - first;
  }
  return checked;
}

}  // namespace everkernel::planner
