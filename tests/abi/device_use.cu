// Device code that uses every abi header: constants, structs and predicates. nvcc compiles it with
// the toolkit's headers, NVRTC (device_compile.cpp) with nothing but ours; neither runs it.
#include "everkernel/abi/control.hpp"
#include "everkernel/abi/debug_log.hpp"
#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/hit.hpp"
#include "everkernel/abi/io_queue.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/abi/packed.hpp"
#include "everkernel/abi/platform.hpp"
#include "everkernel/abi/queue.hpp"
#include "everkernel/abi/slot.hpp"

using namespace everkernel::abi;

// Expressions that only the compiler evaluates: tables and names live in host memory.
static_assert(find_opcode(7)->opcode == Opcode::batch_fence);
static_assert(is_publishable_opcode(0x80000001u) && !is_publishable_opcode(0x80000000u));
static_assert(kControlTables[3].words.first == 3 && control_tables_tile());
static_assert(status_name(SlotStatus::yield)[0] == 'y' && priority_name(4)[0] == 'i');
static_assert(fault_name(256)[0] == 'u' && io_op_name(IoOp::write)[0] == 'w');
static_assert(io_status_name(IoStatus::error)[0] == 'e' && opcode_table_is_sound());
static_assert(WorkItem{1, 2, 3, 4} == WorkItem{1, 2, 3, 4});
static_assert(lap_bit(1023, 1024) == 1 && lap_bit(1024, 1024) == 0);
static_assert(item_of(compact_entry({64, 2, 3, 4}, 1)) == WorkItem{64, 2, 3, 4});
static_assert(queue_header(EntryFormat::full, 8, false, 0).kernel_bytes == 384);
static_assert(DebugRecord{1, {2, 3, 4}} == DebugRecord{1, {2, 3, 4}});

__device__ Word fault_of(const Slot& slot, Word tenant_base) {
  const Word mask_index = tenant_base + slot.tenant;
  if (mask_index < kControlTenantMasks.first || mask_index >= kControlTenantMasks.end()) {
    return static_cast<Word>(FaultCode::tenant_out_of_range);
  }
  if (slot.opcode == static_cast<Word>(Opcode::packed_slot)) {
    const Word words = packed_metadata_words(packed_byte(slot.args, 0)) + packed_byte(slot.args, 1);
    return words > kSlotArgs ? static_cast<Word>(FaultCode::bad_packed_payload) : 0;
  }
  return is_reserved_opcode(slot.opcode) ? kFirstUserFault + kMaxUserFault : 0;
}

// Takes a full entry and gives its outcome byte: what a kernel on queues does with an item.
__device__ unsigned char take_entry(const FullEntry& entry, LongWord ticket, Word capacity,
                                    Slot& slot) {
  const Word lap = lap_bit(ticket, capacity);
  if (!is_valid(entry, lap)) return 0;
  slot = slot_of(entry);
  return outcome_byte(OutcomeCode::done, lap);
}

__device__ Word state_bits(SlotStatus status) {
  return (is_known(status) ? 1u : 0u) | (is_publishable(status) ? 2u : 0u) |
         (is_claimable(status) ? 4u : 0u) | (is_terminal(status) ? 8u : 0u) |
         (is_active(status) ? 16u : 0u) | (is_cancellable(status) ? 32u : 0u);
}

extern "C" __global__ void use_abi(Slot* ring, Word slot_count, Word* control, DebugRecord* log,
                                   IoSlot* queue) {
  const Word index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= slot_count || index >= kMaxRingSlots) return;

  Slot slot = ring[index];
  const Word fault = fault_of(slot, control[kControlTenantBase.first]);
  slot.status = fault != 0 ? SlotStatus::fault : SlotStatus::done;
  slot.priority = priority_word(priority_of(slot.priority), fault);
  ring[index] = slot;

  log[index] = DebugRecord{state_bits(slot.status), {index, kDebugRecordWords, index * kSlotWords}};
  control[kControlMetrics.first + slot.opcode % kControlMetrics.count] +=
      fault_code_of(slot.priority);

  IoSlot& request = queue[slot.args[kIoSlotArg] % kMaxIoSlots];
  if (is_complete(request.status)) {
    const unsigned long long offset = request.offset();
    control[kControlFirstObservable] = static_cast<Word>(offset) ^ static_cast<Word>(offset >> 32);
  } else {
    request = IoSlot{IoOp::read, 1, 1, 0, 0, 0, IoStatus::published, 1};
  }

  const WorkItem item{slot.opcode, slot.args[0], slot.args[1], slot.args[2]};
  control[kControlPriorityFairness.first] = item.param;
}
