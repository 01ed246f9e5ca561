// Small kernels on the simulated GPU: each must produce the results that C++ produces on the host.
//
// Needs NVRTC but no GPU. All kernels are in one module, so that they are compiled once.
#include "simulator/machine.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/needs_nvrtc.hpp"
#include "simulator/instruction.hpp"
#include "simulator/operations.hpp"

namespace everkernel::simulator {
namespace {

using Word = unsigned;
using Wide = unsigned long long;

// Code that is compiled for the host and for the device, and must do the same on both. A macro,
// because only a macro can turn its argument into text.
#define EVERKERNEL_ON_BOTH(name, ...)                  \
  inline __VA_ARGS__ constexpr std::string_view name = \
      "__device__ __forceinline__ " #__VA_ARGS__ "\n"

// ---- arithmetic ----

EVERKERNEL_ON_BOTH(
    kIntegers, void integers(Wide a, Wide b, Wide* out) {
      const Word x = static_cast<Word>(a);
      const Word y = static_cast<Word>(b);
      const int s = static_cast<int>(x);
      const int t = static_cast<int>(y);
      const long long u = static_cast<long long>(a);
      const long long v = static_cast<long long>(b);
      out[0] = a + b;
      out[1] = a - b;
      out[2] = a * b;
      out[3] = x * y;
      out[4] = static_cast<Wide>(x) * y;
      out[5] = static_cast<Wide>(static_cast<long long>(s) * t);
      out[6] = (a < b ? 1u : 0u) | (a <= b ? 1u : 0u) << 1 | (a == b ? 1u : 0u) << 2 |
               (a > b ? 1u : 0u) << 3 | (a >= b ? 1u : 0u) << 4;
      out[7] = (u < v ? 1u : 0u) | (u <= v ? 1u : 0u) << 1 | (u != v ? 1u : 0u) << 2 |
               (u > v ? 1u : 0u) << 3 | (u >= v ? 1u : 0u) << 4;
      out[8] = (x < y ? 1u : 0u) | (x <= y ? 1u : 0u) << 1 | (x == y ? 1u : 0u) << 2 |
               (x > y ? 1u : 0u) << 3 | (x >= y ? 1u : 0u) << 4;
      out[9] = (s < t ? 1u : 0u) | (s <= t ? 1u : 0u) << 1 | (s != t ? 1u : 0u) << 2 |
               (s > t ? 1u : 0u) << 3 | (s >= t ? 1u : 0u) << 4;
      out[10] = x < y ? x : y;
      out[11] = static_cast<Word>(s < t ? s : t);
      out[12] = x > y ? x : y;
      out[13] = static_cast<Word>(s > t ? s : t);
      out[14] = a < b ? a : b;
      out[15] = static_cast<Wide>(u < v ? v : u);
      out[16] = (a & b) ^ (~a | b);
      out[17] = static_cast<Wide>(s < 0) - static_cast<Wide>(v < 0);
      out[18] = static_cast<Word>(static_cast<short>(x)) + static_cast<unsigned char>(y);
      out[19] = a << 7 | a >> 57;
    });

// Division by zero and overflow of a division are undefined; the operands avoid them.
EVERKERNEL_ON_BOTH(
    kDivisions, void divisions(Wide a, Wide b, Wide* out) {
      const Word x = static_cast<Word>(a);
      const Word y = static_cast<Word>(b) | (static_cast<Word>(b) == 0);
      const bool is_open = x == 0x80000000u && y == 0xFFFFFFFFu;
      const int s = static_cast<int>(x);
      const int t = is_open ? 1 : static_cast<int>(y);
      const Wide d = b | (b == 0);
      const bool is_wide_open = a == 1ull << 63 && d == ~0ull;
      const long long u = static_cast<long long>(a);
      const long long v = is_wide_open ? 1 : static_cast<long long>(d);
      out[0] = x / y;
      out[1] = x % y;
      out[2] = static_cast<Word>(s / t);
      out[3] = static_cast<Word>(s % t);
      out[4] = a / d;
      out[5] = a % d;
      out[6] = static_cast<Wide>(u / v);
      out[7] = static_cast<Wide>(u % v);
      out[8] = x / 10 + x % 7;
      out[9] = static_cast<Word>(s / 10 + s % 8);
      out[10] = a / 1000000007;
      out[11] = static_cast<Wide>(u / 10);
    });

// In PTX, which defines shifts by the width or more.
constexpr std::string_view kShifts = R"(
extern "C" __global__ void shifts(Wide* words) {
  Wide* const out = words + 24 * threadIdx.x;
  const Wide a = out[0];
  const Word x = (Word)a, count = (Word)out[1];
  Word r;
  asm("shl.b32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(count));
  out[2] = r;
  asm("shr.u32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(count));
  out[3] = r;
  asm("shr.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(count));
  out[4] = r;
  Wide w;
  asm("shl.b64 %0, %1, %2;" : "=l"(w) : "l"(a), "r"(count));
  out[5] = w;
  asm("shr.u64 %0, %1, %2;" : "=l"(w) : "l"(a), "r"(count));
  out[6] = w;
  asm("shr.s64 %0, %1, %2;" : "=l"(w) : "l"(a), "r"(count));
  out[7] = w;
  out[8] = __funnelshift_l(x, (Word)(a >> 32), count);
  out[9] = __funnelshift_r(x, (Word)(a >> 32), count);
  out[10] = __funnelshift_lc(x, (Word)(a >> 32), count);
  out[11] = __funnelshift_rc(x, (Word)(a >> 32), count);
}
)";

constexpr std::string_view kBits = R"(
extern "C" __global__ void bits(Wide* words) {
  Wide* const out = words + 24 * threadIdx.x;
  const Wide a = out[0];
  const Word x = (Word)a, y = (Word)out[1];
  out[2] = __clz((int)x);
  out[3] = __clzll((long long)a);
  out[4] = __popc(x);
  out[5] = __popcll(a);
  out[6] = __brev(x);
  out[7] = __brevll(a);
  out[8] = __ffs((int)x);
  out[9] = __umulhi(x, y);
  out[10] = (Word)__mulhi((int)x, (int)y);
  out[11] = __umul64hi(a, out[1]);
  out[12] = (Wide)__mul64hi((long long)a, (long long)out[1]);
  out[13] = __byte_perm(x, y, 0x6420);
  out[14] = __byte_perm(x, y, x);
  out[15] = (Word)abs((int)x);
}
)";

constexpr std::string_view kFloats = R"(
extern "C" __global__ void floats(Wide* words) {
  Wide* const out = words + 24 * threadIdx.x;
  const float a = __uint_as_float((Word)out[0]), b = __uint_as_float((Word)out[1]);
  out[2] = __float_as_uint(a + b);
  out[3] = __float_as_uint(a - b);
  out[4] = __float_as_uint(a * b);
  out[5] = __float_as_uint(fmaf(a, b, a));
  out[6] = __float_as_uint(a / b);
  out[7] = __float_as_uint(sqrtf(a));
  out[8] = __float_as_uint(fminf(a, b));
  out[9] = __float_as_uint(fmaxf(a, b));
  out[10] = __float_as_uint(fabsf(a)) | (Wide)__float_as_uint(-b) << 32;
  out[11] = (a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a > b) << 4 |
            (a >= b) << 5 | (!(a < b)) << 6 | (!(a >= b)) << 7 | isnan(a) << 8;
  out[12] = __float_as_uint(floorf(a)) | (Wide)__float_as_uint(ceilf(a)) << 32;
  out[13] = __float_as_uint(truncf(a)) | (Wide)__float_as_uint(rintf(a)) << 32;
  out[14] = (Word)__float2int_rz(a) | (Wide)__float2uint_rz(a) << 32;
  out[15] = __float_as_uint((float)(int)(Word)out[0]);
  out[16] = __float_as_uint((float)(Word)out[0]);
  out[17] = __float_as_uint((float)out[0]);
  out[18] = __float2ull_rz(a);
  out[19] = (Word)__float2int_rd(a) | (Wide)(Word)__float2int_ru(a) << 32;
  out[20] = __float_as_uint(a < b ? 1.0f : 0.0f);
  out[21] = __float_as_uint(!(fabsf(a) <= b) ? 1.0f : 0.0f);
}
)";

constexpr std::string_view kDoubles = R"(
__device__ __forceinline__ Wide one_nan(double x) {
  return x != x ? 0x7FF8000000000000ull : (Wide)__double_as_longlong(x);
}
extern "C" __global__ void doubles(Wide* words) {
  Wide* const out = words + 24 * threadIdx.x;
  const double a = __longlong_as_double((long long)out[0]);
  const double b = __longlong_as_double((long long)out[1]);
  const float f = __uint_as_float((Word)out[0]);
  out[2] = one_nan(__dadd_rn(a, b));
  out[3] = one_nan(__dsub_rn(a, b));
  out[4] = one_nan(__dmul_rn(a, b));
  out[5] = one_nan(__fma_rn(a, b, a));
  out[6] = one_nan(__fma_rn(-a, b, 1.5));
  out[7] = one_nan(__fma_rn(a, 0x1.4p-3, b));
  out[8] = one_nan(__ddiv_rn(a, b));
  out[9] = (a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a > b) << 4 |
           (a >= b) << 5 | (!(a < b)) << 6 | (!(a >= b)) << 7 | (a > 1.5) << 8;
  out[10] = __float_as_uint(__double2float_rn(a));
  out[11] = one_nan((double)f);
  out[12] = one_nan(__dadd_rn(a, -0x1.8p52));
  out[13] = one_nan(__dmul_rn(a, -0.5));
  out[14] = one_nan(__dadd_rz(a, b));
  out[15] = one_nan(__dmul_ru(a, b));
  out[16] = one_nan(__fma_rd(a, b, a));
  out[17] = __float_as_uint(__double2float_rz(-a));
  out[18] = one_nan(__dadd_rn(fabs(a), -fabs(b)));
}
)";

// ---- control flow ----

// Lanes diverge in loops of different lengths and converge again.
EVERKERNEL_ON_BOTH(
    kWays, Word ways(Word x, Word lane) {
      Word sum = 0;
      if ((x & 1) != 0) {
        x = x * 3 + 1;
        if ((lane & 2) != 0) x ^= 0x55;
      } else {
        x = x / 2;
      }
      for (Word i = 0; i < lane; ++i) {
        if (x % 13 == 5) break;
        if (x % 5 == 2) {
          x += lane;
          continue;
        }
        for (Word k = i; k < x % 7; ++k) {
          if (k == 4) break;
          sum += k * x;
          if ((sum & 0x40) != 0) return sum ^ x;
        }
        x = x * 5 + i;
      }
      while (x > 100) x = (x & 1) != 0 ? x / 3 : x / 2;
      return sum + x;
    });

// Cases without a common pattern, so that the compiler makes a jump table.
EVERKERNEL_ON_BOTH(
    kChoice, Word choice(Word which, Word x, Word* memory) {
      switch (which) {
        case 0:
          memory[0] = x + 1;
          return x;
        case 1:
          return x * x;
        case 2:
          memory[1] = x ^ 77;
          return x / 3;
        case 3:
          return x % 11;
        case 4:
          memory[0] = x << 3;
          memory[1] = x;
          return 5;
        case 5:
          return memory[0] + x;
        case 6:
          return memory[1] * x;
        case 7:
          memory[1] = 9;
          return x >> 3;
        case 8:
          for (Word i = 0; i < x % 5; ++i) memory[0] += i;
          return memory[0];
        case 9:
          return ~x;
        default:
          return 1000;
      }
    });

EVERKERNEL_ON_BOTH(
    kTable, Word table(Word x, Word lane) {
      Word values[16];
      for (Word i = 0; i < 16; ++i) values[i] = x + i * i;
      for (Word i = 0; i < 40; ++i) {
        const Word at = values[(lane + i) % 16] % 16;
        values[at] += values[i % 16] ^ i;
      }
      Word sum = 0;
      for (Word i = 0; i < 16; ++i) sum = sum * 31 + values[i];
      return sum;
    });

// Loops in loops, more than a warp has convergence barriers, with a call in the innermost.
constexpr std::string_view kNested = R"(
template <int kLevel>
struct Nested {
  static __device__ __forceinline__ Word run(Word x, Word lane, Word* memory) {
    for (Word i = 0; i <= (x >> kLevel) % 3; ++i) {
      if (((x + lane) >> kLevel % 5 & 1) != 0) {
        x = Nested<kLevel - 1>::run(x * 3 + i, lane, memory);
        if (x % 7 == 3) break;
      } else {
        memory[x % 4] += lane;
      }
    }
    return x ^ memory[x % 4];
  }
};
template <>
struct Nested<0> {
  static __device__ __noinline__ Word run(Word x, Word lane, Word* memory) {
    if (x % 3 == 0) memory[lane % 4] ^= x;
    return x + 1;
  }
};
extern "C" __global__ void run_nested(Word* words) {
  Word* const own = words + 8 * threadIdx.x;
  own[0] = Nested<10>::run(own[0], threadIdx.x, own + 4);
}
)";
Word nested(Word level, Word x, Word lane, Word* memory) {
  if (level == 0) {
    if (x % 3 == 0) memory[lane % 4] ^= x;
    return x + 1;
  }
  for (Word i = 0; i <= (x >> level) % 3; ++i) {
    if (((x + lane) >> level % 5 & 1) != 0) {
      x = nested(level - 1, x * 3 + i, lane, memory);
      if (x % 7 == 3) break;
    } else {
      memory[x % 4] += lane;
    }
  }
  return x ^ memory[x % 4];
}

