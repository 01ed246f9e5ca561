// The error of a failed call: a code to act on, a message with the numbers, and the next step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace everkernel {

/// Why a call failed. Each code asks for another reaction of the caller.
enum class Code : std::uint8_t {
  invalid_argument,  ///< the call can never succeed with these arguments: change them
  queue_full,        ///< there is no free slot: wait until one is done
  device_lost,       ///< the device stopped working: recover, then try again
  unsupported,       ///< this build or machine cannot do it: use another option or backend
  timeout,           ///< the deadline passed; finished work is kept
  io,                ///< the operating system refused; `native` is the errno
  corrupt,           ///< input bytes break their format: read or make them again
  out_of_memory,     ///< an allocation failed: ask for less
};

/// The code in snake case.
std::string_view code_name(Code code);

/// A failure. `message` states the fact, `hint` the next step.
struct Error {
  Code code = Code::invalid_argument;  ///< for decisions of the caller
  std::string message = {};            ///< the fact, with its numbers
  std::string hint = {};               ///< the next step; may be empty
  std::int64_t native = 0;             ///< errno or driver code of the cause, 0 if there is none
};

}  // namespace everkernel
