// Replaces src/jit/device/buffers.cuh on the host: the same names on plain memory. A read-only
// buffer is not constant if a handler can write its words through another handle.
#pragma once

#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

inline constexpr Word kAccessRead = 1;
inline constexpr Word kAccessWrite = 2;

struct BufferEntry {
  Word* words;
  Word word_count, handle, access, owner;
};
struct BufferTable {
  const BufferEntry* entries;
  Word mask;
};
struct Buffer {
  Word* words = nullptr;
  Word length = 0, readable = 0, writable = 0, updatable = 0, access = 0;
  Word fault = static_cast<Word>(FaultCode::bad_buffer_handle);
  bool is_constant = false;
  Wide at(Word index) const { return __builtin_bit_cast(Wide, words + index); }
  AtomicWord atomic(Word index) const { return AtomicWord(words + index); }
};

/// Whether a handler could write the words through another handle.
inline bool has_writable_alias(const BufferTable& table, const BufferEntry& entry) {
  for (Word i = 0; i <= table.mask; ++i) {
    const BufferEntry& other = table.entries[i];
    const bool overlaps = other.handle != 0 && other.words < entry.words + entry.word_count &&
                          entry.words < other.words + other.word_count;
    if (overlaps && (other.access & 2) != 0) return true;
  }
  return false;
}

inline Buffer find_buffer(const BufferTable& table, Word handle, Word tenant) {
  Buffer buffer;
  if (handle == 0 || table.entries == nullptr) return buffer;
  Word place = (handle * 0x9E3779B1u >> 7) & table.mask;
  while (table.entries[place].handle != handle) {
    if (table.entries[place].handle == 0) return buffer;
    place = (place + 1) & table.mask;
  }
  const BufferEntry& entry = table.entries[place];
  const bool is_owner = entry.owner == ~0u || entry.owner == tenant;
  buffer.fault = is_owner ? 0 : static_cast<Word>(FaultCode::permission_denied);
  if (!is_owner) return buffer;
  buffer.words = entry.words;
  buffer.length = entry.word_count;
  buffer.access = entry.access;
  buffer.readable = (entry.access & 1) != 0 ? entry.word_count : 0;
  buffer.writable = (entry.access & 2) != 0 ? entry.word_count : 0;
  buffer.updatable = entry.access == 3 ? entry.word_count : 0;
  buffer.is_constant = entry.access == 1 && !has_writable_alias(table, entry);
  return buffer;
}

inline Word access_fault(const Buffer& buffer, Word needed) {
  if (buffer.fault != 0) return buffer.fault;
  const bool may = (buffer.access & needed) == needed;
  return static_cast<Word>(may ? FaultCode::index_out_of_range : FaultCode::permission_denied);
}

inline Word load_constant(const Buffer& buffer, Word index) {
  return buffer.words[index];
}
inline Word fetch_shared(const Buffer& buffer, Word index) {
  return index < buffer.readable ? buffer.words[index] : 0;
}
inline Word fetch_owned(const Buffer& buffer, Word index) {
  return index < buffer.readable ? buffer.words[index] : 0;
}
inline Word load_shared(const Buffer& buffer, Word index) {
  return buffer.words[index];
}
inline Word load_owned(const Buffer& buffer, Word index) {
  return buffer.words[index];
}
inline void store_shared(const Buffer& buffer, Word index, Word value) {
  buffer.words[index] = value;
}
inline void store_owned(const Buffer& buffer, Word index, Word value) {
  buffer.words[index] = value;
}

inline constexpr Word kAhead = 8;
inline void load_ahead_constant(const Buffer& buffer, const Word (&at)[kAhead],
                                Word (&words)[kAhead]) {
  for (Word i = 0; i < kAhead; ++i) words[i] = buffer.words[at[i]];
}
inline void load_ahead_shared(const Buffer& buffer, const Word (&at)[kAhead],
                              Word (&words)[kAhead]) {
  load_ahead_constant(buffer, at, words);
}
inline void load_ahead_owned(const Buffer& buffer, const Word (&at)[kAhead],
                             Word (&words)[kAhead]) {
  load_ahead_constant(buffer, at, words);
}

}  // namespace everkernel::device
