// `everkernel publish`: which bytes of a ring change, and which never do.
#include <sys/stat.h>

#include "program.hpp"

namespace everkernel::test {
namespace {

using Publish = Program;

// Three slots; the one in the middle holds an older, completed item.
const Bytes kRing = ring_of({{}, {.status = 3, .opcode = 9, .args = {1, 2, 3, 4}}, {}});

Args publish_into(const char* slot, Args rest) {
  Args args = {"publish", "--ring", "ring.bin", "--slot", slot, "--tenant", "3"};
  args.insert(args.end(), rest.begin(), rest.end());
  return args;
}

TEST_F(Publish, one_operation_fills_its_slot_and_clears_what_was_there) {
  dir.write("ring.bin", kRing);
  const Outcome outcome =
      everkernel(publish_into("1", {"--opcode", "STORE_U32", "--arg", "7", "--arg", "0xA0"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "published STORE_U32 into ring.bin, slot 1\n");
  EXPECT_EQ(dir.read("ring.bin"),
            ring_of({{}, {.status = 1, .opcode = 1, .tenant = 3, .args = {7, 160}}, {}}));
}

TEST_F(Publish, json_says_which_slots_changed) {
  dir.write("ring.bin", kRing);
  EXPECT_EQ(json(publish_into("2", {"--opcode", "9"})),
            Json::parse(R"({"path": "ring.bin", "first_slot": 2, "slot_count": 1})"));
}

TEST_F(Publish, a_handler_is_named_by_its_number) {
  dir.write("ring.bin", kRing);
  EXPECT_EQ(everkernel(publish_into("0", {"--opcode", "0x40"})).out,
            "published opcode 64 into ring.bin, slot 0\n");
}

struct NameCase {
  const char* text;
  Word number;
};

class OpcodeName : public Program, public ::testing::WithParamInterface<NameCase> {};

TEST_P(OpcodeName, is_a_number_or_a_name_in_any_case) {
  dir.write("ring.bin", kRing);
  const Args args = {"--opcode", GetParam().text, "--arg", "1", "--arg", "2"};
  EXPECT_EQ(everkernel(publish_into("0", args)).status, 0);
  EXPECT_EQ(word_at(dir.read("ring.bin"), 1), GetParam().number);
}

INSTANTIATE_TEST_SUITE_P(Every, OpcodeName,
                         ::testing::Values(NameCase{"0", 0}, NameCase{"nop", 0},
                                           NameCase{"Load_Miss", 0xFFFD}, NameCase{"010", 10},
                                           NameCase{"SHUTDOWN", 0xFFFFFFFFu},
                                           NameCase{"0x7fffffff", 0x7FFFFFFFu},
                                           NameCase{"0XFFEF", 0xFFEF}));

class PriorityName : public Program, public ::testing::WithParamInterface<NameCase> {};

TEST_P(PriorityName, is_a_number_or_a_name_in_any_case) {
  dir.write("ring.bin", kRing);
  EXPECT_EQ(everkernel(publish_into("0", {"--opcode", "9", "--priority", GetParam().text})).status,
            0);
  EXPECT_EQ(word_at(dir.read("ring.bin"), 3), GetParam().number);
}

INSTANTIATE_TEST_SUITE_P(Every, PriorityName,
                         ::testing::Values(NameCase{"critical", 0}, NameCase{"HIGH", 1},
                                           NameCase{"Normal", 2}, NameCase{"low", 3},
                                           NameCase{"idle", 4}, NameCase{"0", 0},
                                           NameCase{"4", 4}));

TEST_F(Publish, twelve_arguments_fill_a_slot_and_thirteen_are_refused) {
  dir.write("ring.bin", kRing);
  Args args = publish_into("0", {"--opcode", "9"});
  for (const char* word : {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"}) {
    args.insert(args.end(), {"--arg", word});
  }
  EXPECT_EQ(everkernel(args).status, 0);
  const Bytes full = dir.read("ring.bin");
  EXPECT_EQ(words_of(std::span(full).first(64)),
            (std::vector<Word>{1, 9, 3, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));

  args[4] = "2";
  args.insert(args.end(), {"--arg", "13"});
  expect_refused(everkernel(args), "13 arguments");
  EXPECT_EQ(dir.read("ring.bin"), full);
}

TEST_F(Publish, packed_operations_share_a_slot) {
  dir.write("ring.bin", kRing);
  const Outcome outcome = everkernel(publish_into(
      "0", {"--packed", "STORE_U32:10,32", "--packed", "2:1,64", "--priority", "high"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "published 2 packed operations into ring.bin, slot 0\n");
  // The vector of the wire format.
  EXPECT_EQ(words_of(dir.read("ring.bin")).at(1), 0x80000001u);
  const Bytes ring = dir.read("ring.bin");
  EXPECT_EQ(words_of(std::span(ring).first(64)),
            (std::vector<Word>{1, 0x80000001u, 3, 1, 0x00010402, 0x00000202, 10, 32, 1, 64, 0, 0, 0,
                               0, 0, 0}));
}

TEST_F(Publish, a_packed_operation_without_arguments_needs_no_colon) {
  dir.write("ring.bin", kRing);
  EXPECT_EQ(everkernel(publish_into("0", {"--packed", "NOP", "--packed", "255:"})).status, 0);
  const Bytes ring = dir.read("ring.bin");
  EXPECT_EQ(word_at(ring, 4), 0x00000002u);
  EXPECT_EQ(word_at(ring, 5), 0x000000FFu);
}

TEST_F(Publish, a_batch_is_items_and_a_fence) {
  dir.write("ring.bin", kRing);
  dir.write("items.bin", bytes_of({64, 1, 2, 3, 65, 4, 5, 6}));
  const Outcome outcome =
      everkernel(publish_into("0", {"--batch", "items.bin", "--tag", "0x63", "--priority", "4"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "published 2 items and a fence into ring.bin, slots 0..2\n");
  EXPECT_EQ(dir.read("ring.bin"),
            ring_of({{.status = 1, .opcode = 64, .tenant = 3, .priority = 4, .args = {1, 2, 3}},
                     {.status = 1, .opcode = 65, .tenant = 3, .priority = 4, .args = {4, 5, 6}},
                     {.status = 1, .opcode = 7, .tenant = 3, .priority = 4, .args = {2, 99}}}));
}

TEST_F(Publish, a_batch_has_tag_0_unless_given) {
  dir.write("ring.bin", kRing);
  dir.write("items.bin", bytes_of({64, 1, 2, 3}));
  EXPECT_EQ(json(publish_into("1", {"--batch", "items.bin"})),
            Json::parse(R"({"path": "ring.bin", "first_slot": 1, "slot_count": 2})"));
  const Bytes expected = ring_of({{},
                                  {.status = 1, .opcode = 64, .tenant = 3, .args = {1, 2, 3}},
                                  {.status = 1, .opcode = 7, .tenant = 3, .args = {1, 0}}});
  EXPECT_EQ(dir.read("ring.bin"), expected);
}

struct RefusedCase {
  const char* slot;
  Args rest;
  const char* part;
};

class Refused : public Program, public ::testing::WithParamInterface<RefusedCase> {};

TEST_P(Refused, leaves_the_file_and_its_time_as_they_were) {
  const Bytes ring = ring_of({{}, {}, {.status = 7, .opcode = 9, .priority = 0x00010002}});
  dir.write("ring.bin", ring);
  dir.write("items.bin", bytes_of({64, 1, 2, 3, 65, 4, 5, 6}));
  dir.write("reserved.bin", bytes_of({0xFFF0, 1, 2, 3}));
  dir.write("odd.bin", Bytes(20));
  const auto path = dir.path() / "ring.bin";
  const std::filesystem::file_time_type long_ago{std::chrono::hours(24)};
  std::filesystem::last_write_time(path, long_ago);

  expect_refused(everkernel(publish_into(GetParam().slot, GetParam().rest)), GetParam().part);
  EXPECT_EQ(dir.read("ring.bin"), ring);
  EXPECT_EQ(std::filesystem::last_write_time(path), long_ago);
  EXPECT_EQ(dir.names(),
            (std::vector<std::string>{"items.bin", "odd.bin", "reserved.bin", "ring.bin"}));
}

INSTANTIATE_TEST_SUITE_P(
    Every, Refused,
    ::testing::Values(RefusedCase{"2", {"--opcode", "9"}, "slot 2 is in use"},
                      RefusedCase{"3", {"--opcode", "9"}, "slot 3 does not exist"},
                      RefusedCase{"4294967295", {"--opcode", "9"}, "slot 4294967295"},
                      RefusedCase{"2", {"--packed", "NOP"}, "slot 2 is in use"},
                      RefusedCase{"0", {"--batch", "items.bin"}, "slot 2 is in use"},
                      RefusedCase{"1", {"--batch", "items.bin"}, "do not fit"},
                      RefusedCase{"4294967295", {"--batch", "items.bin"}, "do not fit"},
                      RefusedCase{"0", {"--batch", "reserved.bin"}, "opcode 65520"},
                      RefusedCase{"0", {"--batch", "odd.bin"}, "'odd.bin': 20 bytes"},
                      RefusedCase{"0", {"--batch", "none.bin"}, "cannot read 'none.bin'"},
                      RefusedCase{"0", {"--opcode", "9", "--priority", "5"}, "priority 5"},
                      RefusedCase{"0",
                                  {"--opcode", "STORE_U32", "--arg", "7"},
                                  "STORE_U32 takes 2 arguments, not 1"},
                      RefusedCase{"0",
                                  {"--packed", "NOP", "--packed", "BATCH_FENCE:1,9"},
                                  "packed operation 1 is a BATCH_FENCE"}));

TEST_F(Publish, keeps_the_file_that_readers_have_open) {
  dir.write("ring.bin", kRing);
  struct stat before {};
  struct stat after {};
  ASSERT_EQ(::stat((dir.path() / "ring.bin").c_str(), &before), 0);
  EXPECT_EQ(everkernel(publish_into("0", {"--opcode", "9"})).status, 0);
  ASSERT_EQ(::stat((dir.path() / "ring.bin").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"ring.bin"}));
}

TEST_F(Publish, a_refused_opcode_comes_with_the_librarys_hint) {
  dir.write("ring.bin", kRing);
  EXPECT_EQ(everkernel(publish_into("0", {"--opcode", "0xfff0"})).err,
            "error: ring: opcode 65520 (0xfff0) is reserved\n"
            "hint: opcodes of handlers are 8..0xffef and 0x10000..0x7fffffff\n");
}

TEST_F(Publish, a_missing_argument_comes_with_the_names_of_all) {
  dir.write("ring.bin", kRing);
  EXPECT_EQ(everkernel(publish_into("0", {"--opcode", "STORE_U32", "--arg", "7"})).err,
            "error: ring: STORE_U32 takes 2 arguments, not 1\n"
            "hint: give all of: value, index\n");
}

TEST_F(Publish, two_at_a_time_for_one_slot_let_one_through) {
  dir.write("ring.bin", kRing);
  Outcome outcomes[2];
  {
    std::jthread other([&] { outcomes[0] = everkernel(publish_into("0", {"--opcode", "9"})); });
    outcomes[1] = everkernel(publish_into("0", {"--opcode", "10"}));
  }
  EXPECT_EQ(outcomes[0].status + outcomes[1].status, 2);
}

}  // namespace
}  // namespace everkernel::test
