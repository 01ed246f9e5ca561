// Random lists of items: chains, fans, groups that commute, duplicates, barriers and faults, over
// few buffers or many.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "everkernel/ir/printer.hpp"
#include "job.hpp"

namespace everkernel::test {
namespace {

using abi::WorkItem;
using backend::Origin;
using memory::Access;

Word random_size(Random& random) {
  const Word sizes[][2] = {{0, 2}, {3, 12}, {13, 60}, {61, 300}, {301, 1500}, {5000, 5000}};
  const Word weights[] = {5, 34, 32, 20, 7, 2};
  const Word* const range = sizes[random.weighted(weights)];
  return random.between(range[0], range[1]);
}

class ItemMaker {
 public:
  ItemMaker(Random& random, const JobProgram& program, Job& job)
      : random_(random), program_(program), job_(job), size_(random_size(random)) {
    const Word pools[] = {1, 2, 3, 5, 10, 40, 10'000, 10'000};
    const Word count = std::min<Word>(random.pick(pools), program.handles.count);
    const Word first = random.below(program.handles.count - count + 1);
    for (Word i = 0; i < count; ++i) pool_.push_back(program.handles.at(first + i));
    const Word barriers[] = {0, 0, 0, 10, 50, 300};
    barrier_rate_ = random.pick(barriers);
    const Word mischiefs[] = {0, 0, 0, 2, 20, 100};
    mischief_rate_ = random.pick(mischiefs);
    is_narrow_ = random.chance(40);
    slow_rate_ = size_ < 300 && random.chance(50) ? 100 : 0;
    for (const ir::VerifiedHandler& handler : program.verified.handlers()) sort(handler);
  }

  void make_ordered();
  void make_unordered();

 private:
  using Handlers = std::vector<const ir::VerifiedHandler*>;
  using Section = void (ItemMaker::*)(Word count);

  void sort(const ir::VerifiedHandler& handler);
  bool is_full() const { return job_.items.size() >= size_; }
  Word some_handle();
  Word other_than(Word handle);
  Word param();
  void add(const ir::VerifiedHandler& handler, Word input, Word output);
  void add_any(const Handlers& handlers, Word input, Word output);
  void note(std::string_view name) { job_.sections.emplace_back(name); }

  void mixture(Word count);
  void chain(Word count);
  void in_place_chain(Word count);
  void fan_out(Word count);
  void fan_in(Word count);
  void commuters_then_readers(Word count);
  void readers_then_commuters(Word count);
  void mixed_commuters(Word count);
  void duplicates(Word count);
  void one_item_again(Word count);
  void nops(Word count);
  void every_opcode(Word count);

