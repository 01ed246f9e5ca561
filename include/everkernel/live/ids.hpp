// The names by which programs speak of live work: each is a type of its own.
#pragma once

#include <array>
#include <cstdint>

#include "everkernel/abi/queue.hpp"
#include "everkernel/abi/slot.hpp"

namespace everkernel {

using abi::Priority;
using abi::Word;

/// A tenant: the owner of items. 0 is the operator.
struct TenantId {
  Word number = 0;  ///< 0..28

  /// The operator.
  constexpr TenantId() = default;
  /// That tenant.
  explicit constexpr TenantId(Word tenant) : number(tenant) {}
  /// Equal numbers.
  friend constexpr bool operator==(const TenantId&, const TenantId&) = default;
};

/// Names one published item, for the life of its queue. A queue refuses the ticket of another.
struct Ticket {
  std::uint64_t number = 0;  ///< its place in the order of its queue
  std::uint32_t queue = 0;   ///< names the queue among those of this process; 0 names none

  /// Its number.
  explicit constexpr operator std::uint64_t() const { return number; }
  /// Equal in both fields.
  friend constexpr bool operator==(const Ticket&, const Ticket&) = default;
};

/// Tickets of items that were published together.
struct TicketRange {
  Ticket first = {};  ///< of the first item
  Word count = 0;     ///< how many there are

  /// The ticket of one of them; `index` is below count.
  Ticket operator[](Word index) const { return {first.number + index, first.queue}; }
  /// The ticket of the last; of a batch, its fence.
  Ticket last() const { return (*this)[count - 1]; }
};

/// How an item ended.
struct Completion {
  Word fault_code = 0;               ///< 0 = DONE, else why it is FAULT
  std::array<Word, 3> results = {};  ///< in a queue with results: args 9, 10 and 11 at its end
  /// Whether it reached DONE.
  bool is_done() const { return fault_code == 0; }
};

}  // namespace everkernel
