// Buffers of handlers: the table that maps handles to buffers, rights, and the loads and stores of
// single words. accesses.cuh calls these functions for the lanes of a handler.
#pragma once

#include "jit/device/types.hpp"
#include "jit/device/words.cuh"

namespace everkernel::device {

/// An entry of the buffer table; the layout is that of memory::BufferEntry.
struct BufferEntry {
  Word* words;
  Word word_count;
  Word handle;
  Word access;
  Word owner;
};
static_assert(sizeof(BufferEntry) == 24);

/// A hash table from handles to buffers, with open addressing. It is constant while a kernel has
/// it.
struct BufferTable {
  const BufferEntry* entries;
  Word mask;
};

inline constexpr Word kAccessRead = 1;
inline constexpr Word kAccessWrite = 2;
inline constexpr Word kEveryTenant = 0xFFFFFFFFu;

/// A buffer with the rights of one item. An index below `readable` may be loaded, an index below
/// `writable` stored to, an index below `updatable` used by an atomic operation. For any other
/// index access_fault() returns the fault code.
struct Buffer {
  Word* words = nullptr;
  Word length = 0;           // words; 0 if `fault` is set
  Word readable = 0;         // length, or 0 without the right to read
  Word writable = 0;         // length, or 0 without the right to write
  Word updatable = 0;        // length, or 0 without both rights
  Word access = 0;           // the rights
  Word fault = 0;            // bad_buffer_handle, or permission_denied for another owner, else 0
  bool is_constant = false;  // no handler has the right to write it

  // Computed in integers: pointer arithmetic with an index out of range would be undefined, even
  // for an address that is not accessed.
  EK_DEVICE Wide at(Word index) const {
    return __cvta_generic_to_global(words) + Wide{index} * sizeof(Word);
  }
  /// The word for atomic operations.
  EK_DEVICE AtomicWord atomic(Word index) const { return AtomicWord(at(index)); }
};

/// Loads of the table. A live kernel gets other tables while it runs, one of them perhaps where an
/// earlier one was: its loads stay behind the acquire of the item, and in the cache that it clears.
#if defined(EVERKERNEL_LIVE)
#define EK_TABLE_ASM asm volatile
#define EK_TABLE_LOAD "ld.global"
#else
#define EK_TABLE_ASM asm
#define EK_TABLE_LOAD "ld.global.nc"
#endif

/// The only entry of a table without entries.
static __device__ const BufferEntry kNoEntry{};

/// Finds the buffer of a handle for a tenant. A handle without a buffer is a fault only when the
/// buffer is used. Every handler begins with one or more calls, so the function has one loop and no
/// other branch.
EK_DEVICE Buffer find_buffer(const BufferTable& table, Word handle, Word tenant) {
  const bool has_entries = table.entries != nullptr;
  const BufferEntry* const entries = has_entries ? table.entries : &kNoEntry;
  const Word mask = has_entries ? table.mask : 0;
  Word place = (handle * 0x9E3779B1u >> 7) & mask;
  Wide words;
  Word count, found, access, owner;
  for (;; place = (place + 1) & mask) {
    const Wide entry = __cvta_generic_to_global(entries + place);
    // One statement, so that all loads are under way together: nearly always the entry is the one.
    EK_TABLE_ASM(EK_TABLE_LOAD ".v2.u32 {%0, %1}, [%5+8]; // ek:table\n" EK_TABLE_LOAD
                               ".u64 %2, [%5]; // ek:table\n" EK_TABLE_LOAD
                               ".v2.u32 {%3, %4}, [%5+16]; // ek:table"
                 : "=&r"(count), "=&r"(found), "=&l"(words), "=&r"(access), "=&r"(owner)
                 : "l"(entry));
    if (found == handle || found == 0) break;  // ends: the table is never full
  }
  const bool is_there = found != 0;
  const bool is_owner = owner == kEveryTenant || owner == tenant;
  Buffer buffer;
  buffer.words = reinterpret_cast<Word*>(words);
  buffer.length = is_there && is_owner ? count : 0;
  buffer.readable = (access & kAccessRead) != 0 ? buffer.length : 0;
  buffer.writable = (access & kAccessWrite) != 0 ? buffer.length : 0;
  buffer.updatable = (access & kAccessWrite) != 0 ? buffer.readable : 0;
  buffer.access = access;
  buffer.fault = static_cast<Word>(!is_there   ? FaultCode::bad_buffer_handle
                                   : !is_owner ? FaultCode::permission_denied
                                               : FaultCode::none);
  buffer.is_constant = access == kAccessRead;
  return buffer;
}

/// The fault code of an access that needs the rights `needed` and was refused.
EK_DEVICE Word access_fault(const Buffer& buffer, Word needed) {
  if (buffer.fault != 0) return buffer.fault;
  const bool may = (buffer.access & needed) == needed;
  return static_cast<Word>(may ? FaultCode::index_out_of_range : FaultCode::permission_denied);
}

/// A word of a buffer that no handler can write; the load may be cached. The asm is volatile all
/// the same: else the compiler moves the load before the check of the index.
EK_DEVICE Word load_constant(const Buffer& buffer, Word index) {
  Word value;
  asm volatile("ld.global.u32 %0, [%1]; // ek:data" : "=r"(value) : "l"(buffer.at(index)));
  return value;
}

/// The word at an index, or 0 if the index is out of range. Without a branch, so that the load is
/// issued before the fault of the index is known. fetch_shared() is for words that other items may
/// access at the same time, fetch_owned() for words that they do not.
EK_DEVICE Word fetch_shared(const Buffer& buffer, Word index) {
  const Word cached = buffer.is_constant ? buffer.readable : 0;
  const Word uncached = buffer.is_constant ? 0 : buffer.readable;
  Word value;
  asm volatile(
      "{ .reg .pred p, q;\nsetp.lt.u32 p, %2, %3;\nsetp.lt.u32 q, %2, %4;\nmov.u32 %0, 0;\n"
      "@p ld.global.u32 %0, [%1]; // ek:data\n"
      "@q ld.relaxed.gpu.global.u32 %0, [%1]; // ek:data\n}"
      : "=r"(value)
      : "l"(buffer.at(index)), "r"(index), "r"(cached), "r"(uncached));
  return value;
}
EK_DEVICE Word fetch_owned(const Buffer& buffer, Word index) {
  Word value;
  asm volatile(
      "{ .reg .pred p;\nsetp.lt.u32 p, %2, %3;\nmov.u32 %0, 0;\n"
      "@p ld.global.u32 %0, [%1]; // ek:data\n}"
      : "=r"(value)
      : "l"(buffer.at(index)), "r"(index), "r"(buffer.readable));
  return value;
}

/// Access to a word that other items may access at the same time.
EK_DEVICE Word load_shared(const Buffer& buffer, Word index) {
  if (buffer.is_constant) return load_constant(buffer, index);
  Word value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1]; // ek:data"
               : "=r"(value)
               : "l"(buffer.at(index)));
  return value;
}
EK_DEVICE void store_shared(const Buffer& buffer, Word index, Word value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1; // ek:data" ::"l"(buffer.at(index)),
               "r"(value));
}

