// Handlers from C++: the same program the parser makes, without text.
//
//   using namespace everkernel::ir::build;
//   HandlerBuilder h({.name = "saxpy", .opcode = 64});
//   const Value a = h.let("a", bits_f32(param));
//   const Value n = h.let("n", min(len(input), len(output)));
//   h.for_range("i", 0u, n, [&](const Value& i) {
//     h.set(output[i], bits_u32(a * bits_f32(input[i]) + bits_f32(output[i])));
//   });
//   auto verified = verify(Program{.handlers = {h.finish()}});
//
// The builder checks nothing: verify() does, for built programs as for parsed ones.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "everkernel/ir/program.hpp"

namespace everkernel::ir::build {

/// An expression. Cheap to copy, and may be used in several places: each use adds a copy to the
/// program.
class Value {
 public:
  Value(std::uint32_t number);  ///< u32 literal
  Value(std::int32_t number);   ///< i32 literal
  Value(float number);          ///< f32 literal
  template <std::same_as<bool> Truth>
  Value(Truth truth) : Value(from_bool(truth)) {}  ///< bool literal

  struct Node;
  /// Wraps a node; used by the functions below.
  explicit Value(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  /// The node behind it.
  const Node& node() const { return *node_; }

 private:
  static Value from_bool(bool truth);
  std::shared_ptr<const Node> node_;
};

/// A buffer, by name or by handle.
class BufferName {
 public:
  /// input, output or control.
  explicit BufferName(BufferKind kind) : kind_(kind) {}
  /// buffer(handle).
  explicit BufferName(Value handle)
      : kind_(BufferKind::handle), handle_(std::make_shared<const Value>(std::move(handle))) {}

  /// The word at an index: a value, and a place for HandlerBuilder::set and the atomics.
  class Place operator[](Value index) const;

  /// Which buffer.
  BufferKind kind() const { return kind_; }
  /// The handle of buffer(handle), else null.
  const Value* handle() const { return handle_.get(); }

 private:
  BufferKind kind_;
  std::shared_ptr<const Value> handle_;
};

/// A word of a buffer or of args: a value where one is wanted, and a place to store to.
class Place {
 public:
  /// A word of a buffer.
  Place(BufferName buffer, Value index)
      : buffer_(std::make_shared<const BufferName>(std::move(buffer))), index_(std::move(index)) {}
  /// A word of args.
  explicit Place(Value index) : index_(std::move(index)) {}
  /// The word's value.
  operator Value() const;

  /// The buffer, null for args.
  const BufferName* buffer() const { return buffer_.get(); }
  /// The index.
  const Value& index() const { return index_; }

