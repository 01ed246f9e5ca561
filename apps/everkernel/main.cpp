// The program: puts the commands together, runs the one that the arguments name, and turns its
// error into `error:` and `hint:` lines and an exit status.
#include <exception>
#include <new>

#include "command_line.hpp"
#include "commands.hpp"
#include "files.hpp"
#include "interrupt.hpp"

namespace everkernel::cli {
namespace {

// Exit statuses.
constexpr int kDone = 0;
constexpr int kIncomplete = 1;
constexpr int kBadInput = 2;
constexpr int kBackendFailed = 3;
constexpr int kUndelivered = 4;

int status_of(Code code) {
  switch (code) {
    case Code::invalid_argument:
    case Code::queue_full:
    case Code::io:
    case Code::corrupt:
      return kBadInput;
    case Code::device_lost:
    case Code::unsupported:
    case Code::timeout:
    case Code::out_of_memory:
      return kBackendFailed;
  }
  return kBackendFailed;
}

int report(const Error& error) {
  say(error);
  return status_of(error.code);
}

int finish(const Result<Ending>& result) {
  if (!result) return report(result.error());
  switch (*result) {
    case Ending::done:
      return kDone;
    case Ending::incomplete:
      return kIncomplete;
    case Ending::undelivered:
      return kUndelivered;
  }
  return kDone;
}

Command make_program() {
  constexpr std::string_view kCommands = "Commands";
  constexpr std::string_view kBufferCommands = "Commands on buffer files";
  Command program(
      "everkernel",
      "Runs queues of work items on a persistent megakernel, on a GPU or on CPU threads.");
  program.add_command(kCommands, run_command());
  program.add_command(kCommands, check_command());
  program.add_command(kCommands, info_command());
  program.add_command(kCommands, bench_command());
  program.add_command(kBufferCommands, encode_command());
  program.add_command(kBufferCommands, publish_command());
  program.add_command(kBufferCommands, dispatch_command());
  program.add_command(kBufferCommands, inspect_command());
  program.set_footer(
      "everkernel COMMAND --help shows the options of a command. `run` does all of a job; the\n"
      "commands on buffer files do its steps by hand. A buffer file holds little-endian 32-bit\n"
      "words.\n"
      "Exit status:\n"
      "  0  everything was done\n"
      "  1  the command ran, but items ended as FAULT or have not ended\n"
      "  2  wrong usage or wrong input; no file was written\n"
      "  3  the backend failed or is not available; no file was written\n"
      "  4  the command ran, but results could not be written or printed; the message says what\n"
      "     is where");
  return program;
}

int run(int argc, char** argv) {
  reserve_standard_streams();
  ignore_write_signals();
  const Command program = make_program();
  if (argc < 2) {
    say(help_text(program));
    return kBadInput;
  }
  const auto action = parse_command_line(program, argc, argv);
  if (!action) return report(action.error());
  return finish((*action)());
}

}  // namespace
}  // namespace everkernel::cli

int main(int argc, char** argv) {
  using namespace everkernel;
  try {
    return cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return cli::report(
        {.code = Code::out_of_memory, .message = "not enough memory for these buffers"});
  } catch (const std::exception& failure) {
    return cli::report(
        {.code = Code::unsupported,
         .message = failure.what(),
         .hint = "this is a bug in everkernel: please report it with the command line"});
  }
}
