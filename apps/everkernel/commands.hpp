// The commands of the program. Each lives in a file of its name, with its options and its work.
#pragma once

#include "command.hpp"

namespace everkernel::cli {

/// `bench`: runs the benchmarks.
Command bench_command();
/// `check`: verifies handlers.
Command check_command();
/// `dispatch`: drains a ring file once.
Command dispatch_command();
/// `encode`: makes fresh buffers.
Command encode_command();
/// `info`: shows the version, the wire format and the backends.
Command info_command();
/// `inspect`: decodes buffers.
Command inspect_command();
/// `publish`: puts work into a ring file.
Command publish_command();
/// `run`: runs a work queue from a job file.
Command run_command();

}  // namespace everkernel::cli
