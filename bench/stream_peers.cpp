#include "stream_peers.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "base/spin.hpp"
#include "everkernel/abi/queue.hpp"
#include "everkernel/protocol/queue.hpp"

namespace everkernel::bench {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::detail::store_quad;

constexpr auto kPatience = std::chrono::seconds(10);

// As in the kernels.
constexpr Word kClosed = 0xFFFFFFFFu;
constexpr Word kQueuePlaces = 1u << 16;
constexpr std::size_t kQueueBytes =
    std::size_t{kQueuePlaces} * 16 + kQueuePlaces + std::size_t{256} * 16;
constexpr Word kQueues = 8;
constexpr Word kPortion = 128;
constexpr std::size_t kStateWords = kQueues * 64 + 32;

constexpr Word kRingPlaces = 1u << 18;
constexpr Word kRingChunk = 2048;
constexpr std::size_t kApart = 32;  // words between those of different writers

std::atomic_ref<Word> word_at(const backend::cuda::PinnedMemory& memory, std::size_t word) {
  return std::atomic_ref(*(reinterpret_cast<Word*>(memory.data()) + word));
}
Word* device_word(const backend::cuda::PinnedMemory& memory, std::size_t word) {
  return reinterpret_cast<Word*>(memory.device_pointer()) + word;
}

/// Waits of several threads; when one takes too long, all of them end.
class Waits {
 public:
  /// Whether the condition came to hold.
  bool wait(const auto& holds) {
    for (std::uint64_t looks = 1; !holds(); ++looks) {
      spin_pause();
      if (looks % 4096 == 0 && Clock::now() > end_) is_over_ = true;
      if (is_over_.load(std::memory_order_relaxed)) return false;
    }
    return true;
  }
  bool is_over() const { return is_over_; }

 private:
  Clock::time_point end_ = Clock::now() + kPatience;
  std::atomic<bool> is_over_ = false;
};

/// Runs a function in that many threads.
void run_threads(unsigned count, const std::function<void(unsigned)>& body) {
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < count; ++i) threads.emplace_back(body, i);
}

