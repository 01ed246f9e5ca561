// Random numbers that are the same on every machine: a seed in a report replays anywhere. The
// distributions of the standard library differ between implementations, so this file uses none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "everkernel/abi/platform.hpp"

namespace everkernel::test {

/// xoshiro256**, seeded by splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9E3779B97F4A7C15u;
      std::uint64_t mixed = seed;
      mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
      mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
      word = mixed ^ (mixed >> 31);
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = rotated(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotated(state_[3], 45);
    return result;
  }

  abi::Word word() { return static_cast<abi::Word>(next() >> 32); }
  /// 0 … count − 1.
  abi::Word below(abi::Word count) {
    return static_cast<abi::Word>((std::uint64_t{word()} * count) >> 32);
  }
  /// low … high, both included.
  abi::Word between(abi::Word low, abi::Word high) { return low + below(high - low + 1); }
  /// True in `percent` of 100 cases.
  bool chance(abi::Word percent) { return below(100) < percent; }
  /// True in `part` of 1000 cases.
  bool rarely(abi::Word part) { return below(1000) < part; }
  /// One of the rows.
  template <class T, std::size_t kCount>
  const T& pick(const T (&rows)[kCount]) {
    return rows[below(static_cast<abi::Word>(kCount))];
  }
  template <class Rows>
  const auto& pick_from(const Rows& rows) {
    return rows[below(static_cast<abi::Word>(rows.size()))];
  }
  /// An index of `weights`, each as often as its weight says.
  std::size_t weighted(std::span<const abi::Word> weights) {
    abi::Word sum = 0;
    for (const abi::Word weight : weights) sum += weight;
    abi::Word at = below(sum);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (at < weights[i]) return i;
      at -= weights[i];
    }
    return weights.size() - 1;
  }

 private:
  static std::uint64_t rotated(std::uint64_t value, int count) {
    return (value << count) | (value >> (64 - count));
  }
  std::uint64_t state_[4] = {};
};

}  // namespace everkernel::test
