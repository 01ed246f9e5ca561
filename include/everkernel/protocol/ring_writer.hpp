// Publishes operations and work items into the slots of a ring.
//
// Every call checks its arguments and every slot that it needs before it writes; an error leaves
// the ring unchanged. One thread publishes into a ring at a time.
#pragma once

#include <cstddef>
#include <span>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/slot.hpp"
#include "everkernel/protocol/buffer.hpp"
#include "everkernel/protocol/packed.hpp"
#include "everkernel/protocol/words.hpp"

namespace everkernel::protocol {

/// The default priority of publishers.
inline constexpr Word kDefaultPriority = static_cast<Word>(abi::Priority::normal);

/// One operation for one slot.
struct SlotRequest {
  Word slot_index = 0;               ///< slot to fill; must be EMPTY or DONE
  Word tenant = 0;                   ///< owner of the operation, 0..28
  Word priority = kDefaultPriority;  ///< 0..4
  Word opcode = 0;                   ///< a built-in or a handler's number
  std::span<const Word> args = {};   ///< all that a built-in reads, at most 12; the rest is zero
};

/// Work items for consecutive slots.
struct ItemWindow {
  Word first_slot = 0;                        ///< slot of the first item
  Word tenant = 0;                            ///< owner of the items, 0..28
  Word priority = kDefaultPriority;           ///< 0..4
  std::span<const abi::WorkItem> items = {};  ///< one for each slot
};

/// Several small operations for one slot.
struct PackedRequest {
  Word slot_index = 0;                 ///< slot to fill; must be EMPTY or DONE
  Word tenant = 0;                     ///< owner of the operations, 0..28
  Word priority = kDefaultPriority;    ///< 0..4
  std::span<const PackedOp> ops = {};  ///< run in order
};

/// An operation without its slot and sender.
struct Operation {
  Word opcode = 0;                  ///< a built-in or a handler's number
  std::span<const Word> args = {};  ///< all that a built-in reads, at most 12
};

/// Operations for consecutive slots, followed by a fence that completes after all of them.
struct BatchRequest {
  Word first_slot = 0;               ///< slot of the first operation
  Word tenant = 0;                   ///< owner of the operations, 0..28
  Word priority = kDefaultPriority;  ///< 0..4
  Word tag = 0;                      ///< word that the fence stores into the first observable
  std::span<const Operation> operations = {};  ///< one for each slot, then the fence
};

/// Tenant and priority of an operation.
struct Sender {
  Word tenant = 0;                   ///< 0..28
  Word priority = kDefaultPriority;  ///< 0..4
};

/// Checks an operation as publishing does: arguments, tenant, priority, opcode. Fails with
/// `invalid_argument`.
Result<void> check_operation(const Operation& operation, const Sender& sender);
/// Whether check_operation() would pass; inline, for callers that publish millions per second.
/// False for every packed slot, whose payload takes longer to check.
inline bool is_publishable(const Operation& operation, const Sender& sender) {
  return operation.opcode != static_cast<Word>(abi::Opcode::packed_slot) &&
         operation.args.size() <= abi::kSlotArgs &&
         operation.args.size() >= abi::least_arguments(operation.opcode) &&
         sender.tenant <= abi::kMaxTenant && sender.priority < abi::kPriorityCount &&
         abi::is_publishable_opcode(operation.opcode);
}
/// Checks work items as publishing does: tenant, priority, every opcode. Fails with
/// `invalid_argument`.
Result<void> check_items(std::span<const abi::WorkItem> items, const Sender& sender);

/// The slot of an operation that passed check_operation().
inline abi::Slot published_slot(const Operation& operation, const Sender& sender) {
  abi::Slot slot{abi::SlotStatus::published,
                 operation.opcode,
                 sender.tenant,
                 abi::priority_word(sender.priority, 0),
                 {}};
  for (std::size_t i = 0; i < operation.args.size(); ++i) slot.args[i] = operation.args[i];
  return slot;
}

/// The slot of a work item that passed check_items().
inline abi::Slot published_slot(const abi::WorkItem& item, const Sender& sender) {
  return {abi::SlotStatus::published,
          item.op_handle,
          sender.tenant,
          abi::priority_word(sender.priority, 0),
          {item.input_handle, item.output_handle, item.param}};
}

/// Resets `ring` to empty slots and publishes the window into it: the fast way to fill a fresh
/// ring. Checked in this order: the window fits, every opcode, at most 1,048,576 slots, tenant,
/// priority. Fails with `invalid_argument` (`corrupt` when the bytes are not whole slots) and then
/// leaves the target unchanged.
Result<void> encode_items(const ItemWindow& window, std::span<std::byte> ring);

/// Publishes into a ring. Errors are `invalid_argument` for a request that can never succeed and
/// `queue_full` for a slot that is still in use.
template <class Words>
class BasicRingWriter {
 public:
  /// Fails with `corrupt` when the bytes are not whole slots, and on live memory with
  /// `invalid_argument` when they are not aligned to a line. A view: the memory must outlive it.
  static Result<BasicRingWriter> bind(std::span<std::byte> ring);

  /// Number of slots.
  Word slot_count() const { return slot_count_; }

  /// Publishes one operation.
  Result<void> publish(const SlotRequest& request);
  /// Publishes work items into consecutive slots; gives their number.
  Result<Word> publish_items(const ItemWindow& window);
  /// Publishes several small operations in one slot.
  Result<void> publish_packed(const PackedRequest& request);
  /// Publishes operations and their fence; gives the number of slots, fence included.
  Result<Word> publish_batch(const BatchRequest& request);

  /// Frees a faulted slot. Fails with `invalid_argument` unless its status is FAULT.
  Result<void> reset(Word slot_index);
  /// Cancels a slot that no worker holds, only while no kernel runs on the ring. Fails with
  /// `invalid_argument` unless its status is PUBLISHED, WAIT_IO, YIELD or REQUEUE.
  Result<void> cancel(Word slot_index);

 private:
  BasicRingWriter(Words words, Word slot_count) : words_(words), slot_count_(slot_count) {}

  abi::SlotStatus status(Word slot_index) const {
    return abi::SlotStatus{words_.load_acquire(std::size_t{slot_index} * abi::kSlotWords)};
  }
  Result<void> check_inside(Word slot_index) const;
  Result<void> check_free(Word first_slot, Word count) const;
  void clear(Word slot_index);

  Words words_;
  Word slot_count_;
};

extern template class BasicRingWriter<PrivateWords>;
extern template class BasicRingWriter<LiveWords>;

/// Publishes into a ring that only the caller uses.
using RingWriter = BasicRingWriter<PrivateWords>;
/// Publishes into a ring that workers drain at the same time.
using LiveRingWriter = BasicRingWriter<LiveWords>;

}  // namespace everkernel::protocol
