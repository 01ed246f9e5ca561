#include "ptx_operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <unordered_map>

namespace everkernel::test::ptx {

std::byte* Thread::reach(Space space, std::uint64_t address, std::size_t size, bool writes) {
  const auto refuse = [&](std::string_view why) -> std::byte* {
    fail_with(
        fmt::format("{} {} bytes at {:#x}: {}", writes ? "stores" : "loads", size, address, why));
    return nullptr;
  };
  if (address % size != 0) return refuse("not aligned");
  if (space == Space::shared || space == Space::param) {
    auto& bytes = space == Space::shared ? shared : params;
    if (address > bytes.size() || bytes.size() - address < size) return refuse("outside");
    return bytes.data() + address;
  }
  for (const Region& region : regions) {
    if (address < region.first || address - region.first >= region.size) continue;
    if (space != Space::any && region.space != space) continue;
    if (region.size - (address - region.first) < size) return refuse("partly outside");
    if (writes && !region.is_writable) return refuse("nobody may write there");
    return reinterpret_cast<std::byte*>(address);
  }
  return refuse("outside of all regions");
}

namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

// ---- registers ----

template <class T>
T read(const Thread& thread, u32 index) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<u32>(thread.registers[index]));
  } else if constexpr (std::is_same_v<T, bool>) {
    return (thread.registers[index] & 1) != 0;
  } else {
    return static_cast<T>(thread.registers[index]);
  }
}

// Signed values fill a register that is wider than they are, as PTX says.
template <class T>
void write(Thread& thread, u32 index, T value) {
  if constexpr (std::is_same_v<T, float>) {
    thread.registers[index] = std::bit_cast<u32>(value);
  } else if constexpr (std::is_signed_v<T>) {
    thread.registers[index] = static_cast<u64>(s64{value});
  } else {
    thread.registers[index] = value;
  }
}

// What comes out of arithmetic: a NaN has the bits that the device gives it.
float settled(float value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7FFFFFFFu) : value;
}

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Double = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, s128, u128>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, s64, u64>,
                       std::conditional_t<std::is_signed_v<T>, s32, u32>>>;  // twice as wide

// ---- operations in general ----

template <class T, class Function>
void unary(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], Function{}(read<T>(thread, i.at[1])));
}
template <class T, class Function>
void binary(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], Function{}(read<T>(thread, i.at[1]), read<T>(thread, i.at[2])));
}
template <class T, class Function>
void ternary(Thread& thread, const Instruction& i) {
  write(thread, i.at[0],
        Function{}(read<T>(thread, i.at[1]), read<T>(thread, i.at[2]), read<T>(thread, i.at[3])));
}
template <class T, class Function>
void shift(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], Function{}(read<T>(thread, i.at[1]), read<u32>(thread, i.at[2])));
}

// A function object of a lambda's body.
#define EK_FUNCTION(name, parameters, ...) \
  struct name {                            \
    template <class T>                     \
    auto operator()(parameters(T)) const { \
      __VA_ARGS__                          \
    }                                      \
  };
#define EK_ONE(T) T a
#define EK_TWO(T) T a, T b

// ---- integers ----

EK_FUNCTION(Same, EK_ONE, return a;)
EK_FUNCTION(Plus, EK_TWO, return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b));)
EK_FUNCTION(Minus, EK_TWO, return static_cast<T>(static_cast<u64>(a) - static_cast<u64>(b));)
EK_FUNCTION(Times, EK_TWO, return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));)
EK_FUNCTION(TimesWide, EK_TWO, return static_cast<Double<T>>(Double<T>{a} * Double<T>{b});)
EK_FUNCTION(TimesHigh, EK_TWO,
            return static_cast<T>((Double<T>{a} * Double<T>{b}) >> (8 * sizeof(T)));)
