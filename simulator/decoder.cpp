// The encoding of instructions for compute capability 9.0, as far as this project's kernels use it.
//
// The encoding is not published. It was derived by compiling kernels, changing single bits and
// reading the output of NVIDIA's disassembler (CUDA 11.8). That disassembler does not know VIADD,
// VIMNMX and VIADDMNMX; they were derived by compiling code of known meaning. An instruction is
// accepted only if its reader has taken every bit that is set: no bit of unknown meaning passes.
#include "simulator/instruction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

namespace everkernel::simulator {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::string_view kRefused = "?";  // marks a field's value whose meaning is not known

// ---- bits ----

// The 128 bits of an instruction, the lowest first, and which of them a reader has taken.
class Bits {
 public:
  explicit Bits(std::span<const std::byte, kInstructionBytes> bytes) {
    std::memcpy(words_.data(), bytes.data(), bytes.size());
    used_[1] = ~std::uint64_t{0} << (kScheduling - 64);
  }

  std::uint64_t take(unsigned first, unsigned count) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < count; ++i) {
      const std::uint64_t mask = std::uint64_t{1} << ((first + i) % 64);
      const unsigned word = (first + i) / 64;
      if ((words_[word] & mask) != 0) value |= std::uint64_t{1} << i;
      used_[word] |= mask;
    }
    return value;
  }

  bool has_rest() const { return (words_[0] & ~used_[0]) != 0 || (words_[1] & ~used_[1]) != 0; }
  std::string text() const { return fmt::format("0x{:016x} 0x{:016x}", words_[0], words_[1]); }

 private:
  // Bits from here on are the schedule: stall counts, barriers to wait for, register reuse.
  static constexpr unsigned kScheduling = 105;

  std::array<std::uint64_t, 2> words_ = {};
  std::array<std::uint64_t, 2> used_ = {};
};

// ---- a reader of one instruction ----

// The kind of source in bits 32 to 63, and whether it is the second or the third source. The other
// of the two is the register in bits 64 to 71.
enum Form : unsigned {
  kRegister = 1,
  kImmediateThird = 2,
  kConstantThird = 3,
  kImmediate = 4,
  kConstant = 5,
  kUniform = 6,
  kUniformThird = 7,
};

// Which signs a source can have.
enum class Sign : std::uint8_t { none, negation, inversion, any };

// Reads the parts of one instruction. The first error is kept in trouble_; reading goes on, and its
// result is discarded in finish().
class Reader {
 public:
  Reader(std::span<const std::byte, kInstructionBytes> bytes, std::size_t place)
      : bits_(bytes), place_(place), base_(field(0, 9)), form_(static_cast<Form>(field(9, 3))) {}

  unsigned base() const { return base_; }
  Form form() const { return form_; }
  bool is_uniform() const { return is_uniform_; }
  void begin(std::string_view name, bool is_uniform) {
    out_.name = name;
    is_uniform_ = is_uniform;
    const Operand guard = predicate(12);
    if (guard.index != kTrue || guard.is_negative) out_.guard = guard;
  }
  Result<Instruction> finish();

  // Fields.
  std::uint32_t field(unsigned first, unsigned count) {
    return static_cast<std::uint32_t>(bits_.take(first, count));
  }
  bool flag(unsigned place) { return field(place, 1) != 0; }
  void expect(unsigned first, unsigned count, std::uint32_t value) {
    if (field(first, count) != value) refuse(fmt::format("{} bits at {}", count, first));
  }
  void refuse(std::string why) {
    if (trouble_.empty()) trouble_ = std::move(why);
  }

  // Parts of the name.
  void name(std::string_view part) { out_.name += part; }
  void name_if(bool is_there, std::string_view part) { out_.name += is_there ? part : ""; }
  void name_by(unsigned first, unsigned count, Words words);

  // Operands, by their position in the encoding.
  void put(const Operand& operand);
  void put_immediate(std::uint32_t value) { put({.kind = OperandKind::immediate, .value = value}); }
  Operand vector_register(unsigned first) {
    return {.kind = OperandKind::reg, .index = byte(first, 8)};
  }
  Operand uniform_register(unsigned first) {
    return {.kind = OperandKind::uniform, .index = byte(first, 6)};
  }
  Operand destination() { return register_at(16); }
  Operand first_source(Sign sign = Sign::none) { return with_sign(source_at(24), sign, 72, 73); }
  Operand wide_source(Sign sign = Sign::none);
  Operand narrow_source(Sign sign = Sign::none) { return with_sign(source_at(64), sign, 75, 74); }
  std::pair<Operand, Operand> second_and_third(Sign second, Sign third);
  void put_second_and_third(Sign second, Sign third) {
    const auto [b, c] = second_and_third(second, third);
    put(b);
    put(c);
  }
  Operand predicate(unsigned first) {
    Operand operand = predicate_destination(first);
    operand.is_negative = flag(first + 3);
    return operand;
  }
  Operand predicate_destination(unsigned first) {
    const OperandKind kind = is_uniform_ ? OperandKind::uniform_predicate : OperandKind::predicate;
    return {.kind = kind, .index = byte(first, 3)};
  }
  void put_unless_true(const Operand& predicate) {
    if (predicate.index != kTrue || predicate.is_negative) put(predicate);
  }
  Operand constant();
  Operand address(Operand base, bool is_wide);
  std::uint32_t target();
  std::uint32_t near_target();
  // A flag that must be set if a uniform register is a source.
  void reads_uniform() { reads_uniform_ = true; }

 private:
  std::uint8_t byte(unsigned first, unsigned count) {
    return static_cast<std::uint8_t>(field(first, count));
  }
  Operand register_at(unsigned first) {
    return is_uniform_ ? uniform_register(first) : vector_register(first);
  }
  Operand source_at(unsigned first) {
    reads_uniform_ |= is_uniform_;
    return register_at(first);
  }
  Operand with_sign(Operand operand, Sign sign, unsigned negation, unsigned magnitude);
  std::uint32_t place_after(std::int64_t offset);

  Bits bits_;
  std::size_t place_;
  unsigned base_;
  Form form_;
  bool is_uniform_ = false;  // operates on uniform registers
  bool reads_uniform_ = false;
  Instruction out_ = {};
  std::string trouble_ = {};
};

Result<Instruction> Reader::finish() {
  expect(91, 1, reads_uniform_ ? 1 : 0);
  if (trouble_.empty() && bits_.has_rest()) trouble_ = "bits that have no meaning there";
  if (trouble_.empty()) return std::move(out_);
  return fail(Code::unsupported, fmt::format("no known instruction: {} at 0x{:x} ({}): {}",
                                             bits_.text(), place_, out_.name, trouble_));
}

