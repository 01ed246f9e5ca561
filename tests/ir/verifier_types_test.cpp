// Types: every operator, function, condition and place, with programs just outside and just inside.
#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

TEST(VerifierTypes, arithmetic_takes_two_numbers_of_one_type) {
  expect_wrong({
      {"let x = 1 @+ 1i;", "'+' cannot be applied to u32 and i32", ir::Rule::operand_types},
      {"let x = 1.0 @- 1;", "'-' cannot be applied to f32 and u32", ir::Rule::operand_types},
      {"let x = 1i @* 1.0;", "'*' cannot be applied to i32 and f32", ir::Rule::operand_types},
      {"let x = true @/ 1;", "'/' cannot be applied to bool and u32", ir::Rule::operand_types},
      {"let x = true @+ false;", "'+' cannot be applied to bool and bool", ir::Rule::operand_types},
      {"let x = true @- true;", "'-' cannot be applied to bool", ir::Rule::operand_types},
      {"let x = true @* true;", "'*' cannot be applied to bool", ir::Rule::operand_types},
      {"let x = true @/ true;", "'/' cannot be applied to bool", ir::Rule::operand_types},
  });
  expect_right({
      "let x = 1 + 2 - 3 * 4 / 5;",
      "let x = 1i + 2i - 3i * 4i / 5i;",
      "let x = 1.0 + 2.0 - 3.0 * 4.0 / 5.0;",
  });
}

TEST(VerifierTypes, remainder_and_bits_take_two_integers_of_one_type) {
  expect_wrong({
      {"let x = 1.0 @% 2.0;", "'%' cannot be applied to f32 and f32", ir::Rule::operand_types},
      {"let x = 1 @% 2i;", "'%' cannot be applied to u32 and i32", ir::Rule::operand_types},
      {"let x = 1.0 @& 2.0;", "'&' cannot be applied to f32 and f32", ir::Rule::operand_types},
      {"let x = true @& false;", "'&' cannot be applied to bool and bool", ir::Rule::operand_types},
      {"let x = 1i @| 2;", "'|' cannot be applied to i32 and u32", ir::Rule::operand_types},
      {"let x = true @| true;", "'|' cannot be applied to bool", ir::Rule::operand_types},
      {"let x = 1.5 @^ 1.5;", "'^' cannot be applied to f32", ir::Rule::operand_types},
      {"let x = true @^ true;", "'^' cannot be applied to bool", ir::Rule::operand_types},
  });
  expect_right({"let x = 1 % 2 & 3 | 4 ^ 5;", "let x = 1i % 2i & 3i | 4i ^ 5i;"});
}

TEST(VerifierTypes, a_shift_takes_an_integer_and_a_u32_count) {
  expect_wrong({
      {"let x = 1 @<< 1i;", "'<<' cannot be applied to u32 and i32", ir::Rule::operand_types},
      {"let x = 1i @>> 1i;", "'>>' cannot be applied to i32 and i32", ir::Rule::operand_types},
      {"let x = 1.0 @<< 1;", "'<<' cannot be applied to f32 and u32", ir::Rule::operand_types},
      {"let x = 1 @>> 1.0;", "'>>' cannot be applied to u32 and f32", ir::Rule::operand_types},
      {"let x = true @<< 1;", "'<<' cannot be applied to bool and u32", ir::Rule::operand_types},
      {"let x = 1 @<< true;", "'<<' cannot be applied to u32 and bool", ir::Rule::operand_types},
  });
  expect_right({"let x = 1 << 1 >> 2;", "let x = 1i << 1 >> 2; let y = x + 1i;"});
}

TEST(VerifierTypes, order_compares_two_numbers_of_one_type) {
  expect_wrong({
      {"let x = 1 @< 1i;", "'<' cannot be applied to u32 and i32", ir::Rule::operand_types},
      {"let x = 1.0 @<= 1;", "'<=' cannot be applied to f32 and u32", ir::Rule::operand_types},
      {"let x = true @> false;", "'>' cannot be applied to bool and bool", ir::Rule::operand_types},
      {"let x = true @>= true;", "'>=' cannot be applied to bool", ir::Rule::operand_types},
      {"let x = 1 < 2 @< 3;", "'<' cannot be applied to bool and u32", ir::Rule::operand_types},
  });
  expect_right({
      "let x = 1 < 2 && 1 <= 2 && 1 > 2 && 1 >= 2;",
      "let x = 1i < 2i && 1i <= 2i && 1i > 2i && 1i >= 2i;",
      "let x = 1.0 < 2.0 && 1.0 <= 2.0 && 1.0 > 2.0 && 1.0 >= 2.0;",
  });
}

