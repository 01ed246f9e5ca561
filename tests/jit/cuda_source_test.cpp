// The contents of the CUDA text of handlers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "everkernel/ir/parser.hpp"
#include "everkernel/jit/cuda_source.hpp"

namespace everkernel::test {
namespace {

std::string cuda_of(std::string_view text, const jit::CudaOptions& options = {}) {
  auto parsed = ir::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().message;
  auto verified = ir::verify(*std::move(parsed));
  EXPECT_TRUE(verified) << verified.error().message;
  return jit::emit_cuda(*verified, options);
}

bool has(const std::string& text, std::string_view what) {
  return text.find(what) != std::string::npos;
}

// The text of one function, to the brace that closes it.
std::string function_of(const std::string& text, std::string_view head) {
  const std::size_t first = text.find(head);
  EXPECT_NE(first, std::string::npos) << head;
  return text.substr(first, text.find("\n}\n", first) - first);
}

// The verifier reads operand_count of calls and atomics only, so that it may be any number
// elsewhere.
TEST(CudaSource, operand_counts_that_do_not_belong_to_the_kind_are_not_read) {
  const auto text_with = [](std::uint8_t operand_count) {
    auto parsed = ir::parse("handler h = 64 { for i in 0 .. 3 { output[i] = ~7; } }");
    for (ir::Expr& expr : parsed->handlers[0].body.exprs) {
      if (operand_count != 0) expr.operand_count = operand_count;
    }
    return jit::emit_cuda(*ir::verify(*std::move(parsed)), {});
  };
  EXPECT_EQ(text_with(255), text_with(0));
}

TEST(CudaSource, depends_on_no_name_the_program_chose) {
  const std::string text = cuda_of(
      "handler zebra = 64 { let giraffe = 1; var okapi = giraffe; for gnu in 0 .. 3 { okapi = gnu; "
      "} output[0] = okapi; }");
  for (const std::string_view name : {"zebra", "giraffe", "okapi", "gnu"}) {
    EXPECT_FALSE(has(text, name)) << name << "\n" << text;
  }
  EXPECT_EQ(text, cuda_of("handler a = 64 { let b = 1; var c = b; for d in 0 .. 3 { c = d; } "
                          "output[0] = c; }"));
}

TEST(CudaSource, has_constants_by_their_bits) {
  const std::string text = cuda_of(
      "handler h = 64 { output[0] = bits_u32(1.5 + f32(-2147483647i)); output[1] = 0xffffffff; }");
  EXPECT_TRUE(has(text, "as_float(0x3fc00000u)")) << text;
  EXPECT_TRUE(has(text, "2147483649u"));
  EXPECT_TRUE(has(text, "4294967295u"));
  EXPECT_FALSE(has(text, "1.5"));
}

TEST(CudaSource, is_whole_for_a_program_without_handlers) {
  const std::string text = cuda_of("");
  EXPECT_TRUE(has(text, "kPayload = kNoHandler;"));
  for (const std::string_view scope : {"Lane", "Warp", "Group"}) {
    EXPECT_TRUE(has(text, fmt::format("kHas{}Handlers = false;", scope)));
  }
  for (const std::string_view name :
       {"find_handler(Word opcode)", "traits_of(Word handler)",
        "run_lane_handler(Word handler, Item& item)", "run_warp_handler(Word handler, Item& item)",
        "run_group_handler(Word handler, Item& item)"}) {
    EXPECT_TRUE(has(text, name)) << name;
  }
}

TEST(CudaSource, sorts_handlers_by_scope) {
  const std::string text = cuda_of(
      "handler a = 64 { }\nhandler b = 300 scope warp { }\nhandler c = 65 scope group { }\n");
  EXPECT_TRUE(has(function_of(text, "run_lane_handler"), "handler_0(OneLane{}, item)"));
  EXPECT_TRUE(has(function_of(text, "run_warp_handler"), "handler_1(WarpLanes{}, item)"));
  EXPECT_TRUE(has(function_of(text, "run_group_handler"), "handler_2(GroupLanes{}, item)"));
  const std::string find = function_of(text, "find_handler");
  EXPECT_TRUE(has(find, "case 300u:\n      return 1u;")) << find;
}

// After an arg is assigned, it may name another buffer, so the buffer is looked up again after the
// assignment and nowhere else.
TEST(CudaSource, looks_a_buffer_up_again_when_its_arg_changes) {
  const auto count = [](std::string_view text, std::string_view part) {
    std::size_t times = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++times;
    return times;
  };
  const std::string one = cuda_of(
      "handler a = 64 {\n  output[0] = input[0];\n  args[0] = 7;\n  output[1] = input[1];\n}\n");
  EXPECT_EQ(count(one, "find_buffer(item.buffers, item.args[0], item.tenant)"), 2u) << one;
  EXPECT_EQ(count(one, "find_buffer(item.buffers, item.args[1], item.tenant)"), 1u) << one;
  const std::string any = cuda_of(
      "handler a = 64 {\n  output[0] = input[0];\n  args[param] = 7;\n"
      "  output[1] = input[1] + buffer(9)[0];\n}\n");
  EXPECT_EQ(count(any, "find_buffer(item.buffers, item.args[0], item.tenant)"), 2u) << any;
  EXPECT_EQ(count(any, "find_buffer(item.buffers, item.args[1], item.tenant)"), 2u) << any;
  EXPECT_EQ(count(any, "find_buffer(item.buffers, 9u, item.tenant)"), 1u) << any;
}

// A handler may name more buffers than are looked up at its entry, its output last.
TEST(CudaSource, an_output_that_is_not_looked_up_at_the_entry_has_no_tile) {
  const auto text_with = [](int handles) {
    std::string text = "handler a = 64 scope group commutes {\n  var sum = 0;\n";
    for (int i = 0; i < handles; ++i) text += fmt::format("  sum = sum + buffer({})[0];\n", 10 + i);
    return cuda_of(text + "  each i in 0 .. 64 { atomic_add(output[i], sum); }\n}\n");
  };
  EXPECT_TRUE(has(text_with(7), "Tile<"));
  EXPECT_FALSE(has(text_with(8), "Tile<"));
}

// The bits are those of handler.cuh, typed by hand.
TEST(CudaSource, tells_what_is_known_of_a_handler) {
  const std::string text = cuda_of(
      "handler a = 64 scope group commutes { each i in 0 .. 9 { atomic_add(output[0], input[i]); } "
      "}\n"
      "handler b = 65 scope warp { args[3] = 1; yield; }\n"
      "handler c = 66 { input[0] = 1; }\n"
      "handler d = 67 { }\n");
  const std::string traits = function_of(text, "traits_of");
  EXPECT_TRUE(has(traits, "case 0u:\n      return 0x3b2u;")) << traits;
  EXPECT_TRUE(has(traits, "case 1u:\n      return 0xdu;")) << traits;
  EXPECT_TRUE(has(traits, "case 2u:\n      return 0x40u;")) << traits;
  EXPECT_TRUE(has(traits, "case 3u:\n      return 0x0u;")) << traits;
}

// A session runs them in its shortest way, which cannot wait, loop or gather lanes.
TEST(CudaSource, short_handlers_run_on_a_lane_and_end_soon) {
  const std::string text = cuda_of(
      "handler a = 64 { output[0] = 1; }\n"
      "handler b = 65 { for i in 0 .. 3 { output[i] = 1; } }\n"
      "handler c = 66 { yield; }\n"
      "handler d = 67 scope warp { output[0] = 1; }\n"
      "handler e = 68 scope group { output[0] = 1; }\n"
      "handler f = 69 { args[9] = param; }\n");
  EXPECT_TRUE(has(text, "kHasShortHandlers = true;"));
  const std::string run = function_of(text, "run_short_handler");
  const std::string find = function_of(text, "find_short_handler");
  for (const int index : {0, 5}) {
    EXPECT_TRUE(has(run, fmt::format("handler_{}(OneLane{{}}, item)", index))) << run;
    EXPECT_TRUE(has(find, fmt::format("case {}u:\n      return {}u;", 64 + index, index))) << find;
  }
  for (const int index : {1, 2, 3, 4}) {
    EXPECT_FALSE(has(run, fmt::format("handler_{}(", index))) << run;
    EXPECT_FALSE(has(find, fmt::format("case {}u:", 64 + index))) << find;
  }
  EXPECT_TRUE(has(cuda_of("handler c = 66 { yield; }"), "kHasShortHandlers = false;"));
}

TEST(CudaSource, only_the_first_sixteen_short_handlers_are_there_twice) {
  std::string program;
  for (int i = 0; i < 20; ++i) program += fmt::format("handler h{} = {} {{ }}\n", i, 64 + i);
  const std::string run = function_of(cuda_of(program), "run_short_handler");
  EXPECT_TRUE(has(run, "handler_15(")) << run;
  EXPECT_FALSE(has(run, "handler_16(")) << run;
}

TEST(CudaSource, has_the_payload_only_where_it_runs) {
  constexpr std::string_view kText = "handler a = 64 { }\npayload { output[0] = 1; }\n";
  const std::string without = cuda_of(kText);
  EXPECT_TRUE(has(without, "kPayload = kNoHandler;"));
  EXPECT_FALSE(has(without, "handler_1"));
  const std::string with = cuda_of(kText, {.payload = true});
  EXPECT_TRUE(has(with, "kPayload = 1u;"));
  EXPECT_TRUE(has(function_of(with, "run_lane_handler"), "handler_1(OneLane{}, item)"));
  EXPECT_FALSE(has(function_of(with, "find_handler"), "1u;"));
}

TEST(CudaSource, uses_plain_words_only_where_no_other_item_can_touch_them) {
  constexpr std::string_view kText = "handler h = 64 { output[0] = input[0] + control[0]; }";
  const std::string shared = cuda_of(kText);
  EXPECT_TRUE(has(shared, "fetch_shared(") && has(shared, "store_shared("));
  EXPECT_FALSE(has(shared, "_owned("));
  for (const auto memory : {jit::MemoryUse::exclusive, jit::MemoryUse::planned}) {
    const std::string owned = cuda_of(kText, {.memory = memory});
    EXPECT_TRUE(has(owned, "fetch_owned(") && has(owned, "store_owned("));
    EXPECT_FALSE(has(owned, "_shared("));
    EXPECT_TRUE(has(owned, "load_control(lanes, item, 0u)"));
  }
}

TEST(CudaSource, counts_fuel_of_turns_only_where_turns_have_loops) {
  const std::string flat = cuda_of("handler h = 64 { each i in 0 .. 9 { output[i] = i; } }");
  EXPECT_FALSE(has(flat, "share_") || has(flat, "spent_") || has(flat, "turn_fuel"));
  const std::string nested =
      cuda_of("handler h = 64 { each i in 0 .. 9 { for k in 0 .. i { output[k] = i; } } }");
  EXPECT_TRUE(has(nested, "share_") && has(nested, "spent_") && has(nested, "turn_fuel"));
}

TEST(CudaSource, divides_turns_by_lanes_only_where_the_lane_is_asked_for) {
  EXPECT_FALSE(
      has(cuda_of("handler h = 64 { each i in 0 .. 9 { output[i] = lanes; } }"), "lane_0"));
  EXPECT_TRUE(has(cuda_of("handler h = 64 { each i in 0 .. 9 { output[i] = lane; } }"), "lane_0"));
}

TEST(CudaSource, looks_buffers_up_before_loops) {
  const std::string text = cuda_of(
      "handler h = 64 { let h = input[0]; for i in 0 .. 9 { output[i] = buffer(7)[i] + "
      "buffer(param)[i] + buffer(h)[i]; } }");
  const std::size_t loop = text.find("for (Word");
  ASSERT_NE(loop, std::string::npos);
  EXPECT_LT(text.rfind("find_buffer("), loop) << text;
  // If the handle may change between turns, the buffer is looked up in each turn.
  const std::string moved =
      cuda_of("handler h = 64 { for i in 0 .. 9 { output[i] = 1; args[1] = i; } }");
  EXPECT_GT(moved.rfind("find_buffer("), moved.find("for (Word")) << moved;
}

TEST(CudaSource, lets_updates_of_a_group_wait_only_where_nobody_can_tell) {
  const auto has_tile = [](std::string_view declaration, std::string_view body) {
    return has(cuda_of(fmt::format("handler h = 64 {} {{ each i in 0 .. len(input) {{ {} }} }}",
                                   declaration, body)),
               "Tile<");
  };
  constexpr std::string_view kUpdate = "atomic_add(output[input[i] & 255], 1);";
  EXPECT_TRUE(has_tile("scope group commutes", kUpdate));
  EXPECT_TRUE(has_tile("scope group commutes", "atomic_min(output[i & 7], buffer(9)[i]);"));
  EXPECT_FALSE(has_tile("commutes", kUpdate)) << "one lane";
  EXPECT_FALSE(has_tile("scope group", kUpdate)) << "not declared";
  EXPECT_FALSE(has_tile("scope group commutes", "atomic_add(input[0], 1);")) << "not output";
  EXPECT_FALSE(has_tile("scope group commutes", "atomic_add(output[0], buffer(input[i])[0]);"))
      << "what it reads is not known before";
  EXPECT_FALSE(has_tile("scope group commutes", "atomic_add(output[0], buffer(i)[0]);"))
      << "nor is what its number names";
  EXPECT_FALSE(has_tile("scope group commutes", "let h = i; atomic_add(output[0], buffer(h)[0]);"));
}

// If turns change nothing but the words they update, several turns compute before the first of them
// updates.
TEST(CudaSource, gathers_updates_only_of_turns_that_do_nothing_else) {
  const auto gathers = [](std::string_view body) {
    return has(cuda_of(fmt::format("handler h = 64 scope group commutes {{ each i in 0 .. "
                                   "len(input) {{ {} }} }}",
                                   body)),
               "to_0[q_0] = ");
  };
  constexpr std::string_view kUpdate = "atomic_add(output[input[i] & 255], 1);";
  EXPECT_TRUE(gathers(kUpdate));
  EXPECT_TRUE(gathers("let a = input[i]; var b = a; b = b + 1; atomic_add(output[b], a);"));
  EXPECT_FALSE(gathers(fmt::format("{0} {0}", kUpdate)));
  EXPECT_FALSE(gathers(fmt::format("{} if i == 3 {{ fault 1; }}", kUpdate)));
  EXPECT_FALSE(gathers(fmt::format("if input[i] == 3 {{ continue; }} {}", kUpdate)));
  EXPECT_FALSE(gathers(fmt::format("if input[i] == 3 {{ {} }}", kUpdate)));
  EXPECT_FALSE(gathers(fmt::format("atomic_add(control[160], input[i]); {}", kUpdate)));
  EXPECT_FALSE(gathers(fmt::format("emit(input[i], 1, 2); {}", kUpdate)));
}

}  // namespace
}  // namespace everkernel::test
