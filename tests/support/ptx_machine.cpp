#include "ptx_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>

namespace everkernel::test {
namespace {

using ptx::Instruction;
using ptx::kRubbish;
using ptx::Space;

constexpr std::size_t kAlignment = 16;          // of all variables
constexpr std::size_t kTile = ~std::size_t{0};  // the place of shared memory that a launch adds

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%' || c == '.';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// The parts between separators that no bracket encloses.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (trimmed(text).empty()) return parts;
  int depth = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == separator && depth == 0)) {
      parts.push_back(trimmed(text.substr(first, i - first)));
      first = i + 1;
      continue;
    }
    depth += text[i] == '{' || text[i] == '[' ? 1 : 0;
    depth -= text[i] == '}' || text[i] == ']' ? 1 : 0;
  }
  return parts;
}

// Comments become blanks, so that lines keep their numbers.
std::string without_comments(std::string_view text) {
  std::string plain(text);
  for (std::size_t at = 0; (at = plain.find("//", at)) != std::string::npos;) {
    while (at < plain.size() && plain[at] != '\n') plain[at++] = ' ';
  }
  std::replace(plain.begin(), plain.end(), '\0', ' ');  // NVRTC's text ends with one
  return plain;
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  if (text.ends_with('U')) text.remove_suffix(1);
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return static_cast<std::int64_t>(is_negative ? 0 - value : value);
}

// The value of a number; floats are their bits.
std::optional<std::uint64_t> number_of(std::string_view text) {
  if (text.starts_with("0f") || text.starts_with("0F")) {
    if (text.size() != 10) return {};
    std::uint32_t bits = 0;
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + 10, bits, 16);
    if (error != std::errc() || end != text.data() + 10) return {};
    return bits;
  }
  const auto integer = integer_of(text);
  if (!integer) return {};
  return static_cast<std::uint64_t>(*integer);
}

// ---- names of operations ----

struct Opcode {
  std::string name = {};  // as the table of operations has it
  Space space = Space::any;
  std::uint8_t vector_count = 1;
};

std::optional<Space> space_of(std::string_view word) {
  if (word == "global" || word == "const") return Space::global;
  if (word == "local") return Space::local;
  if (word == "shared" || word == "shared::cta") return Space::shared;
  if (word == "param") return Space::param;
  return {};
}

// Orders, scopes and hints say nothing to one thread.
bool is_order(std::string_view word) {
  static const std::set<std::string_view> words = {
      "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu",
      "sys",  "nc",       "ca",      "cg",      "cs",      "lu",      "cv",  "wb",      "wt"};
  return words.contains(word) || word.starts_with("L1::") || word.starts_with("L2::");
}

Opcode opcode_of(std::string_view text) {
  const auto words = split(text, '.');
  static const std::set<std::string_view> accesses = {"ld", "st", "atom", "red"};
  if (words.empty() || !accesses.contains(words[0])) return {.name = std::string(text)};
  Opcode opcode{.name = std::string(words[0])};
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (const auto space = space_of(words[i])) {
      opcode.space = *space;
    } else if (words[i] == "v2" || words[i] == "v4") {
      opcode.vector_count = words[i] == "v2" ? 2 : 4;
    } else if (!is_order(words[i])) {
      opcode.name += fmt::format(".{}", words[i]);
    }
  }
  return opcode;
}