/// Access to a word that no other item accesses while this one runs.
EK_DEVICE Word load_owned(const Buffer& buffer, Word index) {
  if (buffer.is_constant) return load_constant(buffer, index);
  Word value;
  asm volatile("ld.global.u32 %0, [%1]; // ek:data" : "=r"(value) : "l"(buffer.at(index)));
  return value;
}
EK_DEVICE void store_owned(const Buffer& buffer, Word index, Word value) {
  asm volatile("st.global.u32 [%0], %1; // ek:data" ::"l"(buffer.at(index)), "r"(value));
}

/// Turns of an `each` whose words are loaded together, before the first of these turns runs.
inline constexpr Word kAhead = 8;

/// Load the words at these indices, which are all in range.
EK_DEVICE void load_ahead_constant(const Buffer& buffer, const Word (&at)[kAhead],
                                   Word (&words)[kAhead]) {
#pragma unroll
  for (Word i = 0; i < kAhead; ++i) words[i] = load_constant(buffer, at[i]);
}
EK_DEVICE void load_ahead_shared(const Buffer& buffer, const Word (&at)[kAhead],
                                 Word (&words)[kAhead]) {
#pragma unroll
  for (Word i = 0; i < kAhead; ++i) {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1]; // ek:data"
                 : "=r"(words[i])
                 : "l"(buffer.at(at[i])));
  }
}
EK_DEVICE void load_ahead_owned(const Buffer& buffer, const Word (&at)[kAhead],
                                Word (&words)[kAhead]) {
#pragma unroll
  for (Word i = 0; i < kAhead; ++i) {
    asm volatile("ld.global.u32 %0, [%1]; // ek:data" : "=r"(words[i]) : "l"(buffer.at(at[i])));
  }
}

}  // namespace everkernel::device
