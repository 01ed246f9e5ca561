// Buffers on the device and their host copies: writing, refreshing the copy, restoring from it.
#include "everkernel/runtime/data_buffer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/memory/available.hpp"
#include "runtime/state.hpp"

namespace everkernel {

Result<void> KeptMemory::allocate(backend::Backend& backend, std::size_t size_bytes) {
  if (keeps_copy) EVERKERNEL_TRY(memory::check_available(size_bytes, "buffer: host copy"));
  memory = EVERKERNEL_TRY(backend.allocate(size_bytes));
  if (keeps_copy) copy.assign(size_bytes, std::byte{0});
  return {};
}

Result<void> KeptMemory::write(std::size_t offset_bytes, std::span<const std::byte> bytes) {
  EVERKERNEL_TRY(memory->write(offset_bytes, bytes));
  if (keeps_copy) {
    std::ranges::copy(bytes, copy.begin() + static_cast<std::ptrdiff_t>(offset_bytes));
  }
  return {};
}

Result<void> KeptMemory::refresh() {
  if (!keeps_copy) return {};
  return memory->read(0, copy);
}

Result<std::shared_ptr<backend::Memory>> KeptMemory::remake(backend::Backend& backend) const {
  std::shared_ptr<backend::Memory> fresh = EVERKERNEL_TRY(backend.allocate(memory->size_bytes()));
  if (keeps_copy) EVERKERNEL_TRY(fresh->write(0, copy));
  return fresh;
}

Result<void> TableSnapshot::refresh_copies() const {
  for (DataBuffer::State* const buffer : copied) {
    const std::scoped_lock held(buffer->mutex);
    EVERKERNEL_TRY(buffer->words.refresh());
  }
  return {};
}

DataBuffer::DataBuffer(std::shared_ptr<State> state) : state_(std::move(state)) {}
DataBuffer::DataBuffer(DataBuffer&&) noexcept = default;

DataBuffer& DataBuffer::operator=(DataBuffer&& other) noexcept {
  if (this != &other) {
    DataBuffer dropped(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

DataBuffer::~DataBuffer() {
  if (state_ == nullptr) return;
  if (!state_->home.is_here()) {
    abandon(std::move(state_));
    return;
  }
  const auto owner = state_->owner.lock();
  if (owner == nullptr) return;
  {
    const std::scoped_lock held(owner->table_mutex);
    owner->buffers.erase(state_->options.handle);
    owner->table = nullptr;
  }
  try {
    owner->update_sessions();
  } catch (const std::bad_alloc&) {  // sessions see the buffer, and keep it, until the next change
  }
}

Word DataBuffer::handle() const {
  return state_->options.handle;
}

std::size_t DataBuffer::word_count() const {
  return state_->options.word_count;
}

namespace {

Result<void> check_words(const DataBufferOptions& options, std::size_t first, std::size_t count) {
  if (first <= options.word_count && count <= options.word_count - first) return {};
  return fail(Code::invalid_argument,
              fmt::format("buffer {}: {} words from word {} are not inside its {} words",
                          options.handle, count, first, options.word_count));
}

}  // namespace

Result<void> DataBuffer::write(std::size_t first_word, std::span<const Word> words) {
  EVERKERNEL_TRY(state_->home.check("buffer"));
  EVERKERNEL_TRY(check_words(state_->options, first_word, words.size()));
  // A GPU loads words of a read-only buffer through caches that are not coherent with writes, once
  // for each lane of an item. All lanes must load the same value, so no launch may be running.
  std::unique_lock<LaunchGate> launch;
  const auto owner = state_->owner.lock();
  if (owner != nullptr && state_->options.access == memory::Access::read) {
    launch = {owner->launch_mutex, backend::deadline_after(kDefaultDispatchTimeout)};
    if (!launch.owns_lock()) {
      return fail(Code::timeout,
                  fmt::format("buffer {}: a dispatch or run that may read it has not ended",
                              state_->options.handle),
                  "write before the dispatch, or create the buffer with `read_write` access");
    }
  }
  const std::scoped_lock held(state_->mutex);
  return state_->words.write(first_word * abi::kWordBytes, std::as_bytes(words));
}

Result<void> DataBuffer::read(std::size_t first_word, std::span<Word> words) const {
  EVERKERNEL_TRY(state_->home.check("buffer"));
  EVERKERNEL_TRY(check_words(state_->options, first_word, words.size()));
  const std::scoped_lock held(state_->mutex);
  return state_->words.memory->read(first_word * abi::kWordBytes, std::as_writable_bytes(words));
}

ResidentBuffers::ResidentBuffers(std::shared_ptr<State> state) : state_(std::move(state)) {}
ResidentBuffers::ResidentBuffers(ResidentBuffers&&) noexcept = default;
ResidentBuffers& ResidentBuffers::operator=(ResidentBuffers&&) noexcept = default;

ResidentBuffers::~ResidentBuffers() {
  if (state_ != nullptr && !state_->home.is_here()) abandon(std::move(state_));
}

std::size_t ResidentBuffers::size_bytes(protocol::Buffer buffer) const {
  const std::scoped_lock held(state_->mutex);
  return state_->buffers[static_cast<std::size_t>(buffer)].memory->size_bytes();
}

Result<void> ResidentBuffers::write(protocol::Buffer buffer, std::size_t offset_bytes,
                                    std::span<const std::byte> bytes) {
  EVERKERNEL_TRY(state_->home.check("resident buffers"));
  const std::scoped_lock held(state_->mutex);
  return state_->buffers[static_cast<std::size_t>(buffer)].write(offset_bytes, bytes);
}

Result<void> ResidentBuffers::read(protocol::Buffer buffer, std::size_t offset_bytes,
                                   std::span<std::byte> bytes) const {
  EVERKERNEL_TRY(state_->home.check("resident buffers"));
  const std::scoped_lock held(state_->mutex);
  return state_->buffers[static_cast<std::size_t>(buffer)].memory->read(offset_bytes, bytes);
}

}  // namespace everkernel
