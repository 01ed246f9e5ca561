// One form for every program: two blanks a level, one blank round operators, decimal integers.
#include "everkernel/ir/printer.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <iterator>

#include "everkernel/ir/detail/vocabulary_tables.hpp"

namespace everkernel::ir {
namespace {

constexpr int kUnaryPrecedence = 11;
constexpr int kPrimaryPrecedence = 12;

class Printer {
 public:
  std::string program(const Program& program) {
    for (const Constant& constant : program.constants) {
      body_ = &constant.body;
      line("const {} = {};\n", constant.name, text(constant.value));
    }
    for (const UserFunction& function : program.functions) {
      if (!out_.empty()) out_ += '\n';
      print(function);
    }
    for (const Handler& handler : program.handlers) {
      if (!out_.empty()) out_ += '\n';
      print(handler);
    }
    return std::move(out_);
  }

 private:
  void print(const UserFunction& function) {
    body_ = &function.body;
    line("fn {}(", function.name);
    for (const Parameter& parameter : function.parameters) {
      if (&parameter != &function.parameters.front()) out_ += ", ";
      line("{}: {}", parameter.name, type_name(parameter.type));
    }
    line(") -> {} {{\n", type_name(function.result));
    for (const StmtId stmt : function.body[function.body.root].statements) {
      out_ += "  ";
      print(function.body[stmt]);
      out_ += '\n';
    }
    line("  return {};\n}}\n", text(function.value));
  }

  void print(const Handler& handler) {
    body_ = &handler.body;
    out_ += handler.is_payload ? "payload"
                               : fmt::format("handler {} = {}", handler.name, handler.opcode);
    if (handler.scope != Scope::lane) out_ += fmt::format(" scope {}", scope_name(handler.scope));
    if (handler.is_pure) out_ += " pure";
    if (handler.commutes) out_ += " commutes";
    out_ += ' ';
    print(handler.body.root);
    out_ += '\n';
  }

  void print(BlockId id) {
    out_ += "{\n";
    ++indent_;
    for (const StmtId stmt : (*body_)[id].statements) {
      out_.append(2 * indent_, ' ');
      print((*body_)[stmt]);
      out_ += '\n';
    }
    --indent_;
    out_.append(2 * indent_, ' ');
    out_ += '}';
  }

  void print(const Stmt& stmt) {
    const auto name = [&] { return (*body_)[stmt.name]; };
    const auto value = [&](int i) { return text(stmt.operands[i]); };
    const std::string_view compound =
        is_assignment(stmt.kind) && stmt.compound ? info(*stmt.compound).sign : "";
    switch (stmt.kind) {
      case StmtKind::let_value:
        return line("let {} = {};", name(), value(0));
      case StmtKind::let_variable:
        return line("var {} = {};", name(), value(0));
      case StmtKind::assign_name:
        return line("{} {}= {};", name(), compound, value(0));
      case StmtKind::assign_arg:
        return line("args[{}] {}= {};", value(0), compound, value(1));
      case StmtKind::store:
        return line("{}[{}] {}= {};", text(stmt.buffer), value(0), compound, value(1));
      case StmtKind::declare_array:
        return line("var {}: [{}; {}];", name(), type_name(stmt.element), value(0));
      case StmtKind::store_element:
        return line("{}[{}] {}= {};", name(), value(0), compound, value(1));
      case StmtKind::branch:
        return branch(stmt);
      case StmtKind::for_loop:
        line("for {} in {} .. {} ", name(), value(0), value(1));
        if (stmt.has_step) line("step {} ", value(2));
        return print(stmt.body);
      case StmtKind::each_loop:
        line("each {} in {} .. {} ", name(), value(0), value(1));
        return print(stmt.body);
      case StmtKind::while_loop:
        line("while {} ", value(0));
        return print(stmt.body);
      case StmtKind::break_loop:
        return line("break;");
      case StmtKind::continue_loop:
        return line("continue;");
      case StmtKind::finish:
        return line("return;");
      case StmtKind::yield:
        return line("yield;");
      case StmtKind::requeue:
        return line("requeue;");
      case StmtKind::fault:
        return line("fault {};", value(0));
      case StmtKind::evaluate:
        return line("{};", value(0));
      case StmtKind::await_read:
        return line("await read({}, {}, {}, {});", value(0), value(1), value(2), value(3));
      case StmtKind::await_write:
        return line("await write({}, {}, {}, {});", value(0), value(1), value(2), value(3));
    }
  }

  void branch(const Stmt& first) {
    for (const Stmt* stmt = &first;;) {
      line("if {} ", text(stmt->operands[0]));
      print(stmt->body);
      if (!stmt->otherwise) return;
      out_ += " else ";
      const Block& otherwise = (*body_)[*stmt->otherwise];
      const bool is_chain = otherwise.statements.size() == 1 &&
                            (*body_)[otherwise.statements[0]].kind == StmtKind::branch;
      if (!is_chain) return print(*stmt->otherwise);
      stmt = &(*body_)[otherwise.statements[0]];
    }
  }

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  std::string text(const BufferRef& buffer) const {
    if (buffer.kind != BufferKind::handle) return std::string(buffer_name(buffer.kind));
    return fmt::format("buffer({})", text(buffer.handle));
  }