EK_FUNCTION(Least, EK_TWO, return std::min(a, b);)
EK_FUNCTION(Most, EK_TWO, return std::max(a, b);)
EK_FUNCTION(Negative, EK_ONE, return static_cast<T>(u64{0} - static_cast<u64>(a));)
EK_FUNCTION(Not, EK_ONE, return static_cast<T>(~a);)
EK_FUNCTION(NotPredicate, EK_ONE, return !a;)
EK_FUNCTION(And, EK_TWO, return static_cast<T>(a & b);)
EK_FUNCTION(Or, EK_TWO, return static_cast<T>(a | b);)
EK_FUNCTION(Xor, EK_TWO, return static_cast<T>(a ^ b);)
EK_FUNCTION(Second, EK_TWO, static_cast<void>(a); return b;)
EK_FUNCTION(OneBits, EK_ONE, return static_cast<u32>(std::popcount(a));)
EK_FUNCTION(LeadingZeros, EK_ONE, return static_cast<u32>(std::countl_zero(a));)
#undef EK_FUNCTION
#undef EK_ONE
#undef EK_TWO

// A count that is too great shifts everything out.
struct ShiftLeft {
  template <class T>
  T operator()(T a, u32 count) const {
    return count >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<u64>(a) << count);
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, u32 count) const {
    constexpr u32 kBits = 8 * sizeof(T);
    if (count < kBits) return static_cast<T>(a >> count);
    return static_cast<T>(std::is_signed_v<T> ? a >> (kBits - 1) : T{0});
  }
};

template <class T>
struct ReverseBits {
  T operator()(T a) const {
    T reversed = 0;
    for (unsigned bit = 0; bit < 8 * sizeof(T); ++bit) {
      reversed = static_cast<T>(reversed << 1 | ((a >> bit) & 1));
    }
    return reversed;
  }
};

// PTX leaves some results open but lets everyone ask for them: NVRTC divides in front of a loop by
// what is no divisor, and does not use the result. Who does use it finds rubbish.
template <class T, bool kRemainder>
void divide(Thread& thread, const Instruction& i) {
  const T a = read<T>(thread, i.at[1]);
  const T b = read<T>(thread, i.at[2]);
  bool is_open = b == 0;
  if constexpr (std::is_signed_v<T>) {
    is_open |= a == std::numeric_limits<T>::min() && b == -1;
  }
  if (is_open) {
    thread.registers[i.at[0]] = kRubbish;
  } else {
    write(thread, i.at[0], static_cast<T>(kRemainder ? a % b : a / b));
  }
}

template <class T, class Product, class Sum>
void multiply_add(Thread& thread, const Instruction& i) {
  const auto product = Product{}(read<T>(thread, i.at[1]), read<T>(thread, i.at[2]));
  const auto addend = read<std::remove_const_t<decltype(product)>>(thread, i.at[3]);
  write(thread, i.at[0], Sum{}(product, addend));
}

template <bool kLeft, bool kWraps>
void funnel_shift(Thread& thread, const Instruction& i) {
  const u64 both = u64{read<u32>(thread, i.at[2])} << 32 | read<u32>(thread, i.at[1]);
  const u32 given = read<u32>(thread, i.at[3]);
  const u32 count = kWraps ? given & 31 : std::min(given, u32{32});
  write(thread, i.at[0], static_cast<u32>(kLeft ? (both << count) >> 32 : both >> count));
}

template <class T>
void extract_bits(Thread& thread, const Instruction& i) {
  using Bits = Unsigned<T>;
  constexpr u32 kTop = 8 * sizeof(T) - 1;
  const Bits a = read<Bits>(thread, i.at[1]);
  const u32 first = read<u32>(thread, i.at[2]) & 0xFF;
  const u32 count = read<u32>(thread, i.at[3]) & 0xFF;
  const bool fills =
      std::is_signed_v<T> && count != 0 && ((a >> std::min(first + count - 1, kTop)) & 1) != 0;
  Bits result = 0;
  for (u32 bit = 0; bit <= kTop; ++bit) {
    const bool is_set =
        bit < count && first + bit <= kTop ? ((a >> (first + bit)) & 1) != 0 : fills;
    result |= static_cast<Bits>(Bits{is_set} << bit);
  }
  write(thread, i.at[0], result);
}

