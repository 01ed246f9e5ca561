// Hazards and duplicates: one pass that knows the last accesses of every handle.
//
// A read waits for the last write, a write for the last write and the reads since. Commuting items
// of one opcode wait for the accesses before their group, not for each other.
#include "planner/hazard_scan.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "planner/equal_items.hpp"
#include "planner/handle_table.hpp"

namespace everkernel::planner {
namespace {

using abi::WorkItem;
using backend::kDroppedPlace;
using backend::kMany;
using backend::kNoNode;

// The scan accesses memory at random: the state of a handle, then the nodes of the items that
// touched it. So two prefetches run ahead of it; the second uses the state the first one loaded.
constexpr std::size_t kFetchHandles = 32;
constexpr std::size_t kFetchNodes = 16;
// Items between two reads of the clock.
constexpr Word kClockInterval = 1 << 16;

// Deeper levels are not distinguished.
constexpr Word kMostLevels = 0xFFFF;

// Commuting items on one handle.
struct Group {
  Word members = kNoNode;  // while it is open, a list of links
  Word base = kNoNode;     // the node that members of the open group wait for
  Word opcode = 0;         // of the group that is open or was the last write; 0 = no group
};

// One pass over the list.
class Scan {
 public:
  Scan(const PlanRequest& request, Plan& plan, Word max_handle)
      : request_(request),
        plan_(plan),
        item_count_(static_cast<Word>(request.items.size())),
        handles_(plan, max_handle, request.items.size()),
        equal_items_(request),
        links_(plan.arrays.links.take(2 * request.items.size())) {}

  // Returns whether the scan ended before the deadline.
  bool run() {
    for (Word item = 0; item < item_count_; ++item) {
      if (item % kClockInterval == kClockInterval - 1 && is_over()) return false;
      fetch_ahead(item);
      const Effects effects = request_.effects->find(request_.items[item].op_handle);
      if ((effects & ~kCommutes) != 0) {
        visit(item, effects);
      } else {
        follow_barrier(item);
      }
    }
    plan_.handles = handles_.places();
    plan_.edges = plan_.edges.first(edge_count_);
    return true;
  }

 private:
  bool is_over() const { return request_.deadline.has_passed(); }

  // Always inlined: g++ treats a function that only prefetches as pure and removes the call.
  [[gnu::always_inline]] void fetch_ahead(Word item) const {
    if (item + kFetchHandles < item_count_) {
      const WorkItem& words = request_.items[item + kFetchHandles];
      handles_.fetch(words.input_handle);
      handles_.fetch(words.output_handle);
    }
    if (!request_.ordered) return;
    if (item + kFetchNodes < item_count_) fetch_nodes(request_.items[item + kFetchNodes]);
  }

  [[gnu::always_inline]] void fetch_nodes(const WorkItem& words) const {
    const Effects effects = request_.effects->find(words.op_handle);
    if ((effects & kReadsInput) != 0) fetch_node(handles_.guess(words.input_handle).writer);
    if ((effects & kWritesOutput) == 0) return;
    const HandleState& state = handles_.guess(words.output_handle);
    fetch_node(state.writer);
    fetch_node(state.reader / 2);
    fetch_node(state.reader_before / 2);
    if (state.readers == kNoNode) return;
    __builtin_prefetch(&links_[state.readers]);
    fetch_node(state.readers / 2);
  }
  [[gnu::always_inline]] void fetch_node(Word node) const {
    if (node < item_count_) __builtin_prefetch(&plan_.nodes[node], 1);
  }

  void visit(Word item, Effects effects) {
    if (request_.dedupe && (effects & kPure) != 0 && is_duplicate(item, effects)) return;
    const WorkItem& words = request_.items[item];
    if ((effects & kBarrier) != 0) {
      visit_barrier(item, effects);
      return;
    }
    if (request_.ordered && item < kLeveledItems) note_level(words, effects);
    const bool is_in_place = words.input_handle == words.output_handle;
    const bool touches_input = (effects & (kReadsInput | kWritesInput)) != 0;
    if (is_in_place) {
      const bool commutes = (effects & kCommutes) != 0 && !touches_input;
      access(item, 1, (effects & (kReadsInput | kReadsOutput)) != 0,
             (effects & (kWritesInput | kWritesOutput)) != 0, commutes);
    } else {
      access(item, 0, (effects & kReadsInput) != 0, (effects & kWritesInput) != 0, false);
      access(item, 1, (effects & kReadsOutput) != 0, (effects & kWritesOutput) != 0,
             (effects & kCommutes) != 0);
    }
    follow_barrier(item);
  }

