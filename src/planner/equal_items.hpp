// Finds equal items among those that are pure and write no handle.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "planner/plan.hpp"

namespace everkernel::planner {

/// Pure items that write no handle, found by their words. Few jobs have any.
class EqualItems {
 public:
  explicit EqualItems(const PlanRequest& request) : request_(request) {}

  // The last equal item that was kept, or backend::kNoNode; `item` is remembered instead.
  Word exchange(Word item) {
    if (2 * (used_ + 1) > places_.size()) grow();
    Word& place = find(item);
    if (place == backend::kNoNode) ++used_;
    return std::exchange(place, item);
  }

 private:
  std::uint8_t tenant(Word item) const {
    return request_.origins.empty() ? request_.origin.tenant : request_.origins[item].tenant;
  }
  Word& find(Word item) {
    const abi::WorkItem& words = request_.items[item];
    std::uint64_t hash = words.op_handle;
    for (const Word word : {words.input_handle, words.output_handle, words.param}) {
      hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    const std::size_t mask = places_.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const Word other = places_[at];
      if (other == backend::kNoNode) return places_[at];
      if (request_.items[other] == words && tenant(other) == tenant(item)) return places_[at];
    }
  }
  void grow() {
    const std::vector<Word> old = std::move(places_);
    places_.assign(std::max<std::size_t>(64, 2 * old.size()), backend::kNoNode);
    for (const Word item : old) {
      if (item != backend::kNoNode) find(item) = item;
    }
  }

  const PlanRequest& request_;
  std::vector<Word> places_;
  std::size_t used_ = 0;
};

}  // namespace everkernel::planner