 private:
  std::shared_ptr<const BufferName> buffer_;
  Value index_;
};

/// An array of a handler, which HandlerBuilder::array() declares.
class Array {
 public:
  /// The array of that name.
  explicit Array(std::string_view name) : name_(name) {}
  /// Its word at an index, as a value.
  Value operator[](Value index) const;
  /// Its name.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

/// The type of `args`.
struct Args {
  /// One argument word.
  Place operator[](Value index) const { return Place(std::move(index)); }
};

extern const BufferName input;    ///< buffer(args[0])
extern const BufferName output;   ///< buffer(args[1])
extern const BufferName control;  ///< the control words
inline constexpr Args args;       ///< the item's arguments
extern const Value opcode;        ///< of the slot
extern const Value tenant;        ///< of the slot
extern const Value priority;      ///< of the slot
extern const Value slot;          ///< its index
extern const Value param;         ///< args[2]
extern const Value lane;          ///< of this turn of an each
extern const Value lanes;         ///< of the scope

/// buffer(handle).
inline BufferName buffer(Value handle) {
  return BufferName(std::move(handle));
}
/// len(buffer).
Value len(const BufferName& buffer);

/// A unary operator.
Value unary(UnaryOp op, Value a);
/// A binary operator.
Value binary(BinaryOp op, Value a, Value b);
/// A function of the language.
Value call(Function function, std::vector<Value> values);
/// An atomic on a word of a buffer.
Value atomic(AtomicOp op, const Place& place, std::vector<Value> values);

// The operators and functions of the language, under their own names.
inline Value operator-(Value a) {
  return unary(UnaryOp::negate, std::move(a));
}  ///< −a
inline Value operator~(Value a) {
  return unary(UnaryOp::complement, std::move(a));
}  ///< ~a
inline Value operator!(Value a) {
  return unary(UnaryOp::logical_not, std::move(a));
}  ///< !a
inline Value operator*(Value a, Value b) {
  return binary(BinaryOp::multiply, a, b);
}  ///< a * b
inline Value operator/(Value a, Value b) {
  return binary(BinaryOp::divide, a, b);
}  ///< a / b
inline Value operator%(Value a, Value b) {
  return binary(BinaryOp::remainder, a, b);
}  ///< a % b
inline Value operator+(Value a, Value b) {
  return binary(BinaryOp::add, a, b);
}  ///< a + b
inline Value operator-(Value a, Value b) {
  return binary(BinaryOp::subtract, a, b);
}  ///< a - b
inline Value operator<<(Value a, Value b) {
  return binary(BinaryOp::shift_left, a, b);
}  ///< a << b
inline Value operator>>(Value a, Value b) {
  return binary(BinaryOp::shift_right, a, b);
}  ///< a >> b
inline Value operator<(Value a, Value b) {
  return binary(BinaryOp::less, a, b);
}  ///< a < b
inline Value operator<=(Value a, Value b) {
  return binary(BinaryOp::less_equal, a, b);
}  ///< a <= b
inline Value operator>(Value a, Value b) {
  return binary(BinaryOp::greater, a, b);
}  ///< a > b
inline Value operator>=(Value a, Value b) {
  return binary(BinaryOp::greater_equal, a, b);
}  ///< a >= b
inline Value operator==(Value a, Value b) {
  return binary(BinaryOp::equal, a, b);
}  ///< a == b
inline Value operator!=(Value a, Value b) {
  return binary(BinaryOp::not_equal, a, b);
}  ///< a != b
inline Value operator&(Value a, Value b) {
  return binary(BinaryOp::bit_and, a, b);
}  ///< a & b
inline Value operator^(Value a, Value b) {
  return binary(BinaryOp::bit_xor, a, b);
}  ///< a ^ b
inline Value operator|(Value a, Value b) {
  return binary(BinaryOp::bit_or, a, b);
}  ///< a | b
inline Value operator&&(Value a, Value b) {
  return binary(BinaryOp::logical_and, a, b);
}  ///< a && b
inline Value operator||(Value a, Value b) {
  return binary(BinaryOp::logical_or, a, b);
}  ///< a || b
inline Value min(Value a, Value b) {
  return call(Function::min, {a, b});
}  ///< the lesser
inline Value max(Value a, Value b) {
  return call(Function::max, {a, b});
}  ///< the greater
inline Value abs(Value a) {
  return call(Function::abs, {a});
}  ///< without sign
inline Value clz(Value a) {
  return call(Function::clz, {a});
}  ///< leading zeros
inline Value popcount(Value a) {
  return call(Function::popcount, {a});
}  ///< one bits
inline Value select(Value c, Value a, Value b) {
  return call(Function::select, {c, a, b});
}  ///< c ? a : b
inline Value sqrt(Value a) {
  return call(Function::sqrt, {a});
}  ///< square root
inline Value floor(Value a) {
  return call(Function::floor, {a});
}  ///< rounded down
inline Value fma(Value a, Value b, Value c) {
  return call(Function::fma, {a, b, c});
}  ///< a × b + c
inline Value rotl(Value a, Value b) {
  return call(Function::rotl, {a, b});
}  ///< rotated left
inline Value exp(Value a) {
  return call(Function::exp, {a});
}  ///< e to the a
inline Value log(Value a) {
  return call(Function::log, {a});
}  ///< natural logarithm
inline Value exp2(Value a) {
  return call(Function::exp2, {a});
}  ///< 2 to the a
inline Value log2(Value a) {
  return call(Function::log2, {a});
}  ///< logarithm to base 2
inline Value sin(Value a) {
  return call(Function::sin, {a});
}  ///< sine
inline Value cos(Value a) {
  return call(Function::cos, {a});
}  ///< cosine
inline Value tanh(Value a) {
  return call(Function::tanh, {a});
}  ///< hyperbolic tangent
inline Value pow(Value a, Value b) {
  return call(Function::pow, {a, b});
}  ///< a to the b
inline Value clamp(Value a, Value low, Value high) {
  return call(Function::clamp, {a, low, high});
}  ///< min(max(a, low), high)
inline Value u32(Value a) {
  return call(Function::to_u32, {a});
}  ///< converted
inline Value i32(Value a) {
  return call(Function::to_i32, {a});
}  ///< converted
inline Value f32(Value a) {
  return call(Function::to_f32, {a});
}  ///< converted
inline Value bits_u32(Value a) {
  return call(Function::bits_u32, {a});
}  ///< bits kept
inline Value bits_i32(Value a) {
  return call(Function::bits_i32, {a});
}  ///< bits kept
inline Value bits_f32(Value a) {
  return call(Function::bits_f32, {a});
}  ///< bits kept

/// A constant of the program, by its name.
Value constant(std::string_view name);
/// A call of a function of the program.
Value call(std::string_view function, std::vector<Value> values);

/// const name = value, for Program::constants.
Constant make_constant(std::string_view name, const Value& value);

/// How a handler is declared.
struct Declaration {
  std::string name = {};      ///< of the handler
  std::uint32_t opcode = 0;   ///< the opcode of its slots
  Scope scope = Scope::lane;  ///< how many lanes run an item
  bool is_pure = false;       ///< declares it pure
  bool commutes = false;      ///< declares that it commutes
  bool is_payload = false;    ///< makes it the payload
};

/// Builds one handler: each call adds a statement.
class HandlerBuilder {
 public:
  /// Adds the statements of a block.
  using Fill = std::function<void()>;
  /// Adds the statements of a counted loop's body; receives the loop counter.
  using FillTurn = std::function<void(const Value& counter)>;

