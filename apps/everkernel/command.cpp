// The options of a command: each stores the value that a strict parser reads from its text.
#include "command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "everkernel/memory/available.hpp"

namespace everkernel::cli {
namespace {

// The long name, as errors call the option: "--output" of "-o,--output".
std::string long_name(const std::string& name) {
  const auto dashes = name.find("--");
  return dashes == name.npos ? name : name.substr(dashes);
}

template <class Target>
constexpr bool is_optional = requires(Target target) {
  target.reset();
};

// An option that takes one value: `parse` makes it of the option's long name and the text.
template <class Target, class Parse>
Option single_value(const std::string& name, std::string type, std::string help, Target& target,
                    Parse parse) {
  const auto read = [option = long_name(name), parse, &target](const Texts& texts) -> Result<void> {
    if (texts.size() != 1) {
      return bad_usage(fmt::format("{} was given {} times", option, texts.size()),
                       fmt::format("give {} once", option));
    }
    target = EVERKERNEL_TRY(parse(option, texts.front()));
    return {};
  };
  return {.name = name,
          .type = std::move(type),
          .help = std::move(help),
          .is_required = !is_optional<Target>,
          .read = read};
}

Result<std::string> parse_path(std::string_view option, std::string_view text) {
  if (text.empty())
    return bad_usage(fmt::format("{}: the path is empty", option), "give the path of a file");
  return std::string(text);
}

template <class Target>
Option choice(const std::string& name, Target& target, const Texts& choices,
              const std::string& help) {
  const auto parse = [choices](std::string_view option,
                               const std::string& text) -> Result<std::string> {
    if (std::ranges::find(choices, text) != choices.end()) return text;
    return bad_usage(fmt::format("{}: {} is not a choice", option, in_quotes(text)),
                     fmt::format("give one of {}", fmt::join(choices, ", ")));
  };
  Option option =
      single_value(name, fmt::format("{}", fmt::join(choices, "|")), help, target, parse);
  option.is_required = false;  // the target holds the choice that counts without it
  return option;
}

}  // namespace

void Command::add_command(std::string_view group, Command command) {
  command.group_ = group;
  commands_.push_back(std::move(command));
}

void Command::add_word(const std::string& name, std::optional<Word>& target,
                       const std::string& help, WordKind kind) {
  options_.push_back(single_value(name, std::string(kind.type), help, target, kind.parse));
}

void Command::add_word(const std::string& name, Word& target, const std::string& help,
                       WordKind kind) {
  options_.push_back(single_value(name, std::string(kind.type), help, target, kind.parse));
}

void Command::add_path(const std::string& name, std::optional<std::string>& target,
                       const std::string& help) {
  options_.push_back(single_value(name, "FILE", help, target, parse_path));
}

void Command::add_path(const std::string& name, std::string& target, const std::string& help) {
  const bool is_positional = !name.starts_with('-');  // its name describes the value
  options_.push_back(single_value(name, is_positional ? "" : "FILE", help, target, parse_path));
}

void Command::add_folder(const std::string& name, std::optional<std::string>& target,
                         const std::string& help) {
  options_.push_back(single_value(name, "DIR", help, target, parse_path));
}

void Command::add_folder(const std::string& name, std::string& target, const std::string& help) {
  options_.push_back(single_value(name, "DIR", help, target, parse_path));
}

void Command::add_choice(const std::string& name, std::optional<std::string>& target,
                         const std::vector<std::string>& choices, const std::string& help) {
  options_.push_back(choice(name, target, choices, help));
}

void Command::add_choice(const std::string& name, std::string& target,
                         const std::vector<std::string>& choices, const std::string& help) {
  options_.push_back(choice(name, target, choices, help));
}

void Command::add_duration(const std::string& name, std::optional<std::chrono::nanoseconds>& target,
                           const std::string& help) {
  options_.push_back(single_value(name, "TIME", help, target, parse_duration));
}

void Command::add_bytes(const std::string& name, std::optional<std::uint64_t>& target,
                        const std::string& help) {
  options_.push_back(single_value(name, "BYTES", help, target, parse_bytes));
}

void Command::add_words(const std::string& name, std::vector<Word>& target, const std::string& help,
                        WordKind kind) {
  const auto read = [option = long_name(name), kind, &target](const Texts& texts) -> Result<void> {
    for (const std::string& text : texts) {
      target.push_back(EVERKERNEL_TRY(kind.parse(option, text)));
    }
    return {};
  };
  options_.push_back({.name = name, .type = std::string(kind.type), .help = help, .read = read});
}

void Command::add_texts(const std::string& name, Texts& target, const std::string& help,
                        const std::string& type) {
  const auto read = [&target](const Texts& texts) -> Result<void> {
    target = texts;
    return {};
  };
  options_.push_back({.name = name, .type = type, .help = help, .read = read});
}

void Command::add_list(const std::string& name, Texts& target, const std::string& help) {
  add_texts(name, target, help, "");
  options_.back().is_list = true;
}

void Command::add_flag(const std::string& name, bool& target, const std::string& help) {
  options_.push_back({.name = name, .help = help, .flag = &target});
}

void Command::add_json(bool& target) {
  add_flag("--json", target, "Print one JSON object instead of text");
}

void Command::add_memory_limit() {
  const auto read = [](const Texts& texts) -> Result<void> {
    const std::uint64_t bytes = EVERKERNEL_TRY(parse_bytes("--memory-limit", texts.back()));
    if (bytes == 0) {
      return bad_usage("--memory-limit: nothing fits in 0 bytes", "give more, or omit the option");
    }
    memory::set_limit(bytes);
    return {};
  };
  options_.push_back({.name = "--memory-limit",
                      .type = "SIZE",
                      .help = "Memory that this command may use, such as 512MiB or 4GiB; by\n"
                              "default what the machine and the container have left",
                      .read = read});
}

void Command::add_backend(std::string& target) {
  add_choice("--backend", target, {"auto", "cpu", "cuda"},
             "Where items run; auto (default) takes cuda if available, else\ncpu");
}

Failure bad_usage(std::string message, std::string hint) {
  return fail(Code::invalid_argument, std::move(message), std::move(hint));
}

}  // namespace everkernel::cli
