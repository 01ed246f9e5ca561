// `everkernel check`.
#include "everkernel/jit/native.hpp"
#include "program.hpp"

namespace everkernel::test {
namespace {

class Check : public Program {
 protected:
  void write_text(const std::string& name, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    dir.write(name, Bytes(bytes.begin(), bytes.end()));
  }
};

constexpr std::string_view kHandlers =
    "handler add = 64 pure { for i in 0 .. len(input) { output[i] = input[i]+param; } }\n"
    "handler count = 65 scope group commutes { atomic_add(output[0], 1); }\n"
    "payload { printf(1, 2, 3); }\n";

TEST_F(Check, shows_what_each_handler_is) {
  write_text("ops.ek", kHandlers);
  const Json handlers = json({"check", "ops.ek"})["handlers"];
  ASSERT_EQ(handlers.size(), 3u);
  EXPECT_EQ(handlers[0], Json::parse(R"({"name": "add", "opcode": 64, "payload": false,
    "scope": "lane", "pure": true, "commutes": false, "instructions": 9, "locals": 1,
    "effects": "reads input, writes output"})"));
  EXPECT_EQ(handlers[1]["scope"], "group");
  EXPECT_EQ(handlers[1]["commutes"], true);
  EXPECT_EQ(handlers[2]["payload"], true);
  EXPECT_EQ(handlers[2]["effects"], "prints");
}

TEST_F(Check, prints_a_table_for_people) {
  write_text("ops.ek", kHandlers);
  const Outcome outcome = everkernel({"check", "ops.ek"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("ops.ek: 3 handlers verified\n")) << outcome.out;
  EXPECT_NE(outcome.out.find("pure"), std::string::npos);
  EXPECT_NE(outcome.out.find("reads input, writes output"), std::string::npos);
}

TEST_F(Check, prints_the_handlers_back_and_what_it_prints_checks) {
  write_text("ops.ek", kHandlers);
  const Outcome first = everkernel({"check", "ops.ek", "--print"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.out.find("    output[i] = input[i] + param;\n"), std::string::npos) << first.out;
  write_text("printed.ek", first.out);
  EXPECT_EQ(everkernel({"check", "printed.ek", "--print"}).out, first.out);
}

TEST_F(Check, emits_llvm_where_this_build_has_it) {
  write_text("ops.ek", kHandlers);
  const Outcome outcome = everkernel({"check", "ops.ek", "--emit", "llvm"});
  if (!jit::has_native_code()) {
    EXPECT_EQ(outcome.status, 3);
    EXPECT_TRUE(outcome.err.starts_with("error: native code: this build has no LLVM\n"));
    return;
  }
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("define i32 @handler_0(ptr %0)"), std::string::npos);
}

TEST_F(Check, emits_cuda_in_every_build) {
  write_text("ops.ek", kHandlers);
  const Outcome outcome = everkernel({"check", "ops.ek", "--emit", "cuda"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("Word handler_0(const Lanes& lanes, Item& item)"), std::string::npos);
  EXPECT_NE(outcome.out.find("kPayload = 2u"), std::string::npos) << "the payload belongs to it";
  EXPECT_EQ(json({"check", "ops.ek", "--emit", "cuda"})["cuda"], outcome.out);
}

TEST_F(Check, emits_cuda_that_needs_no_other_file) {
  write_text("ops.ek", kHandlers);
  const std::string text = everkernel({"check", "ops.ek", "--emit", "cuda"}).out;
  EXPECT_EQ(text.find("#include \""), std::string::npos);
  EXPECT_EQ(text.find("#pragma once"), std::string::npos);
}

TEST_F(Check, emits_cuda_that_nvcc_compiles_alone) {
  if (nvcc_compiler().empty()) GTEST_SKIP() << "there is no nvcc here";
  write_text("ops.ek", kHandlers);
  write_text("ops.cu", everkernel({"check", "ops.ek", "--emit", "cuda"}).out);
  const Outcome outcome = run({.program = nvcc_compiler(),
                               .args = {"-ptx", "ops.cu", "-o", "ops.ptx"},
                               .folder = dir.path(),
                               .timeout = std::chrono::minutes(2)});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const std::string ptx = read_text(dir.path() / "ops.ptx");
  EXPECT_NE(ptx.find(".entry everkernel_run_item"), std::string::npos);
}

constexpr std::string_view kMistakes =
    "handler h = 64 {\n  output[0] = 1.5;\n  let n = lenght(input);\n}\n";

TEST_F(Check, shows_every_mistake_with_its_line_and_a_hint) {
  write_text("bad.ek", kMistakes);
  const Outcome outcome = everkernel({"check", "bad.ek"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "error: bad.ek:2:15: a buffer word is u32, not f32 [type-mismatch]\n"
            "    2 |   output[0] = 1.5;\n"
            "      |               ^\n"
            "hint: bits_u32(x) keeps the bits, u32(x) converts\n"
            "\n"
            "error: bad.ek:3:11: 'lenght' is not a function [unknown-function]\n"
            "    3 |   let n = lenght(input);\n"
            "      |           ^\n"
            "hint: did you mean `len`?\n");
}

TEST_F(Check, lists_every_mistake_for_editors) {
  write_text("bad.ek", kMistakes);
  const Outcome outcome = everkernel({"check", "bad.ek", "--json"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(Json::parse(outcome.out, nullptr, false), Json::parse(R"({"path": "bad.ek", "errors": [
    {"line": 2, "column": 15, "rule": "type-mismatch",
     "message": "a buffer word is u32, not f32",
     "hint": "bits_u32(x) keeps the bits, u32(x) converts"},
    {"line": 3, "column": 11, "rule": "unknown-function",
     "message": "'lenght' is not a function", "hint": "did you mean `len`?"}]})"));
  EXPECT_TRUE(outcome.err.starts_with("error: bad.ek: 2 mistakes\nhint: ")) << outcome.err;
}

TEST_F(Check, has_no_errors_in_a_file_that_verifies) {
  write_text("ops.ek", kHandlers);
  EXPECT_EQ(json({"check", "ops.ek"})["errors"], Json::array());
}

TEST_F(Check, refuses_bytes_that_are_no_text) {
  dir.write("noise.ek", Bytes(300, std::byte{0xFE}));
  const Outcome outcome = everkernel({"check", "noise.ek"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(outcome.err.starts_with(
      "error: noise.ek:1:1: byte 0xfe is not part of the language [unknown-character]\n"))
      << outcome.err;
  EXPECT_EQ(outcome.err.find('\xFE'), std::string::npos);
  const Outcome json = everkernel({"check", "noise.ek", "--json"});
  EXPECT_EQ(Json::parse(json.out, nullptr, false)["errors"].size(), 1u);
}

TEST_F(Check, refuses_a_missing_file_and_an_unknown_kind_of_code) {
  expect_refused(everkernel({"check", "missing.ek"}), "missing.ek");
  write_text("ops.ek", kHandlers);
  expect_refused(everkernel({"check", "ops.ek", "--emit", "fortran"}), "--emit");
  expect_refused(everkernel({"check"}), "FILE");
}

}  // namespace
}  // namespace everkernel::test
