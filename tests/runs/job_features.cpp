#include "job_features.hpp"

#include <algorithm>

#include "everkernel/abi/fault.hpp"

namespace everkernel::test {
namespace {

constexpr Word kMany = 100;  // items of a wide fan

constexpr std::string_view kFeatures[] = {
    "NOP",
    "5000 items",
    "12 for ten items",
    "12, yet a third is processed",
    "a hundred wait for one",
    "buffer of a tenant",
    "chain beyond 64",
    "commutes, input is output",
    "deduped",
    "deduped over others",
    "deduped, faulted",
    "ends: bad_buffer_handle",
    "ends: fuel_exhausted",
    "ends: index_out_of_range",
    "ends: input_faulted",
    "ends: permission_denied",
    "ends: processed",
    "ends: user fault",
    "every priority",
    "few buffers, many items",
    "handle 0",
    "handler: barrier by args[0], args[1]",
    "handler: barrier by args[x]",
    "handler: barrier by control",
    "handler: barrier by handle",
    "handler: barrier, no names",
    "handler: commutes",
    "handler: commutes by param",
    "handler: commutes, barrier",
    "handler: commutes, writes input",
    "handler: continuation",
    "handler: control reader",
    "handler: copy",
    "handler: exchange",
    "handler: fill",
    "handler: identity",
    "handler: in place",
    "handler: length reader",
    "handler: nothing",
    "handler: output reader",
    "handler: pure atomic",
    "handler: pure commutes",
    "handler: reader",
    "handler: saxpy",
    "handler: saxpy f32",
    "handler: shuffle",
    "handler: swap",
    "handler: writes input",
    "hits",
    "input is output",
    "list: NOPs",
    "list: chain",
    "list: chain in place",
    "list: commuters, then readers",
    "list: duplicates",
    "list: every opcode",
    "list: fan-in",
    "list: fan-out",
    "list: mixed commuters",
    "list: mixture",
    "list: one item again",
    "list: readers, then commuters",
    "list: unordered",
    "many buffers",
    "more than 32 opcodes",
    "no item or one",
    "one origin",
    "prints",
    "pure, input is output",
    "read-only buffer",
    "region of 64",
    "region of several",
    "scope group",
    "scope warp",
    "several tenants",
    "three edges an item",
    "unknown handle",
    "waits for a hundred",
    "write-only buffer",
    "yields or requeues",
};

std::string ending_name(Word outcome) {
  if (outcome == backend::kItemDone) return "ends: processed";
  if (outcome >= abi::kFirstUserFault) return "ends: user fault";
  return std::string("ends: ") + abi::fault_name(outcome);
}

void add_endings(JobModel& model, std::set<std::string>& found) {
  const JobEnd& end = model.end(true);
  for (const Word outcome : end.outcomes) found.insert(ending_name(outcome));
  if (end.again > 0) found.insert("yields or requeues");
  if (!end.prints.empty()) found.insert("prints");
  if (!end.hits.empty()) found.insert("hits");
  if (std::ranges::count(end.outcomes, Word{12}) >= 10) found.insert("12 for ten items");
  const bool has_both = std::ranges::count(end.outcomes, backend::kItemDone) * 3 >
                            static_cast<std::ptrdiff_t>(end.outcomes.size()) &&
                        std::ranges::count(end.outcomes, Word{12}) > 0;
  if (has_both) found.insert("12, yet a third is processed");
}

void add_handlers(JobModel& model, std::set<std::string>& found) {
  const JobProgram& program = model.program();
  for (const abi::WorkItem& item : model.job().items) {
    if (item.op_handle == 0) found.insert("NOP");
    for (std::size_t i = 0; i < program.kinds.size(); ++i) {
      const ir::VerifiedHandler& verified = program.verified.handlers()[i];
      const ir::Handler& handler = verified.handler;
      if (handler.opcode != item.op_handle) continue;
      found.insert("handler: " + program.kinds[i]);
      if (handler.scope == ir::Scope::warp) found.insert("scope warp");
      if (handler.scope == ir::Scope::group) found.insert("scope group");
      const bool is_same = item.input_handle == item.output_handle;
      if (is_same) found.insert("input is output");
      if (is_same && handler.commutes) found.insert("commutes, input is output");
      if (is_same && handler.is_pure) found.insert("pure, input is output");
      if (item.input_handle == 0 || item.output_handle == 0) found.insert("handle 0");
    }
  }
}

void add_items(JobModel& model, std::set<std::string>& found) {
  const Job& job = model.job();
  std::set<Word> tenants, priorities, handles;
  for (std::size_t i = 0; i < job.items.size(); ++i) {
    tenants.insert(job.origin_of(i).tenant);
    priorities.insert(job.origin_of(i).priority);
    handles.insert({job.items[i].input_handle, job.items[i].output_handle});
  }
  if (tenants.size() > 1) found.insert("several tenants");
  if (priorities.size() == 5) found.insert("every priority");
  if (job.origins.empty()) found.insert("one origin");
  if (job.items.size() <= 1) found.insert("no item or one");
  if (job.items.size() == 5000) found.insert("5000 items");
  for (const std::string& section : job.sections) found.insert("list: " + section);
  if (handles.contains(model.program().handles.at(model.program().handles.count + 3))) {
    found.insert("unknown handle");
  }
  for (const JobBuffer& buffer : job.buffers) {
    if (!handles.contains(buffer.handle)) continue;
    if (buffer.access == memory::Access::read) found.insert("read-only buffer");
    if (buffer.access == memory::Access::write) found.insert("write-only buffer");
    if (buffer.owner != memory::kEveryTenant) found.insert("buffer of a tenant");
  }
  if (handles.size() <= 3 && job.items.size() > 20) found.insert("few buffers, many items");
  if (handles.size() > 100) found.insert("many buffers");
}

void add_plan(JobModel& model, std::set<std::string>& found) {
  const Job& job = model.job();
  const std::vector<Word>& keepers = model.keepers(true);
  for (Word i = 0; i < keepers.size(); ++i) {
    if (keepers[i] != i) found.insert("deduped");
    if (keepers[i] + 1 < i) found.insert("deduped over others");
    if (keepers[i] != i && model.end(true).outcomes[i] != backend::kItemDone) {
      found.insert("deduped, faulted");
    }
  }
  if (model.opcodes(true).size() > 32) found.insert("more than 32 opcodes");
  for (const auto& region : model.regions(true, true)) {
    if (region.size() > 1) found.insert("region of several");
    if (region.size() == 64) found.insert("region of 64");
  }
  const auto predecessors = predecessors_of(model.program(), job, keepers);
  std::vector<Word> successors(job.items.size());
  std::size_t edges = 0;
  for (Word j = 0; j < predecessors.size(); ++j) {
    edges += predecessors[j].size();
    for (const Word i : predecessors[j]) ++successors[i];
    if (predecessors[j].size() >= kMany) found.insert("waits for a hundred");
    const bool follows_a_full_region = predecessors[j].size() == 1;
    if (!follows_a_full_region) continue;
    for (const auto& region : model.regions(true, true)) {
      if (region.size() == 64 && region.back() == predecessors[j][0]) {
        found.insert("chain beyond 64");
      }
    }
  }
  if (std::ranges::any_of(successors, [](Word count) { return count >= kMany; })) {
    found.insert("a hundred wait for one");
  }
  if (edges > 3 * job.items.size()) found.insert("three edges an item");
}

}  // namespace

std::set<std::string> features_of(JobModel& model) {
  std::set<std::string> found;
  add_endings(model, found);
  add_handlers(model, found);
  add_items(model, found);
  add_plan(model, found);
  return found;
}

std::vector<std::string> all_features() {
  return {std::begin(kFeatures), std::end(kFeatures)};
}

}  // namespace everkernel::test
