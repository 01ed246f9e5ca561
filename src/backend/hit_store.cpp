// Grows the room for hits, and sorts out the hits that are not among the first.
#include "everkernel/backend/detail/hit_store.hpp"

#include <algorithm>
#include <new>

namespace everkernel::backend {
namespace {

// Hits that are taken over at one time.
constexpr std::uint64_t kPiece = 256;

}  // namespace

void HitStore::append(std::span<const abi::Hit> hits) {
  const std::scoped_lock held(mutex_);
  for (; !hits.empty(); hits = hits.subspan(std::min<std::size_t>(hits.size(), kPiece))) {
    append_piece(hits.first(std::min<std::size_t>(hits.size(), kPiece)));
  }
}

void HitStore::count_dropped(std::uint64_t count) {
  const std::scoped_lock held(mutex_);
  arrived_ += count;
}

void HitStore::append_piece(std::span<const abi::Hit> hits) {
  arrived_ += hits.size();
  if (!make_room(hits.size())) return;
  for (const abi::Hit& hit : hits) {
    if (hit.item < cutoff_) places_[size_++] = hit;
  }
}

// Makes room for a piece; false if the system has no memory even for that.
bool HitStore::make_room(std::uint64_t count) {
  if (size_ + count <= places_.size()) return true;
  const std::uint64_t most = limit_ + slack_of(limit_);
  std::uint64_t wanted = std::min(most, std::max({size_ + count, 2 * size_, first_room_}));
  // Growing keeps the old places until they are copied: room for all is best taken at once.
  if (wanted >= limit_) wanted = most;
  while (wanted > places_.size()) {
    try {
      places_ = memory_.grow(wanted, size_);
    } catch (const std::bad_alloc&) {
      // Half as much more may be there; at the end the room that there is becomes the limit.
      const std::uint64_t more = (wanted - places_.size()) / 2;
      wanted = places_.size() + more;
      if (more < kPiece) limit_ = places_.size() - std::min(places_.size(), 2 * kPiece);
    }
  }
  if (size_ + count > places_.size()) trim();
  return size_ + count <= places_.size();
}

// Drops all hits but the first `limit_`. Of the last item that is kept and of later items no
// further hit can be among the first: those that are kept of it were emitted before.
void HitStore::trim() {
  if (size_ <= limit_) return;
  sort();
  size_ = sorted_ = limit_;
  cutoff_ = limit_ == 0 ? 0 : places_[limit_ - 1].item;
}

// Hits that were sorted before stay where they are until the new ones are merged in.
void HitStore::sort() {
  const auto hits = places_.first(size_);
  const auto middle = hits.begin() + static_cast<std::ptrdiff_t>(sorted_);
  std::ranges::stable_sort(middle, hits.end(), {}, &abi::Hit::item);
  std::ranges::inplace_merge(hits.begin(), middle, hits.end(), {}, &abi::Hit::item);
  sorted_ = size_;
}

std::span<const abi::Hit> HitStore::finish() {
  const std::scoped_lock held(mutex_);
  trim();
  sort();
  return places_.first(size_);
}

}  // namespace everkernel::backend