// The bytes of a type, 0 if it is none.
std::size_t size_of_type(std::string_view type) {
  static const std::map<std::string_view, std::size_t> sizes = {
      {".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2}, {".s16", 2}, {".b32", 4},
      {".u32", 4}, {".s32", 4}, {".f32", 4}, {".b64", 8}, {".u64", 8}, {".s64", 8}, {".pred", 1}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

}  // namespace

// ---- reading a text ----

/// Reads one text.
class PtxParser {
 public:
  PtxParser(PtxModule& module, std::string_view text)
      : module_(module), text_(without_comments(text)) {}

  Result<void> parse() {
    while (skip_blanks()) {
      begin_ = at_;
      const std::string_view word = name();
      if (word == ".version" || word == ".target" || word == ".address_size") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (word == ".visible" || word == ".weak" || word == ".extern") {
        continue;
      } else if (word == ".entry") {
        EVERKERNEL_TRY(read_entry());
      } else if (word == ".func") {
        skip_function();
      } else if (word == ".global" || word == ".const" || word == ".shared") {
        EVERKERNEL_TRY(read_variable(word));
      } else {
        return refuse(fmt::format("`{}` is not known here", word));
      }
    }
    return {};
  }

 private:
  using Late = PtxModule::Late;

  struct Range {
    std::uint32_t first, count;
  };
  // Names between braces. Those of the scopes around them are known too.
  struct Scope {
    std::size_t parent = 0;
    std::map<std::string, std::uint32_t, std::less<>> registers = {};
    std::map<std::string, Range, std::less<>> ranges = {};  // %r<705>
    std::map<std::string, std::size_t, std::less<>> labels = {};
  };
  struct Variable {
    Space space = Space::global;
    std::size_t offset = 0;
  };
  struct Jump {
    std::size_t instruction = 0, scope = 0;
    std::string label = {};
  };

  // -- characters --

  bool skip_blanks() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    return at_ < text_.size();
  }
  std::string_view name() {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == first && at_ < text_.size()) ++at_;  // one character that is no name
    return std::string_view(text_).substr(first, at_ - first);
  }
  std::string_view up_to(char end) {
    const std::size_t first = at_;
    const std::size_t found = std::min(text_.find(end, at_), text_.size());
    at_ = std::min(found + 1, text_.size());
    return trimmed(std::string_view(text_).substr(first, found - first));
  }
  std::size_t line() {
    line_ += static_cast<std::size_t>(
        std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                   text_.begin() + static_cast<std::ptrdiff_t>(begin_), '\n'));
    counted_ = begin_;
    return line_;
  }
  Failure refuse(std::string_view why) {
    begin_ = std::max(begin_, counted_);
    return module_.failure(line(), why);
  }

  // -- declarations --

  // A device function that is not part of a kernel: a call of it is refused.
  void skip_function() {
    const std::size_t body = std::min(text_.find_first_of("{;", at_), text_.size());
    at_ = body;
    if (at_ == text_.size() || text_[at_] == ';') {
      at_ = std::min(at_ + 1, text_.size());
      return;
    }
    int depth = 0;
    do {
      depth += text_[at_] == '{' ? 1 : 0;
      depth -= text_[at_] == '}' ? 1 : 0;
    } while (++at_ < text_.size() && depth > 0);
  }

  // `.align 8 .b8 name[24]`, and perhaps `= {1, 2}`; the rest of the memory is zero. A variable
  // with other values, such as addresses, is not known: who uses it is refused.
  Result<void> read_variable(std::string_view space) {
    const std::string_view all = up_to(';');
    const std::size_t equals = std::min(all.find('='), all.size());
    std::size_t size = 0, count = 1;
    std::string_view variable;
    for (std::string_view rest = trimmed(all.substr(0, equals)); !rest.empty();) {
      const std::size_t end = std::min(rest.find_first_of(" \t\n"), rest.size());
      variable = rest.substr(0, end);
      rest = trimmed(rest.substr(end));
      if (size == 0) size = size_of_type(variable);
    }
    if (size == 0 || variable.empty()) return refuse("a variable that is not understood");
    if (const std::size_t bracket = variable.find('['); bracket != std::string_view::npos) {
      const std::string_view length = variable.substr(bracket + 1, variable.size() - bracket - 2);
      const auto given = length.empty() && space == ".shared" ? std::optional<std::int64_t>(0)
                                                              : integer_of(length);
      if (!given) return refuse("a length that is not understood");
      count = static_cast<std::size_t>(*given);
      variable = variable.substr(0, bracket);
    }
    const Variable placed = place(std::string(variable), space, size * count);
    if (equals == all.size()) return {};
    if (placed.space != Space::global) return refuse("values in memory that has none");
    if (!read_values(trimmed(all.substr(equals + 1)), placed.offset, size, count)) {
      variables_.erase(variables_.find(variable));
    }
    return {};
  }

  bool read_values(std::string_view text, std::size_t first, std::size_t size, std::size_t count) {
    const bool is_list = text.starts_with('{') && text.ends_with('}');
    const auto values = split(is_list ? text.substr(1, text.size() - 2) : text, ',');
    if (values.size() > count) return false;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = number_of(values[i]);
      if (!value) return false;
      std::memcpy(&module_.globals_[first + i * size], &*value, size);
    }
    return true;
  }

  Variable place(std::string variable, std::string_view space, std::size_t bytes) {
    const auto room = [bytes](std::size_t& used) {
      used = aligned(used);
      return std::exchange(used, used + bytes);
    };
    Variable placed;
    if (space == ".shared" && bytes == 0) {
      placed = {Space::shared, kTile};
    } else if (space == ".shared") {
      placed = {Space::shared, room(module_.shared_bytes_)};
    } else if (space == ".local") {
      placed = {Space::local, room(function_->local_bytes)};
    } else {
      std::size_t used = module_.globals_.size();
      placed = {Space::global, room(used)};
      module_.globals_.resize(used);
    }
    variables_[std::move(variable)] = placed;
    return placed;
  }

  Result<void> read_registers() {
    const std::string_view type = (skip_blanks(), name());
    if (size_of_type(type) == 0) return refuse("registers of a type that is not known");
    for (const std::string_view one : split(up_to(';'), ',')) {
      const std::size_t bracket = one.find('<');
      if (bracket == std::string_view::npos) {
        scopes_[scope_].registers[std::string(one)] = new_register(kRubbish);
        continue;
      }
      const auto count = integer_of(one.substr(bracket + 1, one.size() - bracket - 2));
      if (!count) return refuse("a number of registers that is not understood");
      const auto first = static_cast<std::uint32_t>(function_->registers.size());
      function_->registers.resize(first + static_cast<std::size_t>(*count), kRubbish);
      scopes_[scope_].ranges[std::string(one.substr(0, bracket))] = {
          first, static_cast<std::uint32_t>(*count)};
    }
    return {};
  }

  std::uint32_t new_register(std::uint64_t value) {
    function_->registers.push_back(value);
    return static_cast<std::uint32_t>(function_->registers.size() - 1);
  }

  // -- functions --

  Result<void> read_entry() {
    skip_blanks();
    const std::string entry(name());
    function_ = &module_.functions_[entry];
    *function_ = {};
    scopes_.assign(1, {});
    scope_ = 0;
    params_.clear();
    constants_.clear();
    late_.clear();
    jumps_.clear();
    up_to('(');
    for (const std::string_view param : split(up_to(')'), ',')) {
      const bool is_number = param.starts_with(".param .u64") || param.starts_with(".param .b64") ||
                             param.starts_with(".param .u32") || param.starts_with(".param .b32");
      if (!is_number) return refuse(fmt::format("a parameter `{}`", param));
      const std::size_t before = param.find_last_of(" \t");
      params_[std::string(param.substr(before + 1))] = function_->param_count++;
    }
    up_to('{');  // what a launch is bound by says nothing about one thread
    EVERKERNEL_TRY(read_body());
    return resolve_jumps();
  }

  Result<void> read_body() {
    while (skip_blanks()) {
      begin_ = at_;
      if (text_[at_] == '{') {
        scopes_.push_back({.parent = scope_});
        scope_ = scopes_.size() - 1;
        ++at_;
        continue;
      }
      if (text_[at_] == '}') {
        ++at_;
        if (scope_ == 0) return {};
        scope_ = scopes_[scope_].parent;
        continue;
      }
      if (text_[at_] == ';') {
        ++at_;
        continue;
      }
      const std::string_view word = text_[at_] == '@' ? std::string_view() : name();
      if (at_ < text_.size() && text_[at_] == ':' && !word.empty()) {
        ++at_;
        scopes_[scope_].labels[std::string(word)] = function_->code.size();
        continue;
      }
      if (word == ".reg") {
        EVERKERNEL_TRY(read_registers());
      } else if (word == ".local" || word == ".shared") {
        EVERKERNEL_TRY(read_variable(word));
      } else if (word == ".pragma" || word == ".loc") {
        up_to(word == ".loc" ? '\n' : ';');
      } else {
        at_ = begin_;
        EVERKERNEL_TRY(read_instruction(up_to(';')));
      }
    }
    return refuse("the text ends in a function");
  }

  Result<void> resolve_jumps() {
    for (const Jump& jump : jumps_) {
      Instruction& instruction = function_->code[jump.instruction];
      std::size_t scope = jump.scope;
      while (scope != 0 && !scopes_[scope].labels.contains(jump.label)) {
        scope = scopes_[scope].parent;
      }
      const auto found = scopes_[scope].labels.find(jump.label);
      if (found == scopes_[scope].labels.end()) {
        return module_.failure(instruction.line, "there is no such label");
      }
      instruction.target = found->second;
    }
    return {};
  }

  // -- instructions --

  Result<void> read_instruction(std::string_view text) {
    Instruction instruction{.line = line()};
    if (text.starts_with('@')) {
      instruction.guard_value = !text.starts_with("@!");
      text.remove_prefix(instruction.guard_value ? 1 : 2);
      const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
      const auto guard = find_register(text.substr(0, end));
      if (!guard) return refuse("a predicate that is not declared");
      instruction.guard = *guard;
      text = trimmed(text.substr(end));
    }
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    Opcode opcode = opcode_of(text.substr(0, end));
    instruction.space = opcode.space;
    instruction.vector_count = opcode.vector_count;
    std::vector<std::string_view> operands;
    for (const std::string_view part : split(text.substr(end), ',')) {
      if (opcode.name == "mov.b64" && part.starts_with('{')) {
        opcode.name += operands.empty() ? " unpack" : " pack";
      }
      const bool is_vector = part.starts_with('{') && part.ends_with('}');
      for (const std::string_view one :
           is_vector ? split(part.substr(1, part.size() - 2), ',') : split(part, '|')) {
        operands.push_back(one);
      }
    }
    const ptx::Form* const form = ptx::find_form(opcode.name);
    if (form == nullptr) return refuse(fmt::format("`{}` is not known", opcode.name));
    instruction.run = form->run;
    EVERKERNEL_TRY(read_operands(instruction, form->operands, operands));
    function_->code.push_back(instruction);
    return {};
  }

  Result<void> read_operands(Instruction& instruction, std::string_view form,
                             const std::vector<std::string_view>& operands) {
    if (form == "*") return {};
    // A vector has its registers in the place of one.
    std::string kinds;
    for (const char kind : form) {
      const bool is_value = kind == 'd' || kind == 's';
      kinds.append(is_value ? instruction.vector_count : 1u, kind);
    }
    if (kinds.size() != operands.size() || kinds.size() > ptx::kMaxOperands) {
      return refuse(fmt::format("{} operands, not {}", operands.size(), kinds.size()));
    }
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const std::string_view text = operands[i];
      if (kinds[i] == 'l') {
        jumps_.push_back({function_->code.size(), scope_, std::string(text)});
        continue;
      }
      const auto index = kinds[i] == 'd'   ? destination(text)
                         : kinds[i] == 's' ? source(text)
                                           : address(text, instruction);
      if (!index) return refuse(fmt::format("`{}` is not understood", text));
      instruction.at[i] = *index;
    }
    return {};
  }

  std::optional<std::uint32_t> find_register(std::string_view text) const {
    std::size_t digits = text.size();
    while (digits > 0 && is_digit(text[digits - 1])) --digits;
    const auto number = integer_of(text.substr(digits));
    for (std::size_t scope = scope_;; scope = scopes_[scope].parent) {
      const Scope& names = scopes_[scope];
      if (const auto found = names.registers.find(text); found != names.registers.end()) {
        return found->second;
      }
      const auto range = names.ranges.find(text.substr(0, digits));
      if (number && range != names.ranges.end() && *number < range->second.count) {
        return range->second.first + static_cast<std::uint32_t>(*number);
      }
      if (scope == 0) return {};
    }
  }

  std::optional<std::uint32_t> destination(std::string_view text) {
    if (text == "_") return new_register(kRubbish);  // nobody reads it
    return find_register(text);
  }

  std::optional<std::uint32_t> source(std::string_view text) {
    if (text.empty()) return {};
    if (is_digit(text.front()) || text.front() == '-') {
      const auto number = number_of(text);
      if (!number) return {};
      return constant(*number);
    }
    if (const auto found = find_register(text)) return found;
    if (const auto found = special(text)) return found;
    const auto found = variables_.find(text);
    if (found == variables_.end()) return {};
    const Variable& variable = found->second;
    if (variable.offset == kTile) return late(Late::tile, 0);
    if (variable.space == Space::shared) return constant(variable.offset);
    return late(variable.space == Space::local ? Late::local : Late::global, variable.offset);
  }

  std::optional<std::uint32_t> special(std::string_view text) {
    if (text == "%tid.x" || text == "%tid.y" || text == "%tid.z" || text == "%laneid") {
      return constant(0);
    }
    if (text == "%ntid.x" || text == "%ntid.y" || text == "%ntid.z") return constant(1);
    if (text == "%ctaid.x") return late(Late::block, 0);
    if (text == "%dynamic_smem_size") return late(Late::shared_bytes, 0);
    return {};
  }

  std::uint32_t constant(std::uint64_t value) {
    const auto [found, is_new] = constants_.try_emplace(value, 0);
    if (is_new) found->second = new_register(value);
    return found->second;
  }
  std::uint32_t late(Late kind, std::size_t offset) {
    const auto [found, is_new] = late_.try_emplace({kind, offset}, 0);
    if (is_new) {
      found->second = new_register(0);
      function_->late.push_back({found->second, kind, offset});
    }
    return found->second;
  }

  // `[base]` or `[base+offset]`.
  std::optional<std::uint32_t> address(std::string_view text, Instruction& instruction) {
    if (!text.starts_with('[') || !text.ends_with(']')) return {};
    text = trimmed(text.substr(1, text.size() - 2));
    if (const std::size_t plus = text.find('+'); plus != std::string_view::npos) {
      const auto offset = integer_of(trimmed(text.substr(plus + 1)));
      if (!offset) return {};
      instruction.offset = *offset;
      text = trimmed(text.substr(0, plus));
    }
    if (instruction.space != Space::param) return source(text);
    const auto found = params_.find(text);
    if (found == params_.end()) return {};
    return constant(found->second * sizeof(std::uint64_t));
  }

  PtxModule& module_;
  std::string text_;
  std::size_t at_ = 0, begin_ = 0;      // here, and where the statement begins
  std::size_t line_ = 1, counted_ = 0;  // the line of this place
  std::map<std::string, Variable, std::less<>> variables_ = {};
  // Of the function that is being read.
  PtxModule::Function* function_ = nullptr;
  std::vector<Scope> scopes_ = {};
  std::size_t scope_ = 0;
  std::map<std::string, std::size_t, std::less<>> params_ = {};
  std::map<std::uint64_t, std::uint32_t> constants_ = {};
  std::map<std::pair<Late, std::size_t>, std::uint32_t> late_ = {};
  std::vector<Jump> jumps_ = {};
};

