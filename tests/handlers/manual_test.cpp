// Tests every snippet of docs/handlers.md: it verifies, or is refused at the location that its
// fence names.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <vector>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/ir/builder.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/printer.hpp"
#include "everkernel/ir/trusted_item.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/ir_text_file.hpp"
#include "support/results.hpp"

namespace everkernel::ir {
namespace {

struct Snippet {
  std::string fence = {};  // text after the back-ticks
  std::string text = {};
};

std::vector<Snippet> snippets_of(const std::string& markdown) {
  std::vector<Snippet> snippets;
  std::istringstream lines(markdown);
  bool is_inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      is_inside = !is_inside;
      if (is_inside) snippets.push_back({.fence = line.substr(3)});
    } else if (is_inside) {
      snippets.back().text += line + "\n";
    }
  }
  return snippets;
}

Result<VerifiedProgram> verify_text(const std::string& text) {
  auto program = parse(text);
  if (!program) return Failure(program.error());
  return verify(std::move(*program));
}

TEST(Manual, every_handler_snippet_verifies) {
  int count = 0;
  for (const Snippet& snippet : snippets_of(test::read_text("docs/handlers.md"))) {
    if (snippet.fence != "ek") continue;
    const auto verified = verify_text(snippet.text);
    EXPECT_TRUE(verified) << verified.error().message << "\n" << snippet.text;
    ++count;
  }
  EXPECT_GE(count, 9);
}

TEST(Manual, every_mistake_is_refused_at_the_place_it_names) {
  int count = 0;
  for (const Snippet& snippet : snippets_of(test::read_text("docs/handlers.md"))) {
    if (!snippet.fence.starts_with("ek error ")) continue;
    const std::string place = snippet.fence.substr(std::string("ek error ").size());
    const auto verified = verify_text(snippet.text);
    ASSERT_FALSE(verified) << snippet.text;
    EXPECT_EQ(verified.error().message.substr(0, place.size() + 1), place + ":")
        << verified.error().message;
    ++count;
  }
  EXPECT_GE(count, 2);
}

// The text below the file with mistakes is what the program prints for it.
TEST(Manual, mistakes_are_shown_as_the_manual_shows_them) {
  const std::vector<Snippet> snippets = snippets_of(test::read_text("docs/handlers.md"));
  const auto wrong = std::ranges::find(snippets, "ek error 2:11", &Snippet::fence);
  ASSERT_NE(wrong, snippets.end());
  Diagnostics mistakes;
  ASSERT_FALSE(parse(wrong->text, kMaxProgramBytes, &mistakes));
  EXPECT_EQ("error: " + render(mistakes, wrong->text, "mistaken.ek") + "\n",
            std::next(wrong)->text);
}

// The lines of this file between the marks, without their indentation.
std::string marked_region() {
  std::istringstream lines(test::read_text("tests/handlers/manual_test.cpp"));
  std::string region;
  bool is_inside = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_mark = line == "  // [manual]" || line == "  // [/manual]";
    if (is_mark) {
      is_inside = line == "  // [manual]";
    } else if (is_inside) {
      region += (line.size() > 2 ? line.substr(2) : "") + "\n";
    }
  }
  return region;
}

// The lines between the marks are those of the manual; they must build the handler of its first
// snippet.
TEST(Manual, the_builder_snippet_makes_the_first_handler) {
  // [manual]
  using namespace everkernel::ir::build;
  HandlerBuilder h({.name = "saxpy", .opcode = 64});
  const Value a = h.let("a", bits_f32(param));
  const Value n = h.let("n", min(len(input), len(output)));
  h.for_range("i", 0u, n, [&](const Value& i) {
    h.set(output[i], bits_u32(a * bits_f32(input[i]) + bits_f32(output[i])));
  });
  // [/manual]
  const Program built{.handlers = {h.finish()}};
  const auto first = parse(snippets_of(test::read_text("docs/handlers.md")).front().text);
  ASSERT_TRUE(first);
  EXPECT_EQ(print(built), print(*first));
}

TEST(Manual, the_trusted_snippet_makes_a_handler_that_runs) {
  const auto backend = backend::cpu::make_backend();
  // [manual]
  ir::TrustedHandler trusted;
  trusted.name = "add_one";
  trusted.opcode = 64;
  trusted.scope = ir::Scope::group;
  trusted.effects = {.reads_input = true, .writes_output = true};
  trusted.cpu = [](ir::TrustedItem& item) {
    const auto input = item.input();
    const auto output = item.output();
    item.each(input.length(), [&](Word i) { output.store(i, input.load(i) + 1); });
    return item.done();
  };
  trusted.cuda = R"(
    template <class Item>
    __device__ Word add_one(Item& item) {
      const auto input = item.input();
      const auto output = item.output();
      item.each(input.length(), [&](Word i) { output.store(i, input.load(i) + 1); });
      return item.done();
    }
  )";
  auto kernel = Megakernel::create(backend, {.trusted_handlers = {trusted}});
  // [/manual]
  ASSERT_TRUE(kernel) << test::message_of(kernel);
  const std::array<Word, 3> words{7, 8, 9};
  auto input = kernel->create_buffer({.handle = 1, .word_count = 3});
  const auto output = kernel->create_buffer({.handle = 2, .word_count = 3});
  ASSERT_TRUE(input && output && input->write(0, words));
  const std::array items{abi::WorkItem{64, 1, 2, 0}};
  ASSERT_TRUE(kernel->run(items));
  std::array<Word, 3> result{};
  ASSERT_TRUE(output->read(0, result));
  EXPECT_EQ(result, (std::array<Word, 3>{8, 9, 10}));
}

TEST(Manual, its_cpp_snippets_are_those_of_this_file) {
  std::string shown;
  for (const Snippet& snippet : snippets_of(test::read_text("docs/handlers.md"))) {
    if (snippet.fence == "cpp") shown += snippet.text;
  }
  EXPECT_EQ(shown, marked_region());
}

}  // namespace
}  // namespace everkernel::ir
