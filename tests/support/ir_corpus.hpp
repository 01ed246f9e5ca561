// Programs that verify and together use every production of the language: the examples of the
// language's description, then programs written for their statements and expressions.
#pragma once

#include <string_view>

namespace everkernel::test {

inline constexpr std::string_view kCorpus[] = {
    R"(// y[i] = a*x[i] + y[i] on f32 words; input and output are the buffers the work item names
handler saxpy = 64 {
  let a = bits_f32(param);
  let n = min(len(input), len(output));
  for i in 0 .. n {
    output[i] = bits_u32(a * bits_f32(input[i]) + bits_f32(output[i]));
  }
}

handler histogram = 65 scope group commutes {
  each i in 0 .. len(input) { atomic_add(output[input[i] & 255], 1); }
}

handler countdown = 66 {  // a continuation: runs once a claim, keeps its state in its own args
  if args[3] == 0 { return; }
  args[3] = args[3] - 1;
  yield;
}
)",
    R"(payload scope warp { if opcode == 9 { output[0] = tenant; } else { requeue; } })",
    R"(handler empty = 8 {} handler last = 0x7fffffff { } payload { })",
    R"(handler literals = 70 {
  let a = 7; let b = 0xfF; let c = 4294967295; let d = 7i; let e = 2147483647i; let f = 0x7fffffffi;
  let g = 1.5; let h = 0.0; let i = 1.0e10; let j = 2.5E-3; let k = 3.25e+2;
  let l = true; let m = false;
  let n = 3.4028234e38; let o = 1.4e-45; let p = 16777217.0; let q = 0.1;
})",
    R"(handler operators = 71 {
  var u = param; var s = i32(param); var x = f32(param); var t = u == 0;
  u = u * 2 / 3 % 5 + 1 - 2; u = u << 3 >> 1; u = u & 7 ^ 1 | 8; u = ~u; u = -u;
  s = s * 2i / 3i % 5i + 1i - 2i; s = s << 3 >> 1; s = s & 7i ^ 1i | 8i; s = ~s; s = -s;
  x = x * 2.0 / 3.0 + 1.0 - 2.0; x = -x;
  t = u < 1 && u <= 2 || u > 3 && u >= 4; t = u == 5 || u != 6; t = !t;
  t = s < 1i && x < 1.0; t = t == true; t = t != false;
  output[0] = u; output[1] = u32(s); output[2] = bits_u32(x); output[3] = u32(t);
})",
    R"(handler parentheses = 72 {
  let a = 1; let b = 2; let c = 3;
  let d = a - (b - c); let e = (a - b) - c; let f = (a + b) * c; let g = a + (b * c);
  let h = -(a + b); let i = (-a) * b; let j = ~(~a); let k = !(a == b); let l = !(!(a == b));
  let m = (a < b) == (b < c); let n = (a & b) == c; let o = (a == b || b == c) && a == c;
  let p = a << (b + c); let q = (a << b) + c; let r = (a | b) & (a ^ b); let s = a / (b / c);
})",
    R"(handler functions = 73 {
  let u = min(max(abs(param), 1), clz(popcount(rotl(param, 3))));
  let x = fma(sqrt(2.0), floor(1.5), select(u == 1, min(1.0, 2.0), max(3.0, abs(-4.0))));
  let s = min(i32(x), max(bits_i32(1.0), abs(i32(u))));
  let y = f32(s) + f32(u) + f32(x) + bits_f32(u) + bits_f32(s);
  let t = select(true, u32(true), u32(y)) + bits_u32(y) + u32(s) + bits_u32(s);
  printf(t, 1, 2); emit(t, 3, 4); min(1, 2); sqrt(2.0);
})",
    R"(handler atomics = 74 {
  let a = atomic_add(output[0], 1) + atomic_min(output[1], 2) + atomic_max(output[2], 3);
  let b = atomic_and(input[0], 1) | atomic_or(control[160], 2) | atomic_xor(buffer(a)[a + 1], 3);
  atomic_exchange(buffer(buffer(a)[b])[0], atomic_cas(output[a], b, 5));
})",
    R"(handler loops = 75 scope warp {
  var total = 0;
  for i in 0..len(input) {
    if input[i] == 0 { continue; } else if input[i] == 1 { break; } else { total = total + 1; }
    while total > 100 { total = total - 1; if total == 50 { break; } }
  }
  each i in -5i .. 5i {
    var local = u32(i);
    if lane == 3 { continue; }
    for j in 0 .. 3 { if j == 2 { break; } local = local + lanes; }
    if local == 9 { fault 1; }
    output[u32(i + 5i)] = local + total;
  }
})",
    R"(handler endings = 76 {
  args[3] = args[3] + 1; args[param] = priority + slot; args[0] = args[1];
  if args[3] == 1 { yield; }
  if args[3] == 2 { requeue; }
  if args[3] == 3 { await read(args[4], 1, args[5], 4096); }
  if args[3] == 4 { await write(args[4], args[5] * 2, 7, 512); }
  if args[3] == 5 { fault args[4] & 0xff; }
  control[160] = control[0] + len(control) + len(buffer(args[6]));
  return;
})",
    R"(handler pure_map = 77 scope group pure {
  each i in 0 .. min(len(input), len(output)) { output[i] = rotl(input[i], param) ^ args[2]; }
}
handler pure_bound = 78 pure commutes { atomic_max(output[0], input[0]); })",
    R"(handler chain = 79 {
  var x = 0;
  if param == 0 { x = 1; } else if param == 1 { x = 2; } else if param == 2 { } else { x = 3; }
  if param == 3 { } else { if param == 4 { x = 5; } }
  if param == 3 { } else { if param == 4 { x = 5; } x = 6; }
  if param == 5 { } else { }
  output[0] = x;
})",
    R"(handler updates = 80 {
  var u = 1; var s = 2i; var x = 1.5;
  u += 3; u -= 1; u *= 5; u /= 2; u %= 7; u &= 6; u |= 9; u ^= 3; u <<= 2; u >>= 1;
  s += 3i; s <<= 2; s >>= 1; s %= 5i; x += 1.0e1; x -= 0.25; x *= 2.0; x /= 3.0e-2;
  args[3] += 1; args[param & 7] ^= u; output[u & 3] += u; control[160] |= 1; buffer(2)[0] -= 1;
  output[0] = u; output[1] += u32(s); output[2] = bits_u32(x);
})",
    R"(handler steps = 81 {
  for i in 0 .. 10 step 3 { output[i] += i; }
  for i in -5i .. 5i step 2i { output[u32(i + 5i)] = u32(i); }
  for i in 0 .. len(output) step max(param, 1) { for j in i .. 9 step 4 { output[0] += j; } }
  let step = 2; for k in 0 .. 4 step step { output[k] = step; }
})",
    R"(const kRounds = 2 * kHalf; const kHalf = 3; const kLow = -5i;
