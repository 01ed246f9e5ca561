// Queues of two processes: one runs the kernel, another publishes and waits.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "everkernel/abi/fault.hpp"
#include "live/handover.hpp"
#include "live/queue_memory.hpp"
#include "queue_fixture.hpp"
#include "support/sanitized.hpp"

namespace everkernel::test {
namespace {

using backend::Clock;

void expect_refused(const auto& result, Code code, std::string_view fragment) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code);
  EXPECT_NE(result.error().message.find(fragment), std::string::npos) << result.error().message;
}

/// A child that ends by itself, or is killed.
class Child {
 public:
  /// Runs `body` there; its result is the exit status. The child is killed after a minute.
  explicit Child(const auto& body) {
    std::fflush(nullptr);  // or the child writes the output of the parent again
    id_ = ::fork();
    EXPECT_GE(id_, 0);
    if (id_ != 0) return;
    ::alarm(60);
    ::_exit(body());
  }
  ~Child() {
    kill();
    wait();
  }
  void kill() const {
    if (id_ > 0) ::kill(id_, SIGKILL);
  }
  /// Its exit status, or 128 plus the number of the signal that ended it.
  int wait() {
    if (id_ <= 0) return -1;
    int status = 0;
    EXPECT_EQ(::waitpid(id_, &status, 0), id_);
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_ = 0;
};

/// Runs the client of a test that starts threads, in another process. ThreadSanitizer allows no
/// thread in a child of a process with threads: there this process is the client too.
int run_client(const auto& body) {
  if (kIsSanitized) return body();
  return Child(body).wait();
}

class Processes : public Queues {
 protected:
  Descriptor give(Queue& queue) {
    const auto descriptor = queue.descriptor();
    EXPECT_TRUE(descriptor) << message_of(descriptor);
    return Descriptor(descriptor.value_or(-1));
  }
};

// ---- what works ----

// The child's half of the tests below: publishes items one by one and waits for each answer.
int ask(int descriptor, Word count, std::chrono::microseconds pause) {
  auto queue = attach_queue(descriptor);
  if (!queue) return 2;
  for (Word i = 0; i < count; ++i) {
    const std::array<Word, 2> args{i, 5};
    const auto ticket = queue->publish({kAnswer, args}, kPatience);
    if (!ticket) return 3;
    const auto answer = queue->wait(*ticket, kPatience);
    if (!answer || !answer->is_done()) return 4;
    if (answer->results != std::array<Word, 3>{i + 5, i, 7}) return 5;
    if (pause.count() != 0) std::this_thread::sleep_for(pause);
  }
  const QueueCounters counters = queue->counters();
  return counters.published == count && queue->close(StopMode::drain) == 0 ? 0 : 6;
}

TEST_F(Processes, another_process_publishes_and_gets_answers) {
  constexpr Word kItems = 5000;
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    Queue queue = open({.tenant = TenantId(3), .capacity = 64, .entries = format, .results = true});
    const Descriptor descriptor = give(queue);
    Child child([&] { return ask(descriptor.get(), kItems, {}); });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(queue.counters().published, kItems);
    EXPECT_EQ(queue.close(StopMode::drain), 0u);
  }
  EXPECT_EQ(session->counters().kernel.tenant_claims[3], 2 * kItems);
}

// Without a ring that arrives, a worker sleeps for an hour, and a client for a twentieth of a
// second at a time. Where other programs take the cores, workers seldom come to sleep between two
// items, so that it takes more than one child.
TEST_F(Processes, sleepers_wake_each_other) {
  constexpr Word kItems = 60;
  const std::uint64_t before = session->counters().kernel.sleeps;
  const auto deadline = backend::Clock::now() + kPatience;
  const auto have_slept = [&] { return session->counters().kernel.sleeps - before > kItems / 2; };
  do {
    Queue queue = open({.capacity = 8, .results = true});
    const Descriptor descriptor = give(queue);
    Child child([&] { return ask(descriptor.get(), kItems, milliseconds(4)); });
    EXPECT_EQ(child.wait(), 0);
  } while (!have_slept() && backend::Clock::now() < deadline);
  EXPECT_TRUE(have_slept()) << "workers slept in between";
}

