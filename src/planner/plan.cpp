// Hazards, duplicates and regions in one pass over the list, and orders to publish them in.
#include "everkernel/planner/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "everkernel/abi/control.hpp"

namespace everkernel::planner {
namespace {

using abi::WorkItem;
using backend::Edge;
using backend::kDroppedPlace;
using backend::kNoNode;

// Items ahead of the scan whose handles are fetched.
constexpr std::size_t kFetchAhead = 12;

// What is known about a handle at this point of the list.
struct HandleState {
  Word writer = kNoNode;      // last write: an item, or the join of a group
  Word readers = kNoNode;     // since then, a list of links
  Word members = kNoNode;     // of an open commuting group, a list of links
  Word base = kNoNode;        // what members of the open group wait for
  Word group_opcode = 0;      // of the group that is open or was the last write; 0 = no group
  Word last_write = kNoNode;  // last item that writes it
};

// Handles, each with its state: an array where handles are small, a hash table else.
class HandleTable {
 public:
  HandleTable(Plan& plan, Word max_handle, std::size_t item_count) : plan_(plan) {
    is_direct_ = max_handle < item_count / 2 + kSmallHandles;
    resize(is_direct_ ? std::size_t{max_handle} + 1 : kFirstPlaces);
  }

  HandleState& operator[](Word handle) {
    if (is_direct_) return states_[handle];
    std::size_t at = search(handle);
    if (plan_.handle_keys[at] == 0) {
      if (2 * (used_ + 1) > plan_.handle_keys.size()) {
        grow();
        at = search(handle);
      }
      plan_.handle_keys[at] = handle;
      ++used_;
    }
    return states_[at];
  }

  void fetch(Word handle) const {
    if (is_direct_) {
      __builtin_prefetch(&states_[handle], 1);
    } else {
      const std::size_t at = backend::HandlePlaces::home(handle, plan_.handle_keys.size() - 1);
      __builtin_prefetch(&plan_.handle_keys[at]);
      __builtin_prefetch(&states_[at], 1);
    }
  }

  backend::HandlePlaces places() const {
    if (is_direct_) return {.keys = {}, .count = states_.size()};
    return {.keys = plan_.handle_keys, .count = states_.size()};
  }

 private:
  static constexpr std::size_t kSmallHandles = 65536;
  static constexpr std::size_t kFirstPlaces = 1024;

  void resize(std::size_t count) {
    plan_.handle_states.resize(count * sizeof(HandleState));
    states_ = {reinterpret_cast<HandleState*>(plan_.handle_states.data()), count};
    std::ranges::uninitialized_value_construct(states_);
    plan_.handle_keys.assign(is_direct_ ? 0 : count, 0);
  }

  std::size_t search(Word handle) const {
    const std::size_t mask = plan_.handle_keys.size() - 1;
    std::size_t at = backend::HandlePlaces::home(handle, mask);
    while (plan_.handle_keys[at] != 0 && plan_.handle_keys[at] != handle) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    const std::vector<std::byte> old_states = std::move(plan_.handle_states);
    const std::vector<Word> old_keys = std::move(plan_.handle_keys);
    plan_.handle_states = {};
    resize(old_keys.size() * 2);
    for (std::size_t i = 0; i < old_keys.size(); ++i) {
      if (old_keys[i] == 0) continue;
      const std::size_t at = search(old_keys[i]);
      plan_.handle_keys[at] = old_keys[i];
      std::memcpy(&states_[at], &old_states[i * sizeof(HandleState)], sizeof(HandleState));
    }
  }

  Plan& plan_;
  bool is_direct_ = false;
  std::size_t used_ = 0;
  std::span<HandleState> states_;
};

// Items that write nothing but are pure, found by their words. Few jobs have any.
class EqualItems {
 public:
  EqualItems(const PlanRequest& request) : request_(request) {}

  // The last equal item that was kept, or kNoNode; `item` is remembered instead.
  Word exchange(Word item) {
    if (2 * (used_ + 1) > places_.size()) grow();
    Word& place = find(item);
    if (place == kNoNode) ++used_;
    return std::exchange(place, item);
  }

 private:
  std::uint8_t tenant(Word item) const {
    return request_.origins.empty() ? request_.origin.tenant : request_.origins[item].tenant;
  }
  Word& find(Word item) {
    const WorkItem& words = request_.items[item];
    std::uint64_t hash = words.op_handle;
    for (const Word word : {words.input_handle, words.output_handle, words.param}) {
      hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    const std::size_t mask = places_.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const Word other = places_[at];
      if (other == kNoNode) return places_[at];
      if (request_.items[other] == words && tenant(other) == tenant(item)) return places_[at];
    }
  }
  void grow() {
    const std::vector<Word> old = std::move(places_);
    places_.assign(std::max<std::size_t>(64, 2 * old.size()), kNoNode);
    for (const Word item : old) {
      if (item != kNoNode) find(item) = item;
    }
  }

  const PlanRequest& request_;
  std::vector<Word> places_;
  std::size_t used_ = 0;
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
        links_(plan.links.take(2 * request.items.size())) {}

