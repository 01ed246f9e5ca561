#include "support/jit_program_generator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "everkernel/ir/detail/vocabulary_tables.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"
#include "support/tree_mutator.hpp"

namespace everkernel::test {
namespace {

using ir::AtomicOp;
using ir::Type;

constexpr Type kTypes[] = {Type::u32, Type::i32, Type::f32, Type::boolean};
// Handles of the buffers a frame may have; the largest shows that handles are not indices.
constexpr Word kHandles[] = {1, 2, 3, 4, 5, 0x7FFFFFFF};
constexpr Word kEdgeWords[] = {
    0,           1,           2,           3,           31,          32,          33,
    0x7FFFFFFFu, 0x80000000u, 0x80000001u, 0xFFFFFFFFu, 0xFFFFFFFEu, 0x3F800000u, 0xBF800000u,
    0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC00001u, 0x7F800001u, 0x00000100u, 0x007FFFFFu,
    0x00800000u, 0x7F7FFFFFu, 0x4F000000u, 0x4F800000u, 0x4F7FFFFFu, 0xCF000000u, 0x4B800001u,
    0x3F000000u, 0x40490FDBu, 16777217u,   0x33800000u,
};
constexpr std::string_view kFloatLiterals[] = {"0.0",   "1.0",       "0.5",          "1.5",
                                               "2.0",   "3.0",       "0.1",          "16777216.0",
                                               "0.001", "3.4028e38", "2147483648.0", "1.0e-40"};

constexpr std::string_view kIntegerSigns[] = {"*", "/", "%", "+", "-", "&", "^", "|", "<<", ">>"};
constexpr std::string_view kFloatSigns[] = {"*", "/", "+", "-"};

enum class LoopKind : std::uint8_t { ordinary, each };

struct Variable {
  std::string name;
  Type type;
  bool is_variable;
  bool is_outside_each;
  bool is_counter;
};

// A formatted text whose parts are made from left to right. In a call the compiler may choose the
// order, and a seed would mean another program with another compiler; inside braces it may not.
struct Text {
  template <class... Parts>
  explicit Text(fmt::format_string<Parts...> pattern, Parts&&... parts)
      : value(fmt::format(pattern, std::forward<Parts>(parts)...)) {}
  operator std::string() && { return std::move(value); }
  std::string value;
};

class HandlerGenerator {
 public:
  HandlerGenerator(Random& random, const HandlerRequest& request)
      : random_(random), request_(request) {}

  std::string run() {
    // Mostly small handlers, which compile faster, so that more of them are tried. Large ones reach
    // code paths that small ones cannot.
    const Word size = random_.below(100);
    budget_ = size < 55 ? 30 : size < 85 ? 80 : 240;
    const std::string shared = definitions();
    std::string head = declaration();
    std::string body;
    for (Word i = 0, count = random_.between(3, 9); i < count; ++i) body += statement(1);
    if (!is_restricted() && random_.chance(35)) body += ending(1);
    return shared + head + " {\n" + body + "}\n";
  }

 private:
  // ---- constants and functions of the handler ----

  struct Definition {
    std::string name;
    Type type;
    std::vector<Type> parameters = {};  // of a function
  };

  std::string definitions() {
    std::string text;
    if (random_.chance(25)) {
      for (Word i = 0, count = random_.between(1, 2); i < count; ++i) text += constant(i);
    }
    if (random_.chance(30)) {
      for (Word i = 0, count = random_.between(1, 3); i < count; ++i) text += function(i);
    }
    return text;
  }

  std::string constant(Word number) {
    const Type type = random_.pick(kTypes);
    const std::string name = fmt::format("c_{}_{}", request_.index, number);
    is_in_definition_ = true;
    const std::string text = fmt::format("const {} = {};\n", name, expr(type, 2));
    is_in_definition_ = false;
    constants_.push_back({name, type});
    return text;
  }

  std::string function(Word number) {
    constexpr std::string_view kSpelling[] = {"", "u32", "i32", "f32", "bool"};
    const auto spelled = [&](Type type) { return kSpelling[static_cast<std::size_t>(type)]; };
    Definition made{.name = fmt::format("f_{}_{}", request_.index, number),
                    .type = random_.pick(kTypes)};
    std::string parameters, lets;
    for (Word i = 0, count = random_.below(5); i < count; ++i) {
      made.parameters.push_back(random_.pick(kTypes));
      parameters +=
          fmt::format("{}{}: {}", i == 0 ? "" : ", ", declare(made.parameters.back(), false),
                      spelled(made.parameters.back()));
    }
    is_in_definition_ = true;
    for (Word i = 0, count = random_.below(3); i < count; ++i) {
      lets += declaration_statement(1, false, 2);
    }
    const std::string value = expr(made.type, 3);
    is_in_definition_ = false;
    variables_.clear();
    declared_ = 0;
    functions_.push_back(made);
    return fmt::format("fn {}({}) -> {} {{\n{}  return {};\n}}\n", made.name, parameters,
                       spelled(made.type), lets, value);
  }

  const Definition* find_definition(const std::vector<Definition>& among, Type type) {
    std::vector<const Definition*> found;
    for (const Definition& definition : among) {
      if (definition.type == type) found.push_back(&definition);
    }
    return found.empty() ? nullptr : random_.pick_from(found);
  }

  std::string user_call(const Definition& callee, int depth) {
    std::string text = callee.name + "(";
    for (std::size_t i = 0; i < callee.parameters.size(); ++i) {
      text += (i == 0 ? "" : ", ") + expr(callee.parameters[i], depth);
    }
    return text + ")";
  }

  // ---- declaration ----

