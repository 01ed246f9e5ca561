#include "cuda_peers.hpp"

#include <fmt/format.h>

#include <string>

#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/driver.hpp"

namespace everkernel::bench {
namespace {

using namespace backend::cuda;

constexpr auto kTimeout = std::chrono::seconds(60);

// Sizes must be multiples of the size of a block: the benchmarks choose them so, without a check.
constexpr std::string_view kSource = R"(
using Word = unsigned int;
using Wide = unsigned long long;

extern "C" __global__ void nothing() {}

// Answers a word of the host with a word to the host.
extern "C" __global__ void ping_pong(Word* in, Word* out, Word rounds) {
  for (Word round = 1; round <= rounds; ++round) {
    Word found;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(found) : "l"(in) : "memory");
    } while (found != round);
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(out), "r"(round) : "memory");
  }
}

// The loop of a handler.
extern "C" __global__ void spin(Word* out, Word turns) {
  Word x = 1;
  for (Word i = 0; i < turns; ++i) x = x * 1664525u + 1013904223u;
  *out = x;
}

// ---- work beside a session ----

// Neither needs all threads that a multiprocessor can hold to run at full rate, and both have many
// short blocks, so that a session in a part of each multiprocessor costs what it takes from them.

// A block of 256 threads copies 16 KiB.
extern "C" __global__ void __launch_bounds__(256) copy_array(const uint4* __restrict__ from,
                                                             uint4* __restrict__ to) {
  const Wide first = Wide{blockIdx.x} * 1024 + threadIdx.x;
  uint4 quads[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) quads[k] = __ldcs(from + first + 256 * k);
#pragma unroll
  for (int k = 0; k < 4; ++k) __stcs(to + first + 256 * k, quads[k]);
}

// Eight independent chains of multiplications and additions in each thread.
extern "C" __global__ void __launch_bounds__(256) compute(float* out, Word turns) {
  float x[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) x[k] = threadIdx.x + k;
  for (Word i = 0; i < turns; ++i) {
#pragma unroll
    for (int k = 0; k < 8; ++k) x[k] = __fmaf_rn(x[k], 0.5f, 1.0f);
  }
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += x[k];
  if (sum < 0) *out = sum;  // never, which the compiler does not know
}

// ---- rings ----

// Makes every slot PUBLISHED.
extern "C" __global__ void republish(Word* ring, Word slots) {
  const Word stride = gridDim.x * blockDim.x;
  for (Word slot = blockIdx.x * blockDim.x + threadIdx.x; slot < slots; slot += stride) {
    ring[Wide{slot} * 16] = 1;
  }
}

// The minimum that follows the protocol: one lane for each slot claims it, reads it, and stores
// DONE after a fence; one lane of each warp counts. `slots` is a multiple of 32.
extern "C" __global__ void drain(Word* ring, Word* control, Word slots) {
  const Word stride = gridDim.x * blockDim.x;
  for (Word slot = blockIdx.x * blockDim.x + threadIdx.x; slot < slots; slot += stride) {
    Word* const words = ring + Wide{slot} * 16;
    const uint4 head = *reinterpret_cast<const uint4*>(words);
    const bool is_mine = head.x == 1 && atomicCAS(words, 1u, 2u) == 1;
    const unsigned claimed = __ballot_sync(0xFFFFFFFFu, is_mine);
    if (is_mine) {
      const uint4 args = *reinterpret_cast<const uint4*>(words + 4);
      if (head.y != 0) control[159] = args.x + args.y;  // never for an empty item
      __threadfence();
      *reinterpret_cast<volatile Word*>(words) = 3;
      if ((threadIdx.x & 31) == __ffs(claimed) - 1) atomicAdd(control + 1, __popc(claimed));
    }
  }
}

