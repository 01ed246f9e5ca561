// Parses the values of options, and formats numbers for people.
//
// Parsing is strict: a text that is not a number as a whole, or not in range, is an error that
// names the option and the text.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "everkernel/abi/platform.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::cli {

using abi::Word;

/// A decimal or 0x number of 32 bits, without sign or space. `option` is its name in errors.
Result<Word> parse_number(std::string_view option, std::string_view text);
/// A number, or the name of a built-in operation in any case.
Result<Word> parse_opcode(std::string_view option, std::string_view text);
/// A number, or the name of a priority in any case. The library checks the range later.
Result<Word> parse_priority(std::string_view option, std::string_view text);
/// A decimal number of bytes below 2^63, optionally followed by KiB, MiB or GiB.
Result<std::uint64_t> parse_bytes(std::string_view option, std::string_view text);
/// A decimal number, optionally with a point, followed by ns, us, ms, s, m or h.
Result<std::chrono::nanoseconds> parse_duration(std::string_view option, std::string_view text);

/// The text in single quotes; bytes that would garble a terminal are written as \xNN.
std::string in_quotes(std::string_view text);
/// The number with a comma every three digits.
std::string grouped(std::uint64_t number);
/// "1 slot", "2 slots": the number, grouped, and the noun with its ending.
std::string counted(std::uint64_t number, std::string_view noun);
/// part / whole as a percentage with one decimal; "0.0 %" if whole is 0.
std::string percent(std::uint64_t part, std::uint64_t whole);
/// How often a second: whole from 10 up, with a decimal below, "1 every 33.3 s" if that is less
/// than once a second.
std::string rate_text(std::uint64_t count, std::chrono::nanoseconds time, std::string_view noun);
/// The name of a built-in operation, else the number (hexadecimal from 65,536 up).
std::string opcode_text(Word opcode);

}  // namespace everkernel::cli
