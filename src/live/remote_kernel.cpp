// Ringing, sleeping and noticing the end across processes.
#include "live/remote_kernel.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "backend/futex.hpp"
#include "everkernel/base/detail/fence.hpp"

namespace everkernel::live {
namespace {

class ClientBell final : public backend::Bell {
 public:
  ClientBell(memory::SharedMemory page, Descriptor event)
      : Bell(reinterpret_cast<const std::uint32_t*>(page.part(0).data()), true),
        page_(std::move(page)),
        event_(std::move(event)) {}

  // Nobody reads the eventfd. When its counter is full after 2^64 rings, it starts again.
  void ring(Word) override {
    std::uint64_t value = 1;
    while (::write(event_.get(), &value, sizeof value) < 0) {
      if (errno == EAGAIN && ::read(event_.get(), &value, sizeof value) > 0)
        value = 1;
      else if (errno != EINTR)
        return;
    }
  }

 private:
  const memory::SharedMemory page_;
  const Descriptor event_;
};

}  // namespace

Result<std::unique_ptr<RemoteKernel>> RemoteKernel::create(Handover& handover) {
  auto page = EVERKERNEL_TRY(memory::SharedMemory::attach(
      std::move(handover.armed_file), memory::Mapped::read, sizeof(std::uint32_t)));
  return std::unique_ptr<RemoteKernel>(
      new RemoteKernel(std::make_shared<ClientBell>(std::move(page), std::move(handover.bell)),
                       std::move(handover.kernel_process)));
}

Result<void> RemoteKernel::check_running(const protocol::QueueProducer& words) const {
  const abi::QueueState state = words.state();
  if (state == abi::QueueState::closed) {
    return fail(Code::invalid_argument, "queue is closed", "ask for another queue");
  }
  if (state == abi::QueueState::lost) {
    return fail(Code::device_lost, "queue: its kernel was lost",
                "wait until the process that runs it has recovered");
  }
  if (!is_process_gone()) return {};
  return fail(Code::device_lost, "queue: the process that ran its kernel has ended",
              "start that process again and ask for another queue");
}

bool RemoteKernel::is_process_gone() const {
  pollfd ended{.fd = process_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, 0) > 0;
}

void RemoteKernel::sleep(const protocol::QueueProducer& words, const std::function<bool()>& is_met,
                         backend::Clock::time_point deadline) {
  sleep_with(words, is_met, [&](Word before) {
    backend::futex::wait_shared(words.wake_word(), before, deadline - backend::Clock::now());
  });
}

void RemoteKernel::sleep_beside(const std::atomic<std::uint32_t>& rings, std::uint32_t prepared,
                                const protocol::QueueProducer& words,
                                const std::function<bool()>& is_met,
                                std::chrono::nanoseconds timeout) {
  sleep_with(words, is_met, [&](Word before) {
    backend::futex::wait_on_both({&rings, prepared, words.wake_word(), before}, timeout);
  });
}

// The other process reads the waiting word behind its outcome and a full fence.
void RemoteKernel::sleep_with(const protocol::QueueProducer& words,
                              const std::function<bool()>& is_met, const auto& wait) {
  const Word before = words.wake_count();
  count_sleeper(words, 1);
  fence::full();
  if (!is_met()) wait(before);
  count_sleeper(words, -1);
}

void RemoteKernel::count_sleeper(const protocol::QueueProducer& words, int change) {
  const std::scoped_lock held(mutex_);
  sleepers_ += change;
  words.set_waiting(sleepers_ != 0);
}

}  // namespace everkernel::live