  Random& random_;
  const JobProgram& program_;
  Job& job_;
  Word size_;
  std::vector<Word> pool_ = {};
  Word barrier_rate_ = 0, mischief_rate_ = 0, slow_rate_ = 0;  // in 1000
  bool is_narrow_ = false;  // few params, so that items are equal
  // Handlers by the effects that the planner sees.
  Handlers all_ = {}, plain_ = {}, barriers_ = {}, pure_ = {}, commuting_ = {}, writers_ = {},
           readers_ = {}, movers_ = {}, in_place_ = {};
};

void ItemMaker::sort(const ir::VerifiedHandler& handler) {
  const ir::Effects& effects = handler.effects;
  all_.push_back(&handler);
  if (is_barrier(effects)) {
    barriers_.push_back(&handler);
    return;
  }
  plain_.push_back(&handler);
  if (handler.handler.is_pure) pure_.push_back(&handler);
  if (handler.handler.commutes) commuting_.push_back(&handler);
  if (effects.writes_output && !handler.handler.commutes) writers_.push_back(&handler);
  if (effects.reads_input) readers_.push_back(&handler);
  if (effects.reads_input && effects.writes_output && !effects.writes_input) {
    movers_.push_back(&handler);
  }
  if (effects.reads_output && effects.writes_output && !handler.handler.commutes) {
    in_place_.push_back(&handler);
  }
}

Word ItemMaker::some_handle() {
  if (mischief_rate_ > 0 && random_.rarely(mischief_rate_ / 2)) {
    return random_.chance(50) ? 0 : program_.handles.at(program_.handles.count + 3);
  }
  return random_.pick_from(pool_);
}

// A random handle, seldom `handle` itself.
Word ItemMaker::other_than(Word handle) {
  const Word first = some_handle();
  return first != handle || random_.chance(3) ? first : some_handle();
}

Word ItemMaker::param() {
  const Word mischief = random_.rarely(mischief_rate_) ? random_.between(1, 5) << 8 : 0;
  const Word slowness = random_.rarely(slow_rate_) ? 1u << 28 : 0;
  if (is_narrow_) return random_.below(3) | mischief | slowness;
  return (random_.word() & 0x0FFFF0FFu) | mischief | slowness;
}

void ItemMaker::add(const ir::VerifiedHandler& handler, Word input, Word output) {
  if (is_full()) return;
  const ir::Effects& effects = handler.effects;
  // A handle that the body does not touch may be 0.
  if (!effects.reads_input && !effects.writes_input && random_.chance(30)) input = 0;
  if (!effects.reads_output && !effects.writes_output && random_.chance(30)) output = 0;
  job_.items.push_back({handler.handler.opcode, input, output, param()});
}

void ItemMaker::add_any(const Handlers& handlers, Word input, Word output) {
  if (!barriers_.empty() && random_.rarely(barrier_rate_)) {
    add(*random_.pick_from(barriers_), some_handle(), some_handle());
  }
  const Handlers& some = handlers.empty() ? all_ : handlers;
  if (!some.empty()) add(*random_.pick_from(some), input, output);
}

// ---- pieces of lists ----

void ItemMaker::mixture(Word count) {
  for (Word i = 0; i < count; ++i) {
    const Word input = some_handle();
    const bool is_same = random_.chance(8);
    add_any(plain_, input, is_same ? input : some_handle());
  }
}

void ItemMaker::chain(Word count) {
  Word at = random_.below(static_cast<Word>(pool_.size()));
  for (Word i = 0; i < count; ++i) {
    const Word next = (at + 1) % static_cast<Word>(pool_.size());
    add_any(movers_, pool_[at], pool_[next]);
    at = next;
  }
}

void ItemMaker::in_place_chain(Word count) {
  const Word handle = some_handle();
  const Word input = random_.chance(50) ? handle : some_handle();
  for (Word i = 0; i < count; ++i) add_any(in_place_, input, handle);
}

void ItemMaker::fan_out(Word count) {
  const Word handle = some_handle();
  add_any(writers_, some_handle(), handle);
  for (Word i = 0; i < count; ++i) add_any(readers_, handle, other_than(handle));
}

void ItemMaker::fan_in(Word count) {
  const Word handle = some_handle();
  for (Word i = 0; i < count; ++i) add_any(readers_, handle, other_than(handle));
  add_any(writers_, some_handle(), handle);
}

void ItemMaker::commuters_then_readers(Word count) {
  if (commuting_.empty()) return;
  const Word handle = some_handle();
  const Handlers commuter = {random_.pick_from(commuting_)};
  const Word share = random_.chance(50) ? 50 : random_.between(1, 99);
  for (Word i = 0; i < count * share / 100; ++i) add_any(commuter, other_than(handle), handle);
  for (Word i = 0; i < count - count * share / 100; ++i)
    add_any(readers_, handle, other_than(handle));
}

void ItemMaker::readers_then_commuters(Word count) {
  if (commuting_.empty()) return;
  const Word handle = some_handle();
  const Handlers commuter = {random_.pick_from(commuting_)};
  const Word share = random_.chance(50) ? 50 : random_.between(1, 99);
  for (Word i = 0; i < count * share / 100; ++i) add_any(readers_, handle, other_than(handle));
  for (Word i = 0; i < count - count * share / 100; ++i)
    add_any(commuter, other_than(handle), handle);
}

void ItemMaker::mixed_commuters(Word count) {
  if (commuting_.empty()) return;
  const Word handle = some_handle();
  Handlers commuter = {random_.pick_from(commuting_)};
  for (Word i = 0; i < count; ++i) {
    if (random_.chance(15)) commuter = {random_.pick_from(commuting_)};
    if (random_.chance(6)) add_any(plain_, handle, some_handle());
    if (random_.chance(3)) add_any(writers_, some_handle(), handle);
    add_any(commuter, other_than(handle), handle);
  }
}

void ItemMaker::duplicates(Word count) {
  if (pure_.empty()) return;
  std::vector<WorkItem> some;
  for (Word i = random_.between(1, 4); i > 0; --i) {
    some.push_back(
        {random_.pick_from(pure_)->handler.opcode, some_handle(), some_handle(), param()});
  }
  for (Word i = 0; i < count && !is_full(); ++i) {
    if (random_.chance(10)) add_any(plain_, some_handle(), some_handle());
    if (!is_full()) job_.items.push_back(random_.pick_from(some));
  }
}

void ItemMaker::one_item_again(Word count) {
  if (is_full()) return;
  add_any(all_, some_handle(), some_handle());
  const WorkItem item = job_.items.back();
  for (Word i = 0; i < count && !is_full(); ++i) job_.items.push_back(item);
}

void ItemMaker::nops(Word count) {
  for (Word i = 0; i < std::min<Word>(count, 5) && !is_full(); ++i) {
    job_.items.push_back({0, some_handle(), some_handle(), param()});
  }
}

void ItemMaker::every_opcode(Word) {
  for (const ir::VerifiedHandler* const handler : all_) add(*handler, some_handle(), some_handle());
}

void ItemMaker::make_ordered() {
  struct Row {
    std::string_view name;
    Section make;
    Word weight;
  };
  const Row rows[] = {
      {"mixture", &ItemMaker::mixture, 30},
      {"chain", &ItemMaker::chain, 12},
      {"chain in place", &ItemMaker::in_place_chain, 8},
      {"fan-out", &ItemMaker::fan_out, 9},
      {"fan-in", &ItemMaker::fan_in, 9},
      {"commuters, then readers", &ItemMaker::commuters_then_readers, 9},
      {"readers, then commuters", &ItemMaker::readers_then_commuters, 9},
      {"mixed commuters", &ItemMaker::mixed_commuters, 8},
      {"duplicates", &ItemMaker::duplicates, 8},
      {"one item again", &ItemMaker::one_item_again, 4},
      {"NOPs", &ItemMaker::nops, 3},
      {"every opcode", &ItemMaker::every_opcode, 6},
  };
  Word weights[std::size(rows)] = {};
  for (std::size_t i = 0; i < std::size(rows); ++i) weights[i] = rows[i].weight;
  // Some lists consist of pieces that may each be as long as the list.
  const bool is_one_piece = random_.chance(25);
  for (Word attempts = 0; !is_full() && attempts < 2 * size_ + 10; ++attempts) {
    const Row& row = rows[random_.weighted(weights)];
    const Word lengths[] = {4, 12, 60, 300};
    (this->*row.make)(is_one_piece ? size_ : random_.between(1, random_.pick(lengths)));
    note(row.name);
  }
}

// Inputs are never written; an output belongs to one item, or to one opcode that commutes.
void ItemMaker::make_unordered() {
  job_.is_ordered = false;
  note("unordered");
  const Word source_count = std::max<Word>(1, static_cast<Word>(pool_.size()) / 3);
  std::map<Word, Word> opcode_of;
  std::set<Word> taken;
  for (Word attempts = 0; !is_full() && attempts < 3 * size_; ++attempts) {
    const ir::VerifiedHandler& handler = *random_.pick_from(plain_.empty() ? all_ : plain_);
    const ir::Effects& effects = handler.effects;
    if (is_barrier(effects) || effects.writes_input) continue;
    const Word input = pool_[random_.below(source_count)];
    Word output = pool_[random_.below(static_cast<Word>(pool_.size()))];
    const bool is_source = std::ranges::find(pool_.begin(), pool_.begin() + source_count, output) !=
                           pool_.begin() + source_count;
    if (!effects.writes_output) {
      if (effects.reads_output && !is_source) output = input;
    } else if (is_source) {
      continue;
    } else if (handler.handler.commutes) {
      if (taken.contains(output)) continue;
      if (!opcode_of.emplace(output, handler.handler.opcode).second &&
          opcode_of[output] != handler.handler.opcode) {
        continue;
      }
    } else if (opcode_of.contains(output) || !taken.insert(output).second) {
      continue;
    }
    add(handler, input, output);
    if (handler.handler.is_pure && random_.chance(30) && !is_full()) {
      job_.items.push_back(job_.items.back());
    }
  }
}

void give_origins(Random& random, Job& job) {
  const Word tenants[] = {0, 0, 1, 2, 7, 28};
  job.origin = {.tenant = static_cast<std::uint8_t>(random.pick(tenants)),
                .priority = static_cast<std::uint8_t>(random.below(5))};
  if (random.chance(45)) return;
  const bool has_tenants = random.chance(60);
  for (std::size_t i = 0; i < job.items.size(); ++i) {
    Origin origin = job.origin;
    if (has_tenants) origin.tenant = static_cast<std::uint8_t>(random.pick(tenants));
    origin.priority = static_cast<std::uint8_t>(random.below(5));
    job.origins.push_back(origin);
  }
}

}  // namespace

const ir::Effects& effects_of(const ir::VerifiedProgram& program, Word opcode) {
  static const ir::Effects nothing;
  const ir::VerifiedHandler* const handler = program.find(opcode);
  return handler == nullptr ? nothing : handler->effects;
}

bool is_barrier(const ir::Effects& effects) {
  return effects.uses_handles || effects.writes_control || effects.moves_buffers;
}

std::vector<JobBuffer> generate_buffers(Random& random, const Handles& handles) {
  std::vector<JobBuffer> buffers;
  const Word longest = random.chance(30) ? 4 : 24;
  const bool has_limits = random.chance(35);
  for (Word i = 0; i < handles.count; ++i) {
    JobBuffer buffer = {.handle = handles.at(i)};
    buffer.words.resize(random.between(1, longest));
    if (has_limits && random.chance(12)) {
      buffer.access = random.chance(70) ? Access::read : Access::write;
    }
    if (has_limits && random.chance(8)) buffer.owner = random.below(3);
    buffers.push_back(std::move(buffer));
  }
  randomize(random, buffers);
  return buffers;
}

void randomize(Random& random, std::vector<JobBuffer>& buffers) {
  for (JobBuffer& buffer : buffers) {
    for (Word& word : buffer.words) word = random.chance(80) ? random.below(256) : random.word();
  }
}

Job generate_job(Random& random, const JobProgram& program, const std::vector<JobBuffer>& buffers) {
  Job job;
  job.buffers = buffers;
  randomize(random, job.buffers);
  ItemMaker maker(random, program, job);
  if (random.chance(8)) {
    maker.make_unordered();
  } else {
    maker.make_ordered();
  }
  give_origins(random, job);
  return job;
}

std::string describe(const JobProgram& program, const Job& job) {
  constexpr std::size_t kMostItems = 60;
  std::string text = job.is_ordered ? "" : "not ordered\n";
  std::set<Word> opcodes, handles;
  for (std::size_t i = 0; i < job.items.size(); ++i) {
    const WorkItem& item = job.items[i];
    opcodes.insert(item.op_handle);
    handles.insert({item.input_handle, item.output_handle});
    if (i == kMostItems) text += "…\n";
    if (i >= kMostItems) continue;
    const Origin origin = job.origin_of(i);
    text += fmt::format("item {:3}: opcode {}, {} -> {}, param {:#x}, tenant {}, priority {}\n", i,
                        item.op_handle, item.input_handle, item.output_handle, item.param,
                        origin.tenant, origin.priority);
  }
  for (const Word opcode : opcodes) {
    const ir::VerifiedHandler* const handler = program.verified.find(opcode);
    if (handler != nullptr) text += ir::print({.handlers = {handler->handler}});
  }
  for (const JobBuffer& buffer : job.buffers) {
    if (!handles.contains(buffer.handle)) continue;
    text += fmt::format(
        "buffer {}, access {}{}:", buffer.handle, static_cast<Word>(buffer.access),
        buffer.owner == memory::kEveryTenant ? "" : fmt::format(", owner {}", buffer.owner));
    for (const Word word : buffer.words) text += fmt::format(" {}", word);
    text += "\n";
    if (text.size() > 20'000) return text + "…\n";
  }
  return text;
}

}  // namespace everkernel::test