  void run() {
    for (Word item = 0; item < item_count_; ++item) {
      if (item + kFetchAhead < item_count_) fetch(request_.items[item + kFetchAhead]);
      const Effects effects = request_.effects->find(request_.items[item].op_handle);
      if ((effects & ~kCommutes) != 0) {
        visit(item, effects);
      } else {
        continue_after_barrier(item);
      }
    }
    plan_.handles = handles_.places();
  }

 private:
  void fetch(const WorkItem& item) const {
    handles_.fetch(item.input_handle);
    handles_.fetch(item.output_handle);
  }

  void visit(Word item, Effects effects) {
    if (request_.dedupe && (effects & kPure) != 0 && is_duplicate(item, effects)) return;
    const WorkItem& words = request_.items[item];
    const bool is_barrier = (effects & kBarrier) != 0;
    if (is_barrier && request_.ordered) wait_for_everything(item);
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
    if (is_barrier) {
      last_barrier_ = item;
    } else {
      continue_after_barrier(item);
    }
  }

  // Everything after a barrier waits for it, by an edge of its own only if nothing else says so.
  void continue_after_barrier(Word item) {
    if (last_barrier_ == kNoNode || !request_.ordered) return;
    if (plan_.waiting_for[item] == 0) wait(item, last_barrier_);
  }

  // ---- duplicates ----

  bool is_duplicate(Word item, Effects effects) {
    const WorkItem& words = request_.items[item];
    if (words.input_handle == words.output_handle) return false;
    const bool writes = (effects & kWritesOutput) != 0 && words.output_handle != 0;
    // Nothing between two equal items may write their output, so the last one that did is the
    // only candidate.
    const Word kept =
        writes ? handles_[words.output_handle].last_write : equal_items_.exchange(item);
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
    if (writes) state.last_write = item;
    if (!request_.ordered) return;
    const Word link = 2 * item + which;
    if (writes && commutes) {
      join_group(state, item, link);
    } else if (writes) {
      close_group(state, item);
      wait(item, state.writer);
      for_each(state.readers, [&](Word reader) { wait(item, reader); });
      state.writer = item;
      state.readers = kNoNode;
      state.group_opcode = 0;
    } else {
      close_group(state, item);
      wait(item, state.writer);
      links_[link] = std::exchange(state.readers, link);
    }
  }

  // Commuting items wait for what came before their group, not for each other.
  void join_group(HandleState& state, Word item, Word link) {
    const Word opcode = request_.items[item].op_handle;
    if (state.members == kNoNode || state.group_opcode != opcode) open_group(state, item, opcode);
    wait(item, state.base);
    links_[link] = std::exchange(state.members, link);
  }

  void open_group(HandleState& state, Word item, Word opcode) {
    close_group(state, item);
    // Members of an earlier group of the same opcode are not waited for; readers since are, and
    // they waited for that group.
    const Word writer = state.group_opcode == opcode ? kNoNode : state.writer;
    const bool has_one_reader = state.readers != kNoNode && links_[state.readers] == kNoNode;
    if (state.readers == kNoNode) {
      state.base = writer;
    } else if (writer == kNoNode && has_one_reader) {
      state.base = state.readers / 2;
    } else {
      state.base = make_join(item);
      wait(state.base, writer);
      for_each(state.readers, [&](Word reader) { wait(state.base, reader); });
    }
    state.readers = kNoNode;
    state.group_opcode = opcode;
  }

  // The group becomes the last write: its only member, or one node for all.
  void close_group(HandleState& state, Word item) {
    if (state.members == kNoNode) return;
    if (links_[state.members] == kNoNode) {
      state.writer = state.members / 2;
    } else {
      const Word join = make_join(item);
      for_each(state.members, [&](Word member) { wait(join, member); });
      state.writer = join;
    }
    state.members = kNoNode;
    state.base = kNoNode;
  }

  void for_each(Word link, const auto& call) const {
    for (; link != kNoNode; link = links_[link]) call(link / 2);
  }

  // ---- nodes and edges ----

  Word make_join(Word item) {
    plan_.join_first_edges.push_back(kNoNode);
    plan_.join_waiting_for.push_back(0);
    join_made_at_.push_back(item);
    return item_count_ + static_cast<Word>(plan_.join_first_edges.size()) - 1;
  }
  Word& first_edge(Word node) {
    return node < item_count_ ? plan_.first_edges[node]
                              : plan_.join_first_edges[node - item_count_];
  }
  Word& waiting_for(Word node) {
    return node < item_count_ ? plan_.waiting_for[node]
                              : plan_.join_waiting_for[node - item_count_];
  }

  void wait(Word waiter, Word node) {
    if (node == kNoNode) return;
    // A barrier stands for everything before it.
    if (last_barrier_ != kNoNode) {
      const Word made_at = node < item_count_ ? node : join_made_at_[node - item_count_];
      if (made_at < last_barrier_) node = last_barrier_;
    }
    if (node == waiter) return;
    Word& first = first_edge(node);
    if (first != kNoNode && plan_.edges[first].waiter == waiter) return;  // said already
    plan_.edges.push_back({waiter, first});
    first = static_cast<Word>(plan_.edges.size() - 1);
    ++waiting_for(waiter);
  }