  bool is_restricted() const { return is_pure_ || commutes_; }

  std::string declaration() {
    std::string text = request_.is_payload ? "payload"
                                           : fmt::format("handler h_{} = {}", request_.index,
                                                         1000 + request_.index);
    constexpr std::string_view kScopes[] = {"", "", " scope lane", " scope warp", " scope group"};
    text += random_.pick(kScopes);
    if (request_.is_payload) return text;
    const Word kind = random_.below(100);
    is_pure_ = kind < 13;
    commutes_ = kind >= 9 && kind < 22;
    if (commutes_) {
      constexpr AtomicOp kCommuting[] = {AtomicOp::add, AtomicOp::bit_xor, AtomicOp::min,
                                         AtomicOp::max, AtomicOp::bit_and, AtomicOp::bit_or};
      only_atomic_ = kCommuting[is_pure_ ? random_.between(2, 5) : random_.below(6)];
    }
    if (is_pure_ && commutes_) return text + " pure commutes";
    return text + (is_pure_ ? " pure" : commutes_ ? " commutes" : "");
  }

  // ---- names ----

  bool is_in_each() const { return std::ranges::find(loops_, LoopKind::each) != loops_.end(); }
  // Names of sibling blocks repeat, names in sight do not.
  std::string declare(Type type, bool is_variable, bool is_counter = false) {
    std::string name = fmt::format("v{}", variables_.size());
    variables_.push_back({name, type, is_variable, !is_in_each(), is_counter});
    ++declared_;
    return name;
  }
  template <class Predicate>
  const Variable* find(Predicate predicate) {
    std::vector<const Variable*> found;
    for (const Variable& variable : variables_) {
      if (predicate(variable)) found.push_back(&variable);
    }
    return found.empty() ? nullptr : random_.pick_from(found);
  }

  // ---- literals ----

  std::string literal(Type type) {
    switch (type) {
      case Type::u32:
        if (random_.chance(50)) return fmt::format("{}", random_.below(17));
        return fmt::format("{:#x}", random_.chance(70) ? random_.pick(kEdgeWords) : random_.word());
      case Type::i32: {
        const Word bits = random_.chance(50) ? random_.below(17) : random_.pick(kEdgeWords);
        if (bits >= 0x80000000u) return fmt::format("i32({:#x})", bits);
        return random_.chance(40) ? fmt::format("(-{}i)", bits) : fmt::format("{}i", bits);
      }
      case Type::f32:
        if (random_.chance(40)) return fmt::format("bits_f32({:#x})", random_.pick(kEdgeWords));
        if (random_.chance(30)) return fmt::format("(-{})", random_.pick(kFloatLiterals));
        return std::string(random_.pick(kFloatLiterals));
      case Type::boolean:
        return random_.chance(50) ? "true" : "false";
      case Type::none:
        break;
    }
    return "0";
  }

  // ---- expressions ----

  std::string expr(Type type, int depth) {
    if (depth <= 0 || spent_ > budget_) return leaf(type);
    ++spent_;
    if (!arrays_.empty() && random_.chance(12)) {
      const ArrayName* const of =
          find_array([&](const ArrayName& one) { return one.type == type; });
      if (of != nullptr) return element(*of, depth - 1);
    }
    if (!functions_.empty() && random_.chance(12)) {
      const Definition* const callee = find_definition(functions_, type);
      if (callee != nullptr) return user_call(*callee, depth - 1);
    }
    switch (type) {
      case Type::u32:
        return u32(depth - 1);
      case Type::i32:
        return i32(depth - 1);
      case Type::f32:
        return f32(depth - 1);
      case Type::boolean:
        return boolean(depth - 1);
      case Type::none:
        break;
    }
    return "0";
  }

  std::string leaf(Type type) {
    if (random_.chance(60)) {
      const Variable* const variable = find([&](const Variable& v) { return v.type == type; });
      if (variable != nullptr) return variable->name;
    }
    if (!constants_.empty() && random_.chance(25)) {
      const Definition* const constant = find_definition(constants_, type);
      if (constant != nullptr) return constant->name;
    }
    if (!is_in_definition_ && type == Type::u32 && random_.chance(55)) return given();
    return literal(type);
  }

  std::string given() {
    constexpr std::string_view kPureGiven[] = {"param", "lane", "lanes", "args[2]"};
    constexpr std::string_view kGiven[] = {"opcode", "tenant", "priority", "slot",
                                           "param",  "lane",   "lanes"};
    if (is_pure_) return std::string(random_.pick(kPureGiven));
    if (random_.chance(30)) return arg();
    return std::string(random_.pick(kGiven));
  }

  std::string arg() {
    if (is_pure_) return "args[2]";
    if (random_.chance(85)) return fmt::format("args[{}]", random_.below(abi::kSlotArgs));
    if (random_.chance(70)) return fmt::format("args[{} % 12]", expr(Type::u32, 1));
    return fmt::format("args[{}]", random_.chance(50) ? "12" : expr(Type::u32, 1));
  }

  std::string pair(std::string_view sign, Type type, int depth) {
    return Text{"({} {} {})", expr(type, depth), sign, expr(type, depth)};
  }
  std::string chosen(Type type, int depth) {
    return Text{"select({}, {}, {})", expr(Type::boolean, depth), expr(type, depth),
                expr(type, depth)};
  }
  // The lesser or greater of two values, or a value clamped between two.
  std::string least(Type type, int depth) {
    if (random_.chance(20)) {
      return Text{"clamp({}, {}, {})", expr(type, depth), expr(type, depth), expr(type, depth)};
    }
    return Text{"{}({}, {})", random_.chance(50) ? "min" : "max", expr(type, depth),
                expr(type, depth)};
  }
  std::string number_function(int depth) {
    constexpr std::string_view kNames[] = {"exp", "log", "exp2", "log2", "sin", "cos", "tanh"};
    if (random_.chance(13))
      return Text{"pow({}, {})", expr(Type::f32, depth), expr(Type::f32, depth)};
    return Text{"{}({})", random_.pick(kNames), expr(Type::f32, depth)};
  }

