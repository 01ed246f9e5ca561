// The effects that the verifier records: each flag is set by its own causes and no others.
#include "support/ir_text.hpp"

namespace everkernel::test {
namespace {

std::string names_of(const ir::Effects& effects) {
  struct Row {
    std::string_view name;
    bool is_set;
  };
  const Row kRows[] = {
      {"reads_input", effects.reads_input},
      {"writes_input", effects.writes_input},
      {"reads_output", effects.reads_output},
      {"writes_output", effects.writes_output},
      {"uses_handles", effects.uses_handles},
      {"reads_control", effects.reads_control},
      {"writes_control", effects.writes_control},
      {"moves_buffers", effects.moves_buffers},
      {"writes_args", effects.writes_args},
      {"can_yield", effects.can_yield},
      {"can_await", effects.can_await},
      {"prints", effects.prints},
      {"emits", effects.emits},
  };
  std::string names;
  for (const Row& row : kRows) {
    if (!row.is_set) continue;
    if (!names.empty()) names += ' ';
    names += row.name;
  }
  return names;
}

TEST(Effects, each_is_set_by_just_what_it_names) {
  struct Row {
    std::string_view body, expected;
  };
  constexpr Row kRows[] = {
      {"", ""},
      {"let x = param + args[3] + opcode + lane; return;", ""},
      {"let x = len(input) + len(output) + len(control);", ""},
      {"let x = input[0];", "reads_input"},
      {"input[0] = 1;", "writes_input"},
      {"atomic_add(input[0], 1);", "reads_input writes_input"},
      {"let x = output[0];", "reads_output"},
      {"output[0] = 1;", "writes_output"},
      {"atomic_max(output[0], 1);", "reads_output writes_output"},
      {"output[input[0]] = 1;", "reads_input writes_output"},
      {"output[0] = output[1];", "reads_output writes_output"},
      {"let x = control[0];", "reads_control"},
      {"control[160] = 1;", "writes_control"},
      {"atomic_or(control[160], 1);", "reads_control writes_control"},
      {"let x = buffer(1)[0];", "uses_handles"},
      {"buffer(1)[0] = 1;", "uses_handles"},
      {"let x = len(buffer(1));", "uses_handles"},
      {"atomic_xor(buffer(1)[0], 1);", "uses_handles"},
      {"let x = buffer(input[0])[control[0]];", "reads_input uses_handles reads_control"},
      {"args[2] = 1;", "writes_args"},
      {"args[11] = 1;", "writes_args"},
      {"args[0] = 1;", "moves_buffers writes_args"},
      {"args[1] = 1;", "moves_buffers writes_args"},
      {"args[param] = 1;", "moves_buffers writes_args"},
      {"args[1 + 1] = 1;", "moves_buffers writes_args"},
      {"yield;", "can_yield"},
      {"if false { requeue; }", "can_yield"},
      {"await read(1, 2, 3, 4);", "can_await"},
      {"await write(1, 2, 3, 4);", "can_await"},
      {"printf(1, 2, 3);", "prints"},
      {"emit(1, 2, 3);", "emits"},
      {"while false { each i in 0 .. 1 { if true {} else { output[i] = 1; } } }", "writes_output"},
  };
  for (const Row& row : kRows) {
    const auto program = check_text(in_handler(row.body));
    ASSERT_TRUE(program.has_value()) << row.body << ": " << program.error().message;
    EXPECT_EQ(names_of(program->handlers()[0].effects), row.expected) << row.body;
  }
}

TEST(Effects, belong_to_one_handler) {
  const auto program =
      check_text("handler a = 64 { yield; } handler b = 65 { emit(1, 2, 3); } payload {}");
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(names_of(program->handlers()[0].effects), "can_yield");
  EXPECT_EQ(names_of(program->handlers()[1].effects), "emits");
  EXPECT_EQ(names_of(program->handlers()[2].effects), "");
}

}  // namespace
}  // namespace everkernel::test