const kPi = 3.14159; const kOn = !false;
fn twice(x: u32) -> u32 { return x + x; }
fn blend(a: f32, b: f32, t: f32) -> f32 { let d = b - a; return a + d * t; }
fn quad(x: u32) -> u32 { let y = twice(x); return twice(y); }
fn nine() -> i32 { return 4i - kLow; }
fn either(c: bool, a: i32, b: i32) -> i32 { return select(c && kOn, a, b); }
handler definitions = 82 {
  for i in 0 .. kRounds { output[i & 7] = quad(input[i & 3]) + twice(twice(i)); }
  output[0] = bits_u32(blend(1.0, kPi, 0.5)); output[1] = u32(either(param == 1, nine(), kLow));
  nine(); if twice(param) == kHalf && quad(atomic_add(output[2], 1)) > 4 { fault kHalf; }
}
payload { output[kHalf] = twice(kRounds); })",
    R"(const kWords = 8;
handler arrays = 83 scope warp {
  var a: [u32; kWords]; var s: [i32; 3]; var f: [f32; 2];
  for i in 0 .. kWords { a[i] = i * i; a[i] ^= param; }
  s[param & 1] -= 3i; f[1] = f32(a[3]); f[1] *= 0.5;
  each i in 0 .. kWords {
    var own: [u32; 4]; own[i & 3] += a[i]; output[i] = own[i & 3] + u32(s[1]) + bits_u32(f[1]);
  }
  output[a[1] & 7] += a[param % 9];
})",
};

}  // namespace everkernel::test
