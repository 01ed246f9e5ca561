// The doorbell at which workers sleep, and the record of a queue.
#include "everkernel/backend/detail/live.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "backend/futex.hpp"
#include "base/descriptor.hpp"
#include "everkernel/base/detail/fence.hpp"
#include "memory/shared_memory.hpp"

namespace everkernel::backend {
namespace {

// A client that rings more often than this within kWindow, each time without an entry to take, is
// not heard for the rest of it.
constexpr int kEmptyRings = 8;
constexpr auto kWindow = std::chrono::milliseconds(1);
// A sleeping worker sees this often whether the bell still rings, and if it does not, looks for
// work.
constexpr auto kSlice = std::chrono::seconds(1);
constexpr auto kBrokenNap = std::chrono::milliseconds(10);

Failure no_descriptor(std::string_view what) {
  return fail(Code::io, fmt::format("session: no {}: {}", what, std::strerror(errno)),
              "raise the limit of open files (ulimit -n)", errno);
}

// The bell of the session's own process is an eventfd that counts: a bell that one reader resets
// would lose the wake-up of another. The eventfd of a client is never read or written here, because
// the client could take the ring away or make the call block: an edge says that it rang.
class EventDoorbell final : public Doorbell {
 public:
  EventDoorbell(memory::SharedMemory page, Descriptor event, Descriptor poll)
      : Doorbell(word_of(page), false),
        armed_(word_of(page)),
        page_(std::move(page)),
        event_(std::move(event)),
        poll_(std::move(poll)) {}

  Result<void> listen() { return change(EPOLL_CTL_ADD, event_.get(), EPOLLIN, 0); }

  // Rings that nobody has heard yet are never more than the workers that sleep, or workers would
  // wake up for nothing again and again later.
  void ring(Word count) override {
    fence::full();  // whoever hears an earlier ring instead sees what was stored before
    const Word sleeping = std::atomic_ref(*armed_).load(std::memory_order_relaxed);
    Word unheard = unheard_.load(std::memory_order_relaxed);
    Word added = 0;
    do {
      if (unheard >= sleeping) return;
      added = std::min(count, sleeping - unheard);
    } while (!unheard_.compare_exchange_weak(unheard, unheard + added, std::memory_order_seq_cst));
    const std::uint64_t rings = added;
    // The only error of a counter that is not near its limit is an interruption.
    while (::write(event_.get(), &rings, sizeof rings) < 0) {
      if (errno == EINTR) continue;
      unheard_.fetch_sub(added, std::memory_order_seq_cst);
      cannot_ring_.store(true, std::memory_order_release);
      return;
    }
  }

  void arm() override {
    std::atomic_ref(*armed_).fetch_add(1, std::memory_order_seq_cst);
    fence::heavy();
  }

  std::shared_ptr<LiveQueue> wait(std::chrono::nanoseconds timeout) override {
    constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(1);
    const auto deadline = Clock::now() + std::min(timeout, kLongest);
    epoll_event heard{};
    int count = 0;
    do {  // again if only the time was over in which a client is not heard
      auto length = std::max<std::chrono::nanoseconds>(deadline - Clock::now(), {});
      if (has_deaf_.load(std::memory_order_relaxed)) {
        length = std::min<std::chrono::nanoseconds>(length, kWindow);
      }
      const bool is_broken = cannot_ring_.load(std::memory_order_acquire);
      length = std::min<std::chrono::nanoseconds>(length, is_broken ? kBrokenNap : kSlice);
      const auto limit = std::chrono::ceil<std::chrono::milliseconds>(length);
      count = ::epoll_wait(poll_.get(), &heard, 1, static_cast<int>(limit.count()));
      if (has_deaf_.load(std::memory_order_relaxed)) listen_again();
    } while (count == 0 && Clock::now() < deadline &&
             !cannot_ring_.load(std::memory_order_acquire));
    if (count <= 0) return nullptr;
    if (heard.data.u64 != 0) return queue_of(heard.data.u64);
    std::uint64_t taken = 0;
    // Another worker may have taken the ring: then this one looks, and sleeps again.
    if (::read(event_.get(), &taken, sizeof taken) > 0) {
      unheard_.fetch_sub(1, std::memory_order_seq_cst);
    }
    return nullptr;
  }

  void disarm() override { std::atomic_ref(*armed_).fetch_sub(1, std::memory_order_relaxed); }

  void answer(const LiveQueue& queue, bool had_work) override {
    if (had_work) return;
    const std::scoped_lock held(mutex_);
    const auto client = find(queue);
    if (client == clients_.end() || client->is_deaf) return;
    const auto now = Clock::now();
    if (now - client->window >= kWindow) {
      client->window = now;
      client->empty_rings = 0;
    }
    if (++client->empty_rings <= kEmptyRings) return;
    static_cast<void>(change(EPOLL_CTL_DEL, client->event.get(), 0, 0));
    client->is_deaf = true;
    has_deaf_.store(true, std::memory_order_relaxed);
  }

  Result<int> add_client(std::shared_ptr<LiveQueue> queue) override {
    Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event.is_open()) return no_descriptor("eventfd");
    const int number = event.get();
    const std::scoped_lock held(mutex_);
    clients_.reserve(clients_.size() + 1);
    EVERKERNEL_TRY(change(EPOLL_CTL_ADD, number, EPOLLIN | EPOLLET, ++last_key_));
    clients_.push_back({.key = last_key_, .event = std::move(event), .queue = std::move(queue)});
    return number;
  }

