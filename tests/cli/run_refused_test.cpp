// Jobs with a mistake: the error names the place, and nothing runs and no file is written.
#include "run_fixture.hpp"

namespace everkernel::test {
namespace {

constexpr std::string_view kHandlers =
    "handler copy = 64 pure { for i in 0 .. len(input) { output[i] = input[i]; } }\n"
    "handler clear = 65 { output[0] = 0; }\n"
    "handler print = 66 { printf(1, input[0], 0); }\n"
    "handler change = 67 { input[0] = 1; }\n"
    "handler move = 68 { args[0] = 1; output[0] = input[0]; }\n"
    "handler load = 69 { if args[3] == 0 { args[3] = 1; await read(9, 0, 1, 8); } }\n"
    "payload { control[160] = 1; }\n";

class WrongJobs : public RunProgram {
 protected:
  void SetUp() override {
    write_text("ops.ek", kHandlers);
    write_text("bad.ek", "handler x = 64 { output[0] = 1.5; }\n");
    write_text("not.ek", "hello\n");
    dir.write("seven.bin", Bytes(7));
    dir.write("ok.bin", bytes_of({1, 2, 3}));
    dir.write("forty.bin", Bytes(40));
    dir.write("items.bin", bytes_of({64, 1, 2, 0, 64, 1, 2, 0, 99, 1, 2, 0}));
    dir.write("handles.bin", bytes_of({0, 0, 0, 0, 64, 0x80000000u, 2, 0}));
    dir.write("outputs.bin", bytes_of({64, 1, 0, 0}));
    // EKITEMS2, the words of an item, 0; then op and args.
    dir.write("header.bin", bytes_of({0x54494B45u, 0x32534D45u, 14, 0}));
    dir.write("fourth.bin", bytes_of({0x54494B45u, 0x32534D45u, 4, 1}));
    dir.write("half.bin", bytes_of({0x54494B45u, 0x32534D45u, 6, 0, 64, 1, 2, 3, 4, 5, 64}));
    dir.write("wide.bin", bytes_of({0x54494B45u, 0x32534D45u, 3, 0, 64, 1, 2, 64, 1, 9}));
    dir.write("wider.bin", bytes_of({0x54494B45u, 0x32534D45u, 6, 0, 64, 1, 2, 3, 4, 5}));
  }

