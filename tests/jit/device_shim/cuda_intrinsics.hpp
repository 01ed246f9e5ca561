// Keywords and intrinsics of CUDA as C++ of this machine, with the results that the CUDA manual
// states. For files of src/jit/device that are compiled by the host compiler.
#pragma once

#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ static

inline float __uint_as_float(unsigned bits) {
  return __builtin_bit_cast(float, bits);
}
inline unsigned __float_as_uint(float value) {
  return __builtin_bit_cast(unsigned, value);
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline float __fsqrt_rn(float a) {
  return __builtin_sqrtf(a);
}
inline float floorf(float a) {
  return __builtin_floorf(a);
}
inline int __clz(int a) {
  return a == 0 ? 32 : __builtin_clz(static_cast<unsigned>(a));
}
inline int __popc(unsigned a) {
  return __builtin_popcount(a);
}
inline unsigned __float2uint_rz(float a) {
  return static_cast<unsigned>(a);
}
inline int __float2int_rz(float a) {
  return static_cast<int>(a);
}
inline float __uint2float_rn(unsigned a) {
  return static_cast<float>(a);
}
inline float __int2float_rn(int a) {
  return static_cast<float>(a);
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dsub_rn(double a, double b) {
  return a - b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __ddiv_rn(double a, double b) {
  return a / b;
}
inline float __double2float_rn(double a) {
  return static_cast<float>(a);
}
inline long long __double_as_longlong(double value) {
  return __builtin_bit_cast(long long, value);
}
inline double __longlong_as_double(long long bits) {
  return __builtin_bit_cast(double, bits);
}
