// Says in words what one ring slot holds and, where the buffers show it, why it does not move on.
#pragma once

#include <optional>
#include <string>

#include "everkernel/abi/slot.hpp"
#include "everkernel/protocol/control.hpp"

namespace everkernel::cli {

using abi::Word;

/// The operands of a slot, as far as they matter; of a packed slot its operations.
std::string args_text(const abi::Slot& slot);

/// The reason that keeps a slot from completing, or empty. Call explain() for every slot of the
/// ring, in order: a fence is explained by the slots before it.
class SlotExplainer {
 public:
  /// `control` is null when it was not given; it must outlive the explainer.
  explicit SlotExplainer(const protocol::ControlView* control) : control_(control) {}

  /// Why this slot, the next one, is stuck.
  std::string explain(const abi::Slot& slot);

 private:
  std::string reason(const abi::Slot& slot) const;
  std::string claimable_reason(const abi::Slot& slot) const;
  std::string fence_reason(const abi::Slot& slot) const;

  const protocol::ControlView* control_;
  Word slot_index_ = 0;                       // of the slot at hand
  std::optional<Word> last_unfinished_ = {};  // before it
};

}  // namespace everkernel::cli
