// A command of the program as a value: its name, its help, its options and the function it calls.
//
// A command's file describes it; command_line.cpp matches the arguments of the program with the
// descriptions. Option values are read by the strict parsers of numbers.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "everkernel/base/result.hpp"
#include "numbers.hpp"

namespace everkernel::cli {

/// How a command ended that did not fail.
enum class Ending {
  done,         ///< everything it was asked for is done
  incomplete,   ///< it ran, but items became FAULT or remain
  undelivered,  ///< it ran, but results could not be written or printed; it has said so
};

/// Does the work of a command: reads files, writes files, prints the report. A command that fails
/// has written none.
using Action = std::function<Result<Ending>()>;

/// The texts of one option, in the order they were given.
using Texts = std::vector<std::string>;

/// One option, flag or positional argument of a command.
struct Option {
  std::string name = {};     ///< `-o,--output`; without dashes it is a positional argument
  std::string type = {};     ///< the help's word for its value: `N`, `FILE`
  std::string help = {};     ///< a line break starts a new line in the same column
  bool is_required = false;  ///< leaving it out is an error
  bool is_list = false;      ///< a positional argument that takes all remaining arguments
  bool* flag = nullptr;      ///< set for an option without a value: becomes true when given
  std::function<Result<void>(const Texts&)> read = {};  ///< stores its texts; empty for a flag
};

/// The values of an option that takes a word: their name in the help and how they are read.
struct WordKind {
  std::string_view type;
  Result<Word> (*parse)(std::string_view option, std::string_view text);
};
inline constexpr WordKind kNumber = {"N", parse_number};
inline constexpr WordKind kOpcode = {"OP", parse_opcode};
inline constexpr WordKind kPriority = {"P", parse_priority};

/// The description of one command. Its options live as long as a copy of it does.
class Command {
 public:
  /// `help` is the line about it in the help of the command above it.
  Command(std::string name, std::string help) : name_(std::move(name)), help_(std::move(help)) {}

  /// Makes it call `run`. Gives the options that `run` will get, for the add_ functions to fill.
  template <class Options>
  Options& set_action(Result<Ending> (*run)(const Options&)) {
    const auto options = std::make_shared<Options>();
    action_ = [options, run] { return run(*options); };
    return *options;
  }
  /// Sets the text below the options in its help.
  void set_footer(std::string footer) { footer_ = std::move(footer); }
  /// Adds a command below this one; the help lists it under the title `group`.
  void add_command(std::string_view group, Command command);

  // Options that take one value. A target without std::optional makes the option required. Giving
  // the option twice is an error.

  /// Adds an option that takes one word.
  void add_word(const std::string& name, std::optional<Word>& target, const std::string& help,
                WordKind kind = kNumber);
  /// Adds an option that takes one word and must be given.
  void add_word(const std::string& name, Word& target, const std::string& help,
                WordKind kind = kNumber);
  /// Adds an option that takes one path of a file. A name without dashes is a positional argument.
  void add_path(const std::string& name, std::optional<std::string>& target,
                const std::string& help);
  /// Adds an option that takes one path of a file and must be given.
  void add_path(const std::string& name, std::string& target, const std::string& help);
  /// Adds an option that takes one path of a folder.
  void add_folder(const std::string& name, std::optional<std::string>& target,
                  const std::string& help);
  /// Adds an option that takes one path of a folder and must be given.
  void add_folder(const std::string& name, std::string& target, const std::string& help);
  /// Adds an option that takes one of `choices`.
  void add_choice(const std::string& name, std::optional<std::string>& target,
                  const std::vector<std::string>& choices, const std::string& help);
  /// Adds an option that takes one of `choices`; without the option `target` keeps its value.
  void add_choice(const std::string& name, std::string& target,
                  const std::vector<std::string>& choices, const std::string& help);
  /// Adds an option that takes a length of time.
  void add_duration(const std::string& name, std::optional<std::chrono::nanoseconds>& target,
                    const std::string& help);
  /// Adds an option that takes a number of bytes.
  void add_bytes(const std::string& name, std::optional<std::uint64_t>& target,
                 const std::string& help);

  // Options that may be given several times, with one value each time.

  /// Adds an option whose values are words.
  void add_words(const std::string& name, std::vector<Word>& target, const std::string& help,
                 WordKind kind = kNumber);
  /// Adds an option whose values are texts; the help calls a value `type`.
  void add_texts(const std::string& name, Texts& target, const std::string& help,
                 const std::string& type);
  /// Adds a positional argument that takes all remaining arguments.
  void add_list(const std::string& name, Texts& target, const std::string& help);

  // Options without a value.

  /// Adds a flag: `target` becomes true when it is given.
  void add_flag(const std::string& name, bool& target, const std::string& help);
  /// Adds `--json`, which every command has.
  void add_json(bool& target);
  /// Adds `--memory-limit`, which every command that reads files has. The limit is that of the
  /// process, so the option sets it at once.
  void add_memory_limit();
  /// Adds `--backend`, which every command that runs items has.
  void add_backend(std::string& target);

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::string& footer() const { return footer_; }
  const std::string& group() const { return group_; }
  /// Empty for a command that only has commands below it.
  const Action& action() const { return action_; }
  const std::vector<Option>& options() const { return options_; }
  const std::vector<Command>& commands() const { return commands_; }

 private:
  std::string name_;
  std::string help_;
  std::string footer_ = {};
  std::string group_ = {};  // the title it is listed under in the command above it
  Action action_ = {};
  std::vector<Option> options_ = {};
  std::vector<Command> commands_ = {};
};

/// The error of options that contradict each other or the input.
Failure bad_usage(std::string message, std::string hint = {});

}  // namespace everkernel::cli