  void expect_wrong(std::string_view job, std::string_view place) const {
    const Outcome outcome = run_job(job);
    expect_refused(outcome, "error: job.json: " + std::string(place));
    EXPECT_NE(outcome.err.find("\nhint: "), std::string::npos) << outcome.err;
    EXPECT_FALSE(has_out());
  }
};

struct WrongCase {
  const char* place;  // how the message begins
  const char* job;
};

void PrintTo(const WrongCase& wrong, std::ostream* out) {
  *out << wrong.job;
}

class WrongJob : public WrongJobs, public ::testing::WithParamInterface<WrongCase> {};

TEST_P(WrongJob, is_refused_at_its_place) {
  expect_wrong(GetParam().job, GetParam().place);
}

INSTANTIATE_TEST_SUITE_P(
    Syntax, WrongJob,
    ::testing::Values(WrongCase{"line 1, column 1: ", ""}, WrongCase{"line 1, column 2: ", "{"},
                      WrongCase{"line 2, column 11: ", "{\n\"items\": [x]}"},
                      WrongCase{"line 3, column 1: ", "{\"items\": [{\"op\": 0}]}\n\n}"},
                      WrongCase{"line 1, column 22: ", "{\"items\": [{\"op\": 0}]"},
                      WrongCase{"line 1, column 12: ", "{\"items\": \"\xff\"}"},
                      WrongCase{"line 1, column 20: ", "{\"items\": [{\"op\": 01}]}"},
                      WrongCase{"line 1, column 22: ", "{\"items\": [{\"op\": 0},]}"},
                      WrongCase{"a list is not an object", "[]"},
                      WrongCase{"7 is not an object", "7"},
                      WrongCase{"null is not an object", "null"},
                      WrongCase{"'items' is not an object", "\"items\""}));

INSTANTIATE_TEST_SUITE_P(
    Keys, WrongJob,
    ::testing::Values(
        WrongCase{"item: unknown key", R"({"item": []})"},
        WrongCase{"'a b': unknown key", R"({"a b": []})"},
        WrongCase{"'': unknown key", R"({"": []})"},
        WrongCase{"items[1].opcode: unknown key", R"({"items": [{"op": 0}, {"opcode": 0}]})"},
        WrongCase{"buffers[0].acess: unknown key", R"({"buffers": [{"handle": 1, "acess": "r"}]})"},
        WrongCase{"outputs[1].path: unknown key", R"({"outputs": [1, {"path": "x"}]})"},
        WrongCase{"outputs[1].handle: the key is missing",
                  R"({"outputs": [1, {"file": "x.npy"}]})"},
        WrongCase{"buffers[0].zeros: the buffer already has a source of words",
                  R"({"buffers": [{"base64": "", "zeros": 1}]})"},
        WrongCase{"buffers[0].slice_of: the buffer already has a source of words",
                  R"({"buffers": [{"f32": [], "slice_of": 1}]})"},
        WrongCase{"buffers[0].offset: the buffer has no part",
                  R"({"buffers": [{"handle": 1, "zeros": 1, "offset": 0}]})"},
        WrongCase{"buffers[0].length: the buffer has no part",
                  R"({"buffers": [{"handle": 1, "length": 4, "u8": [1]}]})"},
        WrongCase{"buffers[0].count: the buffer has no part",
                  R"({"buffers": [{"handle": 1, "file": "x", "count": 4}]})"},
        WrongCase{"items[0].args: an item has either args or input, output and param",
                  R"({"items": [{"op": 0, "input": 1, "args": [1]}]})"},
        WrongCase{"items[0].param: an item has either args or input, output and param",
                  R"({"items": [{"op": 0, "args": [1], "param": 1}]})"},
        WrongCase{"files[0].size: unknown key", R"({"files": [{"size": 1}]})"},
        WrongCase{"items: the key is given twice", R"({"items": [], "items": []})"},
        WrongCase{"ordered: the key is given twice", R"({"ordered": true, "ordered": true})"},
        WrongCase{"items[0].op: the key is given twice", R"({"items": [{"op": 0, "op": 0}]})"},
        WrongCase{"buffers[0].u32: the key is given twice",
                  R"({"buffers": [{"u32": [1], "u32": [2], "handle": 1}]})"},
        WrongCase{"buffers[1].handle: the key is missing",
                  R"({"buffers": [{"handle": 1, "zeros": 1}, {"zeros": 1}]})"},
        WrongCase{"buffers[0]: the buffer has no source of words",
                  R"({"buffers": [{"handle": 1}]})"},
        WrongCase{"items[2].op: the key is missing",
                  R"({"items": [{"op": 0}, {"op": 0}, {"param": 1}]})"},
        WrongCase{"items[0].op: the key is missing", R"({"items": [{}]})"},
        WrongCase{"files[0].handle: the key is missing", R"({"files": [{"path": "x"}]})"},
        WrongCase{"files[0].path: the key is missing", R"({"files": [{"handle": 1}]})"}));

INSTANTIATE_TEST_SUITE_P(
    Types, WrongJob,
    ::testing::Values(
        WrongCase{"handlers: 7 is not", R"({"handlers": 7})"},
        WrongCase{"handlers: null is not", R"({"handlers": null})"},
        WrongCase{"handlers: a list is not", R"({"handlers": ["ops.ek"]})"},
        WrongCase{"handlers: an object is not", R"({"handlers": {"a": 1}})"},
        WrongCase{"handlers: the path is empty", R"({"handlers": ""})"},
        WrongCase{"handlers: 'a\\x00b' is not a path", R"({"handlers": "a\u0000b"})"},
        WrongCase{"items_file: true is not", R"({"items_file": true})"},
        WrongCase{"ordered: 1 is not", R"({"ordered": 1})"},
        WrongCase{"ordered: 'true' is not", R"({"ordered": "true"})"},
        WrongCase{"ordered: null is not", R"({"ordered": null})"},
        WrongCase{"items: null is not", R"({"items": null})"},
        WrongCase{"items: an object is not", R"({"items": {"op": 0}})"},
        WrongCase{"items[0]: 64 is not", R"({"items": [64]})"},
        WrongCase{"items[1]: a list is not", R"({"items": [{"op": 0}, [0]]})"},
        WrongCase{"buffers: 'x' is not", R"({"buffers": "x"})"},
        WrongCase{"buffers[0]: false is not", R"({"buffers": [false]})"},
        WrongCase{"buffers[0].u32: 5 is not", R"({"buffers": [{"handle": 1, "u32": 5}]})"},
        WrongCase{"buffers[0].u32[1]: 'x' is not",
                  R"({"buffers": [{"handle": 1, "u32": [5, "x"]}]})"},
        WrongCase{"buffers[0].u32[0]: a list is not",
                  R"({"buffers": [{"handle": 1, "u32": [[5]]}]})"},
        WrongCase{"buffers[0].file: 3 is not", R"({"buffers": [{"handle": 1, "file": 3}]})"},
        WrongCase{"buffers[0].zeros: a list is not",
                  R"({"buffers": [{"handle": 1, "zeros": [3]}]})"},
        WrongCase{"outputs: 2 is not", R"({"outputs": 2})"},
        WrongCase{"outputs[1]: '2' is not", R"({"outputs": [2, "2"]})"},
        WrongCase{"files: true is not", R"({"files": true})"},
        WrongCase{"files[0].access: 'rx' is not",
                  R"({"files": [{"handle": 1, "path": "x", "access": "rx"}]})"},
        WrongCase{"files[0].path: 1 is not", R"({"files": [{"handle": 1, "path": 1}]})"}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, WrongJob,
    ::testing::Values(
        WrongCase{"items[0].op: 1.5 is not", R"({"items": [{"op": 1.5}]})"},
        WrongCase{"items[0].op: -1 is not", R"({"items": [{"op": -1}]})"},
        WrongCase{"items[0].op: 1e3 is not", R"({"items": [{"op": 1e3}]})"},
        WrongCase{"items[0].op: 64.0 is not", R"({"items": [{"op": 64.0}]})"},
        WrongCase{"items[0].op: no handler is named '64'", R"({"items": [{"op": "64"}]})"},
        WrongCase{"items[0].op: 2147483648 is not", R"({"items": [{"op": 2147483648}]})"},
        WrongCase{"items[0].args[0]: 'x' is not", R"({"items": [{"op": 64, "args": ["x"]}]})"},
        WrongCase{"items[0].args[0]: 3.5e38 is not", R"({"items": [{"op": 0, "args": [3.5e38]}]})"},
        WrongCase{"items[0].args[12]: an item has at most 12 args",
                  R"({"items": [{"op": 64, "args": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}]})"},
        WrongCase{"items[0].op: null is not", R"({"items": [{"op": null}]})"},
        WrongCase{"items[0].op: true is not", R"({"items": [{"op": true}]})"},
        WrongCase{"items[0].op: an object is not", R"({"items": [{"op": {}}]})"},
        WrongCase{"items[0].op: 4294967296 is not", R"({"items": [{"op": 4294967296}]})"},
        WrongCase{"items[0].op: 18446744073709551616 is not",
                  R"({"items": [{"op": 18446744073709551616}]})"},
        WrongCase{"items[0].op: '1e999' is not", R"({"items": [{"op": 1e999}]})"},
        WrongCase{"handlers: '1e999' is not", R"({"handlers": 1e999})"},
        WrongCase{"items[0].input: 2147483648 is not", R"({"items": [{"input": 2147483648}]})"},
        WrongCase{"items[0].output: 2147483648 is not", R"({"items": [{"output": 2147483648}]})"},
        WrongCase{"items[0].param: 4294967296 is not", R"({"items": [{"param": 4294967296}]})"},
        WrongCase{"items[0].tenant: 29 is not", R"({"items": [{"tenant": 29}]})"},
        WrongCase{"items[0].priority: 5 is not", R"({"items": [{"priority": 5}]})"},
        WrongCase{"buffers[0].handle: 0 is not", R"({"buffers": [{"handle": 0}]})"},
        WrongCase{"buffers[0].handle: 2147483648 is not",
                  R"({"buffers": [{"handle": 2147483648}]})"},
        WrongCase{"buffers[0].tenant: 29 is not", R"({"buffers": [{"tenant": 29}]})"},
        WrongCase{"buffers[0].zeros: 4294967296 is not", R"({"buffers": [{"zeros": 4294967296}]})"},
        WrongCase{"buffers[0].zeros: -1 is not", R"({"buffers": [{"zeros": -1}]})"},
        WrongCase{"buffers[0].u32[2]: 4294967296 is not",
                  R"({"buffers": [{"u32": [0, 4294967295, 4294967296]}]})"},
        WrongCase{"buffers[3].u8[17]: 256 is not a whole number 0..255",
                  R"({"buffers": [{"handle": 1, "zeros": 1}, {"handle": 2, "zeros": 1},
                      {"handle": 3, "zeros": 1}, {"handle": 4, "u8": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
                       10, 11, 12, 13, 14, 15, 16, 256]}]})"},
        WrongCase{"buffers[0].u8[0]: -1 is not", R"({"buffers": [{"u8": [-1]}]})"},
        WrongCase{"buffers[0].u8[1]: 1.5 is not", R"({"buffers": [{"u8": [1, 1.5]}]})"},
        WrongCase{"buffers[0].u32[1]: -1 is not", R"({"buffers": [{"u32": [1, -1]}]})"},
        WrongCase{"buffers[0].i32[1]: 2147483648 is not a whole number -2147483648..2147483647",
                  R"({"buffers": [{"i32": [2147483647, 2147483648]}]})"},
        WrongCase{"buffers[0].i32[1]: -2147483649 is not",
                  R"({"buffers": [{"i32": [-2147483648, -2147483649]}]})"},
        WrongCase{"buffers[0].i32[0]: 1e3 is not", R"({"buffers": [{"i32": [1e3]}]})"},
        WrongCase{"buffers[0].i32[0]: 'nan' is not", R"({"buffers": [{"i32": ["nan"]}]})"},
        WrongCase{"buffers[0].f32[2]: 3.5e38 is not a number that fits an f32",
                  R"({"buffers": [{"f32": [3.4e38, -3.4e38, 3.5e38]}]})"},
        WrongCase{"buffers[0].f32[0]: '1e999' is not", R"({"buffers": [{"f32": [1e999]}]})"},
        WrongCase{"buffers[0].f32[0]: 'NaN' is not", R"({"buffers": [{"f32": ["NaN"]}]})"},
        WrongCase{"buffers[0].f32[0]: null is not", R"({"buffers": [{"f32": [null]}]})"},
        WrongCase{"buffers[0].access: 'w' is not", R"({"buffers": [{"access": "w"}]})"},
        WrongCase{"buffers[0].base64: 5 is not base64", R"({"buffers": [{"base64": 5}]})"},
        WrongCase{"buffers[0].base64: 3 characters are not groups of four",
                  R"({"buffers": [{"base64": "AAA"}]})"},
        WrongCase{"buffers[0].base64: character 5 is '-', which is not base64",
                  R"({"buffers": [{"base64": "AAAAA-=="}]})"},
        WrongCase{"buffers[0].base64: character 2 is '='",
                  R"({"buffers": [{"base64": "AA==AAAA"}]})"},
        WrongCase{"buffers[0].base64: character 1 is '='", R"({"buffers": [{"base64": "A==="}]})"},
        WrongCase{"buffers[0].count: 0 is not", R"({"buffers": [{"count": 0}]})"},
        WrongCase{"buffers[0].length: the key is missing",
                  R"({"buffers": [{"handle": 1, "slice_of": 2}]})"},
        WrongCase{"buffers[0].length: a slice has at least one word",
                  R"({"buffers": [{"handle": 1, "slice_of": 2, "length": 0}]})"},
        WrongCase{"buffers[0].count: the handles of the slices end behind 2147483647",
                  R"({"buffers": [{"handle": 2147483647, "slice_of": 2, "length": 1,
                                   "count": 2}]})"},
        WrongCase{"outputs[0]: 0 is not", R"({"outputs": [0]})"},
        WrongCase{"outputs[0].type: 'u16' is not",
                  R"({"outputs": [{"handle": 1, "type": "u16"}]})"},
        WrongCase{"files[0].handle: 0 is not", R"({"files": [{"handle": 0}]})"}));

