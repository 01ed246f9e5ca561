// Finds the function and the modifiers for an instruction, by its name.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "simulator/operations.hpp"

namespace everkernel::simulator {
namespace {

const Form* find_form(std::string_view name) {
  static const auto all = [] {
    std::unordered_map<std::string_view, const Form*> forms;
    for (const auto& some : {integer_forms(), float_forms(), memory_forms(), lane_forms()}) {
      for (const Form& form : some) forms[form.name] = &form;
    }
    return forms;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

u32 modifier_of(std::string_view part) {
  static const std::unordered_map<std::string_view, u32> all = {
      {"U32", kU32},   {"X", kX},     {"EX", kEx},   {"HI", kHi},       {"W", kW},
      {"FTZ", kFtz},   {"U8", kU8},   {"U16", kU16}, {"U", kAllOrNone}, {"L", kL},
      {"R", kR},       {"S32", kS32}, {"U64", kU64}, {"S64", kS64},     {"SH", kSh},
      {"SX32", kSx32}, {"NTZ", kNtz}, {"CAS", kCas}};
  const auto found = all.find(part);
  return found == all.end() ? 0 : found->second;
}

bool allows(std::string_view list, std::string_view part) {
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(' ', at), list.size());
    if (list.substr(at, end - at) == part) return true;
    at = end + 1;
  }
  return false;
}

// Applies one part of the name that follows the form's name; returns whether the form permits it.
bool read_part(Step& step, const Form& form, std::string_view part) {
  for (const Part& known : form.parts) {
    if (known.name != part) continue;
    step.*known.field = known.value;
    if (part == "S8" || part == "S16") step.modifiers |= kSigned;
    if (part == "S64" && known.field == &Step::bytes) step.modifiers |= kS64;
    return true;
  }
  if (!allows(form.modifiers, part)) return false;
  step.modifiers |= modifier_of(part);
  return true;
}

// The name of the vector instruction that a uniform instruction performs on uniform registers.
std::string_view common_name(std::string_view name) {
  static constexpr std::string_view kUniform[] = {"UIADD3", "UIMAD",  "ULEA",  "USHF",  "ULOP3",
                                                  "UPLOP3", "UISETP", "USEL",  "UMOV",  "UPOPC",
                                                  "UFLO",   "UBREV",  "UPRMT", "USGXT", "ULDC"};
  static constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"VOTEU.ANY", "VOTE.ANY"}, {"VOTEU.ALL", "VOTE.ALL"}, {"VOTEU.EQ", "VOTE.EQ"},
      {"S2UR", "S2R"},           {"UP2UR", "P2R"},          {"UR2UP", "R2P"}};
  for (const auto& [uniform, common] : kOthers) {
    if (name == uniform) return common;
  }
  const std::string_view base = name.substr(0, name.find('.'));
  return std::ranges::find(kUniform, base) != std::end(kUniform) ? name.substr(1) : name;
}

}  // namespace

Result<Step> step_of(const Instruction& instruction) {
  Step step{.instruction = instruction};
  const std::string_view name = common_name(instruction.name);
  step.is_uniform = name != instruction.name;
  // Finds the longest known prefix; the rest of the name are modifiers.
  std::size_t end = name.size();
  const Form* form = find_form(name);
  while (form == nullptr && end != 0) {
    end = name.rfind('.', end - 1);
    if (end == std::string_view::npos) break;
    form = find_form(name.substr(0, end));
  }
  if (form == nullptr) return fail(Code::unsupported, "the instruction is not known");
  if (form->name == "REDUX") step.kind = kAtomicAnd;  // the text form leaves AND out
  if (form->name == "CS2R") step.bytes = 8;
  if (form->name == "ATOMS.CAST") step.modifiers |= kCas;
  for (std::size_t at = end; at < name.size();) {
    const std::size_t next = std::min(name.find('.', at + 1), name.size());
    const std::string_view part = name.substr(at + 1, next - at - 1);
    if (!read_part(step, *form, part)) {
      return fail(Code::unsupported, fmt::format("`{}` is not known", part));
    }
    at = next;
  }
  if (step.count() < form->least || step.count() > form->most) {
    return fail(Code::unsupported, fmt::format("{} operands", step.count()));
  }
  step.lane_function = form->lane_function;
  step.warp_function = form->warp_function;
  return step;
}

}  // namespace everkernel::simulator
