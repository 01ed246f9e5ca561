// Maps the files of queues, and lays out what the kernel keeps of a queue.
#include "backend/cuda/live_queues.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <vector>

namespace everkernel::backend::cuda {
namespace {

using abi::LongWord;
using device::LiveQueueRow;

// cuMemHostRegister: the device gets an address for the pages.
constexpr unsigned kMapForDevice = 2;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kAlignment = 128;
constexpr Word kBitsPerWord = 32;

std::size_t aligned(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

void raise(std::atomic<LongWord>& word, LongWord to) {
  LongWord seen = word.load(std::memory_order_relaxed);
  while (seen < to && !word.compare_exchange_weak(seen, to, std::memory_order_acq_rel)) {
  }
}

}  // namespace

// ---- pages ----

Result<MappedPages> MappedPages::map(std::shared_ptr<const Context> context, const void* begin,
                                     std::size_t size_bytes, std::shared_ptr<const void> owner) {
  const Current current = EVERKERNEL_TRY(context->enter());
  const Driver& driver = context->driver();
  auto* const pages = const_cast<void*>(begin);
  const std::size_t whole_bytes = aligned(size_bytes, kPageBytes);
  context->reserve_place_to_keep();
  const auto registered = context->check(
      driver.cuMemHostRegister(pages, whole_bytes, kMapForDevice), "mapping the memory of a queue");
  if (!registered) context->return_place_to_keep();
  EVERKERNEL_TRY(registered);
  MappedPages mapped(std::move(context), pages, whole_bytes, std::move(owner));
  EVERKERNEL_TRY(
      mapped.context_->check(driver.cuMemHostGetDevicePointer(&mapped.device_pointer_, pages, 0),
                             "cuMemHostGetDevicePointer"));
  return mapped;
}

MappedPages::MappedPages(MappedPages&& other) noexcept
    : context_(std::move(other.context_)),
      begin_(std::exchange(other.begin_, nullptr)),
      size_bytes_(other.size_bytes_),
      owner_(std::move(other.owner_)),
      device_pointer_(other.device_pointer_) {}

MappedPages& MappedPages::operator=(MappedPages&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(begin_, other.begin_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(owner_, other.owner_);
  std::swap(device_pointer_, other.device_pointer_);
  return *this;
}

MappedPages::~MappedPages() {
  if (begin_ != nullptr) context_->unmap(begin_, size_bytes_, std::move(owner_));
}

// ---- queues ----

DeviceQueue::Offsets DeviceQueue::offsets_of(Word capacity) {
  Offsets at{};
  at.slots = aligned(sizeof(LiveQueueRow), kAlignment);
  at.ended = at.slots + std::size_t{capacity} * abi::kSlotBytes;
  at.waiting = aligned(at.ended + capacity, kAlignment);
  at.end = at.waiting + std::size_t{(capacity + kBitsPerWord - 1) / kBitsPerWord} * abi::kWordBytes;
  return at;
}

Result<std::unique_ptr<DeviceQueue>> DeviceQueue::create(const std::shared_ptr<Context>& context,
                                                         std::shared_ptr<LiveQueue> queue,
                                                         Word number) {
  const protocol::QueueKernel& words = queue->words;
  const abi::QueueHeader& header = words.header();
  auto producer_file = EVERKERNEL_TRY(
      MappedPages::map(context, words.producer_file(), header.producer_bytes, queue));
  auto kernel_file =
      EVERKERNEL_TRY(MappedPages::map(context, words.kernel_file(), header.kernel_bytes, queue));
  auto block = EVERKERNEL_TRY(CudaMemory::create(context, offsets_of(header.capacity).end));
  std::unique_ptr<DeviceQueue> made(new DeviceQueue(std::move(queue), number,
                                                    std::move(producer_file),
                                                    std::move(kernel_file), std::move(block)));
  EVERKERNEL_TRY(made->fill());
  return made;
}

DeviceQueue::DeviceQueue(std::shared_ptr<LiveQueue> queue, Word number, MappedPages producer_file,
                         MappedPages kernel_file, std::unique_ptr<Memory> block)
    : queue_(std::move(queue)),
      number_(number),
      offsets_(offsets_of(queue_->words.capacity())),
      producer_file_(std::move(producer_file)),
      kernel_file_(std::move(kernel_file)),
      block_(std::move(block)) {}

Result<void> DeviceQueue::fill() {
  const protocol::QueueKernel& words = queue_->words;
  const abi::QueueHeader& header = words.header();
  const Word capacity = words.capacity();
  const LongWord head = queue_->head.load(std::memory_order_acquire);
  const auto place_in = [](CuPointer pages, LongWord offset) {
    return reinterpret_cast<Word*>(pages + offset);
  };
  std::vector<std::byte> image(offsets_.end);
  LiveQueueRow row{};
  row.entries = place_in(producer_file_.device_pointer(), header.entries_offset);
  row.outcomes = place_in(kernel_file_.device_pointer(), header.outcomes_offset);
  if (header.faults_offset != 0) {
    row.fault_codes = place_in(kernel_file_.device_pointer(), header.faults_offset);
  }
  row.slots = place_in(this->row(), offsets_.slots);
  row.ended = reinterpret_cast<unsigned char*>(place_in(this->row(), offsets_.ended));
  row.waiting = place_in(this->row(), offsets_.waiting);
  row.capacity = capacity;
  row.is_full = words.is_compact() ? 0 : 1;
  row.has_results = words.has_results() ? 1 : 0;
  row.tenant = queue_->tenant;
  row.priority = queue_->priority;
  row.number = number_;
  row.first_ticket = words.first_ticket();
  row.head = head;
  std::memcpy(image.data(), &row, sizeof row);
  // Every place is free for its next ticket: the one before has ended.
  for (LongWord ticket = head; ticket < head + capacity; ++ticket) {
    image[offsets_.ended + words.place_of(ticket)] =
        std::byte{abi::outcome_byte(abi::OutcomeCode::done, words.lap_bit(ticket) ^ 1)};
  }
  stage_taken(image);
  return block_->write(0, image);
}

// Tickets that were taken and have not ended become items that wait to run again.
void DeviceQueue::stage_taken(std::vector<std::byte>& image) const {
  const protocol::QueueKernel& words = queue_->words;
  auto* const row = reinterpret_cast<LiveQueueRow*>(image.data());
  for (LongWord ticket = queue_->raise_floor(); ticket < row->head; ++ticket) {
    if (words.has_ended(ticket)) continue;
    const Word place = words.place_of(ticket);
    constexpr Word kUnknownOpcode = ~Word{1};
    abi::Slot slot = words.copy_slot(ticket).value_or(abi::Slot{{}, kUnknownOpcode, 0, 0, {}});
    slot.status = abi::SlotStatus::requeue;
    std::memcpy(image.data() + offsets_.slots + std::size_t{place} * abi::kSlotBytes, &slot,
                sizeof slot);
    image[offsets_.ended + place] =
        std::byte{abi::outcome_byte(abi::OutcomeCode::done, words.lap_bit(ticket) ^ 1)};
    Word bits = 0;
    std::byte* const at =
        image.data() + offsets_.waiting + std::size_t{place / kBitsPerWord} * abi::kWordBytes;
    std::memcpy(&bits, at, sizeof bits);
    bits |= Word{1} << place % kBitsPerWord;
    std::memcpy(at, &bits, sizeof bits);
    ++row->waiting_count;
  }
}

Result<void> DeviceQueue::note_head() {
  LongWord head = 0;
  EVERKERNEL_TRY(
      block_->read(offsetof(LiveQueueRow, head), std::as_writable_bytes(std::span(&head, 1))));
  raise(queue_->head, head);
  // A place is taken again when its ticket has ended. Without this, the floor would stay behind for
  // laps, and outcomes that belong to later tickets of a place would count as missing.
  const Word capacity = queue_->words.capacity();
  if (head > capacity) raise(queue_->floor, head - capacity);
  return {};
}

Result<void> DeviceQueue::copy_waiting(std::vector<LiveItem>& items) const {
  std::vector<Word> bits((offsets_.end - offsets_.waiting) / abi::kWordBytes);
  EVERKERNEL_TRY(block_->read(offsets_.waiting, std::as_writable_bytes(std::span(bits))));
  if (std::ranges::all_of(bits, [](Word word) { return word == 0; })) return {};
  const Word capacity = queue_->words.capacity();
  std::vector<abi::Slot> slots(capacity);
  EVERKERNEL_TRY(block_->read(offsets_.slots, std::as_writable_bytes(std::span(slots))));
  const LongWord head = queue_->head.load(std::memory_order_acquire);
  for (Word place = 0; place < capacity; ++place) {
    if ((bits[place / kBitsPerWord] >> place % kBitsPerWord & 1) == 0) continue;
    const LongWord ticket = head - 1 - ((head - 1 - place) & (capacity - 1));
    items.push_back({.ticket = ticket, .slot = slots[place]});
  }
  return {};
}

}  // namespace everkernel::backend::cuda
