#include "simulator/warp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace everkernel::simulator {
namespace {

// Diverged lanes switch where the code yields, and after this many instructions, because a lane
// that waits for another in a loop would wait for ever. They do not switch sooner, because they
// share the uniform registers.
constexpr std::uint64_t kPatience = 20'000;
constexpr std::uint64_t kLongestTurn = 256;  // instructions of one warp before the next warp runs

std::size_t bit_of(std::uint32_t mask) {
  return static_cast<std::size_t>(std::countr_zero(mask));
}

}  // namespace

// ---- registers ----

Warp::Warp(Block& block, std::uint32_t first_thread, std::uint32_t lanes)
    : block_(block),
      first_thread_(first_thread),
      all_(lanes),
      registers_(256),
      local_(std::size_t{block.place().local_bytes} * kLanes, std::byte{0xA5}) {
  // Unwritten registers differ between lanes and launches, so that no program works by accident.
  for (auto& lanes_of : registers_) std::ranges::generate(lanes_of, [&] { return block.draw(); });
  std::ranges::generate(uniforms_, [&] { return block.draw(); });
  std::ranges::generate(predicates_, [&] { return block.draw(); });
  std::ranges::generate(uniform_predicates_, [&] { return block.draw() % 2 != 0; });
  registers_[kNoRegister].fill(0);
  uniforms_[kNoUniform] = 0;
  predicates_[kTrue] = ~0u;
  uniform_predicates_[kTrue] = true;
  fragments_.push_back({.lanes = lanes});
}

std::uint32_t Warp::constant(std::size_t bank, std::uint32_t offset) {
  const auto& bytes = block_.memory().banks[bank];
  std::uint32_t value = 0;
  if (offset % 4 != 0 || offset + sizeof value > bytes.size()) {
    fail_with(fmt::format("there is no c[{:#x}][{:#x}]", bank, offset));
    return kUnknown;
  }
  std::memcpy(&value, &bytes[offset], sizeof value);
  return value;
}

std::uint32_t Warp::constant_place(const Operand& operand, std::uint32_t lane) const {
  if (operand.kind == OperandKind::constant) return operand.value;
  return registers_[operand.index][lane] + uniforms_[operand.uniform] + operand.value;
}

std::uint32_t Warp::get_other(const Operand& operand, std::uint32_t lane) {
  switch (operand.kind) {
    case OperandKind::uniform:
      return uniforms_[operand.index];
    case OperandKind::constant:
    case OperandKind::indirect_constant:
      return constant(operand.bank, constant_place(operand, lane));
    default:
      fail_with("an operand of this kind has no value");
      return kUnknown;
  }
}

std::uint64_t Warp::get_wide(const Operand& operand, std::uint32_t lane) {
  Operand next = operand;
  switch (operand.kind) {
    case OperandKind::reg:
      if (operand.index == kNoRegister) return 0;
      ++next.index;
      break;
    case OperandKind::uniform:
      if (operand.index == kNoUniform) return 0;
      ++next.index;
      break;
    case OperandKind::immediate:
      next.value = 0;
      break;
    default:
      next.value += 4;
      break;
  }
  return std::uint64_t{get(next, lane)} << 32 | get(operand, lane);
}

std::uint32_t Warp::predicate_mask(const Operand& operand) const {
  std::uint32_t mask = predicates_[operand.index];
  if (operand.kind == OperandKind::uniform_predicate) {
    mask = uniform_predicates_[operand.index] ? ~0u : 0u;
  }
  return operand.is_negative ? ~mask : mask;
}

void Warp::set_other(const Operand& operand, std::uint32_t value) {
  if (operand.kind != OperandKind::uniform) {
    return fail_with("a destination of this kind cannot be written");
  }
  if (operand.index != kNoUniform) uniforms_[operand.index] = value;
}

void Warp::set_wide(const Operand& operand, std::uint32_t lane, std::uint64_t value) {
  const bool is_nothing =
      operand.index == (operand.kind == OperandKind::uniform ? kNoUniform : kNoRegister);
  set(operand, lane, static_cast<std::uint32_t>(value));
  if (is_nothing) return;
  Operand next = operand;
  ++next.index;
  set(next, lane, static_cast<std::uint32_t>(value >> 32));
}

// ---- memory ----