void Reader::name_by(unsigned first, unsigned count, Words words) {
  const std::uint32_t value = field(first, count);
  if (value >= words.size() || words[value] == kRefused) {
    return refuse(fmt::format("{} as {} bits at {}", value, count, first));
  }
  if (!words[value].empty()) out_.name.append(".").append(words[value]);
}

void Reader::put(const Operand& operand) {
  if (out_.operand_count == kMaxOperands) return refuse("too many operands");
  out_.operands[out_.operand_count++] = operand;
}

Operand Reader::with_sign(Operand operand, Sign sign, unsigned negation, unsigned magnitude) {
  if (sign == Sign::none) return operand;
  (sign == Sign::inversion ? operand.is_inverted : operand.is_negative) = flag(negation);
  if (sign == Sign::any) operand.is_magnitude = flag(magnitude);
  return operand;
}

// Bits 32 to 63. The sign of an immediate is part of its value.
Operand Reader::wide_source(Sign sign) {
  switch (form_) {
    case kRegister:
      return with_sign(source_at(32), sign, 63, 62);
    case kImmediate:
    case kImmediateThird:
      return {.kind = OperandKind::immediate, .value = field(32, 32)};
    case kConstant:
    case kConstantThird:
      return with_sign(constant(), sign, 63, 62);
    case kUniform:
    case kUniformThird:
      reads_uniform();
      return with_sign(uniform_register(32), sign, 63, 62);
  }
  refuse("no such form");
  return {};
}

std::pair<Operand, Operand> Reader::second_and_third(Sign second, Sign third) {
  const bool is_wide_third =
      form_ == kImmediateThird || form_ == kConstantThird || form_ == kUniformThird;
  if (is_wide_third) return {narrow_source(second), wide_source(third)};
  return {wide_source(second), narrow_source(third)};
}

Operand Reader::constant() {
  const std::uint32_t offset = field(38, 16);
  if (offset >= 0x8000) refuse("a constant below its bank");
  return {.kind = OperandKind::constant, .bank = byte(54, 5), .value = offset};
}

// An address with an offset of 24 bits.
Operand Reader::address(Operand base, bool is_wide) {
  base.kind = OperandKind::address;
  base.is_wide = is_wide;
  const std::uint32_t offset = field(40, 24);
  base.value = (offset ^ 0x800000u) - 0x800000u;
  return base;
}

