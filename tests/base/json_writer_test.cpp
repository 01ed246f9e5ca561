#include "everkernel/base/json_writer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace everkernel {
namespace {

TEST(JsonWriter, nests_objects_and_arrays_with_commas_between) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("a", 1u).key("b").begin_array();
  json.value(true).value("x").begin_object().end_object().begin_array().end_array();
  json.end_array().field("c", false).end_object();
  EXPECT_EQ(text, R"({"a":1,"b":[true,"x",{},[]],"c":false})");
}

TEST(JsonWriter, writes_the_largest_number_whole) {
  std::string text;
  JsonWriter(text).value(~std::uint64_t{0});
  EXPECT_EQ(text, "18446744073709551615");
}

TEST(JsonWriter, escapes_what_json_cannot_hold) {
  std::string text;
  JsonWriter(text).value(std::string_view("a\"\\\n\t\x01\0z", 8));
  EXPECT_EQ(text, R"("a\"\\\n\t\u0001\u0000z")");
}

TEST(JsonWriter, replaces_bytes_that_are_not_utf8) {
  struct Row {
    std::string_view input, expected;
  };
  constexpr Row kRows[] = {
      {"gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F"},  // two-byte letters
      {"\xE2\x82\xAC\xF0\x9F\x98\x80", "\xE2\x82\xAC\xF0\x9F\x98\x80"},
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // overlong
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // surrogate
      {"\xE2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // truncated
      {"\xF5"
       "a",
       "\xEF\xBF\xBD"
       "a"},  // above U+10FFFF
  };
  for (const Row& row : kRows) {
    std::string text;
    JsonWriter(text).value(row.input);
    EXPECT_EQ(nlohmann::json::parse(text).get<std::string>(), row.expected);
  }
}

}  // namespace
}  // namespace everkernel