std::uint64_t Warp::address_of(const Operand& operand, std::uint32_t lane) const {
  std::uint64_t address = registers_[operand.index][lane];
  if (operand.is_wide && operand.index != kNoRegister) {
    address |= std::uint64_t{registers_[operand.index + 1u][lane]} << 32;
  }
  if (operand.uniform != kNoUniform) {
    address += uniforms_[operand.uniform];
    if (operand.is_wide) address += std::uint64_t{uniforms_[operand.uniform + 1u]} << 32;
  }
  const auto offset = static_cast<std::int64_t>(static_cast<std::int32_t>(operand.value));
  address += static_cast<std::uint64_t>(offset);
  return operand.is_wide ? address : address & 0xFFFFFFFFu;
}

std::byte* Warp::reach_global(std::uint64_t address, std::size_t size, bool writes) {
  Memory& memory = block_.memory();
  if (address % size == 0 && memory.may_access(address, size, writes)) {
    memory.write_count += writes ? 1 : 0;
    return reinterpret_cast<std::byte*>(address);
  }
  fail_with(fmt::format("{} {} bytes at {:#x}", writes ? "writes" : "reads", size, address));
  return nullptr;
}

std::byte* Warp::reach_shared(std::uint64_t address, std::size_t size) {
  auto& bytes = block_.shared();
  if (address % size == 0 && address >= kReservedShared && address <= bytes.size() &&
      bytes.size() - address >= size) {
    return bytes.data() + address;
  }
  fail_with(
      fmt::format("uses {} bytes of shared memory at {:#x} of {:#x}", size, address, bytes.size()));
  return nullptr;
}

std::byte* Warp::reach_local(std::uint64_t address, std::size_t size, std::uint32_t lane) {
  const std::size_t own = block_.place().local_bytes;
  if (address % size == 0 && address <= own && own - address >= size) {
    return local_.data() + own * lane + address;
  }
  fail_with(fmt::format("uses {} bytes of its own memory at {:#x} of {:#x}", size, address, own));
  return nullptr;
}

std::byte* Warp::reach_any(std::uint64_t address, std::size_t size, std::uint32_t lane,
                           bool writes) {
  if (address - kLocalAddress < kWindowBytes) {
    return reach_local(address - kLocalAddress, size, lane);
  }
  if (address - kSharedAddress < kWindowBytes) return reach_shared(address - kSharedAddress, size);
  return reach_global(address, size, writes);
}

// ---- control flow ----

// Moves these lanes of the running fragment to a new fragment.
void Warp::split(std::uint32_t mask) {
  Fragment others = current();
  others.lanes = mask;
  current().lanes &= ~mask;
  fragments_.push_back(others);
}

void Warp::jump(std::uint32_t mask, std::size_t place) {
  if (mask == 0) return;
  if (place % kInstructionBytes != 0)
    return fail_with("the branch target is inside an instruction");
  const std::size_t next = place / kInstructionBytes;
  if (mask == current().lanes) {
    current().next = next;
    return;
  }
  split(mask);
  fragments_.back().next = next;
}

void Warp::exit(std::uint32_t mask) {
  exited_ |= mask;
  current().lanes &= ~mask;
  for (auto& [number, lanes] : meetings_) lanes &= ~mask;
  std::erase_if(meetings_, [](const auto& meeting) { return meeting.second == 0; });
  is_yielding_ |= current().lanes == 0;
  release_waiting();
}

void Warp::begin_meeting(std::uint32_t mask, std::size_t barrier) {
  leave_meeting(mask, barrier);
  const std::uint32_t number = next_meeting_++;
  meetings_[number] = mask;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    meetings_of_[barrier][bit_of(left)] = number;
  }
}

void Warp::leave_meeting(std::uint32_t mask, std::size_t barrier) {
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const auto found = meetings_.find(meetings_of_[barrier][bit_of(left)]);
    if (found == meetings_.end()) continue;
    found->second &= ~(1u << bit_of(left));
    if (found->second == 0) meetings_.erase(found);
  }
  release_waiting();
}

// Lanes that do not belong to the meeting continue.
void Warp::meet(std::uint32_t mask, std::size_t barrier) {
  std::map<std::uint32_t, std::uint32_t> who;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const std::uint32_t number = meetings_of_[barrier][bit_of(left)];
    const auto found = meetings_.find(number);
    if (found != meetings_.end() && (found->second >> bit_of(left) & 1) != 0) {
      who[number] |= 1u << bit_of(left);
    }
  }
  for (const auto& [number, lanes] : who) {
    if (lanes != current().lanes) split(lanes);
    Fragment& waiting = lanes == current().lanes ? current() : fragments_.back();
    waiting.wait = Fragment::Wait::meeting;
    waiting.waited_for = number;
    if (&waiting == &current()) is_yielding_ = true;
  }
  release_waiting();
}