// The same memory traffic without the protocol.
extern "C" __global__ void touch(Word* ring, Word slots) {
  const Word stride = gridDim.x * blockDim.x;
  for (Word slot = blockIdx.x * blockDim.x + threadIdx.x; slot < slots; slot += stride) {
    Word* const words = ring + Wide{slot} * 16;
    const uint4 head = *reinterpret_cast<const uint4*>(words);
    const uint4 args = *reinterpret_cast<const uint4*>(words + 4);
    if (head.x == 1 && args.x != 0xFFFFFFFFu) words[0] = 3;
  }
}

// ---- saxpy ----

// Two roundings, as in handlers.
__device__ float4 saxpy(float a, float4 x, float4 y) {
  return {__fadd_rn(__fmul_rn(a, x.x), y.x), __fadd_rn(__fmul_rn(a, x.y), y.y),
          __fadd_rn(__fmul_rn(a, x.z), y.z), __fadd_rn(__fmul_rn(a, x.w), y.w)};
}

// One item of 256 words on 64 threads.
extern "C" __global__ void saxpy_item(const float4* __restrict__ x, float4* __restrict__ y,
                                      float a, Word item) {
  const Wide at = Wide{item} * 64 + threadIdx.x;
  y[at] = saxpy(a, x[at], y[at]);
}

// One warp for each item.
extern "C" __global__ void saxpy_warps(const float4* __restrict__ x, float4* __restrict__ y,
                                       float a, Word items) {
  const Word lane = threadIdx.x & 31;
  const Word warps = gridDim.x * blockDim.x / 32;
  for (Word item = (blockIdx.x * blockDim.x + threadIdx.x) / 32; item < items; item += warps) {
    const Wide at = Wide{item} * 64 + lane;
    const float4 x0 = __ldcs(x + at), x1 = __ldcs(x + at + 32);
    const float4 y0 = __ldcs(y + at), y1 = __ldcs(y + at + 32);
    __stcs(y + at, saxpy(a, x0, y0));
    __stcs(y + at + 32, saxpy(a, x1, y1));
  }
}

// All words as one array: a block of 256 threads takes 16 items, four loads of 16 bytes in flight.
extern "C" __global__ void __launch_bounds__(256)
    saxpy_array(const float4* __restrict__ x, float4* __restrict__ y, float a) {
  const Wide first = Wide{blockIdx.x} * 1024 + threadIdx.x;
  float4 from[4], to[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    from[k] = __ldcs(x + first + 256 * k);
    to[k] = __ldcs(y + first + 256 * k);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) __stcs(y + first + 256 * k, saxpy(a, from[k], to[k]));
}

// ---- histogram ----

// A block of 256 threads for each item: bins in shared memory, one set for each warp, then one add
// for each bin. Item i adds to output[i * pitch].
extern "C" __global__ void __launch_bounds__(256)
    histogram(const uint4* __restrict__ input, Word* __restrict__ output, Word quads_each,
              Word pitch) {
  __shared__ Word bins[8][256];
  for (Word i = threadIdx.x; i < 8 * 256; i += 256) (&bins[0][0])[i] = 0;
  __syncthreads();
  Word* const mine = bins[threadIdx.x / 32];
  const uint4* const quads = input + Wide{blockIdx.x} * quads_each;
#pragma unroll 4
  for (Word i = threadIdx.x; i < quads_each; i += 256) {
    const uint4 quad = quads[i];
    atomicAdd(mine + (quad.x & 255), 1u);
    atomicAdd(mine + (quad.y & 255), 1u);
    atomicAdd(mine + (quad.z & 255), 1u);
    atomicAdd(mine + (quad.w & 255), 1u);
  }
  __syncthreads();
  Word sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += bins[i][threadIdx.x];
  atomicAdd(output + Wide{blockIdx.x} * pitch + threadIdx.x, sum);
}

// ---- an automaton over records of 256 bytes ----