  // The level of an item is the length of the longest chain of handle accesses up to it; items of
  // one level could run at the same time. The launch policy uses only the number of levels.
  void note_level(const WorkItem& words, Effects effects) {
    Word level = barrier_level_;
    const auto look = [&](Word handle, bool touches, bool writes) {
      if (handle == 0 || !touches) return;
      const HandleState& state = handles_[handle];
      level = std::max<Word>(level, writes ? state.read_level : state.write_level);
    };
    const bool writes_input = (effects & kWritesInput) != 0;
    const bool writes_output = (effects & kWritesOutput) != 0;
    const bool touches_input = (effects & (kReadsInput | kWritesInput)) != 0;
    const bool touches_output = (effects & (kReadsOutput | kWritesOutput)) != 0;
    look(words.input_handle, touches_input, writes_input);
    const bool joins = (effects & kCommutes) != 0 && has_open_group(words);
    if (!joins) look(words.output_handle, touches_output, writes_output);
    level = std::min<Word>(level + 1, kMostLevels);
    if (joins) level = std::max<Word>(level, handles_[words.output_handle].write_level);
    const auto note = [&](Word handle, bool touches, bool writes) {
      if (handle == 0 || !touches) return;
      HandleState& state = handles_[handle];
      const auto reached = static_cast<std::uint16_t>(level);
      state.read_level = std::max(state.read_level, reached);
      if (writes) state.write_level = reached;
    };
    note(words.input_handle, touches_input, writes_input);
    note(words.output_handle, touches_output, writes_output);
    plan_.depth = std::max(plan_.depth, level);
  }

  // Whether the output of a commuting item has an open group of its opcode.
  bool has_open_group(const WorkItem& words) {
    if (words.output_handle == 0) return false;
    const HandleState& state = handles_[words.output_handle];
    if (state.group == kNoNode) return false;
    const Group& group = groups_[state.group];
    return group.members != kNoNode && group.opcode == words.op_handle;
  }

  // A barrier waits for all earlier items and all later items wait for it, so of the handles it
  // names only its writes are noted.
  void visit_barrier(Word item, Effects effects) {
    if (request_.ordered) wait_for_everything(item);
    last_barrier_ = item;
    barrier_level_ = plan_.depth = std::min<Word>(plan_.depth + 1, kMostLevels);
    const WorkItem& words = request_.items[item];
    if (words.input_handle != 0) note_barrier(item, words.input_handle, effects & kWritesInput);
    if (words.output_handle != 0) note_barrier(item, words.output_handle, effects & kWritesOutput);
  }

  void note_barrier(Word item, Word handle, int writes) {
    HandleState& state = handles_[handle];
    if (writes == 0) return;
    state.writer = state.last_write = item;
    state.fingerprint = 0;
    state.forget_readers();
    if (state.group != kNoNode) groups_[state.group] = {};
  }

  // Items after a barrier wait for it. One that waits for a later node already needs no own edge.
  void follow_barrier(Word node) {
    if (last_barrier_ == kNoNode || !request_.ordered) return;
    if (waiting_for(node) == 0) add_edge(node, last_barrier_);
  }

  // ---- duplicates ----

  bool is_duplicate(Word item, Effects effects) {
    const WorkItem& words = request_.items[item];
    if (words.input_handle == words.output_handle) return false;
    const bool writes = (effects & kWritesOutput) != 0 && words.output_handle != 0;
    // No item between two equal items may write their output, so the last writer of the output is
    // the only candidate.
    Word kept = kNoNode;
    if (!writes) {
      kept = equal_items_.exchange(item);
    } else if (HandleState& state = handles_[words.output_handle];
               state.fingerprint == fingerprint(item)) {
      kept = state.last_write;
    }
    if (kept == kNoNode || !is_equal(kept, item) || is_before_barrier(kept)) return false;
    const auto is_written_since = [&](Word handle) {
      if (handle == 0) return false;
      const Word last = handles_[handle].last_write;
      return last != kNoNode && last > kept;
    };
    if (is_written_since(words.input_handle) || is_written_since(words.output_handle)) return false;
    if (!writes) static_cast<void>(equal_items_.exchange(kept));
    plan_.places[item] = kDroppedPlace;
    plan_.duplicates.push_back({item, kept});
    return true;
  }

