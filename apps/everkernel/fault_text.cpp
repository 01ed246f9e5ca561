// The text of a fault code, the same in every report.
#include "fault_text.hpp"

#include <fmt/format.h>

#include "everkernel/abi/fault.hpp"
#include "everkernel/ir/limits.hpp"
#include "numbers.hpp"

namespace everkernel::cli {

std::string fault_text(Word code) {
  if (code < abi::kFirstUserFault) return fmt::format("{} ({})", abi::fault_name(code), code);
  return fmt::format("handler fault {} ({})", code - abi::kFirstUserFault, code);
}

std::string fault_advice(Word code, FaultSource source) {
  const bool is_run = source == FaultSource::run;
  if (code >= abi::kFirstUserFault) {
    return fmt::format("the handler ran fault {}: check its condition in the source",
                       code - abi::kFirstUserFault);
  }
  switch (abi::FaultCode{code}) {
    case abi::FaultCode::unknown_opcode:
      return "no handler has this opcode: give a file that has one with --handlers";
    case abi::FaultCode::index_out_of_range:
      return is_run ? "an index is outside its buffer: make the buffer longer, or the loop shorter"
                    : "an index is outside its buffer: correct the operand, or give a longer "
                      "buffer (encode control --observable-slots, --buffer)";
    case abi::FaultCode::tenant_out_of_range:
      return "a tenant must be 0..28, and control word 2 must be 3";
    case abi::FaultCode::fuel_exhausted:
      return fmt::format("the loops of the handler took more than {} turns: {}",
                         grouped(ir::kDefaultFuel),
                         is_run ? "split the item" : "bound them, or yield");
    case abi::FaultCode::permission_denied:
      return is_run ? "the buffer belongs to another tenant: compare \"tenant\" of buffer and item"
                    : "tenants other than 0 may write control words from 160 up only; --buffer "
                      "HANDLE=FILE:rw lets handlers read and write a buffer";
    case abi::FaultCode::bad_packed_payload:
      return "the payload breaks the format: make it with publish --packed";
    case abi::FaultCode::bad_fence:
      return "the fence counts more slots than precede it";
    case abi::FaultCode::io_error:
      return is_run ? "this version has no IO service"
                    : "the IO request failed: inspect --io-queue shows its error";
    case abi::FaultCode::bad_buffer_handle:
      return is_run
                 ? "the item names no buffer, or buffer(h) a handle that no buffer of the job has"
                 : "no buffer has the handle: give one with --buffer HANDLE=FILE";
    case abi::FaultCode::deadline:
      return is_run ? "the item still ran at the time limit: raise --max-wall-time"
                    : "the item still ran at the deadline: raise --deadline";
    case abi::FaultCode::maybe_executed:
      return "the device was lost while the item ran: check whether its results are there";
    case abi::FaultCode::input_faulted:
      return is_run ? "not run, because an item it depends on is FAULT: fix that item first"
                    : "an item it depends on is FAULT: fix that item first";
    case abi::FaultCode::bad_entry:
      return "the entry changed while it was taken, or breaks the format: see its producer";
    case abi::FaultCode::none:
      break;
  }
  return "";
}

}  // namespace everkernel::cli
