// Arithmetic that reports overflow, and ratios that cannot overflow.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>

namespace everkernel {

/// a + b; empty if the sum does not fit T.
template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// a × b; empty if the product does not fit T.
template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// a + b, at most the largest T.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T saturating_add(T a, T b) {
  return checked_add(a, b).value_or(std::numeric_limits<T>::max());
}

/// part × scale / whole rounded down, at most scale; 0 when whole is 0.
[[nodiscard]] constexpr std::uint32_t scaled_ratio(std::uint64_t part, std::uint64_t whole,
                                                   std::uint32_t scale) {
  if (whole == 0) return 0;
  if (part >= whole) return scale;
  // part < whole, so the quotient is below scale; 128 bits hold any product.
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint32_t>(Wide{part} * scale / whole);
}

}  // namespace everkernel
