// The handles of a job: of buffers, of single slices, and of families of slices, which have many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "everkernel/abi/platform.hpp"

namespace everkernel::cli {

using abi::Word;

/// What a handle names.
enum class Named { nothing, read_only, writable };

/// Handles one by one in a hash table with open addressing, because every item looks up two, and
/// families as ranges.
class HandleTable {
 public:
  /// A family of handles that have another owner, too.
  struct Collision {
    Word handle = 0;        ///< one that both have
    std::size_t entry = 0;  ///< of the family in the job; of two, the later one
  };

  /// Has room for `count` single handles with half of the places free.
  explicit HandleTable(std::size_t count) {
    std::size_t places = 16;
    while (places < count * 2) places *= 2;
    places_.resize(places);
  }

  /// Adds a handle; false if it is there already.
  bool insert(Word handle, bool is_read_only = false);
  /// Adds the handles `first` … `last`, which entry `entry` of the job names.
  void add_family(Word first, Word last, bool is_read_only, std::size_t entry) {
    families_.push_back({first, last, is_read_only, entry});
  }
  /// Called once, behind the last handle: gives the collision of a family if there is one.
  std::optional<Collision> seal();

  /// What the handle names. Families are found after seal().
  Named find(Word handle) const {
    const Word place = places_[place_of(handle)];
    if (place != 0 && handle <= kHandle) return named((place & kReadOnly) != 0);
    return families_.empty() ? Named::nothing : find_family(handle);
  }
  bool contains(Word handle) const { return find(handle) != Named::nothing; }

 private:
  // Handles have 31 bits; the highest says that the buffer is read-only. 0 = a free place.
  static constexpr Word kHandle = 0x7FFFFFFFu;
  static constexpr Word kReadOnly = 0x80000000u;
  struct Family {
    Word first = 0;
    Word last = 0;
    bool is_read_only = false;
    std::size_t entry = 0;
  };

  static Named named(bool is_read_only) {
    return is_read_only ? Named::read_only : Named::writable;
  }
  std::size_t place_of(Word handle) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t at = (std::size_t{handle} * 0x9E3779B97F4A7C15u >> 24) & mask;
    while (places_[at] != 0 && (places_[at] & kHandle) != handle) at = (at + 1) & mask;
    return at;
  }
  const Family* family_of(Word handle) const;
  Named find_family(Word handle) const;

  std::vector<Word> places_ = {};
  std::vector<Family> families_ = {};  // sorted by seal()
};

}  // namespace everkernel::cli
