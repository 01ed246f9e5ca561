// Lets one test body run on private bytes and on live memory.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "everkernel/protocol/words.hpp"
#include "support/bytes.hpp"

namespace everkernel::test {

/// The two kinds of memory every writer serves.
using WordTypes = testing::Types<protocol::PrivateWords, protocol::LiveWords>;

/// Names of the two in test listings.
struct WordTypeNames {
  template <class Words>
  static std::string GetName(int) {
    return std::is_same_v<Words, protocol::LiveWords> ? "live" : "private";
  }
};

/// Zeroed bytes for a writer over `Words`. Live memory begins on a line; private bytes begin one
/// byte behind it, because they may have any alignment and the tests would not notice otherwise.
template <class Words>
class Storage {
 public:
  explicit Storage(std::size_t size) : storage_(size + kShift) {}
  explicit Storage(const Bytes& content) : Storage(content.size()) {
    std::copy(content.begin(), content.end(), span().begin());
  }
  std::span<std::byte> span() { return storage_.span().subspan(kShift); }
  Bytes bytes() { return Bytes(span().begin(), span().end()); }

 private:
  static constexpr std::size_t kShift = std::is_same_v<Words, protocol::LiveWords> ? 0 : 1;
  LineBytes storage_;
};

}  // namespace everkernel::test
