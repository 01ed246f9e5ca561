// The four shared buffers by name, and the length rules they have in common.
//
// Every error of this module begins with the name of the buffer that it is about.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "everkernel/abi/platform.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::protocol {

using abi::Word;

/// The shared buffers, in the order a kernel takes them.
enum class Buffer {
  control,    ///< flags, counters, observables
  ring,       ///< work slots
  debug_log,  ///< PRINTF records
  io_queue,   ///< IO requests
};

/// The buffer's name in snake case.
std::string_view buffer_name(Buffer buffer);

/// The number of units of `unit_bytes` in `size_bytes`. Fails with `corrupt` if bytes are left
/// over.
Result<std::size_t> whole_units(Buffer buffer, std::size_t size_bytes, std::size_t unit_bytes);

/// Fails with `invalid_argument` unless the target of an encoder has exactly `needed_bytes`.
Result<void> check_target(Buffer buffer, std::size_t target_bytes, std::size_t needed_bytes);

}  // namespace everkernel::protocol
