#include "support/ptx_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>

namespace everkernel::test {
namespace {

// Markers, and the rules for their accesses.
struct MarkerRule {
  std::string_view name;
  bool needs_order;    // and a scope
  bool may_be_cached;  // by the non-coherent cache
};
constexpr MarkerRule kMarkers[] = {
    {"word", true, false}, {"atomic", true, false}, {"data", false, false},
    {"hit", false, false}, {"table", false, true},  {"row", false, true},
};

// Instructions that touch memory, by the part before their first dot.
constexpr std::array<std::string_view, 16> kAccesses = {
    "ld",  "ldu",  "st",   "atom", "red",   "cp",       "prefetch", "prefetchu",
    "tex", "tld4", "suld", "sust", "sured", "multimem", "discard",  "applypriority"};
constexpr std::array<std::string_view, 4> kOrders = {"relaxed", "acquire", "release", "acq_rel"};
constexpr std::array<std::string_view, 4> kScopes = {"cta", "cluster", "gpu", "sys"};
// Memory of a thread or a block, and constant memory.
constexpr std::array<std::string_view, 5> kOtherSpaces = {"param", "shared", "local", "const",
                                                          "reg"};

template <class List>
bool is_one_of(std::string_view word, const List& list) {
  return std::ranges::find(list, word) != std::end(list);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r{");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// The parts of `ld.relaxed.gpu.global.u32`; a part like `shared::cta` is cut at the colons.
std::vector<std::string_view> parts_of(std::string_view instruction) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= instruction.size();) {
    const std::size_t end = std::min(instruction.find('.', at), instruction.size());
    const std::string_view part = instruction.substr(at, end - at);
    parts.push_back(part.substr(0, part.find("::")));
    at = end + 1;
  }
  return parts;
}

// The instruction of a statement, without label and predicate.
std::string_view instruction_of(std::string_view statement) {
  statement = trimmed(statement);
  const std::size_t label = statement.find(':');
  const std::size_t space = statement.find_first_of(" \t");
  if (label != statement.npos && (space == statement.npos || label < space) &&
      statement.substr(label, 2) != "::") {
    return instruction_of(statement.substr(label + 1));
  }
  if (statement.starts_with('@')) {
    return space == statement.npos ? "" : instruction_of(statement.substr(space));
  }
  return statement.substr(0, statement.find_first_of(" \t["));
}

class Checker {
 public:
  PtxReport run(std::string_view ptx) {
    for (std::size_t at = 0; at < ptx.size();) {
      const std::size_t end = std::min(ptx.find('\n', at), ptx.size());
      ++line_;
      text_ = ptx.substr(at, end - at);
      check_line();
      at = end + 1;
    }
    return std::move(report_);
  }

 private:
  void add(std::string what) {
    report_.violations.push_back({line_, std::string(trimmed(text_)), std::move(what)});
  }

  void check_line() {
    if (text_.find("// begin inline asm") != text_.npos) is_inline_ = true;
    if (text_.find("// end inline asm") != text_.npos) is_inline_ = false;
    const std::size_t comment = std::min(text_.find("//"), text_.size());
    std::string_view code = text_.substr(0, comment);
    if (trimmed(code).starts_with(".extern .func")) add("calls a function outside the text");
    for (std::size_t at = 0; at < code.size();) {
      const std::size_t end = std::min(code.find(';', at), code.size());
      check_statement(code.substr(at, end - at), text_.substr(comment));
      at = end + 1;
    }
  }

  // Lanes of a warp may be apart behind a label or a branch, until they are told to meet.
  void check_barrier(std::string_view statement, std::span<const std::string_view> parts) {
    const auto starts = [&](std::string_view first, std::string_view second) {
      return parts.size() > 1 && parts[0] == first && parts[1] == second;
    };
    const bool is_labelled = trimmed(statement).starts_with('$');
    if (is_labelled || parts[0] == "bra") are_apart_ = true;
    if (starts("bar", "warp")) are_apart_ = false;
    const bool is_barrier =
        (parts[0] == "bar" || parts[0] == "barrier") && is_one_of(std::string_view("red"), parts);
    if (is_barrier && are_apart_) add("is reached by lanes that may be apart");
  }

  void check_statement(std::string_view statement, std::string_view comment) {
    const auto parts = parts_of(instruction_of(statement));
    check_barrier(statement, parts);
    if (!is_one_of(parts[0], kAccesses)) return;
    const auto has = [&](std::string_view part) { return is_one_of(part, parts); };
    const auto has_any = [&](const auto& list) {
      return std::ranges::any_of(list, [&](std::string_view part) { return has(part); });
    };
    if (has("volatile") || has("mmio")) add("is volatile: it has no order");
    const bool is_elsewhere = !has("global") && has_any(kOtherSpaces);
    if (is_elsewhere) return;
    if (!is_inline_) return add("was made by the compiler, not by an accessor");
    const auto rule = rule_of(comment);
    if (!rule) return;
    ++report_.accesses[std::string(rule->name)];
    if (!has("global")) add("does not say which memory it means");
    if (rule->needs_order && !has_any(kOrders)) add("has no order");
    if (rule->needs_order && !has_any(kScopes)) add("has no scope");
    if (has("nc") && !rule->may_be_cached) add("may be read from a cache that is not coherent");
  }

  std::optional<MarkerRule> rule_of(std::string_view comment) {
    const std::size_t at = comment.find("ek:");
    if (at == comment.npos) {
      add("has no marker");
      return std::nullopt;
    }
    const std::string_view rest = comment.substr(at + 3);
    const std::string_view name =
        rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"));
    for (const MarkerRule& rule : kMarkers) {
      if (rule.name == name) return rule;
    }
    add(fmt::format("has a marker that means nothing: `{}`", name));
    return std::nullopt;
  }

  PtxReport report_;
  std::size_t line_ = 0;
  std::string_view text_ = {};
  bool is_inline_ = false;
  bool are_apart_ = true;
};

}  // namespace

PtxReport check_ptx(std::string_view ptx) {
  return Checker().run(ptx);
}

std::string shown(const PtxReport& report) {
  std::string text;
  for (const PtxViolation& violation : report.violations) {
    text += fmt::format("{}: {}: {}\n", violation.line, violation.text, violation.what);
  }
  return text;
}

}  // namespace everkernel::test