// Parts of jobs; each test adds the key that is wrong.
#define OPS R"("handlers": "ops.ek", )"
#define TWO R"("buffers": [{"handle": 1, "zeros": 1}, {"handle": 2, "zeros": 1}], )"

INSTANTIATE_TEST_SUITE_P(
    Together, WrongJob,
    ::testing::Values(
        WrongCase{"items: the job has neither items nor an items_file", "{}"},
        WrongCase{"items: the job has neither items nor an items_file",
                  "{" OPS R"("buffers": []})"},
        WrongCase{
            "buffers[1].handle: another buffer has handle 1",
            R"({"items": [], "buffers": [{"handle": 1, "zeros": 1}, {"handle": 1, "zeros": 1}]})"},
        WrongCase{"buffers[0].zeros: the buffer already has a source of words",
                  R"({"items": [], "buffers": [{"handle": 1, "u32": [1], "zeros": 1}]})"},
        WrongCase{"buffers[0].file: the buffer already has a source of words",
                  R"({"items": [], "buffers": [{"handle": 1, "zeros": 1, "file": "ok.bin"}]})"},
        WrongCase{"outputs[1]: no buffer has handle 3",
                  "{" TWO R"("items": [], "outputs": [2, 3]})"},
        WrongCase{"outputs[1]: handle 2 is named twice",
                  "{" TWO R"("items": [], "outputs": [2, 2]})"},
        WrongCase{"items[1].op: no handler has opcode 99",
                  "{" OPS TWO R"("items": [{"op": 0}, {"op": 99}]})"},
        WrongCase{"items[0].op: STORE_U32 (1) is an operation for rings only",
                  "{" OPS R"("items": [{"op": 1}]})"},
        WrongCase{"items[0].op: no handler has opcode 64", R"({"items": [{"op": 64}]})"},
        WrongCase{"items[0].input: no buffer has handle 3",
                  "{" OPS TWO R"("items": [{"op": 64, "input": 3, "output": 2}]})"},
        WrongCase{"items[0].output: no buffer has handle 4",
                  "{" OPS TWO R"("items": [{"op": 64, "input": 1, "output": 4}]})"},
        WrongCase{"items[0].input: no buffer has handle 9",
                  "{"
                  R"("items": [{"op": 0, "input": 9}]})"},
        WrongCase{"items[0].input: handler copy reads its input, but the item names none",
                  "{" OPS TWO R"("items": [{"op": 64, "output": 2}]})"},
        WrongCase{"items[0].output: handler copy writes its output, but the item names none",
                  "{" OPS TWO R"("items": [{"op": 64, "input": 1}]})"},
        WrongCase{"items[1].output: handler clear writes its output",
                  "{" OPS TWO R"("items": [{"op": 65, "output": 1}, {"op": 65, "input": 1}]})"},
        WrongCase{"items[0].input: handler print reads its input",
                  "{" OPS TWO R"("items": [{"op": 66}]})"},
        WrongCase{"items[0].input: handler change writes its input",
                  "{" OPS TWO R"("items": [{"op": 67}]})"},
        WrongCase{"items[0].op: handler load awaits IO", "{" OPS R"("items": [{"op": 69}]})"},
        WrongCase{"items[1].op: no handler is named 'copi'",
                  "{" OPS TWO R"("items": [{"op": "copy", "input": 1, "output": 2},
                                           {"op": "copi"}]})"},
        WrongCase{"items[0].op: no handler is named 'copy'", R"({"items": [{"op": "copy"}]})"},
        WrongCase{"items[1].args[2]: -1 is not a whole number 0..4294967295",
                  "{" OPS TWO R"("items": [{"op": 0}, {"op": "copy", "args": [1, 2, -1]}]})"},
        WrongCase{"items[0].args[0]: 1.5 is not a whole number",
                  "{" OPS TWO R"("items": [{"op": "copy", "args": [1.5, 2]}]})"},
        WrongCase{"items[0].args[2]: inf is not a whole number",
                  "{" OPS TWO R"("items": [{"op": "copy", "args": [1, 2, "inf"]}]})"},
        WrongCase{"items[0].args[2]: -0 is not a whole number",
                  "{" OPS TWO R"("items": [{"op": "copy", "args": [1, 2, -0]}]})"},
        WrongCase{"items[0].args[1]: 4294967296 is not a whole number",
                  "{" OPS TWO R"("items": [{"op": "copy", "args": [1, 4294967296]}]})"},
        WrongCase{"items[0].args[0]: no buffer has handle 3",
                  "{" OPS TWO R"("items": [{"op": "copy", "args": [3, 2]}]})"},
        WrongCase{"items[0].args[1]: no buffer has handle 4",
                  "{" OPS TWO R"("items": [{"op": "copy", "args": [1, 4, 7]}]})"},
        WrongCase{"items[0].args: handler copy writes its output, but the item names none",
                  "{" OPS TWO R"("items": [{"op": "copy", "args": [1]}]})"},
        WrongCase{"items[1].args: 5 args are used, but this version runs items of at most 3",
                  "{" OPS TWO R"("items": [{"op": "copy", "args": [1, 2, 3]},
                                           {"op": "copy", "args": [1, 2, 3, 4, 5, 0]}]})"},
        WrongCase{"items[0].output: handler copy writes its output, but buffer 3 is read-only",
                  "{" OPS R"("items": [{"op": 64, "input": 3, "output": 3}],
                     "buffers": [{"handle": 3, "zeros": 1, "access": "r"}]})"},
        WrongCase{"items[0].output: handler copy writes its output, but buffer 5 is read-only",
                  "{" OPS R"("items": [{"op": 64, "input": 3, "output": 5}],
                     "buffers": [{"handle": 4, "slice_of": 3, "length": 1, "count": 4},
                                 {"handle": 3, "zeros": 4, "access": "r"}]})"},
        WrongCase{"outputs[1].file: another output has the file './a.npy'",
                  "{" TWO R"("items": [], "outputs": [{"handle": 1, "file": "a.npy"},
                                                      {"handle": 2, "file": "./a.npy"}]})"},
        WrongCase{"outputs[1].file: another output has the file 'buffer-2.bin'",
                  "{" TWO R"("items": [], "outputs": [{"handle": 1, "file": "buffer-2.bin"}, 2]})"},
        WrongCase{"outputs[0].file: '../a.npy' is not a file in the folder of the outputs",
                  "{" TWO R"("items": [], "outputs": [{"handle": 1, "file": "../a.npy"}]})"},
        WrongCase{"outputs[0].file: '/a.npy' is not a file in the folder of the outputs",
                  "{" TWO R"("items": [], "outputs": [{"handle": 1, "file": "/a.npy"}]})"},
        WrongCase{"outputs[0].file: 'a/' is not a file in the folder of the outputs",
                  "{" TWO R"("items": [], "outputs": [{"handle": 1, "file": "a/"}]})"},
        WrongCase{"files: this version has no IO service",
                  R"({"items": [], "files": [{"handle": 9, "path": "big.bin", "access": "r"}]})"}));

