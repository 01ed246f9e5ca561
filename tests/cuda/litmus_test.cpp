// Litmus tests of the device's accessors. Each test tries many times to observe an outcome that the
// protocol forbids, in device memory and in memory that host and device share.
//
// EVERKERNEL_LITMUS_ROUNDS=N sets the rounds of each test, 10^8 by default. A test with the host
// ends before that if EVERKERNEL_SECONDS=S are over.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/spin.hpp"
#include "everkernel/protocol/words.hpp"
#include "litmus.hpp"
#include "litmus_source.hpp"
#include "support/seeds.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::Grid;
using backend::cuda::Nvrtc;
using backend::cuda::SourceText;

constexpr SourceText kSource{.name = "litmus.cu", .text = kLitmusSource};
constexpr Word kThreads = 256;  // of a block, kBlock in the source

// Word k of message n, and the answer to it, as in the source.
constexpr Word word_of(Word n, Word k) {
  return n * 16 + k;
}
constexpr Word answer_to(Word n) {
  return ~n;
}

TEST(LitmusSource, CompilesForEveryArchitecture) {
  const auto nvrtc = Nvrtc::load();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message << "; " << nvrtc.error().hint;
  for (const int architecture : {80, 90, 100}) {
    const auto code = nvrtc->compile({.source = kSource,
                                      .headers = backend::cuda::device_headers(),
                                      .architecture = architecture});
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(code->log, "") << "for sm_" << architecture;
  }
}

// ---- on device memory ----

class DeviceLitmus : public LitmusOn<kSource> {
 protected:
  // Passes messages through as many cells as threads are resident.
  static Outcome messages(const std::string& order, std::uint64_t rounds, Word spread) {
    const auto kernel = gpu().kernel("messages_" + order);
    const Word blocks = std::bit_floor(gpu().resident_blocks(kernel, kThreads) / 2);
    const Word cells = blocks * kThreads;
    const Word each = rounds_each(rounds, cells);
    DeviceWords payload = device_words(std::size_t{4} * cells);
    DeviceWords flags = device_words(cells), answers = device_words(cells),
                acks = device_words(cells), findings = device_words(kFindings);
    Outcome outcome{.name = fmt::format("messages, {}, stride {}", order, spread),
                    .rounds = std::uint64_t{each} * cells};
    time(outcome, [&] {
      gpu().launch(kernel, {.block_count = 2 * blocks, .thread_count = kThreads}, payload.address(),
                   flags.address(), answers.address(), acks.address(), findings.address(), cells,
                   each, spread);
    });
    outcome.add(findings.read());
    print(outcome);
    return outcome;
  }

  // Claims slots, with four claimers for each publisher.
  static Outcome claims(const std::string& order, std::uint64_t rounds) {
    constexpr Word kClaimers = 4;
    const auto kernel = gpu().kernel("claims_" + order);
    const Word blocks = std::bit_floor(gpu().resident_blocks(kernel, kThreads) / (1 + kClaimers));
    const Word slots = blocks * kThreads;
    const Word each = rounds_each(rounds, slots);
    DeviceWords ring = device_words(std::size_t{slots} * abi::kSlotWords);
    DeviceWords claims = device_words(slots), findings = device_words(kFindings);
    Outcome outcome{.name = fmt::format("claims, {}", order),
                    .rounds = std::uint64_t{each} * slots};
    time(outcome, [&] {
      gpu().launch(kernel, {.block_count = (1 + kClaimers) * blocks, .thread_count = kThreads},
                   ring.address(), claims.address(), findings.address(), slots, each);
    });
    outcome.add(findings.read());
    for (const Word count : claims.read()) outcome.forbidden += count != each ? 1u : 0u;
    print(outcome);
    return outcome;
  }

  // Takes tickets, numbered from `first`, of as many rings as there are resident blocks for.
  static Outcome tickets(const std::string& order, std::uint64_t rounds, Word first) {
    constexpr Word kCapacity = 1024, kBlocksPerRing = 4, kCounterWords = 64, kHead = 32;
    const auto kernel = gpu().kernel("tickets_" + order);
    const Word rings = std::max(1u, gpu().resident_blocks(kernel, kThreads) / kBlocksPerRing);
    const Word each = rounds_each(rounds, rings * kThreads) * kThreads;
    DeviceWords slots = device_words(std::size_t{rings} * kCapacity * abi::kSlotWords);
    DeviceWords counters = device_words(std::size_t{rings} * kCounterWords);
    DeviceWords seen = device_words(std::size_t{rings} * kCapacity);
    DeviceWords done = device_words(std::size_t{rings} * kCapacity / 32);
    DeviceWords findings = device_words(kFindings);
    std::vector<Word> start(std::size_t{rings} * kCounterWords);
    for (std::size_t i = 0; i < start.size(); i += kHead) start[i] = first;  // tails and heads
    counters.write(0, start);
    Outcome outcome{.name = fmt::format("tickets from {:#x}, {}", first, order),
                    .rounds = std::uint64_t{each} * rings};
    time(outcome, [&] {
      gpu().launch(kernel, {.block_count = rings * kBlocksPerRing, .thread_count = kThreads},
                   slots.address(), counters.address(), seen.address(), done.address(),
                   findings.address(), first, each);
    });
    outcome.add(findings.read());
    print(outcome);
    return outcome;
  }

