// Dispatches of one shape and publishing allocate nothing after the first. A program of its own,
// because it replaces operator new for everything it links (support/allocation_counter.cpp).
#include <gtest/gtest.h>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/allocation_counter.hpp"
#include "support/wire_bytes.hpp"

namespace everkernel {
namespace {

using abi::Word;
using test::Bytes;

constexpr auto kPatience = std::chrono::seconds(20);

template <class Call>
std::size_t allocations_of(Call call) {
  const std::size_t before = test::allocation_count();
  call();
  return test::allocation_count() - before;
}

// Items that end, fault, print, wait and are put back; other words with every salt.
struct Sample {
  explicit Sample(Word salt) {
    std::vector<test::SlotWords> slots(16);
    slots[0] = {1, 1, 0, 2, salt, 160};
    slots[1] = {1, 9999, 0, 2};
    slots[2] = {1, 0xFFFE, 0, 2, salt, 1, 2};
    slots[3] = {1, 0xFFFD, 0, 2, salt};
    slots[4] = {1, 7, 0, 2, 3, 0};
    slots[5] = {1, 0, 5, 2};
    slots[6] = {1, 0x80000001, 0, 2, 0x00010201, salt, 161};
    ring = test::ring_of(slots);
  }
  HostBuffers buffers() const {
    return {.control = control, .ring = ring, .debug_log = debug_log, .io_queue = io_queue};
  }
  Bytes control = test::control_of({{3, 1}, {32, 1'000'000}}, 170);
  Bytes ring;
  Bytes debug_log = Bytes(36);
  Bytes io_queue = Bytes(64);
};

class DispatchAllocations : public testing::TestWithParam<backend::Schedule> {
 protected:
  // The backend starts helper threads in the first dispatch that takes long. A dispatch of an item
  // with a loop starts them here, before allocations are counted.
  Megakernel make() {
    auto parsed = ir::parse("handler turns = 64 { for i in 0 .. 10 { output[i] = i; } }");
    auto made = Megakernel::create(backend::cpu::make_backend(),
                                   {.slot_count = 16,
                                    .workgroup_size = 16,
                                    .handlers = ir::verify(*std::move(parsed)).value(),
                                    .schedule = GetParam(),
                                    .worker_count = 2});
    EXPECT_TRUE(made.has_value());
    Sample sample(0);
    sample.ring = test::ring_of(std::vector<test::SlotWords>(16, {1, 64, 0, 2}));
    const Submission submission = sample.buffers();
    EXPECT_TRUE(made->dispatch({.submissions = std::span(&submission, 1), .timeout = kPatience}));
    return *std::move(made);
  }
};

TEST_P(DispatchAllocations, the_second_dispatch_of_a_shape_has_none) {
  Megakernel megakernel = make();
  const Sample first(1), second(2);
  Workspace workspace;
  std::uint64_t done = 0;
  const auto dispatch = [&](const Sample& sample, Readback readback) {
    const Submission submission = sample.buffers();
    const auto report = megakernel.dispatch({.submissions = std::span(&submission, 1),
                                             .readback = readback,
                                             .workspace = &workspace,
                                             .timeout = kPatience});
    if (report) done += report->stats.items_done;
  };
  dispatch(first, Readback::full);
  EXPECT_GT(done, 0u);
  const std::uint64_t each = done;
  for (const Readback readback : {Readback::full, Readback::control, Readback::none}) {
    EXPECT_EQ(allocations_of([&] { dispatch(second, readback); }), 0u);
  }
  EXPECT_EQ(done, 4 * each);
}

TEST_P(DispatchAllocations, the_second_dispatch_of_many_submissions_has_none) {
  Megakernel megakernel = make();
  const Sample first(1), second(2);
  auto resident = megakernel.make_resident(second.buffers());
  ASSERT_TRUE(resident.has_value());
  Workspace workspace;
  const std::array<Submission, 3> submissions{first.buffers(), &*resident, second.buffers()};
  std::uint64_t launches = 0;
  const auto dispatch = [&] {
    const auto report = megakernel.dispatch(
        {.submissions = submissions, .workspace = &workspace, .timeout = kPatience});
    if (report) launches += report->stats.kernel_launches;
  };
  dispatch();
  EXPECT_EQ(allocations_of([&] { dispatch(); }), 0u);
  EXPECT_EQ(allocations_of([&] { dispatch(); }), 0u);
  EXPECT_EQ(launches, 3u);
}

INSTANTIATE_TEST_SUITE_P(schedules, DispatchAllocations,
                         testing::Values(backend::Schedule::direct, backend::Schedule::priority,
                                         backend::Schedule::ticket),
                         [](const auto& row) {
                           return std::string(backend::schedule_name(row.param));
                         });

TEST(SessionAllocations, publishing_and_waiting_have_none) {
  auto megakernel = Megakernel::create(backend::cpu::make_backend(),
                                       {.slot_count = 16, .workgroup_size = 16, .worker_count = 2});
  ASSERT_TRUE(megakernel.has_value());
  auto session = megakernel->start();
  ASSERT_TRUE(session.has_value());
  const std::array<Word, 2> args{1, 160};
  const protocol::Operation add[] = {{.opcode = 2, .args = args}};
  const protocol::PackedOp packed[] = {{.opcode = 2, .args = args}};
  const std::array<abi::WorkItem, 3> items{{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}};
  bool is_fine = true;
  const auto round = [&] {
    const PublishOptions options{.timeout = kPatience};
    const auto one = session->publish(add[0], options);
    is_fine &= one && session->publish_items(items, options) &&
               session->publish_packed(packed, options) &&
               session->publish_batch(add, 1, options) && session->wait(*one, kPatience) &&
               session->poll(*one) && session->wait_all(kPatience);
  };
  // The list of deferred items grows to the largest number there ever was: fill the ring with items
  // that wait.
  EXPECT_TRUE(session->set_tenant_enabled(TenantId(5), false));
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(session->publish(add[0], {.tenant = TenantId(5)}));
  EXPECT_FALSE(session->wait_all(std::chrono::milliseconds(10)));
  EXPECT_TRUE(session->set_tenant_enabled(TenantId(5), true));
  for (int lap = 0; lap < 20; ++lap) round();
  EXPECT_EQ(allocations_of([&] {
              for (int lap = 0; lap < 50; ++lap) round();
            }),
            0u);
  EXPECT_TRUE(is_fine);
}

TEST(SessionAllocations, the_second_snapshot_has_none) {
  auto megakernel = Megakernel::create(backend::cpu::make_backend(), {.worker_count = 2});
  ASSERT_TRUE(megakernel.has_value());
  auto session = megakernel->start();
  ASSERT_TRUE(session.has_value());
  SessionSnapshot snapshot;
  ASSERT_TRUE(session->snapshot(snapshot).has_value());
  bool is_fine = true;
  EXPECT_EQ(allocations_of([&] { is_fine &= session->snapshot(snapshot).has_value(); }), 0u);
  EXPECT_TRUE(is_fine);
}

}  // namespace
}  // namespace everkernel