// Buffer 1 has 8 words and buffer 2 seven bytes.
#define ENTRIES(more)                                        \
  R"({"items": [], "buffers": [{"handle": 1, "zeros": 8}, )" \
  R"({"handle": 2, "u8": [1, 2, 3, 4, 5, 6, 7]}, )" more "]}"

INSTANTIATE_TEST_SUITE_P(
    Slices, WrongJob,
    ::testing::Values(
        WrongCase{"buffers[2].slice_of: no buffer has handle 9",
                  ENTRIES(R"({"handle": 3, "slice_of": 9, "length": 1})")},
        WrongCase{"buffers[3].slice_of: handle 3 is a slice itself",
                  ENTRIES(R"({"handle": 3, "slice_of": 1, "length": 4},
                             {"handle": 4, "slice_of": 3, "length": 1})")},
        WrongCase{"buffers[3].slice_of: handle 12 is a slice itself",
                  ENTRIES(R"({"handle": 10, "slice_of": 1, "length": 2, "count": 4},
                             {"handle": 4, "slice_of": 12, "length": 1})")},
        WrongCase{"buffers[2].slice_of: handle 3 is a slice itself",
                  ENTRIES(R"({"handle": 3, "slice_of": 3, "length": 1})")},
        WrongCase{"buffers[2].length: 1 slice of 1 word from word 8 on hang over the end",
                  ENTRIES(R"({"handle": 3, "slice_of": 1, "offset": 8, "length": 1})")},
        WrongCase{"buffers[2].length: 1 slice of 9 words from word 0 on",
                  ENTRIES(R"({"handle": 3, "slice_of": 1, "length": 9})")},
        WrongCase{"buffers[2].length: 3 slices of 3 words from word 0 on",
                  ENTRIES(R"({"handle": 3, "slice_of": 1, "length": 3, "count": 3})")},
        WrongCase{"buffers[2].length: 2 slices of 9,223,372,036,854,775,807 words",
                  ENTRIES(R"({"handle": 3, "slice_of": 1, "length": 9223372036854775807,
                              "count": 2})")},
        WrongCase{"buffers[2].length: 1 slice of 2 words from word 0 on hang over the end of "
                  "buffer 2, which has 1 word",
                  ENTRIES(R"({"handle": 3, "slice_of": 2, "length": 2})")},
        WrongCase{"buffers[2].handle: another buffer has handle 2",
                  ENTRIES(R"({"handle": 2, "slice_of": 1, "length": 1})")},
        WrongCase{"buffers[2].handle: another buffer has handle 2, which is one of this family",
                  ENTRIES(R"({"handle": 2, "slice_of": 1, "length": 1, "count": 8})")},
        WrongCase{"buffers[3].handle: another buffer has handle 13, which is one of this family",
                  ENTRIES(R"({"handle": 10, "slice_of": 1, "length": 1, "count": 4},
                             {"handle": 13, "slice_of": 1, "length": 1, "count": 2})")},
        WrongCase{"buffers[2].access: a slice has the access and the tenant of its buffer",
                  ENTRIES(R"({"handle": 10, "access": "r", "slice_of": 1, "length": 2})")},
        WrongCase{"buffers[2].tenant: a slice has the access and the tenant of its buffer",
                  ENTRIES(R"({"handle": 10, "tenant": 1, "slice_of": 1, "length": 2})")},
        WrongCase{"buffers[2].slice_of: this version has no slices of buffers",
                  ENTRIES(R"({"handle": 10, "slice_of": 1, "length": 2, "count": 4})")}));
#undef ENTRIES

INSTANTIATE_TEST_SUITE_P(
    Files, WrongJob,
    ::testing::Values(
        WrongCase{"handlers: cannot read 'none.ek'", R"({"items": [], "handlers": "none.ek"})"},
        WrongCase{"handlers: bad.ek:1:30: ", R"({"items": [], "handlers": "bad.ek"})"},
        WrongCase{"handlers: not.ek:1:1: ", R"({"items": [], "handlers": "not.ek"})"},
        WrongCase{"handlers: cannot read '.'", R"({"items": [], "handlers": "."})"},
        WrongCase{"buffers[1].file: cannot read 'none.bin'",
                  R"({"items": [], "buffers": [{"handle": 1, "zeros": 1},
                                               {"handle": 2, "file": "none.bin"}]})"},
        WrongCase{"buffers[0].file: 'seven.bin' has 7 bytes, but the part ends at 8",
                  R"({"items": [], "buffers": [{"handle": 1, "file": "seven.bin", "offset": 3,
                                                "length": 5}]})"},
        WrongCase{"buffers[0].file: 'seven.bin' has 7 bytes, but the part begins at 8",
                  R"({"items": [], "buffers": [{"handle": 1, "file": "seven.bin", "offset": 8}]})"},
        WrongCase{"buffers[0].file: offset and length together are too large",
                  R"({"items": [], "buffers": [{"handle": 1, "file": "seven.bin", "offset": 1,
                                                "length": 9223372036854775807}]})"},
        WrongCase{"items_file: cannot read 'none.bin'", R"({"items_file": "none.bin"})"},
        WrongCase{"items_file: 'forty.bin': 40 bytes are not whole items",
                  R"({"items_file": "forty.bin"})"},
        WrongCase{"items_file: 'header.bin': items of 14 words", R"({"items_file": "header.bin"})"},
        WrongCase{"items_file: 'fourth.bin': the fourth word is not 0",
                  R"({"items_file": "fourth.bin"})"},
        WrongCase{"items_file: 'half.bin': 28 bytes are not whole items of 24 bytes: 4 bytes left",
                  R"({"items_file": "half.bin"})"},
        WrongCase{"items_file[1].args[1]: no buffer has handle 9",
                  "{" OPS TWO R"("items_file": "wide.bin"})"},
        WrongCase{"items_file[0].args: 5 args are used, but this version runs items of at most 3",
                  "{" OPS TWO R"("items": [{"op": 0}], "items_file": "wider.bin"})"},
        WrongCase{"items_file[2].op: no handler has opcode 99",
                  "{" OPS TWO R"("items": [{"op": 0}], "items_file": "items.bin"})"},
        WrongCase{"items_file[1].input: no buffer has handle 2147483648",
                  "{" OPS TWO R"("items_file": "handles.bin"})"},
        WrongCase{"items_file[0].output: handler copy writes its output",
                  "{" OPS TWO R"("items_file": "outputs.bin"})"}));