constexpr std::string_view kWayKernels = R"(
extern "C" __global__ void run_integers(Wide* words) {
  Wide* const out = words + 24 * threadIdx.x;
  integers(out[0], out[1], out + 2);
}
extern "C" __global__ void run_divisions(Wide* words) {
  Wide* const out = words + 24 * threadIdx.x;
  divisions(out[0], out[1], out + 2);
}
extern "C" __global__ void run_ways(Word* words) {
  words[threadIdx.x] = ways(words[threadIdx.x], threadIdx.x);
}
extern "C" __global__ void run_choice(Word* words) {
  Word* const own = words + 4 * threadIdx.x;
  own[0] = choice(own[0], own[1], own + 2);
}
extern "C" __global__ void run_table(Word* words) {
  words[threadIdx.x] = table(words[threadIdx.x], threadIdx.x);
}
__device__ __noinline__ Word called_by_another(Word x, Word* local) {
  local[x % 4] += x;
  return local[(x + 1) % 4] * 3;
}
__device__ __noinline__ Word called(Word x, Word* local) {
  if (x % 3 == 0) return called_by_another(x, local) + 1;
  return called_by_another(x + 7, local) ^ local[x % 4];
}
extern "C" __global__ void run_calls(Word* words) {
  Word local[4] = {1, 2, 3, threadIdx.x};
  Word x = words[threadIdx.x];
  for (Word i = 0; i < 5 + threadIdx.x % 3; ++i) x = called(x + i, local);
  words[threadIdx.x] = x + local[0] + local[3];
}
extern "C" __global__ void places(Word* words) {
  Word* const own = words + 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  own[0] = blockIdx.x;
  own[1] = blockDim.x;
  own[2] = gridDim.x;
  own[3] = threadIdx.x;
}
)";

// ---- collectives ----

constexpr std::string_view kTogether = R"(
extern "C" __global__ void shuffles(Word* words) {
  const Word lane = threadIdx.x;
  Word* const out = words + 8 * lane;
  const Word x = out[0];
  out[1] = __shfl_sync(~0u, x, (lane * 7 + 3) % 32);
  out[2] = __shfl_up_sync(~0u, x, 3);
  out[3] = __shfl_down_sync(~0u, x, 5);
  out[4] = __shfl_xor_sync(~0u, x, 9);
  out[5] = __shfl_sync(~0u, x, 5, 8);
  out[6] = __shfl_up_sync(~0u, x, 2, 8);
  if (lane < 16) {
    out[7] = __shfl_sync(0xFFFFu, x, lane % 2 == 0 ? 20 : 15 - lane);
  } else {
    out[7] = __shfl_down_sync(0xFFFF0000u, x, 1, 16);
  }
}
extern "C" __global__ void votes(Word* words) {
  const Word lane = threadIdx.x;
  Word* const out = words + 24 * lane;
  const Word x = out[0];
  out[1] = __ballot_sync(~0u, x % 3 == 0);
  out[2] = __any_sync(~0u, x == 1000) | __any_sync(~0u, x == 3) << 1 |
           __all_sync(~0u, x < 1000) << 2 | __all_sync(~0u, x != 3) << 3;
  out[3] = __match_any_sync(~0u, x % 5);
  out[4] = __reduce_add_sync(~0u, x);
  out[5] = __reduce_min_sync(~0u, x);
  out[6] = __reduce_max_sync(~0u, x);
  out[7] = (Word)__reduce_min_sync(~0u, (int)x - 40);
  out[8] = (Word)__reduce_max_sync(~0u, (int)x - 400);
  out[9] = __reduce_and_sync(~0u, x | 0xF0);
  out[10] = __reduce_or_sync(~0u, x);
  out[11] = __reduce_xor_sync(~0u, x);
  if (lane % 2 == 0) {
    out[12] = __reduce_add_sync(0x55555555u, x);
    out[13] = __ballot_sync(0x55555555u, x % 4 == 0);
  } else {
    out[12] = __reduce_max_sync(0xAAAAAAAAu, x);
    out[13] = __match_any_sync(0xAAAAAAAAu, x % 4);
  }
  out[14] = __activemask();
}
extern "C" __global__ void reverse(Word* words) {
  __shared__ Word fixed[128];
  extern __shared__ Word tile[];
  const Word i = threadIdx.x, n = blockDim.x;
  Word* const own = words + 4 * n * blockIdx.x;
  fixed[i] = own[i];
  tile[i] = own[i] * 2;
  __syncthreads();
  const Word x = fixed[n - 1 - i], y = tile[(i + 40) % n];
  own[i] = x;
  own[n + i] = y;
  own[2 * n + i] = __syncthreads_count(x % 3 == 0);
  own[3 * n + i] = (__syncthreads_or(y == 46) != 0) | (__syncthreads_or(y == 47) != 0) << 1;
}
extern "C" __global__ void steps_of_a_block(Word* words) {
  __shared__ Word sums[256];
  const Word i = threadIdx.x;
  sums[i] = words[i];
  __syncthreads();
  for (Word by = 1; by < blockDim.x; by *= 2) {
    const Word other = i >= by ? sums[i - by] : 0;
    __syncthreads();
    sums[i] += other;
    __syncthreads();
  }
  words[i] = sums[i];
}
)";