  // The text of an expression, in parentheses if it binds less tightly than `tightness`.
  std::string text(ExprId id, int tightness = 0) const {
    const Expr& expr = (*body_)[id];
    std::string inner = bare_text(expr);
    const int own = precedence(expr);
    return own < tightness ? fmt::format("({})", inner) : inner;
  }

  static int precedence(const Expr& expr) {
    if (expr.kind == ExprKind::binary) return info(expr.binary).precedence;
    if (expr.kind == ExprKind::unary) return kUnaryPrecedence;
    const bool is_negative = expr.kind == ExprKind::literal && expr.type == Type::i32 &&
                             (expr.bits >> 31) != 0 && expr.bits != 0x80000000u;
    return is_negative ? kUnaryPrecedence : kPrimaryPrecedence;
  }

  std::string bare_text(const Expr& expr) const {
    switch (expr.kind) {
      case ExprKind::literal:
        return literal(expr);
      case ExprKind::name:
        return (*body_)[expr.name];
      case ExprKind::builtin:
        return std::string(info(expr.builtin).name);
      case ExprKind::arg:
        return fmt::format("args[{}]", text(expr.operands[0]));
      case ExprKind::load:
        return fmt::format("{}[{}]", text(expr.buffer), text(expr.operands[0]));
      case ExprKind::element:
        return fmt::format("{}[{}]", (*body_)[expr.name], text(expr.operands[0]));
      case ExprKind::length:
        return fmt::format("len({})", text(expr.buffer));
      case ExprKind::unary:
        return fmt::format("{}{}", unary_sign(expr.unary),
                           text(expr.operands[0], kUnaryPrecedence));
      case ExprKind::binary:
        return chain(expr);
      case ExprKind::call:
        return fmt::format("{}({})", info(expr.function).name, list(expr, 0));
      case ExprKind::user_call:
        return fmt::format("{}({})", (*body_)[expr.name], arguments(expr));
      case ExprKind::bind:  // no text gives this; it is printed to compare handlers
        return fmt::format("(let {} = {} in {})", (*body_)[expr.name], text(expr.operands[0]),
                           text(expr.operands[1]));
      case ExprKind::atomic:
        return fmt::format("{}({}[{}], {})", info(expr.atomic).name, text(expr.buffer),
                           text(expr.operands[0]), list(expr, 1));
    }
    return {};
  }

  // A chain a + b + c … nests to the left without parentheses. It may be very long, so that it is
  // printed in a loop, not by recursion.
  std::string chain(const Expr& last) const {
    std::vector<const Expr*> operators = {&last};
    const auto left = [&]() -> ExprId { return operators.back()->operands[0]; };
    const auto continues = [&] {
      const Expr& next = (*body_)[left()];
      return next.kind == ExprKind::binary && precedence(next) >= precedence(*operators.back());
    };
    while (continues()) operators.push_back(&(*body_)[left()]);
    std::string joined = text(left(), precedence(*operators.back()));
    for (std::size_t i = operators.size(); i-- > 0;) {
      const BinaryOpInfo& op = info(operators[i]->binary);
      fmt::format_to(std::back_inserter(joined), " {} {}", op.sign,
                     text(operators[i]->operands[1], op.precedence + 1));
    }
    return joined;
  }

  std::string list(const Expr& expr, std::size_t first) const {
    std::string joined;
    for (std::size_t i = first; i < expr.operand_count; ++i) {
      if (i > first) joined += ", ";
      joined += text(expr.operands[i]);
    }
    return joined;
  }

  std::string arguments(const Expr& expr) const {
    std::string joined;
    for (std::size_t i = 0; i < expr.operand_count; ++i) {
      if (i > 0) joined += ", ";
      joined += text(body_->arguments[expr.bits + i]);
    }
    return joined;
  }

  static std::string literal(const Expr& expr) {
    switch (expr.type) {
      case Type::none:
        return {};
      case Type::u32:
        return fmt::format("{}", expr.bits);
      case Type::i32:
        if (expr.bits == 0x80000000u) return "i32(2147483648)";
        return fmt::format("{}i", static_cast<std::int32_t>(expr.bits));
      case Type::f32:
        return float_literal(expr.bits);
      case Type::boolean:
        return expr.bits != 0 ? "true" : "false";
    }
    return {};
  }

  // The shortest text that reads back as the same float. Infinities and NaNs have no literal and
  // are printed by their bits.
  static std::string float_literal(std::uint32_t bits) {
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value) || (bits >> 31) != 0) return fmt::format("bits_f32({})", bits);
    std::string shortest = fmt::format("{}", value);
    if (shortest.find('.') != std::string::npos) return shortest;
    const std::size_t exponent = shortest.find('e');
    return shortest.insert(exponent == std::string::npos ? shortest.size() : exponent, ".0");
  }

  std::string out_;
  const Body* body_ = nullptr;
  std::size_t indent_ = 0;
};

}  // namespace

std::string print(const Program& program) {
  return Printer().program(program);
}

}  // namespace everkernel::ir
