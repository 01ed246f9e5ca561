#include "everkernel/protocol/geometry.hpp"

#include <gtest/gtest.h>

#include "support/results.hpp"

namespace everkernel::protocol {
namespace {

using test::code_of;

TEST(Geometry, groups_cover_every_slot_once) {
  struct Row {
    Geometry geometry;
    Word expected;  // 0: refused
  };
  constexpr Row kRows[] = {
      {{}, 1},         {{1, 1}, 1},     {{1024, 256}, 4}, {{268'435'455, 1}, 268'435'455},
      {{0, 256}, 0},   {{256, 0}, 0},   {{0, 0}, 0},      {{128, 256}, 0},
      {{257, 256}, 0}, {{511, 256}, 0}, {{512, 256}, 2},  {{0xFFFFFFFF, 0xFFFFFFFF}, 1},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << row.geometry.slot_count << " slots in groups of "
                                    << row.geometry.workgroup_size);
    const auto groups = worker_groups_for_geometry(row.geometry);
    EXPECT_EQ(groups.value_or(0), row.expected);
    if (!groups) {
      EXPECT_EQ(code_of(groups), Code::invalid_argument);
    }
  }
}

TEST(Geometry, defaults_are_256_slots_in_one_group) {
  EXPECT_EQ(Geometry{}.slot_count, 256u);
  EXPECT_EQ(Geometry{}.workgroup_size, 256u);
}

}  // namespace
}  // namespace everkernel::protocol
