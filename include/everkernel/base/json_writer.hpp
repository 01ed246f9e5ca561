// Writes JSON text piece by piece into a string.
//
// A snapshot of a million slots is about 200 MB of text: it is streamed, never built as a tree.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace everkernel {

/// Appends one JSON value to a string and adds commas and quotes. The calls must nest as JSON does;
/// a value inside an object follows its key. Not thread-safe.
class JsonWriter {
 public:
  /// Appends to `out`, which must outlive the writer.
  explicit JsonWriter(std::string& out) : out_(out) {}

  /// Opens an object.
  JsonWriter& begin_object();
  /// Closes the innermost object.
  JsonWriter& end_object();
  /// Opens an array.
  JsonWriter& begin_array();
  /// Closes the innermost array.
  JsonWriter& end_array();
  /// Writes the key of the next value; `name` needs no escaping.
  JsonWriter& key(std::string_view name);

  /// Writes a string, escaped; bytes that are not UTF-8 become U+FFFD.
  JsonWriter& value(std::string_view text);
  /// Writes a string.
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  /// Writes true or false.
  JsonWriter& value(bool truth);
  /// Writes an unsigned number.
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) JsonWriter& value(T number) { return number_value(number); }
  /// Writes an array of numbers.
  JsonWriter& value(std::span<const std::uint32_t> numbers);

  /// Writes a key and its value.
  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    key(name);
    return value(content);
  }

 private:
  JsonWriter& number_value(std::uint64_t number);
  void separate();

  std::string& out_;
  bool needs_comma_ = false;
};

}  // namespace everkernel