  std::string integer_operation(Type type, int depth) {
    const std::string_view sign = random_.pick(kIntegerSigns);
    if (sign == "<<" || sign == ">>") {
      return Text{
          "({} {} {})", expr(type, depth), sign,
          random_.chance(50) ? fmt::format("{}", random_.below(40)) : expr(Type::u32, depth)};
    }
    return pair(sign, type, depth);
  }

  std::string u32(int depth) {
    constexpr Word kWeights[] = {18, 26, 6, 8, 6, 5, 14, 4, 4, 9, 3};
    const std::size_t kind = random_.weighted(kWeights);
    const bool sees_item = kind == 6 || kind == 7 || kind == 8 || kind == 10;
    switch (is_in_definition_ && sees_item ? 1 : kind) {
      case 0:
        return leaf(Type::u32);
      case 1:
        return integer_operation(Type::u32, depth);
      case 2:
        return Text{"({}{})", random_.chance(50) ? '-' : '~', expr(Type::u32, depth)};
      case 3:
        return least(Type::u32, depth);
      case 4: {
        constexpr std::string_view kNames[] = {"clz", "popcount", "abs"};
        return Text{"{}({})", random_.pick(kNames), expr(Type::u32, depth)};
      }
      case 5:
        return random_.chance(45)
                   ? Text{"rotl({}, {})", expr(Type::u32, depth), expr(Type::u32, depth)}
                   : chosen(Type::u32, depth);
      case 6:
        return load(depth);
      case 7:
        return length();
      case 8:
        return arg();
      case 9:
        return to_u32(depth);
      default:
        return is_restricted() ? load(depth) : atomic(depth, std::nullopt);
    }
  }

  std::string to_u32(int depth) {
    switch (random_.below(8)) {
      case 0:
        return fmt::format("u32({})", expr(Type::i32, depth));
      case 1:
      case 2:
        return fmt::format("u32({})", expr(Type::f32, depth));
      case 3:
        return fmt::format("u32({})", expr(Type::boolean, depth));
      case 4:
        return fmt::format("bits_u32({})", expr(Type::i32, depth));
      case 5:
        return Text{"{}({})", random_.chance(50) ? "u32" : "bits_u32", expr(Type::u32, depth)};
      default:
        return fmt::format("bits_u32({})", expr(Type::f32, depth));
    }
  }

  std::string i32(int depth) {
    constexpr Word kWeights[] = {22, 34, 10, 10, 6, 5, 20};
    switch (random_.weighted(kWeights)) {
      case 0:
        return leaf(Type::i32);
      case 1:
        return integer_operation(Type::i32, depth);
      case 2:
        return Text{"({}{})", random_.chance(50) ? '-' : '~', expr(Type::i32, depth)};
      case 3:
        return least(Type::i32, depth);
      case 4:
        return fmt::format("abs({})", expr(Type::i32, depth));
      case 5:
        return chosen(Type::i32, depth);
      default: {
        constexpr Type kFrom[] = {Type::u32, Type::u32, Type::i32, Type::f32, Type::f32};
        return Text{"{}({})", random_.chance(55) ? "i32" : "bits_i32",
                    expr(random_.pick(kFrom), depth)};
      }
    }
  }

  std::string f32(int depth) {
    constexpr Word kWeights[] = {22, 30, 7, 10, 6, 6, 6, 5, 8, 18};
    switch (random_.weighted(kWeights)) {
      case 0:
        return leaf(Type::f32);
      case 1: {
        return pair(random_.pick(kFloatSigns), Type::f32, depth);
      }
      case 2:
        return fmt::format("(-{})", expr(Type::f32, depth));
      case 3:
        return least(Type::f32, depth);
      case 4:
        return fmt::format("abs({})", expr(Type::f32, depth));
      case 5:
        return Text{"{}({})", random_.chance(50) ? "sqrt" : "floor", expr(Type::f32, depth)};
      case 6:
        return Text{"fma({}, {}, {})", expr(Type::f32, depth), expr(Type::f32, depth),
                    expr(Type::f32, depth)};
      case 7:
        return chosen(Type::f32, depth);
      case 8:
        return number_function(depth);
      default: {
        constexpr Type kFrom[] = {Type::u32, Type::u32, Type::i32, Type::i32, Type::f32};
        return Text{"{}({})", random_.chance(50) ? "f32" : "bits_f32",
                    expr(random_.pick(kFrom), depth)};
      }
    }
  }

  std::string boolean(int depth) {
    constexpr Word kWeights[] = {10, 50, 8, 16, 8, 6};
    switch (random_.weighted(kWeights)) {
      case 0:
        return leaf(Type::boolean);
      case 1: {
        constexpr std::string_view kSigns[] = {"<", "<=", ">", ">=", "==", "!="};
        constexpr Type kOf[] = {Type::u32, Type::u32, Type::i32, Type::f32};
        const std::string_view sign = random_.pick(kSigns);
        return pair(sign, random_.pick(kOf), depth);
      }
      case 2:
        return fmt::format("(!{})", expr(Type::boolean, depth));
      case 3:
        return pair(random_.chance(50) ? "&&" : "||", Type::boolean, depth);
      case 4:
        return pair(random_.chance(50) ? "==" : "!=", Type::boolean, depth);
      default:
        return chosen(Type::boolean, depth);
    }
  }

