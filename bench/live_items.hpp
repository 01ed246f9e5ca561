// Single items through a session on a GPU: what the live benchmarks publish, and how they time it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_peers.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "harness.hpp"

namespace everkernel::bench {

using Clock = std::chrono::steady_clock;

/// Every wait for an item fails after that.
inline constexpr auto kPatience = std::chrono::seconds(10);

inline constexpr Word kStore = 1;
inline constexpr Word kAddToBuffer = 64;
inline constexpr Word kSpin = 65;     ///< takes the turns that its third argument says
inline constexpr Word kAnswer = 66;   ///< answers with three words
inline constexpr Word kForever = 67;  ///< yields for ever; only if asked for
inline constexpr Word kBuffer = 7;    ///< the buffer that kAddToBuffer adds to

/// A megakernel of those handlers.
Megakernel make_live_kernel(const std::shared_ptr<backend::Backend>& backend,
                            bool has_forever = false);

/// An item of kSpin.
inline abi::WorkItem spin_of(Word turns) {
  return {kSpin, 0, 0, turns};
}
/// The turns of kSpin that take that long, by the difference of two lengths: what surrounds a run
/// cancels out. In a smoke run a small number.
Word turns_of(Megakernel& kernel, const Options& options, std::chrono::nanoseconds length);

/// The names of the figures that percentiles() gives.
std::vector<std::string> percentile_names();
/// p50, p99 and p99.9.
std::vector<double> percentiles(std::vector<double>& times);
/// One of them.
double percentile(std::vector<double>& times, double part);

/// Draws random numbers, and passes random times.
class Pauses {
 public:
  std::uint64_t draw() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 33;
  }
  void pass() {
    const auto longest = static_cast<std::uint64_t>(kLongest.count());
    const auto end = Clock::now() + std::chrono::nanoseconds(draw() % longest);
    while (Clock::now() < end) {
    }
  }

 private:
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::microseconds(4);
  std::uint64_t state_ = 1;
};

/// Producers that publish an item in batches, each into a queue of its own, at full speed.
struct Floods {
  unsigned count = 0;
  Priority priority = Priority::low;
  abi::WorkItem item = {};
};

/// What is published, and where.
struct Scene {
  protocol::Operation item = {};
  QueueOptions queue = {.capacity = 256};
  Word queue_count = 1;
  bool through_session = false;  ///< into the session's own queue, which has full entries
  bool pauses = false;           ///< a random time before each item
  Floods beside = {};
};

/// Times single items, each of which is waited for before the next one is published.
class LiveItems {
 public:
  /// Times `count` items after `warm_count` others. `kernel` outlives it.
  LiveItems(Megakernel& kernel, std::size_t count, std::size_t warm_count)
      : kernel_(kernel), count_(count), warm_count_(warm_count) {}

  /// The percentiles, in a session of its own.
  std::vector<double> live(const Scene& scene);
  /// The same for calls instead of items.
  std::vector<double> calls(const Scene& scene, const std::function<void(Session&, Queue&)>& call);
  /// Items a second that the floods published in the last session.
  double flood_rate() const { return flood_rate_; }

 private:
  Megakernel& kernel_;
  std::size_t count_;
  std::size_t warm_count_;
  double flood_rate_ = 0;
};

/// Asks a question of that name; if it fails, the others are asked all the same.
using Answer = std::function<void(std::string_view name, const std::function<void()>& ask)>;

/// The questions about what a session and what happens in it cost others.
void ask_isolation(Suite& suite, const Options& options, const Peers& peers,
                   const std::shared_ptr<backend::Backend>& backend, const Answer& answer);

}  // namespace everkernel::bench