TEST(VerifierTypes, equality_compares_two_values_of_one_type) {
  expect_wrong({
      {"let x = 1 @== 1i;", "'==' cannot be applied to u32 and i32", ir::Rule::operand_types},
      {"let x = 1 @!= true;", "'!=' cannot be applied to u32 and bool", ir::Rule::operand_types},
      {"let x = 1.0 @== 1;", "'==' cannot be applied to f32 and u32", ir::Rule::operand_types},
  });
  expect_right({"let x = (1 == 2) == (1i != 2i) != (1.0 == 2.0);"});
}

TEST(VerifierTypes, and_and_or_take_bools) {
  expect_wrong({
      {"let x = 1 @&& 2;", "'&&' cannot be applied to u32 and u32", ir::Rule::operand_types},
      {"let x = true @&& 1;", "'&&' cannot be applied to bool and u32", ir::Rule::operand_types},
      {"let x = 1.0 @|| 1.0;", "'||' cannot be applied to f32", ir::Rule::operand_types},
      {"let x = 1i @|| true;", "'||' cannot be applied to i32 and bool", ir::Rule::operand_types},
  });
  expect_right({"let x = true && false || 1 == 2;"});
}

TEST(VerifierTypes, signs_take_what_they_suit) {
  expect_wrong({
      {"let x = @-true;", "'-' cannot be applied to bool", ir::Rule::operand_types},
      {"let x = 1 + @-(1 == 1);", "'-' cannot be applied to bool", ir::Rule::operand_types},
      {"let x = @~1.0;", "'~' cannot be applied to f32", ir::Rule::operand_types},
      {"let x = @~true;", "'~' cannot be applied to bool", ir::Rule::operand_types},
      {"let x = @!1;", "'!' cannot be applied to u32", ir::Rule::operand_types},
      {"let x = @!1i;", "'!' cannot be applied to i32", ir::Rule::operand_types},
      {"let x = @!1.0;", "'!' cannot be applied to f32", ir::Rule::operand_types},
  });
  expect_right({"let x = -1; let y = -1i; let z = -1.0; let a = ~1; let b = ~1i; let c = !true;"});
}

TEST(VerifierTypes, min_max_abs_and_clamp_take_any_number_type) {
  expect_wrong({
      {"let x = @min(1, 1i);", "min takes numbers of one type, not u32 and i32",
       ir::Rule::argument_types},
      {"let x = @min(true, false);", "min takes numbers", ir::Rule::argument_types},
      {"let x = @max(1.0, 1);", "max takes numbers of one type, not f32 and u32",
       ir::Rule::argument_types},
      {"let x = @max(1, true);", "max takes numbers", ir::Rule::argument_types},
      {"let x = @abs(true);", "abs takes numbers", ir::Rule::argument_types},
      {"let x = 1 + @abs(1 == 1);", "abs takes numbers", ir::Rule::argument_types},
      {"let x = @clamp(1, 1i, 1);", "clamp takes numbers of one type, not u32 and i32",
       ir::Rule::argument_types},
      {"let x = @clamp(1i, 1i, 1.0);", "clamp takes numbers of one type, not i32 and f32",
       ir::Rule::argument_types},
      {"let x = @clamp(true, true, true);", "clamp takes numbers", ir::Rule::argument_types},
  });
  expect_right({
      "let x = min(1, 2) + max(3, 4) + abs(5);",
      "let x = min(1i, 2i) + max(3i, 4i) + abs(5i);",
      "let x = min(1.0, 2.0) + max(3.0, 4.0) + abs(5.0);",
      "let x = clamp(1, 2, 3); let y = clamp(1i, 2i, 3i); let z = clamp(1.0, 2.0, 3.0);",
  });
}