void Warp::wait(Fragment::Wait wait, std::uint32_t waited_for) {
  current().wait = wait;
  current().waited_for = waited_for;
  is_yielding_ = true;
  release_waiting();
}

void Warp::end_collective() {
  const std::uint32_t number = current().gathered;
  const auto found = collectives_.find(number);
  if (found == collectives_.end()) return fail_with("the collective has not begun");
  const std::vector<Fragment> back = found->second;
  std::uint32_t lanes = 0;
  for (const Fragment& fragment : back) lanes |= fragment.lanes;
  if (lanes != current().lanes) return fail_with("lanes of the collective are apart");
  collectives_.erase(found);
  current() = back.front();
  fragments_.insert(fragments_.end(), back.begin() + 1, back.end());
}

// Releases every fragment whose wait is over.
void Warp::release_waiting() {
  while (release_one_meeting() || release_one_warp_wait()) {
  }
}

bool Warp::release_one_meeting() {
  for (auto at = meetings_.begin(); at != meetings_.end(); ++at) {
    std::uint32_t here = 0;
    std::size_t first = fragments_.size();
    for (std::size_t i = 0; i < fragments_.size(); ++i) {
      const Fragment& fragment = fragments_[i];
      if (fragment.wait != Fragment::Wait::meeting || fragment.waited_for != at->first) continue;
      here |= fragment.lanes;
      if (first == fragments_.size()) first = i;
      if (fragment.next != fragments_[first].next) {
        fail_with("lanes of one convergence barrier wait at two places");
        return false;
      }
    }
    if (here == 0 || here != at->second) continue;
    for (std::size_t i = first + 1; i < fragments_.size(); ++i) {
      Fragment& fragment = fragments_[i];
      if (fragment.wait == Fragment::Wait::meeting && fragment.waited_for == at->first) {
        fragment.lanes = 0;
        fragment.wait = Fragment::Wait::none;
      }
    }
    fragments_[first].lanes = here;
    fragments_[first].wait = Fragment::Wait::none;
    meetings_.erase(at);
    return true;
  }
  return false;
}

// Fragments that wait for the same set of lanes are released together.
bool Warp::release_one_warp_wait() {
  for (std::size_t i = 0; i < fragments_.size(); ++i) {
    const Fragment::Wait wait = fragments_[i].wait;
    if (wait != Fragment::Wait::warp && wait != Fragment::Wait::collective) continue;
    const std::uint32_t wanted = fragments_[i].waited_for & lanes_left();
    const auto is_one = [&](const Fragment& fragment) {
      return fragment.wait == wait && (fragment.waited_for & lanes_left()) == wanted;
    };
    std::uint32_t here = 0;
    for (const Fragment& fragment : fragments_) here |= is_one(fragment) ? fragment.lanes : 0;
    if (wanted != here) continue;
    Fragment& first = fragments_[i];
    std::vector<Fragment> gathered;
    for (Fragment& fragment : fragments_) {
      if (!is_one(fragment)) continue;
      fragment.wait = Fragment::Wait::none;
      if (wait == Fragment::Wait::collective) gathered.push_back(fragment);
      if (&fragment == &first) continue;
      if (fragment.next == first.next) {
        first.lanes |= fragment.lanes;
        fragment.lanes = 0;
      } else if (wait == Fragment::Wait::collective) {
        fail_with("lanes of one collective wait at two places");
      }
    }
    if (wait == Fragment::Wait::collective) {
      first.gathered = next_collective_++;
      // After the collective, each fragment continues at its own instruction's target.
      for (Fragment& fragment : gathered) fragment.next = fragment.gathered;
      for (Fragment& fragment : gathered) fragment.gathered = 0;
      collectives_[first.gathered] = gathered;
    }
    return true;
  }
  return false;
}

bool Warp::waits_for_block() const {
  std::uint32_t waiting = 0;
  for (const Fragment& fragment : fragments_) {
    if (fragment.wait == Fragment::Wait::block) waiting |= fragment.lanes;
  }
  return waiting != 0 && waiting == lanes_left();
}

void Warp::pass_block_barrier(std::uint32_t result) {
  block_result_ = result;
  brought_ = 0;
  for (Fragment& fragment : fragments_) fragment.wait = Fragment::Wait::none;
}

void Warp::fail_with(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  end_turn();
}

