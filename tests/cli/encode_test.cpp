// `everkernel encode`: the bytes of its files, compared with literals.
#include <sys/stat.h>

#include "program.hpp"

namespace everkernel::test {
namespace {

using Encode = Program;

TEST_F(Encode, control_enables_its_tenants_and_leaves_the_rest_zero) {
  const Outcome outcome = everkernel({"encode", "control", "--tenants", "2", "-o", "c.bin"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "wrote c.bin: control, 2 tenants, 0 observables, 640 bytes\n");
  std::vector<Word> expected(160);
  expected[2] = 3;
  expected[3] = expected[4] = 0xFFFFFFFFu;
  expected[32] = expected[33] = 1'000'000;
  EXPECT_EQ(dir.read("c.bin"), bytes_of(expected));
}

TEST_F(Encode, control_takes_shutdown_observables_and_priority_slots) {
  const Json report = json({"encode", "control", "--tenants", "0x0", "--observable-slots=3",
                            "--shutdown", "--priority-slots", "256", "--output", "c.bin"});
  EXPECT_EQ(report, Json::parse(R"({"buffer": "control", "path": "c.bin", "bytes": 652,
                                    "tenants": 0, "observable_slots": 3})"));
  std::vector<Word> expected(163);
  expected[0] = 1;
  expected[2] = 3;
  const std::vector<Word> offsets = {0, 51, 102, 154, 205, 256};
  std::copy(offsets.begin(), offsets.end(), expected.begin() + 129);
  EXPECT_EQ(dir.read("c.bin"), bytes_of(expected));
}

TEST_F(Encode, every_limit_that_is_refused_comes_with_a_hint) {
  const Args kRows[] = {
      {"control", "--tenants", "30"},
      {"control", "--tenants", "1", "--observable-slots", "4294967295"},
      {"control", "--tenants", "1", "--priority-slots", "0"},
      {"ring", "--slots", "0"},
      {"ring", "--slots", "1048577"},
      {"debug-log", "--records", "1048577"},
      {"io-queue", "--slots", "0"},
      {"io-queue", "--slots", "65"},
  };
  for (const Args& row : kRows) {
    Args args = {"encode"};
    args.insert(args.end(), row.begin(), row.end());
    args.insert(args.end(), {"-o", "x"});
    const Outcome outcome = everkernel(args);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("\nhint: "), std::string::npos) << outcome.err;
  }
}

TEST_F(Encode, ring_is_empty_slots) {
  const Json report = json({"encode", "ring", "--slots", "3", "-o", "r.bin"});
  EXPECT_EQ(report, Json::parse(R"({"buffer": "ring", "path": "r.bin", "bytes": 192, "slots": 3,
                                    "items": 0})"));
  EXPECT_EQ(dir.read("r.bin"), Bytes(192));
}

TEST_F(Encode, ring_publishes_items_from_slot_0_on) {
  dir.write("items.bin", bytes_of({64, 1, 2, 3, 65, 4, 5, 6}));
  const Outcome outcome = everkernel(
      {"encode", "ring", "--slots", "3", "--tenant", "7", "--items", "items.bin", "-o", "r.bin"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "wrote r.bin: ring, 3 slots, 2 items, 192 bytes\n");
  EXPECT_EQ(dir.read("r.bin"), bytes_of({1, 64, 7, 2, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                         1, 65, 7, 2, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                         0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_F(Encode, debug_log_is_a_cursor_and_room) {
  const Json report = json({"encode", "debug-log", "--records", "2", "-o", "d.bin"});
  EXPECT_EQ(report, Json::parse(R"({"buffer": "debug_log", "path": "d.bin", "bytes": 36,
                                    "records": 2})"));
  EXPECT_EQ(dir.read("d.bin"), Bytes(36));
}

TEST_F(Encode, io_queue_is_empty_slots) {
  const Json report = json({"encode", "io-queue", "--slots", "64", "-o", "q.bin"});
  EXPECT_EQ(report, Json::parse(R"({"buffer": "io_queue", "path": "q.bin", "bytes": 2048,
                                    "slots": 64})"));
  EXPECT_EQ(dir.read("q.bin"), Bytes(2048));
}

TEST_F(Encode, a_refusal_leaves_an_older_file_as_it_was) {
  dir.write("r.bin", bytes_of({1, 2, 3}));
  expect_refused(everkernel({"encode", "ring", "--slots", "0", "-o", "r.bin"}), "0 slots");
  EXPECT_EQ(dir.read("r.bin"), bytes_of({1, 2, 3}));
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"r.bin"}));
}

TEST_F(Encode, more_items_than_slots_are_refused) {
  dir.write("items.bin", bytes_of({64, 1, 2, 3, 65, 4, 5, 6}));
  expect_refused(
      everkernel({"encode", "ring", "--slots", "1", "--items", "items.bin", "-o", "r.bin"}),
      "--items: 'items.bin' holds 2 items, the ring has 1 slot");
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"items.bin"}));
}

TEST_F(Encode, an_item_with_a_reserved_opcode_is_refused) {
  dir.write("items.bin", bytes_of({0xFFF0, 1, 2, 3}));
  expect_refused(
      everkernel({"encode", "ring", "--slots", "1", "--items", "items.bin", "-o", "r.bin"}),
      "opcode 65520");
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"items.bin"}));
}

