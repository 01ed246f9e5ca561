#include "neighbours.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/descriptor.hpp"
#include "live/queue_memory.hpp"

namespace everkernel::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A queue has two descriptors.
void allow_many_files() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

Result<live::Handover> hand_over(Queue& queue) {
  const Descriptor descriptor(EVERKERNEL_TRY(queue.descriptor()));
  return live::receive(descriptor.get());
}

}  // namespace

Flood::Flood(Queue& queue, const abi::WorkItem& item, std::size_t batch)
    : thread_([&queue, item, batch](const std::stop_token& stop) {
        const std::vector<abi::WorkItem> items(batch, item);
        while (!stop.stop_requested()) {
          static_cast<void>(queue.publish_items(items, milliseconds(1)));
        }
      }) {}

void fill(Queue& queue, const abi::WorkItem& item) {
  const std::vector<abi::WorkItem> items(queue.capacity(), item);
  static_cast<void>(queue.publish_items(items));
}

Result<void> reserve_and_die(Queue& queue) {
  live::Handover given = EVERKERNEL_TRY(hand_over(queue));
  const auto memory = EVERKERNEL_TRY(
      live::QueueMemory::attach(std::move(given.producer_file), std::move(given.kernel_file)));
  abi::LongWord tail = memory->producer().tail();
  memory->producer().move_tail(tail, tail + 1);
  return {};
}

Result<ClientMemory> ClientMemory::map(const live::Handover& given) {
  const auto bytes = static_cast<std::size_t>(::lseek(given.producer_file.get(), 0, SEEK_END));
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, given.producer_file.get(), 0);
  if (memory == MAP_FAILED) return fail(Code::io, "cannot map the file of a queue", {}, errno);
  return ClientMemory({static_cast<Word*>(memory), bytes / sizeof(Word)});
}

ClientMemory::~ClientMemory() {
  if (!words_.empty()) ::munmap(words_.data(), words_.size_bytes());
}

void ClientMemory::scribble(std::mt19937_64& random) {
  const std::uint64_t drawn = random();
  __atomic_store_n(&words_[drawn % words_.size()], static_cast<Word>(drawn >> 32),
                   __ATOMIC_RELAXED);
}

Result<std::unique_ptr<Scribbler>> Scribbler::start(Queue& queue) {
  const live::Handover given = EVERKERNEL_TRY(hand_over(queue));
  return std::unique_ptr<Scribbler>(new Scribbler(EVERKERNEL_TRY(ClientMemory::map(given))));
}

Scribbler::Scribbler(ClientMemory memory)
    : memory_(std::move(memory)), thread_([this](const std::stop_token& stop) {
        std::mt19937_64 random(1);
        while (!stop.stop_requested()) memory_.scribble(random);
      }) {}

Result<std::vector<Queue>> open_quiet_queues(Session& session, Word count) {
  allow_many_files();
  std::vector<Queue> queues;
  for (Word i = 0; i < count; ++i) {
    queues.push_back(EVERKERNEL_TRY(
        session.open_queue({.tenant = TenantId(i % abi::kTenantCount), .capacity = 64})));
    EVERKERNEL_TRY(queues.back().publish({}));
  }
  EVERKERNEL_TRY(session.wait_all(seconds(10)));
  std::this_thread::sleep_for(milliseconds(5));
  return queues;
}

}  // namespace everkernel::bench
