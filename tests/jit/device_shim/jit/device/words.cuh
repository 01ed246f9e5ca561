// Replaces src/jit/device/words.cuh on the host: the accessors that handlers use, on plain memory.
#pragma once

#include "jit/device/types.hpp"

namespace everkernel::device {

/// All fibers run on one thread, so that plain accesses are atomic.
class AtomicWord {
 public:
  explicit AtomicWord(Word* at) : at_(at) {}
  void add(Word value) const { fetch_add(value); }
  void min(Word value) const { fetch_min(value); }
  void max(Word value) const { fetch_max(value); }
  void bit_and(Word value) const { fetch_and(value); }
  void bit_or(Word value) const { fetch_or(value); }
  void bit_xor(Word value) const { fetch_xor(value); }
  Word fetch_add(Word value) const { return exchange(*at_ + value); }
  Word fetch_min(Word value) const { return exchange(*at_ < value ? *at_ : value); }
  Word fetch_max(Word value) const { return exchange(*at_ < value ? value : *at_); }
  Word fetch_and(Word value) const { return exchange(*at_ & value); }
  Word fetch_or(Word value) const { return exchange(*at_ | value); }
  Word fetch_xor(Word value) const { return exchange(*at_ ^ value); }
  Word exchange_if(Word expected, Word desired) const {
    return exchange(*at_ == expected ? desired : *at_);
  }
  Word exchange(Word value) const {
    const Word before = *at_;
    *at_ = value;
    return before;
  }

 private:
  Word* at_;
};

/// Words without bounds checks; the size is for the caller.
class Words {
 public:
  Words() = default;
  Words(Word* words, Word count) : words_(words), count_(count) {}
  Word size() const { return count_; }
  Word load_relaxed(Wide i) const { return words_[i]; }
  Word load_relaxed_if(bool is_there, Wide i) const { return is_there ? words_[i] : 0; }
  void store_relaxed(Wide i, Word value) const { words_[i] = value; }
  AtomicWord atomic(Wide i) const { return AtomicWord(words_ + i); }

 private:
  Word* words_ = nullptr;
  Word count_ = 0;
};

}  // namespace everkernel::device
