// The program: puts the commands together, runs the one that was asked for, and turns what went
// wrong into `error:` and `hint:` lines and an exit status.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "commands.hpp"
#include "everkernel/base/version.hpp"
#include "files.hpp"
#include "options.hpp"

namespace everkernel::cli {
namespace {

// Exit statuses.
constexpr int kDone = 0;
constexpr int kIncomplete = 1;
constexpr int kBadInput = 2;
constexpr int kBackendFailed = 3;

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

// Not fmt::print, which throws when standard error is closed: the exit status must still come out.
void say(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}

int report(const Error& error) {
  std::string text = fmt::format("error: {}\n", error.message);
  if (!error.hint.empty()) text += fmt::format("hint: {}\n", error.hint);
  say(text);
  return status_of(error.code);
}

int finish(const Result<Ending>& result) {
  if (!result) return report(result.error());
  switch (*result) {
    case Ending::done:
      return kDone;
    case Ending::incomplete:
      return kIncomplete;
  }
  return kDone;
}

// The command that was being parsed: the innermost one that was named.
const CLI::App& innermost(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

std::string full_name(const CLI::App& command) {
  if (command.get_parent() == nullptr) return command.get_name();
  return full_name(*command.get_parent()) + " " + command.get_name();
}

// CLI11 puts the command's own name behind the one it is given.
std::string help_text(const CLI::App& command) {
  return command.help(command.get_parent() == nullptr ? "" : full_name(*command.get_parent()));
}

std::string commands_of(const CLI::App& command) {
  std::string names;
  for (const CLI::App* child : command.get_subcommands({})) {
    names += (names.empty() ? "" : ", ") + child->get_name();
  }
  return names;
}

// An argument nothing takes: a mistyped option, or a word where a command belongs.
Error unexpected(const CLI::App& command, const std::string& argument) {
  const std::string help = fmt::format("{} --help lists them all", full_name(command));
  if (argument.starts_with('-')) {
    return {.message = fmt::format("{} has no option {}", full_name(command), in_quotes(argument)),
            .hint = help};
  }
  if (command.get_subcommands({}).empty()) {
    return {.message = fmt::format("{} does not take {}", full_name(command), in_quotes(argument)),
            .hint = "values follow their option; " + help};
  }
  return {.message = fmt::format("{} has no command {}", full_name(command), in_quotes(argument)),
          .hint = fmt::format("commands: {}", commands_of(command))};
}

// Says in our words what CLI11 refused. An unknown argument comes first: it is often the mistyped
// form of the option CLI11 misses.
Error usage_error(const CLI::App& program, const CLI::ParseError& error, const char* last) {
  if (const auto* bad = dynamic_cast<const BadUsage*>(&error)) return bad->error();
  // CLI11 gives a value to every option but one at the very end.
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return {.message = fmt::format("{} needs a value", in_quotes(last))};
  }
  const CLI::App& command = innermost(program);
  const auto unknown = program.remaining(true);
  if (!unknown.empty()) return unexpected(command, unknown.front());
  return {.message = error.what(),
          .hint = fmt::format("{} --help shows how it is used", full_name(command))};
}

void add_commands(CLI::App& program, Action& action) {
  program.name("everkernel");
  program.require_subcommand(0, 1);
  program.set_help_flag("-h,--help", "Show this help");
  program.set_version_flag("--version", fmt::format("everkernel {}", version()),
                           "Show the version");
  const auto formatter = std::make_shared<CLI::Formatter>();
  formatter->column_width(30);
  formatter->label("OPTIONS", "options");
  formatter->label("REQUIRED", "(required)");
  formatter->label("SUBCOMMAND", "COMMAND");
  program.formatter(formatter);
  program.footer(
      "COMMAND --help tells more. Buffers are plain files of little-endian 32-bit words.\n"
      "Exit status: 0 done, 1 ran, but items became FAULT or remain, 2 bad usage or bad input, 3 "
      "the\n"
      "backend failed or is not there. With 2 and 3 nothing was written.");
  add_info(program, action);
  add_encode(program, action);
  add_publish(program, action);
  add_inspect(program, action);
  add_check(program, action);
  add_dispatch(program, action);
  add_run(program, action);
  add_bench(program, action);
}

int run(int argc, char** argv) {
  reserve_standard_streams();
  CLI::App program(
      "Runs work queues on a persistent megakernel; makes, fills and reads its shared buffers.");
  Action action;
  add_commands(program, action);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return finish(ended(print(help_text(innermost(program)))));
  } catch (const CLI::CallForVersion& text) {
    return finish(ended(print(fmt::format("{}\n", text.what()))));
  } catch (const CLI::ParseError& error) {
    return report(usage_error(program, error, argv[argc - 1]));
  }
  if (action) return finish(action());

  const CLI::App& command = innermost(program);
  if (argc > 1) {
    return report({.message = fmt::format("{} needs a command", full_name(command)),
                   .hint = fmt::format("commands: {}", commands_of(command))});
  }
  say(help_text(program));
  return kBadInput;
}

}  // namespace
}  // namespace everkernel::cli

int main(int argc, char** argv) {
  using namespace everkernel;
  try {
    return cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return cli::report(
        {.code = Code::out_of_memory, .message = "there is not enough memory for these buffers"});
  } catch (const std::exception& failure) {
    return cli::report({.code = Code::unsupported,
                        .message = failure.what(),
                        .hint = "this is a bug in everkernel"});
  }
}
