// Programs built from C++: equal to parsed ones, and checked by the verifier alone.
#include "everkernel/ir/builder.hpp"

#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

using namespace ir::build;  // the header's own way of writing

std::string printed(ir::Handler handler) {
  const ir::Program program{.handlers = {std::move(handler)}};
  const auto verified = ir::verify(program);
  EXPECT_TRUE(verified.has_value()) << verified.error().message;
  return ir::print(program);
}

std::string printed(std::string_view text) {
  const auto program = ir::parse(text);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return program ? ir::print(*program) : "";
}

TEST(Builder, saxpy_of_the_header_prints_as_the_parsed_one) {
  HandlerBuilder h({.name = "saxpy", .opcode = 64});
  const Value a = h.let("a", bits_f32(param));
  const Value n = h.let("n", min(len(input), len(ir::build::output)));
  h.for_range("i", 0u, n, [&](const Value& i) {
    h.set(ir::build::output[i], bits_u32(a * bits_f32(input[i]) + bits_f32(ir::build::output[i])));
  });
  EXPECT_EQ(printed(h.finish()), printed(R"(handler saxpy = 64 {
  let a = bits_f32(param);
  let n = min(len(input), len(output));
  for i in 0 .. n {
    output[i] = bits_u32(a * bits_f32(input[i]) + bits_f32(output[i]));
  }
})"));
}

