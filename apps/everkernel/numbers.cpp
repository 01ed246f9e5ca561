// Strict parsing of option values, and the number formats of the reports.
#include "numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/slot.hpp"
#include "everkernel/base/duration_text.hpp"

namespace everkernel::cli {
namespace {

bool equal_in_any_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool is_hexadecimal(std::string_view text) {
  return text.starts_with("0x") || text.starts_with("0X");
}

// The digits as a number; `error` is the reason if they are none. from_chars accepts no sign for
// unsigned types, no space and no prefix; that it used the whole text is checked here.
std::optional<Word> read_digits(std::string_view digits, int base, std::errc& error) {
  Word number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, code] = std::from_chars(digits.data(), end, number, base);
  error = code;
  if (code == std::errc{} && stop != end) error = std::errc::invalid_argument;
  // Other characters behind too many digits: not a number, rather than too large.
  if (code == std::errc::result_out_of_range && stop != end) error = std::errc::invalid_argument;
  if (error != std::errc{}) return std::nullopt;
  return number;
}

std::string names_of_opcodes() {
  std::string names;
  for (const abi::OpcodeInfo& row : abi::kOpcodes) {
    names += names.empty() ? "" : ", ";
    names += row.name;
  }
  return names;
}

std::string names_of_priorities() {
  std::string names;
  for (Word priority = 0; priority < abi::kPriorityCount; ++priority) {
    names +=
        fmt::format("{}{} ({})", names.empty() ? "" : ", ", abi::priority_name(priority), priority);
  }
  return names;
}

struct TimeUnit {
  std::string_view name;
  double nanoseconds;
};

// Smallest first. A text that ends in `ms` also ends in `s`: the longest matching name counts.
constexpr TimeUnit kTimeUnits[] = {{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6},
                                   {"s", 1e9},  {"m", 60e9}, {"h", 3600e9}};

const TimeUnit* unit_at_end(std::string_view text) {
  const TimeUnit* found = nullptr;
  for (const TimeUnit& unit : kTimeUnits) {
    if (!text.ends_with(unit.name)) continue;
    if (found == nullptr || unit.name.size() > found->name.size()) found = &unit;
  }
  return found;
}

// Digits, optionally with one point between digits: from_chars would also accept `inf`, `-1`, `.5`.
std::optional<double> read_decimal(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view fraction = point == text.npos ? "0" : text.substr(point + 1);
  for (const std::string_view digits : {whole, fraction}) {
    if (digits.empty() || digits.find_first_not_of(kDigits) != digits.npos) return std::nullopt;
  }
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Whether the text was meant as a number: then the error about numbers is the helpful one.
bool looks_numeric(std::string_view text) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9';
}

}  // namespace

Result<Word> parse_number(std::string_view option, std::string_view text) {
  const bool hexadecimal = is_hexadecimal(text);
  std::errc error{};
  const auto number = read_digits(text.substr(hexadecimal ? 2 : 0), hexadecimal ? 16 : 10, error);
  if (number) return *number;
  constexpr Word kMax = std::numeric_limits<Word>::max();
  if (error == std::errc::result_out_of_range) {
    return fail(Code::invalid_argument,
                fmt::format("{}: {} is too large for 32 bits", option, in_quotes(text)),
                fmt::format("the largest number is {} (0x{:x})", kMax, kMax));
  }
  return fail(Code::invalid_argument,
              fmt::format("{}: {} is not a number", option, in_quotes(text)),
              fmt::format("give a decimal or 0x hexadecimal number, 0..{}", kMax));
}

Result<Word> parse_opcode(std::string_view option, std::string_view text) {
  for (const abi::OpcodeInfo& row : abi::kOpcodes) {
    if (equal_in_any_case(row.name, text)) return static_cast<Word>(row.opcode);
  }
  if (looks_numeric(text)) return parse_number(option, text);
  return fail(
      Code::invalid_argument,
      fmt::format("{}: {} is neither a number nor a built-in operation", option, in_quotes(text)),
      fmt::format("built in: {}", names_of_opcodes()));
}

Result<Word> parse_priority(std::string_view option, std::string_view text) {
  for (Word priority = 0; priority < abi::kPriorityCount; ++priority) {
    if (equal_in_any_case(abi::priority_name(priority), text)) return priority;
  }
  if (looks_numeric(text)) return parse_number(option, text);
  return fail(Code::invalid_argument,
              fmt::format("{}: {} is neither a number nor a priority", option, in_quotes(text)),
              fmt::format("priorities: {}", names_of_priorities()));
}

Result<std::uint64_t> parse_bytes(std::string_view option, std::string_view text) {
  constexpr std::pair<std::string_view, int> kUnits[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
  std::string_view digits = text;
  int shift = 0;
  for (const auto& [name, bits] : kUnits) {
    if (!text.ends_with(name)) continue;
    digits.remove_suffix(name.size());
    shift = bits;
  }
  std::uint64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error == std::errc::invalid_argument || stop != end) {
    return fail(Code::invalid_argument,
                fmt::format("{}: {} is not a number of bytes", option, in_quotes(text)),
                "examples: 1048576, 1024KiB, 1MiB");
  }
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (error != std::errc{} || number > kMax >> shift) {
    return fail(Code::invalid_argument, fmt::format("{}: {} is too large", option, in_quotes(text)),
                fmt::format("the largest number of bytes is {}", kMax));
  }
  return number << shift;
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view option, std::string_view text) {
  const TimeUnit* const unit = unit_at_end(text);
  const auto number = unit == nullptr
                          ? std::nullopt
                          : read_decimal(text.substr(0, text.size() - unit->name.size()));
  if (!number) {
    return fail(Code::invalid_argument,
                fmt::format("{}: {} is not a time", option, in_quotes(text)),
                "give a number with ns, us, ms, s, m or h, such as 500ms or 1.5s");
  }
  const double nanoseconds = *number * unit->nanoseconds;
  constexpr std::int64_t kMaxMinutes = 60 * 24 * 365;
  if (nanoseconds > static_cast<double>(kMaxMinutes) * 60e9) {
    return fail(Code::invalid_argument, fmt::format("{}: {} is too long", option, in_quotes(text)),
                fmt::format("the longest time is {}m, a year", kMaxMinutes));
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
}

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7F) {
      out += fmt::format("\\x{:02x}", code);
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "0.0 %";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string rate_text(std::uint64_t count, std::chrono::nanoseconds time, std::string_view noun) {
  if (count == 0 || time.count() <= 0) return fmt::format("no {} ended", noun);
  const double rate = static_cast<double>(count) * 1e9 / static_cast<double>(time.count());
  if (rate >= 10) return fmt::format("{} {}s/s", grouped(static_cast<std::uint64_t>(rate)), noun);
  if (rate >= 1) return fmt::format("{:.1f} {}s/s", rate, noun);
  const auto each = time / static_cast<std::chrono::nanoseconds::rep>(count);
  return fmt::format("1 {} every {}", noun, duration_text(each));
}

std::string opcode_text(Word opcode) {
  if (const abi::OpcodeInfo* row = abi::find_opcode(opcode)) return row->name;
  return opcode < 0x10000 ? std::to_string(opcode) : fmt::format("0x{:x}", opcode);
}

}  // namespace everkernel::cli