template <class T>
void insert_bits(Thread& thread, const Instruction& i) {
  const T a = read<T>(thread, i.at[1]);
  T result = read<T>(thread, i.at[2]);
  const u32 first = read<u32>(thread, i.at[3]) & 0xFF;
  const u32 count = read<u32>(thread, i.at[4]) & 0xFF;
  for (u32 bit = 0; bit < count && first + bit < 8 * sizeof(T); ++bit) {
    const T mask = static_cast<T>(T{1} << (first + bit));
    result = static_cast<T>((result & ~mask) | (((a >> bit) & 1) != 0 ? mask : 0));
  }
  write(thread, i.at[0], result);
}

void permute(Thread& thread, const Instruction& i) {
  const u64 both = u64{read<u32>(thread, i.at[2])} << 32 | read<u32>(thread, i.at[1]);
  const u32 selection = read<u32>(thread, i.at[3]);
  u32 result = 0;
  for (u32 k = 0; k < 4; ++k) {
    const u32 selected = selection >> (4 * k) & 0xF;
    u32 byte = static_cast<u32>(both >> (8 * (selected & 7))) & 0xFF;
    if ((selected & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
    result |= byte << (8 * k);
  }
  write(thread, i.at[0], result);
}

void look_up(Thread& thread, const Instruction& i) {
  const u32 table = read<u32>(thread, i.at[4]);
  u32 result = 0;
  for (u32 bit = 0; bit < 32; ++bit) {
    u32 row = 0;
    for (u32 k = 1; k <= 3; ++k) row = row << 1 | (read<u32>(thread, i.at[k]) >> bit & 1);
    result |= (table >> row & 1) << bit;
  }
  write(thread, i.at[0], result);
}

// ---- floats ----

struct FloatAdd {
  float operator()(float a, float b) const { return settled(a + b); }
};
struct FloatSubtract {
  float operator()(float a, float b) const { return settled(a - b); }
};
struct FloatMultiply {
  float operator()(float a, float b) const { return settled(a * b); }
};
struct FloatDivide {
  float operator()(float a, float b) const { return settled(a / b); }
};
struct FloatFma {
  float operator()(float a, float b, float c) const { return settled(std::fmaf(a, b, c)); }
};
struct FloatRoot {
  float operator()(float a) const { return settled(std::sqrt(a)); }
};
struct FloatReciprocal {
  float operator()(float a) const { return settled(1.0f / a); }
};
struct FloatNegative {
  float operator()(float a) const { return settled(-a); }
};
struct FloatMagnitude {
  float operator()(float a) const { return settled(std::fabs(a)); }
};

// A NaN counts only if both are, or if it is asked for; -0 is below +0.
template <bool kLeast, bool kKeepsNan>
struct FloatExtreme {
  float operator()(float a, float b) const {
    if (kKeepsNan && (std::isnan(a) || std::isnan(b))) return settled(NAN);
    if (std::isnan(a)) return settled(b);
    if (std::isnan(b)) return a;
    const bool is_below = a == b ? std::signbit(a) : a < b;
    return is_below == kLeast ? a : b;
  }
};

struct Nearest {
  float operator()(float a) const { return settled(std::nearbyint(a)); }
};
struct Toward0 {
  float operator()(float a) const { return settled(std::trunc(a)); }
};
struct Down {
  float operator()(float a) const { return settled(std::floor(a)); }
};
struct Up {
  float operator()(float a) const { return settled(std::ceil(a)); }
};

// Saturates. NaN gives 0, or the top bit of 64.
template <class T, class Round>
struct FloatToInteger {
  T operator()(float a) const {
    using Limits = std::numeric_limits<T>;
    if (std::isnan(a)) return sizeof(T) == 8 ? static_cast<T>(u64{1} << 63) : T{0};
    const float rounded = Round{}(a);
    if (rounded >= std::ldexp(1.0f, Limits::digits)) return Limits::max();
    if (rounded < static_cast<float>(Limits::min())) return Limits::min();
    return static_cast<T>(rounded);
  }
};

template <class To>
struct Convert {
  template <class From>
  To operator()(From a) const {
    return static_cast<To>(a);
  }
};

// ---- comparisons ----

struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b && a <= b;
  }
};
// Of floats, false if one is NaN, as all without a `u` are.
struct Different {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b || a > b;
  }
};
using Less = std::less<>;
using LessOrEqual = std::less_equal<>;
using Greater = std::greater<>;
using GreaterOrEqual = std::greater_equal<>;
template <class Compare>
struct OrNan {
  bool operator()(float a, float b) const {
    return std::isnan(a) || std::isnan(b) || Compare{}(a, b);
  }
};
struct IsNan {
  bool operator()(float a, float b) const { return std::isnan(a) || std::isnan(b); }
};
struct IsNumber {
  bool operator()(float a, float b) const { return !std::isnan(a) && !std::isnan(b); }
};