__device__ void step(const Word* __restrict__ table, Word byte, Word& state, Word& found) {
  const Word next = table[state * 256 + byte];
  state = next & 0x7FFFFFFFu;
  found += next >> 31;
}
__device__ void step4(const Word* __restrict__ table, Word word, Word& state, Word& found) {
#pragma unroll
  for (int k = 0; k < 4; ++k) step(table, word >> (8 * k) & 255, state, found);
}

// A block for each item, a thread for each record; reads word by word, as a handler does.
extern "C" __global__ void scan_records(const Word* __restrict__ input,
                                        const Word* __restrict__ table, Word* output,
                                        Word records_each) {
  for (Word r = threadIdx.x; r < records_each; r += blockDim.x) {
    const Word* const record = input + (Wide{blockIdx.x} * records_each + r) * 64;
    Word state = 0, found = 0;
    for (Word i = 0; i < 64; ++i) step4(table, record[i], state, found);
    if (found != 0) atomicAdd(output, found);
  }
}

// The same, 16 bytes at a time.
extern "C" __global__ void scan_records_wide(const uint4* __restrict__ input,
                                             const Word* __restrict__ table, Word* output,
                                             Word records_each) {
  for (Word r = threadIdx.x; r < records_each; r += blockDim.x) {
    const uint4* const record = input + (Wide{blockIdx.x} * records_each + r) * 16;
    Word state = 0, found = 0;
    for (Word i = 0; i < 16; ++i) {
      const uint4 quad = record[i];
      step4(table, quad.x, state, found);
      step4(table, quad.y, state, found);
      step4(table, quad.z, state, found);
      step4(table, quad.w, state, found);
    }
    if (found != 0) atomicAdd(output, found);
  }
}

// ---- streams ----

// Entries that publishers store in memory of the host, read by warps that pull portions of them.
// One scout watches the tails in host memory; kStreamClosed as a tail ends the kernel.
inline constexpr Word kStreamClosed = 0xFFFFFFFFu;

