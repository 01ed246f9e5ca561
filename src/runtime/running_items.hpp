// The items that run, as a reader of telemetry sees them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "everkernel/backend/detail/live.hpp"
#include "everkernel/runtime/session.hpp"
#include "live/queue_core.hpp"

namespace everkernel {

/// The items of those queues that run, by the time of their beginning. Fails as
/// LiveKernel::copy_running does.
Result<std::vector<RunningItem>> running_items(
    backend::LiveKernel& kernel, std::span<const std::shared_ptr<live::QueueCore>> queues,
    const backend::KernelOptions& options);

/// Names an item in the text of an error: "ticket 7 (handler spin) has run on worker 1 for 5 s".
std::string running_text(const RunningItem& item);

}  // namespace everkernel
