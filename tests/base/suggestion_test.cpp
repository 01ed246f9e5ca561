// Which words are near, and which are not.
#include "everkernel/base/suggestion.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace everkernel {
namespace {

std::string nearest(std::string_view word, std::initializer_list<std::string_view> known) {
  Suggestion suggestion(word);
  for (const std::string_view name : known) suggestion.offer(name);
  return std::string(suggestion.best());
}

TEST(EditDistance, counts_letters_to_insert_delete_replace_and_swap) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("zeros", "zeros"), 0u);
  EXPECT_EQ(edit_distance("zero", "zeros"), 1u);
  EXPECT_EQ(edit_distance("zeross", "zeros"), 1u);
  EXPECT_EQ(edit_distance("zeras", "zeros"), 1u);
  EXPECT_EQ(edit_distance("zreos", "zeros"), 1u);
  EXPECT_EQ(edit_distance("ZEROS", "zeros"), 0u);
  EXPECT_EQ(edit_distance("", "zeros"), 5u);
}

TEST(Suggestion, is_the_nearest_word) {
  EXPECT_EQ(nearest("saxpi", {"sum", "saxpy", "scale"}), "saxpy");
  EXPECT_EQ(nearest("handel", {"handle", "u32"}), "handle");
}

TEST(Suggestion, a_word_that_is_far_has_none) {
  EXPECT_EQ(nearest("median", {"sum", "saxpy"}), "");
  EXPECT_EQ(nearest("n", {"i"}), "");
  EXPECT_EQ(nearest(std::string(33, 'a'), {std::string(33, 'a')}), "");
  EXPECT_EQ(nearest("", {"op"}), "");
}

TEST(Suggestion, the_hint_names_it_or_says_something_else) {
  Suggestion near("zero");
  near.offer("zeros");
  EXPECT_EQ(near.hint("the keys are zeros"), "did you mean `zeros`?");
  EXPECT_EQ(Suggestion("zero").hint("the keys are u32"), "the keys are u32");
}

}  // namespace
}  // namespace everkernel
