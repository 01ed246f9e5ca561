// Adds to what a kernel says of running items what the session knows of them.
#include "runtime/running_items.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/base/duration_text.hpp"

namespace everkernel {
namespace {

std::string name_of(Word opcode, const backend::KernelOptions& options) {
  if (const abi::OpcodeInfo* const row = abi::find_opcode(opcode)) return row->name;
  if (options.payload) return "payload";
  const auto handler = options.find_handler(opcode);
  return handler ? std::string(handler->name) : std::string();
}

}  // namespace

Result<std::vector<RunningItem>> running_items(
    backend::LiveKernel& kernel, std::span<const std::shared_ptr<live::QueueCore>> queues,
    const backend::KernelOptions& options) {
  std::vector<backend::LiveRunning> found;
  EVERKERNEL_TRY(kernel.copy_running(found));
  std::ranges::stable_sort(found, {}, &backend::LiveRunning::since);
  std::vector<RunningItem> items;
  for (const backend::LiveRunning& item : found) {
    const auto queue = std::ranges::find_if(
        queues, [&](const auto& known) { return known->live().get() == item.queue; });
    if (queue == queues.end()) continue;  // it was closed meanwhile
    items.push_back({.ticket = {item.ticket, (*queue)->id()},
                     .tenant = (*queue)->options().tenant,
                     .priority = (*queue)->options().priority,
                     .opcode = item.opcode,
                     .name = name_of(item.opcode, options),
                     .worker = item.worker,
                     .multiprocessor = item.multiprocessor,
                     .since = item.since,
                     .was_told_to_end = item.was_told_to_end});
  }
  return items;
}

std::string running_text(const RunningItem& item) {
  const std::string name = item.name.empty() ? fmt::format("opcode {}", item.opcode) : item.name;
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::max(backend::Clock::now() - item.since, {}));
  return fmt::format("ticket {} ({}) has run on worker {} for {}", item.ticket.number, name,
                     item.worker, duration_text(age));
}

}  // namespace everkernel
