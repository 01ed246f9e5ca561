// The mistakes of a handler text: each with its rule, its place, a sentence and a remedy.
//
// parse() and verify() put all that they find into a Diagnostics; their Error is the first of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// The rules that a text can break. Their names, which rule_name() gives, are stable: editors and
/// scripts may rely on them.
enum class Rule : std::uint8_t {
  // The text.
  unknown_character,  ///< a character that the language does not use
  bad_number,         ///< digits that are no number
  number_too_large,   ///< a number outside its type
  unclosed_comment,   ///< a comment without its end
  text_too_long,      ///< more bytes than a handler or a program may have
  // The grammar.
  expected_declaration,  ///< text outside of every handler
  expected_statement,    ///< no statement begins like this
  expected_value,        ///< no value begins like this
  expected_name,         ///< a name is missing
  expected_opcode,       ///< the opcode of a handler is missing
  expected_buffer,       ///< a buffer is missing
  expected_word,         ///< a word such as `in` is missing
  expected_semicolon,    ///< the end of a statement is missing
  expected_brace,        ///< a block does not begin or end
  expected_parenthesis,  ///< a parenthesis does not open or close
  expected_bracket,      ///< an index does not begin or end
  expected_comma,        ///< a comma is missing
  expected_assignment,   ///< the = of an assignment is missing
  expected_range,        ///< the .. of a range is missing
  expected_type,         ///< a type is missing
  argument_count,        ///< a call with too few or too many values
  repeated_promise,      ///< pure or commutes twice
  unknown_keyword,       ///< a word where the language has others
  // Names.
  unknown_name,      ///< a name that is not declared
  unknown_function,  ///< a call of no function
  not_in_function,   ///< a function or constant that looks at an item
  recursion,         ///< functions or constants that need themselves
  not_a_buffer,      ///< an index behind something that has no words
  reserved_name,     ///< a name that the language uses itself
  bad_name,          ///< a name from C++ that is no word
  repeated_name,     ///< a name that is declared twice
  reserved_opcode,   ///< an opcode of the system
  repeated_opcode,   ///< an opcode with two handlers
  repeated_payload,  ///< more than one payload
  payload_promise,   ///< a payload that promises something
  // Types.
  type_mismatch,        ///< a value of another type than its place
  operand_types,        ///< an operator between types that it does not take
  argument_types,       ///< a call with types that it does not take
  no_value,             ///< a call that gives no value, where one is needed
  unused_value,         ///< a value that is a statement
  not_assignable,       ///< an assignment to something that cannot change
  array_without_index,  ///< an array where a value is needed
  array_length,         ///< a length that is no number or constant, or too large
  fault_code_range,     ///< a fault code above the highest
  // Control flow.
  read_only_in_each,  ///< an assignment inside each to what its turns share
  nested_each,        ///< an each inside another
  leaves_each,        ///< a statement that would leave an each
  outside_loop,       ///< break or continue without a loop
  // Promises.
  not_pure,          ///< a pure handler that does more than it may
  does_not_commute,  ///< a commutes handler that does more than it may
  // Limits.
  too_deep,               ///< blocks or parentheses inside each other
  too_many_instructions,  ///< more statements and expressions than a handler may have
  too_many_array_words,   ///< more words of arrays than a handler may have
  too_many_variables,     ///< more variables than a handler may have
  too_many_handlers,      ///< more handlers, functions or constants than a program may have
  // Programs that were built from C++.
  malformed_tree,  ///< a tree that no text gives
};

/// The rule's name: words with hyphens, such as `unknown-name`.
std::string_view rule_name(Rule rule);

/// One mistake.
struct Diagnostic {
  Rule rule = Rule::malformed_tree;  ///< the rule that is broken
  Location location = {};            ///< where; line 0 in a program that was built from C++
  std::string message = {};          ///< what is wrong
  std::string hint = {};             ///< what to do; may be empty
};

/// The mistakes of one text in the order in which they were found. Keeps the first kMostKept and
/// counts the others.
class Diagnostics {
 public:
  /// Mistakes that are kept.
  static constexpr std::size_t kMostKept = 100;

  /// Adds a mistake.
  void add(Diagnostic diagnostic);
  /// Adds the mistakes of another list and sorts all by their place.
  void merge(Diagnostics other);

  /// Those that are kept.
  std::span<const Diagnostic> kept() const { return kept_; }
  /// How many were added.
  std::size_t count() const { return count_; }
  /// Whether there are none.
  bool empty() const { return count_ == 0; }
  /// The first one as an error with the message `LINE:COLUMN: MESSAGE`. There must be one.
  Failure first() const;

 private:
  std::vector<Diagnostic> kept_;
  std::size_t count_ = 0;
};

/// Mistakes that render() shows unless told otherwise.
inline constexpr std::size_t kMostShown = 20;

/// The mistakes for people: place, sentence and rule, the line of the text with a caret, the hint.
/// They are separated by empty lines, and each but the first begins with `error: `, as a program
/// writes the first itself. `path` names the text.
std::string render(const Diagnostics& diagnostics, std::string_view text, std::string_view path,
                   std::size_t most = kMostShown);

}  // namespace everkernel::ir