  void remove_client(const LiveQueue& queue) override {
    const std::scoped_lock held(mutex_);
    const auto client = find(queue);
    if (client == clients_.end()) return;
    // A copy of the descriptor in the client's process would keep it in the epoll.
    if (!client->is_deaf) static_cast<void>(change(EPOLL_CTL_DEL, client->event.get(), 0, 0));
    clients_.erase(client);
  }

  int armed_descriptor() const override { return page_.file_descriptor(); }

 private:
  struct Client {
    std::uint64_t key = 0;  // names it in events
    Descriptor event;
    std::shared_ptr<LiveQueue> queue;
    Clock::time_point window = {};  // in which its empty rings are counted
    int empty_rings = 0;
    bool is_deaf = false;  // its rings are not heard until the window is over
  };

  static std::uint32_t* word_of(const memory::SharedMemory& page) {
    return reinterpret_cast<std::uint32_t*>(page.part(0).data());
  }

  Result<void> change(int operation, int event, std::uint32_t events, std::uint64_t key) {
    epoll_event wanted{};
    wanted.events = events;
    wanted.data.u64 = key;
    if (::epoll_ctl(poll_.get(), operation, event, &wanted) == 0) return {};
    return no_descriptor("room in an epoll");
  }

  std::vector<Client>::iterator find(const LiveQueue& queue) {
    return std::ranges::find_if(clients_,
                                [&](const Client& one) { return one.queue.get() == &queue; });
  }

  std::shared_ptr<LiveQueue> queue_of(std::uint64_t key) {
    const std::scoped_lock held(mutex_);
    const auto client = std::ranges::find(clients_, key, &Client::key);
    return client == clients_.end() ? nullptr : client->queue;
  }

  // A ring that came meanwhile is heard at once: its eventfd is not empty.
  void listen_again() {
    const std::scoped_lock held(mutex_);
    bool has_deaf = false;
    for (Client& client : clients_) {
      if (!client.is_deaf) continue;
      if (Clock::now() - client.window < kWindow) {
        has_deaf = true;
        continue;
      }
      client.is_deaf =
          !change(EPOLL_CTL_ADD, client.event.get(), EPOLLIN | EPOLLET, client.key).has_value();
      has_deaf |= client.is_deaf;
    }
    has_deaf_.store(has_deaf, std::memory_order_relaxed);
  }

  std::uint32_t* const armed_;
  memory::SharedMemory page_;
  Descriptor event_;
  Descriptor poll_;
  std::atomic<Word> unheard_{0};  // rings that no worker has taken yet
  std::atomic<bool> has_deaf_{false};
  std::atomic<bool> cannot_ring_{false};  // a write failed: workers look by themselves
  std::mutex mutex_;                      // guards everything below
  std::vector<Client> clients_;
  std::uint64_t last_key_ = 0;
};

}  // namespace

Result<std::shared_ptr<Doorbell>> Doorbell::create() {
  fence::prepare();
  // Other processes map the page, and only this mapping writes it.
  auto page = EVERKERNEL_TRY(memory::SharedMemory::create(std::array{sizeof(std::uint32_t)},
                                                          memory::Writers::this_mapping));
  Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  if (!event.is_open()) return no_descriptor("eventfd");
  Descriptor poll(::epoll_create1(EPOLL_CLOEXEC));
  if (!poll.is_open()) return no_descriptor("epoll");
  auto doorbell =
      std::make_shared<EventDoorbell>(std::move(page), std::move(event), std::move(poll));
  EVERKERNEL_TRY(doorbell->listen());
  return std::shared_ptr<Doorbell>(std::move(doorbell));
}

// Several threads may do this at the same time; the highest result counts. A thread that was
// delayed for laps finds tickets that ended long ago, or stops early: it never passes a ticket that
// has not ended, because between the real floor and the head every outcome is of its ticket's lap.
LongWord LiveQueue::raise_floor() {
  const LongWord end = head.load(std::memory_order_acquire);
  LongWord seen = floor.load(std::memory_order_acquire);
  LongWord next = seen < end ? seen + words.count_ended(seen, end - seen) : seen;
  while (seen < next && !floor.compare_exchange_weak(seen, next, std::memory_order_acq_rel,
                                                     std::memory_order_acquire)) {
  }
  return std::max(seen, next);
}

bool LiveQueue::is_drained() {
  const LongWord next = head.load(std::memory_order_acquire);
  return raise_floor() >= next && !words.peek(next);
}

void LiveQueue::notify() {
  fence::light();
  if (sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    wake_sleepers();
  if (!is_given.load(std::memory_order_relaxed)) return;
  fence::full();  // the other process does not pass a fence for this one
  if (words.is_waiting()) futex::wake_shared(words.change_wake_word());
}

void LiveQueue::wake_sleepers() {
  wakes.fetch_add(1, std::memory_order_acq_rel);
  futex::wake(wakes);
  std::atomic<std::uint32_t>* const word = follower.load(std::memory_order_acquire);
  if (word == nullptr) return;
  word->fetch_add(1, std::memory_order_acq_rel);
  futex::wake(*word);
}

LiveKernel::~LiveKernel() = default;

}  // namespace everkernel::backend
