// Why an item ended as FAULT: the code in bits 31..16 of its slot's priority word.
#pragma once

#include "everkernel/abi/platform.hpp"

namespace everkernel::abi {

/// Fault codes of the system. Codes from kFirstUserFault up are a handler's own.
enum class FaultCode : Word {
  none = 0,                 ///< the slot is not FAULT
  unknown_opcode = 1,       ///< no handler has this opcode
  index_out_of_range = 2,   ///< an index outside its buffer; nothing was written
  tenant_out_of_range = 3,  ///< the tenant's mask lies outside the table
  fuel_exhausted = 4,       ///< the handler took more turns than it was given
  permission_denied = 5,    ///< a word or buffer this tenant may not touch
  bad_packed_payload = 6,   ///< a packed slot that breaks its rules
  bad_fence = 7,            ///< a fence that reaches before slot 0
  io_error = 8,             ///< its IO request failed
  bad_buffer_handle = 9,    ///< a handle that names no buffer
  deadline = 10,            ///< aborted at a deadline
  maybe_executed = 11,      ///< the device was lost while it ran, and it is not pure
  input_faulted = 12,       ///< an item it depends on is FAULT
};

/// First code a handler raises with `fault n`: the slot then holds kFirstUserFault + n.
inline constexpr Word kFirstUserFault = 256;
/// Highest n of `fault n`.
inline constexpr Word kMaxUserFault = 65279;
static_assert(kFirstUserFault + kMaxUserFault == 0xFFFFu);

/// The code in snake case, `user` from kFirstUserFault up, `unknown` for any other value.
EVERKERNEL_HOST_DEVICE constexpr const char* fault_name(Word code) {
  if (code >= kFirstUserFault && code <= 0xFFFFu) return "user";
  switch (FaultCode{code}) {
    case FaultCode::none:
      return "none";
    case FaultCode::unknown_opcode:
      return "unknown_opcode";
    case FaultCode::index_out_of_range:
      return "index_out_of_range";
    case FaultCode::tenant_out_of_range:
      return "tenant_out_of_range";
    case FaultCode::fuel_exhausted:
      return "fuel_exhausted";
    case FaultCode::permission_denied:
      return "permission_denied";
    case FaultCode::bad_packed_payload:
      return "bad_packed_payload";
    case FaultCode::bad_fence:
      return "bad_fence";
    case FaultCode::io_error:
      return "io_error";
    case FaultCode::bad_buffer_handle:
      return "bad_buffer_handle";
    case FaultCode::deadline:
      return "deadline";
    case FaultCode::maybe_executed:
      return "maybe_executed";
    case FaultCode::input_faulted:
      return "input_faulted";
  }
  return "unknown";
}

}  // namespace everkernel::abi