  /// Begins a handler.
  explicit HandlerBuilder(Declaration declaration);

  /// let name = value; returns the name as a value.
  Value let(std::string_view name, const Value& value);
  /// var name = value; returns the name as a value.
  Value var(std::string_view name, const Value& value);
  /// name = value, for a name that var() returned.
  void set(const Value& variable, const Value& value);
  /// place = value, of a buffer or of args.
  void set(const Place& place, const Value& value);
  /// name op= value, for a name that var() returned.
  void update(const Value& variable, BinaryOp op, const Value& value);
  /// place op= value, of a buffer or of args.
  void update(const Place& place, BinaryOp op, const Value& value);
  /// var name: [element; length], for a length that is a literal or a constant.
  Array array(std::string_view name, Type element, const Value& length);
  /// array[index] = value.
  void set(const Array& array, const Value& index, const Value& value);
  /// array[index] op= value.
  void update(const Array& array, const Value& index, BinaryOp op, const Value& value);
  /// A call for its effect, such as an atomic whose value is not used.
  void run(const Value& value);
  /// printf(fmt, a, b).
  void printf(const Value& fmt, const Value& a, const Value& b);
  /// emit(a, b, c).
  void emit(const Value& a, const Value& b, const Value& c);
  /// if condition { then } else { otherwise }.
  void branch(const Value& condition, const Fill& then, const Fill& otherwise = nullptr);
  /// for name in first .. last { body }.
  void for_range(std::string_view name, const Value& first, const Value& last,
                 const FillTurn& body);
  /// for name in first .. last step step { body }.
  void for_range(std::string_view name, const Value& first, const Value& last, const Value& step,
                 const FillTurn& body);
  /// each name in first .. last { body }.
  void each(std::string_view name, const Value& first, const Value& last, const FillTurn& body);
  /// while condition { body }.
  void while_true(const Value& condition, const Fill& body);
  /// break.
  void break_loop();
  /// continue.
  void continue_loop();
  /// return.
  void finish_item();
  /// yield.
  void yield();
  /// requeue.
  void requeue();
  /// fault code.
  void fault(const Value& code);
  /// await read(source, block, destination, bytes).
  void await_read(const Value& source, const Value& block, const Value& destination,
                  const Value& bytes);
  /// await write(source, block, destination, bytes).
  void await_write(const Value& source, const Value& block, const Value& destination,
                   const Value& bytes);

  /// The handler; the builder is empty afterwards.
  Handler finish();

 private:
  ExprId add(const Value& value);
  BufferRef add(const BufferName& buffer);
  void add(Stmt stmt);
  BlockId fill(const Fill& fill);
  Value declare(StmtKind kind, std::string_view name, const Value& value);
  void assign(const Value& variable, std::optional<BinaryOp> compound, const Value& value);
  void store(const Place& place, std::optional<BinaryOp> compound, const Value& value);
  void store(const Array& array, const Value& index, std::optional<BinaryOp> compound,
             const Value& value);
  void loop(Stmt stmt, std::string_view name, const Value& first, const Value& last,
            const FillTurn& body);
  void await(StmtKind kind, const Value& source, const Value& block, const Value& destination,
             const Value& bytes);

  Handler handler_;
  std::vector<Block> open_;  // innermost last
};

/// Builds one function for Program::functions.
class FunctionBuilder {
 public:
  /// Begins a function whose value has that type.
  FunctionBuilder(std::string_view name, Type result);

  /// Adds a parameter; returns it as a value.
  Value parameter(std::string_view name, Type type);
  /// let name = value; returns the name as a value.
  Value let(std::string_view name, const Value& value);
  /// return value; the builder is empty afterwards.
  UserFunction finish(const Value& value);

 private:
  UserFunction function_;
  Block lets_;
};

}  // namespace everkernel::ir::build
