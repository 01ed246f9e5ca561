// Adds typed options to a command: CLI11 finds the texts, numbers.hpp reads them.
//
// CLI11's own conversions are not used: they accept signs, octal and junk, and their messages name
// neither the text nor the range.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "everkernel/base/result.hpp"
#include "numbers.hpp"

namespace everkernel::cli {

/// Leaves CLI11's parser with an Error of ours.
class BadUsage : public CLI::ParseError {
 public:
  /// Carries `error` to main.cpp.
  explicit BadUsage(everkernel::Error error);
  /// What was wrong.
  const everkernel::Error& error() const { return error_; }

 private:
  everkernel::Error error_;
};

/// How an option's text is read.
using WordParser = Result<Word> (*)(std::string_view option, std::string_view text);

/// Adds an option that takes one word; giving it twice is an error.
CLI::Option* add_word(CLI::App& command, const std::string& name, std::optional<Word>& target,
                      const std::string& help, WordParser parser = parse_number);
/// Adds an option that takes one word and must be given.
CLI::Option* add_word(CLI::App& command, const std::string& name, Word& target,
                      const std::string& help, WordParser parser = parse_number);
/// Adds an option that takes one word each time it is given.
CLI::Option* add_words(CLI::App& command, const std::string& name, std::vector<Word>& target,
                       const std::string& help, WordParser parser = parse_number);
/// Adds an option that takes one text each time it is given; the help calls it `type`.
CLI::Option* add_texts(CLI::App& command, const std::string& name, std::vector<std::string>& target,
                       const std::string& help, const std::string& type);
/// Adds an option that takes one path; giving it twice is an error.
CLI::Option* add_path(CLI::App& command, const std::string& name,
                      std::optional<std::string>& target, const std::string& help);
/// Adds an option that takes one path and must be given.
CLI::Option* add_path(CLI::App& command, const std::string& name, std::string& target,
                      const std::string& help);
/// Adds an option that takes one of `choices`; `target` holds the one that counts unless given.
CLI::Option* add_choice(CLI::App& command, const std::string& name, std::string& target,
                        const std::vector<std::string>& choices, const std::string& help);
/// Adds an option that takes one time; giving it twice is an error.
CLI::Option* add_duration(CLI::App& command, const std::string& name,
                          std::optional<std::chrono::nanoseconds>& target, const std::string& help);
/// Adds an option that takes one number of bytes; giving it twice is an error.
CLI::Option* add_bytes(CLI::App& command, const std::string& name,
                       std::optional<std::uint64_t>& target, const std::string& help);
/// Adds `--json`, which every command has.
void add_json(CLI::App& command, bool& target);

/// The error of options that do not go together.
Failure bad_usage(std::string message, std::string hint = {});

}  // namespace everkernel::cli
