// Buffers that handlers address by handle, and the table of handles with their access rights.
//
// A Buffer owns its words and its handle: the handle leaves the table when the Buffer is destroyed.
// A BufferView gives access without owning the words and fails once the Buffer is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "everkernel/abi/platform.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::memory {

using abi::Word;

/// The accesses to a buffer that handlers may make.
enum class Access : Word {
  read = 1,        ///< load only
  write = 2,       ///< store only
  read_write = 3,  ///< load, store, atomics
};

/// Owner of a buffer that every tenant may use.
inline constexpr Word kEveryTenant = 0xFFFFFFFFu;
/// Highest handle; the lowest is 1.
inline constexpr Word kMaxHandle = 0x7FFFFFFFu;
/// Most words a buffer may have: its indices are u32.
inline constexpr std::size_t kMaxBufferWords = 0xFFFFFFFFu;

/// A row of the table. Fixed layout: compiled handlers read it.
struct BufferEntry {
  Word* words = nullptr;      ///< its memory, at least 4-byte aligned
  Word word_count = 0;        ///< its length
  Word handle = 0;            ///< 1..2^31−1
  Word access = 0;            ///< bits of Access
  Word owner = kEveryTenant;  ///< tenant that may use it
};
static_assert(sizeof(BufferEntry) == 24);

/// The table as handlers read it: open addressing by handle. Fixed layout: compiled handlers read
/// it.
struct BufferTableView {
  const BufferEntry* entries = nullptr;  ///< mask + 1 places; handle 0 = free
  Word mask = 0;                         ///< places − 1, a power of two minus one
  Word revision = 0;                     ///< changes whenever the table changes

  /// Where the search for a handle begins.
  static constexpr Word home(Word handle, Word mask) { return (handle * 0x9E3779B1u >> 7) & mask; }

  /// The entry of a handle, null when there is none. The table is never full, so the search ends.
  const BufferEntry* find(Word handle) const {
    if (handle == 0 || entries == nullptr) return nullptr;
    for (Word at = home(handle, mask);; at = (at + 1) & mask) {
      if (entries[at].handle == handle) return &entries[at];
      if (entries[at].handle == 0) return nullptr;
    }
  }
};

/// How to make a buffer.
struct BufferOptions {
  Word handle = 0;                     ///< 1..2^31−1, not yet in the table
  std::size_t word_count = 0;          ///< words, zeroed
  Access access = Access::read_write;  ///< accesses of handlers
  Word owner = kEveryTenant;           ///< a tenant 0..28, or every tenant
};

class Buffer;

/// Access to the words of a buffer without owning them.
class BufferView {
 public:
  /// The words. Fails with `invalid_argument` once the Buffer is destroyed.
  Result<std::span<Word>> words() const;

 private:
  friend class Buffer;
  explicit BufferView(std::weak_ptr<std::span<Word>> words) : words_(std::move(words)) {}
  std::weak_ptr<std::span<Word>> words_;
};

/// Maps handles to buffers. Not thread-safe: buffers are made and destroyed while no kernel uses
/// the table. Must outlive its buffers.
class BufferTable {
 public:
  /// An empty table.
  BufferTable();
  BufferTable(const BufferTable&) = delete;             ///< buffers refer to it
  BufferTable& operator=(const BufferTable&) = delete;  ///< buffers refer to it

  /// Makes a buffer of zeros. Fails with `invalid_argument` for a bad handle, owner or length or a
  /// handle in use, and with `out_of_memory`.
  Result<Buffer> create(const BufferOptions& options);
  /// Puts memory of the caller into the table; it must outlive the Buffer. `word_count` of the
  /// options is ignored. Fails as create does.
  Result<Buffer> adopt(const BufferOptions& options, std::span<Word> words);

  /// The table as handlers read it. Valid until the next buffer is made or destroyed.
  BufferTableView view() const {
    return {.entries = places_.data(),
            .mask = static_cast<Word>(places_.size() - 1),
            .revision = revision_};
  }
  /// Buffers in the table.
  std::size_t size() const { return size_; }

 private:
  friend class Buffer;
  Result<void> check(const BufferOptions& options, std::size_t word_count) const;
  void insert(const BufferEntry& entry);
  void erase(Word handle);
  void rebuild(std::size_t place_count);

  std::vector<BufferEntry> places_;
  std::size_t size_ = 0;
  Word revision_ = 0;
};

/// Owns the words of one buffer and its place in the table. Move-only.
class Buffer {
 public:
  Buffer(Buffer&& other) noexcept;             ///< takes over
  Buffer& operator=(Buffer&& other) noexcept;  ///< drops its own, takes over
  ~Buffer();                                   ///< leaves the table

  /// Its handle.
  Word handle() const { return handle_; }
  /// Its words.
  std::span<Word> words() const { return *words_; }
  /// A view that fails once this Buffer is destroyed.
  BufferView view() const { return BufferView(words_); }

 private:
  friend class BufferTable;
  struct Free {
    void operator()(Word* words) const;
  };
  Buffer(BufferTable& table, Word handle, std::shared_ptr<std::span<Word>> words) noexcept;
  void drop() noexcept;

  BufferTable* table_ = nullptr;
  Word handle_ = 0;
  std::shared_ptr<std::span<Word>> words_;
  std::unique_ptr<Word, Free> storage_;  // null for adopted memory
};

}  // namespace everkernel::memory
