// Random handlers: every mix of attributes that the planner distinguishes.
//
// The effects of an item must follow from the order of the items alone: no handler reads its slot,
// counters, or words that commuting items change at the same time. The bits of `param` select: 0..7
// a value, 8..11 mischief (see Maker::mischief), 12..15 a place, 16..27 a buffer, 28 a slow run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "job.hpp"
#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

constexpr std::string_view kAtomics[] = {"min", "max", "and", "or", "add", "xor"};
constexpr Word kIdempotentAtomics = 4;

// Statements that end an item early if its param asks for mischief.
struct Body {
  std::string attributes = {};
  std::string text = {};
  bool reads_input = false;
  std::string store = {};  // a store to output at {}; empty: the handler may not write there
};

class Maker {
 public:
  Maker(Random& random, const Handles& handles) : random_(random), handles_(handles) {}

  std::string handler(std::string_view kind, Word opcode);
  static std::vector<std::string> kinds();

 private:
  using Make = Body (Maker::*)();
  struct Row {
    std::string_view kind;
    Make make;
  };
  static const std::vector<Row>& rows();

  Word constant() { return random_.between(1, 9) * 2 + 1; }
  // `each` splits the turns over lanes, `for` runs them one after the other.
  std::string loop() { return random_.chance(scope_ == 0 ? 20 : 80) ? "each" : "for"; }
  // Turns of an each must not see words that other turns write, and input may be output. So a turn
  // uses only its own word, or the turns run one after the other.
  std::string place_of_turn(std::string_view loop) const {
    return fmt::format("output[({}) % len(output)]", loop == "each" ? "i" : "i + param");
  }
  static std::string in_order_if_same(std::string_view loop, std::string_view turns) {
    if (loop == "for") return fmt::format("for {} ", turns);
    return fmt::format("if args[0] == args[1] {{ for {0} }} else {{ each {0} }} ", turns);
  }
  std::string some_handle(Word shift) const {
    return fmt::format("buffer({} + ((param >> {}) & 63) % {} * {})", handles_.first, shift,
                       handles_.count + (handles_.count > 4 ? 0 : 1), handles_.stride);
  }
  std::string some_handle_value() const {
    return fmt::format("{} + ((param >> 16) & 63) % {} * {}", handles_.first, handles_.count,
                       handles_.stride);
  }
  std::string observable(Word shift) const {
    return fmt::format("control[160 + ((param >> {}) & {})]", shift, kJobObservables - 1);
  }
  std::string atomic(std::string_view op, std::string_view place, std::string_view value) const {
    return fmt::format("atomic_{}({}, {});", op, place, value);
  }
  std::string mischief(const Body& body);

  Body copy();
  Body shuffle();
  Body fill();
  Body pure_atomic();
  Body pure_commutes();
  Body commutes();
  Body commutes_param();
  Body commutes_input();
  Body commutes_barrier();
  Body saxpy();
  Body saxpy_float();
  Body in_place();
  Body exchange();
  Body reader();
  Body output_reader();
  Body length_reader();
  Body write_input();
  Body swap();
  Body handles_barrier();
  Body handles_only();
  Body control_barrier();
  Body mover();
  Body args_barrier();
  Body continuation();
  Body control_reader();
  Body nothing();
  Body identity();

  Random& random_;
  const Handles& handles_;
  Word scope_ = 0;
};

const std::vector<Maker::Row>& Maker::rows() {
  static const std::vector<Row> rows = {
      {"copy", &Maker::copy},
      {"shuffle", &Maker::shuffle},
      {"fill", &Maker::fill},
      {"pure atomic", &Maker::pure_atomic},
      {"pure commutes", &Maker::pure_commutes},
      {"commutes", &Maker::commutes},
      {"commutes by param", &Maker::commutes_param},
      {"commutes, writes input", &Maker::commutes_input},
      {"commutes, barrier", &Maker::commutes_barrier},
      {"saxpy", &Maker::saxpy},
      {"saxpy f32", &Maker::saxpy_float},
      {"in place", &Maker::in_place},
      {"exchange", &Maker::exchange},
      {"reader", &Maker::reader},
      {"output reader", &Maker::output_reader},
      {"length reader", &Maker::length_reader},
      {"writes input", &Maker::write_input},
      {"swap", &Maker::swap},
      {"barrier by handle", &Maker::handles_barrier},
      {"barrier, no names", &Maker::handles_only},
      {"barrier by control", &Maker::control_barrier},
      {"barrier by args[0], args[1]", &Maker::mover},
      {"barrier by args[x]", &Maker::args_barrier},
      {"continuation", &Maker::continuation},
      {"control reader", &Maker::control_reader},
      {"nothing", &Maker::nothing},
      {"identity", &Maker::identity},
  };
  return rows;
}

