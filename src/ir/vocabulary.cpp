// Lookups in the tables of the language. The tables are short: a search is faster than a map.
#include "everkernel/ir/vocabulary.hpp"

#include <algorithm>
#include <array>

#include "everkernel/ir/detail/vocabulary_tables.hpp"

namespace everkernel::ir {
namespace {

// A table whose rows are in the order of their enumeration can be indexed by it.
template <class Row, std::size_t kCount, class Key>
constexpr bool is_in_order(const Row (&rows)[kCount], Key Row::*key) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (static_cast<std::size_t>(rows[i].*key) != i) return false;
  }
  return true;
}
static_assert(is_in_order(kBinaryOps, &BinaryOpInfo::op));
static_assert(is_in_order(kFunctions, &FunctionInfo::function));
static_assert(is_in_order(kAtomicOps, &AtomicOpInfo::op));
static_assert(is_in_order(kBuiltins, &BuiltinInfo::builtin));

constexpr std::array<std::string_view, 33> kKeywords = {
    "handler", "payload", "scope",   "lane",  "warp",  "group", "pure",  "commutes", "let",
    "var",     "if",      "else",    "for",   "each",  "in",    "while", "break",    "continue",
    "return",  "yield",   "requeue", "fault", "await", "read",  "write", "args",     "input",
    "output",  "control", "buffer",  "len",   "true",  "false",
};

}  // namespace

std::string_view type_name(Type type) {
  switch (type) {
    case Type::none:
      return "no value";
    case Type::u32:
      return "u32";
    case Type::i32:
      return "i32";
    case Type::f32:
      return "f32";
    case Type::boolean:
      return "bool";
  }
  return "unknown";
}

std::string_view scope_name(Scope scope) {
  switch (scope) {
    case Scope::lane:
      return "lane";
    case Scope::warp:
      return "warp";
    case Scope::group:
      return "group";
  }
  return "unknown";
}

char unary_sign(UnaryOp op) {
  switch (op) {
    case UnaryOp::negate:
      return '-';
    case UnaryOp::complement:
      return '~';
    case UnaryOp::logical_not:
      return '!';
  }
  return '?';
}

std::string_view buffer_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::input:
      return "input";
    case BufferKind::output:
      return "output";
    case BufferKind::control:
      return "control";
    case BufferKind::handle:
      return "buffer";
  }
  return "unknown";
}

std::optional<Function> find_function(std::string_view name) {
  for (const FunctionInfo& row : kFunctions) {
    if (row.name == name) return row.function;
  }
  return std::nullopt;
}

std::optional<AtomicOp> find_atomic(std::string_view name) {
  for (const AtomicOpInfo& row : kAtomicOps) {
    if (row.name == name) return row.op;
  }
  return std::nullopt;
}

std::optional<Builtin> find_builtin(std::string_view name) {
  for (const BuiltinInfo& row : kBuiltins) {
    if (row.name == name) return row.builtin;
  }
  return std::nullopt;
}

bool is_word(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && !is_digit(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || is_digit(c); });
}

bool is_reserved_word(std::string_view word) {
  const auto function = find_function(word);
  return std::ranges::find(kKeywords, word) != kKeywords.end() ||
         (function && info(*function).is_reserved) || find_atomic(word) || find_builtin(word);
}

}  // namespace everkernel::ir