// ---- memory ----

constexpr std::string_view kMemory = R"(
template <class T>
__device__ __forceinline__ void update(T* totals, T* before, T x) {
  before[0] = atomicAdd(totals, x);
  before[1] = atomicMin(totals + 1, x);
  before[2] = atomicMax(totals + 2, x);
  atomicAnd(totals + 3, ~x);
  atomicOr(totals + 4, x);
  atomicXor(totals + 5, x * 3);
  before[3] = atomicExch(totals + 6, x);
  T seen = totals[7];
  for (;;) {
    const T found = atomicCAS(totals + 7, seen, seen * 2 + 1);
    if (found == seen) break;
    seen = found;
  }
}
extern "C" __global__ void update_words(Word* words) {
  const Word i = blockIdx.x * blockDim.x + threadIdx.x;
  update(words, words + 16 + 4 * i, i * 7 + 1);
  atomicMin((int*)words + 8, (int)i - 5);
  atomicMax((int*)words + 9, (int)i - 5);
}
extern "C" __global__ void update_wides(Wide* words) {
  const Word i = blockIdx.x * blockDim.x + threadIdx.x;
  update<Wide>(words, words + 16 + 4 * i, i * 0x700000001ull + 1);
}
extern "C" __global__ void update_shared_words(Word* words) {
  __shared__ Word totals[10];
  const Word i = threadIdx.x;
  if (i < 10) totals[i] = words[i];
  __syncthreads();
  update(totals, words + 16 + 4 * i, i * 7 + 1);
  atomicMin((int*)totals + 8, (int)i - 5);
  atomicMax((int*)totals + 9, (int)i - 5);
  __syncthreads();
  if (i < 10) words[i] = totals[i];
}
extern "C" __global__ void update_shared_wides(Wide* words) {
  __shared__ Wide totals[2];
  const Word i = threadIdx.x;
  if (i < 2) totals[i] = words[i];
  __syncthreads();
  words[16 + i] = atomicExch(totals, i + 100ull);
  Wide seen = totals[1];
  for (;;) {
    const Wide found = atomicCAS(totals + 1, seen, seen + 0x100000001ull);
    if (found == seen) break;
    seen = found;
  }
  __syncthreads();
  if (i < 2) words[i] = totals[i];
}
extern "C" __global__ void sizes(Word* words) {
  const unsigned char* const bytes = (const unsigned char*)words;
  const Word i = threadIdx.x;
  words[16 + i] = bytes[i] + (Word)((const signed char*)bytes)[i + 32];
  words[48 + i] = ((const unsigned short*)bytes)[i] + (Word)((const short*)bytes)[i + 1];
  ((unsigned char*)(words + 80))[i] = (unsigned char)(i * 9);
  ((unsigned short*)(words + 88))[i] = (unsigned short)(i * 999);
  if (i < 4) {
    const uint4 four = ((const uint4*)words)[i];
    ((uint4*)(words + 104))[i] = make_uint4(four.w, four.z, four.y, four.x);
    const uint2 two = ((const uint2*)words)[i];
    ((uint2*)(words + 120))[i] = make_uint2(two.y, two.x);
  }
}
__device__ Word variable[4] = {10, 20, 30, 40};
__constant__ Word constants[4] = {5, 6, 7, 8};
extern "C" __global__ void variables(Word* words) {
  const Word i = threadIdx.x;
  variable[i] += constants[3 - i];
  words[i] = variable[i];
}
struct Pair { unsigned char a; Wide b; };
extern "C" __global__ void parameters(Wide* words, unsigned char a, short b, Word c, Wide d,
                                      Pair e) {
  words[0] = a;
  words[1] = (Wide)(long long)b;
  words[2] = c;
  words[3] = d;
  words[4] = e.a + e.b;
}
extern "C" __global__ void one_after_the_other(Word* words) {
  volatile Word* const flag = words;
  while (*flag != gridDim.x - 1 - blockIdx.x) {
  }
  words[1 + *flag] = blockIdx.x;
  __threadfence();
  *flag = *flag + 1;
}
)";

// ---- rules that must not be broken ----

// What kernels do that stay resident and share memory with the host.
constexpr std::string_view kResident = R"(
extern "C" __global__ void quads(Wide* words) {
  Wide* const own = words + 4 * threadIdx.x;
  Wide first, second;
  asm volatile("{ .reg .b128 q; ld.relaxed.sys.global.b128 q, [%2]; mov.b128 {%0, %1}, q; }"
               : "=l"(first), "=l"(second) : "l"(own) : "memory");
  asm volatile("{ .reg .b128 q; mov.b128 q, {%0, %1}; st.relaxed.sys.global.b128 [%2], q; }"
               :: "l"(second), "l"(first), "l"(own + 2) : "memory");
  asm volatile("{ .reg .b128 q; ld.acquire.gpu.global.b128 q, [%2]; mov.b128 {%0, %1}, q; }"
               : "=l"(first), "=l"(second) : "l"(own + 2) : "memory");
  asm volatile("{ .reg .b128 q; mov.b128 q, {%0, %1}; st.release.sys.global.b128 [%2], q; }"
               :: "l"(first + 1), "l"(second + 1), "l"(own) : "memory");
}
extern "C" __global__ void bytes(unsigned char* words) {
  unsigned char* const own = words + 8 * threadIdx.x;
  Word value;
  asm volatile("ld.relaxed.sys.global.u8 %0, [%1];" : "=r"(value) : "l"(own) : "memory");
  asm volatile("st.relaxed.sys.global.u8 [%0], %1;" :: "l"(own + 1), "r"(value + 1) : "memory");
  asm volatile("ld.acquire.sys.global.u8 %0, [%1];" : "=r"(value) : "l"(own + 1) : "memory");
  asm volatile("st.release.sys.global.u8 [%0], %1;" :: "l"(own + 2), "r"(value + 1) : "memory");
  asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=r"(value) : "l"(own + 2) : "memory");
  asm volatile("st.relaxed.sys.global.u16 [%0], %1;" :: "l"(own + 4), "r"(value) : "memory");
}
extern "C" __global__ void fences(Word* words) {
  words[0] = 1;
  asm volatile("fence.acq_rel.sys;" ::: "memory");
  words[1] = 2;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  words[2] = 3;
  asm volatile("fence.acq_rel.cta;" ::: "memory");
  words[3] = 4;
  asm volatile("fence.sc.sys;" ::: "memory");
  words[4] = 5;
  asm volatile("fence.sc.gpu;" ::: "memory");
  words[5] = 6;
  __threadfence_system();
  words[6] = 7;
}
extern "C" __global__ void times(Wide* words) {
  Wide* const own = words + 8 * threadIdx.x;
  Wide begin, end;
  Word low, high;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(low));
  asm volatile("mov.u32 %0, %%globaltimer_hi;" : "=r"(high));
  const long long clock = clock64();
  do {
    __nanosleep(100);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
  } while (end < begin + 100000);
  own[0] = begin;
  own[1] = end;
  own[2] = low;
  own[3] = high;
  own[4] = clock64() - clock;
}
extern "C" __global__ void masks(Word* words) {
  Word* const own = words + 8 * threadIdx.x;
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(own[0]));
  asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(own[1]));
  asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(own[2]));
  asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(own[3]));
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(own[4]));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(own[5]));
}
extern "C" __global__ void matches(Wide* words) {
  Wide* const own = words + 8 * threadIdx.x;
  const Wide x = own[0];
  int is_all = 2;
  own[1] = __match_any_sync(~0u, x);
  own[2] = __match_all_sync(~0u, x, &is_all);
  own[2] |= (Wide)is_all << 32;
  own[3] = __match_all_sync(~0u, x >> 40, &is_all);
  own[3] |= (Wide)is_all << 32;
  own[4] = __match_all_sync(~0u, (Word)(x >> 33), &is_all);
  own[4] |= (Wide)is_all << 32;
  own[5] = __match_all_sync(~0u, (Word)x, &is_all);
  own[5] |= (Wide)is_all << 32;
}
extern "C" __global__ void counts(Word* words, Word in_shared) {
  __shared__ Word shared[2];
  shared[threadIdx.x % 2] = 0;
  __syncthreads();
  atomicInc(words, 20);
  atomicDec(words + 1, 20);
  asm volatile("red.relaxed.cta.global.add.u32 [%0], %1;" :: "l"(words + 2), "r"(2) : "memory");
  atomicMin((long long*)(words + 4), -5 - (long long)threadIdx.x);
  atomicMax((long long*)(words + 6), 5 + (long long)threadIdx.x);
  Word* const any = in_shared != 0 ? shared : words + 8;  // an address of either kind
  atomicAdd(any, 3);
  atomicCAS(any + 1, threadIdx.x, threadIdx.x + 1);
  __syncthreads();
  words[10] = shared[0];
  words[11] = shared[1] != 0;
}
extern "C" __global__ void locked(Word* words) {
  __shared__ Word lock, sum;
  if (threadIdx.x == 0) lock = sum = 0;
  __syncthreads();
  const Word at = (Word)__cvta_generic_to_shared(&lock);
  if (threadIdx.x % 32 == 0) {
    for (Word before = 1; before != 0;) {
      asm volatile("atom.acquire.cta.shared.cas.b32 %0, [%1], 0, 1;"
                   : "=r"(before) : "r"(at) : "memory");
      if (before != 0) __nanosleep(40);
    }
    const Word seen = *(volatile Word*)&sum;
    __nanosleep(40);
    *(volatile Word*)&sum = seen + 1;
    asm volatile("st.release.cta.shared.u32 [%0], 0;" :: "r"(at) : "memory");
  }
  __syncthreads();
  words[threadIdx.x] = sum;
}
extern "C" __global__ void sleepers(volatile Word* words, Word count) {
  if (threadIdx.x < 32) {
    for (Word i = 0; i < count; ++i) words[1] = i;
    words[0] = 1;
  } else {
    while (words[0] == 0) __nanosleep(1000);
  }
}
extern "C" __global__ void gives_up(Word* words) {
  if (words[0] == 0) __trap();
}
)";

