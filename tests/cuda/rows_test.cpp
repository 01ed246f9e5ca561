// The structures that host and device exchange lie in memory the same way for both compilers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "backend/cuda/device_source.hpp"
#include "backend/cuda/graph_rows.hpp"
#include "backend/cuda/launch_rows.hpp"
#include "backend/cuda/live_rows.hpp"
#include "cuda/needs_nvrtc.hpp"
#include "support/results.hpp"

namespace everkernel::test {
namespace {

using namespace device;

// A claim that the device's compiler checks, with the numbers of the host's.
#define ROW(type)                                                                            \
  fmt::format("static_assert(sizeof({0}) == {1} && alignof({0}) == {2}, \"{0}\");\n", #type, \
              sizeof(type), alignof(type))
// NVRTC has no offsetof, but the intrinsic of its front end from which others make it.
#define FIELD(type, field)                                                                    \
  fmt::format("static_assert(__INTADDR__(&((({0}*)0)->{1})) == {2}, \"{0}::{1}\");\n", #type, \
              #field, offsetof(type, field))

std::string claims() {
  std::string text =
      "#include \"backend/cuda/graph_rows.hpp\"\n#include \"backend/cuda/launch_rows.hpp\"\n"
      "#include \"backend/cuda/live_rows.hpp\"\nusing namespace everkernel::device;\n";
  text += ROW(LiveQueueRow) + FIELD(LiveQueueRow, slots) + FIELD(LiveQueueRow, capacity) +
          FIELD(LiveQueueRow, first_ticket) + FIELD(LiveQueueRow, head) +
          FIELD(LiveQueueRow, waiting_count) + FIELD(LiveQueueRow, claim);
  text += ROW(LiveMark) + FIELD(LiveMark, state_of_items) + FIELD(LiveMark, state_of_place) +
          FIELD(LiveMark, epoch) + FIELD(LiveMark, acknowledged) + ROW(LivePasses);
  text += ROW(LiveOrders) + FIELD(LiveOrders, table) + FIELD(LiveOrders, level_begin) +
          FIELD(LiveOrders, queues);
  text += ROW(LiveTotals) + FIELD(LiveTotals, executions) + ROW(LiveLock);
  text += ROW(LiveShared) + FIELD(LiveShared, orders) + FIELD(LiveShared, looking) +
          FIELD(LiveShared, totals) + FIELD(LiveShared, hits_dropped) +
          FIELD(LiveShared, in_flight);
  text += ROW(LiveParams) + FIELD(LiveParams, control) + FIELD(LiveParams, control_words) +
          FIELD(LiveParams, fuel_per_item);
  text += ROW(Shared) + ROW(LaunchResult) + FIELD(LaunchResult, words) + ROW(Submission) +
          FIELD(Submission, cell_mask) + ROW(LaunchParams) + FIELD(LaunchParams, context) +
          ROW(SurveyResult) + ROW(SurveyParams);
  text += ROW(Waiters) + ROW(FreshRegion) + ROW(Continuation) + ROW(GraphTotals) + ROW(GraphParams);
  return text;
}

Result<void> check(const backend::cuda::Nvrtc& nvrtc, const std::string& text) {
  auto code = nvrtc.compile({.source = {"rows.cu", text},
                             .headers = backend::cuda::device_headers(),
                             .architecture = 90,
                             .only_checks = true});
  if (!code) return Failure(code.error());
  return {};
}

TEST(Rows, lie_in_memory_as_the_device_sees_them) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto checked = check(*nvrtc, claims());
  EXPECT_TRUE(checked) << message_of(checked);
}

TEST(Rows, that_lie_otherwise_are_noticed) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  const auto checked =
      check(*nvrtc, claims() +
                        "static_assert(__INTADDR__(&(((LiveOrders*)0)->table)) == 1, "
                        "\"LiveOrders::table\");\n");
  EXPECT_EQ(code_of(checked), Code::invalid_argument);
  EXPECT_NE(message_of(checked).find("LiveOrders"), std::string::npos) << message_of(checked);
}

}  // namespace
}  // namespace everkernel::test