TEST(Builder, every_operator_prints_as_the_parsed_one) {
  HandlerBuilder h({.name = "h", .opcode = 64});
  const Value a = h.let("a", 6u), b = h.let("b", 7u);
  h.let("c01", a * b);
  h.let("c02", a / b);
  h.let("c03", a % b);
  h.let("c04", a + b);
  h.let("c05", a - b);
  h.let("c06", a << b);
  h.let("c07", a >> b);
  h.let("c08", a < b);
  h.let("c09", a <= b);
  h.let("c10", a > b);
  h.let("c11", a >= b);
  h.let("c12", a == b);
  h.let("c13", a != b);
  h.let("c14", a & b);
  h.let("c15", a ^ b);
  h.let("c16", a | b);
  h.let("c17", a == b && a < b);
  h.let("c18", a == b || a < b);
  h.let("c19", -a);
  h.let("c20", ~a);
  h.let("c21", !(a == b));
  h.let("c22", (a + b) * a - (b - a));
  EXPECT_EQ(printed(h.finish()), printed(in_handler(R"(
    let a = 6; let b = 7;
    let c01 = a * b; let c02 = a / b; let c03 = a % b; let c04 = a + b; let c05 = a - b;
    let c06 = a << b; let c07 = a >> b; let c08 = a < b; let c09 = a <= b; let c10 = a > b;
    let c11 = a >= b; let c12 = a == b; let c13 = a != b; let c14 = a & b; let c15 = a ^ b;
    let c16 = a | b; let c17 = a == b && a < b; let c18 = a == b || a < b;
    let c19 = -a; let c20 = ~a; let c21 = !(a == b); let c22 = (a + b) * a - (b - a);)")));
}

TEST(Builder, every_function_prints_as_the_parsed_one) {
  HandlerBuilder h({.name = "h", .opcode = 64});
  h.let("a", min(1u, 2u) + max(3u, 4u) + abs(5u) + clz(6u) + popcount(7u) + rotl(8u, 9u));
  h.let("b", select(true, sqrt(1.5f), floor(fma(1.0f, 2.0f, 3.0f))));
  h.let("c", u32(1) + u32(true) + bits_u32(1.5f));
  h.let("d", i32(1u) + bits_i32(1.5f));
  h.let("e", f32(1u) + bits_f32(1u));
  h.let("exp", exp(1.5f) + log(1.5f) + exp2(1.5f) + log2(1.5f) + sin(1.5f) + cos(1.5f));
  h.let("g", tanh(1.5f) + pow(1.5f, 2.5f) + f32(clamp(1u, 2u, 3u)));
  EXPECT_EQ(printed(h.finish()), printed(in_handler(R"(
    let a = min(1, 2) + max(3, 4) + abs(5) + clz(6) + popcount(7) + rotl(8, 9);
    let b = select(true, sqrt(1.5), floor(fma(1.0, 2.0, 3.0)));
    let c = u32(1i) + u32(true) + bits_u32(1.5);
    let d = i32(1) + bits_i32(1.5);
    let e = f32(1) + bits_f32(1);
    let exp = exp(1.5) + log(1.5) + exp2(1.5) + log2(1.5) + sin(1.5) + cos(1.5);
    let g = tanh(1.5) + pow(1.5, 2.5) + f32(clamp(1, 2, 3));)")));
}

TEST(Builder, every_given_value_and_buffer_prints_as_the_parsed_one) {
  HandlerBuilder h({.name = "h", .opcode = 64});
  h.let("a", opcode + tenant + priority + slot + param + lane + lanes);
  h.let("b", args[1u] + input[2u] + ir::build::output[3u] + control[4u] + buffer(5u)[6u]);
  h.let("c", len(input) + len(ir::build::output) + len(control) + len(buffer(7u)));
  h.let("d", buffer(input[args[0u]])[buffer(1u)[2u]]);
  EXPECT_EQ(printed(h.finish()), printed(in_handler(R"(
    let a = opcode + tenant + priority + slot + param + lane + lanes;
    let b = args[1] + input[2] + output[3] + control[4] + buffer(5)[6];
    let c = len(input) + len(output) + len(control) + len(buffer(7));
    let d = buffer(input[args[0]])[buffer(1)[2]];)")));
}

TEST(Builder, every_atomic_prints_as_the_parsed_one) {
  using ir::AtomicOp;
  HandlerBuilder h({.name = "h", .opcode = 64});
  h.run(atomic(AtomicOp::add, ir::build::output[0u], {1u}));
  h.run(atomic(AtomicOp::min, input[0u], {1u}));
  h.run(atomic(AtomicOp::max, control[160u], {1u}));
  h.run(atomic(AtomicOp::bit_and, buffer(3u)[0u], {1u}));
  h.run(atomic(AtomicOp::bit_or, ir::build::output[0u], {1u}));
  h.run(atomic(AtomicOp::bit_xor, ir::build::output[0u], {1u}));
  h.let("a", atomic(AtomicOp::exchange, ir::build::output[0u], {1u}));
  h.let("b", atomic(AtomicOp::cas, ir::build::output[0u], {1u, 2u}));
  EXPECT_EQ(printed(h.finish()), printed(in_handler(R"(
    atomic_add(output[0], 1); atomic_min(input[0], 1); atomic_max(control[160], 1);
    atomic_and(buffer(3)[0], 1); atomic_or(output[0], 1); atomic_xor(output[0], 1);
    let a = atomic_exchange(output[0], 1); let b = atomic_cas(output[0], 1, 2);)")));
}

TEST(Builder, every_statement_prints_as_the_parsed_one) {
  HandlerBuilder h({.name = "h", .opcode = 64, .scope = ir::Scope::warp});
  const Value a = h.let("a", 1u);
  const Value b = h.var("b", 2);
  h.set(b, Value(3));
  h.set(args[3u], a);
  h.set(control[160u], a);
  h.set(buffer(a)[1u], a);
  h.printf(1u, a, 3u);
  h.emit(4u, 5u, a);
  h.branch(a == 1u, [&] { h.finish_item(); });
  h.branch(
      a == 2u, [&] { h.yield(); },
      [&] {
        h.branch(
            a == 3u, [&] { h.requeue(); }, [&] { h.fault(a); });
      });
  h.for_range("i", 0u, a, [&](const Value& i) {
    h.branch(i == 3u, [&] { h.break_loop(); });
    h.continue_loop();
  });
  h.each("i", 0, b, [&](const Value& i) { h.set(ir::build::output[u32(i)], lane); });
  h.while_true(b != Value(0), [&] { h.set(b, b - Value(1)); });
  h.branch(
      a == 4u, [&] { h.await_read(1u, 2u, a, 4u); }, [] {});
  h.await_write(a, 6u, 7u, 8u);
  EXPECT_EQ(printed(h.finish()), printed(in_handler(R"(
    let a = 1; var b = 2i; b = 3i; args[3] = a; control[160] = a; buffer(a)[1] = a;
    printf(1, a, 3); emit(4, 5, a);
    if a == 1 { return; }
    if a == 2 { yield; } else if a == 3 { requeue; } else { fault a; }
    for i in 0 .. a { if i == 3 { break; } continue; }
    each i in 0i .. b { output[u32(i)] = lane; }
    while b != 0i { b = b - 1i; }
    if a == 4 { await read(1, 2, a, 4); } else { }
    await write(a, 6, 7, 8);)",
                                                    "scope warp ")));
}

TEST(Builder, declarations_keep_their_parts) {
  HandlerBuilder pure({.name = "p", .opcode = 65, .scope = ir::Scope::group, .is_pure = true});
  EXPECT_EQ(printed(pure.finish()), "handler p = 65 scope group pure {\n}\n");
  HandlerBuilder commuting({.name = "c", .opcode = 66, .commutes = true});
  EXPECT_EQ(printed(commuting.finish()), "handler c = 66 commutes {\n}\n");
  HandlerBuilder payload({.name = "ignored", .is_payload = true});
  payload.yield();
  EXPECT_EQ(printed(payload.finish()), "payload {\n  yield;\n}\n");
}

TEST(Builder, is_empty_after_finish) {
  HandlerBuilder h({.name = "h", .opcode = 64});
  h.finish_item();
  EXPECT_EQ(h.finish().body.stmts.size(), 1u);
  const ir::Handler second = h.finish();
  EXPECT_TRUE(second.body.stmts.empty());
  EXPECT_TRUE(second.name.empty());
}

TEST(Builder, a_value_used_twice_is_copied) {
  HandlerBuilder h({.name = "h", .opcode = 64});
  const Value sum = input[0u] + 1u;
  h.set(ir::build::output[0u], sum);
  h.set(ir::build::output[1u], sum * sum);
  EXPECT_EQ(printed(h.finish()),
            printed(in_handler(
                "output[0] = input[0] + 1; output[1] = (input[0] + 1) * (input[0] + 1);")));
}

TEST(Builder, a_value_doubled_again_and_again_is_refused_and_stays_small) {
  Value value(1u);
  for (int i = 0; i < 4096; ++i) value = value + value;
  HandlerBuilder h({.name = "h", .opcode = 64});
  h.set(ir::build::output[0u], value);
  h.set(ir::build::output[1u], value);
  const ir::Handler handler = h.finish();
  EXPECT_LT(handler.body.exprs.size(), 32'768u);
  const auto verified = ir::verify({.handlers = {handler}});
  ASSERT_FALSE(verified.has_value());
  expect_error(verified.error(), "handler h:", "instructions, at most 4096");
}

TEST(Builder, a_value_doubled_eleven_times_still_fits) {
  Value value(1u);
  for (int i = 0; i < 10; ++i) value = value + value;  // 2,047 nodes
  HandlerBuilder h({.name = "h", .opcode = 64});
  h.set(ir::build::output[0u], value);
  EXPECT_TRUE(ir::verify({.handlers = {h.finish()}}).has_value());
}

TEST(Builder, mistakes_are_the_verifiers_and_name_the_handler) {
  struct Row {
    std::string_view fragment;
    void (*build)(HandlerBuilder&);
  };
  const Row kRows[] = {
      {"'x' is not defined here",
       [](HandlerBuilder& h) {
         Value outlives(0u);
         h.branch(true, [&] { outlives = h.let("x", 1u); });
         h.set(ir::build::output[0u], outlives);
       }},
      {"'x' is declared already", [](HandlerBuilder& h) { h.let("x", 1u), h.let("x", 2u); }},
      {"'x' cannot be assigned", [](HandlerBuilder& h) { h.set(h.let("x", 1u), 2u); }},
      {"'' is not defined here", [](HandlerBuilder& h) { h.set(Value(1u), 2u); }},
      {"'+' cannot be applied to u32 and i32",
       [](HandlerBuilder& h) { h.let("x", Value(1u) + 1); }},
      {"'let' cannot be a name", [](HandlerBuilder& h) { h.let("let", 1u); }},
      {"'param' cannot be a name",
       [](HandlerBuilder& h) { h.for_range("param", 0u, 1u, [](const Value&) {}); }},
      {"break is outside of every loop", [](HandlerBuilder& h) { h.break_loop(); }},
      {"this value is not used", [](HandlerBuilder& h) { h.run(Value(1u)); }},
      {"this value is not used", [](HandlerBuilder& h) { h.run(Value(1u) + 1u); }},
      {"min takes 2 values", [](HandlerBuilder& h) { h.run(call(ir::Function::min, {1u})); }},
      {"abs takes 1 values",
       [](HandlerBuilder& h) {
         h.run(call(ir::Function::abs, {1u, 2u}));
       }},
      {"min takes 2 values",
       [](HandlerBuilder& h) {
         h.run(call(ir::Function::min, {1u, 2u, 3u, 4u, 5u}));
       }},
      {"atomic_cas takes a word and 2 values",
       [](HandlerBuilder& h) { h.run(atomic(ir::AtomicOp::cas, input[0u], {1u})); }},
      {"atomic_add takes a word and 1 values",
       [](HandlerBuilder& h) { h.run(atomic(ir::AtomicOp::add, args[0u], {1u})); }},
      {"printf gives no value",
       [](HandlerBuilder& h) {
         h.let("x", call(ir::Function::printf, {1u, 2u, 3u}));
       }},
  };
  for (const Row& row : kRows) {
    HandlerBuilder h({.name = "broken", .opcode = 64});
    row.build(h);
    const auto verified = ir::verify({.handlers = {h.finish()}});
    ASSERT_FALSE(verified.has_value()) << row.fragment;
    expect_error(verified.error(), "handler broken:", row.fragment);
  }
}

TEST(Builder, a_reserved_handler_name_or_opcode_is_refused) {
  HandlerBuilder named({.name = "yield", .opcode = 64});
  EXPECT_FALSE(ir::verify({.handlers = {named.finish()}}).has_value());
  HandlerBuilder numbered({.name = "h", .opcode = 7});
  const auto verified = ir::verify({.handlers = {numbered.finish()}});
  ASSERT_FALSE(verified.has_value());
  expect_error(verified.error(), "handler h:", "opcode 7 (0x7) is reserved");
}

// The grammar gives a payload no promises, so nothing could print or read them.
TEST(Builder, a_payload_that_promises_is_refused) {
  HandlerBuilder pure({.is_pure = true, .is_payload = true});
  EXPECT_FALSE(ir::verify({.handlers = {pure.finish()}}).has_value());
  HandlerBuilder commuting({.commutes = true, .is_payload = true});
  EXPECT_FALSE(ir::verify({.handlers = {commuting.finish()}}).has_value());
}

// If a name were not a word, the printed text of the program would have another meaning.
TEST(Builder, a_name_that_is_no_word_is_refused) {
  for (const std::string_view name : {"", "a b", "1st", "x;return", "\xC3\xBC", "a-b", "\n"}) {
    HandlerBuilder handler({.name = std::string(name), .opcode = 64});
    EXPECT_FALSE(ir::verify({.handlers = {handler.finish()}}).has_value()) << "handler " << name;
    HandlerBuilder variable({.name = "h", .opcode = 64});
    variable.let(name, 1u);
    EXPECT_FALSE(ir::verify({.handlers = {variable.finish()}}).has_value()) << "let " << name;
    HandlerBuilder counter({.name = "h", .opcode = 64});
    counter.for_range(name, 0u, 1u, [](const Value&) {});
    EXPECT_FALSE(ir::verify({.handlers = {counter.finish()}}).has_value()) << "for " << name;
  }
}

}  // namespace
}  // namespace everkernel::test
