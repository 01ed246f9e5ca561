// Buffers of typed data, of parts of files and of .npy files, and outputs as .npy and .npz files.
// Files are typed by hand.
#include <fmt/format.h>

#include <bit>

#include "run_fixture.hpp"

namespace everkernel::test {
namespace {

using Words = std::vector<Word>;
using std::string_literals::operator""s;

Bytes bytes_of_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A .npy file of version 1 with this dictionary, padded to 128 bytes, and this data.
std::string npy(std::string dictionary, std::string_view data) {
  dictionary.resize(117, ' ');
  return "\x93NUMPY\x01\x00\x76\x00"s + dictionary + "\n" + std::string(data);
}

constexpr const char* kFloats = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";

class Data : public RunProgram {
 protected:
  // The words of a buffer that is written as `source` in a job.
  Words words_of_buffer(const std::string& source) const {
    return words_in(run_json(0, fmt::format(R"({{"buffers": [{{"handle": 1, {}}}], "items": [],
                                                 "outputs": [1]}})",
                                            source)),
                    1);
  }
  void expect_refused_file(const std::string& name, std::string_view part) const {
    const Outcome outcome = run_job(
        fmt::format(R"({{"buffers": [{{"handle": 1, "file": "{}"}}], "items": []}})", name));
    expect_refused(outcome, "job.json: buffers[0].file: '" + name + "': ");
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("\nhint: "), std::string::npos) << outcome.err;
  }
};

TEST_F(Data, lists_of_every_type) {
  EXPECT_EQ(words_of_buffer(R"("u32": [0, 4294967295])"), (Words{0, 0xFFFFFFFFu}));
  EXPECT_EQ(words_of_buffer(R"("i32": [-1, 2147483647, -2147483648, -0])"),
            (Words{0xFFFFFFFFu, 0x7FFFFFFFu, 0x80000000u, 0}));
  EXPECT_EQ(words_of_buffer(R"("u8": [1, 2, 3, 4, 255])"), (Words{0x04030201u, 0xFFu}));
  EXPECT_EQ(words_of_buffer(R"("u8": [])"), Words{});
}

TEST_F(Data, floats_are_the_nearest) {
  EXPECT_EQ(words_of_buffer(R"("f32": [1, -1, 1.5, -0, -0.0, 0.1, 1e-40])"),
            (Words{0x3F800000u, 0xBF800000u, 0x3FC00000u, 0x80000000u, 0x80000000u, 0x3DCCCCCDu,
                   0x000116C2u}));
  EXPECT_EQ(words_of_buffer(R"("f32": ["nan", "inf", "-inf", 3.4028235e38, 1e-99, -1e-99])"),
            (Words{0x7FC00000u, 0x7F800000u, 0xFF800000u, 0x7F7FFFFFu, 0, 0x80000000u}));
  // Half way between two floats as a double, but above as a decimal number.
  EXPECT_EQ(words_of_buffer(R"("f32": [1.00000005960464477540])"), Words{0x3F800001u});
  EXPECT_EQ(words_of_buffer(R"("f32": [16777217, 16777219])"), (Words{0x4B800000u, 0x4B800002u}));
}

TEST_F(Data, base64_of_every_length) {
  EXPECT_EQ(words_of_buffer(R"("base64": "")"), Words{});
  EXPECT_EQ(words_of_buffer(R"("base64": "AQ==")"), Words{0x01u});
  EXPECT_EQ(words_of_buffer(R"("base64": "AQI=")"), Words{0x0201u});
  EXPECT_EQ(words_of_buffer(R"("base64": "AQID")"), Words{0x030201u});
  EXPECT_EQ(words_of_buffer(R"("base64": "AQIDBA==")"), Words{0x04030201u});
  EXPECT_EQ(words_of_buffer(R"("base64": "+\/+/AAECAwQFBgcICQoLDA==")"),
            (Words{0x00BFFFFBu, 0x04030201u, 0x08070605u, 0x0C0B0A09u}));
}

TEST_F(Data, base64_longer_than_other_texts) {
  const std::string text(std::size_t{3} << 20, 'A');
  const Words words = words_of_buffer(fmt::format(R"("base64": "{}")", text));
  EXPECT_EQ(words.size(), text.size() / 16 * 3);
}

