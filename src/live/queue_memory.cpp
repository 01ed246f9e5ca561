// Makes the files of a queue.
#include "live/queue_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace everkernel::live {
namespace {

using memory::SharedMemory;

// The process that made a queue tries the lock for a moment when it looks for a client.
constexpr int kLockTries = 20;
constexpr auto kLockPause = std::chrono::milliseconds(1);

Failure refused(std::string_view call) {
  return fail(Code::io, fmt::format("queue: {}: {}", call, std::strerror(errno)),
              "raise the limit of open files (ulimit -n), and check that /proc is mounted", errno);
}

// Locks the only file that the client has open. The lock is gone when its process is.
Result<void> lock_as_client(int file) {
  for (int tries = 0; ::flock(file, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR) return refused("flock");
    if (tries >= kLockTries) {
      return fail(Code::queue_full, "queue: another process publishes into it",
                  "ask for another queue: each has one producer");
    }
    std::this_thread::sleep_for(kLockPause);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const QueueMemory>> QueueMemory::create(const protocol::QueueShape& shape) {
  EVERKERNEL_TRY(protocol::check_shape(shape));
  const abi::QueueHeader header =
      abi::queue_header(shape.entries, shape.capacity, shape.has_results, shape.first_ticket);
  auto producer_file = EVERKERNEL_TRY(
      SharedMemory::create(std::array{static_cast<std::size_t>(header.producer_bytes)}));
  // Another process that gets the file can only read it: a client stores no outcomes.
  auto kernel_file = EVERKERNEL_TRY(SharedMemory::create(
      std::array{static_cast<std::size_t>(header.kernel_bytes)}, memory::Writers::this_mapping));
  protocol::encode_queue(header, producer_file.part(0), kernel_file.part(0));
  return std::shared_ptr<const QueueMemory>(
      new QueueMemory(header, std::move(producer_file), std::move(kernel_file)));
}

Result<std::shared_ptr<const QueueMemory>> QueueMemory::attach(Descriptor producer_file,
                                                               Descriptor kernel_file) {
  EVERKERNEL_TRY(lock_as_client(producer_file.get()));
  auto written = EVERKERNEL_TRY(SharedMemory::attach(
      std::move(producer_file), memory::Mapped::read_write, sizeof(abi::ProducerLine)));
  auto read = EVERKERNEL_TRY(
      SharedMemory::attach(std::move(kernel_file), memory::Mapped::read, sizeof(abi::QueueHeader)));
  const abi::QueueHeader header =
      EVERKERNEL_TRY(protocol::read_queue_header(read.part(0), written.part(0).size()));
  return std::shared_ptr<const QueueMemory>(
      new QueueMemory(header, std::move(written), std::move(read)));
}

// A lock belongs to an open, and a copy of a descriptor is no new one.
Result<Descriptor> QueueMemory::open_for_client() const {
  const std::string path = fmt::format("/proc/self/fd/{}", producer_file_.file_descriptor());
  for (;;) {
    Descriptor opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (opened.is_open()) return opened;
    if (errno != EINTR) return refused("open");
  }
}

bool QueueMemory::has_no_client() const {
  const int file = producer_file_.file_descriptor();
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) return false;
  ::flock(file, LOCK_UN);
  return true;
}

}  // namespace everkernel::live