template <class T, class Compare, class Combine>
bool compared(const Thread& thread, const Instruction& i) {
  const bool is = Compare{}(read<T>(thread, i.at[1]), read<T>(thread, i.at[2]));
  if constexpr (std::is_same_v<Combine, Same>) {
    return is;
  } else {
    return Combine{}(is, read<bool>(thread, i.at[3]));
  }
}
template <class T, class Compare, class Combine>
void set_predicate(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], compared<T, Compare, Combine>(thread, i));
}
template <class T, class Compare, class Combine>
void set_mask(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], compared<T, Compare, Combine>(thread, i) ? ~u32{0} : u32{0});
}
template <class T, class Compare, class Combine>
void set_float(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], compared<T, Compare, Combine>(thread, i) ? 1.0f : 0.0f);
}

template <class T>
void select(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], read<T>(thread, i.at[read<bool>(thread, i.at[3]) ? 1 : 2]));
}
// By the sign of a number; NaN has none.
template <class T, class By>
void select_by_sign(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], read<T>(thread, i.at[read<By>(thread, i.at[3]) >= 0 ? 1 : 2]));
}

// ---- memory ----

std::byte* reach(Thread& thread, const Instruction& i, u32 base, std::size_t size, bool writes) {
  u64 address = thread.registers[base] + static_cast<u64>(i.offset);
  if (i.space == Space::shared) address = static_cast<u32>(address);
  return thread.reach(i.space, address, size, writes);
}

template <class T>
void load(Thread& thread, const Instruction& i) {
  const std::byte* const from =
      reach(thread, i, i.at[i.vector_count], sizeof(T) * i.vector_count, false);
  if (from == nullptr) return;
  for (std::size_t k = 0; k < i.vector_count; ++k) {
    T value;
    std::memcpy(&value, from + k * sizeof(T), sizeof(T));
    write(thread, i.at[k], value);
  }
}
template <class T>
void store(Thread& thread, const Instruction& i) {
  std::byte* const to = reach(thread, i, i.at[0], sizeof(T) * i.vector_count, true);
  if (to == nullptr) return;
  for (std::size_t k = 0; k < i.vector_count; ++k) {
    const T value = read<T>(thread, i.at[1 + k]);
    std::memcpy(to + k * sizeof(T), &value, sizeof(T));
  }
}