 private:
  static Word rounds_each(std::uint64_t rounds, Word threads) {
    return static_cast<Word>(std::max<std::uint64_t>(1, (rounds + threads - 1) / threads));
  }
  static void time(Outcome& outcome, const auto& launch) {
    const auto begin = Clock::now();
    launch();
    wait_for_kernel();
    outcome.seconds = seconds_since(begin);
  }
};

TEST_F(DeviceLitmus, MessagesArriveWhole) {
  expect_sound({messages("Ordered", rounds_to_run(), 1), messages("Ordered", rounds_to_run(), 97)});
}

// Planned items access plain words between an acquire and a release.
TEST_F(DeviceLitmus, MessagesOfPlainWordsArriveWhole) {
  expect_sound({messages("Owned", rounds_to_run(), 1), messages("Owned", rounds_to_run(), 97)});
}

TEST_F(DeviceLitmus, OneClaimsAndSeesThePayload) {
  expect_sound({claims("Ordered", rounds_to_run())});
}

TEST_F(DeviceLitmus, EveryTicketIsTakenOnce) {
  expect_sound({tickets("Ordered", rounds_to_run(), 0), tickets("Owned", rounds_to_run(), 0),
                tickets("Ordered", rounds_to_run() / 10, 0xFFFFFFFDu)});
}

TEST_F(DeviceLitmus, ControlMessages) {
  expect_broken({messages("Relaxed", control_rounds(), 1),
                 messages("Relaxed", control_rounds(), 97), messages("Cached", control_rounds(), 1),
                 messages("Cached", control_rounds(), 97)});
}

TEST_F(DeviceLitmus, ControlClaims) {
  expect_broken({claims("Relaxed", control_rounds()), claims("Cached", control_rounds()),
                 claims("Split", control_rounds())});
}

TEST_F(DeviceLitmus, ControlTickets) {
  expect_broken({tickets("Relaxed", control_rounds(), 0), tickets("Cached", control_rounds(), 0)});
}

// ---- with the host ----

class HostLitmus : public LitmusOn<kSource> {
 protected:
  static protocol::LiveWords live(const PinnedWords& words, std::size_t count) {
    return needed(protocol::LiveWords::bind(
        protocol::Buffer::ring, std::as_writable_bytes(std::span(words.words(), count))));
  }

  // A slot with the words of message n, and this flag.
  static abi::Slot slot_of(Word n, Word flag) {
    abi::Slot slot{.status = abi::SlotStatus{flag},
                   .opcode = word_of(n, 1),
                   .tenant = word_of(n, 2),
                   .priority = word_of(n, 3),
                   .args = {}};
    for (Word k = 0; k < abi::kSlotArgs; ++k) slot.args[k] = word_of(n, abi::kSlotFirstArg + k);
    return slot;
  }

  static Outcome messages(const std::string& order, std::uint64_t rounds) {
    const Word cells = gpu().sm_count() * kThreads;
    Mailbox mailbox(cells);
    return with_mailbox(mailbox, fmt::format("messages from the host, {}", order), rounds, [&] {
      gpu().launch(gpu().kernel("messages_" + order), whole(1), mailbox.slots.address(),
                   mailbox.answers.address(), mailbox.acks.address(), mailbox.findings.address());
    });
  }

  static Outcome claims(const std::string& order, std::uint64_t rounds) {
    const Word cells = gpu().sm_count() * kThreads;
    Mailbox mailbox(cells);
    DeviceWords owners = device_words(cells), claims = device_words(cells);
    return with_mailbox(mailbox, fmt::format("claims of the host's slots, {}", order), rounds, [&] {
      gpu().launch(gpu().kernel("claims_" + order), whole(2), mailbox.slots.address(),
                   owners.address(), claims.address(), mailbox.answers.address(),
                   mailbox.acks.address(), mailbox.findings.address(), cells);
    });
  }

