// Compiles generated handlers as C++ of this machine: include this file before the generated text.
//
// The files of src/jit/device that access no hardware are used as they are. The folder device_shim
// comes before src among the include folders and replaces the others: words, buffers, lanes, tile
// words and sinks. Lanes are fibers, so that collective operations of a warp or group are tested
// without a GPU.
#pragma once

#include "cuda_intrinsics.hpp"

#include "cuda_shim_frame.hpp"
#include "jit/device/handler.cuh"

namespace everkernel::device {

// Runs a handler as test::ShimRun describes. `call(lanes, item)` calls the handler.
template <class Call>
Word run_shimmed(test::ShimWay way, test::ShimFrame* frame, const char** trouble,
                 const Call& call) {
  Item start{};
  __builtin_memcpy(start.args, frame->args, sizeof start.args);
  start.opcode = frame->opcode;
  start.tenant = frame->tenant;
  start.priority = frame->priority;
  start.slot = frame->slot;
  start.lanes = frame->lanes;
  start.control = Words(frame->control, frame->control_words);
  start.buffers = {static_cast<const BufferEntry*>(frame->entries), frame->mask};
  start.fuel = static_cast<Fuel>(frame->fuel);
  start.abort = Words(const_cast<Word*>(frame->abort), frame->abort == nullptr ? 0 : 1);
  start.sinks.hooks = frame->hooks;
  Item items[Fibers::kLanes];
  Word results[Fibers::kLanes] = {};
  for (Item& item : items) item = start;
  if (way == test::ShimWay::one_lane) {
    results[0] = call(OneLane{}, items[0]);
  } else {
    *trouble = fibers.run([&](Word lane) { results[lane] = call(ManyLanes{}, items[lane]); });
    for (Word i = 1; i < Fibers::kLanes && *trouble == nullptr; ++i) {
      const bool is_equal =
          results[i] == results[0] && items[i].fuel == items[0].fuel &&
          __builtin_memcmp(items[i].args, items[0].args, sizeof start.args) == 0 &&
          __builtin_memcmp(&items[i].io, &items[0].io, sizeof start.io) == 0;
      if (!is_equal) *trouble = "the lanes did not all come to the same end";
    }
  }
  __builtin_memcpy(frame->args, items[0].args, sizeof start.args);
  frame->fuel = items[0].fuel;
  __builtin_memcpy(frame->io, &items[0].io, sizeof start.io);
  return results[0];
}

}  // namespace everkernel::device
