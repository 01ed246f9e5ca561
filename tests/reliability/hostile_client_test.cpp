// A process that was given a queue writes whatever it likes into everything it can write, as fast
// as it can. It can hurt its own queue only.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <random>

#include "child.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "live/handover.hpp"
#include "support/ir_text.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using backend::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Word kPlaces = 64;
constexpr auto kTimeout = seconds(20);
// Memory that a round may keep: stacks, buffers of printing, arenas.
constexpr std::size_t kSlackBytes = 1 << 20;

// One attack on the memory of a queue.
class Attacker {
 public:
  Attacker(const live::Handover& given, std::uint64_t seed) : given_(given), random_(seed) {
    const auto bytes = static_cast<std::size_t>(::lseek(given.producer_file.get(), 0, SEEK_END));
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, given.producer_file.get(), 0);
    if (memory == MAP_FAILED) ::_exit(1);
    words_ = {static_cast<Word*>(memory), bytes / sizeof(Word)};
  }

  void attack() {
    for (std::uint64_t round = 0;; ++round) {
      const std::uint64_t drawn = random_();
      if (drawn % 8 < 4) {
        store(drawn >> 8, static_cast<Word>(drawn >> 32));
      } else if (drawn % 8 < 7) {
        store_entry(drawn);
      } else {
        store(drawn >> 8 & 7, static_cast<Word>(drawn >> 32));  // the producer line
      }
      if (round % 64 == 0) ring();
      if (round % 100'000 == 99'999) punch();
    }
  }

 private:
  void store(std::uint64_t place, Word value) {
    __atomic_store_n(&words_[place % words_.size()], value, __ATOMIC_RELAXED);
  }
  // Words that look like an entry, of one lap or the other.
  void store_entry(std::uint64_t drawn) {
    constexpr std::array<Word, 12> kOpcodes{0,  1,  2,  3,      7,      64,
                                            65, 66, 67, 0xFFFD, 0xFFFE, 0x80000001};
    const Word lap = static_cast<Word>(drawn >> 3 & 1) << 31;
    const std::uint64_t first = 16 + (drawn >> 8) % (words_.size() - 16) / 4 * 4;
    const Word opcode = kOpcodes[(drawn >> 40) % kOpcodes.size()];
    const bool is_full = (drawn >> 4 & 1) != 0;
    for (std::uint64_t i = is_full ? 15 : 3; i > 0; --i) {
      store(first + i, static_cast<Word>(drawn >> 50) | (i % 4 == 0 ? lap : 0));
    }
    if (is_full) store(first + 1, opcode);
    store(first, is_full ? 1 | lap : opcode | lap);
  }
  void ring() {
    std::uint64_t value = random_() % 3 == 0 ? ~std::uint64_t{1} : 1;
    [[maybe_unused]] ssize_t bytes = ::write(given_.bell.get(), &value, sizeof value);
    if (random_() % 4 == 0) bytes = ::read(given_.bell.get(), &value, sizeof value);
    ::fcntl(given_.bell.get(), F_SETFL, O_NONBLOCK);
  }
  void punch() {
    ::fallocate(given_.producer_file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(words_.size_bytes()));
  }

  const live::Handover& given_;
  std::mt19937_64 random_;
  std::span<Word> words_;
};

// Publishes and checks answers of the tenant beside the attacked queue; gives how many there were.
Result<std::uint64_t> work_beside(Session& session, Queue& attacked, Clock::time_point end,
                                  Journal& journal) {
  Queue queue = EVERKERNEL_TRY(
      session.open_queue({.tenant = TenantId(2), .capacity = kPlaces, .results = true}));
  std::uint64_t answers = 0;
  SessionSnapshot snapshot;
  while (Clock::now() < end) {
    std::array<abi::WorkItem, kPlaces / 2> items;
    for (Word i = 0; i < items.size(); ++i) items[i] = {64, i, static_cast<Word>(answers), 0};
    const TicketRange tickets = EVERKERNEL_TRY(queue.publish_items(items, kTimeout));
    for (Word i = 0; i < items.size(); ++i) {
      const Completion answer = EVERKERNEL_TRY(queue.wait(tickets[i], kTimeout));
      const std::array<Word, 3> right{i + static_cast<Word>(answers), i, 7};
      if (answer.fault_code != 0 || answer.results != right) journal.fail("a wrong answer");
    }
    answers += items.size();
    if (answers % 1024 == 0) {
      EVERKERNEL_TRY(session.snapshot(snapshot));
      static_cast<void>(attacked.counters());
    }
  }
  return answers;
}

