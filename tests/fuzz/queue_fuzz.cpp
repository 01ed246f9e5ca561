// Any bytes as the producer file, the header and the tail of a queue: the kernel side gives a value
// or nothing, and what it accepts can be encoded again to the same bytes.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "everkernel/protocol/queue.hpp"
#include "fuzz.hpp"

namespace everkernel::fuzz {
namespace {

using abi::EntryFormat;
using abi::Word;
using protocol::LongWord;

void check_entry(std::span<const std::byte> bytes, EntryFormat format, Word lap) {
  const auto slot = protocol::decode_entry(bytes, format, lap);
  if (!slot) return;
  EVERKERNEL_ASSERT(slot->status == abi::SlotStatus::published);
  std::vector<std::byte> again(bytes.size());
  const std::size_t count = format == EntryFormat::compact ? 3 : abi::kSlotArgs;
  protocol::encode_entry({.opcode = slot->opcode, .args = std::span(slot->args).first(count)},
                         {.tenant = slot->tenant, .priority = slot->priority}, format, lap, again);
  EVERKERNEL_ASSERT(std::ranges::equal(again, bytes));
}

void check_entries(std::span<const std::byte> bytes) {
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    const auto size = static_cast<std::size_t>(format);
    for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
      for (const Word lap : {0u, 1u}) check_entry(bytes.subspan(at, size), format, lap);
    }
  }
}

// The bytes as a whole producer file of 4 entries, looked at with any tickets.
void check_file(std::span<const std::byte> bytes) {
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes = {};
  };
  for (const EntryFormat format : {EntryFormat::compact, EntryFormat::full}) {
    const abi::QueueHeader header = abi::queue_header(format, 4, false, 0);
    std::vector<Line> file(header.producer_bytes / 64 + 1), kernel_file(header.kernel_bytes / 64);
    std::memcpy(file.data(), bytes.data(), std::min<std::size_t>(bytes.size(), file.size() * 64));
    const protocol::QueueKernel kernel(header, file[0].bytes.data(), kernel_file[0].bytes.data());
    for (const LongWord first : {LongWord{0}, kernel.tail()}) {
      for (LongWord ticket = first; ticket < first + 8; ++ticket) {
        const auto opcode = kernel.peek(ticket);
        const auto slot = kernel.copy_slot(ticket);
        if (slot) EVERKERNEL_ASSERT(opcode && *opcode == slot->opcode);
        EVERKERNEL_ASSERT(kernel.count_equal(ticket, 8) <= (opcode ? 4 : 0));
        EVERKERNEL_ASSERT(!kernel.has_ended(ticket) || kernel.lap_bit(ticket) == 0);
      }
    }
    for (LongWord ticket = 0; ticket < 8; ++ticket) {
      if (kernel.end_nops(ticket, 1) == 0) continue;
      const auto slot = kernel.copy_slot(ticket);
      EVERKERNEL_ASSERT(slot && slot->opcode == 0 && kernel.has_ended(ticket));
    }
    static_cast<void>(kernel.is_waiting());
  }
}

void check_header(std::span<const std::byte> bytes) {
  std::vector<std::byte> file(std::max<std::size_t>(bytes.size(), 4096));
  std::ranges::copy(bytes, file.begin());
  const auto header = protocol::read_queue_header(file, 4096);
  if (!header) return check_refused(header);
  EVERKERNEL_ASSERT(header->kernel_bytes <= file.size() && header->producer_bytes <= 4096);
  EVERKERNEL_ASSERT(abi::is_queue_capacity(header->capacity));
}

}  // namespace
}  // namespace everkernel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  everkernel::fuzz::check_entries(bytes);
  everkernel::fuzz::check_file(bytes);
  everkernel::fuzz::check_header(bytes);
  return 0;
}
