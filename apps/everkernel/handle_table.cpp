// Families are few and far between singles: a binary search is enough for them.
#include "handle_table.hpp"

#include <algorithm>

namespace everkernel::cli {

bool HandleTable::insert(Word handle, bool is_read_only) {
  Word& place = places_[place_of(handle)];
  if (place != 0) return false;
  place = handle | (is_read_only ? kReadOnly : 0);
  return true;
}

std::optional<HandleTable::Collision> HandleTable::seal() {
  std::ranges::sort(families_, {}, &Family::first);
  for (std::size_t i = 1; i < families_.size(); ++i) {
    const Family& low = families_[i - 1];
    const Family& high = families_[i];
    if (high.first <= low.last) return Collision{high.first, std::max(low.entry, high.entry)};
  }
  if (families_.empty()) return {};
  for (const Word place : places_) {
    const Family* const family = place == 0 ? nullptr : family_of(place & kHandle);
    if (family != nullptr) return Collision{place & kHandle, family->entry};
  }
  return {};
}

const HandleTable::Family* HandleTable::family_of(Word handle) const {
  const auto behind = std::ranges::upper_bound(families_, handle, {}, &Family::first);
  if (behind == families_.begin() || std::prev(behind)->last < handle) return nullptr;
  return &*std::prev(behind);
}

Named HandleTable::find_family(Word handle) const {
  const Family* const family = family_of(handle);
  return family == nullptr ? Named::nothing : named(family->is_read_only);
}

}  // namespace everkernel::cli
