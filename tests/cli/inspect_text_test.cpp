// `everkernel inspect` as text: its content, and that no line is longer than 100 columns.
#include <sstream>

#include "program.hpp"

namespace everkernel::test {
namespace {

using InspectText = Program;

void expect_holds(const std::string& text, std::initializer_list<std::string_view> lines) {
  for (const std::string_view line : lines) {
    EXPECT_NE(text.find(line), std::string::npos) << "missing: " << line << "\nin:\n" << text;
  }
}

void expect_narrow(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
  }
}

TEST_F(InspectText, control_shows_counters_tenants_and_priorities) {
  dir.write("c.bin", control_of({{0, 1},
                                 {1, 1'234'567},
                                 {5, 1},  // tenants 2 and 3, with equal values
                                 {6, 1},
                                 {70, 3},  // tenant 6: has claims, but is disabled
                                 {97, 1'200'000},
                                 {105, 17},
                                 {128, 12},
                                 {129 + 1, 1},  // offsets 0, 1, 2, 5, 6, 7
                                 {129 + 2, 2},
                                 {129 + 3, 5},
                                 {129 + 4, 6},
                                 {129 + 5, 7},
                                 {138, 1'900},
                                 {143, 2},
                                 {144, 7},
                                 {160, 99}},
                                2));
  const Outcome outcome = everkernel({"inspect", "--control", "c.bin", "--observables"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  expect_holds(
      outcome.out,
      {"control  c.bin  648 bytes, 2 observables\n",
       "  done      1,234,567  slots that completed\n",
       "  faults            2  slots that ended as fault\n",
       "  epoch            12  batch fences that completed\n",
       "  dropped           7  debug records that found the log full\n",
       "  shutdown        yes  workers stop and run nothing more\n",
       "       1  STORE_U32   1,200,000\n", "       9  (handler)          17\n",
       "       0  enabled   1,000,000       0\n", "       6  disabled          0       3\n",
       "  normal     1,900  2..4\n", "        0..1  99 0\n"});
  EXPECT_NE(outcome.out.find("    1..3  enabled           0  0 each\n"), std::string::npos)
      << outcome.out;
  expect_narrow(outcome.out);
}

TEST_F(InspectText, ring_shows_occupancy_and_why_slots_do_not_move) {
  dir.write("c.bin", control_of({}));
  dir.write(
      "r.bin",
      ring_of(
          {{.status = 1, .opcode = 1, .args = {7, 160}},
           {.status = 7, .opcode = 99, .priority = 0x00010002, .args = {1, 2, 3}},
           {.status = 7, .opcode = 100, .priority = 0x012A0002},
           {.status = 4,
            .opcode = 0xFFFD,
            .priority = 1,
            .args = {9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}},
           {.status = 42, .opcode = 5, .tenant = 77, .priority = 9},
           {.status = 1, .opcode = 9, .tenant = 7},
           {.status = 1, .opcode = 9, .tenant = 1},
           {.status = 5, .opcode = 7, .args = {4, 1}},
           {.status = 1, .opcode = 7, .args = {99}},
           {.status = 1, .opcode = 0x80000001u, .args = {0x00010402, 0x00000202, 10, 32, 1, 64}},
           {.status = 1, .opcode = 0x80000001u, .args = {0xFFFFFFFFu}},
           {.status = 1, .opcode = 9, .tenant = 29},
           {},
           {},
           {},
           {}}));
  const Outcome outcome = everkernel({"inspect", "--control", "c.bin", "--ring", "r.bin"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  expect_holds(
      outcome.out,
      {"ring  r.bin  16 slots, 12 in the queue (neither empty nor done)\n",
       "  empty      4  25.0 %  ##########\n", "  unknown    1   6.2 %  ###\n",
       "STORE_U32    7, 160\n", "unknown_opcode\n", "handler fault 42\n", "LOAD_MISS    9, 0",
       "waits for IO slot 2\n", "status word 0x2a\n", "tenant disabled\n", "tenant has no quota\n",
       "waits for slot 6\n", "will fault: bad fence\n", "STORE_U32(10,32)", "ATOMIC_ADD(1,64)",
       "will fault: bad payload\n", "will fault: bad tenant\n",
       "  queue depth      12  75.0 %  of the slots are neither empty nor done\n"});
  expect_narrow(outcome.out);
}

TEST_F(InspectText, a_fence_is_not_stuck_behind_slots_that_have_ended) {
  dir.write("r.bin", ring_of({{.status = 1},
                              {.status = 3},
                              {.status = 7, .priority = 0x00010002},
                              {},
                              {.status = 5, .opcode = 7, .args = {3, 1}}}));
  EXPECT_EQ(everkernel({"inspect", "--ring", "r.bin"}).out.find("waits for"), std::string::npos);
}

TEST_F(InspectText, a_disabled_tenant_is_not_guessed_without_the_control_buffer) {
  dir.write("r.bin", ring_of({{.status = 1, .opcode = 9, .tenant = 7}}));
  const std::string out = everkernel({"inspect", "--ring", "r.bin"}).out;
  EXPECT_EQ(out.find("tenant disabled"), std::string::npos) << out;
  EXPECT_EQ(out.find("note"), std::string::npos) << out;
}

TEST_F(InspectText, long_tables_are_cut_to_32_rows_faults_first) {
  std::vector<Word> words;
  for (Word i = 0; i < 50; ++i) {
    const auto slot =
        slot_words({.status = i == 49 ? 7u : 3u, .priority = i == 49 ? 0x40002u : 2u});
    words.insert(words.end(), slot.begin(), slot.end());
  }
  dir.write("r.bin", bytes_of(words));
  const std::string cut = everkernel({"inspect", "--ring", "r.bin"}).out;
  expect_holds(cut, {"    49  fault ", "fuel_exhausted\n", "    30  done ", "... and 18 more"});
  EXPECT_EQ(cut.find("    31  done "), std::string::npos) << cut;
  const std::string whole = everkernel({"inspect", "--ring", "r.bin", "--all"}).out;
  expect_holds(whole, {"    31  done ", "    48  done "});
  EXPECT_EQ(whole.find("more"), std::string::npos) << whole;
}

TEST_F(InspectText, windows_debug_records_and_io_requests_have_tables) {
  dir.write("r.bin", ring_of({{.status = 1, .opcode = 64, .tenant = 1, .args = {9, 0}},
                              {.status = 6, .opcode = 64, .tenant = 1, .args = {9, 1}}}));
  dir.write("d.bin", bytes_of({8, 1, 2, 3, 16, 4, 5, 6, 32, 0, 0, 0, 0}));
  dir.write("q.bin", bytes_of({1, 9, 9, 0, 0, 0,    1,    9,   //
                               2, 3, 4, 5, 1, 4096, 0x11, 13,  //
                               0, 0, 0, 0, 0, 0,    0,    0}));
  const Outcome outcome = everkernel({"inspect", "--ring", "r.bin", "--window-opcode", "64",
                                      "--debug-log", "d.bin", "--io-queue", "q.bin"});
  expect_holds(outcome.out,
               {"       9  64           1         1          1  yes     1 published, 1 requeue\n",
                "debug log  d.bin  2 of 3 records\n", "       1    4  5  6     2\n",
                "IO queue  q.bin  2 requests in 3 slots\n", "read ", "published ",
                "4294967301   4096  error ", "Permission denied\n"});
  expect_narrow(outcome.out);
}

struct WatchdogCase {
  const char* name;
  Word done_before;
  SlotWords slot;
  bool shutdown;
  const char* sentence;
};

class Watchdog : public Program, public ::testing::WithParamInterface<WatchdogCase> {};

TEST_P(Watchdog, says_what_is_suspected_and_why) {
  dir.write("before.bin", control_of({{1, GetParam().done_before}}));
  dir.write("c.bin", control_of({{1, 7}, {0, GetParam().shutdown ? 1u : 0u}}));
  dir.write("r.bin", ring_of({GetParam().slot}));
  const Outcome outcome = everkernel(
      {"inspect", "--control", "c.bin", "--ring", "r.bin", "--previous-control", "before.bin"});
  expect_holds(outcome.out, {GetParam().sentence});
  expect_narrow(outcome.out);
}

INSTANTIATE_TEST_SUITE_P(
    Every, Watchdog,
    ::testing::Values(
        WatchdogCase{"stall",
                     7,
                     {.status = 1},
                     false,
                     "stall suspected: 0 slots completed since --previous-control, 1 can run\n"},
        WatchdogCase{"stuck",
                     7,
                     {.status = 2, .opcode = 70},
                     false,
                     "1 can run\n  a worker runs slot 0: opcode 70 of tenant 0\n"},
        WatchdogCase{"shutdown", 7, {.status = 1}, true, "1 can run, but shutdown is set\n"},
        WatchdogCase{"progress",
                     6,
                     {.status = 1},
                     false,
                     "no stall: 1 slot completed since --previous-control, 1 in the queue\n"},
        WatchdogCase{"empty",
                     7,
                     {},
                     false,
                     "no stall: 0 slots completed since --previous-control, and the queue "
                     "is empty"},
        WatchdogCase{"io", 7, {.status = 4}, false, "1 slot waiting for IO\n"},
        WatchdogCase{"fault", 7, {.status = 7}, false, "1 slot in fault\n"},
        WatchdogCase{"disabled",
                     7,
                     {.status = 1, .tenant = 9},
                     false,
                     "1 slot waits for a tenant\n  disabled: tenant 9\n"},
        WatchdogCase{"unknown", 7, {.status = 99}, false, "1 slot with an unknown status\n"}),
    [](const auto& test) { return test.param.name; });

TEST_F(InspectText, garbage_stays_within_the_width) {
  std::vector<Word> words(16 * 40, 0xFFFFFFFFu);
  for (std::size_t i = 0; i < 40; ++i) words[i * 16] = static_cast<Word>(i % 9);
  dir.write("r.bin", bytes_of(words));
  std::vector<Word> control(200, 0xFFFFFFFFu);
  dir.write("c.bin", bytes_of(control));
  std::vector<Word> queue(8, 0xFFFFFFFFu);
  dir.write("q.bin", bytes_of(queue));
  const Outcome outcome =
      everkernel({"inspect", "--control", "c.bin", "--ring", "r.bin", "--io-queue", "q.bin",
                  "--observables", "--window-opcode", "0xffffffff", "--previous-control", "c.bin"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  expect_narrow(outcome.out);
}

}  // namespace
}  // namespace everkernel::test