  // ---- buffers ----

  std::string handle() {
    const Word kind = random_.below(1000);
    if (kind < 620) return fmt::format("{}", random_.pick(kHandles));
    if (kind < 900)
      return fmt::format("args[{}]",
                         random_.chance(70) ? random_.between(0, 1) : random_.between(3, 6));
    if (kind < 960) return fmt::format("1 + ({} & 3)", expr(Type::u32, 1));
    return random_.chance(50) ? expr(Type::u32, 1) : literal(Type::u32);
  }

  enum class Use : std::uint8_t { read, write };

  std::string buffer(Use use) {
    if (is_pure_) return use == Use::read ? "input" : "output";
    const bool can_be_output = use == Use::write || !commutes_;
    const Word kind = random_.below(100);
    if (kind < 14) return "control";
    if (kind < 28) return fmt::format("buffer({})", handle());
    const bool is_output = use == Use::write ? kind < 90 : kind < 50;
    return is_output && can_be_output ? "output" : "input";
  }

  std::string length() {
    if (is_pure_) return random_.chance(50) ? "len(input)" : "len(output)";
    switch (random_.below(5)) {
      case 0:
        return "len(control)";
      case 1:
        return fmt::format("len(buffer({}))", handle());
      case 2:
        return "len(output)";
      default:
        return "len(input)";
    }
  }

  // An index of that buffer, usually inside it.
  std::string index(std::string_view of, Use use, int depth) {
    if (of == "control") return control_index(use, depth);
    const Variable* const counter =
        find([](const Variable& v) { return v.is_counter && v.type == Type::u32; });
    const Word kind = random_.below(100);
    if (counter != nullptr && kind < 50) return counted_index(counter->name);
    const bool has_length = of == "input" || of == "output";
    if (kind < 82 && has_length) return fmt::format("{} % len({})", expr(Type::u32, depth), of);
    if (kind < 82) return fmt::format("{} % 8", expr(Type::u32, depth));
    if (kind < 98) return fmt::format("{}", random_.below(4));
    return expr(Type::u32, depth);
  }

  std::string control_index(Use use, int depth) {
    if (random_.chance(use == Use::write ? 3 : 8)) return expr(Type::u32, depth);
    if (use == Use::read && random_.chance(30)) return fmt::format("{}", random_.below(200));
    return fmt::format("160 + ({} & 7)", expr(Type::u32, depth));
  }

  std::string counted_index(const std::string& i) {
    const Word small = random_.chance(70) ? random_.below(3) : random_.below(9);
    switch (random_.below(18)) {
      case 0:
        return fmt::format("{} + {}", i, small);
      case 1:
        return fmt::format("{} * {}", i, random_.between(0, 3));
      case 2:
        return fmt::format("{} * {} + {}", i, random_.between(1, 3), small);
      case 3:
        return fmt::format("{} & {}", i, (Word{1} << random_.below(6)) - 1);
      case 4:
        return fmt::format("{} % {}", i, small);
      case 5:
        return fmt::format("{} / {}", i, small);
      case 6:
        return fmt::format("{} >> {}", i, small);
      case 7:
        return fmt::format("min({}, {})", i, expr(Type::u32, 1));
      case 8:
        return fmt::format("select({}, {}, {})", expr(Type::boolean, 1), i, small);
      case 9:
        return random_.chance(20) ? fmt::format("{} + {}", i, expr(Type::u32, 1))
                                  : fmt::format("({} + {}) % {}", i, expr(Type::u32, 1), 4 + small);
      default:
        return i;
    }
  }

  std::string load(int depth) {
    const std::string of = buffer(Use::read);
    return fmt::format("{}[{}]", of, index(of, Use::read, depth));
  }

  std::string atomic(int depth, std::optional<AtomicOp> wanted) {
    AtomicOp op = wanted.value_or(ir::kAtomicOps[random_.below(8)].op);
    if (is_pure_ && !wanted) {
      constexpr AtomicOp kIdempotent[] = {AtomicOp::min, AtomicOp::max, AtomicOp::bit_and,
                                          AtomicOp::bit_or};
      op = random_.pick(kIdempotent);
    }
    const std::string of = buffer(Use::write);
    std::string text = Text{"{}({}[{}], {}", ir::info(op).name, of, index(of, Use::write, depth),
                            expr(Type::u32, depth)};
    if (op == AtomicOp::cas) text += ", " + expr(Type::u32, depth);
    return text + ")";
  }

  // ---- statements ----

  std::string line(int level, const std::string& text) {
    return fmt::format("{:{}}{}\n", "", 2 * level, text);
  }

  std::string block(int level) {
    const std::size_t outer = variables_.size(), outer_arrays = arrays_.size();
    std::string text = "{\n";
    const Word count = level > 4 ? 1 : random_.between(1, 4);
    for (Word i = 0; i < count; ++i) text += statement(level + 1);
    variables_.resize(outer);
    arrays_.erase(arrays_.begin() + static_cast<std::ptrdiff_t>(outer_arrays), arrays_.end());
    return text + fmt::format("{:{}}}}", "", 2 * level);
  }

