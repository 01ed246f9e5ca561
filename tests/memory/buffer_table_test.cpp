#include "everkernel/memory/buffer_table.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <type_traits>

namespace everkernel::memory {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer> && !std::is_copy_assignable_v<Buffer>);
static_assert(std::is_nothrow_move_constructible_v<Buffer>);
static_assert(!std::is_copy_constructible_v<BufferTable> &&
              !std::is_move_constructible_v<BufferTable>);

template <class T>
void expect_invalid(const Result<T>& result) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::invalid_argument);
}

TEST(BufferTable, begins_empty) {
  const BufferTable table;
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.view().find(0), nullptr);
  EXPECT_EQ(table.view().find(1), nullptr);
  EXPECT_EQ(table.view().find(0xFFFFFFFF), nullptr);
}

TEST(BufferTable, a_view_of_no_table_finds_nothing) {
  EXPECT_EQ(BufferTableView{}.find(1), nullptr);
}

TEST(BufferTable, makes_buffers_of_zeros) {
  BufferTable table;
  const auto buffer = table.create({.handle = 7, .word_count = 1000});
  ASSERT_TRUE(buffer.has_value());
  EXPECT_EQ(buffer->handle(), 7u);
  EXPECT_EQ(buffer->words().size(), 1000u);
  EXPECT_TRUE(std::ranges::all_of(buffer->words(), [](Word word) { return word == 0; }));
  EXPECT_EQ(table.size(), 1u);
}

TEST(BufferTable, shows_handlers_what_was_asked_for) {
  BufferTable table;
  const auto buffer =
      table.create({.handle = 7, .word_count = 5, .access = Access::read, .owner = 28});
  ASSERT_TRUE(buffer.has_value());
  const BufferEntry* entry = table.view().find(7);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->words, buffer->words().data());
  EXPECT_EQ(entry->word_count, 5u);
  EXPECT_EQ(entry->handle, 7u);
  EXPECT_EQ(entry->access, 1u);
  EXPECT_EQ(entry->owner, 28u);
  EXPECT_EQ(table.view().find(8), nullptr);
}

TEST(BufferTable, is_everyones_to_read_and_write_by_default) {
  BufferTable table;
  const auto buffer = table.create({.handle = 7, .word_count = 5});
  EXPECT_EQ(table.view().find(7)->access, 3u);
  EXPECT_EQ(table.view().find(7)->owner, kEveryTenant);
}

TEST(BufferTable, takes_handles_from_1_to_the_largest) {
  BufferTable table;
  const auto lowest = table.create({.handle = 1});
  const auto highest = table.create({.handle = 0x7FFFFFFF});
  EXPECT_TRUE(lowest.has_value() && highest.has_value());
  expect_invalid(table.create({.handle = 0, .word_count = 1}));
  expect_invalid(table.create({.handle = 0x80000000, .word_count = 1}));
  expect_invalid(table.create({.handle = 0xFFFFFFFF, .word_count = 1}));
  EXPECT_EQ(table.size(), 2u);
}

TEST(BufferTable, takes_tenants_as_owners) {
  BufferTable table;
  const auto operator_buffer = table.create({.handle = 1, .owner = 0});
  const auto last = table.create({.handle = 2, .owner = 28});
  const auto everyone = table.create({.handle = 3, .owner = 0xFFFFFFFF});
  EXPECT_TRUE(operator_buffer.has_value() && last.has_value() && everyone.has_value());
  expect_invalid(table.create({.handle = 4, .owner = 29}));
  expect_invalid(table.create({.handle = 4, .owner = 0xFFFFFFFE}));
  EXPECT_EQ(table.size(), 3u);
}

TEST(BufferTable, refuses_an_access_that_is_none) {
  BufferTable table;
  expect_invalid(table.create({.handle = 4, .access = Access{0}}));
  expect_invalid(table.create({.handle = 5, .access = Access{4}}));
  expect_invalid(table.create({.handle = 6, .access = Access{7}}));
}

TEST(BufferTable, a_handle_is_used_once_until_its_buffer_is_gone) {
  BufferTable table;
  {
    const auto first = table.create({.handle = 7, .word_count = 1});
    expect_invalid(table.create({.handle = 7, .word_count = 1}));
    Word words[1] = {};
    expect_invalid(table.adopt({.handle = 7}, words));
    EXPECT_EQ(table.size(), 1u);
    EXPECT_EQ(table.view().find(7)->words, first->words().data());
  }
  EXPECT_EQ(table.view().find(7), nullptr);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_TRUE(table.create({.handle = 7, .word_count = 1}).has_value());
}

TEST(BufferTable, refuses_more_words_than_indices) {
  BufferTable table;
  expect_invalid(table.create({.handle = 7, .word_count = kMaxBufferWords + 1}));
  expect_invalid(table.create({.handle = 7, .word_count = ~std::size_t{0}}));
  EXPECT_EQ(table.size(), 0u);
}