TEST_F(Data, parts_of_files) {
  dir.write("seven.bin", bytes_of_text("\1\2\3\4\5\6\7"s));
  EXPECT_EQ(words_of_buffer(R"("file": "seven.bin")"), (Words{0x04030201u, 0x070605u}));
  EXPECT_EQ(words_of_buffer(R"("file": "seven.bin", "offset": 2)"), (Words{0x06050403u, 7}));
  EXPECT_EQ(words_of_buffer(R"("length": 3, "offset": 1, "file": "seven.bin")"), Words{0x040302u});
  EXPECT_EQ(words_of_buffer(R"("file": "seven.bin", "offset": 7)"), Words{});
  EXPECT_EQ(words_of_buffer(R"("file": "seven.bin", "length": 0)"), Words{});
}

TEST_F(Data, a_part_of_a_pipe) {
  write_text("job.json", R"({"buffers": [{"handle": 1, "file": "/dev/stdin", "offset": 100000,
                                          "length": 5}], "items": [], "outputs": [1]})");
  const auto run_with = [&](const char* count) {
    return run({.program = "/bin/sh",
                .args = {"-c", fmt::format("yes abc | head -c {} | '{}' run job.json --json", count,
                                           built_path("everkernel"))},
                .folder = dir.path()});
  };
  EXPECT_EQ(words_in(object_of(0, run_with("200000")), 1), (Words{0x0A636261u, 'a'}));
  expect_refused(run_with("100003"), "has 100,003 bytes, but the part ends at 100,005");
}

TEST_F(Data, arrays_of_numpy) {
  write_text("f4.npy", npy(kFloats, "\0\0\x80\x3F\0\0\0\x40"s));
  EXPECT_EQ(words_of_buffer(R"("file": "f4.npy", "access": "r")"),
            (Words{0x3F800000u, 0x40000000u}));
  write_text("u1.npy", npy("{'shape': (3, 1), 'descr': '|u1', 'fortran_order': False}", "\1\2\3"));
  EXPECT_EQ(words_of_buffer(R"("file": "u1.npy")"), Words{0x030201u});
  write_text("i4.npy", npy(R"({"descr":"<i4","fortran_order":False,"shape":()})", "\1\2\3\4"));
  EXPECT_EQ(words_of_buffer(R"("file": "i4.npy")"), Words{0x04030201u});
  write_text("none.npy", npy("{'descr': '<u4', 'fortran_order': False, 'shape': (0, 7)}", ""));
  EXPECT_EQ(words_of_buffer(R"("file": "none.npy")"), Words{});
  const std::string two = "{'descr': '<u4', 'fortran_order': False, 'shape': (1,), }   \n";
  write_text("two.npy",
             "\x93NUMPY\x02\x00"s + static_cast<char>(two.size()) + "\0\0\0"s + two + "\1\0\0\0"s);
  EXPECT_EQ(words_of_buffer(R"("file": "two.npy")"), Words{1});
}

struct NpyCase {
  std::string content;
  const char* part;  // of the error
};