// One session beside one attack.
Result<std::uint64_t> try_attack(Journal& journal, std::uint64_t seed, milliseconds length) {
  auto program = check_text(
      "handler answer = 64 { args[9] = args[0] + args[1]; args[10] = args[0]; args[11] = 7; }"
      "handler yields = 65 { yield; }"
      "handler loops = 66 { while true { args[0] = args[0] + 1; } }");
  Megakernel kernel = EVERKERNEL_TRY(
      Megakernel::create(backend::cpu::make_backend(),
                         {.handlers = *program, .fuel_per_item = 1'000'000, .worker_count = 2}));
  Session session = EVERKERNEL_TRY(kernel.start({.debug_records = 8, .io_slots = 2}));
  Queue attacked = EVERKERNEL_TRY(session.open_queue(
      {.tenant = TenantId(1),
       .priority = seed % 4 < 2 ? Priority::critical : Priority::idle,
       .capacity = kPlaces,
       .entries = seed % 2 == 0 ? abi::EntryFormat::compact : abi::EntryFormat::full,
       .results = seed % 8 < 4}));
  const Descriptor descriptor(EVERKERNEL_TRY(attacked.descriptor()));
  const pid_t attacker = ::fork();
  if (attacker == 0) {
    ::alarm(600);
    const auto given = live::receive(descriptor.get());
    if (!given) ::_exit(1);
    Attacker(*given, seed).attack();
  }
  const auto answers = work_beside(session, attacked, Clock::now() + length, journal);
  ::kill(attacker, SIGKILL);
  int status = 0;
  ::waitpid(attacker, &status, 0);
  if (!WIFSIGNALED(status)) journal.fail("the attacker did not attack");
  journal.note("close");
  const auto begin = Clock::now();
  attacked.close(StopMode::drain, milliseconds(20));
  const StopReport report = session.stop(StopMode::drain, kTimeout);
  if (Clock::now() - begin > seconds(5)) journal.fail("closing took more than 5 s");
  const std::uint64_t others = answers.value_or(0);
  if (report.done < others) journal.fail(fmt::format("{} done of {}", report.done, others));
  if (report.done + report.faulted == others) journal.fail("no item of the attacker ran");
  return answers;
}

TEST(HostileClient, hurts_its_own_queue_only) {
  const std::uint64_t seed = first_seed();
  std::printf("EVERKERNEL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const double time = seconds_of_trial(1.6);
  const auto problem = run_in_child(static_cast<int>(time) + 60, [&](Journal& journal) {
    const auto end = Clock::now() + std::chrono::duration<double>(time);
    std::uint64_t answers = 0, round = seed;
    std::size_t kept = 0;
    do {
      const auto before = ::mallinfo2();
      const auto found = try_attack(journal, round++, milliseconds(200));
      if (!found) {
        journal.fail(found.error().message);
        return;
      }
      answers += *found;
      const std::size_t after = ::mallinfo2().uordblks;
      kept = after - std::min(after, before.uordblks);
    } while (Clock::now() < end);
    if (kept > kSlackBytes) journal.fail(fmt::format("{} bytes were not given back", kept));
    if (answers == 0) journal.fail("the other tenant did nothing: the trial shows nothing");
    std::printf("%llu right answers\n", static_cast<unsigned long long>(answers));
  });
  EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace everkernel::test
