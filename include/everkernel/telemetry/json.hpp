// Writes telemetry as JSON, with the fields of the snapshot types as keys.
#pragma once

#include <span>

#include "everkernel/base/json_writer.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/telemetry/evidence.hpp"
#include "everkernel/telemetry/snapshot.hpp"

namespace everkernel::telemetry {

/// Writes an object; `observables` is a key only when asked for.
void write_json(JsonWriter& json, const ControlSnapshot& control, bool with_observables);
/// Writes an object, the derived total_slots and queue_depth included.
void write_json(JsonWriter& json, const RingOccupancy& occupancy);
/// Writes an array of objects.
void write_json(JsonWriter& json, std::span<const RingSlotSnapshot> slots);
/// Writes an array of objects, the derived `active` included.
void write_json(JsonWriter& json, std::span<const WindowTelemetry> windows);
/// Writes an object.
void write_json(JsonWriter& json, const RuntimeCounters& counters);
/// Writes an object.
void write_json(JsonWriter& json, const WatchdogSnapshot& watchdog);
/// Writes an object, the derived host_copy_avoidance_bps and missing families included.
void write_json(JsonWriter& json, const RuntimeEvidence& evidence);
/// Writes an array of {fmt_id, args}.
void write_json(JsonWriter& json, const protocol::DebugLogView& log);
/// Writes an array of the slots that are not empty.
void write_json(JsonWriter& json, const protocol::IoQueueView& queue);

}  // namespace everkernel::telemetry
