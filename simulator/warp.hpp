// The warps of a block: registers, divergence of lanes, checked memory access.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "simulator/instruction.hpp"
#include "simulator/machine.hpp"

namespace everkernel::simulator {

inline constexpr std::uint32_t kLanes = 32;
/// Windows of the generic address space for local and shared memory. No host address lies in them.
inline constexpr std::uint64_t kLocalAddress = std::uint64_t{0x7D} << 56;
inline constexpr std::uint64_t kSharedAddress = std::uint64_t{0x7E} << 56;
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 32;
/// Bytes at the beginning of a block's shared memory that the system reserves.
inline constexpr std::uint32_t kReservedShared = 1024;
/// The value of results that are undefined on a device, so that no test passes by accident.
inline constexpr std::uint32_t kUnknown = 0xBADC0FFEu;

/// Modifiers behind an instruction's name that change its result.
enum Modifier : std::uint32_t {
  kU32 = 1u << 0,
  kX = 1u << 1,
  kEx = 1u << 2,
  kHi = 1u << 3,
  kW = 1u << 4,
  kFtz = 1u << 5,
  kL = 1u << 6,
  kR = 1u << 7,
  kS32 = 1u << 8,
  kU64 = 1u << 9,
  kS64 = 1u << 10,
  kSh = 1u << 11,
  kSx32 = 1u << 13,
  kNtz = 1u << 14,
  kCas = 1u << 15,
  kU16 = 1u << 16,
  kU8 = 1u << 19,
  kSigned = 1u << 17,
  kAllOrNone = 1u << 18,  // a branch that is taken by all lanes of a fragment or by none
};

struct Step;
class Warp;

/// One lane that runs an instruction. A uniform instruction runs once, on any active lane.
struct Lane {
  Warp& warp;
  std::uint32_t number;
};
using LaneFunction = void (*)(Lane, const Step&);
using WarpFunction = void (*)(Warp&, const Step&, std::uint32_t mask);

/// An instruction with the function that executes it: exactly one of the two functions is set.
struct Step {
  Instruction instruction = {};
  LaneFunction lane_function = nullptr;
  WarpFunction warp_function = nullptr;
  bool is_uniform = false;
  std::uint32_t modifiers = 0;
  std::uint8_t kind = 0;        // a comparison, an atomic operation, a rounding
  std::uint8_t other_kind = 0;  // how a comparison joins its predicate
  std::uint8_t bytes = 4;       // of an access

  const Operand& operand(std::size_t i) const { return instruction.operands[i]; }
  std::size_t count() const { return instruction.operand_count; }
  bool has(Modifier modifier) const { return (modifiers & modifier) != 0; }
};

/// Fails with the part of the instruction that is not known.
Result<Step> step_of(const Instruction& instruction);

/// Memory that all blocks of a launch share.
struct Memory {
  MayAccess may_access = {};
  std::uint64_t write_count = 0;  // of global memory
  std::map<std::size_t, std::vector<std::byte>> banks = {};
};

/// The position of a block in its launch, and the sizes of its memory.
struct Place {
  std::uint32_t block = 0, thread_count = 1, sm_count = 1;
  std::uint32_t shared_bytes = 0, local_bytes = 0;
  std::uint64_t seed = 1;
};

/// Lanes of a warp that run together: they have the same next instruction.
struct Fragment {
  enum class Wait : std::uint8_t { none, meeting, warp, collective, block };
  std::uint32_t lanes = 0;
  std::size_t next = 0;  // instruction
  Wait wait = Wait::none;
  std::uint32_t waited_for = 0;  // the number of the meeting, or the mask of lanes
  std::uint32_t gathered = 0;    // the number of the collective, 0 if none
};

class Block;

/// 32 lanes.
///
/// A "meeting" is a convergence barrier: BSSY begins one for the lanes that execute it, BSYNC waits
/// for them, BREAK leaves it.
class Warp {
 public:
  Warp(Block& block, std::uint32_t first_thread, std::uint32_t lanes);

  // Registers.
  std::uint32_t get(const Operand& operand, std::uint32_t lane) {
    if (operand.kind == OperandKind::reg) [[likely]]
      return registers_[operand.index][lane];
    return operand.kind == OperandKind::immediate ? operand.value : get_other(operand, lane);
  }
  std::uint64_t get_wide(const Operand& operand, std::uint32_t lane);
  bool get_predicate(const Operand& operand, std::uint32_t lane) const {
    const bool value = operand.kind == OperandKind::uniform_predicate
                           ? uniform_predicates_[operand.index]
                           : (predicates_[operand.index] >> lane & 1) != 0;
    return value != operand.is_negative;
  }
  std::uint32_t predicate_mask(const Operand& operand) const;
  void set(const Operand& operand, std::uint32_t lane, std::uint32_t value) {
    if (operand.kind != OperandKind::reg) return set_other(operand, value);
    if (operand.index != kNoRegister) registers_[operand.index][lane] = value;
  }
  void set_wide(const Operand& operand, std::uint32_t lane, std::uint64_t value);
  void set_predicate(const Operand& operand, std::uint32_t lane, bool value) {
    if (operand.index == kTrue) return;
    if (operand.kind == OperandKind::uniform_predicate) {
      uniform_predicates_[operand.index] = value;
      return;
    }
    const std::uint32_t bit = 1u << lane;
    predicates_[operand.index] = (predicates_[operand.index] & ~bit) | (value ? bit : 0);
  }
  std::uint32_t constant(std::size_t bank, std::uint32_t offset);
  std::uint32_t constant_place(const Operand& operand, std::uint32_t lane) const;

