// The content of a ring slot as text and, if the buffers show it, why the slot does not complete.
#pragma once

#include <optional>
#include <string>

#include "everkernel/abi/slot.hpp"
#include "everkernel/protocol/control.hpp"

namespace everkernel::cli {

using abi::Word;

/// The operands of a slot up to the last one that is used; for a packed slot its operations.
std::string args_text(const abi::Slot& slot);

/// The reason that keeps a slot from completing, or empty. Call explain() for every slot of the
/// ring, in order: a fence is explained by the slots before it.
class SlotExplainer {
 public:
  /// `control` may be null; it must outlive the explainer.
  explicit SlotExplainer(const protocol::ControlView* control) : control_(control) {}

  /// Why the next slot of the ring cannot complete; empty if it can.
  std::string explain(const abi::Slot& slot);

 private:
  std::string reason(const abi::Slot& slot) const;
  std::string claimable_reason(const abi::Slot& slot) const;
  std::string fence_reason(const abi::Slot& slot) const;

  const protocol::ControlView* control_;
  Word slot_index_ = 0;                       // of the next slot
  std::optional<Word> last_unfinished_ = {};  // slot before it that has not ended
};

}  // namespace everkernel::cli