TEST_F(Data, arrays_that_are_not_taken) {
  const auto with = [](std::string_view descr, std::string_view order, std::string_view shape) {
    return npy(
        fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}}}", descr, order, shape),
        "12345678");
  };
  const std::vector<NpyCase> cases = {
      {"", "does not begin as a .npy file"},
      {std::string(64, '\0'), "does not begin as a .npy file"},
      {"\x93NUMPY\x04\x00\x76\x00 "s + std::string(200, ' '), "version 4"},
      {"\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{"s, "its header has 4,294,967,307 bytes"},
      {npy(kFloats, "").substr(0, 90), "its header is not complete"},
      {npy(kFloats, "1234567"), "8 bytes of elements, but the file ends before them"},
      {npy(kFloats, "123456789"), "8 bytes of elements, but the file goes on behind them"},
      {with("'<f8'", "False", "(1,)"), "its elements are of type '<f8'"},
      {with("'|i1'", "False", "(8,)"), "its elements are of type '|i1'"},
      {with("'>u4'", "False", "(2,)"), "its elements are big-endian ('>u4')"},
      {with("[('a', '<u4')]", "False", "(2,)"), "records of several fields"},
      {with("'<u4'", "True", "(2,)"), "Fortran order"},
      {with("'<u4'", "false", "(2,)"), "where True or False should be"},
      {with("'<u4'", "False", "(-2,)"), "where a length should be"},
      {with("'<u4'", "False", "(99999999999999999999,)"), "more elements than any file"},
      {with("'<u4'", "False", "(4294967296, 4294967296)"), "more elements than any file"},
      {with("'<u4'", "False", "(4611686018427387904, 0)"), "more elements than any file"},
      {with("'<u4'", "False", "(4000000000,)"), "16,000,000,000 bytes of elements"},
      {with("'<u4'", "False", "2"), "the shape in parentheses"},
      {npy("{'descr' '<u4'}", "12345678"), "where a colon should be"},
      {npy("{'descr: ", "12345678"), "where a text in quotes should be"},
      {npy("{'descr': '<u4', 'shape': (2,)}", "12345678"), "lacks one of the keys"},
      {npy("{'descr': '<u4', 'descr': '<u4'}", "12345678"), "unknown or given twice"},
      {npy("{'descr': '<u4', 'fortran_order': False, 'shape': (2,)} x", "12345678"),
       "where its end should be"},
  };
  for (const NpyCase& wrong : cases) {
    write_text("x.npy", wrong.content);
    expect_refused_file("x.npy", wrong.part);
  }
  write_text("x.npy", npy(kFloats, "12345678"));
  expect_refused(run_job(R"({"buffers": [{"handle": 1, "file": "x.npy", "offset": 4}],
                             "items": []})"),
                 "offset and length are for files without a header");
}

// --- outputs -------------------------------------------------------------------------------------

constexpr const char* kOutputs =
    R"({"buffers": [{"handle": 1, "u8": [104, 105, 33]}, {"handle": 2, "f32": [1]}], "items": [],
        "outputs": [{"handle": 1, "file": "text.npy", "type": "u8"},
                    {"handle": 2, "file": "raw.f32", "type": "f32"}]})";

TEST_F(Data, outputs_have_names_and_types) {
  const Json report = run_json(0, kOutputs);
  EXPECT_EQ(dir.read("out/text.npy"),
            bytes_of_text(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "hi!")));
  EXPECT_EQ(dir.read("out/raw.f32"), bytes_of({0x3F800000u}));
  EXPECT_EQ(words_in(report, 1), Words{0x216968u}) << "words in JSON";
  EXPECT_EQ(report["files"], Json::parse(R"([{"path": "out/text.npy", "bytes": 131},
                                             {"path": "out/raw.f32", "bytes": 4}])"));
}

TEST_F(Data, outputs_that_name_a_file_are_written_beside_the_job) {
  std::filesystem::create_directories(dir.path() / "jobs/sub");
  write_text("jobs/a.json",
             R"({"buffers": [{"handle": 1, "i32": [-1]}, {"handle": 2, "zeros": 1}], "items": [],
                 "outputs": [{"handle": 1, "file": "sub/a.npy", "type": "i32"}, 2]})");
  const Json report = object_of(0, everkernel({"run", "jobs/a.json", "--json"}));
  EXPECT_EQ(dir.read("jobs/sub/a.npy"),
            bytes_of_text(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }",
                              "\xFF\xFF\xFF\xFF")));
  EXPECT_EQ(report["files"].size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "jobs/buffer-2.bin"));
  // The folder of a file must be there before anything runs.
  std::filesystem::remove_all(dir.path() / "jobs/sub");
  expect_refused(everkernel({"run", "jobs/a.json"}), "cannot write 'jobs/sub/a.npy'");
}

