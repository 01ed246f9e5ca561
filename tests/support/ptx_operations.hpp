// What the PTX machine does for one instruction: the thread that runs, and a table of operations.
//
// The table has the operations by the names they have in PTX. A name that is not in it is refused:
// nothing is ever done that PTX might mean otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace everkernel::test::ptx {

/// The kinds of memory; `any` is an address without a kind.
enum class Space : std::uint8_t { any, global, local, shared, param };

/// Memory that may be accessed. Addresses are those of the host.
struct Region {
  std::uint64_t first = 0;
  std::uint64_t size = 0;
  bool is_writable = true;
  Space space = Space::global;
};

struct Thread;
struct Instruction;
using Operation = void (*)(Thread&, const Instruction&);

/// What a register holds before something is written to it, and where PTX leaves a result open.
inline constexpr std::uint64_t kRubbish = 0xBADC0FFEE0DDF00Du;

inline constexpr std::uint32_t kNoGuard = ~0u;
inline constexpr std::size_t kMaxOperands = 6;

/// One instruction. Constants lie behind the registers, so that every operand is an index.
struct Instruction {
  Operation run = nullptr;
  std::uint32_t guard = kNoGuard;  // a predicate
  bool guard_value = true;         // it runs if the predicate is this
  Space space = Space::any;
  std::uint8_t vector_count = 1;
  std::array<std::uint32_t, kMaxOperands> at = {};  // operands in their order
  std::int64_t offset = 0;                          // of the address
  std::size_t target = 0;                           // of a branch
  std::size_t line = 0;
};

/// The one thread that runs.
struct Thread {
  std::vector<std::uint64_t> registers = {};  // more bits than a register has do not count
  std::vector<Region> regions = {};           // global and local memory
  std::vector<std::byte> shared = {};
  std::vector<std::byte> params = {};
  std::size_t next = 0;  // instruction
  bool is_over = false;
  std::string failure = {};  // why it ended early

  void fail_with(std::string why) {
    failure = std::move(why);
    is_over = true;
  }
  /// Where an access goes, null if it may not be made: the thread is over then.
  std::byte* reach(Space space, std::uint64_t address, std::size_t size, bool writes);
};

/// An operation, and the operands it has: d is a destination, s a source, a an address, l a label;
/// `*` stands for any, which do nothing.
struct Form {
  Operation run = nullptr;
  std::string_view operands = {};
};

/// The operation of a name, null if there is none. Names of accesses have lost their kind of
/// memory, their vector and their order: `ld.u32`. `mov.b64 pack` makes one word of two, `mov.b64
/// unpack` two of one.
const Form* find_form(const std::string& name);

}  // namespace everkernel::test::ptx
