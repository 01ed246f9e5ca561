// Errors about wrong usage, and the output of --help and --version.
#include "program.hpp"
#include "support/build_paths.hpp"

namespace everkernel::test {
namespace {

using Usage = Program;

TEST_F(Usage, without_arguments_prints_the_help_to_standard_error) {
  const Outcome outcome = everkernel({});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("Usage: everkernel"), std::string::npos);
  EXPECT_NE(outcome.err.find("inspect"), std::string::npos);
}

TEST_F(Usage, version_is_one_line) {
  const Outcome outcome = everkernel({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "everkernel 0.1.0\n");
  EXPECT_EQ(outcome.err, "");
}

struct HelpCase {
  Args command;
  std::string usage;
  std::string option;
};

class Help : public Program, public ::testing::WithParamInterface<HelpCase> {};

TEST_P(Help, goes_to_standard_output_and_names_the_options) {
  Args args = GetParam().command;
  args.push_back("--help");
  const Outcome outcome = everkernel(args);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find(GetParam().usage), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(GetParam().option), std::string::npos) << outcome.out;
}

INSTANTIATE_TEST_SUITE_P(
    Every, Help,
    ::testing::Values(
        HelpCase{{}, "Usage: everkernel [options]", "publish"},
        HelpCase{{"info"}, "Usage: everkernel info [options]", "--json"},
        HelpCase{{"encode"}, "Usage: everkernel encode [options]", "debug-log"},
        HelpCase{{"encode", "control"}, "Usage: everkernel encode control", "--priority-slots"},
        HelpCase{{"encode", "ring"}, "Usage: everkernel encode ring", "--items"},
        HelpCase{{"encode", "debug-log"}, "Usage: everkernel encode debug-log", "--records"},
        HelpCase{{"encode", "io-queue"}, "Usage: everkernel encode io-queue", "--slots"},
        HelpCase{{"publish"}, "Usage: everkernel publish", "--packed"},
        HelpCase{{"inspect"}, "Usage: everkernel inspect", "--previous-control"},
        HelpCase{{"check"}, "Usage: everkernel check", "--emit"},
        HelpCase{{"dispatch"}, "Usage: everkernel dispatch", "--buffer HANDLE=FILE[:r|w|rw]"},
        HelpCase{{"run"}, "Usage: everkernel run", "--max-wall-time"},
        HelpCase{{"bench"}, "Usage: everkernel bench", "--smoke"}));

struct WrongCase {
  Args args;
  std::string part;  // of the error
};

class Wrong : public Program, public ::testing::WithParamInterface<WrongCase> {};

// The folder holds a valid ring and control buffer, so that only the usage is wrong.
TEST_P(Wrong, is_refused_and_writes_nothing) {
  const Bytes ring = ring_of({{}, {}, {.status = 1, .opcode = 9}, {}});
  const Bytes control = control_of({});
  dir.write("ring.bin", ring);
  dir.write("control.bin", control);
  expect_refused(everkernel(GetParam().args), GetParam().part);
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"control.bin", "ring.bin"}));
  EXPECT_EQ(dir.read("ring.bin"), ring);
  EXPECT_EQ(dir.read("control.bin"), control);
}

INSTANTIATE_TEST_SUITE_P(
    Command, Wrong,
    ::testing::Values(WrongCase{{"frob"}, "no command 'frob'"}, WrongCase{{""}, "no command ''"},
                      WrongCase{{"dispatch"}, "--control is required"},
                      WrongCase{{"bench", "--frob"}, "everkernel bench has no option '--frob'"},
                      WrongCase{{"run"}, "JOB is required"},
                      WrongCase{{"--frob"}, "no option '--frob'"},
                      WrongCase{{"--json"}, "no option '--json'"},
                      WrongCase{{"info", "--frob"}, "everkernel info has no option '--frob'"},
                      WrongCase{{"info", "extra"}, "does not take 'extra'"},
                      WrongCase{{"info", "encode"}, "does not take 'encode'"},
                      WrongCase{{"info", "--json=maybe"}, "--json"}));

