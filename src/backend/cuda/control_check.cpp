// Says which control words are wrong, from the words that the launch has read.
#include "backend/cuda/control_check.hpp"

#include "backend/schedule_words.hpp"

namespace everkernel::backend::cuda {

Result<void> check_control_words(const device::LaunchResult& result, Schedule schedule,
                                 Word slot_count) {
  if (result.is_refused == 0) return {};
  if (schedule == Schedule::priority) return check_priority_offsets(result.words, slot_count);
  return check_tickets(result.words[0], result.words[1], slot_count);
}

}  // namespace everkernel::backend::cuda
