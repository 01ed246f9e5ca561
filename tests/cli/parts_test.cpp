// Parts of the program that have a simple model: lists of items, tables of handles, checksums.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <random>
#include <vector>

#include "base64.hpp"
#include "handle_table.hpp"
#include "job_items.hpp"
#include "support/bytes.hpp"
#include "support/temp_dir.hpp"
#include "zip.hpp"

namespace everkernel::cli {
namespace {

using Words = std::vector<Word>;

// An opcode and 12 args.
using Record = std::array<Word, 13>;

void expect_equal(const JobItems& list, const std::vector<Record>& model) {
  ASSERT_EQ(list.size(), model.size());
  for (std::size_t i = 0; i < model.size(); ++i) {
    EXPECT_EQ(list.op(i), model[i][0]);
    std::size_t used = 0;
    for (std::size_t k = 0; k < 12; ++k) {
      EXPECT_EQ(list.arg(i, k), model[i][k + 1]) << "item " << i << " arg " << k;
      if (model[i][k + 1] != 0) used = k + 1;
    }
    EXPECT_EQ(list.used_args(i), used);
  }
}

// Args of any number, most of them few, some of them 0.
Words draw_args(std::mt19937_64& draw) {
  Words args(draw() % (draw() % 8 == 0 ? 13 : 4));
  for (Word& arg : args) arg = draw() % 3 == 0 ? 0 : static_cast<Word>(draw());
  return args;
}

// Appends the same items to a list and its model: one by one, or as a file.
void append(JobItems& list, std::vector<Record>& model, std::mt19937_64& draw,
            const test::TempDir& dir) {
  const std::size_t words = draw() % 2 == 0 ? 4 : 1 + draw() % 13;
  const bool is_file = draw() % 2 == 0;
  Words file;
  if (words != 4 || draw() % 2 == 0) {
    file = {0x54494B45u, 0x32534D45u, static_cast<Word>(words), 0};
  }
  for (std::size_t count = draw() % 6; count > 0; --count) {
    Words args = draw_args(draw);
    if (is_file) args.resize(words - 1);
    Record record = {static_cast<Word>(draw() % 1000)};
    std::ranges::copy(args, record.begin() + 1);
    model.push_back(record);
    file.push_back(record[0]);
    file.insert(file.end(), args.begin(), args.end());
    if (!is_file) list.add(record[0], args);
  }
  if (!is_file) return;
  dir.write("items.bin", test::bytes_of(file));
  const auto form = list.append_file(dir.path() / "items.bin");
  ASSERT_TRUE(form) << form.error().message;
}

TEST(JobItems, equals_a_list_of_records_however_wide_items_are) {
  const test::TempDir dir;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 draw(seed);
    JobItems list;
    std::vector<Record> model;
    for (int step = 0; step < 4; ++step) append(list, model, draw, dir);
    if (!model.empty()) {
      const std::size_t item = draw() % model.size();
      list.set_op(item, model[item][0] = 7);
    }
    expect_equal(list, model);
    const bool is_wide = std::ranges::any_of(model, [](const Record& record) {
      return std::any_of(record.begin() + 4, record.end(), [](Word arg) { return arg != 0; });
    });
    EXPECT_EQ(list.is_compact(), !is_wide);
    EXPECT_EQ(list.compact().size(), is_wide ? 0 : model.size());
    EXPECT_EQ(list.records().size(), list.stride() * (is_wide ? model.size() : 0));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(JobItems, says_before_it_grows) {
  JobItems list;
  for (Word i = 0; i < 1000; ++i) {
    const auto before = list.compact();
    const bool may_grow = list.growth_bytes(3) != 0 || list.empty();
    list.add(i, Words{1});
    EXPECT_TRUE(may_grow || list.compact().data() == before.data()) << i;
  }
  EXPECT_GE(list.growth_bytes(12), list.size() * 13 * sizeof(Word));
}

TEST(HandleTable, equals_a_map) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 draw(seed);
    HandleTable table(10);
    std::map<Word, int> model;  // handle -> 1 for read-only, 2 for writable
    bool collides = false;
    for (int i = 0; i < 10; ++i) {
      const Word handle = 1 + static_cast<Word>(draw() % 400);
      const bool is_read_only = draw() % 2 == 0;
      const bool is_new = model.emplace(handle, is_read_only ? 1 : 2).second;
      EXPECT_EQ(table.insert(handle, is_read_only), is_new);
    }
    for (std::size_t i = 0; i < draw() % 4; ++i) {
      const Word first = 1 + static_cast<Word>(draw() % 400);
      const Word last = first + 1 + static_cast<Word>(draw() % 20);
      table.add_family(first, last, i % 2 == 0, i);
      for (Word handle = first; handle <= last; ++handle) {
        collides = !model.emplace(handle, i % 2 == 0 ? 1 : 2).second || collides;
      }
    }
    EXPECT_EQ(table.seal().has_value(), collides) << seed;
    if (collides) continue;
    for (Word handle = 0; handle < 450; ++handle) {
      const auto found = model.find(handle);
      const int named = found == model.end() ? 0 : found->second;
      EXPECT_EQ(static_cast<int>(table.find(handle)), named) << seed << " " << handle;
    }
  }
}

TEST(HandleTable, takes_the_highest_handle_and_nothing_above) {
  HandleTable table(1);
  EXPECT_TRUE(table.insert(0x7FFFFFFFu, true));
  EXPECT_EQ(table.find(0x7FFFFFFFu), Named::read_only);
  EXPECT_EQ(table.find(0xFFFFFFFFu), Named::nothing);
  EXPECT_EQ(table.find(0), Named::nothing);
}

TEST(Crc32, is_that_of_zip) {
  const auto crc_of = [](std::string_view text) { return crc32(std::as_bytes(std::span(text))); };
  EXPECT_EQ(crc_of(""), 0u);
  EXPECT_EQ(crc_of("123456789"), 0xCBF43926u);  // the check value of the algorithm
  EXPECT_EQ(crc_of("The quick brown fox jumps over the lazy dog"), 0x414FA339u);
}

TEST(Crc32, goes_on_behind_any_byte) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  const auto bytes = std::as_bytes(std::span(text));
  for (std::size_t at = 0; at <= bytes.size(); ++at) {
    EXPECT_EQ(crc32(bytes.subspan(at), crc32(bytes.first(at))), 0x414FA339u);
  }
}