  /// How the host stores slots.
  enum class Stores { released, streamed, unfenced };

  static Outcome tickets(const std::string& order, Stores stores, std::uint64_t rounds);

 private:
  class TicketHost;

  // Slots that the host fills, and the answers of the device.
  struct Mailbox {
    explicit Mailbox(Word count) : cells(count) {}
    Word cells;
    PinnedWords slots = pinned_words(std::size_t{cells} * abi::kSlotWords);
    PinnedWords answers = pinned_words(cells), acks = pinned_words(cells);
    DeviceWords findings = device_words(kFindings);
  };

  static Grid whole(Word blocks_per_sm) {
    return {.block_count = blocks_per_sm * gpu().sm_count(), .thread_count = kThreads};
  }

  static Outcome with_mailbox(Mailbox& mailbox, std::string name, std::uint64_t rounds,
                              const auto& launch) {
    Outcome outcome{.name = std::move(name)};
    const auto begin = Clock::now();
    launch();
    feed(mailbox, rounds, begin, outcome);
    auto slots = live(mailbox.slots, std::size_t{mailbox.cells} * abi::kSlotWords);
    for (Word cell = 0; cell < mailbox.cells; ++cell) {
      slots.store_release(std::size_t{cell} * abi::kSlotWords, kLitmusClosed);
    }
    wait_for_kernel();
    outcome.seconds = seconds_since(begin);
    outcome.add(mailbox.findings.read());
    print(outcome);
    return outcome;
  }

  // Sends each cell its next message when the last one is answered, until the rounds are over.
  static void feed(Mailbox& mailbox, std::uint64_t rounds, Clock::time_point begin,
                   Outcome& outcome) {
    const double seconds = seconds_to_run(kUsualSeconds);
    auto slots = live(mailbox.slots, std::size_t{mailbox.cells} * abi::kSlotWords);
    const auto answers = live(mailbox.answers, mailbox.cells);
    const auto acks = live(mailbox.acks, mailbox.cells);
    std::vector<Word> sent(mailbox.cells), answered(mailbox.cells);
    std::uint64_t open = 0;
    ProgressTimeout timeout;
    for (bool is_over = false; !is_over || open != 0;) {
      const std::uint64_t before = outcome.rounds - open;
      for (Word cell = 0; cell < mailbox.cells; ++cell) {
        if (acks.load_acquire(cell) != sent[cell]) continue;
        if (answered[cell] != sent[cell]) {
          if (answers.load_relaxed(cell) != answer_to(sent[cell])) ++outcome.forbidden;
          answered[cell] = sent[cell];
          --open;
        }
        if (is_over) continue;
        ++sent[cell];
        slots.store_slot(cell, slot_of(sent[cell], sent[cell]));
        ++outcome.rounds;
        ++open;
      }
      is_over = is_over || outcome.rounds >= rounds || seconds_since(begin) > seconds;
      if (outcome.rounds - open != before) timeout.note_progress();
      if (!timeout.has_passed()) continue;
      ++outcome.stuck;
      return;
    }
  }
};

// Stores a slot past the caches of the host. A fence must order later stores behind it.
void stream_slot(Word* line, const abi::Slot& slot) {
#if defined(__SSE2__)
  const auto quad = [&](int k, Word a, Word b, Word c, Word d) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(line) + k,
                     _mm_set_epi32(static_cast<int>(d), static_cast<int>(c), static_cast<int>(b),
                                   static_cast<int>(a)));
  };
  quad(0, static_cast<Word>(slot.status), slot.opcode, slot.tenant, slot.priority);
  for (int k = 0; k < 3; ++k) {
    const Word* const args = slot.args + 4 * k;
    quad(k + 1, args[0], args[1], args[2], args[3]);
  }
#else
  static_cast<void>(line);
  static_cast<void>(slot);
#endif
}

void fence_stores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

constexpr bool has_streaming_stores() {
#if defined(__SSE2__)
  return true;
#else
  return false;
#endif
}

// The host's side of tickets: the slots, their tail and end, and for each group of 32 slots a word
// that counts the laps that were consumed.
class HostLitmus::TicketHost {
 public:
  static constexpr Word kCapacity = 1u << 16, kBatch = 256, kGroup = 32, kEnd = 32;

  Word* slots() const { return slots_.address(); }
  Word* tail() const { return tail_.address(); }
  Word* end() const { return tail_.address() + kEnd; }
  Word* done() const { return done_.address(); }

  TicketHost() { live_tail().store_relaxed(kEnd, ~0u); }

