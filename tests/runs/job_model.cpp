#include "job_model.hpp"

#include <algorithm>
#include <deque>
#include <set>

#include "everkernel/ir/interpreter.hpp"

namespace everkernel::test {
namespace {

constexpr Word kNoItem = 0xFFFFFFFFu;
constexpr Word kInputFaulted = 12;

// The handles that one item reads and writes, as the planner sees them. Handle 0 is no handle.
struct Named {
  Word reads[2] = {}, writes[2] = {};  // input, output; 0 = not touched
  Word commutes_on = 0;  // the output that it updates in any order with items of its opcode
  Word opcode = 0;
  bool is_barrier = false;

  bool does_read(Word handle) const { return reads[0] == handle || reads[1] == handle; }
  bool does_write(Word handle) const { return writes[0] == handle || writes[1] == handle; }
  bool does_touch(Word handle) const { return does_read(handle) || does_write(handle); }
  std::set<Word> handles() const {
    std::set<Word> all = {reads[0], reads[1], writes[0], writes[1]};
    all.erase(0);
    return all;
  }
};

std::vector<Named> names_of(const JobProgram& program, const Job& job) {
  std::vector<Named> all;
  for (const abi::WorkItem& item : job.items) {
    const ir::Effects& effects = effects_of(program.verified, item.op_handle);
    const ir::VerifiedHandler* const handler = program.verified.find(item.op_handle);
    Named named;
    named.opcode = item.op_handle;
    named.is_barrier = is_barrier(effects);
    if (effects.reads_input) named.reads[0] = item.input_handle;
    if (effects.reads_output) named.reads[1] = item.output_handle;
    if (effects.writes_input) named.writes[0] = item.input_handle;
    if (effects.writes_output) named.writes[1] = item.output_handle;
    // If output and input are one buffer, items do more than add to it, so they do not commute.
    const bool is_mixed =
        named.reads[0] == item.output_handle || named.writes[0] == item.output_handle;
    if (handler != nullptr && handler->handler.commutes && !is_mixed) {
      named.commutes_on = named.writes[1];
    }
    all.push_back(named);
  }
  return all;
}

// Whether two items may access this handle in either order.
bool commute(const Named& a, const Named& b, Word handle) {
  return a.opcode == b.opcode && a.commutes_on == handle && b.commutes_on == handle;
}

// Whether `later` reads a word that `earlier` writes.
bool reads_from(const Named& later, const Named& earlier) {
  for (const Word handle : later.reads) {
    if (handle != 0 && earlier.does_write(handle) && !commute(earlier, later, handle)) return true;
  }
  return false;
}

bool writes_over(const Named& later, const Named& earlier) {
  for (const Word handle : later.writes) {
    if (handle != 0 && earlier.does_write(handle) && !commute(earlier, later, handle)) return true;
  }
  return false;
}

// ---- running ----

struct Machine {
  explicit Machine(const Job& job) {
    for (const JobBuffer& buffer : job.buffers) {
      auto made = table.create({.handle = buffer.handle,
                                .word_count = buffer.words.size(),
                                .access = buffer.access,
                                .owner = buffer.owner});
      std::ranges::copy(buffer.words, made->words().begin());
      buffers.push_back(*std::move(made));
    }
    hooks.self = this;
    hooks.print = [](void* self, Word format, Word a, Word b) {
      auto& machine = *static_cast<Machine*>(self);
      machine.end.prints.push_back({machine.item, format, a, b});
    };
    hooks.emit = [](void* self, Word a, Word b, Word c) {
      auto& machine = *static_cast<Machine*>(self);
      machine.end.hits.push_back({machine.item, a, b, c});
    };
  }

