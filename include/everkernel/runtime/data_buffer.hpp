// A buffer that handlers access by its handle, on the device of the megakernel.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "everkernel/base/result.hpp"
#include "everkernel/memory/buffer_table.hpp"

namespace everkernel {

using abi::Word;

/// How to make a buffer.
struct DataBufferOptions {
  Word handle = 0;                                     ///< 1..2^31−1, not yet in use
  std::size_t word_count = 0;                          ///< words, zeroed
  memory::Access access = memory::Access::read_write;  ///< accesses of handlers
  Word owner = memory::kEveryTenant;                   ///< a tenant 0..28, or every tenant
  /// Whether the host keeps a copy, refreshed after every write, dispatch and run, from which the
  /// buffer is restored after the device was lost. A session does not refresh the copy: words that
  /// its items wrote are lost with the device.
  bool keep_host_copy = false;
};

/// Owns the words behind one handle. Move-only. A dispatch or session that began before it is
/// dropped keeps the words until it ends.
class DataBuffer {
 public:
  DataBuffer(DataBuffer&&) noexcept;             ///< takes over
  DataBuffer& operator=(DataBuffer&&) noexcept;  ///< drops its own, takes over
  ~DataBuffer();                                 ///< takes the handle out of the table

  /// Its handle.
  Word handle() const;
  /// Its length.
  std::size_t word_count() const;
  /// Copies host words to it. A session may run meanwhile: words are never torn. A buffer that
  /// handlers may only read must not change during a dispatch or run: the call waits for its end,
  /// and fails with `timeout` after a minute. Fails with `invalid_argument` outside the buffer, and
  /// with `device_lost`.
  Result<void> write(std::size_t first_word, std::span<const Word> words);
  /// Copies words to the host, also beside a dispatch. Fails as write does, but for `timeout`.
  Result<void> read(std::size_t first_word, std::span<Word> words) const;

  /// The storage, shared with the megakernel whose table names it.
  struct State;

 private:
  friend class Megakernel;
  explicit DataBuffer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace everkernel