  // A hash of a pure item's words except its output, never 0. Equal items have equal fingerprints;
  // different fingerprints save loading the other item.
  Word fingerprint(Word item) const {
    const WorkItem& words = request_.items[item];
    std::uint64_t hash = std::uint64_t{words.op_handle} << 32 | words.input_handle;
    hash = (hash ^ (std::uint64_t{words.param} << 17)) * 0x9E3779B97F4A7C15u;
    return static_cast<Word>(hash >> 32) | 1;
  }

  bool is_equal(Word a, Word b) const {
    const bool is_same_tenant =
        request_.origins.empty() || request_.origins[a].tenant == request_.origins[b].tenant;
    return is_same_tenant && request_.items[a] == request_.items[b];
  }

  bool is_before_barrier(Word item) const {
    return last_barrier_ != kNoNode && item <= last_barrier_;
  }

  // ---- hazards ----

  // An item's access to its input (`which` 0) or output (1).
  void access(Word item, Word which, bool reads, bool writes, bool commutes) {
    const WorkItem& words = request_.items[item];
    const Word handle = which == 0 ? words.input_handle : words.output_handle;
    if (handle == 0 || (!reads && !writes)) return;
    HandleState& state = handles_[handle];
    if (writes) {
      state.last_write = item;
      const bool is_pure = (request_.effects->find(words.op_handle) & kPure) != 0;
      state.fingerprint = is_pure && which == 1 ? fingerprint(item) : 0;
    }
    if (!request_.ordered) return;
    const Word link = 2 * item + which;
    if (writes && commutes) {
      join_group(state, item, link);
    } else if (writes) {
      close_group(state, item);
      wait(item, state.writer);
      wait_for_readers(item, state);
      state.writer = item;
      if (state.group != kNoNode) groups_[state.group].opcode = 0;
    } else {
      close_group(state, item);
      wait(item, state.writer);
      add_reader(state, link);
    }
  }

  void add_reader(HandleState& state, Word link) {
    if (state.reader_before != kNoNode) {
      links_[state.reader_before] = std::exchange(state.readers, state.reader_before);
    }
    state.reader_before = std::exchange(state.reader, link);
  }

  // Adds edges to all readers since the last write, and forgets the readers.
  void wait_for_readers(Word waiter, HandleState& state) {
    if (!state.has_readers()) return;
    wait(waiter, state.reader / 2);
    if (state.reader_before != kNoNode) wait(waiter, state.reader_before / 2);
    for_each(state.readers, [&](Word reader) { wait(waiter, reader); });
    state.forget_readers();
  }

  // Commuting items wait for the accesses before their group, not for each other.
  void join_group(HandleState& state, Word item, Word link) {
    const Word opcode = request_.items[item].op_handle;
    if (state.group == kNoNode) {
      state.group = static_cast<Word>(groups_.size());
      groups_.emplace_back();
    }
    const bool is_open = groups_[state.group].members != kNoNode;
    if (!is_open || groups_[state.group].opcode != opcode) open_group(state, item, opcode);
    Group& group = groups_[state.group];
    wait(item, group.base);
    links_[link] = std::exchange(group.members, link);
  }

  void open_group(HandleState& state, Word item, Word opcode) {
    close_group(state, item);
    Group& group = groups_[state.group];
    // Members of an earlier group of the same opcode need no edge. Readers since then do, and they
    // wait for that group.
    const Word writer = group.opcode == opcode ? kNoNode : state.writer;
    if (!state.has_readers()) {
      group.base = writer;
    } else if (is_covered(writer) && is_covered_link(state.reader_before)) {
      group.base = state.reader / 2;
      state.forget_readers();
    } else {
      group.base = make_join(item);
      wait(group.base, writer);
      wait_for_readers(group.base, state);
      follow_barrier(group.base);
    }
    group.opcode = opcode;
  }