// What an atomic does, with the address and the source at these operands. Gives the value before.
template <class T, class Function>
bool change(Thread& thread, const Instruction& i, std::size_t first, T& before) {
  std::byte* const at = reach(thread, i, i.at[first], sizeof(T), true);
  if (at == nullptr) return false;
  std::memcpy(&before, at, sizeof(T));
  const T after = Function{}(before, read<T>(thread, i.at[first + 1]));
  std::memcpy(at, &after, sizeof(T));
  return true;
}
template <class T, class Function>
void reduce_memory(Thread& thread, const Instruction& i) {
  T before;
  static_cast<void>(change<T, Function>(thread, i, 0, before));
}
template <class T, class Function>
void fetch_and_change(Thread& thread, const Instruction& i) {
  T before;
  if (change<T, Function>(thread, i, 1, before)) write(thread, i.at[0], before);
}
template <class T>
void compare_and_swap(Thread& thread, const Instruction& i) {
  std::byte* const at = reach(thread, i, i.at[1], sizeof(T), true);
  if (at == nullptr) return;
  T before;
  std::memcpy(&before, at, sizeof(T));
  const T after = before == read<T>(thread, i.at[2]) ? read<T>(thread, i.at[3]) : before;
  std::memcpy(at, &after, sizeof(T));
  write(thread, i.at[0], before);
}

// ---- the thread ----

void nothing(Thread&, const Instruction&) {}
void branch(Thread& thread, const Instruction& i) {
  thread.next = i.target;
}
void end(Thread& thread, const Instruction&) {
  thread.is_over = true;
}
void pack(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], u64{read<u32>(thread, i.at[2])} << 32 | u64{read<u32>(thread, i.at[1])});
}
void unpack(Thread& thread, const Instruction& i) {
  const u64 value = read<u64>(thread, i.at[2]);
  write(thread, i.at[0], static_cast<u32>(value));
  write(thread, i.at[1], static_cast<u32>(value >> 32));
}
// One lane has nobody to get a value from but itself.
void shuffle(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], read<u32>(thread, i.at[2]));
  write(thread, i.at[1], true);
}
void ballot(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], read<bool>(thread, i.at[1]) ? u32{1} : u32{0});
}
void active_mask(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], u32{1});
}
void reduce_predicates(Thread& thread, const Instruction& i) {
  write(thread, i.at[0], read<bool>(thread, i.at[2]));
}

// ---- the table ----

using Forms = std::unordered_map<std::string, Form>;

void add(Forms& forms, std::string name, std::string_view operands, Operation run) {
  forms.emplace(std::move(name), Form{run, operands});
}

// Calls visit<T>(name) for types.
template <class Visit>
void for_words(Visit visit) {
  visit.template operator()<u16>("u16");
  visit.template operator()<s16>("s16");
  visit.template operator()<u32>("u32");
  visit.template operator()<s32>("s32");
  visit.template operator()<u64>("u64");
  visit.template operator()<s64>("s64");
}
template <class Visit>
void for_bits(Visit visit) {
  visit.template operator()<u16>("b16");
  visit.template operator()<u32>("b32");
  visit.template operator()<u64>("b64");
}
template <class Visit>
void for_integers(Visit visit) {
  visit.template operator()<u8>("u8");
  visit.template operator()<s8>("s8");
  for_words(visit);
}

void add_arithmetic(Forms& forms) {
  for_words([&]<class T>(std::string_view type) {
    const auto named = [&](std::string_view name) { return fmt::format("{}.{}", name, type); };
    add(forms, named("add"), "dss", binary<T, Plus>);
    add(forms, named("sub"), "dss", binary<T, Minus>);
    add(forms, named("mul.lo"), "dss", binary<T, Times>);
    add(forms, named("mul.hi"), "dss", binary<T, TimesHigh>);
    add(forms, named("mad.lo"), "dsss", multiply_add<T, Times, Plus>);
    add(forms, named("mad.hi"), "dsss", multiply_add<T, TimesHigh, Plus>);
    add(forms, named("div"), "dss", divide<T, false>);
    add(forms, named("rem"), "dss", divide<T, true>);
    add(forms, named("min"), "dss", binary<T, Least>);
    add(forms, named("max"), "dss", binary<T, Most>);
    add(forms, named("shr"), "dss", shift<T, ShiftRight>);
    if constexpr (sizeof(T) < 8) {
      add(forms, named("mul.wide"), "dss", binary<T, TimesWide>);
      add(forms, named("mad.wide"), "dsss", multiply_add<T, TimesWide, Plus>);
    }
    if constexpr (sizeof(T) > 2) add(forms, named("bfe"), "dsss", extract_bits<T>);
    if constexpr (std::is_signed_v<T>) {
      add(forms, named("neg"), "ds", unary<T, Negative>);
    }
  });
}

