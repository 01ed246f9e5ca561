// The glue between CLI11 and the strict parsers.
#include "options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace everkernel::cli {
namespace {

using Texts = std::vector<std::string>;

// The long name, as errors call the option: "--output" of "-o,--output".
std::string long_name(const std::string& name) {
  return name.substr(name.find("--"));
}

// Every option collects all its texts (take_all): an option given twice is then reported in our
// words, and one that repeats takes just one text each time, never a row of them.
CLI::Option* add_option(CLI::App& command, const std::string& name, const std::string& help,
                        const std::string& type, std::function<void(const Texts&)> take) {
  CLI::callback_t callback = [take = std::move(take)](const Texts& texts) {
    take(texts);
    return true;
  };
  return command.add_option(name, callback, help)->type_name(type)->take_all();
}

const std::string& single(const std::string& option, const Texts& texts) {
  if (texts.size() == 1) return texts.front();
  throw BadUsage({.message = fmt::format("{} was given {} times", option, texts.size()),
                  .hint = fmt::format("give {} once", option)});
}

Word parsed(WordParser parser, const std::string& option, const std::string& text) {
  const auto word = parser(option, text);
  if (!word) throw BadUsage(word.error());
  return *word;
}

// What the help calls the value.
const char* type_of(WordParser parser) {
  if (parser == parse_opcode) return "OP";
  return parser == parse_priority ? "P" : "N";
}

template <class Target>
CLI::Option* add_single_word(CLI::App& command, const std::string& name, Target& target,
                             const std::string& help, WordParser parser) {
  const std::string option = long_name(name);
  return add_option(command, name, help, type_of(parser), [=, &target](const Texts& texts) {
    target = parsed(parser, option, single(option, texts));
  });
}

template <class Target>
CLI::Option* add_single_path(CLI::App& command, const std::string& name, Target& target,
                             const std::string& help) {
  const std::string option = long_name(name);
  return add_option(command, name, help, "FILE", [=, &target](const Texts& texts) {
    const std::string& path = single(option, texts);
    if (path.empty()) throw BadUsage({.message = fmt::format("{}: the path is empty", option)});
    target = path;
  });
}

}  // namespace

BadUsage::BadUsage(everkernel::Error error)
    : CLI::ParseError(error.message, CLI::ExitCodes::ValidationError), error_(std::move(error)) {}

CLI::Option* add_word(CLI::App& command, const std::string& name, std::optional<Word>& target,
                      const std::string& help, WordParser parser) {
  return add_single_word(command, name, target, help, parser);
}

CLI::Option* add_word(CLI::App& command, const std::string& name, Word& target,
                      const std::string& help, WordParser parser) {
  return add_single_word(command, name, target, help, parser)->required();
}

CLI::Option* add_words(CLI::App& command, const std::string& name, std::vector<Word>& target,
                       const std::string& help, WordParser parser) {
  const std::string option = long_name(name);
  return add_option(command, name, help, type_of(parser), [=, &target](const Texts& texts) {
    for (const std::string& text : texts) target.push_back(parsed(parser, option, text));
  });
}

CLI::Option* add_texts(CLI::App& command, const std::string& name, std::vector<std::string>& target,
                       const std::string& help, const std::string& type) {
  return add_option(command, name, help, type, [&target](const Texts& texts) { target = texts; });
}

CLI::Option* add_path(CLI::App& command, const std::string& name,
                      std::optional<std::string>& target, const std::string& help) {
  return add_single_path(command, name, target, help);
}

CLI::Option* add_path(CLI::App& command, const std::string& name, std::string& target,
                      const std::string& help) {
  return add_single_path(command, name, target, help)->required();
}

CLI::Option* add_choice(CLI::App& command, const std::string& name, std::string& target,
                        const std::vector<std::string>& choices, const std::string& help) {
  const std::string type = fmt::format("{}", fmt::join(choices, "|"));
  return add_option(command, name, help, type, [=, &target](const Texts& texts) {
    const std::string& text = single(name, texts);
    if (std::ranges::find(choices, text) == choices.end()) {
      throw BadUsage({.message = fmt::format("{} does not know {}", name, in_quotes(text)),
                      .hint = fmt::format("it takes {}", fmt::join(choices, ", "))});
    }
    target = text;
  });
}

CLI::Option* add_duration(CLI::App& command, const std::string& name,
                          std::optional<std::chrono::nanoseconds>& target,
                          const std::string& help) {
  return add_option(command, name, help, "TIME", [=, &target](const Texts& texts) {
    const auto duration = parse_duration(name, single(name, texts));
    if (!duration) throw BadUsage(duration.error());
    target = *duration;
  });
}

CLI::Option* add_bytes(CLI::App& command, const std::string& name,
                       std::optional<std::uint64_t>& target, const std::string& help) {
  return add_option(command, name, help, "BYTES", [=, &target](const Texts& texts) {
    const auto bytes = parse_bytes(name, single(name, texts));
    if (!bytes) throw BadUsage(bytes.error());
    target = *bytes;
  });
}

void add_json(CLI::App& command, bool& target) {
  command.add_flag("--json", target, "Print one JSON object instead of text");
}

Failure bad_usage(std::string message, std::string hint) {
  return fail(Code::invalid_argument, std::move(message), std::move(hint));
}

}  // namespace everkernel::cli