TEST_F(Encode, items_that_are_not_whole_records_are_refused) {
  dir.write("items.bin", Bytes(17));
  expect_refused(
      everkernel({"encode", "ring", "--slots", "4", "--items", "items.bin", "-o", "r.bin"}),
      "'items.bin': 17 bytes are not whole items of 16 bytes: 1 byte left over");
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"items.bin"}));
}

TEST_F(Encode, an_empty_items_file_makes_an_empty_ring) {
  dir.write("items.bin", {});
  EXPECT_EQ(
      json({"encode", "ring", "--slots", "1", "--items", "items.bin", "-o", "r.bin"})["items"], 0);
  EXPECT_EQ(dir.read("r.bin"), Bytes(64));
}

TEST_F(Encode, a_new_file_has_the_permissions_of_any_new_file) {
  const mode_t mask = ::umask(027);
  const Outcome outcome = everkernel({"encode", "ring", "--slots", "1", "-o", "r.bin"});
  ::umask(mask);
  EXPECT_EQ(outcome.status, 0);
  struct stat info {};
  ASSERT_EQ(::stat((dir.path() / "r.bin").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0640u);
}

TEST_F(Encode, an_older_file_is_replaced_and_not_written_into) {
  dir.write("r.bin", bytes_of({1, 2, 3}));
  std::filesystem::create_hard_link(dir.path() / "r.bin", dir.path() / "older.bin");
  EXPECT_EQ(everkernel({"encode", "ring", "--slots", "1", "-o", "r.bin"}).status, 0);
  EXPECT_EQ(dir.read("r.bin"), Bytes(64));
  EXPECT_EQ(dir.read("older.bin"), bytes_of({1, 2, 3}));
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"older.bin", "r.bin"}));
}

TEST_F(Encode, a_link_to_a_file_stays_a_link) {
  dir.write("r.bin", bytes_of({1, 2, 3}));
  std::filesystem::create_symlink("r.bin", dir.path() / "link.bin");
  EXPECT_EQ(everkernel({"encode", "ring", "--slots", "1", "-o", "link.bin"}).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(dir.path() / "link.bin"));
  EXPECT_EQ(dir.read("r.bin"), Bytes(64));
}

TEST_F(Encode, a_path_may_have_the_name_of_a_command) {
  EXPECT_EQ(everkernel({"encode", "ring", "--slots", "1", "-o", "ring"}).status, 0);
  EXPECT_EQ(dir.read("ring"), Bytes(64));
}

TEST_F(Encode, standard_output_as_the_target_takes_the_bytes_and_nothing_else) {
  const Outcome outcome = everkernel({"encode", "ring", "--slots", "1", "-o", "/dev/stdout"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, std::string(64, '\0'));
}

}  // namespace
}  // namespace everkernel::test
