// Special registers, collectives of lanes, control flow and barriers.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>

#include "simulator/operations.hpp"

namespace everkernel::simulator {
namespace {

// ---- special registers ----

template <class Function>
void each_lane(Warp& warp, u32 mask, const Function& function) {
  for (; mask != 0; mask &= mask - 1) {
    function(Lane{warp, static_cast<u32>(std::countr_zero(mask))});
  }
}

// The register numbers are those of the encoding.
u64 special_value(Lane lane, u8 number) {
  const Place& place = lane.warp.block().place();
  const u32 thread = lane.warp.first_thread() + lane.number;
  switch (number) {
    case 0x00:  // SR_LANEID
      return lane.number;
    case 0x03:  // SR_VIRTID: only the place of the warp in its block is known
      return (kUnknown & ~0x7F00u) | thread / kLanes << 8;
    case 0x21:  // SR_TID.X
      return thread;
    case 0x22:  // SR_TID.Y
    case 0x23:  // SR_TID.Z
    case 0x26:  // SR_CTAID.Y
    case 0x27:  // SR_CTAID.Z
    case 0xff:  // SRZ
    case 0x88:  // SR_CgaCtaId
      return 0;
    case 0x25:  // SR_CTAID.X
      return place.block;
    case 0x2f:  // SR_SWINHI
      return kSharedAddress >> 32;
    case 0x38:  // SR_EQMASK
      return u64{1} << lane.number;
    case 0x39:  // SR_LTMASK
      return (u64{1} << lane.number) - 1;
    case 0x3a:  // SR_LEMASK
      return (u64{2} << lane.number) - 1;
    case 0x3b:  // SR_GTMASK
      return ~((u64{2} << lane.number) - 1);
    case 0x3c:  // SR_GEMASK
      return ~((u64{1} << lane.number) - 1);
    case 0x43:  // SR_VIRTUALSMID
      return place.block % place.sm_count;
    default:
      lane.warp.fail_with(fmt::format("special register {:#x} is not known", number));
      return kUnknown;
  }
}

// Nanoseconds of a clock that never goes back, whose values are those of the device's: they do not
// fit into 32 bits.
u64 time_ns() {
  using std::chrono::nanoseconds, std::chrono::steady_clock, std::chrono::system_clock;
  static const auto begin = nanoseconds(system_clock::now().time_since_epoch()) -
                            nanoseconds(steady_clock::now().time_since_epoch());
  return static_cast<u64>((begin + nanoseconds(steady_clock::now().time_since_epoch())).count());
}

void read_special(Warp& warp, const Step& step, u32 mask) {
  const u8 number = step.operand(1).index;
  // All lanes of a warp read the same time. 0x50 to 0x53 are SR_CLOCKLO, SR_CLOCKHI,
  // SR_GLOBALTIMERLO and SR_GLOBALTIMERHI.
  const bool is_time = number >= 0x50 && number <= 0x53;
  const u64 time = is_time ? time_ns() >> (number % 2 == 0 ? 0 : 32) : 0;
  if (step.is_uniform) mask &= 0u - mask;
  each_lane(warp, mask, [&](Lane lane) {
    const u64 value = is_time ? time : special_value(lane, number);
    if (step.bytes == 8) return set_wide(lane, step.operand(0), value);
    set(lane, step.operand(0), static_cast<u32>(value));
  });
}

// ---- collectives ----

// [R,] P, P: the mask of lanes with a true predicate; whether all, any or equal.
void vote(Warp& warp, const Step& step, u32 mask) {
  const std::size_t at = is_predicate(step.operand(0)) ? 0 : 1;
  const u32 said = warp.predicate_mask(step.operand(at + 1)) & mask;
  const bool result = step.kind == 0   ? said == mask
                      : step.kind == 1 ? said != 0
                                       : said == 0 || said == mask;
  each_lane(warp, mask, [&](Lane lane) {
    if (at == 1) set(lane, step.operand(0), said);
    set_truth(lane, step.operand(at), result);
  });
}

void reduce_lanes(Warp& warp, const Step& step, u32 mask) {
  std::optional<u32> result;
  each_lane(warp, mask, [&](Lane lane) {
    const u32 value = word(lane, step.operand(1));
    result = result ? updated<u32>(step, *result, value) : value;
  });
  set({warp, 0}, step.operand(0), *result);
}

u64 matched_value(Lane lane, const Step& step, const Operand& operand) {
  return step.has(kU64) ? wide(lane, operand) : word(lane, operand);
}

// The mask of lanes that have the same value as this lane.
void match(Warp& warp, const Step& step, u32 mask) {
  std::array<u32, kLanes> results{};
  each_lane(warp, mask, [&](Lane lane) {
    const u64 value = matched_value(lane, step, step.operand(1));
    each_lane(warp, mask, [&](Lane other) {
      if (matched_value(other, step, step.operand(1)) == value) {
        results[lane.number] |= 1u << other.number;
      }
    });
  });
  each_lane(warp, mask, [&](Lane lane) { set(lane, step.operand(0), results[lane.number]); });
}

// P, R, source: whether all lanes have the same value, and their mask, or 0.
void match_all(Warp& warp, const Step& step, u32 mask) {
  const Lane first{warp, static_cast<u32>(std::countr_zero(mask))};
  const u64 value = matched_value(first, step, step.operand(2));
  bool is_same = true;
  each_lane(warp, mask,
            [&](Lane lane) { is_same &= matched_value(lane, step, step.operand(2)) == value; });
  each_lane(warp, mask, [&](Lane lane) {
    set(lane, step.operand(1), is_same ? mask : 0);
    set_truth(lane, step.operand(0), is_same);
  });
}

void to_uniform(Warp& warp, const Step& step, u32 mask) {
  const Lane first{warp, static_cast<u32>(std::countr_zero(mask))};
  const u32 value = word(first, step.operand(1));
  bool is_same = true;
  each_lane(warp, mask, [&](Lane lane) { is_same &= word(lane, step.operand(1)) == value; });
  if (!is_same) return warp.fail_with("the lanes have different values");
  set(first, step.operand(0), value);
}

// P, R, source, lane, bounds
void shuffle(Warp& warp, const Step& step, u32 mask) {
  std::array<u32, kLanes> results{};
  u32 inside = 0;
  each_lane(warp, mask, [&](Lane lane) {
    const u32 by = word(lane, step.operand(3));
    const u32 bounds = word(lane, step.operand(4));
    const u32 segment = bounds >> 8 & 31, clamp = bounds & 31;
    const u32 low = lane.number & segment;
    const u32 high = low | (clamp & ~segment & 31);
    s64 from = lane.number;
    bool is_inside = true;
    if (step.kind == 0) {  // an index
      from = low | (by & ~segment & 31);
      is_inside = from <= high;
    } else if (step.kind == 1) {  // up
      from = s64{lane.number} - (by & 31);
      is_inside = from >= high;
    } else if (step.kind == 2) {  // down
      from = s64{lane.number} + (by & 31);
      is_inside = from <= high;
    } else {
      from = lane.number ^ (by & 31);
      is_inside = from <= high;
    }
    if (!is_inside) from = lane.number;
    inside |= is_inside ? 1u << lane.number : 0;
    // A shuffle from an inactive lane is undefined.
    results[lane.number] =
        (mask >> from & 1) != 0 ? word({warp, static_cast<u32>(from)}, step.operand(2)) : kUnknown;
  });
  each_lane(warp, mask, [&](Lane lane) {
    set(lane, step.operand(1), results[lane.number]);
    set_truth(lane, step.operand(0), (inside >> lane.number & 1) != 0);
  });
}

// ---- control flow ----

void branch(Warp& warp, const Step& step, u32 mask) {
  const std::size_t at = step.count() - 1;
  if (at == 1) mask &= warp.predicate_mask(step.operand(0));
  // If not all lanes would take it, none does: the compiler puts code for that case behind it.
  if (step.has(kAllOrNone) && mask != warp.current().lanes) return;
  warp.jump(mask, step.operand(at).value);
}
// A mask operand, which must be the same in all executing lanes.
u32 mask_operand(Warp& warp, const Operand& operand, u32 mask) {
  const u32 wanted = word({warp, static_cast<u32>(std::countr_zero(mask))}, operand);
  each_lane(warp, mask, [&](Lane lane) {
    if (word(lane, operand) != wanted) warp.fail_with("the lanes have different masks");
  });
  return wanted;
}
// Branches if some lanes of the mask are not in this fragment.
void branch_if_apart(Warp& warp, const Step& step, u32 mask) {
  const u32 all = mask_operand(warp, step.operand(0), mask) & warp.lanes_left();
  if (warp.current().lanes != all) warp.jump(mask, step.operand(1).value);
}
// Branches if all lanes of the mask are in this fragment.
void branch_if_together(Warp& warp, const Step& step, u32 mask) {
  const u32 all = mask_operand(warp, step.operand(0), mask) & warp.lanes_left();
  if (warp.current().lanes == all) warp.jump(mask, step.operand(1).value);
}
// Branches to the address in a register plus an offset.
void jump_by_register(Warp& warp, const Step& step, u32 mask) {
  while (mask != 0) {
    const Lane first{warp, static_cast<u32>(std::countr_zero(mask))};
    const u64 place = warp.get_wide(step.operand(0), first.number);
    u32 same = 0;
    each_lane(warp, mask, [&](Lane lane) {
      if (warp.get_wide(step.operand(0), lane.number) == place) same |= 1u << lane.number;
    });
    warp.jump(same, place + step.operand(1).value);
    mask &= ~same;
  }
}
void end_lanes(Warp& warp, const Step&, u32 mask) {
  warp.exit(mask);
}
void begin_meeting(Warp& warp, const Step& step, u32 mask) {
  warp.begin_meeting(mask, step.operand(0).index);
}
void meet(Warp& warp, const Step& step, u32 mask) {
  warp.meet(mask, step.operand(0).index);
}
void leave_meeting(Warp& warp, const Step& step, u32 mask) {
  if (step.count() == 2) mask &= warp.predicate_mask(step.operand(0));
  warp.leave_meeting(mask, step.operand(step.count() - 1).index);
}
// On a device the register gets the lanes of the meeting; here its number. Code only moves it.
void save_meeting(Lane lane, const Step& step) {
  u32& meeting = lane.warp.meeting_of(lane.number, step.operand(1).index);
  set(lane, step.operand(0), meeting);
  meeting = 0;
}
void restore_meeting(Lane lane, const Step& step) {
  lane.warp.meeting_of(lane.number, step.operand(0).index) = word(lane, step.operand(1));
}
void sync_warp(Warp& warp, const Step& step, u32 mask) {
  if (mask != warp.current().lanes) return warp.fail_with("some lanes are masked off");
  const u32 wanted = step.count() == 0 ? ~0u : mask_operand(warp, step.operand(0), mask);
  warp.wait(Fragment::Wait::warp, wanted);
}
// Lanes with the same mask become one fragment.
void part_warp(Warp& warp, const Step& step, u32 mask) {
  const std::size_t next = warp.current().next * kInstructionBytes;
  while (mask != 0) {
    const Lane first{warp, static_cast<u32>(std::countr_zero(mask))};
    const u32 group = word(first, step.operand(0)) & warp.lanes_left();
    if ((group & ~mask) != 0 || (group >> first.number & 1) == 0)
      return warp.fail_with("lanes of the warp are apart");
    warp.jump(group, next);
    mask &= ~group;
  }
}
void gather(Warp& warp, const Step& step, u32 mask) {
  if (mask != warp.current().lanes) return warp.fail_with("some lanes are masked off");
  warp.current().gathered = static_cast<u32>(step.operand(1).value / kInstructionBytes);
  warp.wait(Fragment::Wait::collective, mask_operand(warp, step.operand(0), mask));
}
void end_gathering(Warp& warp, const Step&, u32) {
  warp.end_collective();
}
void sync_block(Warp& warp, const Step& step, u32 mask) {
  if (step.operand(0).value != 0) return warp.fail_with("only barrier 0 is known");
  if (mask != warp.lanes_left()) return warp.fail_with("lanes of the warp are apart");
  if (step.count() == 2) {
    warp.bring(static_cast<u32>(std::popcount(warp.predicate_mask(step.operand(1)) & mask)));
  }
  warp.wait(Fragment::Wait::block, 0);
}
void read_block_result(Warp& warp, const Step& step, u32 mask) {
  each_lane(warp, mask, [&](Lane lane) {
    set(lane, step.operand(0), warp.block_result());
    if (step.count() == 2) set_truth(lane, step.operand(1), warp.block_result() != 0);
  });
}
void let_others_run(Warp& warp, const Step&, u32) {
  warp.let_others_run();
}
// The time is not kept: other warps run once each, and the host.
void rest(Warp& warp, const Step&, u32) {
  warp.end_turn();
}
void trap(Warp& warp, const Step&, u32) {
  warp.fail_with("the kernel gave up");
}
// Host threads read the same memory. An exchange, unlike a fence, is also seen by TSan.
void fence(Warp&, const Step&, u32) {
  static std::atomic<u32> word;
  word.exchange(0);
}
void nothing(Warp&, const Step&, u32) {}

constexpr Part kVotes[] = {
    {"ALL", 0, &Step::kind}, {"ANY", 1, &Step::kind}, {"EQ", 2, &Step::kind}};
constexpr Part kShuffles[] = {{"IDX", 0, &Step::kind},
                              {"UP", 1, &Step::kind},
                              {"DOWN", 2, &Step::kind},
                              {"BFLY", 3, &Step::kind}};
constexpr Part kReductions[] = {{"AND", kAtomicAnd, &Step::kind}, {"OR", kAtomicOr, &Step::kind},
                                {"XOR", kAtomicXor, &Step::kind}, {"SUM", kAtomicAdd, &Step::kind},
                                {"MIN", kAtomicMin, &Step::kind}, {"MAX", kAtomicMax, &Step::kind}};
constexpr Part kSpecialSizes[] = {{"32", 4, &Step::bytes}};

constexpr Form kForms[] = {
    {"S2R", nullptr, read_special, "", 2, 2},
    {"CS2R", nullptr, read_special, "", 2, 2, kSpecialSizes},
    {"VOTE", nullptr, vote, "", 2, 3, kVotes},
    {"REDUX", nullptr, reduce_lanes, "S32", 2, 2, kReductions},
    {"MATCH.ANY", nullptr, match, "U64", 2, 2},
    {"MATCH.ALL", nullptr, match_all, "U64", 3, 3},
    {"R2UR", nullptr, to_uniform, "", 2, 2},
    {"SHFL", nullptr, shuffle, "", 5, 5, kShuffles},
    {"BRA", nullptr, branch, "U", 1, 2},
    {"BRA.DIV", nullptr, branch_if_apart, "", 2, 2},
    {"BRA.CONV", nullptr, branch_if_together, "", 2, 2},
    {"CALL", nullptr, branch, "REL NOINC", 1, 1},
    {"RET", nullptr, jump_by_register, "REL NODEC", 2, 2},
    {"EXIT", nullptr, end_lanes, "", 0, 0},
    {"BSSY", nullptr, begin_meeting, "", 2, 2},
    {"BSYNC", nullptr, meet, "", 1, 1},
    {"BREAK", nullptr, leave_meeting, "", 1, 2},
    {"BMOV.32.CLEAR", save_meeting, nullptr, "", 2, 2},
    {"BMOV.32", restore_meeting, nullptr, "", 2, 2},
    {"WARPSYNC", nullptr, sync_warp, "ALL", 0, 1},
    {"WARPSYNC.EXCLUSIVE", nullptr, part_warp, "", 1, 1},
    {"WARPSYNC.COLLECTIVE", nullptr, gather, "", 2, 2},
    {"ENDCOLLECTIVE", nullptr, end_gathering, "", 0, 0},
    {"BAR.SYNC", nullptr, sync_block, "DEFER_BLOCKING", 1, 1},
    {"BAR.RED.OR", nullptr, sync_block, "DEFER_BLOCKING", 2, 2},
    {"BAR.RED.POPC", nullptr, sync_block, "DEFER_BLOCKING", 2, 2},
    {"B2R.RESULT", nullptr, read_block_result, "", 1, 2},
    {"YIELD", nullptr, let_others_run, "", 0, 0},
    {"NANOSLEEP", nullptr, rest, "", 0, 1},
    {"BPT.TRAP", nullptr, trap, "", 1, 1},
    {"NOP", nullptr, nothing, "", 0, 0},
    {"CCTL", nullptr, nothing, "IVALL", 0, 1},
    {"MEMBAR", nullptr, fence, "SC ALL GPU SYS CTA", 0, 0},
    {"ERRBAR", nullptr, nothing, "", 0, 0},
    {"CGAERRBAR", nullptr, nothing, "", 0, 0},
    {"BRX", nullptr, jump_by_register, "", 2, 2},
    {"BRXU", nullptr, jump_by_register, "", 2, 2},
};

}  // namespace

std::span<const Form> lane_forms() {
  return kForms;
}

}  // namespace everkernel::simulator