  std::string statement(int level) {
    const bool is_full = spent_ > budget_ || declared_ > 180;
    const bool is_flat = level > 7 || is_full;
    const Word loops = is_flat || loops_.size() > 2 ? 0 : 1;
    const Word weights[] = {
        12u,                                        // let
        8u,                                         // var
        12u,                                        // assignment
        is_restricted() || is_in_each() ? 0u : 6u,  // args
        commutes_ ? 0u : 22u,                       // store
        commutes_ ? 24u : 9u,                       // atomic
        is_flat ? 0u : 11u,                         // if
        loops * 11,                                 // for
        loops * (is_in_each() ? 0u : 7u),           // each
        loops * 5,                                  // while
        loops_.empty() ? 0u : 5u,                   // break, continue
        4u,                                         // ending
        is_pure_ ? 0u : 4u,                         // printf, emit
        1u,                                         // a call without effect
        4u,                                         // array
        arrays_.empty() ? 0u : 10u,                 // a word of an array
    };
    const int depth = static_cast<int>(random_.between(1, 3));
    switch (random_.weighted(weights)) {
      case 0:
        return declaration_statement(level, false, depth);
      case 1:
        return declaration_statement(level, true, depth);
      case 2:
        return assignment(level, depth);
      case 3:
        return arg_store(level, depth);
      case 4: {
        const std::string of = buffer(Use::write);
        const std::string at = index(of, Use::write, 2);
        // An update reads the word, which pure allows of no output.
        if (!is_pure_ && random_.chance(30)) return line(level, update(of + "[" + at + "]", depth));
        return line(level, fmt::format("{}[{}] = {};", of, at, stored(depth)));
      }
      case 5:
        return line(level, atomic(depth, only_atomic_) + ";");
      case 6:
        return branch(level, depth);
      case 7:
        return counted_loop(level, LoopKind::ordinary);
      case 8:
        return counted_loop(level, LoopKind::each);
      case 9:
        return while_loop(level, depth);
      case 10:
        return loop_exit(level);
      case 11:
        return ending(level);
      case 14:
        return array(level);
      case 15:
        return element_store(level, depth);
      case 12:
        return line(level, Text{"{}({}, {}, {});", random_.chance(50) ? "printf" : "emit",
                                expr(Type::u32, 1), expr(Type::u32, depth), expr(Type::u32, 1)});
      default:
        return line(level, least(random_.pick({Type::u32, Type::i32, Type::f32}), 1) + ";");
    }
  }

  // `place op= value` of a u32 place.
  std::string update(const std::string& place, int depth) {
    return Text{"{} {}= {};", place, random_.pick(kIntegerSigns), expr(Type::u32, depth)};
  }

  // ---- arrays ----

  struct ArrayName {
    std::string name;
    Type type;
    Word words;
    bool is_outside_each;
  };

  std::string array(int level) {
    const Word room = is_in_each() ? array_room_in_each_ : array_room_;
    if (room == 0) return declaration_statement(level, true, 1);
    const Word most = is_in_each() ? 16 : random_.chance(5) ? room : 40;
    const Word words = random_.between(1, std::min(room, most));
    if (is_in_each()) array_room_in_each_ -= words;
    array_room_ -= std::min(array_room_, words);
    constexpr std::string_view kSpelling[] = {"u32", "i32", "f32"};
    const Word kind = random_.below(3);
    ++declared_;
    arrays_.push_back({fmt::format("a{}", arrays_.size()), kTypes[kind], words, !is_in_each()});
    return line(level,
                fmt::format("var {}: [{}; {}];", arrays_.back().name, kSpelling[kind], words));
  }

  template <class Predicate>
  const ArrayName* find_array(Predicate predicate) {
    std::vector<const ArrayName*> found;
    for (const ArrayName& one : arrays_) {
      if (predicate(one)) found.push_back(&one);
    }
    return found.empty() ? nullptr : random_.pick_from(found);
  }

  std::string element(const ArrayName& of, int depth) {
    if (random_.chance(94)) return Text{"{}[{} % {}]", of.name, expr(Type::u32, depth), of.words};
    return Text{"{}[{}]", of.name, expr(Type::u32, depth)};
  }

  std::string element_store(int level, int depth) {
    const bool in_each = is_in_each();
    const ArrayName* const found =
        find_array([&](const ArrayName& one) { return !(in_each && one.is_outside_each); });
    if (found == nullptr) return array(level);
    const ArrayName of = *found;
    const std::string place = element(of, depth);
    if (random_.chance(40)) {
      const std::string_view sign =
          of.type == Type::f32 ? random_.pick(kFloatSigns) : random_.pick(kIntegerSigns);
      const bool is_shift = sign == "<<" || sign == ">>";
      return line(level,
                  Text{"{} {}= {};", place, sign, expr(is_shift ? Type::u32 : of.type, depth)});
    }
    return line(level, Text{"{} = {};", place, expr(of.type, depth)});
  }

  // The value of a store: floats pass through bits_u32, so that their bits are compared.
  std::string stored(int depth) {
    const Word kind = random_.below(10);
    if (kind < 3) return fmt::format("bits_u32({})", expr(Type::f32, depth));
    if (kind < 5) return fmt::format("u32({})", expr(Type::i32, depth));
    return expr(Type::u32, depth);
  }

  std::string declaration_statement(int level, bool is_variable, int depth) {
    const Type type = random_.pick(kTypes);
    std::string value = expr(type, depth);  // before the name is in sight
    return line(level, fmt::format("{} {} = {};", is_variable ? "var" : "let",
                                   declare(type, is_variable), value));
  }

