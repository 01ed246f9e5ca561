// What a failed call says: a code to act on, a sentence with the numbers, and the next step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace everkernel {

/// Why a call failed, cut by what the caller does next.
enum class Code : std::uint8_t {
  invalid_argument,  ///< the call can never succeed as it stands: change it
  queue_full,        ///< no room now: wait, or drain
  device_lost,       ///< the device is gone: recover, then try again
  unsupported,       ///< this build or machine cannot: choose another way
  timeout,           ///< the deadline passed: what was done is kept
  io,                ///< the operating system refused; `native` is the errno
  corrupt,           ///< bytes from outside break their format: get them anew
  out_of_memory,     ///< an allocation failed: ask for less
};

/// The code in snake case.
std::string_view code_name(Code code);

/// A failure. `message` states the fact, `hint` what to do about it.
struct Error {
  Code code = Code::invalid_argument;  ///< what the caller decides by
  std::string message = {};            ///< the fact, with its numbers
  std::string hint = {};               ///< the next step; may be empty
  std::int64_t native = 0;             ///< errno or driver code behind it, 0 if there is none
};

}  // namespace everkernel
