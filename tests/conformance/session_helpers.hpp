// Helpers that the tests of live sessions share.
#pragma once

#include <array>
#include <thread>

#include "conformance/backend_suite.hpp"

namespace everkernel::conformance {

using protocol::Operation;
using protocol::PackedOp;

inline constexpr std::array<Word, 2> kStore7{7, 160};  // STORE_U32: observable 0 ← 7
inline constexpr std::array<Word, 2> kAdd1{1, 161};    // ATOMIC_ADD: observable 1 += 1
inline constexpr Operation kNop{.opcode = 0};
inline constexpr Operation kAdd{.opcode = 2, .args = kAdd1};

/// More turns than any test waits for.
inline constexpr std::uint64_t kEndlessFuel = std::uint64_t{1} << 60;

inline std::uint64_t number(Ticket ticket) {
  return static_cast<std::uint64_t>(ticket);
}

/// Publishes items one by one, waiting for room.
inline void publish_many(Session& session, const Operation& item, Word count) {
  for (Word i = 0; i < count; ++i) must(session.publish(item, {.timeout = kPatience}));
}

/// Waits for a change that another thread makes.
template <class Condition>
bool comes_true(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

}  // namespace everkernel::conformance
