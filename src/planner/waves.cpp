// Cuts an order of regions into waves: fill one until a region does not fit, then begin the next.
#include "planner/waves.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <cstddef>
#include <optional>

#include "base/checked.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/base/assert.hpp"

namespace everkernel::planner {
namespace {

using backend::kDroppedPlace;
using backend::kMaxRegionItems;
using backend::kNoNode;

// Adds up the bytes of a wave. A buffer marked with the number of the wave is counted already;
// incrementing the number clears all marks.
class Scale {
 public:
  // Of the wave so far.
  std::uint64_t used_bytes() const { return used_bytes_; }

  explicit Scale(const WaveInput& input)
      : input_(input), marks_(input.handle_bytes.size(), 0), used_bytes_(input.fixed_bytes) {}

  // Begins an empty wave.
  void clear() {
    ++mark_;
    used_bytes_ = input_.fixed_bytes;
  }

  // Adds a region; says whether the wave still fits the budget.
  bool add_region(Word first) {
    Word item = first;
    for (Word length = 0; length < kMaxRegionItems && item != kNoNode; ++length) {
      add_item(item);
      item = next_of(item);
    }
    return used_bytes_ <= input_.budget_bytes;
  }

  // The error for a region that does not fit alone.
  Failure refuse(Word first) {
    const std::uint64_t region_bytes = used_bytes_;
    Word item = first;
    for (Word length = 0; length < kMaxRegionItems && item != kNoNode; ++length) {
      clear();
      add_item(item);
      if (used_bytes_ > input_.budget_bytes) return failure("item", item, used_bytes_);
      item = next_of(item);
    }
    return failure("the region of item", first, region_bytes);
  }

 private:
  void add_item(Word item) {
    const abi::WorkItem& work = input_.items[item];
    if (work.op_handle == static_cast<Word>(abi::Opcode::nop)) return;
    add_buffer(work.input_handle);
    add_buffer(work.output_handle);
  }

  void add_buffer(Word handle) {
    const std::optional<std::size_t> place = place_of(handle);
    if (!place || *place >= marks_.size() || marks_[*place] == mark_) return;
    marks_[*place] = mark_;
    used_bytes_ = saturating_add(used_bytes_, input_.handle_bytes[*place]);
  }

  // Like HandlePlaces::find(), which does not end for a handle that has no place.
  std::optional<std::size_t> place_of(Word handle) const {
    if (handle == 0) return std::nullopt;
    const std::span<const Word> keys = input_.handles.keys;
    if (keys.empty()) return handle;
    const std::size_t mask = keys.size() - 1;
    std::size_t at = backend::HandlePlaces::home(handle, mask);
    for (std::size_t probes = 0; probes < keys.size() && keys[at] != 0; ++probes) {
      if (keys[at] == handle) return at;
      at = (at + 1) & mask;
    }
    return std::nullopt;
  }

  // The item that goes on with the region of this one: its only waiter, when that begins no region.
  Word next_of(Word item) const {
    if (item >= input_.nodes.size()) return kNoNode;
    const Word waiter = input_.nodes[item].only_waiter();
    if (waiter >= input_.items.size()) return kNoNode;  // a join
    const std::uint8_t place = input_.places[waiter];
    return place == 0 || place == kDroppedPlace ? kNoNode : waiter;
  }

  Failure failure(const char* what, Word item, std::uint64_t bytes) const {
    return fail(Code::invalid_argument,
                fmt::format("run: {} {} needs {} bytes with its buffers{}, the budget is {}", what,
                            item, bytes, input_.fixed_bytes != 0 ? " and room for hits" : "",
                            input_.budget_bytes),
                input_.fixed_bytes != 0 ? "raise the memory budget, or ask for less room for hits"
                                        : "raise the memory budget, or use smaller buffers");
  }

  const WaveInput& input_;
  std::vector<Word> marks_;  // of a handle's place: the last wave that counted it
  Word mark_ = 1;            // number of the wave, from 1
  std::uint64_t used_bytes_;
};

}  // namespace

Result<Waves> split_waves(const WaveInput& input) {
  EVERKERNEL_ASSERT(input.places.size() == input.items.size());
  Waves waves;
  if (input.items.empty()) return waves;
  waves.begins.push_back(0);
  if (input.budget_bytes == 0) return waves;

  Scale scale(input);
  const bool is_listed = input.order.empty();
  const std::size_t positions = is_listed ? input.items.size() : input.order.size();
  bool wave_is_empty = true;
  for (std::size_t position = 0; position < positions; ++position) {
    const Word first = is_listed ? static_cast<Word>(position) : input.order[position];
    if (input.places[first] != 0) continue;
    if (!scale.add_region(first)) {
      if (wave_is_empty) return scale.refuse(first);
      scale.clear();
      waves.begins.push_back(static_cast<Word>(position));
      if (!scale.add_region(first)) return scale.refuse(first);
    }
    wave_is_empty = false;
    waves.largest_bytes = std::max(waves.largest_bytes, scale.used_bytes());
  }
  return waves;
}

}  // namespace everkernel::planner
