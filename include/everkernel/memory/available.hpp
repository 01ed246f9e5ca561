// How much memory the process may still use, so that a request that is too large becomes an error
// before it is made: Linux grants memory that it does not have and kills the process later.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "everkernel/base/result.hpp"

namespace everkernel::memory {

/// Requests below this are not checked: the check reads several files of the kernel.
inline constexpr std::uint64_t kCheckedBytes = std::uint64_t{16} << 20;

/// Memory that this process may still use.
struct Available {
  std::uint64_t bytes = 0;      ///< how much
  std::string limited_by = {};  ///< what limits it, for an error message
};

/// The smallest of: the memory that the machine has free or can free, the limits of the control
/// groups (version 1 and 2) of this process less what they use, RLIMIT_AS, and the limit of
/// set_limit(). A few megabytes are left out for everything that is not checked.
Available available();

/// Fails with `out_of_memory` if `bytes` are more than available; `what` names what needs them.
/// Requests below kCheckedBytes always succeed.
Result<void> check_available(std::uint64_t bytes, std::string_view what);

/// Limits the memory of this process to `bytes`, in place of what available() would find; 0 removes
/// the limit.
void set_limit(std::uint64_t bytes);

}  // namespace everkernel::memory
