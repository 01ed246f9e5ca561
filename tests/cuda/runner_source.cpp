#include "runner_source.hpp"

#include <fmt/format.h>

#include "everkernel/jit/cuda_source.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::SourceText;

constexpr std::string_view kPrelude = R"(
#include "jit/device/handler.cuh"
#include "everkernel/handlers.cuh"

using namespace everkernel;
using namespace everkernel::device;

struct Frame {
  Word args[12];
  Word opcode, tenant, priority, slot, lanes, control_count;
  Word mask, fuel;
  Word log_count, hit_capacity;
  Word* control;
  const BufferEntry* entries;
  Word* abort;
  Word* log;
  abi::Hit* hits;
  Wide* emitted;
  Word* scratch;
  Word* out;
};
static_assert(sizeof(Frame) == 152);

__device__ __forceinline__ Item item_of(const Frame& frame) {
  Item item{};
#pragma unroll
  for (Word i = 0; i < 12; ++i) item.args[i] = frame.args[i];
  item.opcode = frame.opcode;
  item.tenant = frame.tenant;
  item.priority = frame.priority;
  item.slot = frame.slot;
  item.number = frame.slot ^ 0x51070000u;
  item.record = frame.slot * abi::kSlotWords;
  item.lanes = frame.lanes;
  item.control = Words(frame.control, frame.control_count);
  item.buffers = {frame.entries, frame.mask};
  item.fuel = frame.fuel;
  item.abort = Words(frame.abort, frame.abort == nullptr ? 0 : 1);
  item.sinks.control = Words(frame.scratch, 160);
  item.sinks.log = Words(frame.log, frame.log_count);
  item.sinks.hits = frame.hits;
  item.sinks.hit_capacity = frame.hit_capacity;
  item.sinks.emitted = frame.emitted;
  item.sinks.hits_dropped = Words(frame.scratch, 1);
  return item;
}
)";

constexpr std::string_view kLeave = R"(
// One text for all kernels, so that they are compiled in less time.
__device__ __noinline__ void leave(const Frame& frame, const Word* record) {
  __shared__ Word leaders[19];
  __shared__ Word differs;
  __syncthreads();
  if (threadIdx.x == 0) {
    differs = 0;
#pragma unroll 1
    for (Word i = 0; i < 19; ++i) leaders[i] = record[i];
  }
  __syncthreads();
#pragma unroll 1
  for (Word i = 0; i < 19; ++i) {
    if (leaders[i] != record[i]) atomicOr(&differs, 1);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll 1
  for (Word i = 0; i < 19; ++i) frame.out[i] = record[i];
  frame.out[19] = differs;
}
)";

constexpr std::string_view kLeaveItem = R"(
__device__ __forceinline__ void leave(const Frame& frame, const Item& item, Word result) {
  Word record[19] = {result, static_cast<Word>(item.fuel)};
#pragma unroll
  for (Word i = 0; i < 12; ++i) record[2 + i] = item.args[i];
  record[14] = item.io.is_write;
  record[15] = item.io.source;
  record[16] = item.io.block;
  record[17] = item.io.destination;
  record[18] = item.io.byte_count;
  leave(frame, record);
}
)";

}  // namespace

std::string kernel_name(const Entry& entry) {
  return fmt::format("run_{}_{}", entry.handler_index, static_cast<int>(entry.way));
}

RunnerSource runner_source(const ir::VerifiedProgram& program, std::span<const Entry> entries,
                           jit::MemoryUse memory) {
  RunnerSource source{.handlers = jit::emit_cuda(program, {.memory = memory, .payload = true}),
                      .kernels = fmt::format("{}{}{}", kPrelude, kLeave, kLeaveItem)};
  constexpr std::string_view kLanes[] = {"OneLane", "WarpLanes", "GroupLanes"};
  for (const Entry& entry : entries) {
    source.kernels += fmt::format(
        "extern \"C\" __global__ void {}(const Frame* frames) {{\n"
        "  Item item = item_of(frames[blockIdx.x]);\n"
        "  const Word result = handler_{}({}{{}}, item);\n"
        "  leave(frames[blockIdx.x], item, result);\n}}\n",
        kernel_name(entry), entry.handler_index, kLanes[static_cast<std::size_t>(entry.way)]);
  }
  return source;
}

backend::cuda::CompileRequest request_for(const RunnerSource& source, int architecture,
                                          std::vector<SourceText>& headers) {
  static const std::vector<std::string> usual = {"-fmad=false"};
  static const std::vector<std::string> wide = {"-fmad=false", "-DEVERKERNEL_WIDE_FUEL"};
  headers.assign(backend::cuda::device_headers().begin(), backend::cuda::device_headers().end());
  headers.push_back({"everkernel/handlers.cuh", source.handlers});
  return {.source = {"handler_runs.cu", source.kernels},
          .headers = headers,
          .options = source.has_wide_fuel ? wide : usual,
          .architecture = architecture};
}

Result<backend::cuda::CompiledCode> compile_runner(const backend::cuda::Nvrtc& nvrtc,
                                                   const RunnerSource& source, int architecture) {
  std::vector<SourceText> headers;
  return nvrtc.compile(request_for(source, architecture, headers));
}

}  // namespace everkernel::test