constexpr std::string_view kTrouble = R"(
extern "C" __global__ void write_at(Word* words, Wide offset) {
  *(Word*)((char*)words + offset) = 7;
}
extern "C" __global__ void read_at(Word* words, Wide offset) {
  words[0] = *(Word*)((char*)words + offset);
}
extern "C" __global__ void write_shared_at(Word* words, Wide offset) {
  extern __shared__ Word tile[];
  tile[offset] = words[0];
  words[0] = tile[words[1]];
}
extern "C" __global__ void half_a_barrier(Word* words) {
  if (threadIdx.x < 16) {
    __syncthreads();
    words[threadIdx.x] = 1;
  }
  __syncwarp();
  words[threadIdx.x] += 1;
}
extern "C" __global__ void other_halves(Word* words) {
  if (threadIdx.x < 16) {
    __syncwarp(0x0001FFFFu);
    words[threadIdx.x] = words[31];
  } else {
    __syncwarp(0xFFFF8000u);
    words[threadIdx.x] = words[30] + 1;
  }
}
extern "C" __global__ void never_ends(Word* words) {
  while (*(volatile Word*)words == 0) {
  }
  words[1] = 1;
}
extern "C" __global__ void dot_products(Word* words) {
  words[0] = __dp4a(words[1], words[2], words[3]);
}
)";

// ---- running ----

// The shape of a launch.
struct Shape {
  std::uint32_t blocks = 1, threads = 32, shared_bytes = 0;
  std::uint64_t limit = 10'000'000;
};

// The module, compiled on first use.
const Result<Cubin>& module_of(const backend::cuda::Nvrtc& nvrtc) {
  static const Result<Cubin> module = [&]() -> Result<Cubin> {
    std::string text = "typedef unsigned Word;\ntypedef unsigned long long Wide;\n";
    for (const auto part :
         {kIntegers, kDivisions, kShifts, kBits, kFloats, kDoubles, kWays, kChoice, kTable, kNested,
          kWayKernels, kTogether, kMemory, kResident, kTrouble}) {
      text += part;
    }
    const std::vector<std::string> options = {"-fmad=false"};
    const auto code = nvrtc.compile(
        {.source = {"machine_test.cu", text}, .options = options, .architecture = 90});
    if (!code) return Failure(code.error());
    return Cubin::load(code->bytes);
  }();
  return module;
}

class Machine : public ::testing::Test {
 protected:
  void SetUp() override {
    EVERKERNEL_NEEDS_NVRTC(nvrtc);
    const auto& module = module_of(*nvrtc);
    ASSERT_TRUE(module) << module.error().message;
    cubin_ = &*module;
  }

  const Kernel& kernel(std::string_view name) const {
    return cubin_->kernels().at(std::string(name));
  }

  // The parameters of a kernel, laid out as in constant bank 0.
  template <class... Values>
  std::vector<std::byte> pack(const Kernel& kernel, const Values&... values) const {
    std::vector<std::byte> bytes(kernel.constants.size() - kernel.parameter_offset);
    std::size_t i = 0;
    (std::memcpy(bytes.data() + kernel.parameters.at(i++).offset, &values, sizeof values), ...);
    return bytes;
  }

  template <class T>
  MayAccess only(std::span<T> words, bool may_write = true) const {
    const std::span<const std::byte> memory = std::as_bytes(words);
    const std::span<const std::byte> globals = cubin_->globals();
    return [=](std::uint64_t address, std::size_t size, bool writes) {
      const auto holds = [&](std::span<const std::byte> bytes) {
        const auto begin = reinterpret_cast<std::uint64_t>(bytes.data());
        return address >= begin && address - begin <= bytes.size() &&
               size <= bytes.size() - (address - begin);
      };
      return holds(globals) || (holds(memory) && (may_write || !writes));
    };
  }