TEST(VerifierTypes, bit_functions_take_u32) {
  expect_wrong({
      {"let x = clz(@1i);", "clz takes u32, not i32", ir::Rule::argument_types},
      {"let x = clz(@1.0);", "clz takes u32, not f32", ir::Rule::argument_types},
      {"let x = popcount(@true);", "popcount takes u32, not bool", ir::Rule::argument_types},
      {"let x = popcount(@1i);", "popcount takes u32, not i32", ir::Rule::argument_types},
      {"let x = rotl(@1i, 1);", "rotl takes u32, not i32", ir::Rule::argument_types},
      {"let x = rotl(1, @1i);", "rotl takes u32, not i32", ir::Rule::argument_types},
  });
  expect_right({"let x = clz(1) + popcount(2) + rotl(3, 4);"});
}

TEST(VerifierTypes, float_functions_take_f32) {
  expect_wrong({
      {"let x = sqrt(@1);", "sqrt takes f32, not u32", ir::Rule::argument_types},
      {"let x = sqrt(@true);", "sqrt takes f32, not bool", ir::Rule::argument_types},
      {"let x = floor(@1i);", "floor takes f32, not i32", ir::Rule::argument_types},
      {"let x = floor(@param);", "floor takes f32, not u32", ir::Rule::argument_types},
      {"let x = fma(@1, 1.0, 1.0);", "fma takes f32, not u32", ir::Rule::argument_types},
      {"let x = fma(1.0, 1.0, @1i);", "fma takes f32, not i32", ir::Rule::argument_types},
      {"let x = exp(@1);", "exp takes f32, not u32", ir::Rule::argument_types},
      {"let x = log(@1i);", "log takes f32, not i32", ir::Rule::argument_types},
      {"let x = exp2(@true);", "exp2 takes f32, not bool", ir::Rule::argument_types},
      {"let x = log2(@param);", "log2 takes f32, not u32", ir::Rule::argument_types},
      {"let x = sin(@1);", "sin takes f32, not u32", ir::Rule::argument_types},
      {"let x = cos(@1);", "cos takes f32, not u32", ir::Rule::argument_types},
      {"let x = tanh(@1);", "tanh takes f32, not u32", ir::Rule::argument_types},
      {"let x = pow(2.0, @2);", "pow takes f32, not u32", ir::Rule::argument_types},
  });
  expect_right({"let x = sqrt(1.0) + floor(2.0) + fma(1.0, 2.0, 3.0);",
                "let x = exp(1.0) + log(2.0) + exp2(3.0) + log2(4.0) + sin(5.0) + cos(6.0);",
                "let x = tanh(1.0) + pow(2.0, 3.0);"});
}

TEST(VerifierTypes, select_takes_a_bool_and_two_values_of_one_type) {
  expect_wrong({
      {"let x = @select(1, 1, 1);", "select takes a bool and two values of one type",
       ir::Rule::argument_types},
      {"let x = @select(true, 1, 1i);", "not bool, u32 and i32", ir::Rule::argument_types},
      {"let x = @select(true, true, 1.0);", "not bool, bool and f32", ir::Rule::argument_types},
  });
  expect_right({
      "let x = select(true, 1, 2) + 3;",
      "let x = select(1 == 2, 1i, 2i) + 3i;",
      "let x = select(true, 1.0, 2.0) + 3.0;",
      "let x = select(true, true, false) && true;",
  });
}

