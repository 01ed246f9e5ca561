// Names of rules, and mistakes as people read them.
#include "everkernel/ir/diagnostic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "everkernel/base/assert.hpp"
#include "ir/unicode.hpp"

namespace everkernel::ir {
namespace {

// In the order of the enumeration.
constexpr std::string_view kRuleNames[] = {
    "unknown-character",
    "bad-number",
    "number-too-large",
    "unclosed-comment",
    "text-too-long",
    "expected-declaration",
    "expected-statement",
    "expected-value",
    "expected-name",
    "expected-opcode",
    "expected-buffer",
    "expected-word",
    "expected-semicolon",
    "expected-brace",
    "expected-parenthesis",
    "expected-bracket",
    "expected-comma",
    "expected-assignment",
    "expected-range",
    "expected-type",
    "argument-count",
    "repeated-promise",
    "unknown-keyword",
    "unknown-name",
    "unknown-function",
    "not-in-function",
    "recursion",
    "not-a-buffer",
    "reserved-name",
    "bad-name",
    "repeated-name",
    "reserved-opcode",
    "repeated-opcode",
    "repeated-payload",
    "payload-promise",
    "type-mismatch",
    "operand-types",
    "argument-types",
    "no-value",
    "unused-value",
    "not-assignable",
    "array-without-index",
    "array-length",
    "fault-code-range",
    "read-only-in-each",
    "nested-each",
    "leaves-each",
    "outside-loop",
    "not-pure",
    "does-not-commute",
    "too-deep",
    "too-many-instructions",
    "too-many-array-words",
    "too-many-variables",
    "too-many-handlers",
    "malformed-tree",
};
static_assert(std::size(kRuleNames) == static_cast<std::size_t>(Rule::malformed_tree) + 1);

constexpr std::size_t kWidth = 96;        // columns of a line that are shown
constexpr std::size_t kBeforeCaret = 64;  // of them, at most before the caret of a line that is cut

// The bytes of the line around a column that may be shown. Looks at no more of a long line.
struct Window {
  std::string_view bytes;
  std::size_t caret;  // offset of the column in the bytes
  bool is_cut_before;
  bool is_cut_behind;
};

Window window_around(std::string_view line, std::size_t column) {
  const std::size_t caret = std::min(column - 1, line.size());
  const bool is_short = line.size() <= kWidth;
  std::size_t first = is_short || caret <= kBeforeCaret ? 0 : caret - kBeforeCaret;
  // Not in the middle of a character.
  while (first > 0 && first < caret && (static_cast<unsigned char>(line[first]) & 0xC0) == 0x80) {
    ++first;
  }
  std::size_t last = is_short ? line.size() : std::min(line.size(), first + kWidth);
  while (last < line.size() && last > caret + 1 &&
         (static_cast<unsigned char>(line[last]) & 0xC0) == 0x80) {
    --last;
  }
  return {.bytes = line.substr(first, last - first),
          .caret = caret - first,
          .is_cut_before = first > 0,
          .is_cut_behind = last < line.size()};
}

// The line with a caret below the column.
std::string excerpt(std::string_view line, Location location) {
  const Window window = window_around(line, location.column);
  std::string shown = window.is_cut_before ? "…" : "";
  std::size_t columns = window.is_cut_before ? 1 : 0;
  std::size_t caret = columns;
  for (std::size_t at = 0; at < window.bytes.size();) {
    if (at <= window.caret) caret = columns;
    const std::string_view rest = window.bytes.substr(at);
    const Character character = first_character(rest);
    if (character.is_visible) {
      shown += rest.substr(0, character.size_bytes);
      columns += character.width;
    } else {
      // A tab takes two columns; a byte that could disturb a terminal shows as `?`.
      shown += rest[0] == '\t' ? "  " : "?";
      columns += rest[0] == '\t' ? 2u : 1u;
    }
    at += character.size_bytes;
  }
  if (window.caret >= window.bytes.size()) caret = columns;
  if (window.is_cut_behind) shown += "…";
  const std::string number = fmt::format("{:>5}", location.line);
  return fmt::format("{} | {}\n{} | {}^\n", number, shown, std::string(number.size(), ' '),
                     std::string(caret, ' '));
}

// The lines of a text by number. Numbers are asked for in any order, in one pass for rising ones.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  // The line without its end; empty behind the last.
  std::string_view line(std::uint32_t number) {
    if (number < number_) start_ = 0, number_ = 1;
    while (number_ < number && start_ < text_.size()) {
      start_ = std::min(text_.find('\n', start_), text_.size() - 1) + 1;
      ++number_;
    }
    if (number_ < number) return {};
    const std::string_view rest = text_.substr(start_);
    std::string_view line = rest.substr(0, rest.find('\n'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

 private:
  std::string_view text_;
  std::size_t start_ = 0;
  std::uint32_t number_ = 1;
};

}  // namespace

std::string_view rule_name(Rule rule) {
  const auto index = static_cast<std::size_t>(rule);
  return index < std::size(kRuleNames) ? kRuleNames[index] : "unknown";
}

void Diagnostics::add(Diagnostic diagnostic) {
  ++count_;
  if (kept_.size() < kMostKept) kept_.push_back(std::move(diagnostic));
}

void Diagnostics::merge(Diagnostics other) {
  count_ += other.count_;
  std::ranges::move(other.kept_, std::back_inserter(kept_));
  std::ranges::stable_sort(kept_, {}, [](const Diagnostic& mistake) {
    return std::pair(mistake.location.line, mistake.location.column);
  });
  if (kept_.size() > kMostKept) kept_.resize(kMostKept);
}

Failure Diagnostics::first() const {
  EVERKERNEL_ASSERT(!kept_.empty());
  const auto& [rule, location, message, hint] = kept_.front();
  const std::string place =
      location.line == 0 ? "" : fmt::format("{}:{}: ", location.line, location.column);
  return fail(Code::invalid_argument, place + message, hint);
}

std::string render(const Diagnostics& diagnostics, std::string_view text, std::string_view path,
                   std::size_t most) {
  Lines lines(text);
  std::string out;
  const std::size_t shown = std::min(most, diagnostics.kept().size());
  for (const Diagnostic& mistake : diagnostics.kept().first(shown)) {
    if (!out.empty()) out += "\nerror: ";
    const Location at = mistake.location;
    const std::string place = at.line == 0 ? "" : fmt::format("{}:{}:", at.line, at.column);
    out += fmt::format("{}:{} {} [{}]\n", path, place, mistake.message, rule_name(mistake.rule));
    if (at.line != 0) out += excerpt(lines.line(at.line), at);
    if (!mistake.hint.empty()) out += fmt::format("hint: {}\n", mistake.hint);
  }
  const std::size_t left = diagnostics.count() - shown;
  if (left > 0) out += fmt::format("\nand {} more\n", left);
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

}  // namespace everkernel::ir