std::vector<std::string> Maker::kinds() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.emplace_back(row.kind);
  return names;
}

// One statement that ends the item early when its param asks for it.
std::string Maker::mischief(const Body& body) {
  std::string text = "if ((param >> 8) & 15) != 0 { ";
  text += "if ((param >> 8) & 15) == 1 { fault param & 255; } ";
  if (!body.store.empty()) {
    text += "if ((param >> 8) & 15) == 2 { " +
            fmt::format(fmt::runtime(body.store), "len(output) + (param & 3)") + " } ";
  } else if (body.reads_input) {
    text += "if ((param >> 8) & 15) == 2 { if input[len(input)] == 1 { fault 3; } } ";
  }
  text += "if ((param >> 8) & 15) == 3 { for z in 0 .. 0xffffffff { } } ";
  if (body.reads_input) {
    text += "if ((param >> 8) & 15) == 4 && (input[0] & 1) == (param & 1) { fault 1000; } ";
  }
  return text + "} ";
}

std::string Maker::handler(std::string_view kind, Word opcode) {
  scope_ = random_.chance(60) ? 0 : random_.between(1, 2);
  for (const Row& row : rows()) {
    if (row.kind != kind) continue;
    const Body body = (this->*row.make)();
    const std::string_view scopes[] = {"", "scope warp ", "scope group "};
    const std::string trap = random_.chance(75) ? mischief(body) : "";
    const bool is_late = random_.chance(50);
    // Slow items give other items time to run in between, where an order is missing.
    const std::string_view wait =
        random_.chance(50)
            ? "if (param >> 28) != 0 { var w = 0; for y in 0 .. 1500 { w = w + y; } } "
            : "";
    return fmt::format("handler h{} = {} {}{}{{ {}{}{}{} }}\n", opcode, opcode, scopes[scope_],
                       body.attributes, wait, is_late ? "" : trap, body.text, is_late ? trap : "");
  }
  return "";
}

// ---- pure, and commuting ----

Body Maker::copy() {
  return {.attributes = random_.chance(70) ? "pure " : "",
          .text = fmt::format("{} i in 0 .. min(len(input), len(output)) {{ "
                              "output[i] = input[i] * {} + (param & 255); }} ",
                              loop(), constant()),
          .reads_input = true,
          .store = "output[{}] = 1;"};
}

Body Maker::shuffle() {
  return {.attributes = random_.chance(50) ? "pure " : "",
          .text = fmt::format("for i in 0 .. len(output) {{ output[i] = "
                              "input[(i * {} + param) % len(input)] ^ (param & 255); }} ",
                              constant()),
          .reads_input = true,
          .store = "output[{}] = 1;"};
}

Body Maker::fill() {
  return {.attributes = random_.chance(70) ? "pure " : "",
          .text = fmt::format("output[param % len(output)] = (param & 255) * {}; ", constant()),
          .store = "output[{}] = 1;"};
}

Body Maker::pure_atomic() {
  const std::string_view op = kAtomics[random_.below(kIdempotentAtomics)];
  const std::string turns = loop();
  return {.attributes = "pure ",
          .text = fmt::format("{} i in 0 .. len(input) {{ {} }} ", turns,
                              atomic(op, place_of_turn(turns), "input[i] ^ (param & 255)")),
          .reads_input = true,
          .store = fmt::format("atomic_{}(output[{{}}], 1);", op)};
}

Body Maker::pure_commutes() {
  Body body = pure_atomic();
  body.attributes = random_.chance(50) ? "pure commutes " : "commutes pure ";
  return body;
}

Body Maker::commutes() {
  const std::string_view op = random_.pick(kAtomics);
  const std::string update = atomic(op, "output[(input[i] + param) % len(output)]",
                                    fmt::format("input[i] * {} + (param & 7)", constant()));
  return {.attributes = "commutes ",
          .text = in_order_if_same(loop(), fmt::format("i in 0 .. len(input) {{ {} }}", update)),
          .reads_input = true,
          .store = fmt::format("atomic_{}(output[{{}}], 1);", op)};
}

