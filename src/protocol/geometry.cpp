#include "everkernel/protocol/geometry.hpp"

#include <fmt/format.h>

namespace everkernel::protocol {

Result<Word> worker_groups_for_geometry(const Geometry& geometry) {
  const auto [slots, size] = geometry;
  if (slots != 0 && size != 0 && slots % size == 0) return slots / size;
  return fail(Code::invalid_argument,
              fmt::format("ring: {} slots are not a positive multiple of the workgroup size {}",
                          slots, size),
              "choose a workgroup size that divides the slot count");
}

}  // namespace everkernel::protocol
