// Why an item ended as FAULT: the code in bits 31..16 of its slot's priority word.
#pragma once

#include "everkernel/abi/platform.hpp"

namespace everkernel::abi {

/// Fault codes of the runtime. Handlers raise codes from kFirstUserFault up.
enum class FaultCode : Word {
  none = 0,                 ///< the slot is not FAULT
  unknown_opcode = 1,       ///< no handler has this opcode
  index_out_of_range = 2,   ///< an index outside its buffer; nothing was written
  tenant_out_of_range = 3,  ///< the tenant's mask lies outside the table
  fuel_exhausted = 4,       ///< the loops of the handler took more turns than its fuel allows
  permission_denied = 5,    ///< a control word or buffer that the tenant may not access
  bad_packed_payload = 6,   ///< the arguments of a packed slot break the format
  bad_fence = 7,            ///< a fence counts more slots than precede it
  io_error = 8,             ///< the IO request of the item failed
  bad_buffer_handle = 9,    ///< no buffer has the handle
  deadline = 10,            ///< the item still ran at the deadline and was aborted
  maybe_executed = 11,      ///< the device was lost while the item ran, and it is not pure
  input_faulted = 12,       ///< an item that this one depends on is FAULT
  bad_entry = 13,           ///< the queue entry changed while it was taken, or breaks the format
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
    case FaultCode::bad_entry:
      return "bad_entry";
  }
  return "unknown";
}

}  // namespace everkernel::abi