Body Maker::commutes_param() {
  const std::string_view op = random_.pick(kAtomics);
  return {.attributes = "commutes ",
          .text = atomic(op, "output[(param >> 12) % len(output)]", "param & 255") + " ",
          .store = fmt::format("atomic_{}(output[{{}}], 1);", op)};
}

Body Maker::commutes_input() {
  const std::string_view op = random_.pick(kAtomics);
  return {.attributes = "commutes ",
          .text = atomic(op, "input[(param >> 12) % len(input)]", "param & 255") + " " +
                  atomic(op, "output[param % len(output)]", "input[0] + 1") + " ",
          .reads_input = true,
          .store = fmt::format("atomic_{}(output[{{}}], 1);", op)};
}

Body Maker::commutes_barrier() {
  const std::string_view op = random_.pick(kAtomics);
  const std::string other = some_handle(16);
  return {.attributes = "commutes ",
          .text = atomic(op, fmt::format("{}[param % len({})]", other, other), "param & 255") +
                  " " + atomic(op, "output[0]", "param & 63") + " ",
          .store = fmt::format("atomic_{}(output[{{}}], 1);", op)};
}

// ---- in order ----

Body Maker::saxpy() {
  return {.text = fmt::format("{} i in 0 .. min(len(input), len(output)) {{ "
                              "output[i] = input[i] * {} + output[i] + (param & 15); }} ",
                              loop(), constant()),
          .reads_input = true,
          .store = "output[{}] = 1;"};
}

Body Maker::saxpy_float() {
  return {.text = fmt::format(
              "let a = f32(param & 255) / 16.0; {} i in 0 .. min(len(input), len(output)) {{ "
              "output[i] = bits_u32(a * bits_f32(input[i]) + bits_f32(output[i])); }} ",
              loop()),
          .reads_input = true,
          .store = "output[{}] = 1;"};
}

Body Maker::in_place() {
  return {.text = fmt::format("{} i in 0 .. len(output) {{ "
                              "output[i] = rotl(output[i], {}) + (param & 255) + i; }} ",
                              loop(), constant()),
          .store = "output[{}] = 1;"};
}

Body Maker::exchange() {
  const bool is_cas = random_.chance(50);
  return {
      .text = fmt::format("let at = (param >> 12) % len(output); let old = {}; "
                          "output[(at + 1) % len(output)] = old * {} + input[param % len(input)]; ",
                          is_cas ? "atomic_cas(output[at], output[0], param & 255)"
                                 : "atomic_exchange(output[at], param & 255)",
                          constant()),
      .reads_input = true,
      .store = "output[{}] = 1;"};
}

Body Maker::write_input() {
  return {.text = fmt::format("{} i in 0 .. min(len(input), len(output)) {{ "
                              "input[i] = output[i] * {} + (param & 255); }} ",
                              loop(), constant())};
}

Body Maker::swap() {
  return {.text = fmt::format("{} i in 0 .. min(len(input), len(output)) {{ let old = input[i]; "
                              "input[i] = output[i] + (param & 15); output[i] = old; }} ",
                              loop()),
          .reads_input = true,
          .store = "output[{}] = 1;"};
}

Body Maker::continuation() {
  return {.text = fmt::format(
              "output[args[3] % len(output)] = output[0] * {} + input[args[3] % len(input)]; "
              "if args[3] < (param & 3) {{ args[3] = args[3] + 1; args[11] = args[11] + param; "
              "if ((param >> 4) & 1) == (args[3] & 1) {{ requeue; }} yield; }} "
              "output[0] = output[0] + args[11]; ",
              constant()),
          .reads_input = true,
          .store = "output[{}] = 1;"};
}

Body Maker::control_reader() {
  return {.text = fmt::format("{} i in 0 .. min(len(input), len(output)) {{ "
                              "output[i] = input[i] + {}; }} ",
                              loop(), observable(0)),
          .reads_input = true,
          .store = "output[{}] = 1;"};
}

Body Maker::identity() {
  return {.text =
              "output[param % len(output)] = tenant * 64 + opcode * 7 + lanes * 3 + lane; "
              "output[0] = output[0] + args[0] * 5 + args[1] * 3 + args[4]; ",
          .store = "output[{}] = 1;"};
}

// ---- without effects ----