  std::string assignment(int level, int depth) {
    const bool in_each = is_in_each();
    const Variable* const variable =
        find([&](const Variable& v) { return v.is_variable && !(in_each && v.is_outside_each); });
    if (variable == nullptr) return declaration_statement(level, true, depth);
    const std::string name = variable->name;
    const Type type = variable->type;
    if (type != Type::boolean && random_.chance(40)) {
      const std::string_view sign =
          type == Type::f32 ? random_.pick(kFloatSigns) : random_.pick(kIntegerSigns);
      const bool is_shift = sign == "<<" || sign == ">>";
      return line(level,
                  fmt::format("{} {}= {};", name, sign, expr(is_shift ? Type::u32 : type, depth)));
    }
    return line(level, fmt::format("{} = {};", name, expr(type, depth)));
  }

  std::string arg_store(int level, int depth) {
    std::string at = fmt::format("{}", random_.between(2, 11));
    if (random_.chance(10)) at = fmt::format("{}", random_.below(2));
    if (random_.chance(15)) at = fmt::format("{} % 12", expr(Type::u32, 1));
    if (random_.chance(3)) at = expr(Type::u32, 1);
    // A handle that is overwritten mostly gets another handle.
    if ((at == "0" || at == "1") && random_.chance(80)) {
      return line(level, fmt::format("args[{}] = {};", at, random_.pick(kHandles)));
    }
    if (random_.chance(25)) return line(level, update("args[" + at + "]", depth));
    return line(level, fmt::format("args[{}] = {};", at, expr(Type::u32, depth)));
  }

  std::string branch(int level, int depth) {
    std::string text = Text{"if {} {}", expr(Type::boolean, depth), block(level)};
    if (random_.chance(40)) {
      text += random_.chance(30) ? Text{" else if {} {}", expr(Type::boolean, 1), block(level)}
                                 : " else " + block(level);
    }
    return line(level, text);
  }

  std::string range() {
    const bool is_inner = !loops_.empty();
    const Word kind = random_.below(100);
    if (kind < (is_inner ? 12u : 48u)) {
      constexpr std::string_view kEnds[] = {"len(input)", "len(output)",
                                            "min(len(input), len(output))"};
      return Text{"{} .. {}", random_.chance(80) ? "0" : "1", random_.pick(kEnds)};
    }
    if (kind < 68) {
      const Word first = random_.below(4);
      return fmt::format("{} .. {}", first, first + random_.below(9));
    }
    if (kind < 84) return Text{"0 .. {} % {}", expr(Type::u32, 2), random_.between(1, 20)};
    if (kind < 96) return {};  // signed
    if (kind < 98) return fmt::format("{:#x} .. 0xffffffff", 0xFFFFFFFFu - random_.below(40));
    return Text{"{} .. {}", expr(Type::u32, 1), expr(Type::u32, 1)};
  }

  std::string signed_range() {
    if (random_.chance(10)) {
      return Text{"{} .. {}", expr(Type::i32, 1), expr(Type::i32, 1)};
    }
    return Text{"(-{}i) .. {}i", random_.below(6), random_.below(9)};
  }

  // Mostly small; sometimes huge, sometimes refused when it runs.
  std::string step(bool is_signed) {
    const std::string_view suffix = is_signed ? "i" : "";
    const Word kind = random_.below(100);
    if (kind < 80) return fmt::format("{}{}", random_.between(1, 5), suffix);
    if (kind < 90) return fmt::format("{}{}", 0x7FFFFFFFu - random_.below(3), suffix);
    if (kind < 94) return is_signed ? Text{"(-{}i)", random_.below(3)} : Text{"{}", 0};
    return expr(is_signed ? Type::i32 : Type::u32, 1);
  }

  std::string counted_loop(int level, LoopKind kind) {
    const std::string unsigned_range = range();
    const bool is_signed = unsigned_range.empty();
    std::string bounds = is_signed ? signed_range() : unsigned_range;
    if (kind == LoopKind::ordinary && random_.chance(30)) bounds += " step " + step(is_signed);
    loops_.push_back(kind);
    const std::size_t outer = variables_.size();
    const std::string name = declare(is_signed ? Type::i32 : Type::u32, false, true);
    std::string text = fmt::format("{} {} in {} {}", kind == LoopKind::each ? "each" : "for", name,
                                   bounds, block(level));
    variables_.resize(outer);
    loops_.pop_back();
    return line(level, text);
  }

  std::string while_loop(int level, int depth) {
    std::string text;
    if (random_.chance(15)) {
      text = fmt::format("while {} ", expr(Type::boolean, depth));
      loops_.push_back(LoopKind::ordinary);
      text += block(level);
      loops_.pop_back();
      return line(level, text);
    }
    // The counter moves first, so that no continue can make the loop endless.
    const std::string counter = declare(Type::u32, true);
    variables_.back().is_variable = false;  // no other statement assigns it
    text = line(level, fmt::format("var {} = 0;", counter));
    loops_.push_back(LoopKind::ordinary);
    std::string inside = block(level);
    loops_.pop_back();
    inside.insert(2, fmt::format("{:{}}{} = {} + 1;\n", "", 2 * level + 2, counter, counter));
    return text + line(level, fmt::format("while {} < {} {}", counter, random_.below(12), inside));
  }

  std::string guarded(int level, const std::string& text) {
    if (random_.chance(12)) return line(level, text);
    return line(level, fmt::format("if {} {{ {} }}", expr(Type::boolean, 2), text));
  }

  std::string loop_exit(int level) {
    const bool can_break = loops_.back() == LoopKind::ordinary;
    return guarded(level, can_break && random_.chance(50) ? "break;" : "continue;");
  }