void add_bits(Forms& forms) {
  for_bits([&]<class T>(std::string_view type) {
    const auto named = [&](std::string_view name) { return fmt::format("{}.{}", name, type); };
    add(forms, named("and"), "dss", binary<T, And>);
    add(forms, named("or"), "dss", binary<T, Or>);
    add(forms, named("xor"), "dss", binary<T, Xor>);
    add(forms, named("not"), "ds", unary<T, Not>);
    add(forms, named("shl"), "dss", shift<T, ShiftLeft>);
    add(forms, named("shr"), "dss", shift<T, ShiftRight>);
    if constexpr (sizeof(T) > 2) {
      add(forms, named("popc"), "ds", unary<T, OneBits>);
      add(forms, named("clz"), "ds", unary<T, LeadingZeros>);
      add(forms, named("brev"), "ds", unary<T, ReverseBits<T>>);
      add(forms, named("bfi"), "dssss", insert_bits<T>);
    }
  });
  add(forms, "and.pred", "dss", binary<bool, And>);
  add(forms, "or.pred", "dss", binary<bool, Or>);
  add(forms, "xor.pred", "dss", binary<bool, Xor>);
  add(forms, "not.pred", "ds", unary<bool, NotPredicate>);
  add(forms, "shf.l.wrap.b32", "dsss", funnel_shift<true, true>);
  add(forms, "shf.r.wrap.b32", "dsss", funnel_shift<false, true>);
  add(forms, "shf.l.clamp.b32", "dsss", funnel_shift<true, false>);
  add(forms, "shf.r.clamp.b32", "dsss", funnel_shift<false, false>);
  add(forms, "prmt.b32", "dsss", permute);
  add(forms, "lop3.b32", "dssss", look_up);
}

// Without .rn the second half of the compiler may contract: such a result is not known.
void add_floats(Forms& forms) {
  add(forms, "add.rn.f32", "dss", binary<float, FloatAdd>);
  add(forms, "sub.rn.f32", "dss", binary<float, FloatSubtract>);
  add(forms, "mul.rn.f32", "dss", binary<float, FloatMultiply>);
  add(forms, "div.rn.f32", "dss", binary<float, FloatDivide>);
  add(forms, "fma.rn.f32", "dsss", ternary<float, FloatFma>);
  add(forms, "sqrt.rn.f32", "ds", unary<float, FloatRoot>);
  add(forms, "rcp.rn.f32", "ds", unary<float, FloatReciprocal>);
  add(forms, "neg.f32", "ds", unary<float, FloatNegative>);
  add(forms, "abs.f32", "ds", unary<float, FloatMagnitude>);
  add(forms, "min.f32", "dss", binary<float, FloatExtreme<true, false>>);
  add(forms, "max.f32", "dss", binary<float, FloatExtreme<false, false>>);
  add(forms, "min.NaN.f32", "dss", binary<float, FloatExtreme<true, true>>);
  add(forms, "max.NaN.f32", "dss", binary<float, FloatExtreme<false, true>>);
}

template <class Round>
void add_rounding(Forms& forms, std::string_view round) {
  const auto named = [&](std::string_view to) { return fmt::format("cvt.{}.{}.f32", round, to); };
  add(forms, named("u32"), "ds", unary<float, FloatToInteger<u32, Round>>);
  add(forms, named("s32"), "ds", unary<float, FloatToInteger<s32, Round>>);
  add(forms, named("u64"), "ds", unary<float, FloatToInteger<u64, Round>>);
  add(forms, named("s64"), "ds", unary<float, FloatToInteger<s64, Round>>);
  add(forms, named("f32"), "ds", unary<float, Round>);
}