Body Maker::reader() {
  return {
      .text = fmt::format("for i in 0 .. min(len(input), 3) {{ if (input[i] ^ param) % 3 == 0 {{ "
                          "emit(input[i], param & 255, {}); }} }} {}",
                          random_.chance(50) ? "tenant" : "i",
                          random_.chance(40) ? "printf(param, input[0], 7); " : ""),
      .reads_input = true};
}

Body Maker::output_reader() {
  return {.text = "if output[param % len(output)] % 5 < 3 { emit(output[0], opcode, param); } "};
}

Body Maker::length_reader() {
  return {.text = "if len(output) % 2 == 1 { emit(len(output), tenant, param & 255); } "};
}

Body Maker::nothing() {
  return {.text = random_.chance(50) ? "" : "if (param & 1) == 1 { return; } "};
}

// ---- barriers ----

Body Maker::handles_barrier() {
  const std::string from = some_handle(16), to = some_handle(22);
  return {.text = fmt::format("{}[param % len({})] = {}[0] * {} + output[0] + (param & 15); "
                              "output[0] = output[0] + {}[0]; ",
                              to, to, from, constant(), to),
          .store = "output[{}] = 1;"};
}

Body Maker::handles_only() {
  const std::string from = some_handle(16), to = some_handle(22);
  return {.text = fmt::format("let n = min(len({}), len({})); {} i in 0 .. n {{ {}[i] = {}[i] + "
                              "{}; }} ",
                              from, to, loop(), to, from, constant())};
}

Body Maker::control_barrier() {
  // Tenant 0 could write words that run() itself uses, so it does not store there.
  return {.text = fmt::format(
              "{} = {} * 3 + input[0] + (param & 15); output[param % len(output)] = {}; "
              "atomic_add({}, 1); if tenant != 0 && ((param >> 8) & 15) == 5 {{ control[100] = 1; "
              "}} ",
              observable(0), observable(12), observable(5), observable(16)),
          .reads_input = true,
          .store = "output[{}] = 1;"};
}

Body Maker::mover() {
  const bool moves_input = random_.chance(40);
  return {.text = fmt::format("if args[5] == 0 {{ args[5] = 1; output[0] = output[0] + 1; "
                              "args[{}] = {}; {} }} output[0] = output[0] * {} + input[0]; ",
                              moves_input ? 0 : 1, some_handle_value(),
                              random_.chance(60) ? "yield;" : "", constant()),
          .reads_input = true,
          .store = "output[{}] = 1;"};
}

Body Maker::args_barrier() {
  const bool can_move = random_.chance(50);
  return {.text = fmt::format("args[{}] = {}; output[param % len(output)] = args[3] + {}; ",
                              can_move ? "param % 2" : "3 + param % 2",
                              can_move ? some_handle_value() : "param & 255", constant()),
          .store = "output[{}] = 1;"};
}

Word random_opcode(Random& random) {
  const Word rare[] = {8, 31, 255, 256, 4095, 4096, 65519, 65536, 0x7FFFFFFF};
  return random.chance(15) ? random.pick(rare) : random.between(32, 250);
}

}  // namespace

JobProgram generate_program(Random& random) {
  Handles handles;
  const Word counts[] = {3, 8, 30, 120, 500};
  const Word weights[] = {10, 25, 28, 20, 17};
  handles.count = counts[random.weighted(weights)];
  const Word strides[] = {1, 1, 3, 1000, 4'000'000};
  handles.stride = random.pick(strides);
  handles.first = random.chance(60) ? 1 : random.between(2, 100'000);
  Maker maker(random, handles);
  const std::vector<std::string> kinds = Maker::kinds();
  const Word count = random.chance(20) ? random.between(34, 45) : random.between(6, 16);
  std::set<Word> opcodes;
  std::string text;
  std::vector<std::string> made;
  while (opcodes.size() < count) {
    const Word opcode = random_opcode(random);
    if (!opcodes.insert(opcode).second) continue;
    made.push_back(random.pick_from(kinds));
    text += maker.handler(made.back(), opcode);
  }
  auto verified = check_text(text);
  EXPECT_TRUE(verified) << "the generator made a program that does not verify: "
                        << verified.error().message << "\n"
                        << text;
  if (!verified) std::abort();
  return {
      .text = text, .verified = *std::move(verified), .handles = handles, .kinds = std::move(made)};
}

}  // namespace everkernel::test
