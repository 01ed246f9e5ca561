#include "coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "everkernel/ir/detail/vocabulary_tables.hpp"

namespace everkernel::test {
namespace {

using namespace ir;

constexpr std::string_view kStatements[] = {
    "let",   "var",      "assign",     "args =",      "store",  "if",           "for",
    "each",  "while",    "break",      "continue",    "return", "yield",        "requeue",
    "fault", "evaluate", "await read", "await write", "array",  "store element"};

constexpr Type kNumbers[] = {Type::u32, Type::i32, Type::f32};

bool is_integer_only(BinaryOp op) {
  return op == BinaryOp::remainder || op == BinaryOp::shift_left || op == BinaryOp::shift_right ||
         op == BinaryOp::bit_and || op == BinaryOp::bit_xor || op == BinaryOp::bit_or;
}
bool is_logical(BinaryOp op) {
  return op == BinaryOp::logical_and || op == BinaryOp::logical_or;
}

bool takes(BinaryOp op, Type type) {
  if (type == Type::boolean) {
    return is_logical(op) || op == BinaryOp::equal || op == BinaryOp::not_equal;
  }
  if (is_logical(op)) return false;
  return type != Type::f32 || !is_integer_only(op);
}

bool takes(Function function, Type type) {
  switch (function) {
    case Function::min:
    case Function::max:
    case Function::abs:
    case Function::clamp:
    case Function::to_i32:
    case Function::to_f32:
    case Function::bits_u32:
    case Function::bits_i32:
    case Function::bits_f32:
      return type != Type::boolean;
    case Function::to_u32:
    case Function::select:
      return true;
    case Function::clz:
    case Function::popcount:
    case Function::rotl:
    case Function::printf:
    case Function::emit:
      return type == Type::u32;
    case Function::sqrt:
    case Function::floor:
    case Function::fma:
    case Function::exp:
    case Function::log:
    case Function::exp2:
    case Function::log2:
    case Function::sin:
    case Function::cos:
    case Function::tanh:
    case Function::pow:
      return type == Type::f32;
  }
  return false;
}

std::string binary_feature(BinaryOp op, Type type) {
  return fmt::format("{} {}", type_name(type), info(op).sign);
}
std::string function_feature(Function function, Type type) {
  return fmt::format("{}({})", info(function).name, type_name(type));
}
std::string unary_feature(UnaryOp op, Type type) {
  return fmt::format("{}{}", unary_sign(op), type_name(type));
}

class Walker {
 public:
  explicit Walker(const VerifiedHandler& verified)
      : verified_(verified), body_(verified.handler.body) {}

  std::set<std::string> run() {
    const Handler& handler = verified_.handler;
    add(fmt::format("scope {}", scope_name(handler.scope)));
    if (handler.is_payload) add("payload");
    if (handler.is_pure) add("pure");
    if (handler.commutes) add("commutes");
    for (const Stmt& stmt : body_.stmts) walk(stmt);
    for (std::size_t i = 0; i < body_.exprs.size(); ++i) {
      walk(ExprId{static_cast<std::uint32_t>(i)});
    }
    return std::move(found_);
  }

 private:
  void add(std::string feature) { found_.insert(std::move(feature)); }

  void walk(const Stmt& stmt) {
    add(std::string(kStatements[static_cast<std::size_t>(stmt.kind)]));
    if (stmt.kind == StmtKind::branch && stmt.otherwise) add("else");
    if (stmt.kind == StmtKind::store) add(fmt::format("store {}", buffer_name(stmt.buffer.kind)));
    if (stmt.compound && stmt.kind == StmtKind::store_element) {
      add("array op=");
    } else if (stmt.compound) {
      const bool is_name = stmt.kind == StmtKind::assign_name;
      const std::string_view of = stmt.kind == StmtKind::store ? buffer_name(stmt.buffer.kind)
                                  : is_name                    ? "name"
                                                               : "args";
      add(fmt::format("{} op=", of));
      add(fmt::format("{}=", info(*stmt.compound).sign));
    }
    if (stmt.kind == StmtKind::for_loop && stmt.has_step) {
      add(fmt::format("step of {}", type_name(verified_.type(stmt.operands[2]))));
    }
    if (stmt.kind == StmtKind::for_loop || stmt.kind == StmtKind::each_loop) {
      add(fmt::format("{} over {}", stmt.kind == StmtKind::for_loop ? "for" : "each",
                      type_name(verified_.type(stmt.operands[0]))));
    }
  }

