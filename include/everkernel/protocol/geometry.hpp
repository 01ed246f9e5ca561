// How many slots there are and how many workers serve them at one time.
#pragma once

#include "everkernel/abi/slot.hpp"
#include "everkernel/protocol/buffer.hpp"

namespace everkernel::protocol {

/// The shape a megakernel is compiled for.
struct Geometry {
  Word slot_count = abi::kDefaultSlotCount;          ///< slots of the ring
  Word workgroup_size = abi::kDefaultWorkgroupSize;  ///< workers in a group
};

/// Groups that cover every slot once. Fails with `invalid_argument` unless the slot count is a
/// positive multiple of the workgroup size.
Result<Word> worker_groups_for_geometry(const Geometry& geometry);

}  // namespace everkernel::protocol
