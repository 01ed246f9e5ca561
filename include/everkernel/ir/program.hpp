// Handlers as data: a tree of statements and expressions, as written and not yet checked.
//
// The parser makes it from text, the builder from C++; verify() turns it into a VerifiedProgram,
// which alone can run. Nodes live in arrays and refer to each other by index. A node is added after
// its parts and has one parent, so that every walk over the tree ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "everkernel/ir/vocabulary.hpp"

namespace everkernel::ir {

/// Where in the text a node begins; line 0 for nodes built from C++.
struct Location {
  std::uint32_t line = 0;    ///< from 1
  std::uint32_t column = 0;  ///< in bytes, from 1
};

/// Index of an expression in its body.
enum class ExprId : std::uint32_t {};
/// Index of a statement in its body.
enum class StmtId : std::uint32_t {};
/// Index of a block in its body.
enum class BlockId : std::uint32_t {};
/// Index of a name in its body.
enum class NameId : std::uint32_t {};

/// The kinds of expressions.
enum class ExprKind : std::uint8_t {
  literal,    ///< `bits` of `type`
  name,       ///< the variable `name`
  builtin,    ///< a given value
  arg,        ///< args[operand 0]
  load,       ///< buffer[operand 0]
  length,     ///< len(buffer)
  unary,      ///< operator and operand 0
  binary,     ///< operator, operands 0 and 1
  call,       ///< function and its operands
  atomic,     ///< atomic on buffer[operand 0], values from operand 1
  user_call,  ///< the function `name` of the program on `operand_count` arguments of the body, from
              ///< number `bits` on; a handler that may run has none
  element,    ///< the word `name`[operand 0] of an array
  bind,       ///< operand 1, in which `name` is operand 0; only in a handler that may run
};

/// A buffer by name, or by the value of an expression.
struct BufferRef {
  BufferKind kind = BufferKind::input;  ///< which buffer
  ExprId handle = {};                   ///< of kind `handle`: its value
};

/// One expression. Its kind says which fields are used.
struct Expr {
  ExprKind kind = ExprKind::literal;  ///< its kind
  Type type = Type::u32;              ///< of a literal
  std::uint8_t operand_count = 0;     ///< of a call, atomic or user_call; else not read
  UnaryOp unary = UnaryOp::negate;    ///< of a unary
  BinaryOp binary = BinaryOp::add;    ///< of a binary
  Function function = Function::min;  ///< of a call
  AtomicOp atomic = AtomicOp::add;    ///< of an atomic
  Builtin builtin = Builtin::opcode;  ///< of a builtin
  BufferRef buffer = {};              ///< of a load, length or atomic
  NameId name = {};                   ///< of a name, user_call, bind or element
  std::uint32_t bits = 0;             ///< of a literal or user_call
  ExprId operands[3] = {};            ///< in order of evaluation
  Location location = {};             ///< where it begins
};

/// The kinds of statements.
enum class StmtKind : std::uint8_t {
  let_value,      ///< let name = value
  let_variable,   ///< var name = value
  assign_name,    ///< name = value
  assign_arg,     ///< args[index] = value
  store,          ///< buffer[index] = value
  branch,         ///< if value body else otherwise
  for_loop,       ///< for name in first .. last body
  each_loop,      ///< each name in first .. last body
  while_loop,     ///< while value body
  break_loop,     ///< leave the innermost loop
  continue_loop,  ///< next turn of the innermost loop
  finish,         ///< return
  yield,          ///< run again, soon
  requeue,        ///< run again, later
  fault,          ///< end as FAULT with code 256 + value
  evaluate,       ///< a call for its effect
  await_read,     ///< request a read, run again when it is done
  await_write,    ///< request a write, run again when it is done
  declare_array,  ///< var name: [element; operand 0]
  store_element,  ///< name[index] = value
};

/// Whether the operator may stand before the = of an assignment.
constexpr bool can_be_compound(BinaryOp op) {
  switch (op) {
    case BinaryOp::multiply:
    case BinaryOp::divide:
    case BinaryOp::remainder:
    case BinaryOp::add:
    case BinaryOp::subtract:
    case BinaryOp::shift_left:
    case BinaryOp::shift_right:
    case BinaryOp::bit_and:
    case BinaryOp::bit_xor:
    case BinaryOp::bit_or:
      return true;
    case BinaryOp::less:
    case BinaryOp::less_equal:
    case BinaryOp::greater:
    case BinaryOp::greater_equal:
    case BinaryOp::equal:
    case BinaryOp::not_equal:
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      return false;
  }
  return false;
}

/// Whether a statement is a `for`, `each` or `while`.
constexpr bool is_loop(StmtKind kind) {
  return kind == StmtKind::for_loop || kind == StmtKind::each_loop || kind == StmtKind::while_loop;
}

/// Whether a statement may have an operator with its `=`.
constexpr bool is_assignment(StmtKind kind) {
  return kind == StmtKind::assign_name || kind == StmtKind::assign_arg || kind == StmtKind::store ||
         kind == StmtKind::store_element;
}

/// One statement. Its kind says which fields are used.
struct Stmt {
  StmtKind kind = StmtKind::finish;       ///< its kind
  NameId name = {};                       ///< of let, var, assign_name, for, each
  BufferRef buffer = {};                  ///< of a store
  ExprId operands[4] = {};                ///< index and value; bounds; condition; the four of await
  Type element = Type::u32;               ///< of declare_array: the type of its words
  std::optional<BinaryOp> compound = {};  ///< of an assignment or store: `place op= value`
  bool has_step = false;                  ///< of a for: operand 2 is its step
  BlockId body = {};                      ///< of a branch or loop
  std::optional<BlockId> otherwise = {};  ///< of a branch
  Location location = {};                 ///< where it begins
};

/// Statements in a row.
struct Block {
  std::vector<StmtId> statements = {};  ///< in order
  Location location = {};               ///< where its brace is
};

/// The nodes of one handler.
struct Body {
  std::vector<Expr> exprs = {};         ///< by ExprId
  std::vector<Stmt> stmts = {};         ///< by StmtId
  std::vector<Block> blocks = {};       ///< by BlockId
  std::vector<std::string> names = {};  ///< by NameId, each once
  std::vector<ExprId> arguments = {};   ///< of user_calls
  BlockId root = {};                    ///< the block that runs

