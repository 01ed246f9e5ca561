// Loads, stores and atomic operations.
#include <fmt/format.h>
#include <array>
#include <optional>
#include <type_traits>

#include "simulator/operations.hpp"

namespace everkernel::simulator {
namespace {

enum class Kind : u8 { global, shared, local, any };

std::byte* reach(Lane lane, const Step& step, Kind kind, const Operand& operand, bool writes) {
  Operand place = operand;
  if (kind == Kind::global || kind == Kind::any) place.is_wide = true;
  const u64 address = lane.warp.address_of(place, lane.number);
  switch (kind) {
    case Kind::global:
      return lane.warp.reach_global(address, step.bytes, writes);
    case Kind::shared:
      return lane.warp.reach_shared(address, step.bytes);
    case Kind::local:
      return lane.warp.reach_local(address, step.bytes, lane.number);
    case Kind::any:
      break;
  }
  return lane.warp.reach_any(address, step.bytes, lane.number, writes);
}

using Words = std::array<u32, 4>;

// Threads of the host use the same memory. Every access is one of the host's of the same size, so
// that no thread sees half of a word, and those of 16 bytes are two: a load takes the first half
// before the second, a store puts the second before the first. So whoever finds a new first half
// has the new second half too, as on a device, which moves 16 bytes at once.
template <class T>
void copy_in(Words& words, const std::byte* from) {
  const T value = __atomic_load_n(reinterpret_cast<const T*>(from), __ATOMIC_ACQUIRE);
  std::memcpy(words.data(), &value, sizeof value);
}
template <class T>
void copy_out(std::byte* to, const Words& words) {
  T value{};
  std::memcpy(&value, words.data(), sizeof value);
  __atomic_store_n(reinterpret_cast<T*>(to), value, __ATOMIC_RELEASE);
}

void copy_in(Words& words, const std::byte* from, std::size_t bytes) {
  switch (bytes) {
    case 1:
      return copy_in<u8>(words, from);
    case 2:
      return copy_in<std::uint16_t>(words, from);
    case 4:
      return copy_in<u32>(words, from);
    case 8:
      return copy_in<u64>(words, from);
    default:
      break;
  }
  const auto* const halves = reinterpret_cast<const u64*>(from);
  const u64 first = __atomic_load_n(halves, __ATOMIC_ACQUIRE);
  const u64 second = __atomic_load_n(halves + 1, __ATOMIC_ACQUIRE);
  std::memcpy(words.data(), &first, sizeof first);
  std::memcpy(&words[2], &second, sizeof second);
}

void copy_out(std::byte* to, const Words& words, std::size_t bytes) {
  switch (bytes) {
    case 1:
      return copy_out<u8>(to, words);
    case 2:
      return copy_out<std::uint16_t>(to, words);
    case 4:
      return copy_out<u32>(to, words);
    case 8:
      return copy_out<u64>(to, words);
    default:
      break;
  }
  auto* const halves = reinterpret_cast<u64*>(to);
  u64 first = 0, second = 0;
  std::memcpy(&first, words.data(), sizeof first);
  std::memcpy(&second, &words[2], sizeof second);
  __atomic_store_n(halves + 1, second, __ATOMIC_RELEASE);
  __atomic_store_n(halves, first, __ATOMIC_RELEASE);
}

u32 sign_extended(u32 value, u32 bits) {
  const u32 up = 32 - bits;
  return static_cast<u32>(static_cast<s32>(value << up) >> up);
}

template <Kind kKind>
void load(Lane lane, const Step& step) {
  const std::byte* const from = reach(lane, step, kKind, step.operand(1), false);
  if (from == nullptr) return;
  Words words{};
  copy_in(words, from, step.bytes);
  if (step.has(kSigned)) words[0] = sign_extended(words[0], 8u * step.bytes);
  Operand target = step.operand(0);
  for (std::size_t done = 0; done < step.bytes; done += 4) {
    set(lane, target, words[done / 4]);
    if (target.index != kNoRegister) ++target.index;
  }
}

template <Kind kKind>
void store(Lane lane, const Step& step) {
  std::byte* const to = reach(lane, step, kKind, step.operand(0), true);
  if (to == nullptr) return;
  Words words{};
  Operand source = step.operand(1);
  for (std::size_t done = 0; done < step.bytes; done += 4) {
    words[done / 4] = lane.warp.get(source, lane.number);
    if (source.kind == OperandKind::reg && source.index != kNoRegister) ++source.index;
  }
  copy_out(to, words, step.bytes);
}

void load_constant(Lane lane, const Step& step) {
  const Operand& from = step.operand(1);
  const u32 place = lane.warp.constant_place(from, lane.number);
  if (place % step.bytes != 0) return lane.warp.fail_with("the constant is not aligned");
  if (step.bytes == 8) {
    set_wide(lane, step.operand(0), lane.warp.get_wide(from, lane.number));
  } else if (step.bytes < 4) {
    const u32 bits = 8u * step.bytes;
    const u32 value = lane.warp.constant(from.bank, place & ~3u) >> (8 * (place & 3));
    const u32 low = value & ((1u << bits) - 1);
    set(lane, step.operand(0), step.has(kSigned) ? sign_extended(low, bits) : low);
  } else {
    set(lane, step.operand(0), lane.warp.constant(from.bank, place));
  }
}

u64 value_of(Lane lane, const Step& step, const Operand& operand) {
  return step.bytes == 8 ? lane.warp.get_wide(operand, lane.number)
                         : lane.warp.get(operand, lane.number);
}
void set_value(Lane lane, const Step& step, const Operand& operand, u64 value) {
  if (step.bytes == 8) {
    set_wide(lane, operand, value);
  } else {
    set(lane, operand, static_cast<u32>(value));
  }
}

// Updates the word whose address is operand `at`; returns its previous value. As on a device that
// does not have atomic operations of its host, a write of the host in between is lost.
template <Kind kKind>
std::optional<u64> change(Lane lane, const Step& step, std::size_t at) {
  std::byte* const place = reach(lane, step, kKind, step.operand(at), true);
  if (place == nullptr) return {};
  Words words{};
  copy_in(words, place, step.bytes);
  const u64 before = u64{words[1]} << 32 | words[0];
  const u64 given = value_of(lane, step, step.operand(at + 1));
  u64 after = before;
  if (step.has(kCas)) {
    if (before == given) after = value_of(lane, step, step.operand(at + 2));
  } else if (step.bytes == 8) {
    after = updated<u64>(step, before, given);
  } else {
    after = updated<u32>(step, static_cast<u32>(before), static_cast<u32>(given));
  }
  words = {static_cast<u32>(after), static_cast<u32>(after >> 32)};
  copy_out(place, words, step.bytes);
  return before;
}

// P, R, [address], value
template <Kind kKind>
void atomic(Lane lane, const Step& step) {
  if (step.operand(0).index != kTrue) return lane.warp.fail_with("this form is not known");
  const auto before = change<kKind>(lane, step, 2);
  if (before) set_value(lane, step, step.operand(1), *before);
}
void reduce_global(Lane lane, const Step& step) {
  change<Kind::global>(lane, step, 0);
}
void atomic_shared(Lane lane, const Step& step) {
  const auto before = change<Kind::shared>(lane, step, 1);
  if (before) set_value(lane, step, step.operand(0), *before);
}
// The result is whether the exchange happened.
void atomic_shared_test(Lane lane, const Step& step) {
  const u64 expected = value_of(lane, step, step.operand(2));
  const auto before = change<Kind::shared>(lane, step, 1);
  if (before) set_value(lane, step, step.operand(0), *before == expected ? 1 : 0);
}

// Each lane adds 1 to its word.
void count_shared(Lane lane, const Step& step) {
  std::byte* const place = reach(lane, step, Kind::shared, step.operand(1), true);
  if (place == nullptr) return;
  if (step.operand(0).index != kNoRegister) return lane.warp.fail_with("this form is not known");
  u32 count = 0;
  std::memcpy(&count, place, sizeof count);
  ++count;
  std::memcpy(place, &count, sizeof count);
}

constexpr Part kSizes[] = {{"U8", 1, &Step::bytes},  {"S8", 1, &Step::bytes},
                           {"U16", 2, &Step::bytes}, {"S16", 2, &Step::bytes},
                           {"64", 8, &Step::bytes},  {"128", 16, &Step::bytes}};
constexpr Part kUpdates[] = {{"64", 8, &Step::bytes},
                             {"S64", 8, &Step::bytes},
                             {"ADD", kAtomicAdd, &Step::kind},
                             {"MIN", kAtomicMin, &Step::kind},
                             {"MAX", kAtomicMax, &Step::kind},
                             {"INC", kAtomicIncrement, &Step::kind},
                             {"DEC", kAtomicDecrement, &Step::kind},
                             {"AND", kAtomicAnd, &Step::kind},
                             {"OR", kAtomicOr, &Step::kind},
                             {"XOR", kAtomicXor, &Step::kind},
                             {"EXCH", kAtomicExchange, &Step::kind}};

constexpr Form kForms[] = {
    {"LDG", load<Kind::global>, nullptr, "E EF CONSTANT STRONG SM GPU SYS", 2, 2, kSizes},
    {"LD", load<Kind::any>, nullptr, "E EF STRONG SM GPU SYS", 2, 2, kSizes},
    {"LDS", load<Kind::shared>, nullptr, "", 2, 2, kSizes},
    {"LDL", load<Kind::local>, nullptr, "LU", 2, 2, kSizes},
    {"LDC", load_constant, nullptr, "", 2, 2, kSizes},
    {"STG", store<Kind::global>, nullptr, "E EF STRONG SM GPU SYS", 2, 2, kSizes},
    {"ST", store<Kind::any>, nullptr, "E EF STRONG SM GPU SYS", 2, 2, kSizes},
    {"STS", store<Kind::shared>, nullptr, "", 2, 2, kSizes},
    {"STL", store<Kind::local>, nullptr, "", 2, 2, kSizes},
    {"ATOMG", atomic<Kind::global>, nullptr, "E STRONG SM GPU SYS CAS S32", 4, 5, kUpdates},
    {"ATOM", atomic<Kind::any>, nullptr, "E STRONG SM GPU SYS CAS S32", 4, 5, kUpdates},
    {"REDG", reduce_global, nullptr, "E STRONG SM GPU SYS S32", 2, 2, kUpdates},
    {"ATOMS", atomic_shared, nullptr, "S32 CAS", 3, 4, kUpdates},
    {"ATOMS.CAST", atomic_shared_test, nullptr, "SPIN", 4, 4, kUpdates},
    {"ATOMS.POPC.INC.32", count_shared, nullptr, "", 2, 2},
};

}  // namespace

std::span<const Form> memory_forms() {
  return kForms;
}

}  // namespace everkernel::simulator