  // Waits for whatever nothing else waits for yet, since the barrier before.
  void wait_for_everything(Word item) {
    const Word begin = last_barrier_ == kNoNode ? 0 : last_barrier_;
    for (Word node = begin; node < item; ++node) {
      if (plan_.first_edges[node] == kNoNode && plan_.places[node] != kDroppedPlace) {
        wait(item, node);
      }
    }
    for (; joins_seen_ < plan_.join_first_edges.size(); ++joins_seen_) {
      if (plan_.join_first_edges[joins_seen_] == kNoNode) {
        wait(item, item_count_ + static_cast<Word>(joins_seen_));
      }
    }
  }

  const PlanRequest& request_;
  Plan& plan_;
  const Word item_count_;
  HandleTable handles_;
  EqualItems equal_items_;
  std::span<Word> links_;
  std::vector<Word> join_made_at_;
  Word last_barrier_ = kNoNode;
  std::size_t joins_seen_ = 0;
};

Failure bad_item(std::size_t item, std::string what, std::string hint) {
  return fail(Code::invalid_argument, fmt::format("run: item {}: {}", item, std::move(what)),
              std::move(hint));
}

Result<void> check_origin(std::size_t item, const Origin& origin) {
  if (origin.tenant >= abi::kTenantCount) {
    return bad_item(item,
                    fmt::format("tenant {} is above {}", origin.tenant, abi::kTenantCount - 1),
                    "tenants are 0..28");
  }
  if (origin.priority >= abi::kPriorityCount) {
    return bad_item(
        item, fmt::format("priority {} is above {}", origin.priority, abi::kPriorityCount - 1),
        "priorities are 0 (most urgent) to 4");
  }
  return {};
}

Result<Word> check(const PlanRequest& request, Plan& plan) {
  EVERKERNEL_TRY(check_origin(0, request.origin));
  if (!request.origins.empty() && request.origins.size() != request.items.size()) {
    return fail(
        Code::invalid_argument,
        fmt::format("run: {} origins for {} items", request.origins.size(), request.items.size()),
        "give one an item, or none");
  }
  plan.has_priorities = false;
  for (std::size_t i = 0; i < request.origins.size(); ++i) {
    EVERKERNEL_TRY(check_origin(i, request.origins[i]));
    plan.has_priorities |= request.origins[i].priority != request.origins[0].priority;
  }
  Word max_handle = 0;
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    const WorkItem& item = request.items[i];
    if ((request.effects->find(item.op_handle) & kUnknownOpcode) != 0) {
      return bad_item(i, fmt::format("no handler has opcode {}", item.op_handle),
                      "items run the handlers of the megakernel, or NOP (0)");
    }
    max_handle = std::max({max_handle, item.input_handle, item.output_handle});
  }
  return max_handle;
}

// A chain goes on where one item is the only one that waits, and waits for nothing else.
void make_regions(Plan& plan, std::size_t item_count, bool fuse) {
  plan.regions = 0;
  plan.ready_regions = 0;
  for (std::size_t item = 0; item < item_count; ++item) {
    const std::uint8_t place = plan.places[item];
    if (place == kDroppedPlace) continue;
    if (place == 0) {
      ++plan.regions;
      if (plan.waiting_for[item] == 0) ++plan.ready_regions;
    }
    const Word first = plan.first_edges[item];
    if (!fuse || first == kNoNode || place + 1u >= backend::kMaxRegionItems) continue;
    const Edge& edge = plan.edges[first];
    if (edge.next != kNoNode || edge.waiter >= item_count) continue;
    if (plan.waiting_for[edge.waiter] == 1) plan.places[edge.waiter] = place + 1;
  }
}

}  // namespace

std::size_t Plan::size_bytes() const {
  const auto bytes = [](const auto& values) { return values.capacity() * sizeof(*values.data()); };
  return place_storage.size_bytes() + edge_storage.size_bytes() + waiting_storage.size_bytes() +
         links.size_bytes() + bytes(join_first_edges) + bytes(join_waiting_for) + bytes(edges) +
         bytes(duplicates) + bytes(handle_states) + bytes(handle_keys);
}

Result<void> plan(const PlanRequest& request, Plan& target) {
  const auto max_handle = check(request, target);
  if (!max_handle) return Failure(max_handle.error());
  const std::size_t count = request.items.size();
  target.places = target.place_storage.take(count);
  target.first_edges = target.edge_storage.take(count);
  target.waiting_for = target.waiting_storage.take(count);
  std::ranges::fill(target.places, std::uint8_t{0});
  std::ranges::fill(target.first_edges, kNoNode);
  std::ranges::fill(target.waiting_for, 0);
  target.join_first_edges.clear();
  target.join_waiting_for.clear();
  target.edges.clear();
  target.duplicates.clear();
  Scan(request, target, *max_handle).run();
  make_regions(target, count, request.fuse);
  return {};
}

}  // namespace everkernel::planner