TEST(VerifierTypes, conversions_take_numbers_and_u32_a_bool_as_well) {
  expect_wrong({
      {"let x = @i32(true);", "i32 cannot be applied to bool", ir::Rule::argument_types},
      {"let x = @f32(true);", "f32 cannot be applied to bool", ir::Rule::argument_types},
      {"let x = @bits_u32(true);", "bits_u32 cannot be applied to bool", ir::Rule::argument_types},
      {"let x = @bits_i32(1 == 1);", "bits_i32 cannot be applied to bool",
       ir::Rule::argument_types},
      {"let x = @bits_f32(false);", "bits_f32 cannot be applied to bool", ir::Rule::argument_types},
      {"let x = u32(1i) @+ 1i;", "'+' cannot be applied to u32 and i32", ir::Rule::operand_types},
      {"let x = bits_f32(1) @+ 1;", "'+' cannot be applied to f32 and u32",
       ir::Rule::operand_types},
  });
  expect_right({
      "let x = u32(1) + u32(1i) + u32(1.0) + u32(true);",
      "let x = i32(1) + i32(1i) + i32(1.0);",
      "let x = f32(1) + f32(1i) + f32(1.0);",
      "let x = bits_u32(1) + bits_u32(1i) + bits_u32(1.0);",
      "let x = bits_i32(1) + bits_i32(1i) + bits_i32(1.0);",
      "let x = bits_f32(1) + bits_f32(1i) + bits_f32(1.0);",
  });
}

TEST(VerifierTypes, printf_and_emit_take_u32_and_give_nothing) {
  expect_wrong({
      {"printf(1, @1i, 2);", "printf takes u32, not i32", ir::Rule::argument_types},
      {"printf(1, 2, @true);", "printf takes u32, not bool", ir::Rule::argument_types},
      {"emit(@1.0, 2, 3);", "emit takes u32, not f32", ir::Rule::argument_types},
      {"emit(1, 2, @3i);", "emit takes u32, not i32", ir::Rule::argument_types},
      {"let x = @printf(1, 2, 3);", "printf gives no value", ir::Rule::no_value},
      {"var x = @emit(1, 2, 3);", "emit gives no value", ir::Rule::no_value},
      {"output[0] = 1 + @emit(1, 2, 3);", "emit gives no value", ir::Rule::no_value},
      {"if @printf(1, 2, 3) {}", "printf gives no value", ir::Rule::no_value},
      {"printf(1, 2, @printf(1, 2, 3));", "printf gives no value", ir::Rule::no_value},
  });
  expect_right({"printf(1, 2, 3); emit(4, 5, 6);"});
}

TEST(VerifierTypes, atomics_take_u32_and_give_u32) {
  expect_wrong({
      {"atomic_add(output[0], @1i);", "the operand of an atomic is u32, not i32",
       ir::Rule::type_mismatch},
      {"atomic_add(output[@1i], 1);", "the index is u32, not i32", ir::Rule::type_mismatch},
      {"atomic_min(buffer(@1i)[0], 1);", "a buffer handle is u32, not i32",
       ir::Rule::type_mismatch},
      {"atomic_cas(output[0], @1.0, 2);", "the operand of an atomic is u32, not f32",
       ir::Rule::type_mismatch},
      {"atomic_cas(output[0], 1, @true);", "the operand of an atomic is u32, not bool",
       ir::Rule::type_mismatch},
      {"let x = 1i @+ atomic_or(output[0], 1);", "'+' cannot be applied to i32 and u32",
       ir::Rule::operand_types},
  });
  expect_right({"let x = 1 + atomic_or(output[0], 1); atomic_cas(buffer(x)[x], x, x);"});
}

TEST(VerifierTypes, indices_handles_and_words_are_u32) {
  expect_wrong({
      {"let x = args[@1i];", "the index is u32, not i32", ir::Rule::type_mismatch},
      {"let x = input[@true];", "the index is u32, not bool", ir::Rule::type_mismatch},
      {"let x = buffer(@1i)[0];", "a buffer handle is u32, not i32", ir::Rule::type_mismatch},
      {"let x = len(buffer(@1.0));", "a buffer handle is u32, not f32", ir::Rule::type_mismatch},
      {"args[@1i] = 1;", "the index is u32, not i32", ir::Rule::type_mismatch},
      {"args[1] = @1i;", "an argument word is u32, not i32", ir::Rule::type_mismatch},
      {"output[@1.0] = 1;", "the index is u32, not f32", ir::Rule::type_mismatch},
      {"output[0] = @1.0;", "a buffer word is u32, not f32", ir::Rule::type_mismatch},
      {"buffer(@true)[0] = 1;", "a buffer handle is u32, not bool", ir::Rule::type_mismatch},
      {"let x = input[0] @+ 1i;", "'+' cannot be applied to u32 and i32", ir::Rule::operand_types},
      {"let x = args[0] @+ 1.0;", "'+' cannot be applied to u32 and f32", ir::Rule::operand_types},
      {"let x = opcode @+ 1i;", "'+' cannot be applied to u32 and i32", ir::Rule::operand_types},
      {"let x = len(input) @+ 1i;", "'+' cannot be applied to u32 and i32",
       ir::Rule::operand_types},
  });
  expect_right({
      "args[args[1]] = input[0] + output[1] + control[2] + buffer(3)[4] + len(buffer(5));",
      "output[0] = bits_u32(1.0) + u32(1i) + opcode + tenant + priority + slot + param + lane + "
      "lanes;",
  });
}