TEST_F(Data, outputs_are_padded_to_whole_elements_only_if_their_type_has_words) {
  const Json report = run_json(0, R"({"buffers": [{"handle": 1, "u8": [1, 2, 3, 4, 5]}],
      "items": [], "outputs": [{"handle": 1, "file": "w.npy"}]})");
  EXPECT_EQ(dir.read("out/w.npy"),
            bytes_of_text(npy("{'descr': '<u4', 'fortran_order': False, 'shape': (2,), }",
                              "\1\2\3\4\5\0\0\0"s)));
  run_json(0, R"({"buffers": [{"handle": 1, "u8": [1, 2, 3, 4, 5]}], "items": [],
                  "outputs": [1]})");
  EXPECT_EQ(dir.read("out/buffer-1.bin"), bytes_of_text("\1\2\3\4\5"s));
}

// Bytes of numbers of 16 bits, and of 32 bits.
std::string u16(unsigned value) {
  return {static_cast<char>(value & 0xFF), static_cast<char>(value >> 8)};
}
std::string u32(Word value) {
  return u16(value & 0xFFFF) + u16(value >> 16);
}

TEST_F(Data, an_archive_has_every_output) {
  write_text("job.json", kOutputs);
  const Json report =
      object_of(0, everkernel({"run", "job.json", "--outputs", "sub/all.npz", "--json"}));
  // Version 2.0, no flags, not compressed, midnight of 1980-01-01, CRC-32, sizes, name.
  const auto fields = [](Word crc, Word size) {
    return u16(20) + u16(0) + u16(0) + u16(0) + u16(0x21) + u32(crc) + u32(size) + u32(size) +
           u16(9) + u16(0);
  };
  const std::string first = fields(0xA5E1E00Du, 131), second = fields(0x73573651u, 132);
  const std::string members =
      "PK\3\4" + first + "arr_1.npy" +
      npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "hi!") + "PK\3\4" + second +
      "arr_2.npy" +
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", u32(0x3F800000u));
  const std::string rest = u16(0) + u16(0) + u16(0) + u32(0);
  const std::string directory = "PK\1\2" + u16(20) + first + rest + u32(0) + "arr_1.npy" +
                                "PK\1\2" + u16(20) + second + rest + u32(170) + "arr_2.npy";
  const std::string end = "PK\5\6" + u16(0) + u16(0) + u16(2) + u16(2) +
                          u32(static_cast<Word>(directory.size())) + u32(341) + u16(0);
  EXPECT_EQ(dir.read("sub/all.npz"), bytes_of_text(members + directory + end));
  EXPECT_EQ(report["files"],
            Json::parse(fmt::format(R"([{{"path": "sub/all.npz", "bytes": {}}}])",
                                    members.size() + directory.size() + end.size())));
}

TEST_F(Data, another_program_reads_the_archive) {
  if (run({.program = "/bin/sh", .args = {"-c", "command -v python3"}, .folder = dir.path()})
          .status != 0) {
    GTEST_SKIP() << "needs python3";
  }
  std::string list;
  for (int i = 0; i < 1000; ++i) list += fmt::format("{}{}", i == 0 ? "" : ", ", i * 7 % 256);
  write_text("job.json", fmt::format(R"({{"buffers": [{{"handle": 1, "u8": [{}]}}], "items": [],
                                          "outputs": [{{"handle": 1, "type": "u8"}}]}})",
                                     list));
  object_of(0, everkernel({"run", "job.json", "--outputs", "all.npz", "--json"}));
  const Outcome outcome = run(
      {.program = "/bin/sh",
       .args = {"-c",
                "python3 -c \"import zipfile; z = zipfile.ZipFile('all.npz'); print(z.testzip(), "
                "z.namelist(), z.read('arr_1.npy')[-1000:] == bytes(i * 7 % 256 for i in "
                "range(1000)))\""},
       .folder = dir.path()});
  EXPECT_EQ(outcome.out, "None ['arr_1.npy'] True\n") << outcome.err;
}

TEST_F(Data, an_archive_of_four_gigabytes_is_refused_before_the_run) {
  write_text("job.json", R"({"buffers": [{"handle": 1, "zeros": 1073741824}], "items": [],
                             "outputs": [1]})");
  const Outcome outcome =
      everkernel({"run", "job.json", "--outputs", "all.npz", "--memory-limit", "100GiB"});
  expect_refused(outcome, "--outputs 'all.npz': outputs[0] does not fit");
}

}  // namespace
}  // namespace everkernel::test