  // Waits until the slots of a batch are free, and fills them. Returns false on a timeout.
  bool fill(Word first, Stores stores) {
    const Word place = first % kCapacity;
    if (!wait_for_room(place / kGroup, first / kCapacity)) return false;
    auto slots = live(slots_, std::size_t{kCapacity} * abi::kSlotWords);
    for (Word i = 0; i < kBatch; ++i) {
      const Word n = first + i + 1;
      const abi::Slot slot = slot_of(n, word_of(n, 0));
      if (stores == Stores::released) {
        slots.store_slot(place + i, slot);
      } else {
        stream_slot(slots.data() + std::size_t{place + i} * abi::kSlotWords, slot);
      }
    }
    if (stores == Stores::streamed) fence_stores();
    return true;
  }
  // Publishes a filled batch. The last batch sets the end, too.
  void publish(Word first, bool is_last) {
    if (is_last) live_tail().store_relaxed(kEnd, first + kBatch);
    live_tail().store_release(0, first + kBatch);
  }

 private:
  protocol::LiveWords live_tail() const { return live(tail_, 2 * kEnd); }
  bool wait_for_room(Word first_group, Word lap) const {
    const auto done = live(done_, kCapacity / kGroup);
    const ProgressTimeout timeout;
    for (Word group = first_group; group < first_group + kBatch / kGroup; ++group) {
      for (Word looks = 1; done.load_acquire(group) != lap; ++looks) {
        spin_pause();
        if (looks % 65'536 == 0 && timeout.has_passed()) return false;
      }
    }
    return true;
  }

  PinnedWords slots_ = pinned_words(std::size_t{kCapacity} * abi::kSlotWords);
  PinnedWords tail_ = pinned_words(2 * kEnd);
  PinnedWords done_ = pinned_words(kCapacity / kGroup);
};

Outcome HostLitmus::tickets(const std::string& order, Stores stores, std::uint64_t rounds) {
  constexpr Word kBoardWords = 96;
  TicketHost host;
  DeviceWords board = device_words(kBoardWords), seen = device_words(TicketHost::kCapacity),
              findings = device_words(kFindings);
  board.write(TicketHost::kEnd, std::vector<Word>{~0u});  // the end is not known yet
  const char* const how[] = {"", ", streamed", ", streamed without a fence"};
  Outcome outcome{.name = fmt::format("tickets from the host, {}{}", order,
                                      how[static_cast<unsigned>(stores)])};
  const double seconds = seconds_to_run(kUsualSeconds);
  const auto begin = Clock::now();
  const Grid scout_and_consumers{.block_count = 1 + gpu().sm_count(), .thread_count = kThreads};
  gpu().launch(gpu().kernel("tickets_" + order), scout_and_consumers, host.slots(), host.tail(),
               host.end(), host.done(), board.address(), seen.address(), findings.address(),
               TicketHost::kCapacity);
  for (bool is_last = false; !is_last; outcome.rounds += TicketHost::kBatch) {
    const auto first = static_cast<Word>(outcome.rounds);
    if (!host.fill(first, stores)) {
      ++outcome.stuck;
      break;
    }
    is_last = first + TicketHost::kBatch >= rounds || seconds_since(begin) > seconds;
    host.publish(first, is_last);
  }
  wait_for_kernel();
  outcome.seconds = seconds_since(begin);
  outcome.add(findings.read());
  print(outcome);
  return outcome;
}

TEST_F(HostLitmus, MessagesArriveWholeBothWays) {
  expect_sound({messages("HostOrdered", rounds_to_run())});
}

TEST_F(HostLitmus, OneClaimsAndSeesThePayload) {
  expect_sound({claims("HostOrdered", rounds_to_run())});
}

TEST_F(HostLitmus, EveryTicketIsTakenOnce) {
  expect_sound({tickets("HostOrdered", Stores::released, rounds_to_run())});
}

TEST_F(HostLitmus, StreamingStoresNeedAFence) {
  if (!has_streaming_stores()) GTEST_SKIP() << "this processor's streaming stores are not known";
  expect_sound({tickets("HostOrdered", Stores::streamed, rounds_to_run())});
}

TEST_F(HostLitmus, ControlMessages) {
  expect_broken(
      {messages("HostRelaxed", control_rounds()), messages("HostCached", control_rounds())});
}

TEST_F(HostLitmus, ControlTickets) {
  std::vector<Outcome> outcomes{tickets("HostRelaxed", Stores::released, control_rounds()),
                                tickets("HostCached", Stores::released, control_rounds())};
  if (has_streaming_stores()) {
    outcomes.push_back(tickets("HostOrdered", Stores::unfenced, control_rounds()));
  }
  expect_broken(outcomes);
}

}  // namespace
}  // namespace everkernel::test