TEST_F(Processes, a_client_sleeps_until_a_long_item_ends) {
  Queue queue = open({.capacity = 8});
  const Descriptor descriptor = give(queue);
  Child child([&] {
    auto attached = attach_queue(descriptor.get());
    const auto ticket = attached->publish({kSpin}, kPatience);
    const auto outcome = attached->wait(*ticket, kPatience);
    return outcome && outcome->fault_code == Word(abi::FaultCode::deadline) ? 0 : 1;
  });
  std::this_thread::sleep_for(milliseconds(100));
  queue.close(StopMode::cancel, milliseconds(0));
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Processes, a_full_queue_holds_its_own_producer_only) {
  ASSERT_TRUE(session->set_tenant_enabled(TenantId(5), false));
  Queue queue = open({.tenant = TenantId(5), .capacity = 4});
  const Descriptor descriptor = give(queue);
  Child child([&] {
    auto attached = attach_queue(descriptor.get());
    for (int i = 0; i < 4; ++i) {
      if (!attached->publish({})) return 1;
    }
    const auto full = attached->publish({});
    if (full || full.error().code != Code::queue_full) return 2;
    const auto late = attached->publish({}, milliseconds(20));
    return !late && late.error().code == Code::timeout ? 0 : 3;
  });
  EXPECT_EQ(child.wait(), 0);
  const auto ticket = session->publish({});
  ASSERT_TRUE(ticket);
  EXPECT_TRUE(session->wait(*ticket, kPatience));
  EXPECT_EQ(queue.close(StopMode::cancel), 4u);
}

// ---- who may do what ----

TEST_F(Processes, a_queue_is_given_once_and_before_anything_is_published) {
  Queue used = open();
  ASSERT_TRUE(used.publish({}));
  expect_refused(used.descriptor(), Code::invalid_argument, "cannot be given");
  Queue queue = open();
  const Descriptor descriptor = give(queue);
  expect_refused(queue.descriptor(), Code::invalid_argument, "cannot be given");
  expect_refused(queue.publish({}), Code::invalid_argument, "given to another process");
  expect_refused(queue.wait_all(kPatience), Code::invalid_argument, "given to another process");
  EXPECT_TRUE(session->wait_all(kPatience)) << "what this process published has ended";

  auto attached = attach_queue(descriptor.get());
  ASSERT_TRUE(attached) << message_of(attached);
  expect_refused(attach_queue(descriptor.get()), Code::corrupt, "received before");
  expect_refused(attached->descriptor(), Code::invalid_argument, "cannot be given");
  const auto ticket = attached->publish({});
  ASSERT_TRUE(ticket);
  EXPECT_TRUE(attached->wait(*ticket, kPatience));
}

TEST_F(Processes, a_descriptor_that_is_no_queue_is_refused) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Descriptor reader(ends[0]), writer(ends[1]);
  expect_refused(attach_queue(reader.get()), Code::corrupt, "not that of a queue");
  expect_refused(attach_queue(-1), Code::io, "recvmsg");
  const Descriptor memory(::memfd_create("test", 0));
  expect_refused(attach_queue(memory.get()), Code::corrupt, "not that of a queue");
  // A message of the right form with files that are not sealed, or too short.
  for (const unsigned flags : {0u, MFD_ALLOW_SEALING + 0u}) {
    live::Handover forged;
    const Descriptor file(::memfd_create("test", flags));
    ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), flags == 0 ? -1 : 0);
    for (Descriptor* one : {&forged.producer_file, &forged.kernel_file, &forged.armed_file,
                            &forged.bell, &forged.kernel_process}) {
      *one = Descriptor::copy_of(file.get());
    }
    const auto sent = live::send(forged);
    ASSERT_TRUE(sent);
    expect_refused(attach_queue(sent->get()), Code::corrupt, "sealed");
  }
}

