// Open addressing with linear probing. Erasing moves later entries back instead of leaving marks.
#include "everkernel/memory/buffer_table.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <utility>

#include "everkernel/abi/control.hpp"

namespace everkernel::memory {
namespace {

constexpr std::size_t kSmallestTable = 16;

// One sequence for all tables: a copy of a table is current if its revision equals that of the
// table.
Word next_revision() {
  static std::atomic<Word> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Result<std::span<Word>> BufferView::words() const {
  if (const auto words = words_.lock()) return *words;
  return fail(Code::invalid_argument, "buffer: the Buffer of this view has been destroyed",
              "keep the Buffer as long as its views are used");
}

BufferTable::BufferTable() : places_(kSmallestTable), revision_(next_revision()) {}

Result<void> BufferTable::check(const BufferOptions& options, std::size_t word_count) const {
  if (options.handle == 0 || options.handle > kMaxHandle) {
    return fail(Code::invalid_argument,
                fmt::format("buffer: handle {} is not one of 1..{}", options.handle, kMaxHandle));
  }
  if (view().find(options.handle) != nullptr) {
    return fail(Code::invalid_argument,
                fmt::format("buffer: another buffer has handle {}", options.handle));
  }
  if (options.owner != kEveryTenant && options.owner > abi::kMaxTenant) {
    return fail(Code::invalid_argument,
                fmt::format("buffer {}: owner {} is not one of 0..{}", options.handle,
                            options.owner, abi::kMaxTenant));
  }
  const auto access = static_cast<Word>(options.access);
  if (access == 0 || access > static_cast<Word>(Access::read_write)) {
    return fail(
        Code::invalid_argument,
        fmt::format("buffer {}: access {} is not read, write or both", options.handle, access));
  }
  if (word_count > kMaxBufferWords) {
    return fail(Code::invalid_argument, fmt::format("buffer {}: {} words are more than {}",
                                                    options.handle, word_count, kMaxBufferWords));
  }
  return {};
}

Result<Buffer> BufferTable::create(const BufferOptions& options) {
  EVERKERNEL_TRY(check(options, options.word_count));
  // calloc() gets zeroed pages from the system without touching them; a loop would touch every
  // page.
  const std::size_t count = options.word_count == 0 ? 1 : options.word_count;
  std::unique_ptr<Word, Buffer::Free> storage(static_cast<Word*>(std::calloc(count, sizeof(Word))));
  if (storage == nullptr) {
    return fail(Code::out_of_memory, fmt::format("buffer {}: no memory for {} words",
                                                 options.handle, options.word_count));
  }
  auto buffer = adopt(options, {storage.get(), options.word_count});
  if (buffer) buffer->storage_ = std::move(storage);
  return buffer;
}

Result<Buffer> BufferTable::adopt(const BufferOptions& options, std::span<Word> words) {
  EVERKERNEL_TRY(check(options, words.size()));
  auto shared = std::make_shared<std::span<Word>>(words);  // may throw, so it comes before insert()
  insert({.words = words.data(),
          .word_count = static_cast<Word>(words.size()),
          .handle = options.handle,
          .access = static_cast<Word>(options.access),
          .owner = options.owner});
  return Buffer(*this, options.handle, std::move(shared));
}

void BufferTable::insert(const BufferEntry& entry) {
  if (2 * (size_ + 1) > places_.size()) rebuild(places_.size() * 2);
  const Word mask = static_cast<Word>(places_.size() - 1);
  Word at = BufferTableView::home(entry.handle, mask);
  while (places_[at].handle != 0) at = (at + 1) & mask;
  places_[at] = entry;
  ++size_;
  revision_ = next_revision();
}

void BufferTable::rebuild(std::size_t place_count) {
  std::vector<BufferEntry> old(place_count);
  old.swap(places_);
  size_ = 0;
  for (const BufferEntry& entry : old) {
    if (entry.handle != 0) insert(entry);
  }
}

void BufferTable::erase(Word handle) {
  revision_ = next_revision();
  // Closes the gap by moving later entries of the same cluster back: a search ends at a free place,
  // so that a gap inside a cluster would hide the entries behind it.
  const Word mask = static_cast<Word>(places_.size() - 1);
  Word gap = BufferTableView::home(handle, mask);
  while (places_[gap].handle != handle) gap = (gap + 1) & mask;
  for (Word at = (gap + 1) & mask; places_[at].handle != 0; at = (at + 1) & mask) {
    const Word home = BufferTableView::home(places_[at].handle, mask);
    const bool may_move = ((at - home) & mask) >= ((at - gap) & mask);
    if (!may_move) continue;
    places_[gap] = places_[at];
    gap = at;
  }
  places_[gap] = {};
  --size_;
}

Buffer::Buffer(BufferTable& table, Word handle, std::shared_ptr<std::span<Word>> words) noexcept
    : table_(&table), handle_(handle), words_(std::move(words)) {}

Buffer::Buffer(Buffer&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)),
      handle_(other.handle_),
      words_(std::move(other.words_)),
      storage_(std::move(other.storage_)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  drop();
  table_ = std::exchange(other.table_, nullptr);
  handle_ = other.handle_;
  words_ = std::move(other.words_);
  storage_ = std::move(other.storage_);
  return *this;
}

Buffer::~Buffer() {
  drop();
}

void Buffer::drop() noexcept {
  if (table_ != nullptr) table_->erase(handle_);
  table_ = nullptr;
}

void Buffer::Free::operator()(Word* words) const {
  std::free(words);
}

}  // namespace everkernel::memory