  /// The expression of that index.
  const Expr& operator[](ExprId id) const { return exprs[static_cast<std::size_t>(id)]; }
  /// The statement of that index.
  const Stmt& operator[](StmtId id) const { return stmts[static_cast<std::size_t>(id)]; }
  /// The block of that index.
  const Block& operator[](BlockId id) const { return blocks[static_cast<std::size_t>(id)]; }
  /// The name of that index.
  const std::string& operator[](NameId id) const { return names[static_cast<std::size_t>(id)]; }

  /// Adds an expression.
  ExprId add(const Expr& expr);
  /// Adds a statement.
  StmtId add(const Stmt& stmt);
  /// Adds a block.
  BlockId add(Block block);
  /// The index of a name, which is added if it is new.
  NameId intern(std::string_view name);
};

/// Whether the body has a loop anywhere.
bool has_loops(const Body& body);

/// One handler, or the payload.
struct Handler {
  std::string name = {};       ///< as declared; `payload` for the payload
  std::uint32_t opcode = 0;    ///< the opcode of its slots; unused for the payload
  Scope scope = Scope::lane;   ///< how many lanes run an item
  bool is_pure = false;        ///< declared: running an item twice is the same as running it once
  bool commutes = false;       ///< declared: items on one output may run in any order
  bool is_payload = false;     ///< runs for every slot, with any opcode
  std::size_t text_bytes = 0;  ///< length of its text; 0 if built from C++
  Location location = {};      ///< where it begins
  Body body = {};              ///< its statements
};

/// A value that a program names for its handlers and functions.
struct Constant {
  std::string name = {};   ///< as declared
  Location location = {};  ///< where it begins
  Body body = {};          ///< the expressions of its value
  ExprId value = {};       ///< its value, of literals and constants
};

/// A value that a function is given.
struct Parameter {
  std::string name = {};   ///< as declared
  Type type = Type::u32;   ///< of its values
  Location location = {};  ///< where it is declared
};

/// A function that a program declares for its handlers. A call is replaced by its body.
struct UserFunction {
  std::string name = {};                   ///< as declared
  std::vector<Parameter> parameters = {};  ///< in order
  Type result = Type::u32;                 ///< of its value
  std::size_t text_bytes = 0;              ///< length of its text; 0 if built from C++
  Location location = {};                  ///< where it begins
  Body body = {};                          ///< its lets are the root block
  ExprId value = {};                       ///< what it returns
};

/// The handlers of one text, or of one program built from C++, and what they share.
struct Program {
  std::vector<Handler> handlers = {};        ///< in order; the payload among them
  std::vector<Constant> constants = {};      ///< in any order
  std::vector<UserFunction> functions = {};  ///< in any order
};

}  // namespace everkernel::ir
