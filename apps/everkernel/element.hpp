// The types of the elements of a buffer, as jobs name them and .npy files describe them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace everkernel::cli {

/// The type of the elements in a list of a job, or in a file of elements.
enum class Element : std::uint8_t { u32, i32, f32, u8 };

/// A row of the table of types.
struct ElementInfo {
  std::string_view name;   ///< in jobs
  std::string_view descr;  ///< in the header of a .npy file
  std::size_t bytes;       ///< of one element
};

/// The types, in the order of Element.
inline constexpr std::array<ElementInfo, 4> kElements = {
    ElementInfo{"u32", "<u4", 4}, {"i32", "<i4", 4}, {"f32", "<f4", 4}, {"u8", "|u1", 1}};

/// The row of a type.
constexpr const ElementInfo& info_of(Element element) {
  return kElements[static_cast<std::size_t>(element)];
}

}  // namespace everkernel::cli