// The simple way: three bytes are four characters.
std::string base64_of(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto byte = [&](std::size_t i) { return i < bytes.size() ? Word{bytes[i]} : 0; };
    const Word group = byte(at) << 16 | byte(at + 1) << 8 | byte(at + 2);
    for (const int shift : {18, 12, 6, 0}) text += kAlphabet[group >> shift & 63];
  }
  const std::size_t padding = (3 - bytes.size() % 3) % 3;
  text.replace(text.size() - padding, padding, padding, '=');
  return text;
}

TEST(Base64, of_every_length_gives_the_bytes) {
  std::mt19937_64 draw(1);
  for (std::size_t size = 0; size < 100; ++size) {
    std::vector<std::uint8_t> bytes(size);
    Words words((size + 3) / 4);
    for (std::size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<std::uint8_t>(draw());
      words[i / 4] |= Word{bytes[i]} << i % 4 * 8;
    }
    const std::string text = base64_of(bytes);
    EXPECT_EQ(base64_bytes(text), size);
    const auto decoded = decode_base64(text);
    ASSERT_TRUE(decoded) << text;
    EXPECT_EQ(*decoded, words);
  }
}

TEST(Base64, a_character_of_no_alphabet_is_refused_wherever_it_is) {
  const std::string right = base64_of(std::vector<std::uint8_t>(50, 0xA5));
  for (std::size_t at = 0; at < right.size(); ++at) {
    for (int c = 0; c < 256; ++c) {
      std::string text = right;
      text[at] = static_cast<char>(c);
      const bool is_padding = c == '=' && at + 2 >= text.size();
      const bool is_digit = std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '/';
      if (is_padding) continue;
      EXPECT_EQ(decode_base64(text).has_value(), c < 128 && is_digit) << at << " " << c;
    }
  }
}

}  // namespace
}  // namespace everkernel::cli