std::string Warp::where(const std::vector<Step>& steps) const {
  constexpr std::string_view kWaits[] = {"runs", "meets", "waits for the warp", "gathers",
                                         "waits for the block"};
  std::string text;
  for (const Fragment& fragment : fragments_) {
    const std::size_t last = std::min(fragment.next, steps.size()) - (fragment.next == 0 ? 0 : 1);
    text += fmt::format("lanes {:08x} at {:#x} ({}): {}; ", fragment.lanes,
                        last * kInstructionBytes, to_text(steps[last].instruction),
                        kWaits[static_cast<std::size_t>(fragment.wait)]);
  }
  return text;
}

// ---- running ----

void Warp::drop_empty() {
  std::erase_if(fragments_, [](const Fragment& fragment) { return fragment.lanes == 0; });
}

void Warp::run_step(const Step& step) {
  const Operand& guard = step.instruction.guard;
  std::uint32_t mask = current().lanes;
  if (guard.kind != OperandKind::none) mask &= predicate_mask(guard);
  if (mask == 0) return;
  if (step.warp_function != nullptr) return step.warp_function(*this, step, mask);
  if (step.is_uniform) {
    return step.lane_function({*this, static_cast<std::uint32_t>(bit_of(mask))}, step);
  }
  for (; mask != 0; mask &= mask - 1) {
    step.lane_function({*this, static_cast<std::uint32_t>(bit_of(mask))}, step);
  }
}

// Selects the next fragment that does not wait; returns whether there is one.
bool Warp::choose_fragment() {
  drop_empty();
  for (std::size_t tries = 0; tries < fragments_.size(); ++tries) {
    current_ = (current_ + 1) % fragments_.size();
    if (current().wait != Fragment::Wait::none) continue;
    is_yielding_ = false;
    patience_ = kPatience;
    return true;
  }
  return false;
}

std::uint64_t Warp::run(const std::vector<Step>& steps) {
  const std::uint64_t turn = 1 + block_.draw() % kLongestTurn;
  is_turn_over_ = false;
  std::uint64_t executed = 0;
  for (; executed < turn; ++executed) {
    if ((is_yielding_ || patience_-- == 0) && !choose_fragment()) return executed;
    const std::size_t at = current().next;
    if (at >= steps.size()) {
      fail_with("the code has ended");
      return executed;
    }
    ++current().next;
    run_step(steps[at]);
    if (!is_turn_over_) continue;
    if (!failure_.empty()) {
      failure_ = fmt::format("{:#x}: {}: {}", at * kInstructionBytes,
                             to_text(steps[at].instruction), failure_);
    }
    return executed + 1;
  }
  return executed;
}

// ---- blocks ----

Block::Block(const Place& place, Memory& memory)
    : place_(place),
      memory_(memory),
      shared_(place.shared_bytes, std::byte{0xA5}),
      drawn_(place.seed * 0x9E3779B97F4A7C15u + place.block + 1) {
  for (std::uint32_t first = 0; first < place.thread_count; first += kLanes) {
    const std::uint32_t count = std::min(kLanes, place.thread_count - first);
    warps_.emplace_back(*this, first, count == kLanes ? ~0u : (1u << count) - 1);
  }
}

std::uint32_t Block::draw() {
  drawn_ ^= drawn_ << 13;
  drawn_ ^= drawn_ >> 7;
  drawn_ ^= drawn_ << 17;
  return static_cast<std::uint32_t>(drawn_ >> 32);
}

bool Block::is_over() const {
  return std::ranges::all_of(warps_, &Warp::is_over);
}

std::uint64_t Block::run(const std::vector<Step>& steps) {
  std::uint64_t executed = 0;
  release_barrier();
  for (Warp& warp : warps_) {
    if (warp.is_over() || warp.waits_for_block()) continue;
    const std::uint64_t steps_made = warp.run(steps);
    executed += steps_made;
    if (!warp.failure().empty()) failure_ = warp.failure();
    if (steps_made == 0) where_ = warp.where(steps);
  }
  return executed;
}

void Block::release_barrier() {
  std::uint32_t brought = 0;
  bool is_anyone = false;
  for (const Warp& warp : warps_) {
    if (warp.is_over()) continue;
    if (!warp.waits_for_block()) return;
    is_anyone = true;
    brought += warp.brought();
  }
  if (!is_anyone) return;
  for (Warp& warp : warps_) {
    if (!warp.is_over()) warp.pass_block_barrier(brought);
  }
}

}  // namespace everkernel::simulator
