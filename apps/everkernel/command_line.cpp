// The one file that knows CLI11: it finds the texts of every option, and this project's own parsers
// read them. CLI11's conversions are not used: they accept signs, octal numbers and trailing
// characters, and their messages name neither the text nor the range.
#include "command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "delivery.hpp"
#include "everkernel/base/version.hpp"

namespace everkernel::cli {
namespace {

// Leaves CLI11's parser with an Error of ours.
class BadUsage : public CLI::ParseError {
 public:
  explicit BadUsage(everkernel::Error error)
      : CLI::ParseError(error.message, CLI::ExitCodes::ValidationError), error_(std::move(error)) {}
  const everkernel::Error& error() const { return error_; }

 private:
  everkernel::Error error_;
};

// --- from descriptions to CLI11 ------------------------------------------------------------------

void add_option(CLI::App& app, const Option& option) {
  if (option.flag != nullptr) {
    app.add_flag(option.name, *option.flag, option.help);
    return;
  }
  CLI::callback_t callback = [&option](const Texts& texts) {
    const auto read = option.read(texts);
    if (!read) throw BadUsage(read.error());
    return true;
  };
  // Every option collects all its texts (take_all): an option given twice is then reported in our
  // words, and an option that repeats takes one text each time, never several.
  CLI::Option* const added = app.add_option(option.name, callback, option.help);
  added->type_name(option.type)->take_all()->required(option.is_required);
  if (option.is_list) added->expected(CLI::detail::expected_max_vector_size);
}

void add_content(CLI::App& app, const Command& command, const Action*& chosen) {
  for (const Option& option : command.options()) add_option(app, option);
  for (const Command& child : command.commands()) {
    CLI::App* const added = app.add_subcommand(child.name(), child.help());
    added->group(child.group());
    add_content(*added, child, chosen);
  }
  if (!command.commands().empty()) app.require_subcommand(0, 1);
  // After the commands below it, which would otherwise repeat it in their help.
  if (!command.footer().empty()) app.footer(command.footer());
  if (command.action()) app.callback([&command, &chosen] { chosen = &command.action(); });
}

// CLI11's form of the program. `chosen` is set while it parses.
std::unique_ptr<CLI::App> make_parser(const Command& program, const Action*& chosen) {
  auto app = std::make_unique<CLI::App>(program.help());
  app->name(program.name());
  app->set_help_flag("-h,--help", "Show this help");
  app->set_version_flag("--version", fmt::format("{} {}", program.name(), version()),
                        "Show the version");
  const auto formatter = std::make_shared<CLI::Formatter>();
  formatter->column_width(30);
  formatter->label("OPTIONS", "options");
  formatter->label("REQUIRED", "(required)");
  formatter->label("SUBCOMMAND", "COMMAND");
  app->formatter(formatter);
  add_content(*app, program, chosen);
  return app;
}

// --- from CLI11 to help and errors ---------------------------------------------------------------

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

// CLI11 appends the command's own name to the name that it is given.
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

// The error of an argument that no option takes: a mistyped option, or a word in place of a
// command.
Failure unexpected(const CLI::App& command, const std::string& argument) {
  const std::string help = fmt::format("see {} --help", full_name(command));
  if (argument.starts_with('-')) {
    return bad_usage(fmt::format("{} has no option {}", full_name(command), in_quotes(argument)),
                     help);
  }
  if (command.get_subcommands({}).empty()) {
    return bad_usage(fmt::format("{} does not take {}", full_name(command), in_quotes(argument)),
                     "a value must follow its option; " + help);
  }
  return bad_usage(fmt::format("{} has no command {}", full_name(command), in_quotes(argument)),
                   fmt::format("commands: {}", commands_of(command)));
}

// Words CLI11's refusal in our way. An unknown argument comes first: it is often the mistyped form
// of the option that CLI11 reports as missing.
Failure usage_error(const CLI::App& program, const CLI::ParseError& error, const char* last) {
  if (const auto* bad = dynamic_cast<const BadUsage*>(&error)) return Failure(bad->error());
  // Only an option at the very end can lack its value: elsewhere CLI11 takes the next argument.
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return bad_usage(fmt::format("{} needs a value", in_quotes(last)),
                     fmt::format("see {} --help", full_name(innermost(program))));
  }
  const CLI::App& command = innermost(program);
  const auto unknown = program.remaining(true);
  if (!unknown.empty()) return unexpected(command, unknown.front());
  return bad_usage(error.what(), fmt::format("see {} --help", full_name(command)));
}

Action printer(std::string text) {
  return [text = std::move(text)] { return deliver_text(text); };
}

}  // namespace

std::string help_text(const Command& program) {
  const Action* chosen = nullptr;
  return help_text(*make_parser(program, chosen));
}

Result<Action> parse_command_line(const Command& program, int argc, const char* const* argv) {
  const Action* chosen = nullptr;
  const auto parser = make_parser(program, chosen);
  try {
    parser->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return printer(help_text(innermost(*parser)));
  } catch (const CLI::CallForVersion& text) {
    return printer(fmt::format("{}\n", text.what()));
  } catch (const CLI::ParseError& error) {
    return usage_error(*parser, error, argv[argc - 1]);
  }
  if (chosen != nullptr) return *chosen;
  const CLI::App& command = innermost(*parser);
  return bad_usage(fmt::format("{} needs a command", full_name(command)),
                   fmt::format("commands: {}", commands_of(command)));
}

}  // namespace everkernel::cli
