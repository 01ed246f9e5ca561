// Readers and writers of every handle at one point of the scan of a list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "planner/plan.hpp"

namespace everkernel::planner {

/// Readers and writers of a handle at one point of the list. Half a cache line: it holds the last
/// two readers, because a handle rarely has more readers between two writes.
struct alignas(32) HandleState {
  Word writer = backend::kNoNode;         // last write: an item, or the join of a group
  Word last_write = backend::kNoNode;     // last item that writes it
  Word reader = backend::kNoNode;         // link of the last item that read it since, if any did
  Word reader_before = backend::kNoNode;  // link of the one before that
  Word readers = backend::kNoNode;        // the ones before them, a list of links
  Word group = backend::kNoNode;          // of commuting items, if there ever was one
  Word fingerprint = 0;                   // of the last write if that was pure, else 0
  std::uint16_t write_level = 0;          // of the last write, see note_level()
  std::uint16_t read_level = 0;           // the highest of its readers and writers

  bool has_readers() const { return reader != backend::kNoNode; }
  void forget_readers() { reader = reader_before = readers = backend::kNoNode; }
};
static_assert(sizeof(HandleState) == 32);

/// The state of every handle: an array indexed by handle if all handles are small, otherwise a hash
/// table.
class HandleTable {
 public:
  HandleTable(Plan& plan, Word max_handle, std::size_t item_count)
      : plan_(plan), keys_(plan.arrays.handle_keys) {
    is_direct_ = max_handle < item_count / 2 + kSmallHandles;
    resize(is_direct_ ? std::size_t{max_handle} + 1 : kFirstPlaces);
  }

  HandleState& operator[](Word handle) {
    if (is_direct_) return states_[handle];
    std::size_t at = search(handle);
    if (keys_[at] == 0) {
      if (2 * (used_ + 1) > keys_.size()) {
        grow();
        at = search(handle);
      }
      keys_[at] = handle;
      ++used_;
    }
    return states_[at];
  }

  [[gnu::always_inline]] void fetch(Word handle) const {
    if (is_direct_) {
      __builtin_prefetch(&states_[handle], 1);
    } else {
      const std::size_t at = backend::HandlePlaces::home(handle, keys_.size() - 1);
      __builtin_prefetch(&keys_[at]);
      __builtin_prefetch(&states_[at], 1);
    }
  }
  // The state of the handle or, after a collision, of another one. Only for prefetching.
  const HandleState& guess(Word handle) const {
    if (is_direct_) return states_[handle];
    return states_[backend::HandlePlaces::home(handle, keys_.size() - 1)];
  }

  backend::HandlePlaces places() const {
    if (is_direct_) return {.keys = {}, .count = states_.size()};
    return {.keys = keys_, .count = states_.size()};
  }

 private:
  static constexpr std::size_t kSmallHandles = 65536;
  static constexpr std::size_t kFirstPlaces = 1024;

  void resize(std::size_t count) {
    // One more than needed, so that the first one can be aligned.
    const auto bytes = plan_.arrays.handles.take((count + 1) * sizeof(HandleState));
    const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
    const std::size_t skipped = (sizeof(HandleState) - first) % sizeof(HandleState);
    states_ = {reinterpret_cast<HandleState*>(bytes.data() + skipped), count};
    std::ranges::uninitialized_value_construct(states_);
    keys_.assign(is_direct_ ? 0 : count, 0);
  }

  std::size_t search(Word handle) const {
    const std::size_t mask = keys_.size() - 1;
    std::size_t at = backend::HandlePlaces::home(handle, mask);
    while (keys_[at] != 0 && keys_[at] != handle) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    const std::vector<HandleState> old_states(states_.begin(), states_.end());
    const std::vector<Word> old_keys = std::move(keys_);
    keys_ = {};
    resize(old_keys.size() * 2);
    for (std::size_t i = 0; i < old_keys.size(); ++i) {
      if (old_keys[i] == 0) continue;
      const std::size_t at = search(old_keys[i]);
      keys_[at] = old_keys[i];
      states_[at] = old_states[i];
    }
  }

  Plan& plan_;
  std::vector<Word>& keys_;
  bool is_direct_ = false;
  std::size_t used_ = 0;
  std::span<HandleState> states_;
};

}  // namespace everkernel::planner