__device__ Word load_acquire_sys(const Word* word) {
  Word value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ void store_release_sys(Word* word, Word value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ Word load_acquire_gpu(const Word* word) {
  Word value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ void store_release_gpu(Word* word, Word value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
// A word of the device, loaded by one lane for its warp.
__device__ Word shared_word(const Word* word) {
  return __shfl_sync(0xFFFFFFFFu, (threadIdx.x & 31) == 0 ? load_acquire_gpu(word) : 0, 0);
}
__device__ Word pull(Word* head, Word count) {
  return __shfl_sync(0xFFFFFFFFu, (threadIdx.x & 31) == 0 ? atomicAdd(head, count) : 0, 0);
}

// One ring of 64-byte entries for all publishers; a word for each portion says that it is done.
// `state`: the head, the tail at word 32, the number of done entries at 64, a checksum at 96.
extern "C" __global__ void __launch_bounds__(512)
    stream_full(const uint4* entries, Word capacity, const Word* host_tail, Word* host_done,
                Word* completions, Word* state) {
  Word* const tail = state + 32;
  Word* const done = state + 64;
  if (blockIdx.x == 0) {
    if (threadIdx.x != 0) return;
    Word known_tail = 0, known_done = 0;
    while (known_tail != kStreamClosed) {
      const Word new_tail = load_acquire_sys(host_tail);
      if (new_tail != known_tail) store_release_gpu(tail, new_tail);
      known_tail = new_tail;
      const Word new_done = load_acquire_gpu(done);
      if (new_done != known_done) store_release_sys(host_done, new_done);
      known_done = new_done;
    }
    return;
  }
  const Word lane = threadIdx.x & 31;
  Word sum = 0;
  for (;;) {
    const Word base = pull(state, 32);
    Word filled;
    do filled = shared_word(tail);
    while (filled != kStreamClosed && static_cast<int>(filled - base) < 32);
    if (filled == kStreamClosed) break;
    const uint4* const entry = entries + Wide{(base + lane) & (capacity - 1)} * 4;
    const uint4 a = entry[0], b = entry[1], c = entry[2], d = entry[3];
    sum += a.y + b.x + c.x + d.x;
    __syncwarp();
    if (lane == 0) {
      store_release_sys(completions + (base & (capacity - 1)) / 32, base);
      asm volatile("red.release.gpu.global.add.u32 [%0], 32;" ::"l"(done) : "memory");
    }
    __syncwarp();
  }
  if (sum != 0) atomicAdd(state + 96, sum);
}

// A queue of 16-byte entries for each publisher: the entries, a byte for the outcome of each of
// them, the tail. Each entry has a lap bit. `state` has for each queue the head and, 32 words
// behind it, what is filled; behind all queues the number of entries that were not as published.
inline constexpr Word kStreamPlaces = 1u << 16;
inline constexpr Word kStreamQueueQuads = kStreamPlaces + kStreamPlaces / 16 + 256;
inline constexpr Word kStreamQueues = 8;
inline constexpr Word kStreamPortion = 128;

__device__ uint4 load_whole(const uint4* quad) {
  Wide low, high;
  asm volatile(
      "{ .reg .b128 q;\nld.relaxed.sys.global.b128 q, [%2];\nmov.b128 {%0, %1}, q;\n}"
      : "=l"(low), "=l"(high)
      : "l"(quad)
      : "memory");
  return {static_cast<Word>(low), static_cast<Word>(low >> 32), static_cast<Word>(high),
          static_cast<Word>(high >> 32)};
}

extern "C" __global__ void __launch_bounds__(256)
    stream_compact(uint4* queues, Word queue_count, Word items_each, Word* state) {
  const Word lane = threadIdx.x & 31;
  if (blockIdx.x == 0) {
    if (threadIdx.x >= queue_count) return;
    const uint4* const queue = queues + Wide{threadIdx.x} * kStreamQueueQuads;
    const Word* const host_tail =
        reinterpret_cast<const Word*>(queue + kStreamPlaces + kStreamPlaces / 16);
    for (Word known = 0; known < items_each;) {
      const Word tail = load_acquire_sys(host_tail);
      if (tail != known) store_release_gpu(state + threadIdx.x * 64 + 32, tail);
      known = tail;
    }
    return;
  }
  const Word number = ((blockIdx.x - 1) * blockDim.x + threadIdx.x) / 32 % queue_count;
  uint4* const queue = queues + Wide{number} * kStreamQueueQuads;
  unsigned char* const outcomes = reinterpret_cast<unsigned char*>(queue + kStreamPlaces);
  Word* const head = state + number * 64;
  Word torn = 0;
  for (;;) {
    const Word base = pull(head, kStreamPortion);
    if (base >= items_each) break;
    Word filled;
    while (filled = shared_word(head + 32), filled < base + kStreamPortion) __nanosleep(100);
    if (filled == kStreamClosed) break;
    uint4 entry[4];
#pragma unroll
    for (Word i = 0; i < 4; ++i) {
      entry[i] = load_whole(queue + (base + i * 32 + lane) % kStreamPlaces);
    }
    const Word lap = (base / kStreamPlaces & 1) == 0 ? 0x80000000u : 0u;
#pragma unroll
    for (Word i = 0; i < 4; ++i) {
      const Word ticket = base + i * 32 + lane;
      if (entry[i].x != (lap | 9) || entry[i].y != ticket || entry[i].w != ~ticket) ++torn;
    }
    __syncwarp();
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#pragma unroll
    for (Word i = 0; i < 4; ++i) {
      asm volatile("st.relaxed.sys.global.u8 [%0], %1;" ::"l"(
                       outcomes + (base + i * 32 + lane) % kStreamPlaces),
                   "r"(lap >> 24 | 1)
                   : "memory");
    }
  }
  if (torn != 0) atomicAdd(state + kStreamQueues * 64, torn);
}
)";

CompileRequest request_for(int architecture) {
  return {.source = {.name = "cuda_peers.cu", .text = kSource}, .architecture = architecture};
}

}  // namespace

void expect(bool holds, std::string_view what) {
  if (!holds) must(Result<void>(fail(Code::corrupt, fmt::format("not so: {}", what))));
}

Result<void> check_peer_source() {
  const auto nvrtc = EVERKERNEL_TRY(Nvrtc::load());
  for (const int architecture : {80, 90, 100}) {
    EVERKERNEL_TRY(nvrtc.compile(request_for(architecture)));
  }
  return {};
}

Peers::Peers(std::shared_ptr<Context> context, Current current, Stream stream, Module module)
    : context_(std::move(context)),
      current_(std::move(current)),
      stream_(std::move(stream)),
      module_(std::move(module)) {}

Result<std::unique_ptr<Peers>> Peers::open() {
  const auto driver = EVERKERNEL_TRY(Driver::load());
  const auto facts = EVERKERNEL_TRY(probe_device(driver, 0));
  const auto nvrtc = EVERKERNEL_TRY(Nvrtc::load());
  auto context = EVERKERNEL_TRY(Context::create(driver, facts));
  auto current = EVERKERNEL_TRY(context->enter());
  auto stream = EVERKERNEL_TRY(Stream::create(context));
  auto module =
      EVERKERNEL_TRY(Module::load(context, nvrtc, nullptr, request_for(facts.architecture)));
  return std::unique_ptr<Peers>(
      new Peers(context, std::move(current), std::move(stream), std::move(module)));
}

std::unique_ptr<backend::Memory> Peers::words(std::size_t count) const {
  return must(CudaMemory::create(context_, count * sizeof(abi::Word)));
}

PinnedMemory Peers::pinned(std::size_t size_bytes) const {
  return must(PinnedMemory::create(context_, size_bytes));
}

void Peers::wait() const {
  const auto deadline = backend::Clock::now() + kTimeout;
  CuResult result = kCuNotReady;
  while (result == kCuNotReady && backend::Clock::now() < deadline) {
    result = context_->driver().cuStreamQuery(stream_.get());
  }
  must(context_->check(result, "waiting for a peer"));
}

void Peers::synchronize() const {
  must(context_->check(context_->driver().cuStreamSynchronize(stream_.get()),
                       "cuStreamSynchronize"));
}

Graph::Graph(const Peers& peers, Order order) : peers_(peers), order_(order) {
  const Context& context = *peers_.context_;
  must(context.check(context.driver().cuGraphCreate(&graph_, 0), "cuGraphCreate"));
}

Graph::~Graph() {
  const Driver& driver = peers_.context_->driver();
  if (executable_ != nullptr) driver.cuGraphExecDestroy(executable_);
  driver.cuGraphDestroy(graph_);
}

void Graph::add_node(CuFunction kernel, const Grid& grid, void** arguments) {
  CuKernelNode node;
  node.function = kernel;
  node.grid[0] = grid.block_count;
  node.block[0] = grid.thread_count;
  node.shared_bytes = grid.shared_bytes;
  node.arguments = arguments;
  const Context& context = *peers_.context_;
  const CuGraphNode before = last_;
  const std::size_t waits_for = order_ == Order::chain && before != nullptr ? 1 : 0;
  must(context.check(
      context.driver().cuGraphAddKernelNode(&last_, graph_, &before, waits_for, &node),
      "cuGraphAddKernelNode"));
}

void Graph::finish() {
  const Context& context = *peers_.context_;
  const Driver& driver = context.driver();
  must(context.check(driver.cuGraphInstantiate(&executable_, graph_, 0), "cuGraphInstantiate"));
  must(context.check(driver.cuGraphUpload(executable_, peers_.stream_.get()), "cuGraphUpload"));
  peers_.wait();
}

void Graph::launch() const {
  const Context& context = *peers_.context_;
  must(context.check(context.driver().cuGraphLaunch(executable_, peers_.stream_.get()),
                     "cuGraphLaunch"));
}

}  // namespace everkernel::bench
