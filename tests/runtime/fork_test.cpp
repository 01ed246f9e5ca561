// A process with a session forks: the child has copies of all objects, but not their threads, and
// must not disturb its parent.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "memory/shared_memory.hpp"
#include "recovery_fixture.hpp"

namespace everkernel::test {
namespace {

constexpr std::array<Word, 3> kCountArgs{1, 1, 0};

class Fork : public OnAFaultyDevice {
 protected:
  // Runs `body` in a child, which is killed after 10 s. Returns its exit status, or 128 plus the
  // number of the signal that ended it.
  static int in_a_child(const auto& body) {
    std::fflush(nullptr);  // or exit() of the child writes the output of the parent again
    const pid_t child = ::fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      ::alarm(10);
      ::_exit(body());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void start() {
    data.emplace(buffer(1, true));
    auto made = kernel->start();
    ASSERT_TRUE(made) << message_of(made);
    session.emplace(std::move(*made));
  }

  void expect_that_the_session_works() {
    for (int i = 0; i < 20; ++i) {
      const auto ticket = session->publish({kCount, kCountArgs}, {.timeout = seconds(5)});
      ASSERT_TRUE(ticket) << message_of(ticket);
      const auto ended = session->wait(*ticket, seconds(5));
      ASSERT_TRUE(ended) << message_of(ended);
      EXPECT_TRUE(ended->is_done());
    }
    const StopReport report = session->stop(StopMode::drain, seconds(10));
    EXPECT_EQ(report.done, 20u + held_count);
    EXPECT_EQ(report.cancelled, 0u);
  }

  // Items that wait in the ring while the child lives.
  void publish_held_items() {
    ASSERT_TRUE(session->set_tenant_enabled(TenantId(3), false));
    for (; held_count < 3; ++held_count) {
      ASSERT_TRUE(session->publish({kCount, kCountArgs}, {.tenant = TenantId(3)}));
    }
  }

  std::optional<DataBuffer> data;
  std::optional<Session> session;
  std::uint64_t held_count = 0;
};

TEST_F(Fork, a_child_that_destroys_its_copies_leaves_the_session_of_its_parent_alone) {
  start();
  publish_held_items();
  EXPECT_EQ(in_a_child([&] {
              session.reset();
              data.reset();
              kernel.reset();
              device.reset();
              return 7;
            }),
            7);
  ASSERT_TRUE(session->set_tenant_enabled(TenantId(3), true));
  expect_that_the_session_works();
}

// A child that ends by exit() runs the destructors of static objects.
std::shared_ptr<void>& kept_until_exit() {
  static std::shared_ptr<void> kept;
  return kept;
}

TEST_F(Fork, a_child_may_end_by_exit) {
  start();
  publish_held_items();
  auto moved = std::make_shared<Session>(std::move(*session));
  kept_until_exit() = moved;
  EXPECT_EQ(in_a_child([&]() -> int {
              moved.reset();
              std::exit(9);
            }),
            9);
  kept_until_exit().reset();
  session.emplace(std::move(*moved));
  ASSERT_TRUE(session->set_tenant_enabled(TenantId(3), true));
  expect_that_the_session_works();
}

TEST_F(Fork, in_a_child_every_call_says_whose_objects_they_are) {
  start();
  auto resident = kernel->make_resident({.control = control, .ring = ring});
  ASSERT_TRUE(resident);
  const auto ticket = session->publish({});
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(session->wait(*ticket, seconds(5)));
  const int wrong = in_a_child([&] {
    int failed = 0;
    const auto expect_refused = [&](const auto& result) {
      const bool is_refused =
          code_of(result) == Code::unsupported &&
          message_of(result).find(std::to_string(::getppid())) != std::string::npos &&
          message_of(result).find(std::to_string(::getpid())) != std::string::npos;
      if (!is_refused) ++failed;
    };
    Word word = 0;
    SessionSnapshot snapshot;
    expect_refused(session->publish({}));
    expect_refused(session->publish({}, {.timeout = seconds(5)}));
    expect_refused(session->publish_items({}));
    expect_refused(session->publish_batch({}, 1));
    expect_refused(session->wait(*ticket, seconds(5)));
    expect_refused(session->wait_all(seconds(5)));
    expect_refused(session->poll(*ticket));
    expect_refused(session->on_complete(*ticket, [](Ticket, Completion, bool) {}));
    expect_refused(session->set_tenant_enabled(TenantId(1), true));
    expect_refused(session->set_tenant_quota(TenantId(1), 1));
    expect_refused(session->snapshot(snapshot));
    expect_refused(session->running());
    expect_refused(session->observable(0));
    expect_refused(session->recover());
    expect_refused(session->parked([] {}));
    expect_refused(session->replace_handlers(*check_text("handler other = 90 { }")));
    expect_refused(kernel->start());
    expect_refused(kernel->recover());
    expect_refused(kernel->run({}));
    expect_refused(kernel->create_buffer({.handle = 9, .word_count = 1}));
    expect_refused(kernel->make_resident({.control = control, .ring = ring}));
    expect_refused(dispatch(host()));
    expect_refused(data->read(0, {&word, 1}));
    expect_refused(data->write(0, {&word, 1}));
    expect_refused(resident->read(protocol::Buffer::ring, 0, {}));
    if (session->counters().published != 0) ++failed;
    if (session->capacity() != 0) ++failed;
    if (kernel->worker_count() != 0 || !kernel->pipeline_id().empty()) ++failed;
    if (session->stop(StopMode::drain, seconds(5)).done != 0) ++failed;
    std::vector<std::byte> log(1);
    session->copy_debug_log(log);
    if (!log.empty()) ++failed;
    return failed;
  });
  EXPECT_EQ(wrong, 0);
  session->stop(StopMode::drain, seconds(5));
}

TEST_F(Fork, a_child_that_dispatched_before_may_go) {
  fill_ring({{0, 0, 0, 0}});
  ASSERT_TRUE(dispatch(host()));  // the threads of the kernel exist now
  EXPECT_EQ(in_a_child([&] {
              kernel.reset();
              return 3;
            }),
            3);
  EXPECT_TRUE(dispatch(host()));
}

// The backend has a thread that compiles; the test fails by a child that hangs.
TEST_F(Fork, a_child_may_drop_the_backend_of_its_parent_but_not_use_it) {
  auto own = backend::cpu::make_backend();
  {
    auto program = check_text(kHandlers);
    ASSERT_TRUE(program);
    auto made = Megakernel::create(
        own, {.slot_count = kSlots, .workgroup_size = 1, .handlers = *program, .worker_count = 1});
    ASSERT_TRUE(made) << message_of(made);
  }
  EXPECT_EQ(in_a_child([&] {
              if (code_of(Megakernel::create(own)) != Code::unsupported) return 1;
              own.reset();
              return 3;
            }),
            3);
  EXPECT_TRUE(Megakernel::create(own));
}

TEST_F(Fork, a_child_makes_objects_of_its_own) {
  start();
  const int status = in_a_child([&] {
    // Threads after a fork of a program with threads: not under ThreadSanitizer, so no session.
    auto own = Megakernel::create(backend::cpu::make_backend(),
                                  {.slot_count = kSlots, .workgroup_size = 1, .worker_count = 1});
    if (!own) return 1;
    auto made = own->create_buffer({.handle = 1, .word_count = 1});
    if (!made) return 2;
    const Word seven = 7;
    return made->write(0, {&seven, 1}) ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
  expect_that_the_session_works();
}

TEST(SharedMemoryAfterFork, a_child_does_not_inherit_the_mapping) {
  auto memory = memory::SharedMemory::create(std::array{std::size_t{64}});
  ASSERT_TRUE(memory);
  std::byte* const word = memory->part(0).data();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    unsigned char resident = 0;
    const bool is_mapped = ::mincore(word, 4096, &resident) == 0;
    ::_exit(is_mapped ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  *word = std::byte{1};
}

}  // namespace
}  // namespace everkernel::test