Word read_word(const backend::Memory& memory, std::size_t word) {
  Word value = 0;
  must(memory.read(word * sizeof(Word), std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

/// A publisher of compact entries.
class CompactQueue {
 public:
  explicit CompactQueue(std::byte* memory)
      : entries_(reinterpret_cast<abi::Quad*>(memory)),
        outcomes_(reinterpret_cast<abi::LongWord*>(memory + std::size_t{kQueuePlaces} * 16)),
        tail_(*reinterpret_cast<Word*>(memory + std::size_t{kQueuePlaces} * 17)) {}

  void publish(Word items, Waits& waits) {
    for (Word base = 0; base < items; base += kPortion) {
      if (base >= kQueuePlaces && !wait_for(base - kQueuePlaces, waits)) return;
      const Word lap = lap_of(base);
      for (Word ticket = base; ticket < base + kPortion; ++ticket) {
        store_quad(entries_ + ticket % kQueuePlaces, {{lap | 9, ticket, 0, ~ticket}});
      }
      tail_.store(base + kPortion, std::memory_order_release);
    }
    const Word first = items > kQueuePlaces ? items - kQueuePlaces : 0;
    for (Word base = first; base < items; base += kPortion) {
      if (!wait_for(base, waits)) return;
    }
  }
  void close() { tail_.store(kClosed, std::memory_order_release); }

 private:
  static Word lap_of(Word ticket) { return (ticket / kQueuePlaces & 1) == 0 ? 0x80000000u : 0; }
  // Until the outcomes of a portion are there.
  bool wait_for(Word base, Waits& waits) {
    const abi::LongWord expected = (lap_of(base) >> 24 | 1) * 0x0101010101010101ull;
    const abi::LongWord* const bytes = outcomes_ + base % kQueuePlaces / 8;
    for (Word i = 0; i < kPortion / 8; ++i) {
      const auto is_there = [&] {
        return __atomic_load_n(bytes + i, __ATOMIC_ACQUIRE) == expected;
      };
      if (!is_there() && !waits.wait(is_there)) return false;
    }
    return true;
  }

  abi::Quad* entries_;
  abi::LongWord* outcomes_;
  std::atomic_ref<Word> tail_;
};

}  // namespace

StreamPeers::StreamPeers(const Peers& peers)
    : peers_(peers),
      ring_(peers.pinned(std::size_t{kRingPlaces} * 64)),
      words_(peers.pinned((2 * kApart + kRingPlaces / 32) * sizeof(Word))),
      queues_(peers.pinned(kQueues * kQueueBytes)),
      state_(peers.words(kStateWords)) {}

double StreamPeers::full_ns(unsigned publishers, Word items) {
  const std::vector<std::byte> zeros(kStateWords * sizeof(Word));
  must(state_->write(0, zeros));
  std::memset(words_.data(), 0, words_.size_bytes());
  peers_.launch(peers_.kernel("stream_full"),
                {.block_count = peers_.sm_count(), .thread_count = 512}, ring_.device_pointer(),
                kRingPlaces, device_word(words_, 0), device_word(words_, kApart),
                device_word(words_, 2 * kApart), state_->device_address());
  const auto tail = word_at(words_, 0), done = word_at(words_, kApart);
  Waits waits;
  std::atomic<Word> next{0};  // the chunk whose publisher moves the tail
  const auto publish = [&](unsigned id) {
    for (Word base = id * kRingChunk; base < items; base += publishers * kRingChunk) {
      const auto has_room = [&] {
        return static_cast<std::int32_t>(base + kRingChunk -
                                         done.load(std::memory_order_acquire)) <=
               static_cast<std::int32_t>(kRingPlaces / 2);
      };
      if (!waits.wait(has_room)) return;
      for (Word i = base; i < base + kRingChunk; ++i) {
        auto* const place =
            reinterpret_cast<abi::Quad*>(ring_.data()) + std::size_t{i % kRingPlaces} * 4;
        for (Word quad = 1; quad < 4; ++quad) store_quad(place + quad, {{i, i, i, i}});
        store_quad(place, {{1, i, 0, 2}});
      }
      if (!waits.wait([&] { return next.load(std::memory_order_acquire) == base; })) return;
      tail.store(base + kRingChunk, std::memory_order_release);
      next.store(base + kRingChunk, std::memory_order_release);
    }
  };
  const double time = host_ns([&] {
    run_threads(publishers, publish);
    waits.wait([&] { return done.load(std::memory_order_acquire) == items; });
  });
  tail.store(kClosed, std::memory_order_release);
  peers_.wait();
  expect(!waits.is_over(), "the peer of full entries takes them all in time");
  expect(read_word(*state_, 96) == 2 * items * (items - 1), "the peer reads every entry once");
  return time;
}

double StreamPeers::compact_ns(unsigned publishers, Word items) {
  const Word items_each = items / publishers;
  const std::vector<std::byte> zeros(kStateWords * sizeof(Word));
  must(state_->write(0, zeros));
  std::memset(queues_.data(), 0, queues_.size_bytes());
  peers_.launch(peers_.kernel("stream_compact"),
                {.block_count = peers_.sm_count(), .thread_count = 256}, queues_.device_pointer(),
                Word{publishers}, items_each, state_->device_address());
  Waits waits;
  const auto publish = [&](unsigned id) {
    CompactQueue queue(queues_.data() + id * kQueueBytes);
    queue.publish(items_each, waits);
    if (waits.is_over()) queue.close();
  };
  const double time = host_ns([&] { run_threads(publishers, publish); });
  peers_.wait();
  expect(!waits.is_over(), "the peer of compact entries takes them all in time");
  expect(read_word(*state_, kQueues * 64) == 0, "the peer reads every entry as it was published");
  return time;
}

}  // namespace everkernel::bench
