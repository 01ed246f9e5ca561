// The version of the library.
#pragma once

#include <string_view>

namespace everkernel {

/// The version of the library that was linked, as `major.minor.patch`.
std::string_view version();

}  // namespace everkernel