  std::string ending(int level) {
    Word kind = random_.below(100);
    if (is_in_each()) kind = 0;
    if (is_pure_ && kind >= 38) kind = kind % 38;
    if (kind < 26) {
      // A literal above the highest code is refused; a computed one stops at it.
      const std::string code = random_.chance(35)   ? fmt::format("~{:#x}", random_.below(1 << 30))
                               : random_.chance(70) ? fmt::format("{}", random_.below(100))
                                                    : fmt::format("max({}, 0)", expr(Type::u32, 1));
      return guarded(level, fmt::format("fault {};", code));
    }
    if (kind < 38) return guarded(level, "return;");
    if (kind < 56) return guarded(level, "yield;");
    if (kind < 74) return guarded(level, "requeue;");
    return guarded(level, Text{"await {}({}, {}, {}, {});",
                               !commutes_ && random_.chance(50) ? "read" : "write", handle(),
                               expr(Type::u32, 1), handle(), expr(Type::u32, 1)});
  }

  Random& random_;
  const HandlerRequest& request_;
  bool is_pure_ = false;
  bool commutes_ = false;
  std::optional<AtomicOp> only_atomic_;
  std::vector<Definition> constants_, functions_;
  std::vector<ArrayName> arrays_;
  Word array_room_ = 1024, array_room_in_each_ = 64;
  bool is_in_definition_ = false;  // of a constant or function: sees no item
  std::vector<Variable> variables_;
  std::vector<LoopKind> loops_;
  int budget_ = 0;  // left for expressions, approximately
  int spent_ = 0;
  int declared_ = 0;
};

// ---- frames ----

Word frame_word(Random& random, Word kind) {
  switch (kind) {
    case 0:
      return random.below(20);
    case 1:
      return random.pick(kEdgeWords);
    case 2:
      return random.word();
    default: {
      // A float of modest size.
      const Word exponent = random.between(118, 136);
      return (random.word() & 0x807FFFFFu) | exponent << 23;
    }
  }
}

std::vector<Word> frame_words(Random& random, std::size_t count) {
  const Word kind = random.below(5);
  std::vector<Word> words(count);
  for (Word& word : words) word = frame_word(random, kind == 4 ? random.below(4) : kind);
  return words;
}

std::size_t buffer_length(Random& random) {
  const Word kind = random.below(100);
  if (kind < 3) return 0;
  if (kind < 7) return 1;
  if (kind < 35) return random.between(2, 16);
  if (kind < 68) return random.between(17, 64);
  if (kind < 94) return random.between(65, 400);
  if (kind < 97) return random.between(4090, 4110);
  return random.between(5000, 9000);
}

BufferSpec frame_buffer(Random& random, Word tenant, std::size_t index,
                        const std::vector<BufferSpec>& before) {
  BufferSpec buffer{.handle = kHandles[index]};
  buffer.edge = random.chance(70) ? Edge::end : Edge::start;
  const Word access = random.below(100);
  const Word read_only = index == 0 ? 10 : 1;
  if (access < read_only) buffer.access = memory::Access::read;
  if (access >= 98) buffer.access = memory::Access::write;
  const Word owner = random.below(100);
  if (owner < 5) buffer.owner = tenant;
  if (owner >= 99) buffer.owner = tenant == 0 ? 1 : tenant - 1;
  if (index > 0 && random.chance(6)) {
    const std::size_t of = random.below(static_cast<Word>(index));
    const std::size_t room = before[of].words.size();
    if (!before[of].alias_of && room > 0) {
      buffer.alias_of = of;
      buffer.alias_first = random.below(static_cast<Word>(std::min<std::size_t>(room, 9)));
      buffer.words.resize(room - buffer.alias_first);
      return buffer;
    }
  }
  buffer.words = frame_words(random, buffer_length(random));
  return buffer;
}

Word frame_handle(Random& random, Word usual) {
  const Word kind = random.below(100);
  if (kind < 84) return usual;
  if (kind < 97) return random.pick(kHandles);
  return random.chance(50) ? 99 : random.word();
}

std::uint64_t frame_fuel(Random& random) {
  const Word kind = random.below(100);
  if (kind < 8) return random.below(30);
  if (kind < 16) return random.between(30, 500);
  if (kind < 96) return random.between(500, 4000);
  return random.between(4000, 25'000);
}

std::size_t control_length(Random& random) {
  const Word kind = random.below(100);
  if (kind < 75) return 200;
  if (kind < 85) return random.between(160, 172);
  if (kind < 91) return random.below(160);
  return random.between(200, 1000);
}

// ---- damage ----

constexpr std::string_view kStrangers[] = {
    "0",      "1",     "0xffffffff", "7i",    "1.5",     "true",   "{",        "}",     "(",
    ")",      "[",     "]",          ";",     "+",       "-",      "*",        "/",     "%",
    "<<",     ">>",    "<",          "==",    "&&",      "||",     "!",        "~",     "=",
    "let",    "var",   "if",         "else",  "for",     "each",   "while",    "break", "continue",
    "return", "yield", "fault",      "await", "input",   "output", "control",  "args",  "len",
    "select", "min",   "bits_f32",   "f32",   "i32",     "u32",    "lane",     "param", "v0",
    "v1",     "v2",    "..",         ",",     "handler", "pure",   "commutes", "scope", "payload"};

// Splits a text into tokens; a character that begins no token of the language is a token of its
// own.
std::vector<std::string> tokens_of(std::string_view text) {
  const auto is_wordy = [&](std::size_t i) {
    const auto c = static_cast<unsigned char>(text[i]);
    return std::isalnum(c) != 0 || c == '_';
  };
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (is_wordy(at)) {
      while (end < text.size() && is_wordy(end)) ++end;
    }
    if (text[at] != ' ') tokens.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

// Puts a space only before words, so that `<` and `=` that were one token stay one.
std::string joined(const std::vector<std::string>& tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(tokens[i][0])) != 0;
    if (i > 0 && (is_word || tokens[i] == "{") && tokens[i - 1] != ".") text += ' ';
    text += tokens[i];
  }
  return text;
}

}  // namespace

std::string generate_handler(Random& random, const HandlerRequest& request) {
  return HandlerGenerator(random, request).run();
}

std::string generate_batch(Random& random, std::size_t handler_count) {
  std::string text;
  const std::size_t payload = random.below(static_cast<Word>(handler_count * 5 / 4));
  for (std::size_t i = 0; i < handler_count; ++i) {
    text += generate_handler(random, {.index = i, .is_payload = i == payload});
  }
  return text;
}

FrameSpec generate_frame(Random& random, ir::Scope scope, Word opcode) {
  FrameSpec spec;
  spec.opcode = opcode;
  spec.tenant = random.chance(25) ? 0 : random.between(1, 28);
  spec.priority = random.below(5);
  spec.slot = random.below(1024);
  constexpr Word kGroups[] = {64, 128, 256, 1, 3};
  spec.lanes = scope == ir::Scope::lane ? 1 : scope == ir::Scope::warp ? 32 : random.pick(kGroups);
  for (Word& arg : spec.args) arg = frame_word(random, random.below(3));
  spec.args[0] = frame_handle(random, 1);
  spec.args[1] = frame_handle(random, random.chance(15) ? spec.args[0] : 2);
  for (std::size_t i = 3; i <= 6; ++i) {
    if (random.chance(80)) spec.args[i] = frame_handle(random, random.pick(kHandles));
  }
  for (std::size_t i = 0; i < std::size(kHandles); ++i) {
    spec.buffers.push_back(frame_buffer(random, spec.tenant, i, spec.buffers));
  }
  spec.control = frame_words(random, control_length(random));
  spec.control_edge = random.chance(70) ? Edge::end : Edge::start;
  spec.fuel = frame_fuel(random);
  const Word abort = random.below(100);
  spec.abort = abort < 5 ? Abort::set : abort < 30 ? Abort::absent : Abort::clear;
  spec.has_hooks = !random.chance(4);
  return spec;
}

std::string mutate(Random& random, std::string_view text) {
  std::vector<std::string> tokens = tokens_of(text);
  for (Word i = 0, count = random.between(1, 3); i < count && tokens.size() > 1; ++i) {
    const std::size_t at = random.below(static_cast<Word>(tokens.size()));
    const std::size_t other = random.below(static_cast<Word>(tokens.size()));
    const auto place = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random.below(6)) {
      case 0:
        tokens.erase(place);
        break;
      case 1:
        tokens.insert(place, std::string(tokens[at]));
        break;
      case 2:
        std::swap(tokens[at], tokens[other]);
        break;
      case 3:
        tokens[at] = std::string(random.pick(kStrangers));
        break;
      default:
        tokens[at] = std::string(tokens[other]);
        break;
    }
  }
  return joined(tokens);
}

