// The four shared buffers by name, and the length rules they have in common.
//
// Every error of this module begins with a buffer's name, so that a reader knows which bytes are
// meant.
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

/// Fails with `corrupt` unless `size_bytes` is a whole number of `unit_bytes`; gives their number.
Result<std::size_t> whole_units(Buffer buffer, std::size_t size_bytes, std::size_t unit_bytes);

/// Fails with `invalid_argument` unless an encoder's target has just the length its layout asks
/// for.
Result<void> check_target(Buffer buffer, std::size_t target_bytes, std::size_t needed_bytes);

}  // namespace everkernel::protocol
