// Row 4: every pair of edge values of a geometry, and edge values of every size of a buffer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/geometry.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "injection.hpp"
#include "support/results.hpp"

namespace everkernel::test {
namespace {

std::set<Word> edge_values() {
  std::set<Word> values{0, 1, 0x7FFFFFFFu, 0x80000000u, 0x80000001u, 0xFFFFFFFFu};
  for (Word k = 1; k < 32; ++k) {
    const Word power = Word{1} << k;
    values.insert({power - 1, power, power + 1});
  }
  return values;
}

TEST(GeometryGrid, every_pair_of_edge_values_is_taken_or_refused) {
  const auto device = backend::cpu::make_backend({.cache = {}});
  const auto values = edge_values();
  std::size_t taken = 0;
  for (const Word slots : values) {
    for (const Word group : values) {
      SCOPED_TRACE(fmt::format("{} slots in groups of {}", slots, group));
      const bool is_whole = slots != 0 && group != 0 && slots % group == 0;
      const auto groups = protocol::worker_groups_for_geometry({slots, group});
      EXPECT_EQ(groups.has_value(), is_whole);
      if (groups) {
        EXPECT_EQ(*groups, slots / group);
      }
      const std::int64_t blocks = live_blocks();
      {
        const auto made = Megakernel::create(
            device, {.slot_count = slots, .workgroup_size = group, .worker_count = 1});
        if (made) {
          EXPECT_TRUE(is_whole && slots <= abi::kMaxRingSlots);
        }
        if (!made) {
          EXPECT_EQ(made.error().code, Code::invalid_argument) << made.error().message;
        }
        taken += made ? 1u : 0u;
      }
      EXPECT_EQ(live_blocks(), blocks);
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(taken, 100u);
}

// A size that is taken is that of its parts; one that is refused is not allocated.
TEST(GeometryGrid, every_edge_value_of_a_buffer_size_is_taken_or_refused) {
  for (const Word value : edge_values()) {
    SCOPED_TRACE(value);
    const auto ring = protocol::ring_bytes(value);
    if (ring) {
      EXPECT_EQ(*ring, std::size_t{value} * 64);
    }
    const auto log = protocol::debug_log_bytes(value);
    if (log) {
      EXPECT_EQ(*log, 4 + std::size_t{value} * 16);
    }
    const auto queue = protocol::io_queue_bytes(value);
    EXPECT_EQ(queue.has_value(), value >= 1 && value <= 64);
    for (const Word other : edge_values()) {
      const auto control =
          protocol::control_bytes({.tenant_count = value, .observable_slots = other});
      if (control) {
        EXPECT_EQ(*control, (160 + std::size_t{other}) * 4);
      }
      if (!control) {
        EXPECT_EQ(control.error().code, Code::invalid_argument);
      }
    }
    for (const auto* part : {&ring, &log, &queue}) {
      if (!*part) {
        EXPECT_EQ(part->error().code, Code::invalid_argument);
      }
    }
  }
}

}  // namespace
}  // namespace everkernel::test
