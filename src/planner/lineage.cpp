// One pass in list order: an item that reads a handle inherits the lineage of its writers.
#include "planner/lineage.hpp"

#include <algorithm>
#include <span>

namespace everkernel::planner {
namespace {

using backend::kDroppedPlace;
using backend::kNoNode;

// Sets of opcodes, `words` 64-bit words each, in one array.
class Sets {
 public:
  Sets(std::size_t words) : words_(words) {}
  std::size_t add() {
    bits_.resize(bits_.size() + words_);
    return bits_.size() / words_ - 1;
  }
  std::span<std::uint64_t> operator[](std::size_t set) {
    return std::span(bits_).subspan(set * words_, words_);
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

void merge(std::span<std::uint64_t> target, std::span<const std::uint64_t> source) {
  for (std::size_t i = 0; i < target.size(); ++i) target[i] |= source[i];
}

// The lineage of the writers of a handle. Items of one commuting opcode do not depend on each
// other, so the lineage of each such opcode is kept separately.
class Handles {
 public:
  Handles(std::size_t places, std::size_t words) : first_(places, kNoNode), sets_(words) {}

  void gather(std::size_t place, Word except, std::span<std::uint64_t> target) {
    for (Word at = first_[place]; at != kNoNode; at = entries_[at].next) {
      if (entries_[at].opcode != except || except == 0) merge(target, sets_[at]);
    }
  }
  // `opcode` is that of a commuting writer, else 0.
  void contribute(std::size_t place, Word opcode, std::span<const std::uint64_t> source) {
    Word at = first_[place];
    while (at != kNoNode && entries_[at].opcode != opcode) at = entries_[at].next;
    if (at == kNoNode) {
      at = static_cast<Word>(sets_.add());
      entries_.push_back({opcode, std::exchange(first_[place], at)});
    }
    merge(sets_[at], source);
  }

 private:
  struct Entry {
    Word opcode = 0;
    Word next = kNoNode;
  };
  std::vector<Word> first_;
  std::vector<Entry> entries_;  // by the number of their set
  Sets sets_;
};

std::vector<Word> find_opcodes(const PlanRequest& request, const Plan& plan) {
  std::vector<Word> opcodes;
  Word last = kNoNode;
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    const Word opcode = request.items[i].op_handle;
    if (plan.places[i] == kDroppedPlace || opcode == last) continue;
    last = opcode;
    const auto at = std::ranges::lower_bound(opcodes, opcode);
    if (at == opcodes.end() || *at != opcode) opcodes.insert(at, opcode);
  }
  return opcodes;
}

// Lists regions with their items, and gives the region of every item.
std::vector<Word> list_regions(const PlanRequest& request, const Plan& plan, Lineage& lineage) {
  std::vector<Word> region_of(request.items.size(), kNoNode);
  for (Word first = 0; first < request.items.size(); ++first) {
    if (plan.places[first] != 0) continue;
    const auto region = static_cast<Word>(lineage.region_begins.size());
    lineage.region_begins.push_back(static_cast<Word>(lineage.region_items.size()));
    for (Word item = first; item != kNoNode; item = plan.next_of(item)) {
      region_of[item] = region;
      lineage.region_items.push_back(item);
    }
    lineage.region_outputs.push_back(request.items[lineage.region_items.back()].output_handle);
  }
  lineage.region_begins.push_back(static_cast<Word>(lineage.region_items.size()));
  return region_of;
}

}  // namespace

Lineage trace(const PlanRequest& request, const Plan& plan) {
  Lineage lineage;
  lineage.opcodes = find_opcodes(request, plan);
  const std::vector<Word> region_of = list_regions(request, plan, lineage);
  const std::size_t words = std::max<std::size_t>(1, (lineage.opcodes.size() + 63) / 64);
  std::vector<std::uint64_t> regions(words * plan.regions, 0);
  std::vector<std::uint64_t> own(words);
  Handles handles(plan.handles.count, words);
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    if (plan.places[i] == kDroppedPlace) continue;
    const abi::WorkItem& item = request.items[i];
    const Effects effects = request.effects->find(item.op_handle);
    const auto rank = static_cast<std::size_t>(
        std::ranges::lower_bound(lineage.opcodes, item.op_handle) - lineage.opcodes.begin());
    std::ranges::fill(own, 0);
    own[rank / 64] |= std::uint64_t{1} << rank % 64;
    const bool reads_by_input = (effects & kReadsInput) != 0;
    const bool is_same = item.input_handle == item.output_handle;
    // An item that also reads or writes its output by another name does not commute.
    const bool commutes =
        (effects & kCommutes) != 0 && !(is_same && (effects & (kReadsInput | kWritesInput)) != 0);
    const Word group = commutes ? item.op_handle : 0;
    if (reads_by_input && item.input_handle != 0) {
      handles.gather(plan.handles.find(item.input_handle), 0, own);
    }
    if ((effects & kReadsOutput) != 0 && item.output_handle != 0) {
      handles.gather(plan.handles.find(item.output_handle), group, own);
    }
    if ((effects & kWritesInput) != 0 && item.input_handle != 0) {
      handles.contribute(plan.handles.find(item.input_handle), 0, own);
    }
    if ((effects & kWritesOutput) != 0 && item.output_handle != 0) {
      handles.contribute(plan.handles.find(item.output_handle), group, own);
    }
    merge(std::span(regions).subspan(words * region_of[i], words), own);
    ++lineage.items;
  }
  lineage.bits.assign(plan.regions, 0);
  for (std::size_t region = 0; region < plan.regions; ++region) {
    for (std::size_t rank = 0; rank < lineage.opcodes.size(); ++rank) {
      const bool is_set = (regions[words * region + rank / 64] >> rank % 64 & 1) != 0;
      if (is_set) lineage.bits[region] |= Word{1} << lineage.opcodes[rank] % 32;
    }
  }
  if (lineage.opcodes.size() > 32) {
    lineage.wide = std::move(regions);
    lineage.wide_words = words;
  }
  return lineage;
}

}  // namespace everkernel::planner