TEST(VerifierTypes, conditions_are_bool) {
  expect_wrong({
      {"if @1 {}", "the condition is bool, not u32", ir::Rule::type_mismatch},
      {"if @1.0 {}", "the condition is bool, not f32", ir::Rule::type_mismatch},
      {"if true {} else if @1i {}", "the condition is bool, not i32", ir::Rule::type_mismatch},
      {"while @1 {}", "the condition is bool, not u32", ir::Rule::type_mismatch},
      {"while @param {}", "the condition is bool, not u32", ir::Rule::type_mismatch},
      {"while 1 @+ 1 {}", "the condition is bool, not u32", ir::Rule::type_mismatch},
  });
  expect_right({"if true {} else if 1 == 2 {} while false && 1 < 2 {}"});
}

TEST(VerifierTypes, a_range_has_bounds_of_one_integer_type) {
  expect_wrong({
      {"for i in @1.0 .. 2.0 {}", "a loop counts in u32 or i32, not in f32",
       ir::Rule::type_mismatch},
      {"for i in @true .. false {}", "a loop counts in u32 or i32, not in bool",
       ir::Rule::type_mismatch},
      {"for i in 0 .. @1i {}", "the end of the range is u32, not i32", ir::Rule::type_mismatch},
      {"each i in 0i .. @1 {}", "the end of the range is i32, not u32", ir::Rule::type_mismatch},
      {"each i in @0.5 .. 1.5 {}", "a loop counts in u32 or i32, not in f32",
       ir::Rule::type_mismatch},
      {"for i in 0i .. 2i { output[@i] = 1; }", "the index is u32, not i32",
       ir::Rule::type_mismatch},
  });
  expect_right({"for i in 0 .. 2 { output[i] = i; } each i in -2i .. 2i { let x = i + 1i; }"});
}

TEST(VerifierTypes, a_variable_keeps_the_type_of_its_first_value) {
  expect_wrong({
      {"var x = 1; x = @1i;", "'x' is u32, not i32", ir::Rule::type_mismatch},
      {"var x = 1i; x = @1;", "'x' is i32, not u32", ir::Rule::type_mismatch},
      {"var x = 1.0; x = x; x = @true;", "'x' is f32, not bool", ir::Rule::type_mismatch},
      {"var x = true; x = @0;", "'x' is bool, not u32", ir::Rule::type_mismatch},
  });
  expect_right({"var x = 1i; x = x + 1i; var y = true; y = x == 1i; var z = 1.0; z = f32(x);"});
}

TEST(VerifierTypes, fault_codes_and_requests_are_u32) {
  expect_wrong({
      {"fault @1i;", "the fault code is u32, not i32", ir::Rule::type_mismatch},
      {"fault @true;", "the fault code is u32, not bool", ir::Rule::type_mismatch},
      {"await read(@1i, 2, 3, 4);", "the source is u32, not i32", ir::Rule::type_mismatch},
      {"await read(1, @2i, 3, 4);", "the block is u32, not i32", ir::Rule::type_mismatch},
      {"await write(1, 2, @3.0, 4);", "the destination is u32, not f32", ir::Rule::type_mismatch},
      {"await write(1, 2, 3, @true);", "the byte count is u32, not bool", ir::Rule::type_mismatch},
  });
  expect_right({"fault 1;", "await read(1, 2, 3, 4);", "await write(param, args[3], 3, 4);"});
}

}  // namespace
}  // namespace everkernel::test