  void walk(ExprId id) {
    const Expr& expr = body_[id];
    if (verified_.type(id) != Type::none) add(std::string(type_name(verified_.type(id))));
    const std::string_view of = buffer_name(expr.buffer.kind);
    switch (expr.kind) {
      case ExprKind::literal:
        return add(fmt::format("literal {}", type_name(expr.type)));
      case ExprKind::name:
        return add("name");
      case ExprKind::builtin:
        return add(std::string(info(expr.builtin).name));
      case ExprKind::arg:
        return add("args");
      case ExprKind::load:
        return add(fmt::format("load {}", of));
      case ExprKind::length:
        return add(fmt::format("len {}", of));
      case ExprKind::unary:
        return add(unary_feature(expr.unary, verified_.type(expr.operands[0])));
      case ExprKind::binary:
        return add(binary_feature(expr.binary, verified_.type(expr.operands[0])));
      case ExprKind::call: {
        const std::size_t decisive = expr.function == Function::select ? 1 : 0;
        return add(function_feature(expr.function, verified_.type(expr.operands[decisive])));
      }
      case ExprKind::element:
        return add(fmt::format("element of {}", type_name(verified_.type(id))));
      case ExprKind::user_call:
        return add("user_call");
      case ExprKind::bind:
        return add("bind");
      case ExprKind::atomic:
        add(fmt::format("atomic {}", of));
        return add(std::string(info(expr.atomic).name));
    }
  }

  const VerifiedHandler& verified_;
  const Body& body_;
  std::set<std::string> found_;
};

}  // namespace

std::set<std::string> features_of(const VerifiedHandler& handler) {
  return Walker(handler).run();
}

std::set<std::string> features_of(const Program& program, std::size_t handler) {
  const Body& body = program.handlers[handler].body;
  std::set<std::string> found;
  for (const Expr& expr : body.exprs) {
    if (expr.kind == ExprKind::user_call) found.insert("user_call");
    const auto is_it = [&](const Constant& constant) { return constant.name == body[expr.name]; };
    if (expr.kind == ExprKind::name && std::ranges::any_of(program.constants, is_it)) {
      found.insert("constant");
    }
  }
  return found;
}

std::vector<std::string> all_features() {
  std::vector<std::string> all(std::begin(kStatements), std::end(kStatements));
  all.insert(all.end(),
             {"else",           "name",           "args",          "payload",     "pure",
              "commutes",       "scope lane",     "scope warp",    "scope group", "for over u32",
              "for over i32",   "each over u32",  "each over i32", "name op=",    "args op=",
              "input op=",      "output op=",     "control op=",   "buffer op=",  "step of u32",
              "step of i32",    "bind",           "user_call",     "constant",    "element of u32",
              "element of i32", "element of f32", "array op="});
  for (const BinaryOpInfo& row : kBinaryOps) {
    if (can_be_compound(row.op)) all.push_back(fmt::format("{}=", row.sign));
  }
  for (const Type type : {Type::u32, Type::i32, Type::f32, Type::boolean}) {
    all.emplace_back(type_name(type));
    all.push_back(fmt::format("literal {}", type_name(type)));
    for (const BinaryOpInfo& row : kBinaryOps) {
      if (takes(row.op, type)) all.push_back(binary_feature(row.op, type));
    }
    for (const FunctionInfo& row : kFunctions) {
      if (takes(row.function, type)) all.push_back(function_feature(row.function, type));
    }
  }
  for (const Type type : kNumbers) all.push_back(unary_feature(UnaryOp::negate, type));
  all.push_back(unary_feature(UnaryOp::complement, Type::u32));
  all.push_back(unary_feature(UnaryOp::complement, Type::i32));
  all.push_back(unary_feature(UnaryOp::logical_not, Type::boolean));
  for (const BufferKind kind :
       {BufferKind::input, BufferKind::output, BufferKind::control, BufferKind::handle}) {
    for (const std::string_view use : {"load", "store", "len", "atomic"}) {
      all.push_back(fmt::format("{} {}", use, buffer_name(kind)));
    }
  }
  for (const AtomicOpInfo& row : kAtomicOps) all.emplace_back(row.name);
  for (const BuiltinInfo& row : kBuiltins) all.emplace_back(row.name);
  return all;
}

std::string ending_name(const Outcome& outcome) {
  switch (outcome.ending) {
    case Ending::done:
      return "done";
    case Ending::yield:
      return "yield";
    case Ending::requeue:
      return "requeue";
    case Ending::wait_io:
      return "wait_io";
    case Ending::fault:
      break;
  }
  constexpr Word kHighest = abi::kFirstUserFault + abi::kMaxUserFault;
  if (outcome.fault_code == kHighest) return "fault user, highest";
  return fmt::format("fault {}", abi::fault_name(outcome.fault_code));
}

std::vector<std::string> all_endings() {
  return {"done",
          "yield",
          "requeue",
          "wait_io",
          "fault index_out_of_range",
          "fault fuel_exhausted",
          "fault permission_denied",
          "fault bad_buffer_handle",
          "fault deadline",
          "fault user",
          "fault user, highest"};
}

}  // namespace everkernel::test