INSTANTIATE_TEST_SUITE_P(
    Encode, Wrong,
    ::testing::Values(
        WrongCase{{"encode"}, "encode needs a command"},
        WrongCase{{"encode", "frob"}, "encode has no command 'frob'"},
        WrongCase{{"encode", "control", "-o", "x"}, "--tenants"},
        WrongCase{{"encode", "control", "--tenants", "1"}, "--output"},
        WrongCase{{"encode", "control", "--tenants", "-o", "x"}, "--tenants: '-o'"},
        WrongCase{{"encode", "control", "-o", "x", "--tenants"}, "'--tenants' needs a value"},
        WrongCase{{"encode", "control", "--tenants", "30", "-o", "x"}, "30 tenants"},
        WrongCase{
            {"encode", "control", "--tenants", "1", "--observable-slots", "1048577", "-o", "x"},
            "1048577 observables"},
        WrongCase{{"encode", "control", "--tenants", "1", "--priority-slots", "0", "-o", "x"},
                  "0 slots"},
        WrongCase{
            {"encode", "control", "--tenants", "1", "--priority-slots", "268435456", "-o", "x"},
            "268435456 slots"},
        WrongCase{{"encode", "control", "--tenants", "1", "--slots", "1", "-o", "x"}, "'--slots'"},
        WrongCase{{"encode", "ring", "-o", "x"}, "--slots"},
        WrongCase{{"encode", "ring", "--slots", "4"}, "--output"},
        WrongCase{{"encode", "ring", "--slots", "4", "-o", ""}, "--output: the path is empty"},
        WrongCase{{"encode", "ring", "--slots", "4", "-o", "x", "-o", "y"}, "--output was given 2"},
        WrongCase{{"encode", "ring", "--slots", "4", "-o", "x", "y"}, "does not take 'y'"},
        WrongCase{{"encode", "ring", "--slots", "0", "-o", "x"}, "0 slots"},
        WrongCase{{"encode", "ring", "--slots", "1048577", "-o", "x"}, "1048577 slots"},
        WrongCase{{"encode", "ring", "--slots", "4", "--tenant", "29", "-o", "x"}, "tenant 29"},
        WrongCase{{"encode", "ring", "--slots", "4", "--slots", "5", "-o", "x"},
                  "--slots was given 2 times"},
        WrongCase{{"encode", "debug-log", "-o", "x"}, "--records"},
        WrongCase{{"encode", "debug-log", "--records", "1048577", "-o", "x"}, "1048577 records"},
        WrongCase{{"encode", "io-queue", "-o", "x"}, "--slots"},
        WrongCase{{"encode", "io-queue", "--slots", "0", "-o", "x"}, "0 slots"},
        WrongCase{{"encode", "io-queue", "--slots", "65", "-o", "x"}, "65 slots"}));

// One parser reads the numbers of every option; these tests use --slots.
INSTANTIATE_TEST_SUITE_P(
    Number, Wrong,
    ::testing::Values(
        WrongCase{{"encode", "ring", "-o", "x", "--slots", ""}, "--slots: '' is not a number"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "-1"}, "--slots: '-1' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "+1"}, "--slots: '+1' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", " 1"}, "--slots: ' 1' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "1 "}, "--slots: '1 ' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "4k"}, "--slots: '4k' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "1.0"}, "--slots: '1.0' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "0x"}, "--slots: '0x' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "0xg"}, "--slots: '0xg' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "0x-1"}, "--slots: '0x-1' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "[4]"}, "--slots: '[4]' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "NOP"}, "--slots: 'NOP' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "a\nb"}, "--slots: 'a\\x0ab' is not"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "4294967296"},
                  "--slots: '4294967296' is too large"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "0x100000000"},
                  "--slots: '0x100000000' is too large"},
        WrongCase{{"encode", "ring", "-o", "x", "--slots", "99999999999999999999x"},
                  "--slots: '99999999999999999999x' is not a number"}));

Args publish(std::initializer_list<const char*> rest) {
  Args args = {"publish", "--ring", "ring.bin", "--slot", "0", "--tenant", "0"};
  args.insert(args.end(), rest.begin(), rest.end());
  return args;
}