namespace {

// Adds the handlers, constants and functions of a program to another under names and opcodes of
// their own.
void add_renamed(ir::Program& program, ir::Program added) {
  const std::size_t number = program.constants.size() + program.functions.size();
  std::map<std::string, std::string> renamed;
  const auto rename = [&](auto& things) {
    for (auto& thing : things) {
      std::string& name = renamed[thing.name];
      name = fmt::format("d_{}_{}", number, renamed.size());
      thing.name = name;
    }
  };
  rename(added.constants);
  rename(added.functions);
  const auto rename_uses = [&](auto& things) {
    for (auto& thing : things) {
      for (std::string& name : thing.body.names) {
        if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
      }
    }
  };
  rename_uses(added.constants);
  rename_uses(added.functions);
  rename_uses(added.handlers);
  std::ranges::move(added.constants, std::back_inserter(program.constants));
  std::ranges::move(added.functions, std::back_inserter(program.functions));
  for (ir::Handler& handler : added.handlers) {
    handler.name = fmt::format("h_{}", program.handlers.size());
    handler.opcode = static_cast<std::uint32_t>(1000 + program.handlers.size());
    handler.is_payload = false;
    program.handlers.push_back(std::move(handler));
  }
}

}  // namespace

ir::Program generate_survivors(Random& random, std::size_t handler_count, std::size_t& tried,
                               const std::function<void(const std::string& text)>& look) {
  ir::Program survivors;
  while (survivors.handlers.size() < handler_count) {
    const std::string text = mutate(random, generate_handler(random, {.index = 0}));
    look(text);
    ++tried;
    auto parsed = ir::parse(text);
    if (parsed && ir::verify(*parsed)) add_renamed(survivors, *std::move(parsed));
  }
  return survivors;
}

ir::Program generate_tree_survivors(Random& random, std::size_t handler_count, std::size_t& tried,
                                    const std::function<void(const ir::VerifiedProgram&)>& look) {
  ir::Program survivors;
  while (survivors.handlers.size() < handler_count) {
    auto program = ir::parse(generate_handler(random, {.index = 0}));
    if (!program) continue;
    // Half of the programs have no text, as programs that were built in C++ have none.
    if (random.chance(50)) program->handlers[0].text_bytes = 0;
    TreeMutator mutator(random);
    for (Word count = random.between(1, 3); count > 0; --count) mutator.mutate(*program);
    ++tried;
    const auto verified = ir::verify(*program);
    if (!verified) continue;
    look(*verified);
    // Compiling takes most of the time: one in ten is enough.
    if (random.chance(10)) add_renamed(survivors, *std::move(program));
  }
  return survivors;
}

}  // namespace everkernel::test