#undef OPS
#undef TWO

// The hint of a job that is refused.
class Hint : public WrongJobs {
 protected:
  std::string of(std::string_view job) const {
    const std::string err = run_job(job).err;
    const auto at = err.find("\nhint: ");
    return at == err.npos ? err : err.substr(at + 7, err.size() - at - 8);
  }
};

TEST_F(Hint, names_the_nearest_key_or_all_of_them) {
  EXPECT_EQ(of(R"({"item": []})"), "did you mean `items`?");
  EXPECT_EQ(of(R"({"buffers": [{"zero": 1}]})"), "did you mean `zeros`?");
  EXPECT_EQ(of(R"({"buffers": [{"slice-of": 1}]})"), "did you mean `slice_of`?");
  EXPECT_EQ(of(R"({"items": [{"opcode": 1}]})"),
            "the keys are op, input, output, param, args, tenant, priority");
}

TEST_F(Hint, names_the_nearest_handler_or_some_of_them) {
  EXPECT_EQ(of(R"({"handlers": "ops.ek", "items": [{"op": "clera"}]})"), "did you mean `clear`?");
  EXPECT_EQ(of(R"({"handlers": "ops.ek", "items": [{"op": "median"}]})"),
            "the handlers are NOP (0), copy (64), clear (65), print (66), change (67), move (68), "
            "load (69)");
  EXPECT_EQ(of(R"({"handlers": "ops.ek", "items": [{"op": "64"}]})"),
            "write an opcode without quotes");
}