  // Memory. If an access is not permitted, the result is null and the warp has failed.
  std::uint64_t address_of(const Operand& operand, std::uint32_t lane) const;
  std::byte* reach_global(std::uint64_t address, std::size_t size, bool writes);
  std::byte* reach_shared(std::uint64_t address, std::size_t size);
  std::byte* reach_local(std::uint64_t address, std::size_t size, std::uint32_t lane);
  std::byte* reach_any(std::uint64_t address, std::size_t size, std::uint32_t lane, bool writes);

  // Control flow of the fragment that runs.
  Fragment& current() { return fragments_[current_]; }
  void jump(std::uint32_t mask, std::size_t place);
  void exit(std::uint32_t mask);
  void begin_meeting(std::uint32_t mask, std::size_t barrier);
  void leave_meeting(std::uint32_t mask, std::size_t barrier);
  void meet(std::uint32_t mask, std::size_t barrier);
  /// The number of the lane's meeting at a barrier, 0 if none. Barriers beyond the sixteen that
  /// there are lie in registers for a time.
  std::uint32_t& meeting_of(std::uint32_t lane, std::size_t barrier) {
    return meetings_of_[barrier][lane];
  }
  void wait(Fragment::Wait wait, std::uint32_t waited_for);
  void end_collective();
  void let_others_run() { is_yielding_ = true; }
  /// Lets other warps run, too.
  void end_turn() { is_yielding_ = is_turn_over_ = true; }

  /// Runs a few instructions; returns how many, 0 if all lanes wait.
  std::uint64_t run(const std::vector<Step>& steps);
  bool is_over() const { return exited_ == all_; }
  /// Whether all lanes that have not exited wait at the block's barrier.
  bool waits_for_block() const;
  void pass_block_barrier(std::uint32_t result);
  /// The number of lanes whose predicate was true at a barrier: of this warp, and of the block.
  void bring(std::uint32_t count) { brought_ = count; }
  std::uint32_t brought() const { return brought_; }
  std::uint32_t block_result() const { return block_result_; }

  void fail_with(const std::string& why);
  const std::string& failure() const { return failure_; }
  std::string where(const std::vector<Step>& steps) const;
  std::uint32_t lanes_left() const { return all_ & ~exited_; }
  Block& block() { return block_; }
  std::uint32_t first_thread() const { return first_thread_; }

 private:
  std::uint32_t get_other(const Operand& operand, std::uint32_t lane);
  void set_other(const Operand& operand, std::uint32_t value);
  void split(std::uint32_t mask);
  void release_waiting();
  bool release_one_meeting();
  bool release_one_warp_wait();
  bool choose_fragment();
  void run_step(const Step& step);
  void drop_empty();

  Block& block_;
  std::uint32_t first_thread_;
  std::uint32_t all_;
  std::uint32_t exited_ = 0;
  std::vector<std::array<std::uint32_t, kLanes>> registers_;
  std::array<std::uint32_t, 8> predicates_ = {};  // a bit a lane
  std::array<std::uint32_t, 64> uniforms_ = {};
  std::array<bool, 8> uniform_predicates_ = {};
  std::array<std::array<std::uint32_t, kLanes>, 16> meetings_of_ = {};
  std::map<std::uint32_t, std::uint32_t> meetings_ =
      {};  // lanes still expected, by number of the meeting
  std::uint32_t next_meeting_ = 1;
  std::uint32_t next_collective_ = 1;
  std::vector<Fragment> fragments_ = {};
  std::map<std::uint32_t, std::vector<Fragment>> collectives_ = {};
  std::size_t current_ = 0;
  bool is_yielding_ = true;
  bool is_turn_over_ = false;
  std::uint64_t patience_ = 0;  // instructions until another fragment runs
  std::uint32_t brought_ = 0, block_result_ = 0;
  std::vector<std::byte> local_;
  std::string failure_ = {};
};

/// The warps of a block and the memory they share.
class Block {
 public:
  Block(const Place& place, Memory& memory);
  /// The next pseudo-random number of the launch's seed.
  std::uint32_t draw();
  /// Gives every warp one turn; returns the number of instructions that ran.
  std::uint64_t run(const std::vector<Step>& steps);
  bool is_over() const;
  const Place& place() const { return place_; }
  Memory& memory() { return memory_; }
  std::vector<std::byte>& shared() { return shared_; }
  const std::string& failure() const { return failure_; }
  const std::string& where() const { return where_; }

 private:
  void release_barrier();
  Place place_;
  Memory& memory_;
  std::vector<std::byte> shared_;
  std::uint64_t drawn_;
  std::vector<Warp> warps_ = {};
  std::string failure_ = {};
  std::string where_ = {};
};

}  // namespace everkernel::simulator
