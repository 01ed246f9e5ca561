// Section 2 and 3 of the wire format: the control buffer, word by word.
#include "everkernel/abi/control.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <string_view>

namespace everkernel::abi {
namespace {

struct TableRow {
  WordRange words;
  std::string_view name;
  Word first, last;
};

constexpr TableRow kTables[] = {
    {kControlShutdown, "shutdown", 0, 0},
    {kControlDoneCount, "done_count", 1, 1},
    {kControlTenantBase, "tenant_base", 2, 2},
    {kControlTenantMasks, "tenant_masks", 3, 31},
    {kControlTenantQuotas, "tenant_quotas", 32, 63},
    {kControlTenantFairness, "tenant_fairness", 64, 95},
    {kControlMetrics, "metrics", 96, 127},
    {kControlEpoch, "epoch", 128, 128},
    {kControlPriorityOffsets, "priority_offsets", 129, 134},
    {kControlStarvation, "starvation", 135, 135},
    {kControlPriorityFairness, "priority_fairness", 136, 140},
    {kControlTicketHead, "ticket_head", 141, 141},
    {kControlTicketTail, "ticket_tail", 142, 142},
    {kControlFaultCount, "fault_count", 143, 143},
    {kControlDebugDropped, "debug_dropped", 144, 144},
    {kControlReserved, "reserved", 145, 159},
};

TEST(Control, tables_lie_where_the_format_says) {
  for (const TableRow& row : kTables) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(row.words.first, row.first);
    EXPECT_EQ(row.words.end(), row.last + 1);
    EXPECT_EQ(row.words.count, row.last - row.first + 1);
  }
}

TEST(Control, the_list_names_every_table_in_order) {
  ASSERT_EQ(std::size(kControlTables), std::size(kTables));
  for (std::size_t i = 0; i < std::size(kTables); ++i) {
    EXPECT_EQ(kControlTables[i].name, kTables[i].name);
    EXPECT_EQ(kControlTables[i].words.first, kTables[i].first);
    EXPECT_EQ(kControlTables[i].words.count, kTables[i].words.count);
  }
  EXPECT_TRUE(control_tables_tile());
}

TEST(Control, observables_follow_160_words) {
  EXPECT_EQ(kControlWords, 160u);
  EXPECT_EQ(kControlFirstObservable, 160u);
  EXPECT_EQ(kMaxObservables, 1'048'576u);
}

TEST(Control, has_29_tenants) {
  EXPECT_EQ(kTenantCount, 29u);
  EXPECT_EQ(kMaxTenant, 28u);
  EXPECT_EQ(kTenantEnabled, 0xFFFFFFFFu);
  EXPECT_EQ(kDefaultTenantQuota, 1'000'000u);
}

}  // namespace
}  // namespace everkernel::abi