using WrongUse = WrongJobs;

TEST_F(WrongUse, a_job_that_is_not_there) {
  expect_refused(everkernel({"run", "none.json"}), "cannot read 'none.json'");
  expect_refused(everkernel({"run", "."}), "cannot read '.'");
  expect_refused(everkernel({"run"}), "JOB");
}

struct UseCase {
  Args args;
  const char* part;
};

class WrongOption : public WrongJobs, public ::testing::WithParamInterface<UseCase> {};

TEST_P(WrongOption, is_refused) {
  expect_refused(run_job(R"({"items": [{"op": 0}]})", GetParam().args), GetParam().part);
  EXPECT_FALSE(has_out());
}

INSTANTIATE_TEST_SUITE_P(
    Every, WrongOption,
    ::testing::Values(UseCase{{"--max-wall-time", "0s"}, "--max-wall-time: 0 leaves no time"},
                      UseCase{{"--max-wall-time", "0.1ns"}, "--max-wall-time: 0 leaves no time"},
                      UseCase{{"--max-wall-time", "-1s"}, "is not a time"},
                      UseCase{{"--max-wall-time", "10"}, "is not a time"},
                      UseCase{{"--max-wall-time", "s"}, "is not a time"},
                      UseCase{{"--workers", "0"}, "--workers: a run needs at least 1"},
                      UseCase{{"--workers", "-1"}, "--workers"},
                      UseCase{{"--hit-capacity", "0"}, "--hit-capacity: 0"},
                      UseCase{{"--memory-budget", "0"}, "--memory-budget: nothing fits"},
                      UseCase{{"--memory-budget", "1 MiB"}, "is not a number of bytes"},
                      UseCase{{"--memory-budget", "1MB"}, "is not a number of bytes"},
                      UseCase{{"--memory-budget", "-1"}, "is not a number of bytes"},
                      UseCase{{"--memory-budget", "9999999999GiB"}, "is too large"},
                      UseCase{{"--interpreter", "--jit"}, "contradict each other"},
                      UseCase{{"--frob"}, "has no option '--frob'"}));