Result<PtxModule> PtxModule::parse(std::string_view text) {
  PtxModule module;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t end = std::min(text.find('\n', first), text.size());
    module.lines_.emplace_back(trimmed(text.substr(first, end - first)));
    first = end + 1;
  }
  EVERKERNEL_TRY(PtxParser(module, text).parse());
  return module;
}

Failure PtxModule::failure(std::size_t line, std::string_view why) const {
  const std::string_view text = line <= lines_.size() ? lines_[line - 1] : std::string_view();
  return fail(Code::invalid_argument, fmt::format("PTX line {}: {}: {}", line, text, why));
}

// ---- running ----

ptx::Thread PtxModule::thread_of(const Function& function, const PtxLaunch& launch,
                                 std::span<std::byte> globals, std::span<std::byte> locals) const {
  const auto address = [](std::span<std::byte> bytes) {
    return reinterpret_cast<std::uint64_t>(bytes.data());
  };
  ptx::Thread thread{.registers = function.registers,
                     .regions = {launch.regions.begin(), launch.regions.end()}};
  thread.regions.push_back({address(globals), globals.size()});
  thread.regions.push_back({address(locals), locals.size(), true, Space::local});
  thread.shared.resize(aligned(shared_bytes_) + launch.shared_bytes);
  thread.params.resize(launch.params.size_bytes());
  std::ranges::copy(std::as_bytes(launch.params), thread.params.begin());
  for (const LateValue& late : function.late) {
    std::uint64_t& value = thread.registers[late.at];
    switch (late.kind) {
      case Late::block:
        value = launch.block;
        break;
      case Late::shared_bytes:
        value = launch.shared_bytes;
        break;
      case Late::tile:
        value = aligned(shared_bytes_);
        break;
      case Late::global:
        value = address(globals) + late.offset;
        break;
      case Late::local:
        value = address(locals) + late.offset;
        break;
    }
  }
  return thread;
}

