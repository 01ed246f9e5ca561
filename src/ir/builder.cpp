// Values are trees of shared nodes; a statement copies the trees it uses into the handler's arrays,
// where every node has one parent.
#include "everkernel/ir/builder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "everkernel/ir/limits.hpp"

namespace everkernel::ir::build {

struct Value::Node {
  Expr expr = {};         // without ids
  std::string name = {};  // of a name
  std::vector<Value> operands = {};
  std::optional<BufferName> buffer = {};  // of a load, length or atomic
};

namespace {

Value make(Value::Node node) {
  node.expr.operand_count = static_cast<std::uint8_t>(node.operands.size());
  return Value(std::make_shared<const Value::Node>(std::move(node)));
}

Value literal(Type type, std::uint32_t bits) {
  return make({.expr = {.kind = ExprKind::literal, .type = type, .bits = bits}});
}

// A value without a literal in the language is built as its text would parse, so that it counts as
// many instructions.
Value signed_literal(std::int32_t number) {
  const auto bits = static_cast<std::uint32_t>(number);
  if (number >= 0) return literal(Type::i32, bits);
  if (bits == 0x80000000u) return call(Function::to_i32, {literal(Type::u32, bits)});
  return unary(UnaryOp::negate, literal(Type::i32, 0u - bits));
}

Value float_literal(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  if (std::isfinite(number) && (bits >> 31) == 0) return literal(Type::f32, bits);
  return call(Function::bits_f32, {literal(Type::u32, bits)});
}

Value given(Builtin builtin) {
  return make({.expr = {.kind = ExprKind::builtin, .builtin = builtin}});
}

Value named(std::string_view name) {
  return make({.expr = {.kind = ExprKind::name}, .name = std::string(name)});
}

}  // namespace

namespace {

BufferRef add_to(Body& body, const BufferName& buffer);

// Copies a tree of shared nodes into the arrays of a body.
ExprId add_to(Body& body, const Value& value) {
  const Value::Node& node = value.node();
  Expr expr = node.expr;
  // The verifier refuses every program over the limit, so that copying can stop there. Otherwise a
  // value that is combined with itself again and again would double in size each time.
  if (body.exprs.size() > kMaxInstructions) return body.add(Expr{});
  if (expr.kind == ExprKind::name || expr.kind == ExprKind::user_call ||
      expr.kind == ExprKind::element) {
    expr.name = body.intern(node.name);
  }
  if (node.buffer) expr.buffer = add_to(body, *node.buffer);
  std::vector<ExprId> operands;
  for (const Value& operand : node.operands) operands.push_back(add_to(body, operand));
  if (expr.kind == ExprKind::user_call) {
    expr.bits = static_cast<std::uint32_t>(body.arguments.size());
    body.arguments.insert(body.arguments.end(), operands.begin(), operands.end());
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(operands.size(), 3); ++i) {
    expr.operands[i] = operands[i];
  }
  return body.add(expr);
}

BufferRef add_to(Body& body, const BufferName& buffer) {
  BufferRef ref{.kind = buffer.kind()};
  if (buffer.handle() != nullptr) ref.handle = add_to(body, *buffer.handle());
  return ref;
}

}  // namespace

Value::Value(std::uint32_t number) : Value(literal(Type::u32, number)) {}
Value::Value(std::int32_t number) : Value(signed_literal(number)) {}
Value::Value(float number) : Value(float_literal(number)) {}
Value Value::from_bool(bool truth) {
  return literal(Type::boolean, truth ? 1 : 0);
}

Place BufferName::operator[](Value index) const {
  return Place(*this, std::move(index));
}

Place::operator Value() const {
  if (buffer_ == nullptr) return make({.expr = {.kind = ExprKind::arg}, .operands = {index_}});
  return make({.expr = {.kind = ExprKind::load}, .operands = {index_}, .buffer = *buffer_});
}

Value Array::operator[](Value index) const {
  return make({.expr = {.kind = ExprKind::element}, .name = name_, .operands = {std::move(index)}});
}

const BufferName input{BufferKind::input};
const BufferName output{BufferKind::output};
const BufferName control{BufferKind::control};
const Value opcode = given(Builtin::opcode);
const Value tenant = given(Builtin::tenant);
const Value priority = given(Builtin::priority);
const Value slot = given(Builtin::slot);
const Value param = given(Builtin::param);
const Value lane = given(Builtin::lane);
const Value lanes = given(Builtin::lanes);

Value len(const BufferName& buffer) {
  return make({.expr = {.kind = ExprKind::length}, .buffer = buffer});
}

Value unary(UnaryOp op, Value a) {
  return make({.expr = {.kind = ExprKind::unary, .unary = op}, .operands = {std::move(a)}});
}

Value binary(BinaryOp op, Value a, Value b) {
  return make(
      {.expr = {.kind = ExprKind::binary, .binary = op}, .operands = {std::move(a), std::move(b)}});
}

Value call(Function function, std::vector<Value> values) {
  return make(
      {.expr = {.kind = ExprKind::call, .function = function}, .operands = std::move(values)});
}

Value constant(std::string_view name) {
  return named(name);
}

Value call(std::string_view function, std::vector<Value> values) {
  return make({.expr = {.kind = ExprKind::user_call},
               .name = std::string(function),
               .operands = std::move(values)});
}

Constant make_constant(std::string_view name, const Value& value) {
  Constant constant{.name = std::string(name)};
  constant.value = add_to(constant.body, value);
  return constant;
}

FunctionBuilder::FunctionBuilder(std::string_view name, Type result) {
  function_.name = name;
  function_.result = result;
}

Value FunctionBuilder::parameter(std::string_view name, Type type) {
  function_.parameters.push_back({.name = std::string(name), .type = type});
  function_.body.intern(name);
  return named(name);
}

Value FunctionBuilder::let(std::string_view name, const Value& value) {
  Stmt stmt{.kind = StmtKind::let_value, .operands = {add_to(function_.body, value)}};
  stmt.name = function_.body.intern(name);
  lets_.statements.push_back(function_.body.add(stmt));
  return named(name);
}

UserFunction FunctionBuilder::finish(const Value& value) {
  function_.value = add_to(function_.body, value);
  function_.body.root = function_.body.add(std::exchange(lets_, {}));
  return std::exchange(function_, {});
}

Value atomic(AtomicOp op, const Place& place, std::vector<Value> values) {
  values.insert(values.begin(), place.index());
  // An atomic on args has no buffer. It is built on input with a wrong operand count, which the
  // verifier refuses.
  Value::Node node{.expr = {.kind = ExprKind::atomic, .atomic = op}, .operands = std::move(values)};
  node.buffer = place.buffer() == nullptr ? input : *place.buffer();
  if (place.buffer() == nullptr) node.operands.clear();
  return make(std::move(node));
}

HandlerBuilder::HandlerBuilder(Declaration declaration) : open_(1) {
  handler_.name = declaration.is_payload ? "payload" : std::move(declaration.name);
  handler_.opcode = declaration.opcode;
  handler_.scope = declaration.scope;
  handler_.is_pure = declaration.is_pure;
  handler_.commutes = declaration.commutes;
  handler_.is_payload = declaration.is_payload;
}

ExprId HandlerBuilder::add(const Value& value) {
  return add_to(handler_.body, value);
}

BufferRef HandlerBuilder::add(const BufferName& buffer) {
  return add_to(handler_.body, buffer);
}

void HandlerBuilder::add(Stmt stmt) {
  open_.back().statements.push_back(handler_.body.add(stmt));
}

BlockId HandlerBuilder::fill(const Fill& fill) {
  open_.emplace_back();
  if (fill) fill();
  Block block = std::move(open_.back());
  open_.pop_back();
  return handler_.body.add(std::move(block));
}

Value HandlerBuilder::declare(StmtKind kind, std::string_view name, const Value& value) {
  Stmt stmt{.kind = kind, .operands = {add(value)}};
  stmt.name = handler_.body.intern(name);
  add(stmt);
  return named(name);
}

Value HandlerBuilder::let(std::string_view name, const Value& value) {
  return declare(StmtKind::let_value, name, value);
}

Value HandlerBuilder::var(std::string_view name, const Value& value) {
  return declare(StmtKind::let_variable, name, value);
}

void HandlerBuilder::assign(const Value& variable, std::optional<BinaryOp> compound,
                            const Value& value) {
  Stmt stmt{.kind = StmtKind::assign_name, .operands = {add(value)}, .compound = compound};
  stmt.name = handler_.body.intern(variable.node().name);
  add(stmt);
}

void HandlerBuilder::set(const Value& variable, const Value& value) {
  assign(variable, {}, value);
}

void HandlerBuilder::update(const Value& variable, BinaryOp op, const Value& value) {
  assign(variable, op, value);
}

void HandlerBuilder::set(const Place& place, const Value& value) {
  store(place, {}, value);
}

void HandlerBuilder::update(const Place& place, BinaryOp op, const Value& value) {
  store(place, op, value);
}

void HandlerBuilder::store(const Place& place, std::optional<BinaryOp> compound,
                           const Value& value) {
  Stmt stmt{.kind = StmtKind::assign_arg, .compound = compound};
  if (place.buffer() != nullptr) {
    stmt.kind = StmtKind::store;
    stmt.buffer = add(*place.buffer());
  }
  stmt.operands[0] = add(place.index());
  stmt.operands[1] = add(value);
  add(stmt);
}

Array HandlerBuilder::array(std::string_view name, Type element, const Value& length) {
  Stmt stmt{.kind = StmtKind::declare_array, .operands = {add(length)}, .element = element};
  stmt.name = handler_.body.intern(name);
  add(stmt);
  return Array(name);
}

void HandlerBuilder::set(const Array& array, const Value& index, const Value& value) {
  store(array, index, {}, value);
}

void HandlerBuilder::update(const Array& array, const Value& index, BinaryOp op,
                            const Value& value) {
  store(array, index, op, value);
}

void HandlerBuilder::store(const Array& array, const Value& index, std::optional<BinaryOp> compound,
                           const Value& value) {
  Stmt stmt{.kind = StmtKind::store_element, .compound = compound};
  stmt.name = handler_.body.intern(array.name());
  stmt.operands[0] = add(index);
  stmt.operands[1] = add(value);
  add(stmt);
}

void HandlerBuilder::run(const Value& value) {
  add(Stmt{.kind = StmtKind::evaluate, .operands = {add(value)}});
}

void HandlerBuilder::printf(const Value& fmt, const Value& a, const Value& b) {
  run(call(Function::printf, {fmt, a, b}));
}

void HandlerBuilder::emit(const Value& a, const Value& b, const Value& c) {
  run(call(Function::emit, {a, b, c}));
}

void HandlerBuilder::branch(const Value& condition, const Fill& then, const Fill& otherwise) {
  Stmt stmt{.kind = StmtKind::branch, .operands = {add(condition)}};
  stmt.body = fill(then);
  if (otherwise) stmt.otherwise = fill(otherwise);
  add(stmt);
}

void HandlerBuilder::loop(Stmt stmt, std::string_view name, const Value& first, const Value& last,
                          const FillTurn& body) {
  stmt.operands[0] = add(first);
  stmt.operands[1] = add(last);
  stmt.name = handler_.body.intern(name);
  const Value counter = named(name);
  stmt.body = fill([&] { body(counter); });
  add(stmt);
}

void HandlerBuilder::for_range(std::string_view name, const Value& first, const Value& last,
                               const FillTurn& body) {
  loop({.kind = StmtKind::for_loop}, name, first, last, body);
}

void HandlerBuilder::for_range(std::string_view name, const Value& first, const Value& last,
                               const Value& step, const FillTurn& body) {
  Stmt stmt{.kind = StmtKind::for_loop, .has_step = true};
  stmt.operands[2] = add(step);
  loop(stmt, name, first, last, body);
}

void HandlerBuilder::each(std::string_view name, const Value& first, const Value& last,
                          const FillTurn& body) {
  loop({.kind = StmtKind::each_loop}, name, first, last, body);
}

void HandlerBuilder::while_true(const Value& condition, const Fill& body) {
  Stmt stmt{.kind = StmtKind::while_loop, .operands = {add(condition)}};
  stmt.body = fill(body);
  add(stmt);
}

void HandlerBuilder::break_loop() {
  add(Stmt{.kind = StmtKind::break_loop});
}
void HandlerBuilder::continue_loop() {
  add(Stmt{.kind = StmtKind::continue_loop});
}
void HandlerBuilder::finish_item() {
  add(Stmt{.kind = StmtKind::finish});
}
void HandlerBuilder::yield() {
  add(Stmt{.kind = StmtKind::yield});
}
void HandlerBuilder::requeue() {
  add(Stmt{.kind = StmtKind::requeue});
}

void HandlerBuilder::fault(const Value& code) {
  add(Stmt{.kind = StmtKind::fault, .operands = {add(code)}});
}

void HandlerBuilder::await(StmtKind kind, const Value& source, const Value& block,
                           const Value& destination, const Value& bytes) {
  Stmt stmt{.kind = kind};
  const Value* const values[] = {&source, &block, &destination, &bytes};
  for (std::size_t i = 0; i < 4; ++i) stmt.operands[i] = add(*values[i]);
  add(stmt);
}

void HandlerBuilder::await_read(const Value& source, const Value& block, const Value& destination,
                                const Value& bytes) {
  await(StmtKind::await_read, source, block, destination, bytes);
}

void HandlerBuilder::await_write(const Value& source, const Value& block, const Value& destination,
                                 const Value& bytes) {
  await(StmtKind::await_write, source, block, destination, bytes);
}

Handler HandlerBuilder::finish() {
  handler_.body.root = handler_.body.add(std::move(open_.front()));
  open_.assign(1, {});
  return std::exchange(handler_, {});
}

}  // namespace everkernel::ir::build
