// What handlers say in a session: records of printf are delivered, and what is not is counted.
#include <gtest/gtest.h>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/ir_text.hpp"
#include "support/results.hpp"

namespace everkernel::test {
namespace {

class SessionOutputs : public testing::Test {
 protected:
  // Runs that many items, each of which prints one record and emits two hits.
  Session run(Word items, const SessionOptions& options = {}) {
    auto program = check_text(
        "handler say = 64 { printf(1, param, 3); emit(1, 2, 3); "
        "emit(4, 5, 6); }");
    EXPECT_TRUE(program) << message_of(program);
    kernel.emplace(
        *Megakernel::create(backend::cpu::make_backend(),
                            {.slot_count = 8, .workgroup_size = 1, .handlers = *program}));
    Session session = *kernel->start(options);
    for (Word i = 0; i < items; ++i) {
      const abi::WorkItem item{64, 0, 0, i};
      EXPECT_TRUE(session.publish_items({&item, 1}, {.timeout = std::chrono::seconds(30)}));
    }
    EXPECT_TRUE(session.wait_all(std::chrono::seconds(30)));
    return session;
  }

  std::optional<Megakernel> kernel;
};

TEST_F(SessionOutputs, hits_have_no_place_to_go_and_are_counted_as_dropped) {
  Session session = run(100);
  EXPECT_EQ(session.counters().kernel.hits_dropped, 200u);
  SessionSnapshot snapshot;
  ASSERT_TRUE(session.snapshot(snapshot));
  EXPECT_EQ(snapshot.counters.kernel.hits_dropped, 200u);
}

TEST_F(SessionOutputs, records_are_in_the_debug_log_and_those_without_room_are_counted) {
  Session session = run(100, {.debug_records = 60});
  std::vector<std::byte> bytes;
  session.copy_debug_log(bytes);
  const auto log = protocol::DebugLogView::parse(bytes);
  ASSERT_TRUE(log) << message_of(log);
  EXPECT_EQ(log->record_count(), 60u);
  SessionSnapshot snapshot;
  ASSERT_TRUE(session.snapshot(snapshot));
  EXPECT_EQ(snapshot.telemetry.control.debug_dropped, 40u);
}

}  // namespace
}  // namespace everkernel::test