Result<std::uint64_t> PtxModule::run(const PtxLaunch& launch) const {
  const auto found = functions_.find(launch.entry);
  if (found == functions_.end()) {
    return fail(Code::invalid_argument, fmt::format("there is no kernel {}", launch.entry));
  }
  const Function& function = found->second;
  if (launch.params.size() != function.param_count) {
    return fail(Code::invalid_argument, fmt::format("{} takes {} params, not {}", launch.entry,
                                                    function.param_count, launch.params.size()));
  }
  std::vector<std::byte> globals = globals_;
  std::vector<std::byte> locals(function.local_bytes);
  ptx::Thread thread = thread_of(function, launch, globals, locals);
  std::uint64_t executed = 0;
  std::size_t line = 0;
  while (!thread.is_over) {
    if (thread.next == function.code.size()) return failure(line, "runs past the end");
    const Instruction& instruction = function.code[thread.next++];
    line = instruction.line;
    if (executed++ == launch.instruction_limit) return failure(line, "ran too long");
    if (instruction.guard != ptx::kNoGuard &&
        ((thread.registers[instruction.guard] & 1) != 0) != instruction.guard_value) {
      continue;
    }
    instruction.run(thread, instruction);
  }
  if (!thread.failure.empty()) return failure(line, thread.failure);
  return executed;
}

}  // namespace everkernel::test