  // Runs a launch to its end; returns the number of instructions.
  template <class T, class... Values>
  Result<std::uint64_t> run(std::string_view name, std::span<T> words, const Shape& shape,
                            const Values&... values) const {
    const Kernel& code = kernel(name);
    const auto program = EVERKERNEL_TRY(read_program(code));
    const auto bytes = pack(code, words.data(), values...);
    Grid grid(program, *cubin_,
              {.block_count = shape.blocks,
               .thread_count = shape.threads,
               .shared_bytes = shape.shared_bytes,
               .parameters = bytes,
               .instruction_limit = shape.limit},
              only(words));
    for (;;) {
      const bool is_over = EVERKERNEL_TRY(grid.run(10'000));
      if (is_over) return grid.instructions();
    }
  }
  template <class T, class... Values>
  void expect_run(std::string_view name, std::vector<T>& words, const Shape& shape = {},
                  const Values&... values) const {
    const auto executed = run(name, std::span(words), shape, values...);
    ASSERT_TRUE(executed) << executed.error().message;
  }
  template <class... Values>
  std::string refusal(std::string_view name, std::vector<Word>& words, const Shape& shape,
                      const Values&... values) const {
    const auto executed = run(name, std::span(words), shape, values...);
    return executed ? std::string("it ran") : executed.error().message;
  }

  bool has_instruction(std::string_view name, std::string_view beginning) const {
    const auto& code = kernel(name).code;
    for (std::size_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
      const auto instruction =
          decode(std::span<const std::byte, kInstructionBytes>(&code[at], kInstructionBytes), at);
      if (instruction && instruction->name.starts_with(beginning)) return true;
    }
    return false;
  }

  const Cubin* cubin_ = nullptr;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// ---- records of 24 words: two operands, then results ----

constexpr std::size_t kRecord = 24;

constexpr Wide kEdges[] = {0,
                           1,
                           2,
                           3,
                           7,
                           10,
                           0x7FFFFFFF,
                           0x80000000,
                           0x80000001,
                           0xFFFFFFFE,
                           0xFFFFFFFF,
                           0x100000000,
                           0x123456789ABCDEF0,
                           0x7FFFFFFFFFFFFFFF,
                           0x8000000000000000,
                           0x80000000FFFFFFFF,
                           0xFFFFFFFF00000000,
                           0xFFFFFFFF80000000,
                           0xFFFFFFFFFFFFFFF6,
                           0xFFFFFFFFFFFFFFFF};

std::vector<Wide> records_of(std::span<const Wide> first, std::span<const Wide> second) {
  std::vector<Wide> records;
  for (const Wide a : first) {
    for (const Wide b : second) {
      records.resize(records.size() + kRecord);
      records[records.size() - kRecord] = a;
      records[records.size() - kRecord + 1] = b;
    }
  }
  return records;
}

// `model` computes the results for two operands on the host.
template <class Model>
void expect_records(std::span<const Wide> records, const Model& model) {
  for (std::size_t at = 0; at < records.size(); at += kRecord) {
    std::vector<Wide> expected(kRecord);
    expected[0] = records[at];
    expected[1] = records[at + 1];
    model(records[at], records[at + 1], expected.data() + 2);
    const std::vector<Wide> found(records.begin() + static_cast<std::ptrdiff_t>(at),
                                  records.begin() + static_cast<std::ptrdiff_t>(at + kRecord));
    for (std::size_t i = 0; i < kRecord; ++i) {
      EXPECT_EQ(found[i], expected[i])
          << fmt::format("result {} of {:#x} and {:#x}: {:#x}, not {:#x}", i, expected[0],
                         expected[1], found[i], expected[i]);
    }
  }
}

Shape shape_of(std::span<const Wide> records) {
  return {.threads = static_cast<std::uint32_t>(records.size() / kRecord)};
}

TEST_F(Machine, integers_are_those_of_cpp) {
  auto records = records_of(kEdges, kEdges);
  expect_run("run_integers", records, shape_of(records));
  expect_records(records, integers);
}

TEST_F(Machine, division_rounds_towards_zero) {
  auto records = records_of(kEdges, kEdges);
  expect_run("run_divisions", records, shape_of(records));
  expect_records(records, divisions);
}

TEST_F(Machine, shifts_do_not_wrap_but_where_they_should) {
  std::vector<Wide> counts(70);
  std::iota(counts.begin(), counts.end(), 0);
  auto records = records_of(std::span(kEdges).subspan(6, 14), counts);
  expect_run("shifts", records, {.threads = 980});
  expect_records(records, [](Wide a, Wide count, Wide* out) {
    const auto x = static_cast<Word>(a);
    const auto x_signed = static_cast<std::int32_t>(x);
    const auto a_signed = static_cast<std::int64_t>(a);
    const Wide most = std::min<Wide>(count, 31), wide_most = std::min<Wide>(count, 63);
    out[0] = count > 31 ? 0 : x << count;
    out[1] = count > 31 ? 0 : x >> count;
    out[2] = static_cast<Word>(x_signed >> most);
    out[3] = count > 63 ? 0 : a << count;
    out[4] = count > 63 ? 0 : a >> count;
    out[5] = static_cast<Wide>(a_signed >> wide_most);
    const Wide wrapped = count % 32, clamped = std::min<Wide>(count, 32);
    out[6] = (a << wrapped) >> 32;
    out[7] = static_cast<Word>(a >> wrapped);
    out[8] = (a << clamped) >> 32;
    out[9] = static_cast<Word>(a >> clamped);
  });
}

Word reversed(Word x) {
  Word result = 0;
  for (int i = 0; i < 32; ++i) result |= (x >> i & 1) << (31 - i);
  return result;
}
Word permuted(Word x, Word y, Word selection) {
  const Wide both = Wide{y} << 32 | x;
  Word result = 0;
  for (Word i = 0; i < 4; ++i) {
    const Word which = selection >> (4 * i) & 7;
    result |= static_cast<Word>(both >> (8 * which) & 0xFF) << (8 * i);
  }
  return result;
}

TEST_F(Machine, bits_are_counted_and_moved) {
  auto records = records_of(kEdges, kEdges);
  expect_run("bits", records, shape_of(records));
  expect_records(records, [](Wide a, Wide b, Wide* out) {
    const auto x = static_cast<Word>(a), y = static_cast<Word>(b);
    const auto s = static_cast<std::int32_t>(x);
    out[0] = static_cast<Wide>(std::countl_zero(x));
    out[1] = static_cast<Wide>(std::countl_zero(a));
    out[2] = static_cast<Wide>(std::popcount(x));
    out[3] = static_cast<Wide>(std::popcount(a));
    out[4] = reversed(x);
    out[5] = Wide{reversed(x)} << 32 | reversed(static_cast<Word>(a >> 32));
    out[6] = x == 0 ? 0 : static_cast<Wide>(std::countr_zero(x) + 1);
    out[7] = Wide{x} * y >> 32;
    out[8] = static_cast<Word>(std::int64_t{s} * static_cast<std::int32_t>(y) >> 32);
    out[9] = static_cast<Wide>(u128{a} * b >> 64);
    out[10] = static_cast<Wide>(s128{static_cast<s64>(a)} * static_cast<s64>(b) >> 64);
    out[11] = permuted(x, y, 0x6420);
    out[12] = permuted(x, y, x);
    out[13] = s < 0 ? 0 - x : x;
  });
}

// ---- floats ----

constexpr Wide kFloatEdges[] = {0x00000000, 0x80000000,              // zeros
                                0x3F800000, 0xBF800000,              // ones
                                0x3F800001, 0x40490FDB, 0xC2F6E979,  // other finite values
                                0x00000001, 0x807FFFFF, 0x00400000,  // denormals
                                0x00800000, 0x80800001,              // the smallest normal values
                                0x7F7FFFFF, 0xFF7FFFFF, 0x7F000000,  // the largest values
                                0x7F800000, 0xFF800000,              // infinities
                                0x7FC00000, 0xFFC12345, 0x7F800001,  // NaN
                                0x4F000000, 0xCF000000, 0x4F7FFFFF, 0x4F800000,
                                0x5F000000, 0x5F800000, 0xBF7FFFFF, 0x3F000000,
                                0x3FC00000, 0xBFC00000, 0x4B000001};

Word bits_of(float value) {
  return std::isnan(value) ? kNan : std::bit_cast<Word>(value);
}
float least(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
// Saturates; a NaN is 0.
template <class T>
T integer_of(float whole) {
  if (std::isnan(whole)) return 0;
  if (whole >= std::ldexp(1.0f, std::numeric_limits<T>::digits))
    return std::numeric_limits<T>::max();
  if (whole <= static_cast<float>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(whole);
}
Word signed_integer_of(float whole) {
  return static_cast<Word>(integer_of<std::int32_t>(whole));
}

void model_floats(Wide first, Wide second, Wide* out) {
  const auto a = std::bit_cast<float>(static_cast<Word>(first));
  const auto b = std::bit_cast<float>(static_cast<Word>(second));
  out[0] = bits_of(a + b);
  out[1] = bits_of(a - b);
  out[2] = bits_of(a * b);
  out[3] = bits_of(std::fmaf(a, b, a));
  out[4] = bits_of(a / b);
  out[5] = bits_of(std::sqrt(a));
  out[6] = bits_of(least(a, b));
  out[7] = bits_of(-least(-a, -b));
  out[8] = bits_of(std::fabs(a)) | Wide{bits_of(-b)} << 32;
  const bool results[] = {a<b, a <= b, a == b, a != b, a> b, a >= b, !(a < b), !(a >= b)};
  out[9] = Wide{std::isnan(a)} << 8;
  for (std::size_t i = 0; i < std::size(results); ++i) out[9] |= Wide{results[i]} << i;
  out[10] = bits_of(std::floor(a)) | Wide{bits_of(std::ceil(a))} << 32;
  out[11] = bits_of(std::trunc(a)) | Wide{bits_of(std::nearbyint(a))} << 32;
  out[12] = signed_integer_of(std::trunc(a)) | Wide{integer_of<Word>(std::trunc(a))} << 32;
  out[13] = bits_of(static_cast<float>(static_cast<std::int32_t>(first)));
  out[14] = bits_of(static_cast<float>(static_cast<Word>(first)));
  out[15] = bits_of(static_cast<float>(first));
  out[16] = std::isnan(a) ? Wide{1} << 63 : integer_of<Wide>(std::trunc(a));
  out[17] = signed_integer_of(std::floor(a)) | Wide{signed_integer_of(std::ceil(a))} << 32;
  out[18] = bits_of(a < b ? 1.0f : 0.0f);
  out[19] = bits_of(!(std::fabs(a) <= b) ? 1.0f : 0.0f);
}

TEST_F(Machine, floats_round_as_those_of_cpp_and_have_one_nan) {
  EXPECT_TRUE(has_instruction("floats", "FSET.BF.LT"));
  auto records = records_of(kFloatEdges, kFloatEdges);
  expect_run("floats", records, shape_of(records));
  expect_records(records, model_floats);
}

TEST_F(Machine, random_floats_round_as_those_of_cpp) {
  std::vector<Wide> some(31);
  Wide state = 1;
  for (Wide& value : some) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = state >> 32;
  }
  auto records = records_of(some, some);
  expect_run("floats", records, shape_of(records));
  expect_records(records, model_floats);
}

constexpr Wide kDoubleEdges[] = {0x0000000000000000, 0x8000000000000000,  // zeros
                                 0x3FF0000000000000, 0xBFF0000000000000,  // ones
                                 0x3FF0000000000001, 0x400921FB54442D18,  // other finite values
                                 0xC05EDD2F1A9FBE77, 0x4330000000000001, 0x3CA0000000000000,
                                 0x0000000000000001, 0x800FFFFFFFFFFFFF,  // denormals
                                 0x0010000000000000, 0x8010000000000001,  // the smallest normals
                                 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF,  // the largest values
                                 0x7FE0000000000000, 0x7FD0000000000003, 0x7FF0000000000000,
                                 0xFFF0000000000000,  // infinities
                                 0x7FF8000000000000, 0xFFF8000012345678, 0x7FF0000000000001,
                                 0x36A0000000000000, 0x3690000000000000, 0x3690000000000001,
                                 0x380FFFFFF0000000,  // next to denormals and ties of f32
                                 0x47EFFFFFEFFFFFFF, 0x47EFFFFFF0000000, 0x3FF0000010000000,
                                 0x3FF0000030000000, 0x1FF5555555555555};

// The value of `function` in a rounding mode of this machine.
template <class Function>
auto rounded_to(int mode, const Function& function) {
  std::fesetround(mode);
  const volatile auto result = function();
  std::fesetround(FE_TONEAREST);
  return +result;
}

void model_doubles(Wide first, Wide second, Wide* out) {
  const auto one_nan = [](double x) {
    return std::isnan(x) ? Wide{0x7FF8000000000000} : std::bit_cast<Wide>(x);
  };
  const volatile double a = std::bit_cast<double>(first), b = std::bit_cast<double>(second);
  out[0] = one_nan(a + b);
  out[1] = one_nan(a - b);
  out[2] = one_nan(a * b);
  out[3] = one_nan(std::fma(a, b, a));
  out[4] = one_nan(std::fma(-a, b, 1.5));
  out[5] = one_nan(std::fma(a, 0x1.4p-3, b));
  out[6] = one_nan(a / b);
  const bool results[] = {a<b, a <= b, a == b, a != b, a> b, a >= b, !(a < b), !(a >= b), a > 1.5};
  for (std::size_t i = 0; i < std::size(results); ++i) out[7] |= Wide{results[i]} << i;
  out[8] = bits_of(static_cast<float>(a));
  out[9] = one_nan(std::bit_cast<float>(static_cast<Word>(first)));
  out[10] = one_nan(a - 0x1.8p52);
  out[11] = one_nan(a * -0.5);
  out[12] = one_nan(rounded_to(FE_TOWARDZERO, [&] { return a + b; }));
  out[13] = one_nan(rounded_to(FE_UPWARD, [&] { return a * b; }));
  out[14] = one_nan(rounded_to(FE_DOWNWARD, [&] { return std::fma(a, b, a); }));
  out[15] = bits_of(rounded_to(FE_TOWARDZERO, [&] { return static_cast<float>(-a); }));
  out[16] = one_nan(std::fabs(a) - std::fabs(b));
}

TEST_F(Machine, doubles_round_as_those_of_cpp) {
  for (const char* name : {"DADD", "DMUL", "DFMA", "DSETP", "F2F.F64.F32", "F2F.F32.F64",
                           "MUFU.RCP64H", "DADD.RZ", "DMUL.RP", "DFMA.RM", "F2F.F32.F64.RZ"}) {
    EXPECT_TRUE(has_instruction("doubles", name)) << name;
  }
  auto records = records_of(kDoubleEdges, kDoubleEdges);
  expect_run("doubles", records, shape_of(records));
  expect_records(records, model_doubles);
}

TEST_F(Machine, random_doubles_round_as_those_of_cpp) {
  // Of all sizes, and of similar sizes.
  for (const Wide exponents : {0x7FF0000000000000u, 0x0030000000000000u}) {
    std::vector<Wide> some(31);
    Wide state = 1;
    for (Wide& value : some) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      value = (state ^ state >> 31) & (0x800FFFFFFFFFFFFFu | exponents);
      if (exponents >> 62 == 0) value |= 0x3FC0000000000000u;
    }
    auto records = records_of(some, some);
    expect_run("doubles", records, shape_of(records));
    expect_records(records, model_doubles);
  }
}

// ---- control flow ----

std::vector<Word> counting(std::size_t count, Word step = 1) {
  std::vector<Word> words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = static_cast<Word>(i) * step;
  return words;
}

TEST_F(Machine, lanes_part_and_meet) {
  for (const Word step : {1u, 37u, 0x9E3779B1u}) {
    auto words = counting(100, step);
    expect_run("run_ways", words, {.threads = 100});
    for (Word i = 0; i < 100; ++i) EXPECT_EQ(words[i], ways(i * step, i)) << i;
  }
}

TEST_F(Machine, a_table_says_where_to_go_on) {
  EXPECT_TRUE(has_instruction("run_choice", "BRX"));
  auto words = counting(4 * 96, 3);
  for (Word i = 0; i < 96; ++i) words[4 * i] = i % 12;
  auto expected = words;
  expect_run("run_choice", words, {.threads = 96});
  for (Word i = 0; i < 96; ++i) {
    Word* const own = &expected[4 * i];
    own[0] = choice(own[0], own[1], own + 2);
  }
  EXPECT_EQ(words, expected);
}

TEST_F(Machine, each_lane_has_memory_of_its_own) {
  EXPECT_TRUE(has_instruction("run_table", "STL"));
  auto words = counting(64, 11);
  expect_run("run_table", words, {.threads = 64});
  for (Word i = 0; i < 64; ++i) EXPECT_EQ(words[i], table(i * 11, i)) << i;
}

Word called_by_another(Word x, Word* local) {
  local[x % 4] += x;
  return local[(x + 1) % 4] * 3;
}
Word called(Word x, Word* local) {
  if (x % 3 == 0) return called_by_another(x, local) + 1;
  const Word result = called_by_another(x + 7, local);
  return result ^ local[x % 4];
}

TEST_F(Machine, lanes_that_are_apart_call_functions) {
  EXPECT_TRUE(has_instruction("run_calls", "CALL"));
  auto words = counting(64, 5);
  expect_run("run_calls", words, {.threads = 64});
  for (Word i = 0; i < 64; ++i) {
    Word local[4] = {1, 2, 3, i};
    Word x = i * 5;
    for (Word k = 0; k < 5 + i % 3; ++k) x = called(x + k, local);
    EXPECT_EQ(words[i], x + local[0] + local[3]) << i;
  }
}

TEST_F(Machine, lanes_that_are_apart_keep_barriers_in_registers) {
  EXPECT_TRUE(has_instruction("run_nested", "BMOV.32.CLEAR"));
  for (const Word step : {1u, 37u, 0x9E3779B1u}) {
    auto words = counting(8 * 64, step);
    auto expected = words;
    expect_run("run_nested", words, {.threads = 64});
    for (Word i = 0; i < 64; ++i) {
      Word* const own = &expected[8 * i];
      own[0] = nested(10, own[0], i, own + 4);
    }
    EXPECT_EQ(words, expected);
  }
}

TEST_F(Machine, threads_know_their_place) {
  std::vector<Word> words(4 * 3 * 40);
  expect_run("places", words, {.blocks = 3, .threads = 40});
  for (Word i = 0; i < 120; ++i) {
    const std::vector<Word> own(words.begin() + 4 * i, words.begin() + 4 * i + 4);
    EXPECT_EQ(own, (std::vector<Word>{i / 40, 40, 3, i % 40}));
  }
}

// ---- collectives ----

TEST_F(Machine, shuffles_read_other_lanes) {
  std::vector<Word> words(8 * 32);
  for (Word i = 0; i < 32; ++i) words[8 * i] = 100 + i;
  expect_run("shuffles", words);
  for (Word i = 0; i < 32; ++i) {
    const Word low = i / 8 * 8;
    const Word upper = i % 16 == 15 ? i : i + 1;
    const Word lower = i % 2 == 0 ? kUnknown : 100 + 15 - i;
    const std::vector<Word> expected = {100 + i,
                                        100 + (i * 7 + 3) % 32,
                                        100 + (i < 3 ? i : i - 3),
                                        100 + (i + 5 > 31 ? i : i + 5),
                                        100 + (i ^ 9),
                                        100 + low + 5,
                                        100 + (i % 8 < 2 ? i : i - 2),
                                        i < 16 ? lower : 100 + upper};
    EXPECT_EQ(std::vector<Word>(words.begin() + 8 * i, words.begin() + 8 * i + 8), expected) << i;
  }
}

// The reduction of the values of a mask's lanes.
template <class Function>
Word mask_of(const Function& function, Word lanes = ~0u) {
  Word mask = 0;
  for (Word i = 0; i < 32; ++i) {
    if ((lanes >> i & 1) != 0 && function(i)) mask |= 1u << i;
  }
  return mask;
}

TEST_F(Machine, votes_matches_and_sums_are_of_the_lanes_that_are_named) {
  std::vector<Word> words(24 * 32), values(32);
  for (Word i = 0; i < 32; ++i) words[24 * i] = values[i] = i * i % 97;
  expect_run("votes", words);
  const auto all = [&](auto function, Word begin) {
    return std::accumulate(values.begin(), values.end(), begin, function);
  };
  Word even_sum = 0, odd_most = 0;
  for (Word i = 0; i < 32; i += 2) even_sum += values[i];
  for (Word i = 1; i < 32; i += 2) odd_most = std::max(odd_most, values[i]);
  const Word least_value = *std::ranges::min_element(values);
  const Word most = *std::ranges::max_element(values);
  const Word has_three = std::ranges::count(values, 3u) != 0;
  for (Word i = 0; i < 32; ++i) {
    const auto is_like = [&](Word by) {
      return [&, by](Word k) { return values[k] % by == values[i] % by; };
    };
    const Word by_four = mask_of([&](Word k) { return values[k] % 4 == 0; }, 0x55555555u);
    const std::vector<Word> expected = {values[i],
                                        mask_of([&](Word k) { return values[k] % 3 == 0; }),
                                        has_three << 1 | 1u << 2 | (1 - has_three) << 3,
                                        mask_of(is_like(5)),
                                        all(std::plus<>(), 0u),
                                        least_value,
                                        most,
                                        least_value - 40,
                                        most - 400,
                                        all([](Word a, Word b) { return a & (b | 0xF0); }, ~0u),
                                        all(std::bit_or<>(), 0u),
                                        all(std::bit_xor<>(), 0u),
                                        i % 2 == 0 ? even_sum : odd_most,
                                        i % 2 == 0 ? by_four : mask_of(is_like(4), 0xAAAAAAAAu),
                                        ~0u};
    EXPECT_EQ(std::vector<Word>(words.begin() + 24 * i, words.begin() + 24 * i + 15), expected)
        << i;
  }
}

TEST_F(Machine, warps_of_a_block_meet_and_share_memory) {
  for (const Word n : {32u, 96u, 128u, 70u}) {
    auto words = counting(2 * 4 * n);
    for (Word i = 0; i < words.size(); ++i) words[i] = i % (4 * n);
    expect_run("reverse", words, {.blocks = 2, .threads = n, .shared_bytes = 4 * n});
    for (Word i = 0; i < 2 * n; ++i) {
      const Word* const own = &words[i / n * 4 * n];
      const Word k = i % n;
      EXPECT_EQ(own[k], n - 1 - k);
      EXPECT_EQ(own[n + k], (k + 40) % n * 2);
      EXPECT_EQ(own[2 * n + k], (n + 2) / 3);
      EXPECT_EQ(own[3 * n + k], 1u);
    }
  }
}

TEST_F(Machine, barriers_in_a_loop_keep_steps_apart) {
  auto words = counting(256, 3);
  expect_run("steps_of_a_block", words, {.threads = 256});
  for (Word i = 0; i < 256; ++i) EXPECT_EQ(words[i], 3 * i * (i + 1) / 2);
}

// ---- memory ----

constexpr Wide kBegin[] = {1000, 500, 2, ~0ull, 0, 0, 77, 0};

// Eight words that 64 threads update in any order, and the values that each thread saw.
template <class T>
void expect_updated(const std::vector<T>& words, T step) {
  constexpr T kThreads = 64;
  T sum = 1000, bits = 0, toggled = 0, doubled = 0;
  std::vector<T> all;
  for (T i = 0; i < kThreads; ++i) {
    const T x = i * step + 1;
    sum += x;
    bits |= x;
    toggled ^= x * 3;
    doubled = doubled * 2 + 1;
    all.push_back(x);
  }
  EXPECT_EQ(words[0], sum);
  EXPECT_EQ(words[1], 1u);
  EXPECT_EQ(words[2], all.back());
  EXPECT_EQ(words[3], static_cast<T>(~bits));
  EXPECT_EQ(words[4], bits);
  EXPECT_EQ(words[5], toggled);
  EXPECT_EQ(words[7], doubled);
  // Each exchange returned another thread's value; each addition returned a different partial sum.
  std::vector<T> exchanged = {words[6]}, sums = {sum};
  for (std::size_t i = 0; i < kThreads; ++i) {
    exchanged.push_back(words[16 + 4 * i + 3]);
    sums.push_back(words[16 + 4 * i]);
    EXPECT_TRUE(std::ranges::count(sums, T{1000}) <= 1);
    EXPECT_GE(words[16 + 4 * i + 1], 1u);
    EXPECT_LE(words[16 + 4 * i + 2], all.back());
  }
  all.push_back(77);
  std::ranges::sort(all);
  std::ranges::sort(exchanged);
  EXPECT_EQ(exchanged, all);
  for (std::size_t i = 0; i < kThreads; ++i) {
    const T after = words[16 + 4 * i] + static_cast<T>(i) * step + 1;
    EXPECT_EQ(std::ranges::count(sums, after), 1) << i;
  }
}

TEST_F(Machine, updates_of_global_words_are_whole) {
  std::vector<Word> words(16 + 4 * 64);
  for (std::size_t i = 0; i < 8; ++i) words[i] = static_cast<Word>(kBegin[i]);
  expect_run("update_words", words, {.blocks = 2});
  expect_updated<Word>(words, 7);
  EXPECT_EQ(words[8], static_cast<Word>(-5));
  EXPECT_EQ(words[9], 58u);
}

TEST_F(Machine, updates_of_global_words_of_64_bits_are_whole) {
  std::vector<Wide> words(16 + 4 * 64);
  std::ranges::copy(kBegin, words.begin());
  expect_run("update_wides", words, {.blocks = 2});
  expect_updated<Wide>(words, 0x700000001);
}

TEST_F(Machine, updates_of_shared_words_are_whole) {
  std::vector<Word> words(16 + 4 * 64);
  for (std::size_t i = 0; i < 8; ++i) words[i] = static_cast<Word>(kBegin[i]);
  expect_run("update_shared_words", words, {.threads = 64});
  expect_updated<Word>(words, 7);
  EXPECT_EQ(words[8], static_cast<Word>(-5));
  EXPECT_EQ(words[9], 58u);
}

TEST_F(Machine, updates_of_shared_words_of_64_bits_are_whole) {
  std::vector<Wide> words(16 + 64);
  words[0] = 99;
  words[1] = 5;
  expect_run("update_shared_wides", words, {.threads = 64});
  EXPECT_EQ(words[1], 5 + 64 * 0x100000001u);
  std::vector<Wide> exchanged(words.begin() + 16, words.end());
  exchanged.push_back(words[0]);
  std::ranges::sort(exchanged);
  for (std::size_t i = 0; i < exchanged.size(); ++i) EXPECT_EQ(exchanged[i], 99 + i);
}

TEST_F(Machine, accesses_have_sizes_from_1_to_16_bytes) {
  std::vector<Word> words(128);
  for (Word i = 0; i < 16; ++i) words[i] = 0x9E3779B1u * (i + 1);
  const auto bytes = [&](std::size_t at) { return words[at / 4] >> (at % 4 * 8) & 0xFF; };
  const auto halves = [&](std::size_t at) { return words[at / 2] >> (at % 2 * 16) & 0xFFFF; };
  expect_run("sizes", words);
  for (Word i = 0; i < 32; ++i) {
    const auto byte = static_cast<std::int8_t>(bytes(i + 32));
    const auto half = static_cast<std::int16_t>(halves(i + 1));
    EXPECT_EQ(words[16 + i], bytes(i) + static_cast<Word>(byte));
    EXPECT_EQ(words[48 + i], halves(i) + static_cast<Word>(half));
    EXPECT_EQ(bytes(4 * 80 + i), i * 9 & 0xFF);
    EXPECT_EQ(halves(2 * 88 + i), i * 999 & 0xFFFF);
  }
  for (Word i = 0; i < 16; ++i) EXPECT_EQ(words[104 + i], words[i ^ 3]);
  for (Word i = 0; i < 8; ++i) EXPECT_EQ(words[120 + i], words[i ^ 1]);
}

TEST_F(Machine, variables_keep_what_kernels_leave_and_constants_are_there) {
  std::vector<Word> words(4);
  expect_run("variables", words, {.threads = 4});
  EXPECT_EQ(words, (std::vector<Word>{18, 27, 36, 45}));
  expect_run("variables", words, {.threads = 4});
  EXPECT_EQ(words, (std::vector<Word>{26, 34, 42, 50}));
}

TEST_F(Machine, parameters_have_any_size) {
  struct Pair {
    unsigned char a = 4;
    Wide b = 1ull << 50;
  };
  std::vector<Wide> words(5);
  expect_run("parameters", words, {.threads = 1}, static_cast<unsigned char>(200), short{-3},
             0x80000001u, 0x123456789ABCDEFull, Pair());
  EXPECT_EQ(words, (std::vector<Wide>{200, static_cast<Wide>(-3), 0x80000001u, 0x123456789ABCDEF,
                                      (1ull << 50) + 4}));
}

TEST_F(Machine, blocks_that_wait_for_each_other_go_on_in_turns) {
  std::vector<Word> words(6);
  expect_run("one_after_the_other", words, {.blocks = 5, .threads = 1});
  EXPECT_EQ(words, (std::vector<Word>{5, 4, 3, 2, 1, 0}));
}

// ---- kernels that stay resident ----

TEST_F(Machine, sixteen_bytes_are_loaded_and_stored_at_once) {
  EXPECT_TRUE(has_instruction("quads", "LDG.E.128.STRONG.SYS"));
  EXPECT_TRUE(has_instruction("quads", "STG.E.128.STRONG.SYS"));
  std::vector<Wide> words(4 * 32);
  std::iota(words.begin(), words.end(), Wide{1} << 40);
  const auto before = words;
  expect_run("quads", words);
  for (std::size_t i = 0; i < words.size(); i += 4) {
    const std::vector<Wide> own(words.begin() + static_cast<std::ptrdiff_t>(i),
                                words.begin() + static_cast<std::ptrdiff_t>(i + 4));
    EXPECT_EQ(own, (std::vector<Wide>{before[i + 1] + 1, before[i] + 1, before[i + 1], before[i]}));
  }
}

TEST_F(Machine, bytes_and_halves_are_loaded_and_stored_alone) {
  EXPECT_TRUE(has_instruction("bytes", "STG.E.U8.STRONG.SYS"));
  std::vector<unsigned char> words(8 * 32);
  for (unsigned i = 0; i < 32; ++i) words[8 * i] = static_cast<unsigned char>(8 * i);
  expect_run("bytes", words);
  for (unsigned i = 0; i < 32; ++i) {
    const auto x = static_cast<unsigned char>(8 * i);
    const auto y = static_cast<unsigned char>(x + 1), z = static_cast<unsigned char>(x + 2);
    const std::vector<unsigned char> own(words.begin() + 8 * i, words.begin() + 8 * i + 8);
    EXPECT_EQ(own, (std::vector<unsigned char>{x, y, z, 0, z, 0, 0, 0}));
  }
}

TEST_F(Machine, every_fence_is_known) {
  EXPECT_TRUE(has_instruction("fences", "MEMBAR.SC.SYS"));
  EXPECT_TRUE(has_instruction("fences", "MEMBAR.ALL.GPU"));
  std::vector<Word> words(7);
  expect_run("fences", words, {.threads = 1});
  EXPECT_EQ(words, (std::vector<Word>{1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(Machine, time_goes_on_and_all_lanes_read_the_same) {
  EXPECT_TRUE(has_instruction("times", "NANOSLEEP"));
  std::vector<Wide> words(8 * 32);
  expect_run("times", words);
  EXPECT_GT(words[0], Wide{1} << 60);  // nanoseconds since 1970
  EXPECT_GE(words[1], words[0] + 100'000);
  EXPECT_GE(words[2] | words[3] << 32, words[0]);
  EXPECT_LT(words[2] | words[3] << 32, words[1]);
  EXPECT_GT(words[4], 0u);
  for (std::size_t i = 0; i < words.size(); ++i) EXPECT_EQ(words[i], words[i % 8]) << i;
}

TEST_F(Machine, lanes_and_warps_know_their_masks_and_numbers) {
  std::vector<Word> words(8 * 96);
  expect_run("masks", words, {.threads = 96});
  for (Word i = 0; i < 96; ++i) {
    const Wide below = (Wide{1} << i % 32) - 1, up_to = (Wide{2} << i % 32) - 1;
    const std::vector<Word> own(words.begin() + 8 * i, words.begin() + 8 * i + 6);
    EXPECT_EQ(own,
              (std::vector<Word>{static_cast<Word>(below), static_cast<Word>(up_to),
                                 static_cast<Word>(~up_to), static_cast<Word>(~below), i / 32, 0}));
  }
}

TEST_F(Machine, values_of_32_and_64_bits_are_matched) {
  EXPECT_TRUE(has_instruction("matches", "MATCH.ALL.U64"));
  constexpr Wide kAll = 1ull << 32 | ~0u;
  std::vector<Wide> words(8 * 32);
  for (Word i = 0; i < 32; ++i) words[8 * i] = (Wide{i} % 2 + 2) << 32 | i % 3;
  expect_run("matches", words);
  for (Word i = 0; i < 32; ++i) {
    const Word peers = mask_of([&](Word k) { return k % 6 == i % 6; });
    const std::vector<Wide> own(words.begin() + 8 * i + 1, words.begin() + 8 * i + 6);
    EXPECT_EQ(own, (std::vector<Wide>{peers, 0, kAll, kAll, 0})) << i;
  }
}

TEST_F(Machine, updates_of_words_of_either_kind_are_whole) {
  EXPECT_TRUE(has_instruction("counts", "ATOM.E.ADD"));
  for (const Word in_shared : {0u, 1u}) {
    std::vector<Word> words(12);
    expect_run("counts", words, {.threads = 64}, in_shared);
    EXPECT_EQ(words[0], 64u % 21);
    EXPECT_EQ(words[1], 20u * 64 % 21);
    EXPECT_EQ(words[2], 128u);
    EXPECT_EQ(words[4], static_cast<Word>(-68));
    EXPECT_EQ(words[5], ~0u);
    EXPECT_EQ(words[6], 68u);
    EXPECT_EQ(words[7], 0u);
    EXPECT_EQ(words[8], in_shared != 0 ? 0 : 3 * 64u);
    EXPECT_EQ(words[9] != 0, in_shared == 0);
    EXPECT_EQ(words[10], in_shared != 0 ? 3 * 64u : 0);
    EXPECT_EQ(words[11], in_shared);
  }
}

TEST_F(Machine, a_lock_in_shared_memory_admits_one_warp_at_a_time) {
  std::vector<Word> words(512);
  expect_run("locked", words, {.threads = 512});
  EXPECT_EQ(words, std::vector<Word>(512, 16));
}

TEST_F(Machine, warps_that_sleep_leave_their_turns_to_others) {
  std::vector<Word> words(2), alone(2);
  const auto few = run("sleepers", std::span(alone), {.threads = 32}, Word{5000});
  const auto many = run("sleepers", std::span(words), {.threads = 1024}, Word{5000});
  ASSERT_TRUE(few) << few.error().message;
  ASSERT_TRUE(many) << many.error().message;
  EXPECT_EQ(words, (std::vector<Word>{1, 4999}));
  EXPECT_LT(*many, 8 * *few);  // of 32 warps
}

// ---- rules that must not be broken ----

TEST_F(Machine, a_kernel_can_give_up) {
  std::vector<Word> words(1);
  const auto message = refusal("gives_up", words, {.threads = 1});
  EXPECT_HAS(message, "BPT.TRAP 0x1: the kernel gave up");
  words[0] = 1;
  expect_run("gives_up", words, {.threads = 1});
}

TEST_F(Machine, an_access_outside_is_an_error_that_names_instruction_and_address) {
  std::vector<Word> words(4);
  const auto address = reinterpret_cast<std::uint64_t>(words.data());
  const Shape one{.threads = 1};
  const auto written = refusal("write_at", words, one, Wide{16});
  EXPECT_HAS(written, "write_at, block 0: 0x");
  EXPECT_HAS(written, fmt::format("writes 4 bytes at {:#x}", address + 16));
  EXPECT_HAS(written, ": STG.E [");
  const auto read = refusal("read_at", words, one, 0 - Wide{4});
  EXPECT_HAS(read, fmt::format("reads 4 bytes at {:#x}", address - 4));
  EXPECT_HAS(read, ": LDG.E R");
  EXPECT_HAS(refusal("read_at", words, one, 0 - Wide{address}), "reads 4 bytes at 0x0");
  EXPECT_EQ(words, std::vector<Word>(4));
}

TEST_F(Machine, an_access_that_is_not_aligned_is_an_error) {
  std::vector<Word> words(4);
  const auto address = reinterpret_cast<std::uint64_t>(words.data());
  EXPECT_HAS(refusal("write_at", words, {.threads = 1}, Wide{2}),
             fmt::format("writes 4 bytes at {:#x}", address + 2));
  EXPECT_HAS(refusal("read_at", words, {.threads = 1}, Wide{5}),
             fmt::format("reads 4 bytes at {:#x}", address + 5));
}

TEST_F(Machine, who_may_only_read_does_not_write) {
  std::vector<Word> words(4);
  const auto program = read_program(kernel("write_at"));
  ASSERT_TRUE(program) << program.error().message;
  const auto bytes = pack(kernel("write_at"), words.data(), Wide{4});
  Grid grid(*program, *cubin_, {.parameters = bytes}, only(std::span(words), false));
  const auto is_over = grid.run(1000);
  ASSERT_FALSE(is_over);
  EXPECT_EQ(is_over.error().code, Code::corrupt);
  EXPECT_HAS(is_over.error().message, "writes 4 bytes");
}

// Shared memory is allocated in units of 128 bytes, behind 1024 reserved bytes.
TEST_F(Machine, shared_memory_ends_where_the_launch_says) {
  std::vector<Word> words = {7, 31};
  const Shape some{.threads = 1, .shared_bytes = 128};
  expect_run("write_shared_at", words, some, Wide{31});
  EXPECT_EQ(words[0], 7u);
  EXPECT_HAS(refusal("write_shared_at", words, some, Wide{32}), "of shared memory at 0x480");
  words[1] = 32;
  EXPECT_HAS(refusal("write_shared_at", words, some, Wide{31}), "LDS");
}

TEST_F(Machine, a_barrier_that_half_a_warp_reaches_is_an_error) {
  std::vector<Word> words(32);
  const auto message = refusal("half_a_barrier", words, {});
  EXPECT_HAS(message, "BAR.SYNC");
  EXPECT_HAS(message, "apart");
}

TEST_F(Machine, lanes_that_wait_for_each_other_for_ever_are_an_error) {
  std::vector<Word> words(64);
  const auto message = refusal("other_halves", words, {});
  EXPECT_HAS(message, "no lane can go on");
  EXPECT_HAS(message, "lanes ffff0000 at");
  EXPECT_HAS(message, "lanes 0000ffff at");
}

TEST_F(Machine, a_kernel_that_never_ends_comes_back_after_its_slice) {
  std::vector<Word> words(2);
  const auto program = read_program(kernel("never_ends"));
  ASSERT_TRUE(program) << program.error().message;
  const auto bytes = pack(kernel("never_ends"), words.data());
  Grid grid(*program, *cubin_, {.parameters = bytes}, only(std::span(words)));
  for (int i = 0; i < 3; ++i) {
    const auto before = grid.instructions();
    const auto is_over = grid.run(1000);
    ASSERT_TRUE(is_over) << is_over.error().message;
    EXPECT_FALSE(*is_over);
    EXPECT_GE(grid.instructions(), before + 1000);
    EXPECT_LT(grid.instructions(), before + 100'000);
  }
  words[0] = 1;
  const auto is_over = grid.run(100'000);
  ASSERT_TRUE(is_over) << is_over.error().message;
  EXPECT_TRUE(*is_over);
  EXPECT_EQ(words[1], 1u);
}

TEST_F(Machine, a_launch_has_a_limit) {
  std::vector<Word> words(2);
  const auto executed = run("never_ends", std::span(words), {.threads = 1, .limit = 50'000});
  ASSERT_FALSE(executed);
  EXPECT_EQ(executed.error().code, Code::timeout);
  EXPECT_HAS(executed.error().message, "never_ends ran too long");
}

TEST_F(Machine, an_instruction_that_it_does_not_know_is_refused_before_anything_runs) {
  const auto program = read_program(kernel("dot_products"));
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, Code::unsupported);
  EXPECT_HAS(program.error().message, "no known instruction");
}

}  // namespace
}  // namespace everkernel::simulator