  // The group becomes the last write: its only member, or a join of all members.
  void close_group(HandleState& state, Word item) {
    if (state.group == kNoNode) return;
    Group& group = groups_[state.group];
    if (group.members == kNoNode) return;
    if (is_covered_link(links_[group.members])) {
      state.writer = group.members / 2;
    } else {
      state.writer = make_join(item);
      for_each(group.members, [&](Word member) { wait(state.writer, member); });
      follow_barrier(state.writer);
    }
    group.members = kNoNode;
    group.base = kNoNode;
  }

  void for_each(Word link, const auto& call) const {
    for (; link != kNoNode; link = links_[link]) call(link / 2);
  }

  // ---- nodes and edges ----

  Word make_join(Word item) {
    plan_.joins.emplace_back();
    plan_.join_waiting_for.push_back(0);
    join_made_at_.push_back(item);
    return item_count_ + static_cast<Word>(plan_.joins.size()) - 1;
  }

  // Whether waiting for the node needs no edge: there is no node, or the last barrier waited for it
  // and follow_barrier() adds the edge to that barrier.
  bool is_covered(Word node) const {
    if (node == kNoNode) return true;
    if (last_barrier_ == kNoNode) return false;
    return (node < item_count_ ? node : join_made_at_[node - item_count_]) <= last_barrier_;
  }
  bool is_covered_link(Word link) const { return link == kNoNode || is_covered(link / 2); }

  Word& waiting_for(Word node) {
    return node < item_count_ ? plan_.waiting_for[node]
                              : plan_.join_waiting_for[node - item_count_];
  }

  void wait(Word waiter, Word node) {
    if (!is_covered(node)) add_edge(waiter, node);
  }

  void add_edge(Word waiter, Word node) {
    if (edge_count_ == plan_.edges.size()) {
      plan_.edges = plan_.arrays.edges.grow(2 * edge_count_, edge_count_);
    }
    backend::Node& waited =
        node < item_count_ ? plan_.nodes[node] : plan_.joins[node - item_count_];
    // A branch on whether the node has a waiter would be unpredictable, so there is none: the last
    // waiter is copied to the next free edge, which is kept only if there was a waiter.
    const Word before = waited.last_waiter;
    const bool has_waiter = before != kNoNode;
    const bool is_said = has_waiter && (before & ~kMany) == waiter;
    const bool moves = has_waiter && !is_said;
    plan_.edges[edge_count_] = {before & ~kMany, waited.others};
    waited.others = moves ? static_cast<Word>(edge_count_) : waited.others;
    edge_count_ += moves ? 1 : 0;
    waited.last_waiter = is_said ? before : (has_waiter ? waiter | kMany : waiter);
    waiting_for(waiter) += is_said ? 0 : 1;
    plan_.dependencies += is_said ? 0 : 1;
  }

  // Waits for every node since the last barrier that no other node waits for.
  void wait_for_everything(Word item) {
    const Word begin = last_barrier_ == kNoNode ? 0 : last_barrier_;
    for (Word node = begin; node < item; ++node) {
      if (plan_.nodes[node].last_waiter == kNoNode && plan_.places[node] != kDroppedPlace) {
        add_edge(item, node);
      }
    }
    for (; joins_seen_ < plan_.joins.size(); ++joins_seen_) {
      if (plan_.joins[joins_seen_].last_waiter == kNoNode) {
        add_edge(item, item_count_ + static_cast<Word>(joins_seen_));
      }
    }
  }

  const PlanRequest& request_;
  Plan& plan_;
  const Word item_count_;
  HandleTable handles_;
  EqualItems equal_items_;
  std::span<Word> links_;
  std::vector<Group> groups_;
  std::vector<Word> join_made_at_;
  Word last_barrier_ = kNoNode;
  Word barrier_level_ = 0;
  std::size_t joins_seen_ = 0;
  std::size_t edge_count_ = 0;
};

}  // namespace

bool scan_hazards(const PlanRequest& request, Word max_handle, Plan& plan) {
  return Scan(request, plan, max_handle).run();
}

std::size_t handle_state_bytes() {
  return sizeof(HandleState);
}

}  // namespace everkernel::planner