TEST_F(Processes, a_client_writes_nothing_but_its_producer_file) {
  Queue queue = open();
  const Descriptor descriptor = give(queue);
  const auto received = live::receive(descriptor.get());
  ASSERT_TRUE(received) << message_of(received);
  for (const int file : {received->kernel_file.get(), received->armed_file.get()}) {
    EXPECT_EQ(::mmap(nullptr, 64, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), MAP_FAILED);
    const Descriptor again(
        ::open(fmt::format("/proc/self/fd/{}", file).c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(::mmap(nullptr, 64, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0), MAP_FAILED);
    EXPECT_LT(::pwrite(file, "x", 1, 0), 0);
    EXPECT_NE(::ftruncate(file, 0), 0);
  }
  EXPECT_NE(::ftruncate(received->producer_file.get(), 0), 0);
}

// ---- callbacks in the other process ----

TEST_F(Processes, another_process_is_called_back) {
  Queue queue = open({.capacity = 64, .results = true});
  const Descriptor descriptor = give(queue);
  const int status = run_client([&] {
    constexpr Word kItems = 500;
    auto attached = attach_queue(descriptor.get());
    std::atomic<Word> right{0};
    std::atomic<bool> was_wrong{false};
    for (Word i = 0; i < kItems; ++i) {
      const std::array<Word, 2> args{i, 5};
      const auto ticket = attached->publish({kAnswer, args}, kPatience);
      if (!ticket) return 1;
      const auto added =
          attached->on_complete(*ticket, [&, i](Ticket, Completion how, bool cancelled) {
            const bool is_right = !cancelled && how.results[0] == i + 5;
            is_right ? void(++right) : was_wrong.store(true);
          });
      if (!added) return 2;
      if (i % 100 == 0) std::this_thread::sleep_for(milliseconds(2));  // the thread sleeps then
    }
    attached->close(StopMode::drain, kPatience);
    return right == kItems && !was_wrong ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
}

// Without a ring, the thread of callbacks looks every twentieth of a second.
TEST_F(Processes, callbacks_come_soon_whether_the_item_ended_before_or_later) {
  Queue queue = open({.capacity = 8});
  const Descriptor descriptor = give(queue);
  const int status = run_client([&] {
    auto attached = attach_queue(descriptor.get());
    constexpr int kRounds = 40;
    const auto begin = Clock::now();
    for (int i = 0; i < kRounds; ++i) {
      const auto ticket = attached->publish({}, kPatience);
      if (!ticket || (i % 2 == 0 && !attached->wait(*ticket, kPatience))) return 1;
      std::atomic<bool> was_called{false};
      const auto call = [&](Ticket, Completion, bool) { was_called = true; };
      if (!attached->on_complete(*ticket, call)) return 2;
      while (!was_called) std::this_thread::sleep_for(std::chrono::microseconds(50));
      std::this_thread::sleep_for(milliseconds(i % 3));
    }
    return Clock::now() - begin < kRounds * milliseconds(25) ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Processes, closing_here_calls_back_for_items_that_run_on_there) {
  ASSERT_TRUE(session->set_tenant_enabled(TenantId(5), false));
  Queue queue = open({.tenant = TenantId(5), .capacity = 8});
  const Descriptor descriptor = give(queue);
  const int status = run_client([&] {
    auto attached = attach_queue(descriptor.get());
    const auto ticket = attached->publish({});
    int cancelled_calls = 0;
    bool was_closed_inside = false;
    const auto count = [&](Ticket, Completion, bool cancelled) { cancelled_calls += cancelled; };
    const auto close = [&](Ticket, Completion, bool) {
      was_closed_inside = attached->close(StopMode::drain, kPatience) == 0;
      throw 1;
    };
    if (!attached->on_complete(*ticket, count) || !attached->on_complete(*ticket, close)) return 1;
    attached->close(StopMode::cancel);
    if (cancelled_calls != 1 || !was_closed_inside) return 2;
    if (!attached->on_complete(*ticket, count) || cancelled_calls != 2) return 3;
    return attached->counters().failed_callbacks == 1 ? 0 : 4;
  });
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(session->set_tenant_enabled(TenantId(5), true));
  EXPECT_EQ(queue.close(StopMode::drain), 0u);
  EXPECT_EQ(queue.counters().noted, 1u);
}

TEST_F(Processes, a_queue_that_is_closed_there_calls_back_here) {
  ASSERT_TRUE(session->set_tenant_enabled(TenantId(5), false));
  Queue queue = open({.tenant = TenantId(5), .capacity = 8});
  const Descriptor descriptor = give(queue);
  auto attached = attach_queue(descriptor.get());
  ASSERT_TRUE(attached) << message_of(attached);
  std::atomic<int> cancelled_calls{0};
  const auto count = [&](Ticket, Completion, bool cancelled) { cancelled_calls += cancelled; };
  const auto ticket = attached->publish({});
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(attached->on_complete(*ticket, count));
  EXPECT_EQ(queue.close(StopMode::cancel, seconds(0)), 1u);
  const auto end = Clock::now() + kPatience;
  while (cancelled_calls == 0 && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(cancelled_calls, 1);
  ASSERT_TRUE(attached->on_complete(*ticket, count));
  attached->close(StopMode::drain);
  EXPECT_EQ(cancelled_calls, 2);
}

// A callback that does not return holds up neither close() nor, for ever, the destructor.
TEST_F(Processes, closing_drops_callbacks_behind_one_that_takes_long) {
  Queue queue = open({.capacity = 8});
  const Descriptor descriptor = give(queue);
  auto attached = attach_queue(descriptor.get());
  ASSERT_TRUE(attached) << message_of(attached);
  const auto is_released = std::make_shared<std::atomic<bool>>(false);
  const auto calls = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < 2; ++i) {
    const auto ticket = attached->publish({});
    ASSERT_TRUE(ticket);
    ASSERT_TRUE(attached->on_complete(*ticket, [=](Ticket, Completion, bool) {
      ++*calls;
      while (!*is_released) std::this_thread::sleep_for(milliseconds(1));
    }));
  }
  while (*calls == 0) std::this_thread::sleep_for(milliseconds(1));
  const auto begin = Clock::now();
  attached->close(StopMode::cancel, milliseconds(0));
  EXPECT_LT(Clock::now() - begin, seconds(10));
  *is_released = true;
  EXPECT_EQ(*calls, 1);
}

TEST_F(Processes, an_attached_queue_belongs_to_the_process_that_attached_to_it) {
  Queue queue = open();
  const Descriptor descriptor = give(queue);
  auto attached = attach_queue(descriptor.get());
  ASSERT_TRUE(attached) << message_of(attached);
  const auto ticket = attached->publish({});
  ASSERT_TRUE(ticket);
  std::atomic<int> calls{0};
  const auto count = [&](Ticket, Completion, bool) { ++calls; };
  ASSERT_TRUE(attached->on_complete(*ticket, count));
  Child child([&] {
    const auto refused = attached->on_complete(*ticket, count);
    const bool is_refused = !refused && refused.error().code == Code::unsupported;
    Queue ended = std::move(*attached);  // its destructor does nothing here
    return is_refused && ended.close(StopMode::drain) == 0 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  attached->close(StopMode::drain);
  EXPECT_EQ(calls, 1);
}

// ---- processes that end ----

TEST_F(Processes, a_client_that_dies_leaves_a_queue_that_drains) {
  Queue queue = open({.tenant = TenantId(4), .capacity = 16});
  const Descriptor descriptor = give(queue);
  Child child([&] {
    auto received = live::receive(descriptor.get());
    if (!live::take(descriptor.get())) return 3;
    const auto memory = *live::QueueMemory::attach(std::move(received->producer_file),
                                                   std::move(received->kernel_file));
    const protocol::QueueProducer words = memory->producer();
    abi::LongWord tail = words.tail();
    if (!words.move_tail(tail, tail + 5)) return 1;
    words.store(tail, abi::WorkItem{});  // without a ring, and a hole behind it
    words.store(tail + 2, abi::WorkItem{});
    ::raise(SIGKILL);
    return 2;
  });
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
  const auto begin = Clock::now();
  EXPECT_EQ(queue.close(StopMode::drain, seconds(60)), 4u);
  EXPECT_LT(Clock::now() - begin, seconds(20)) << "holes are given up before the deadline";
  EXPECT_EQ(queue.counters().published, 1u);
}

TEST_F(Processes, a_stop_waits_for_what_a_living_client_has_reserved) {
  Queue queue = open({.capacity = 16});
  const Descriptor descriptor = give(queue);
  auto received = live::receive(descriptor.get());
  ASSERT_TRUE(received);
  const auto memory = *live::QueueMemory::attach(std::move(received->producer_file),
                                                 std::move(received->kernel_file));
  const protocol::QueueProducer words = memory->producer();
  abi::LongWord tail = words.tail();
  ASSERT_TRUE(words.move_tail(tail, tail + 1));
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(50));
    words.store(tail, abi::WorkItem{});
  });
  const StopReport report = session->stop(StopMode::drain, kPatience);
  EXPECT_EQ(report.done, 1u);
  EXPECT_EQ(report.cancelled, 0u);
  EXPECT_EQ(words.state(), abi::QueueState::closed);
}

// The process of the session has a child, which publishes, kills its parent and goes on.
TEST(SessionProcess, that_ends_is_noticed_by_its_client) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Descriptor verdict(ends[0]);
  Descriptor told(ends[1]);
  const auto outlive = [](int descriptor) {
    auto queue = attach_queue(descriptor);
    const auto ticket = queue->publish({}, kPatience);
    if (!ticket || !queue->wait(*ticket, kPatience)) return 'w';
    if (::kill(::getppid(), SIGKILL) != 0) return 'k';
    const auto lost = queue->publish({}, kPatience);  // there is room, and nobody takes it
    if (!lost) return 'p';
    std::atomic<int> cancelled_calls{0};
    const auto count = [&](Ticket, Completion, bool cancelled) { cancelled_calls += cancelled; };
    if (!kIsSanitized) {  // run_client() says why
      if (!queue->on_complete(*lost, count)) return 'c';
      while (cancelled_calls == 0) std::this_thread::sleep_for(milliseconds(1));
    }
    const auto waited = queue->wait(*lost, kPatience);
    return !waited && waited.error().code == Code::device_lost ? 'y' : 'n';
  };
  Child server([&] {
    auto kernel = Megakernel::create(backend::cpu::make_backend(), {.worker_count = 1});
    auto session = kernel->start();
    auto queue = session->open_queue();
    const Descriptor given(queue->descriptor().value_or(-1));
    if (::fork() == 0) {
      ::alarm(60);
      const char answer = outlive(given.get());
      ::_exit(::write(told.get(), &answer, 1) == 1 ? 0 : 1);
    }
    ::pause();
    return 1;
  });
  told = Descriptor();
  EXPECT_EQ(server.wait(), 128 + SIGKILL);
  char answer = 0;
  ASSERT_EQ(::read(verdict.get(), &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
}

// ---- a client that means harm ----

milliseconds processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::chrono::duration_cast<milliseconds>(
      seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
      std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
}

// With a free bell the workers would be awake all the time.
TEST_F(Processes, rings_for_nothing_keep_no_worker_awake) {
  Queue queue = open({.tenant = TenantId(6)});
  const Descriptor descriptor = give(queue);
  Child child([&] {
    const auto received = live::receive(descriptor.get());
    for (;;) {
      const std::uint64_t value = 1;
      if (::write(received->bell.get(), &value, sizeof value) < 0) return 1;
    }
  });
  std::this_thread::sleep_for(milliseconds(50));
  const auto begin = Clock::now();
  const auto used = processor_time();
  std::this_thread::sleep_for(milliseconds(300));
  const auto passed = Clock::now() - begin;
  EXPECT_LT(processor_time() - used, passed / 4);
  child.kill();
  EXPECT_EQ(child.wait(), 128 + SIGKILL) << "it rang to the end";
  const auto ticket = session->publish({});
  ASSERT_TRUE(ticket);
  EXPECT_TRUE(session->wait(*ticket, kPatience));
}

}  // namespace
}  // namespace everkernel::test