  memory::BufferTable table = {};
  std::deque<memory::Buffer> buffers = {};
  std::vector<Word> control = std::vector<Word>(160 + kJobObservables);
  ir::ItemHooks hooks = {};
  JobEnd end = {};
  Word item = 0;
};

// Runs one item until it has ended; an item that yields runs again at once.
Word run_item(Machine& machine, const ir::VerifiedHandler& handler, const abi::WorkItem& item,
              backend::Origin origin, Word workgroup_size) {
  ir::ItemFrame frame;
  frame.args[0] = item.input_handle;
  frame.args[1] = item.output_handle;
  frame.args[2] = item.param;
  frame.opcode = item.op_handle;
  frame.tenant = origin.tenant;
  frame.priority = origin.priority;
  frame.lanes = handler.handler.scope == ir::Scope::lane   ? 1
                : handler.handler.scope == ir::Scope::warp ? 32
                                                           : workgroup_size;
  frame.control_words = static_cast<Word>(machine.control.size());
  frame.control = machine.control.data();
  frame.buffers = machine.table.view();
  frame.hooks = &machine.hooks;
  for (;;) {
    frame.fuel = kJobFuel;
    const ir::Outcome outcome = ir::interpret(handler, frame);
    if (outcome.ending == ir::Ending::done) return backend::kItemDone;
    if (outcome.ending == ir::Ending::fault) return outcome.fault_code;
    ++machine.end.again;
  }
}

}  // namespace

std::vector<Word> keepers_of(const JobProgram& program, const Job& job, bool dedupe) {
  const std::vector<Named> named = names_of(program, job);
  std::vector<Word> keepers;
  for (Word j = 0; j < job.items.size(); ++j) {
    keepers.push_back(j);
    const abi::WorkItem& item = job.items[j];
    const ir::VerifiedHandler* const handler = program.verified.find(item.op_handle);
    if (!dedupe || handler == nullptr || !handler->handler.is_pure) continue;
    if (item.input_handle == item.output_handle) continue;
    for (Word i = j; i-- > 0;) {
      if (keepers[i] != i) continue;  // an item that is dropped writes nothing
      if (job.items[i] == item && job.origin_of(i).tenant == job.origin_of(j).tenant) {
        keepers[j] = i;
        break;
      }
      if (named[i].is_barrier) break;
      if (item.input_handle != 0 && named[i].does_write(item.input_handle)) break;
      if (item.output_handle != 0 && named[i].does_write(item.output_handle)) break;
    }
  }
  return keepers;
}

JobEnd run_in_order(const JobProgram& program, const Job& job, const std::vector<Word>& keepers,
                    Word workgroup_size, const std::vector<Word>* order) {
  const std::vector<Named> named = names_of(program, job);
  Machine machine(job);
  std::vector<Word>& outcomes = machine.end.outcomes;
  outcomes.resize(job.items.size());
  std::vector<Word> faulted;
  const std::size_t count = order == nullptr ? job.items.size() : order->size();
  for (Word k = 0; k < count; ++k) {
    const Word j = order == nullptr ? k : (*order)[k];
    if (keepers[j] != j) continue;
    const bool is_poisoned =
        job.is_ordered && std::ranges::any_of(faulted, [&](Word i) {
          return i < j && (reads_from(named[j], named[i]) || writes_over(named[j], named[i]));
        });
    const ir::VerifiedHandler* const handler = program.verified.find(job.items[j].op_handle);
    machine.item = j;
    outcomes[j] = backend::kItemDone;
    if (is_poisoned) {
      outcomes[j] = kInputFaulted;
    } else if (handler != nullptr) {
      outcomes[j] = run_item(machine, *handler, job.items[j], job.origin_of(j), workgroup_size);
    }
    if (outcomes[j] != backend::kItemDone) faulted.push_back(j);
  }
  for (Word j = 0; j < job.items.size(); ++j) outcomes[j] = outcomes[keepers[j]];
  for (const memory::Buffer& buffer : machine.buffers) {
    machine.end.words.emplace_back(buffer.words().begin(), buffer.words().end());
  }
  std::ranges::stable_sort(machine.end.hits, {}, &abi::Hit::item);
  std::ranges::stable_sort(machine.end.prints, {}, &PrintRecord::item);
  return std::move(machine.end);
}

// ---- waiting ----

namespace {

// The items between the last barrier and item j that touch a handle, latest first.
std::vector<Word> touchers(const std::vector<Named>& named, const std::vector<Word>& keepers,
                           Word begin, Word j, Word handle) {
  std::vector<Word> found;
  for (Word i = j; i-- > begin;) {
    if (keepers[i] == i && named[i].does_touch(handle)) found.push_back(i);
  }
  return found;
}

// Adds the last writer of a handle (all of a group that commutes), and the readers after it.
void add_hazards(const std::vector<Named>& named, const Named& later, Word handle,
                 const std::vector<Word>& before, std::set<Word>& found) {
  std::size_t at = 0;
  // A group that commutes waits for the items before the group.
  while (at < before.size() && commute(named[before[at]], later, handle)) ++at;
  while (at < before.size() && !named[before[at]].does_write(handle)) {
    if (later.does_write(handle)) found.insert(before[at]);
    ++at;
  }
  if (at == before.size()) return;
  const Named& writer = named[before[at]];
  // An earlier group of the same opcode commutes with this item; the readers after that group
  // waited for it.
  if (commute(writer, later, handle)) return;
  do {
    found.insert(before[at]);
    ++at;
  } while (at < before.size() && commute(named[before[at]], writer, handle));
}

}  // namespace

std::vector<std::vector<Word>> predecessors_of(const JobProgram& program, const Job& job,
                                               const std::vector<Word>& keepers) {
  const std::vector<Named> named = names_of(program, job);
  std::vector<std::vector<Word>> all(job.items.size());
  if (!job.is_ordered) return all;
  std::vector<bool> has_waiter(job.items.size());
  Word barrier = kNoItem;  // the last barrier
  for (Word j = 0; j < job.items.size(); ++j) {
    if (keepers[j] != j) continue;
    const Word begin = barrier == kNoItem ? 0 : barrier + 1;
    std::set<Word> found;
    if (named[j].is_barrier) {
      for (Word i = begin; i < j; ++i) {
        if (keepers[i] == i && !has_waiter[i]) found.insert(i);
      }
    } else {
      for (const Word handle : named[j].handles()) {
        add_hazards(named, named[j], handle, touchers(named, keepers, begin, j, handle), found);
      }
    }
    if (found.empty() && barrier != kNoItem) found.insert(barrier);
    all[j].assign(found.begin(), found.end());
    for (const Word i : found) has_waiter[i] = true;
    if (named[j].is_barrier) barrier = j;
  }
  return all;
}

std::vector<std::vector<Word>> regions_of(const JobProgram& program, const Job& job,
                                          const std::vector<Word>& keepers, bool fuse) {
  const auto predecessors = predecessors_of(program, job, keepers);
  std::vector<Word> successor_counts(job.items.size());
  for (const auto& some : predecessors) {
    for (const Word i : some) ++successor_counts[i];
  }
  std::vector<std::vector<Word>> regions;
  std::vector<std::size_t> region_of(job.items.size());
  for (Word j = 0; j < job.items.size(); ++j) {
    if (keepers[j] != j) continue;
    const bool follows = predecessors[j].size() == 1 && successor_counts[predecessors[j][0]] == 1;
    if (fuse && follows && regions[region_of[predecessors[j][0]]].size() < 64) {
      region_of[j] = region_of[predecessors[j][0]];
      regions[region_of[j]].push_back(j);
    } else {
      region_of[j] = regions.size();
      regions.push_back({j});
    }
  }
  return regions;
}

// ---- lineage ----

std::vector<Word> opcodes_of(const Job& job, const std::vector<Word>& keepers) {
  std::set<Word> opcodes;
  for (Word i = 0; i < job.items.size(); ++i) {
    if (keepers[i] == i) opcodes.insert(job.items[i].op_handle);
  }
  return {opcodes.begin(), opcodes.end()};
}

std::vector<std::uint64_t> contributors_of(const JobProgram& program, const Job& job,
                                           const std::vector<Word>& keepers,
                                           const std::vector<Word>& opcodes) {
  const std::vector<Named> named = names_of(program, job);
  std::vector<std::uint64_t> all(job.items.size());
  for (Word j = 0; j < job.items.size(); ++j) {
    if (keepers[j] != j) continue;
    const auto own = std::ranges::find(opcodes, job.items[j].op_handle) - opcodes.begin();
    all[j] = std::uint64_t{1} << own;
    for (Word i = 0; i < j && job.is_ordered; ++i) {
      if (keepers[i] == i && reads_from(named[j], named[i])) all[j] |= all[i];
    }
  }
  return all;
}

}  // namespace everkernel::test