TEST(BufferTable, a_buffer_may_be_empty) {
  BufferTable table;
  const auto buffer = table.create({.handle = 7, .word_count = 0});
  ASSERT_TRUE(buffer.has_value());
  EXPECT_TRUE(buffer->words().empty());
  ASSERT_NE(table.view().find(7), nullptr);
  EXPECT_EQ(table.view().find(7)->word_count, 0u);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define EVERKERNEL_TEST_SANITIZED 1
#endif
#endif
#else
#define EVERKERNEL_TEST_SANITIZED 1
#endif

// In a child process with little address space; not under sanitizers, which need much.
#ifndef EVERKERNEL_TEST_SANITIZED
[[noreturn]] void create_without_memory() {
  const rlimit limit{.rlim_cur = 1u << 30, .rlim_max = 1u << 30};
  setrlimit(RLIMIT_AS, &limit);
  BufferTable table;
  const auto buffer = table.create({.handle = 7, .word_count = kMaxBufferWords});
  const bool is_right = !buffer && buffer.error().code == Code::out_of_memory &&
                        table.size() == 0 && table.view().find(7) == nullptr;
  std::_Exit(is_right ? 0 : 1);
}

TEST(BufferTableDeathTest, says_when_there_is_no_memory) {
  EXPECT_EXIT(create_without_memory(), testing::ExitedWithCode(0), "");
}
#endif

TEST(BufferTable, adopts_memory_of_the_callers) {
  BufferTable table;
  std::array<Word, 4> words = {1, 2, 3, 4};
  {
    const auto buffer =
        table.adopt({.handle = 7, .word_count = 99, .access = Access::write, .owner = 3}, words);
    ASSERT_TRUE(buffer.has_value());
    EXPECT_EQ(buffer->words().data(), words.data());
    EXPECT_EQ(buffer->words().size(), 4u);
    EXPECT_EQ(table.view().find(7)->words, words.data());
    EXPECT_EQ(table.view().find(7)->word_count, 4u);
    EXPECT_EQ(table.view().find(7)->access, 2u);
    EXPECT_EQ(table.view().find(7)->owner, 3u);
    buffer->words()[0] = 9;
  }
  EXPECT_EQ(words[0], 9u);
  EXPECT_EQ(table.size(), 0u);
}

TEST(BufferTable, adopts_under_the_same_rules) {
  BufferTable table;
  std::array<Word, 1> words = {};
  expect_invalid(table.adopt({.handle = 0}, words));
  expect_invalid(table.adopt({.handle = 0x80000000}, words));
  expect_invalid(table.adopt({.handle = 1, .owner = 29}, words));
  const auto empty = table.adopt({.handle = 1}, {});
  ASSERT_TRUE(empty.has_value());
  EXPECT_TRUE(empty->words().empty());
}

TEST(BufferView, gives_the_words_while_the_owner_lives) {
  BufferTable table;
  auto buffer = table.create({.handle = 7, .word_count = 3});
  const BufferView view = buffer->view();
  ASSERT_TRUE(view.words().has_value());
  EXPECT_EQ(view.words()->data(), buffer->words().data());
  EXPECT_EQ(view.words()->size(), 3u);
}

TEST(BufferView, notices_that_its_owner_is_gone) {
  BufferTable table;
  std::optional<BufferView> made, adopted;
  {
    const auto buffer = table.create({.handle = 7, .word_count = 3});
    made = buffer->view();
    Word words[2] = {};
    const auto borrowed = table.adopt({.handle = 8}, words);
    adopted = borrowed->view();
    EXPECT_TRUE(made->words().has_value() && adopted->words().has_value());
  }
  expect_invalid(made->words());
  expect_invalid(adopted->words());
}

TEST(BufferView, of_an_old_buffer_does_not_see_a_new_one_with_its_handle) {
  BufferTable table;
  auto first = table.create({.handle = 7, .word_count = 3});
  const BufferView view = first->view();
  first = table.create({.handle = 8, .word_count = 3});
  const auto second = table.create({.handle = 7, .word_count = 3});
  expect_invalid(view.words());
}

TEST(BufferView, follows_an_owner_that_moves) {
  BufferTable table;
  auto buffer = table.create({.handle = 7, .word_count = 3});
  const BufferView view = buffer->view();
  const Word* const words = buffer->words().data();
  {
    const Buffer moved = *std::move(buffer);
    ASSERT_TRUE(view.words().has_value());
    EXPECT_EQ(view.words()->data(), words);
    EXPECT_EQ(moved.words().data(), words);
    EXPECT_EQ(moved.handle(), 7u);
    EXPECT_EQ(table.size(), 1u);
  }
  expect_invalid(view.words());
  EXPECT_EQ(table.size(), 0u);
}

TEST(Buffer, that_is_assigned_to_drops_its_own) {
  BufferTable table;
  auto first = table.create({.handle = 1, .word_count = 1});
  auto second = table.create({.handle = 2, .word_count = 2});
  const BufferView view = first->view();
  *first = *std::move(second);
  expect_invalid(view.words());
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.view().find(1), nullptr);
  ASSERT_NE(table.view().find(2), nullptr);
  EXPECT_EQ(first->handle(), 2u);
  EXPECT_EQ(first->words().size(), 2u);
}