std::uint32_t Reader::place_after(std::int64_t offset) {
  const std::int64_t place =
      static_cast<std::int64_t>(place_) + static_cast<std::int64_t>(kInstructionBytes) + offset;
  if (place < 0 || place > std::int64_t{0xffff'ffff}) refuse("a target outside of the code");
  return static_cast<std::uint32_t>(place);
}

// The target of a branch: an offset of 56 bits in two fields, in words of 4 bytes, counted from the
// end of the instruction.
std::uint32_t Reader::target() {
  const std::int64_t low = field(16, 8);
  const auto high = static_cast<std::int64_t>(bits_.take(34, 48) << 16) >> 16;
  return place_after((high * 256 + low) * 4);
}

std::uint32_t Reader::near_target() {
  return place_after(std::int64_t{static_cast<std::int32_t>(field(34, 30) << 2)});
}

// ---- words of the names ----

constexpr std::string_view kCompare[] = {"F", "LT", "EQ", "LE", "GT", "NE", "GE", "T"};
constexpr std::string_view kFloatCompare[] = {"F",   "LT",  "EQ",  "LE",  "GT",  "NE",
                                              "GE",  "NUM", "NAN", "LTU", "EQU", "LEU",
                                              "GTU", "NEU", "GEU", "T"};
constexpr std::string_view kCombine[] = {"AND", "OR", "XOR"};
constexpr std::string_view kRounding[] = {"", "RM", "RP", "RZ"};
constexpr std::string_view kWholeRounding[] = {"", "FLOOR", "CEIL", "TRUNC"};
constexpr std::string_view kSize[] = {"U8", "S8", "U16", "S16", "", "64", "128"};
constexpr std::string_view kShiftSize[] = {"S64", "U64", "S32", "U32"};
constexpr std::string_view kAtomicSize[] = {"", "S32", "64", "S64"};
constexpr std::string_view kExchangeSize[] = {"", kRefused, "64"};
constexpr std::string_view kAtomic[] = {"ADD", "MIN", "MAX", "INC", "DEC",
                                        "AND", "OR",  "XOR", "EXCH"};
constexpr std::string_view kFunction[] = {"COS", "SIN",    "EX2",    "LG2",  "RCP",
                                          "RSQ", "RCP64H", kRefused, "SQRT", "TANH"};
constexpr std::string_view kVote[] = {"ALL", "ANY", "EQ"};
constexpr std::string_view kShuffle[] = {"IDX", "UP", "DOWN", "BFLY"};
constexpr std::string_view kReduction[] = {"", "OR", "XOR", "SUM", "MIN", "MAX"};  // "" is AND
constexpr std::string_view kPopulation[] = {"POPC", "AND", "OR"};
constexpr std::string_view kScope[] = {"CTA", "SM", "GPU", "SYS"};
// Order and scope of an access.
constexpr std::string_view kOrder[] = {"",       kRefused,    kRefused,    kRefused,
                                       kRefused, "STRONG.SM", kRefused,    "STRONG.GPU",
                                       kRefused, kRefused,    "STRONG.SYS"};
constexpr std::string_view kLoadOrder[] = {"",         kRefused,    kRefused,    kRefused,
                                           "CONSTANT", "STRONG.SM", kRefused,    "STRONG.GPU",
                                           kRefused,   kRefused,    "STRONG.SYS"};

struct SpecialName {
  std::uint8_t index;
  std::string_view name;
};
constexpr SpecialName kSpecials[] = {
    {0, "SR_LANEID"},
    {3, "SR_VIRTID"},
    {33, "SR_TID.X"},
    {34, "SR_TID.Y"},
    {35, "SR_TID.Z"},
    {37, "SR_CTAID.X"},
    {38, "SR_CTAID.Y"},
    {39, "SR_CTAID.Z"},
    {47, "SR_SWINHI"},
    {48, "SR_SWINLO"},
    {50, "SR_SMEMSZ"},
    {56, "SR_EQMASK"},
    {57, "SR_LTMASK"},
    {58, "SR_LEMASK"},
    {59, "SR_GTMASK"},
    {60, "SR_GEMASK"},
    {80, "SR_CLOCKLO"},
    {81, "SR_CLOCKHI"},
    {82, "SR_GLOBALTIMERLO"},
    {83, "SR_GLOBALTIMERHI"},
    {67, "SR_VIRTUALSMID"},
    {136, "SR_CgaCtaId"},
    {255, "SRZ"},
};

std::string_view special_name(std::uint8_t index) {
  const auto* const found = std::ranges::find(kSpecials, index, &SpecialName::index);
  return found == std::end(kSpecials) ? std::string_view() : found->name;
}

// ---- moves and choices ----

void read_move(Reader& r) {
  r.put(r.destination());
  r.put(r.wide_source());
  if (!r.is_uniform()) r.expect(72, 4, 0xf);  // mask of bytes: all four
}

void read_select(Reader& r) {
  r.put(r.destination());
  r.put(r.first_source());
  r.put(r.wide_source());
  r.put(r.predicate(87));
}

// Also FMNMX, whose predicate selects the minimum.
void read_float_choice(Reader& r) {
  r.name_if(r.flag(80), ".FTZ");
  r.put(r.destination());
  r.put(r.first_source(Sign::any));
  r.put(r.wide_source(Sign::any));
  r.put(r.predicate(87));
}

void read_permute(Reader& r) {
  r.put(r.destination());
  r.put(r.first_source());
  r.put_second_and_third(Sign::none, Sign::none);
}

void read_special(Reader& r) {
  r.put(r.destination());
  const auto index = static_cast<std::uint8_t>(r.field(72, 8));
  if (special_name(index).empty()) r.refuse(fmt::format("special register {}", index));
  r.put({.kind = OperandKind::special, .index = index});
}

void read_special_pair(Reader& r) {
  r.name_if(!r.flag(80), ".32");
  read_special(r);
}

void read_constant(Reader& r) {
  r.name_by(73, 3, Words(kSize).first(6));
  r.put(r.destination());
  Operand constant = r.constant();
  if (!r.is_uniform()) {
    const Operand index = r.first_source();
    if (index.index != kNoRegister) {
      constant.kind = OperandKind::indirect_constant;
      constant.index = index.index;
    }
  }
  r.put(constant);
}

void read_indexed_constant(Reader& r) {
  r.name_by(73, 3, Words(kSize).first(6));
  r.put(r.destination());
  Operand constant = r.constant();
  constant.kind = OperandKind::indirect_constant;
  constant.index = kNoRegister;
  constant.uniform = r.first_source().index;
  r.put(constant);
}

// ---- integers ----

void read_integer_compare(Reader& r) {
  r.name_by(76, 3, kCompare);
  r.name_if(!r.flag(73), ".U32");
  r.name_by(74, 2, kCombine);
  const bool has_below = r.flag(72);  // .EX: compares the upper words of longer integers
  r.name_if(has_below, ".EX");
  r.put(r.predicate_destination(81));
  r.put(r.predicate_destination(84));
  r.put(r.first_source());
  r.put(r.wide_source());
  r.put(r.predicate(87));
  if (has_below) return r.put(r.predicate(68));
  r.expect(68, 4, kTrue);
}

void read_add(Reader& r) {
  constexpr std::uint32_t kNever = 0xf;  // !PT
  const bool has_carry = r.flag(74);
  const Sign sign = has_carry ? Sign::inversion : Sign::negation;
  r.name_if(has_carry, ".X");
  r.put(r.destination());
  const Operand first = r.predicate_destination(81);
  const Operand second = r.predicate_destination(84);
  r.put_unless_true(first);
  r.put_unless_true(second);
  // The text form leaves out a predicate that is true: a single one would read as the first.
  if (first.index == kTrue && second.index != kTrue) r.refuse("only the second carry");
  r.put(r.first_source(sign));
  r.put_second_and_third(sign, sign);
  if (has_carry) {
    r.put(r.predicate(87));
    r.put(r.predicate(77));
  } else {
    r.expect(87, 4, kNever);
    r.expect(77, 4, kNever);
  }
}

void read_scaled_add(Reader& r) {
  const bool is_high = r.flag(80);
  const bool has_carry = r.flag(74);
  const bool is_extended = r.flag(73);
  const Sign sign = has_carry ? Sign::inversion : Sign::negation;
  r.name_if(is_high, ".HI");
  r.name_if(has_carry, ".X");
  r.name_if(is_extended, ".SX32");
  if (is_extended && !is_high) r.refuse("a sign of the lower word");
  r.put(r.destination());
  r.put_unless_true(r.predicate_destination(81));
  r.put(r.first_source(sign));
  r.put(r.wide_source(sign));
  if (is_high && !is_extended) {
    r.put(r.narrow_source());
  } else {
    r.expect(64, 8, r.is_uniform() ? kNoUniform : kNoRegister);
  }
  r.put_immediate(r.field(75, 5));
  if (has_carry) return r.put(r.predicate(87));
  r.expect(87, 4, 0xf);
}

void read_logic(Reader& r) {
  r.put_unless_true(r.predicate_destination(81));
  r.put(r.destination());
  r.put(r.first_source());
  r.put_second_and_third(Sign::none, Sign::none);
  r.put_immediate(r.field(72, 8));
  r.put(r.predicate(87));
}

void read_predicate_logic(Reader& r) {
  r.put(r.predicate_destination(81));
  r.put(r.predicate_destination(84));
  r.put(r.predicate(87));
  r.put(r.predicate(77));
  Operand third = r.predicate(68);
  if (r.flag(67)) {
    if (r.is_uniform()) r.refuse("a uniform predicate by its flag");
    third.kind = OperandKind::uniform_predicate;
  }
  r.put(third);
  const std::uint32_t low = r.field(64, 3);
  r.put_immediate(r.field(72, 5) << 3 | low);
  r.put_immediate(r.field(16, 8));
}

void read_shift(Reader& r) {
  r.name(r.flag(76) ? ".R" : ".L");
  r.name_if(r.flag(75), ".W");
  r.name_by(73, 2, kShiftSize);
  r.name_if(r.flag(80), ".HI");
  r.put(r.destination());
  r.put(r.first_source());
  r.put_second_and_third(Sign::none, Sign::none);
}

// The carry into a multiply-add, if it has one.
void read_multiply_carry(Reader& r, bool has_carry) {
  if (has_carry) return r.put(r.predicate(87));
  r.expect(87, 4, 0xf);
}

// The disassembler names multiply-adds by their purpose: a move, an addition, a shift.
std::string_view use_of(Form form, const Operand& a, const Operand& b, const Operand& c) {
  if (form == kUniform || form == kUniformThird) return "";
  const bool is_number = b.kind == OperandKind::immediate;
  const bool is_nothing = c.kind == OperandKind::reg && c.index == kNoRegister;
  if (a.index == kNoRegister) return ".MOV";
  if (is_number ? b.value == 0 : b.kind == OperandKind::reg && b.index == kNoRegister) {
    return ".MOV";
  }
  if (!is_number) return "";
  if (b.value == 1) return is_nothing ? ".MOV" : ".IADD";
  constexpr std::uint32_t kNever =
      0x10000;  // the one power of two that it does not print as a shift
  const bool is_power = std::has_single_bit(b.value) && b.value < 0x8000'0000u;
  return is_power && is_nothing && b.value != kNever ? ".SHL" : "";
}

void read_multiply(Reader& r) {
  const bool has_carry = r.flag(74);
  const Operand destination = r.destination();
  const Operand a = r.first_source();
  const auto [b, c] = r.second_and_third(Sign::none, has_carry ? Sign::inversion : Sign::negation);
  if (!r.is_uniform() && !has_carry) r.name(use_of(r.form(), a, b, c));
  r.name_if(!r.flag(73), ".U32");
  r.name_if(has_carry, ".X");
  r.expect(81, 3, kTrue);
  r.put(destination);
  r.put(a);
  r.put(b);
  r.put(c);
  read_multiply_carry(r, has_carry);
}

// The 64-bit product, or its upper word.
void read_long_multiply(Reader& r) {
  const bool has_carry = r.flag(74);
  r.name_if(!r.flag(73), ".U32");
  r.name_if(has_carry, ".X");
  r.put(r.destination());
  r.put_unless_true(r.predicate_destination(81));
  r.put(r.first_source());
  r.put_second_and_third(Sign::none, has_carry ? Sign::inversion : Sign::negation);
  read_multiply_carry(r, has_carry);
}

void read_plain(Reader& r) {
  r.put(r.destination());
  r.put(r.wide_source());
}

void read_sign_extension(Reader& r) {
  r.name_if(!r.flag(73), ".U32");
  r.put(r.destination());
  r.put(r.first_source());
  r.put(r.wide_source());
}

void read_population_count(Reader& r) {
  r.put(r.destination());
  r.put(r.wide_source(Sign::inversion));
}

void read_highest_bit(Reader& r) {
  r.name_if(!r.flag(73), ".U32");
  r.name_if(r.flag(74), ".SH");
  r.put(r.destination());
  r.put_unless_true(r.predicate_destination(81));
  r.put(r.wide_source(Sign::inversion));
}

void read_short_add(Reader& r) {
  r.put(r.destination());
  r.put(r.first_source());
  r.put(r.wide_source(Sign::negation));
}

void read_minimum(Reader& r) {
  r.name_if(!r.flag(72), ".U32");
  r.expect(81, 6, 0x3f);
  r.put(r.destination());
  r.put(r.first_source());
  r.put(r.wide_source());
  r.put(r.predicate(87));
}

void read_add_minimum(Reader& r) {
  r.name_if(!r.flag(72), ".U32");
  r.put(r.destination());
  r.put(r.first_source());
  r.put_second_and_third(Sign::negation, Sign::none);
  r.put(r.predicate(87));
}

// ---- floats ----

void read_float_compare(Reader& r) {
  r.name_by(76, 4, kFloatCompare);
  r.name_if(r.flag(80), ".FTZ");
  r.name_by(74, 2, kCombine);
  r.put(r.predicate_destination(81));
  r.put(r.predicate_destination(84));
  r.put(r.first_source(Sign::any));
  r.put(r.wide_source(Sign::any));
  r.put(r.predicate(87));
}

// The result of a comparison as 1.0 or 0.0.
void read_float_truth(Reader& r) {
  r.name_by(76, 4, kFloatCompare);
  r.name_if(r.flag(80), ".FTZ");
  r.name_by(74, 2, kCombine);
  r.put(r.destination());
  r.put(r.first_source(Sign::any));
  r.put(r.wide_source(Sign::any));
  r.put(r.predicate(87));
}

void read_float_add(Reader& r) {
  r.name_if(r.flag(80), ".FTZ");
  r.name_by(78, 2, kRounding);
  r.put(r.destination());
  r.put(r.first_source(Sign::any));
  r.put(r.wide_source(Sign::any));
}

void read_float_multiply(Reader& r) {
  r.expect(84, 3, 4);  // product scale 1
  read_float_add(r);
}

void read_float_multiply_add(Reader& r) {
  r.name_if(r.flag(80), ".FTZ");
  r.name_by(78, 2, kRounding);
  r.put(r.destination());
  r.put(r.first_source(Sign::any));
  r.put_second_and_third(Sign::any, Sign::any);
}

// Of the instructions on f64, whose operands are pairs of registers, an immediate is the upper
// word. The second source of DADD is where others have their third.
void read_double_add(Reader& r) {
  r.name_by(78, 2, kRounding);
  r.put(r.destination());
  r.put(r.first_source(Sign::any));
  r.put(r.form() == kRegister ? r.narrow_source(Sign::any) : r.wide_source(Sign::any));
}

void read_double_multiply(Reader& r) {
  r.name_by(78, 2, kRounding);
  r.put(r.destination());
  r.put(r.first_source(Sign::any));
  r.put(r.wide_source(Sign::any));
}

// Arithmetic on two half floats; the compiler uses it to load constants.
void read_half_multiply_add(Reader& r) {
  r.put(r.destination());
  r.put(r.first_source(Sign::any));
  r.put(r.narrow_source());
  r.put(r.wide_source());
}

void read_float_check(Reader& r) {
  r.put(r.predicate_destination(81));
  r.put(r.first_source(Sign::any));
  r.put(r.wide_source(Sign::any));
}

void read_function(Reader& r) {
  r.name_by(74, 4, kFunction);
  r.put(r.destination());
  r.put(r.wide_source(Sign::any));
}

constexpr std::uint32_t kFloat32 = 2, kFloat64 = 3;  // the codes of the types

void read_float_to_float(Reader& r) {
  const std::uint32_t to = r.field(75, 3);
  const std::uint32_t from = r.field(84, 3);
  const bool is_wider = to == kFloat64 && from == kFloat32;
  if (!is_wider && (to != kFloat32 || from != kFloat64)) r.refuse("floats of these sizes");
  r.name(is_wider ? ".F64.F32" : ".F32.F64");
  r.name_by(78, 2, kRounding);
  r.put(r.destination());
  r.put(r.wide_source(Sign::any));
}

void read_whole_part(Reader& r) {
  r.name_if(r.flag(80), ".FTZ");
  r.name_by(78, 2, kWholeRounding);
  r.expect(75, 3, kFloat32);
  r.expect(84, 3, kFloat32);
  r.put(r.destination());
  r.put(r.wide_source(Sign::any));
}

void read_float_to_integer(Reader& r) {
  constexpr std::string_view kWord[] = {"U32", ""};
  constexpr std::string_view kLong[] = {"U64", "S64"};
  const bool is_long = r.base() == 0x111;
  r.name_if(r.flag(80), ".FTZ");
  r.name_by(72, 1, is_long ? kLong : kWord);
  r.expect(75, 2, is_long ? 3 : 2);
  r.name_by(78, 2, kWholeRounding);
  r.name_if(r.flag(77), ".NTZ");  // NaN becomes 0
  r.expect(84, 3, kFloat32);
  r.put(r.destination());
  r.put(r.wide_source(Sign::any));
}

void read_integer_to_float(Reader& r) {
  constexpr std::string_view kWord[] = {"U32", ""};
  constexpr std::string_view kByte[] = {"U8", "S8"};
  constexpr std::string_view kShort[] = {"U16", "S16"};
  constexpr std::string_view kLong[] = {"U64", "S64"};
  const std::uint32_t size = r.field(84, 2);
  const bool is_long = r.base() == 0x112;
  if (is_long != (size == 3)) r.refuse("an integer of that size");
  if (size < 2 && r.form() == kImmediate) r.refuse("half of a number");
  r.name_by(74, 1, is_long ? kLong : size == 0 ? kByte : size == 1 ? kShort : kWord);
  r.expect(75, 3, kFloat32);
  r.name_by(78, 2, kRounding);
  r.put(r.destination());
  r.put(r.wide_source());
}

void read_fast_integer_to_float(Reader& r) {
  r.expect(75, 3, kFloat32);
  r.expect(84, 2, 2);  // the code for 32 bits
  r.name(r.flag(74) ? ".S32" : ".U32");
  constexpr std::string_view kFastRounding[] = {"", kRefused, kRefused, "RZ"};
  r.name_by(78, 2, kFastRounding);
  r.put(r.destination());
  r.put(r.wide_source());
}

// ---- lanes ----

void read_shuffle(Reader& r) {
  const bool has_register_lane = r.form() == kRegister || r.form() == kImmediateThird;
  const bool has_register_limit = r.form() == kRegister || r.form() == kImmediate;
  r.name_by(58, 2, kShuffle);
  r.put(r.predicate_destination(81));
  r.put(r.destination());
  r.put(r.first_source());
  if (has_register_lane) {
    r.put(r.vector_register(32));
  } else {
    r.put_immediate(r.field(53, 5));
  }
  if (has_register_limit) return r.put(r.narrow_source());
  r.put_immediate(r.field(40, 13));
}

void read_vote(Reader& r) {
  r.name_by(72, 2, kVote);
  const Operand lanes = r.destination();
  if (lanes.index != kNoRegister) r.put(lanes);
  r.put(r.predicate_destination(81));
  r.put(r.predicate(87));
}

// Guard and vote are vector predicates; only the result is uniform.
void read_shared_vote(Reader& r) {
  r.name_by(72, 2, kVote);
  const Operand lanes = r.uniform_register(16);
  if (lanes.index != kNoUniform) r.put(lanes);
  Operand outcome = r.predicate_destination(81);
  outcome.kind = OperandKind::uniform_predicate;
  r.put(outcome);
  r.put(r.predicate(87));
}

void read_to_uniform(Reader& r) {
  r.expect(81, 3, kTrue);
  r.put(r.uniform_register(16));
  r.put(r.first_source());
}

void read_reduction(Reader& r) {
  r.name_by(78, 3, kReduction);
  r.name_if(r.flag(73), ".S32");
  r.put(r.uniform_register(16));
  r.put(r.first_source());
}

void read_match(Reader& r) {
  constexpr std::string_view kKind[] = {"ALL", "ANY"};
  const bool is_any = r.flag(79);
  r.name_by(79, 2, kKind);
  r.name_if(r.flag(73), ".U64");
  if (is_any) r.expect(81, 3, kTrue);
  if (!is_any) r.put(r.predicate_destination(81));
  r.put(r.destination());
  r.put(r.first_source());
}

constexpr std::string_view kByte[] = {"", "B1", "B2", "B3"};

// All predicates as bits of a word; the text form prints them as `PR`.
void read_from_predicates(Reader& r) {
  r.name_by(76, 2, kByte);
  r.put(r.destination());
  r.put(r.first_source());
  r.put(r.wide_source());
}

void read_to_predicates(Reader& r) {
  r.put(r.first_source());
  r.put(r.wide_source());
}

// ---- memory ----

// The uniform register with the memory descriptor is not an operand: the compiler always passes the
// same descriptor.
void take_descriptor(Reader& r, unsigned first) {
  r.uniform_register(first);
  r.reads_uniform();
}

void read_usual_caching(Reader& r) {
  r.expect(84, 3, 1);
}

// What the cache throws away first.
void read_caching(Reader& r) {
  constexpr std::string_view kCaching[] = {"EF", ""};
  r.name_by(84, 3, kCaching);
}

void read_global_load(Reader& r) {
  r.expect(72, 1, 1);
  r.name(".E");
  read_caching(r);
  r.name_by(73, 3, kSize);
  r.name_by(77, 4, kLoadOrder);
  r.expect(76, 1, 1);
  constexpr unsigned kGeneric = 0x180;
  r.expect(81, 3, r.base() == kGeneric ? 0 : kTrue);
  r.expect(90, 1, 1);
  take_descriptor(r, 32);
  r.put(r.destination());
  r.put(r.address(r.vector_register(24), /*is_wide=*/true));
}

void read_global_store(Reader& r) {
  r.expect(72, 1, 1);
  r.name(".E");
  read_caching(r);
  r.name_by(73, 3, kSize);
  r.name_by(77, 4, kOrder);
  r.expect(76, 1, 1);
  r.expect(90, 1, 1);
  take_descriptor(r, 64);
  r.put(r.address(r.vector_register(24), /*is_wide=*/true));
  r.put(r.vector_register(32));
}

void read_global_atomic(Reader& r) {
  r.expect(72, 1, 1);
  r.name(".E");
  r.name_by(87, 4, kAtomic);
  r.name_by(73, 3, kAtomicSize);
  r.name_by(77, 4, kOrder);
  r.expect(70, 2, 3);
  read_usual_caching(r);
  take_descriptor(r, 64);
  r.put(r.predicate_destination(81));
  r.put(r.destination());
  r.put(r.address(r.vector_register(24), /*is_wide=*/true));
  r.put(r.vector_register(32));
}

// Generic access: it has no descriptor.
void read_global_exchange(Reader& r) {
  r.expect(72, 1, 1);
  r.name(".E.CAS");
  r.name_by(73, 3, kExchangeSize);
  r.name_by(77, 4, kOrder);
  read_usual_caching(r);
  r.put(r.predicate_destination(81));
  r.put(r.destination());
  const Operand address = r.address(r.vector_register(24), /*is_wide=*/true);
  if (address.index == kNoRegister) r.refuse("an address without a register");
  r.put(address);
  r.put(r.vector_register(32));
  r.put(r.vector_register(64));
}

void read_global_reduction(Reader& r) {
  r.expect(72, 1, 1);
  r.name(".E");
  r.name_by(87, 3, Words(kAtomic).first(8));
  r.name_by(73, 3, kAtomicSize);
  r.name_by(77, 4, kOrder);
  r.expect(90, 1, 1);
  r.expect(71, 1, 1);
  read_usual_caching(r);
  take_descriptor(r, 64);
  r.put(r.address(r.vector_register(24), /*is_wide=*/true));
  r.put(r.vector_register(32));
}

// An address in shared or local memory. `uniform` is the position of the uniform register, if the
// instruction has one.
Operand narrow_address(Reader& r, unsigned uniform, bool has_uniform) {
  Operand address = r.address(r.vector_register(24), /*is_wide=*/false);
  const bool has_register = address.index != kNoRegister;
  if (!has_uniform && !has_register && address.value >= 0x80'0000) r.refuse("an address below 0");
  if (!has_uniform) return address;
  address.uniform = r.uniform_register(uniform).index;
  r.reads_uniform();
  return address;
}

// Only a flag says whether there is a uniform register.
void read_shared_load(Reader& r) {
  r.name_by(73, 3, kSize);
  r.put(r.destination());
  r.put(narrow_address(r, 32, r.flag(91)));
}

void read_shared_store(Reader& r) {
  r.name_by(73, 3, kSize);
  r.put(narrow_address(r, 64, r.form() == kImmediate));
  r.put(r.vector_register(32));
}

void read_shared_atomic(Reader& r) {
  constexpr std::uint32_t kCount = 0xb;
  if (r.form() == kUniformThird) {
    r.expect(87, 4, kCount);
    r.name(".POPC.INC.32");
  } else {
    r.name_by(87, 4, kAtomic);
    r.name_by(73, 3, Words(kAtomicSize).first(3));
  }
  r.put(r.destination());
  r.put(narrow_address(r, 64, r.form() != kRegister));
  if (r.form() != kUniformThird) r.put(r.vector_register(32));
}

void read_shared_exchange(Reader& r) {
  constexpr std::string_view kKind[] = {"CAS", kRefused, kRefused, "CAST.SPIN"};
  r.name_by(87, 2, kKind);
  r.name_by(73, 3, kExchangeSize);
  r.put(r.destination());
  r.put(narrow_address(r, 64, false));
  r.put(r.vector_register(32));
  r.put(r.vector_register(64));
}

void read_local_load(Reader& r) {
  constexpr std::string_view kCaching[] = {kRefused, "", kRefused, "LU"};
  r.name_by(84, 3, kCaching);
  read_shared_load(r);
}

void read_local_store(Reader& r) {
  r.name_by(73, 3, kSize);
  read_usual_caching(r);
  r.put(narrow_address(r, 64, r.form() == kImmediate));
  r.put(r.vector_register(32));
}

void read_memory_barrier(Reader& r) {
  constexpr std::string_view kKind[] = {"SC", "ALL"};
  r.name_by(79, 2, kKind);
  r.name_by(76, 3, kScope);
}

void read_cache_control(Reader& r) {
  constexpr std::uint32_t kInvalidateAll = 4;
  r.expect(87, 4, kInvalidateAll);
  r.expect(24, 8, kNoRegister);
}

// ---- flow ----

void read_nothing(Reader&) {}

// Every control-flow instruction has a condition in addition to its guard.
void put_condition(Reader& r) {
  r.put_unless_true(r.predicate(87));
}

void read_convergence(Reader& r) {
  put_condition(r);
  r.put({.kind = OperandKind::barrier, .index = static_cast<std::uint8_t>(r.field(16, 4))});
}

void read_convergence_begin(Reader& r) {
  read_convergence(r);
  r.put_immediate(r.near_target());
}

// Moves a barrier to a register, which leaves the barrier empty, and back: for more barriers than
// there are.
void read_barrier_save(Reader& r) {
  r.expect(84, 1, 1);
  r.put(r.destination());
  r.put({.kind = OperandKind::barrier, .index = static_cast<std::uint8_t>(r.field(24, 4))});
}

void read_barrier_restore(Reader& r) {
  r.put({.kind = OperandKind::barrier, .index = static_cast<std::uint8_t>(r.field(24, 4))});
  r.put(r.vector_register(32));
}

void read_branch(Reader& r) {
  constexpr std::string_view kKind[] = {"", "U", "DIV", "CONV"};
  const bool has_lanes = r.flag(33);
  r.name_by(32, 2, kKind);
  put_condition(r);
  if (has_lanes) {
    r.put(r.uniform_register(24));
    r.reads_uniform();
  }
  r.put_immediate(r.target());
}

// A branch to a register's value plus an offset.
void read_indirect_branch(Reader& r) {
  put_condition(r);
  Operand place = r.vector_register(24);
  place.is_wide = true;
  r.put(place);
  r.put_immediate(r.target());
}

void read_uniform_indirect_branch(Reader& r) {
  put_condition(r);
  Operand place = r.uniform_register(24);
  r.reads_uniform();
  place.is_wide = true;
  r.put(place);
  r.put_immediate(r.target());
}

void read_return(Reader& r) {
  r.expect(85, 2, 2);
  read_indirect_branch(r);
}

void read_call(Reader& r) {
  r.expect(86, 1, 1);
  put_condition(r);
  r.put_immediate(r.target());
}

void read_warp_sync(Reader& r) {
  constexpr std::string_view kKind[] = {"", "EXCLUSIVE", "COLLECTIVE"};
  const bool is_collective = r.flag(86);
  r.name_by(85, 2, kKind);
  put_condition(r);
  r.put(r.vector_register(24));
  if (is_collective) r.put_immediate(r.target());
}

void read_sleep(Reader& r) {
  put_condition(r);
  r.put(r.wide_source());
}

void read_trap(Reader& r) {
  r.expect(84, 3, 3);
  r.put_immediate(r.field(34, 20));
}

void read_block_barrier(Reader& r) {
  constexpr std::string_view kKind[] = {"SYNC", kRefused, "RED"};
  r.name_by(77, 3, kKind);
  const bool is_reduction = r.flag(78);
  if (is_reduction) r.name_by(74, 2, kPopulation);
  r.name_if(r.flag(80), ".DEFER_BLOCKING");
  r.put_immediate(r.field(54, 4));
  if (const std::uint32_t threads = r.field(42, 12); threads != 0) r.put_immediate(threads);
  if (is_reduction) r.put(r.predicate(87));
}

void read_barrier_result(Reader& r) {
  r.expect(77, 3, 2);
  r.put(r.destination());
  r.put_unless_true(r.predicate_destination(81));
}

// ---- all of them ----

constexpr unsigned bit(Form form) {
  return 1u << form;
}
constexpr unsigned kR = bit(kRegister);
constexpr unsigned kI = bit(kImmediate);
constexpr unsigned kC = bit(kConstant);
constexpr unsigned kU = bit(kUniform);
constexpr unsigned kThirds = bit(kImmediateThird) | bit(kUniformThird);

struct Entry {
  unsigned base;   // the lower nine bits
  unsigned forms;  // the known ones, as bits
  std::string_view name;
  void (*read)(Reader&);
  bool is_uniform = false;
};

constexpr Entry kEntries[] = {
    {0x002, kR | kI | kU, "MOV", read_move},
    {0x003, kI, "P2R", read_from_predicates},
    {0x004, kI, "R2P", read_to_predicates},
    {0x005, kI, "CS2R", read_special_pair},
    {0x006, kI, "VOTE", read_vote},
    {0x007, kR | kI | kU, "SEL", read_select},
    {0x008, kR | kI | kU, "FSEL", read_float_choice},
    {0x009, kR | kI | kU, "FMNMX", read_float_choice},
    {0x00a, kR | kI | kU, "FSET.BF", read_float_truth},
    {0x00b, kR | kI | kU, "FSETP", read_float_compare},
    {0x00c, kR | kI | kU, "ISETP", read_integer_compare},
    {0x010, kR | kI | kU, "IADD3", read_add},
    {0x011, kR | kI | kU, "LEA", read_scaled_add},
    {0x012, kR | kI | kU, "LOP3.LUT", read_logic},
    {0x013, kR | kI | kU, "IABS", read_plain},
    {0x016, kR | kI | kU | kThirds, "PRMT", read_permute},
    {0x019, kR | kI | kU | kThirds, "SHF", read_shift},
    {0x01a, kR | kI | kU, "SGXT", read_sign_extension},
    {0x01c, kI, "PLOP3.LUT", read_predicate_logic},
    {0x020, kR | kI | kU, "FMUL", read_float_multiply},
    {0x021, kR | kThirds, "FADD", read_float_add},
    {0x023, kR | kI | kU | kThirds, "FFMA", read_float_multiply_add},
    {0x024, kR | kI | kU | kThirds, "IMAD", read_multiply},
    {0x025, kR | kI | kU | bit(kUniformThird), "IMAD.WIDE", read_long_multiply},
    {0x027, kR | kI | kU | bit(kUniformThird), "IMAD.HI", read_long_multiply},
    {0x028, kR | kI | kU, "DMUL", read_double_multiply},
    {0x029, kR | kThirds, "DADD", read_double_add},
    {0x02a, kR | kThirds, "DSETP", read_float_compare},
    {0x02b, kR | kI | kU | kThirds, "DFMA", read_float_multiply_add},
    {0x035, bit(kImmediateThird), "HFMA2.MMA", read_half_multiply_add},
    {0x036, kR | kI | kU, "VIADD", read_short_add},
    {0x045, kR | kI | kU, "I2FP.F32", read_fast_integer_to_float},
    {0x046, kR | kI | kU | kThirds, "VIADDMNMX", read_add_minimum},
    {0x048, kR | kI | kU, "VIMNMX", read_minimum},
    {0x082, kI | kU, "UMOV", read_move, true},
    {0x083, kI, "UP2UR", read_from_predicates, true},
    {0x084, kI, "UR2UP", read_to_predicates, true},
    {0x086, kI, "VOTEU", read_shared_vote},
    {0x087, kR | kI, "USEL", read_select, true},
    {0x08c, kR | kI, "UISETP", read_integer_compare, true},
    {0x090, kR | kI, "UIADD3", read_add, true},
    {0x091, kR | kI, "ULEA", read_scaled_add, true},
    {0x092, kR | kI, "ULOP3.LUT", read_logic, true},
    {0x096, kR | kI, "UPRMT", read_permute, true},
    {0x099, kR | kI | bit(kImmediateThird), "USHF", read_shift, true},
    {0x09a, kR | kI, "USGXT", read_sign_extension, true},
    {0x09c, kI, "UPLOP3.LUT", read_predicate_logic, true},
    {0x0a4, kR | kI | bit(kImmediateThird), "UIMAD", read_multiply, true},
    {0x0a5, kR | kI, "UIMAD.WIDE", read_long_multiply, true},
    {0x0b9, kC, "ULDC", read_constant, true},
    {0x0bb, kC, "ULDC", read_indexed_constant, true},
    {0x0bd, kR, "UFLO", read_highest_bit, true},
    {0x0be, kR, "UBREV", read_plain, true},
    {0x0bf, kR, "UPOPC", read_population_count, true},
    {0x0ca, kR, "R2UR", read_to_uniform},
    {0x100, kR | kI | kU, "FLO", read_highest_bit},
    {0x101, kR | kI | kU, "BREV", read_plain},
    {0x102, kR | kI | kU, "FCHK", read_float_check},
    {0x105, kR | kI | kU, "F2I", read_float_to_integer},
    {0x106, kR | kI | kU, "I2F", read_integer_to_float},
    {0x107, kR | kI | kU, "FRND", read_whole_part},
    {0x108, kR | kI | kU, "MUFU", read_function},
    {0x109, kR | kI | kU, "POPC", read_population_count},
    {0x110, kR | kU, "F2F", read_float_to_float},
    {0x111, kR | kU, "F2I", read_float_to_integer},
    {0x112, kR | kU, "I2F", read_integer_to_float},
    {0x118, kI, "NOP", read_nothing},
    {0x119, kI, "S2R", read_special},
    {0x11b, kI, "ENDCOLLECTIVE", put_condition},
    {0x11c, kR, "B2R.RESULT", read_barrier_result},
    {0x11d, kC, "BAR", read_block_barrier},
    {0x141, kI, "BSYNC", read_convergence},
    {0x142, kI, "BREAK", read_convergence},
    {0x144, kI, "CALL.REL.NOINC", read_call},
    {0x145, kI, "BSSY", read_convergence_begin},
    {0x146, kI, "YIELD", put_condition},
    {0x147, kI, "BRA", read_branch},
    {0x148, kR, "WARPSYNC", read_warp_sync},
    {0x148, kI, "WARPSYNC.ALL", put_condition},
    {0x149, kI, "BRX", read_indirect_branch},
    {0x14d, kI, "EXIT", put_condition},
    {0x150, kI, "RET.REL.NODEC", read_return},
    {0x155, kR, "BMOV.32.CLEAR", read_barrier_save},
    {0x156, kR, "BMOV.32", read_barrier_restore},
    {0x158, kI, "BRXU", read_uniform_indirect_branch},
    {0x15c, kI, "BPT.TRAP", read_trap},
    {0x15d, kR | kI, "NANOSLEEP", read_sleep},
    {0x180, kI, "LD", read_global_load},
    {0x181, kI, "LDG", read_global_load},
    {0x182, kC, "LDC", read_constant},
    {0x183, kI, "LDL", read_local_load},
    {0x184, kI, "LDS", read_shared_load},
    {0x185, kI, "ST", read_global_store},
    {0x186, kI, "STG", read_global_store},
    {0x187, kR | kI, "STL", read_local_store},
    {0x188, kR | kI, "STS", read_shared_store},
    {0x189, kR | kI | kThirds, "SHFL", read_shuffle},
    {0x18a, kI, "ATOM", read_global_atomic},
    {0x18b, kR, "ATOM", read_global_exchange},
    {0x18c, kR | kI | bit(kUniformThird), "ATOMS", read_shared_atomic},
    {0x18d, kR, "ATOMS", read_shared_exchange},
    {0x18e, kI, "REDG", read_global_reduction},
    {0x18f, kI, "CCTL.IVALL", read_cache_control},
    {0x192, kI, "MEMBAR", read_memory_barrier},
    {0x1a1, kR, "MATCH", read_match},
    {0x1a8, kI, "ATOMG", read_global_atomic},
    {0x1a9, kR, "ATOMG", read_global_exchange},
    {0x1ab, kI, "ERRBAR", read_nothing},
    {0x1ab, bit(kImmediateThird), "CGAERRBAR", read_nothing},
    {0x1c3, kI, "S2UR", read_special, true},
    {0x1c4, kR, "REDUX", read_reduction},
};

const Entry* entry_of(unsigned base, Form form) {
  const auto* const found = std::ranges::find_if(kEntries, [&](const Entry& entry) {
    return entry.base == base && (entry.forms & bit(form)) != 0;
  });
  return found == std::end(kEntries) ? nullptr : found;
}

// ---- text ----

bool begins_with_any(std::string_view name, Words beginnings) {
  return std::ranges::any_of(beginnings,
                             [&](std::string_view begin) { return name.starts_with(begin); });
}

std::string number(std::uint32_t value, bool is_signed) {
  const bool is_negative = is_signed && value >= 0x8000'0000u;
  return fmt::format("{}0x{:x}", is_negative ? "-" : "", is_negative ? 0u - value : value);
}

std::string float_text(std::uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  const char* const sign = std::signbit(value) ? "-" : "+";
  if (std::isnan(value)) return fmt::format("{}QNAN", sign);
  if (std::isinf(value)) return fmt::format("{}INF", sign);
  return fmt::format("{}", value);
}

std::string immediate_text(std::string_view name, std::uint32_t value) {
  constexpr std::string_view kFloats[] = {"FADD",  "FMUL", "FFMA", "FSET", "FSEL",
                                          "FMNMX", "FCHK", "MUFU", "FRND", "F2I"};
  constexpr std::string_view kSigned[] = {"IADD3", "UIADD3", "IMAD", "UIMAD",
                                          "ISETP", "UISETP", "IABS", "VI"};
  constexpr std::string_view kDoubles[] = {"DADD", "DMUL", "DFMA", "DSETP"};
  if (begins_with_any(name, kFloats)) return float_text(value);
  if (begins_with_any(name, kDoubles)) {
    return fmt::format("{}", std::bit_cast<double>(std::uint64_t{value} << 32));
  }
  return number(value, begins_with_any(name, kSigned));
}

// The last register of a kind is printed with a letter: RZ, URZ, PT.
std::string indexed(std::string_view prefix, std::uint8_t index, std::uint8_t last, char letter) {
  if (index == last) return fmt::format("{}{}", prefix, letter);
  return fmt::format("{}{}", prefix, index);
}

std::string register_text(std::uint8_t index) {
  return indexed("R", index, kNoRegister, 'Z');
}

std::string address_text(const Operand& operand) {
  std::string text;
  const auto add = [&](const std::string& part) {
    if (!text.empty()) text += "+";
    text += part;
  };
  if (operand.index != kNoRegister || operand.is_wide) {
    add(register_text(operand.index) + (operand.is_wide ? ".64" : ""));
  }
  if (operand.uniform != kNoUniform) add(fmt::format("UR{}", operand.uniform));
  if (operand.value != 0) add(number(operand.value, true));
  return fmt::format("[{}]", text.empty() ? "RZ" : text);
}

std::string plain_text(std::string_view name, const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::none:
      return "";
    case OperandKind::reg:
      return register_text(operand.index);
    case OperandKind::uniform:
      return indexed("UR", operand.index, kNoUniform, 'Z');
    case OperandKind::predicate:
      return indexed("P", operand.index, kTrue, 'T');
    case OperandKind::uniform_predicate:
      return indexed("UP", operand.index, kTrue, 'T');
    case OperandKind::immediate:
      return immediate_text(name, operand.value);
    case OperandKind::constant:
      return fmt::format("c[0x{:x}][0x{:x}]", operand.bank, operand.value);
    case OperandKind::indirect_constant:
      return fmt::format("c[0x{:x}][{}{}]", operand.bank,
                         operand.uniform == kNoUniform ? register_text(operand.index)
                                                       : fmt::format("UR{}", operand.uniform),
                         operand.value == 0 ? "" : fmt::format("+0x{:x}", operand.value));
    case OperandKind::special:
      return std::string(special_name(operand.index));
    case OperandKind::barrier:
      return fmt::format("B{}", operand.index);
    case OperandKind::address:
      return address_text(operand);
  }
  return "";
}

std::string operand_text(std::string_view name, const Operand& operand) {
  std::string text = plain_text(name, operand);
  if (operand.is_magnitude) text = fmt::format("|{}|", text);
  if (operand.is_inverted) text = "~" + text;
  const bool is_predicate =
      operand.kind == OperandKind::predicate || operand.kind == OperandKind::uniform_predicate;
  if (operand.is_negative) text = (is_predicate ? "!" : "-") + text;
  return text;
}

}  // namespace

Result<Instruction> decode(std::span<const std::byte, kInstructionBytes> bytes, std::size_t place) {
  Reader reader(bytes, place);
  const Entry* const entry = entry_of(reader.base(), reader.form());
  if (entry == nullptr) {
    reader.refuse("the operation");
    return reader.finish();
  }
  reader.begin(entry->name, entry->is_uniform);
  entry->read(reader);
  return reader.finish();
}

std::string to_text(const Instruction& instruction) {
  const std::string_view name = instruction.name;
  std::string text;
  if (instruction.guard.kind != OperandKind::none) {
    text = fmt::format("@{} ", operand_text(name, instruction.guard));
  }
  text += name;
  // Only in the text form: all predicates as one operand, and the base of a relative target.
  constexpr std::size_t kNowhere = kMaxOperands;
  std::size_t predicates = kNowhere;
  if (name.starts_with("P2R") || name.starts_with("UP2UR")) predicates = 1;
  if (name.starts_with("R2P") || name.starts_with("UR2UP")) predicates = 0;
  const bool has_base = name.starts_with("RET.") || name.starts_with("BRX");
  std::string_view separator = " ";
  for (std::size_t i = 0; i < instruction.operand_count; ++i) {
    const Operand& operand = instruction.operands[i];
    if (i == predicates) {
      text += fmt::format("{}{}", separator, name.starts_with("U") ? "UPR" : "PR");
      separator = ", ";
    }
    if (has_base && operand.kind == OperandKind::immediate) separator = " ";
    text += fmt::format("{}{}", separator, operand_text(name, operand));
    separator = ", ";
  }
  return text;
}

}  // namespace everkernel::simulator