void add_conversions(Forms& forms) {
  for_integers([&]<class From>(std::string_view from) {
    for_integers([&]<class To>(std::string_view to) {
      add(forms, fmt::format("cvt.{}.{}", to, from), "ds", unary<From, Convert<To>>);
    });
    add(forms, fmt::format("cvt.rn.f32.{}", from), "ds", unary<From, Convert<float>>);
  });
  add_rounding<Nearest>(forms, "rni");
  add_rounding<Toward0>(forms, "rzi");
  add_rounding<Down>(forms, "rmi");
  add_rounding<Up>(forms, "rpi");
}

template <class T, class Compare>
void add_comparison(Forms& forms, std::string_view compare, std::string_view type) {
  const auto add_one = [&]<class Combine>(std::string_view combine, std::string_view operands) {
    const std::string middle = fmt::format("{}{}", compare, combine);
    add(forms, fmt::format("setp.{}.{}", middle, type), operands,
        set_predicate<T, Compare, Combine>);
    add(forms, fmt::format("set.{}.u32.{}", middle, type), operands, set_mask<T, Compare, Combine>);
    add(forms, fmt::format("set.{}.s32.{}", middle, type), operands, set_mask<T, Compare, Combine>);
    add(forms, fmt::format("set.{}.f32.{}", middle, type), operands,
        set_float<T, Compare, Combine>);
  };
  add_one.template operator()<Same>("", "dss");
  add_one.template operator()<And>(".and", "dsss");
  add_one.template operator()<Or>(".or", "dsss");
  add_one.template operator()<Xor>(".xor", "dsss");
}

void add_comparisons(Forms& forms) {
  const auto add_equality = [&]<class T>(std::string_view type) {
    add_comparison<T, Equal>(forms, "eq", type);
    add_comparison<T, Different>(forms, "ne", type);
  };
  const auto add_order = [&]<class T>(std::string_view type) {
    add_equality.template operator()<T>(type);
    add_comparison<T, Less>(forms, "lt", type);
    add_comparison<T, LessOrEqual>(forms, "le", type);
    add_comparison<T, Greater>(forms, "gt", type);
    add_comparison<T, GreaterOrEqual>(forms, "ge", type);
  };
  for_bits(add_equality);
  for_words(add_order);
  add_order.template operator()<float>("f32");
  add_comparison<float, OrNan<Equal>>(forms, "equ", "f32");
  add_comparison<float, OrNan<Different>>(forms, "neu", "f32");
  add_comparison<float, OrNan<Less>>(forms, "ltu", "f32");
  add_comparison<float, OrNan<LessOrEqual>>(forms, "leu", "f32");
  add_comparison<float, OrNan<Greater>>(forms, "gtu", "f32");
  add_comparison<float, OrNan<GreaterOrEqual>>(forms, "geu", "f32");
  add_comparison<float, IsNan>(forms, "nan", "f32");
  add_comparison<float, IsNumber>(forms, "num", "f32");
}

void add_moves(Forms& forms) {
  const auto add_type = [&]<class T>(std::string_view type) {
    add(forms, fmt::format("mov.{}", type), "ds", unary<T, Same>);
    add(forms, fmt::format("selp.{}", type), "dsss", select<T>);
    add(forms, fmt::format("slct.{}.s32", type), "dsss", select_by_sign<T, s32>);
    add(forms, fmt::format("slct.{}.f32", type), "dsss", select_by_sign<T, float>);
  };
  for_words(add_type);
  for_bits(add_type);
  add_type.template operator()<float>("f32");
  add(forms, "mov.pred", "ds", unary<bool, Same>);
  add(forms, "mov.b64 pack", "dss", pack);
  add(forms, "mov.b64 unpack", "dds", unpack);
  for (const char* const space : {"global", "local", "param", "const"}) {
    add(forms, fmt::format("cvta.{}.u64", space), "ds", unary<u64, Same>);
    add(forms, fmt::format("cvta.to.{}.u64", space), "ds", unary<u64, Same>);
  }
}