INSTANTIATE_TEST_SUITE_P(
    Publish, Wrong,
    ::testing::Values(
        WrongCase{{"publish"}, "--ring is required"},
        WrongCase{{"publish", "--ring", "ring.bin", "--tenant", "0", "--opcode", "9"}, "--slot"},
        WrongCase{{"publish", "--ring", "ring.bin", "--slot", "0", "--opcode", "9"}, "--tenant"},
        WrongCase{publish({}), "one of --opcode, --packed and --batch"},
        WrongCase{publish({"--arg", "1"}), "one of --opcode, --packed and --batch"},
        WrongCase{publish({"--opcode", "9", "--packed", "NOP"}), "--opcode and --packed"},
        WrongCase{publish({"--opcode", "9", "--batch", "i"}), "--opcode and --batch"},
        WrongCase{publish({"--packed", "NOP", "--batch", "i"}), "--packed and --batch"},
        WrongCase{publish({"--packed", "NOP", "--arg", "1"}), "--arg does not go with --packed"},
        WrongCase{publish({"--batch", "i", "--arg", "1"}), "--arg does not go with --batch"},
        WrongCase{publish({"--opcode", "9", "--tag", "1"}), "--tag does not go with --opcode"},
        WrongCase{publish({"--packed", "1", "--tag", "1"}), "--tag does not go with --packed"},
        WrongCase{publish({"--opcode", "FROB"}), "--opcode: 'FROB' is neither"},
        WrongCase{publish({"--opcode", "1x"}), "--opcode: '1x' is not a number"},
        WrongCase{publish({"--opcode", "0xfff0"}), "opcode 65520"},
        WrongCase{publish({"--opcode", "0x80000002"}), "opcode 2147483650"},
        WrongCase{publish({"--opcode", "9", "--arg", "1,2"}), "--arg: '1,2' is not a number"},
        WrongCase{publish({"--opcode", "9", "--arg", "1", "2"}), "does not take '2'"},
        WrongCase{publish({"--opcode", "9", "--priority", "5"}), "priority 5"},
        WrongCase{publish({"--opcode", "9", "--priority", "urgent"}), "--priority: 'urgent'"},
        WrongCase{publish({"--packed", ""}), "--packed: '' is neither"},
        WrongCase{publish({"--packed", ":1"}), "--packed: '' is neither"},
        WrongCase{publish({"--packed", "NOP:1,"}), "--packed: 'NOP:1,' ends in a comma"},
        WrongCase{publish({"--packed", "NOP:,1"}), "--packed: '' is not a number"},
        WrongCase{publish({"--packed", "NOP:x"}), "--packed: 'x' is not a number"},
        WrongCase{publish({"--packed", "256"}), "--packed: '256' does not fit"},
        WrongCase{publish({"--packed", "PRINTF:1"}), "--packed: 'PRINTF' does not fit"},
        WrongCase{publish({"--packed", "1:1,2,3,4,5,6,7,8,9,10,11,12"}),
                  "do not fit the 12 words"}));

INSTANTIATE_TEST_SUITE_P(PublishRange, Wrong,
                         ::testing::Values(WrongCase{{"publish", "--ring", "ring.bin", "--slot",
                                                      "4", "--tenant", "0", "--opcode", "9"},
                                                     "slot 4 does not exist"},
                                           WrongCase{{"publish", "--ring", "ring.bin", "--slot",
                                                      "0", "--tenant", "29", "--opcode", "9"},
                                                     "tenant 29"},
                                           WrongCase{{"publish", "--ring", "ring.bin", "--slot",
                                                      "2", "--tenant", "0", "--opcode", "9"},
                                                     "slot 2 is in use"}));

INSTANTIATE_TEST_SUITE_P(
    Inspect, Wrong,
    ::testing::Values(
        WrongCase{{"inspect"}, "nothing to inspect"},
        WrongCase{{"inspect", "--json"}, "nothing to inspect"},
        WrongCase{{"inspect", "ring.bin"}, "does not take 'ring.bin'"},
        WrongCase{{"inspect", "--previous-control", "control.bin"}, "--previous-control needs"},
        WrongCase{{"inspect", "--previous-control", "control.bin", "--ring", "ring.bin"},
                  "--previous-control needs --control and --ring"},
        WrongCase{{"inspect", "--previous-control", "control.bin", "--control", "control.bin"},
                  "--previous-control needs --control and --ring"},
        WrongCase{{"inspect", "--ring", "ring.bin", "--observables"}, "--observables needs"},
        WrongCase{{"inspect", "--control", "control.bin", "--window-opcode", "9"},
                  "--window-opcode needs --ring"},
        WrongCase{{"inspect", "--ring", "ring.bin", "--window-opcode", "x"},
                  "--window-opcode: 'x'"},
        WrongCase{{"inspect", "--ring", "ring.bin", "--ring", "ring.bin"}, "--ring was given 2"}));

TEST_F(Usage, a_missing_command_hints_at_those_there_are) {
  const Outcome outcome = everkernel({"frob"});
  EXPECT_EQ(outcome.err,
            "error: everkernel has no command 'frob'\n"
            "hint: commands: run, check, info, bench, encode, publish, dispatch, inspect\n");
}

TEST_F(Usage, an_unknown_opcode_name_hints_at_the_table) {
  const Outcome outcome =
      everkernel({"publish", "--ring", "r", "--slot", "0", "--tenant", "0", "--opcode", "FROB"});
  EXPECT_EQ(outcome.err,
            "error: --opcode: 'FROB' is neither a number nor a built-in operation\n"
            "hint: built in: NOP, STORE_U32, ATOMIC_ADD, LOAD_U32, COMPARE_SWAP, MEMCPY, DFA_STEP, "
            "BATCH_FENCE, LOAD_MISS, PRINTF, PACKED_SLOT, SHUTDOWN\n");
}

TEST_F(Usage, a_closed_standard_error_does_not_change_the_status) {
  const Outcome outcome = run({.program = built_path("everkernel"),
                               .args = {"frob"},
                               .folder = dir.path(),
                               .stderr_closed = true});
  EXPECT_EQ(outcome.status, 2);
}

}  // namespace
}  // namespace everkernel::test
