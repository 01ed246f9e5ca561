// One wording for every report.
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
    return fmt::format("the handler executed `fault {}`", code - abi::kFirstUserFault);
  }
  switch (abi::FaultCode{code}) {
    case abi::FaultCode::unknown_opcode:
      return "no handler has this opcode: --handlers names a file with one";
    case abi::FaultCode::index_out_of_range:
      return is_run ? "an index is outside its buffer: lengthen the buffer, or shorten the loop"
                    : "an index is outside its buffer: correct the operand, or give a longer "
                      "buffer (encode control --observable-slots, --buffer)";
    case abi::FaultCode::tenant_out_of_range:
      return "tenants are 0..28, and control word 2 is 3";
    case abi::FaultCode::fuel_exhausted:
      return fmt::format("its loops took more than {} turns: bound them, or yield in between",
                         grouped(ir::kDefaultFuel));
    case abi::FaultCode::permission_denied:
      return is_run ? "the buffer belongs to another tenant: compare \"tenant\" of buffer and item"
                    : "tenants other than 0 may write only control words from 160 up; "
                      "--buffer HANDLE=FILE:rw lets handlers read and write";
    case abi::FaultCode::bad_packed_payload:
      return "publish --packed makes payloads that keep the rules";
    case abi::FaultCode::bad_fence:
      return "the fence counts more slots than lie before it";
    case abi::FaultCode::io_error:
      return is_run ? "a run has no IO service" : "the IO queue shows the error of its request";
    case abi::FaultCode::bad_buffer_handle:
      return is_run ? "no buffer of the job has the handle of the item or of buffer(h)"
                    : "no buffer has this handle: --buffer HANDLE=FILE gives it one";
    case abi::FaultCode::deadline:
      return fmt::format("it still ran at the deadline: {} gives more time",
                         is_run ? "--max-wall-time" : "--deadline");
    case abi::FaultCode::maybe_executed:
      return "the device was lost while it ran: check whether its results are there";
    case abi::FaultCode::input_faulted:
      return "not run: an item it depends on is FAULT; fix that item first";
    case abi::FaultCode::none:
      break;
  }
  return "";
}

}  // namespace everkernel::cli
