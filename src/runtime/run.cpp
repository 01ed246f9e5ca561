// A whole work queue: plan it, feed the ring, and report.
#include "everkernel/runtime/run.hpp"

#include "everkernel/runtime/megakernel.hpp"
#include "runtime/state.hpp"

namespace everkernel {

RegionView Report::region(std::size_t index) const {
  const Word begin = region_begins[index];
  const Word end = region_begins[index + 1];
  const std::size_t words = lineage_words();
  return {.first_item = region_items[begin],
          .items = std::span(region_items).subspan(begin, end - begin),
          .output = region_outputs[index],
          .lineage = region_lineage[index],
          .wide = std::span(region_lineage_wide).subspan(index * words, words)};
}

std::size_t Report::lineage_words() const {
  return region_lineage.empty() ? 0 : region_lineage_wide.size() / region_lineage.size();
}

ItemEnd Report::end_of(std::size_t item) const {
  if (outcomes[item] == backend::kItemDone) return ItemEnd::processed;
  return outcomes[item] == backend::kItemRemaining ? ItemEnd::remaining : ItemEnd::faulted;
}

Word Report::fault_code(std::size_t item) const {
  return end_of(item) == ItemEnd::faulted ? outcomes[item] : 0;
}

Result<Report> Megakernel::run(std::span<const abi::WorkItem> items, const RunConfig& config) {
  static_cast<void>(items);
  static_cast<void>(config);
  return fail(Code::unsupported, "run: on its way");
}

}  // namespace everkernel
