// The warps of a block: registers, lanes that part and meet, and what one instruction does.
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
/// Where a generic address means the thread's own memory, or the block's. No address of the host
/// is there.
inline constexpr std::uint64_t kLocalAddress = std::uint64_t{0x7D} << 56;
inline constexpr std::uint64_t kSharedAddress = std::uint64_t{0x7E} << 56;
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 32;
/// What the system keeps for itself at the beginning of a block's memory.
inline constexpr std::uint32_t kReservedShared = 1024;
/// What is given where nobody can know; no test takes it for right.
inline constexpr std::uint32_t kUnknown = 0xBADC0FFEu;

/// What an instruction has behind its name, as far as anything depends on it.
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
  kAllOrNone = 1u << 18,  // a branch that lanes take together or not at all
};

struct Step;
class Warp;

/// One lane that runs an instruction. Uniform instructions run on any of them.
struct Lane {
  Warp& warp;
  std::uint32_t number;
};
using LaneFunction = void (*)(Lane, const Step&);
using WarpFunction = void (*)(Warp&, const Step&, std::uint32_t mask);

/// An instruction, ready to run: one of the two functions is there.
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

/// Fails with what is not known of it.
Result<Step> step_of(const Instruction& instruction);

/// What all blocks of a launch see.
struct Memory {
  MayAccess may_access = {};
  std::map<std::size_t, std::vector<std::byte>> banks = {};
};

/// A block among others.
struct Place {
  std::uint32_t block = 0, thread_count = 1;
  std::uint32_t shared_bytes = 0, local_bytes = 0;
  std::uint64_t seed = 1;
};

/// Lanes of a warp that run together.
struct Fragment {
  enum class Wait : std::uint8_t { none, meeting, warp, collective, block };
  std::uint32_t lanes = 0;
  std::size_t next = 0;  // instruction
  Wait wait = Wait::none;
  std::uint32_t waited_for = 0;  // the meeting, or the lanes
  std::uint32_t gathered = 0;    // the group of a collective, 0 if none
};

class Block;

/// 32 lanes.
class Warp {
 public:
  Warp(Block& block, std::uint32_t first_thread, std::uint32_t lanes);

  // Registers.
  std::uint32_t get(const Operand& operand, std::uint32_t lane);
  std::uint64_t get_wide(const Operand& operand, std::uint32_t lane);
  bool get_predicate(const Operand& operand, std::uint32_t lane) const;
  std::uint32_t predicate_mask(const Operand& operand) const;
  void set(const Operand& operand, std::uint32_t lane, std::uint32_t value);
  void set_wide(const Operand& operand, std::uint32_t lane, std::uint64_t value);
  void set_predicate(const Operand& operand, std::uint32_t lane, bool value);
  std::uint32_t constant(std::size_t bank, std::uint32_t offset);
  std::uint32_t constant_place(const Operand& operand, std::uint32_t lane) const;

  // Memory. Null if an access may not be made: the warp has failed then.
  std::uint64_t address_of(const Operand& operand, std::uint32_t lane) const;
  std::byte* reach_global(std::uint64_t address, std::size_t size, bool writes);
  std::byte* reach_shared(std::uint64_t address, std::size_t size);
  std::byte* reach_local(std::uint64_t address, std::size_t size, std::uint32_t lane);
  std::byte* reach_any(std::uint64_t address, std::size_t size, std::uint32_t lane, bool writes);

  // Ways. They are of the fragment that runs.
  Fragment& current() { return fragments_[current_]; }
  void jump(std::uint32_t mask, std::size_t place);
  void exit(std::uint32_t mask);
  void begin_meeting(std::uint32_t mask, std::size_t barrier);
  void leave_meeting(std::uint32_t mask, std::size_t barrier);
  void meet(std::uint32_t mask, std::size_t barrier);
  void wait(Fragment::Wait wait, std::uint32_t waited_for);
  void end_collective();
  void let_others_run() { is_yielding_ = true; }

  /// Runs a few instructions, unless nobody can go on.
  std::uint64_t run(const std::vector<Step>& steps);
  bool is_over() const { return exited_ == all_; }
  /// Whether all lanes that are left wait for the block.
  bool waits_for_block() const;
  void pass_block_barrier(std::uint32_t result);
  /// How many lanes said yes at a barrier: of this warp, and of all.
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
  void split(std::uint32_t mask);
  void settle();
  bool settle_meetings();
  bool settle_warp_waits();
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
  std::map<std::uint32_t, std::uint32_t> meetings_ = {};  // who is still to come, by number
  std::uint32_t next_meeting_ = 1;
  std::uint32_t next_collective_ = 1;
  std::vector<Fragment> fragments_ = {};
  std::map<std::uint32_t, std::vector<Fragment>> collectives_ = {};
  std::size_t current_ = 0;
  bool is_yielding_ = true;
  std::uint64_t patience_ = 0;  // instructions before other lanes have their turn
  std::uint32_t brought_ = 0, block_result_ = 0;
  std::vector<std::byte> local_;
  std::string failure_ = {};
};

/// The warps of a block and the memory they share.
class Block {
 public:
  Block(const Place& place, Memory& memory);
  /// A number that looks random and follows from the seed.
  std::uint32_t draw();
  /// A turn of every warp; gives the number of instructions.
  std::uint64_t run(const std::vector<Step>& steps);
  bool is_over() const;
  const Place& place() const { return place_; }
  Memory& memory() { return memory_; }
  std::vector<std::byte>& shared() { return shared_; }
  const std::string& failure() const { return failure_; }
  const std::string& where() const { return where_; }

 private:
  void settle_barrier();
  Place place_;
  Memory& memory_;
  std::vector<std::byte> shared_;
  std::uint64_t drawn_;
  std::vector<Warp> warps_ = {};
  std::string failure_ = {};
  std::string where_ = {};
};

}  // namespace everkernel::simulator
