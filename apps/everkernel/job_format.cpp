// Texts about the values of a job.
#include "job_format.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/base/suggestion.hpp"
#include "numbers.hpp"

namespace everkernel::cli {

std::string wanted(const Field& field) {
  switch (field.kind) {
    case Kind::number:
      return fmt::format("a whole number {}..{}", field.lowest, field.highest);
    case Kind::integer:
      return "a whole number -2147483648..2147483647";
    case Kind::real:
      return "a number that fits an f32";
    case Kind::arg:
      return "a number of 32 bits";
    case Kind::path:
      return "a path in quotes";
    case Kind::base64:
      return "base64 in quotes";
    case Kind::access:
      return "\"r\", \"w\" or \"rw\"";
    case Kind::rights:
      return "\"r\" or \"rw\"";
    case Kind::element:
      return "\"u32\", \"i32\", \"f32\" or \"u8\"";
    case Kind::truth:
      return "true or false";
    case Kind::list:
      return "a list: [...]";
    case Kind::object:
      return "an object: {...}";
    case Kind::opcode:
      return fmt::format("a whole number {}..{} or the name of a handler", field.lowest,
                         field.highest);
    case Kind::output:
      return "a handle 1..2147483647 or an object: {...}";
  }
  return {};
}

std::string form_of(Kind kind) {
  switch (kind) {
    case Kind::number:
      return "write a number without quotes, sign, point or exponent: 1000, not 1e3";
    case Kind::integer:
      return "write a number without quotes, point or exponent: -1000, not -1e3";
    case Kind::real:
    case Kind::arg:
      return "write a number without quotes, or \"nan\", \"inf\" or \"-inf\"";
    case Kind::path:
      return "write a text in quotes: \"ops.ek\"";
    case Kind::base64:
      return "in Python: base64.b64encode(data).decode()";
    case Kind::access:
    case Kind::rights:
      return "handlers may only read what has the access \"r\"";
    case Kind::element:
      return "write the type of the elements in quotes: \"f32\"";
    case Kind::truth:
      return "write true or false without quotes";
    case Kind::list:
      return "write a list in brackets, even if it has one value";
    case Kind::object:
      return "write a list of objects as [ {\"handle\": 1, \"zeros\": 8}, ... ]";
    case Kind::opcode:
      return "write an opcode without quotes, sign, point or exponent, or a name in quotes";
    case Kind::output:
      return "write [2, 3], or [ {\"handle\": 2, \"file\": \"labels.npy\", \"type\": \"u32\"} ]";
  }
  return {};
}

std::string keys_hint(std::string_view name, std::span<const Field> fields) {
  Suggestion suggestion(name);
  std::string names;
  for (const Field& field : fields) {
    suggestion.offer(field.name);
    names += names.empty() ? "" : ", ";
    names += field.name;
  }
  return suggestion.hint(fmt::format("the keys are {}", names));
}

std::string shown(std::string_view text) {
  if (text.size() <= kShownBytes) return in_quotes(text);
  return in_quotes(text.substr(0, kShownBytes)) + "...";
}

std::string shown_key(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  const bool plain =
      !name.empty() && name.size() <= kShownBytes && std::ranges::all_of(name, is_plain);
  return plain ? std::string(name) : shown(name);
}

}  // namespace everkernel::cli