void add_memory(Forms& forms) {
  const auto add_access = [&]<class T>(std::string_view type) {
    add(forms, fmt::format("ld.{}", type), "da", load<T>);
    add(forms, fmt::format("st.{}", type), "as", store<T>);
  };
  for_integers(add_access);
  for_bits(add_access);
  add_access.template operator()<u8>("b8");
  add_access.template operator()<float>("f32");
  const auto add_atomic = [&]<class T, class Function>(std::string_view name) {
    add(forms, fmt::format("atom.{}", name), "das", fetch_and_change<T, Function>);
    add(forms, fmt::format("red.{}", name), "as", reduce_memory<T, Function>);
  };
  for_words([&]<class T>(std::string_view type) {
    if constexpr (sizeof(T) == 2) return;
    add_atomic.template operator()<T, Plus>(fmt::format("add.{}", type));
    add_atomic.template operator()<T, Least>(fmt::format("min.{}", type));
    add_atomic.template operator()<T, Most>(fmt::format("max.{}", type));
  });
  for_bits([&]<class T>(std::string_view type) {
    if constexpr (sizeof(T) == 2) return;
    add_atomic.template operator()<T, And>(fmt::format("and.{}", type));
    add_atomic.template operator()<T, Or>(fmt::format("or.{}", type));
    add_atomic.template operator()<T, Xor>(fmt::format("xor.{}", type));
    add(forms, fmt::format("atom.exch.{}", type), "das", fetch_and_change<T, Second>);
    add(forms, fmt::format("atom.cas.{}", type), "dass", compare_and_swap<T>);
  });
}

void add_control(Forms& forms) {
  for (const char* const name : {"bra", "bra.uni"}) add(forms, name, "l", branch);
  for (const char* const name : {"ret", "ret.uni", "exit"}) add(forms, name, "", end);
  for (const char* const name :
       {"bar.sync", "bar.warp.sync", "barrier.sync", "barrier.sync.aligned", "membar.cta",
        "membar.gl", "membar.sys", "fence.acq_rel.cta", "fence.acq_rel.gpu", "fence.acq_rel.sys",
        "fence.sc.cta", "fence.sc.gpu", "fence.sc.sys"}) {
    add(forms, name, "*", nothing);
  }
  for (const char* const kind : {"idx", "bfly", "up", "down"}) {
    add(forms, fmt::format("shfl.sync.{}.b32", kind), "ddssss", shuffle);
  }
  for (const char* const kind : {"any", "all", "uni"}) {
    add(forms, fmt::format("vote.sync.{}.pred", kind), "dss", unary<bool, Same>);
  }
  add(forms, "vote.sync.ballot.b32", "dss", ballot);
  add(forms, "activemask.b32", "d", active_mask);
  add(forms, "bar.red.or.pred", "dss", reduce_predicates);
  add(forms, "bar.red.and.pred", "dss", reduce_predicates);
  for (const char* const kind : {"add.u32", "min.u32", "max.u32", "add.s32", "min.s32", "max.s32",
                                 "and.b32", "or.b32", "xor.b32"}) {
    add(forms, fmt::format("redux.sync.{}", kind), "dss", unary<u32, Same>);
  }
}

Forms all_forms() {
  Forms forms;
  add_arithmetic(forms);
  add_bits(forms);
  add_floats(forms);
  add_conversions(forms);
  add_comparisons(forms);
  add_moves(forms);
  add_memory(forms);
  add_control(forms);
  return forms;
}

}  // namespace

const Form* find_form(const std::string& name) {
  static const Forms forms = all_forms();
  const auto found = forms.find(name);
  return found == forms.end() ? nullptr : &found->second;
}

}  // namespace everkernel::test::ptx
