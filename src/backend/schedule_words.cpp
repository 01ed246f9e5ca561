// One wording for every backend: which control words are wrong, and what they must be.
#include "backend/schedule_words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/abi/control.hpp"

namespace everkernel::backend {

using abi::Word;

Result<void> check_priority_offsets(std::span<const Word> offsets, Word slot_count) {
  const bool is_sound =
      offsets.front() == 0 && offsets.back() == slot_count && std::ranges::is_sorted(offsets);
  if (is_sound) return {};
  return fail(
      Code::corrupt,
      fmt::format("control: words {}..{} (priority offsets) are {}, they must rise from "
                  "0 to the {} slots of the ring",
                  abi::kControlPriorityOffsets.first, abi::kControlPriorityOffsets.end() - 1,
                  fmt::join(offsets, ", "), slot_count),
      "write them with set_priority_offsets, or leave them 0 for the default split");
}

Result<void> check_tickets(Word head, Word tail, Word slot_count) {
  const Word count = tail - head;
  if (count <= slot_count) return {};
  return fail(Code::corrupt,
              fmt::format("control: TICKET_TAIL (word {}) is {}, {} tickets behind TICKET_HEAD "
                          "{}; the ring has {} slots",
                          abi::kControlTicketTail.first, tail, count, head, slot_count),
              "leave both 0 to drain the whole ring");
}

}  // namespace everkernel::backend