TEST_F(WrongUse, a_backend_that_is_not_there_is_status_3_and_writes_nothing) {
  const Outcome outcome = run_job(R"({"items": [{"op": 0}]})", {"--backend", "cuda"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with(std::string("error: --backend cuda: ") + kNoDriverReason))
      << outcome.err;
  EXPECT_FALSE(has_out());
}

TEST_F(WrongUse, more_memory_than_there_is) {
  std::string job = R"({"items": [], "buffers": [)";
  for (int i = 1; i <= 4096; ++i) {
    job += (i == 1 ? "" : ",") + std::string(R"({"handle": )") + std::to_string(i) +
           R"(, "zeros": 4294967295})";
  }
  expect_refused(run_job(job + "]}"), "].zeros: with this one the buffers take");
}

TEST_F(WrongUse, nesting_that_never_ends_and_texts_that_do_not_either) {
  for (const char* open : {"[", "{\"items\":[", "{\"items\":[{\"op\":["}) {
    expect_refused(run_job(open + std::string(1'000'000, '[')), "job.json");
  }
  expect_refused(run_job("{\"handlers\": \"" + std::string(1'000'000, 'a') + "\"}"),
                 "handlers: 'aaaaaaaaaa");
  expect_refused(run_job("{\"" + std::string(1'000'000, 'a') + "\": 1}"), "'aaaaaaaaaa");
  expect_refused(run_job("{\"items\": [{\"op\": " + std::string(1'000'000, '1') + "}]}"),
                 "items[0].op: '11111");
  expect_refused(run_job("{\"items\": " + std::string(1'000'000, 'x')), "line 1, column 11");
}

}  // namespace
}  // namespace everkernel::test