TEST(Buffer, assigned_to_itself_stays) {
  BufferTable table;
  auto buffer = table.create({.handle = 1, .word_count = 1});
  Buffer& self = *buffer;
  *buffer = std::move(self);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(buffer->words().size(), 1u);
}

TEST(Buffer, moves_between_tables) {
  BufferTable one, other;
  auto first = one.create({.handle = 1, .word_count = 1});
  auto second = other.create({.handle = 1, .word_count = 2});
  *first = *std::move(second);
  EXPECT_EQ(one.size(), 0u);
  EXPECT_EQ(other.size(), 1u);
  EXPECT_EQ(first->words().size(), 2u);
}

TEST(BufferTable, grows_and_stays_at_most_half_full) {
  BufferTable table;
  std::deque<Buffer> buffers;
  for (Word handle = 1; handle <= 5000; ++handle) {
    auto buffer = table.create({.handle = handle, .word_count = 1});
    ASSERT_TRUE(buffer.has_value());
    buffers.push_back(*std::move(buffer));
    const BufferTableView view = table.view();
    ASSERT_GE(std::size_t{view.mask} + 1, 2 * table.size());
    ASSERT_EQ(view.mask & (view.mask + 1), 0u);
  }
  for (const Buffer& buffer : buffers) {
    ASSERT_NE(table.view().find(buffer.handle()), nullptr);
    EXPECT_EQ(table.view().find(buffer.handle())->words, buffer.words().data());
  }
  EXPECT_EQ(table.view().find(5001), nullptr);
  buffers.clear();
  EXPECT_EQ(table.size(), 0u);
}

TEST(BufferTable, growing_leaves_the_words_where_they_are) {
  BufferTable table;
  const auto first = table.create({.handle = 1, .word_count = 1});
  const Word* const words = first->words().data();
  std::deque<Buffer> buffers;
  for (Word handle = 2; handle < 200; ++handle) {
    buffers.push_back(*table.create({.handle = handle, .word_count = 1}));
  }
  EXPECT_EQ(table.view().find(1)->words, words);
}

// Handles whose search begins at one place of the smallest table, at its end so that runs wrap.
std::vector<Word> colliding_handles(Word home, std::size_t count) {
  std::vector<Word> handles;
  for (Word handle = 1; handles.size() < count; ++handle) {
    if (BufferTableView::home(handle, 15) == home) handles.push_back(handle);
  }
  return handles;
}

// Whether the table and the model have the same entries.
void check_same(const BufferTable& table, const std::map<Word, Buffer>& model,
                const std::set<Word>& handles) {
  RC_ASSERT(table.size() == model.size());
  for (const Word handle : handles) {
    const BufferEntry* const entry = table.view().find(handle);
    const auto expected = model.find(handle);
    RC_ASSERT((entry != nullptr) == (expected != model.end()));
    if (entry == nullptr) continue;
    RC_ASSERT(entry->handle == handle);
    RC_ASSERT(entry->words == expected->second.words().data());
    RC_ASSERT(entry->word_count == expected->second.words().size());
  }
}

RC_GTEST_PROP(BufferTableModel, makes_and_drops_like_a_map, ()) {
  // Few places and many collisions: homes 14, 15 and 0 of 16, so that runs wrap around the end.
  std::set<Word> handles;
  for (const Word home : {14u, 15u, 0u}) {
    for (const Word handle : colliding_handles(home, 6)) handles.insert(handle);
  }
  for (const Word handle : {1u, 2u, 3u, 0x7FFFFFFFu}) handles.insert(handle);
  const std::vector<Word> choices(handles.begin(), handles.end());

  BufferTable table;
  std::map<Word, Buffer> model;
  const auto steps = *rc::gen::inRange(1, 80);
  const auto most = *rc::gen::elementOf(std::vector<std::size_t>{4, 8, 30});  // 8 never grows
  for (int step = 0; step < steps; ++step) {
    const Word handle = *rc::gen::elementOf(choices);
    if (model.contains(handle)) {
      const bool is_drop = *rc::gen::inRange(0, 4) != 0;
      if (is_drop) {
        model.erase(handle);
      } else {
        RC_ASSERT(!table.create({.handle = handle}).has_value());
      }
    } else if (model.size() < most) {
      auto buffer = table.create({.handle = handle, .word_count = static_cast<std::size_t>(step)});
      RC_ASSERT(buffer.has_value());
      model.emplace(handle, *std::move(buffer));
    } else {
      model.erase(model.begin());
    }
    check_same(table, model, handles);
  }
}

RC_GTEST_PROP(BufferTableModel, any_handles_are_found_again, ()) {
  const auto given = *rc::gen::container<std::set<Word>>(rc::gen::inRange<Word>(1, 0x80000000u));
  BufferTable table;
  std::map<Word, Buffer> model;
  for (const Word handle : given) {
    auto buffer = table.create({.handle = handle, .word_count = handle % 7});
    RC_ASSERT(buffer.has_value());
    model.emplace(handle, *std::move(buffer));
  }
  check_same(table, model, given);
  for (const Word handle : given) {
    if (handle % 2 == 0) model.erase(handle);
  }
  check_same(table, model, given);
}

}  // namespace
}  // namespace everkernel::memory
