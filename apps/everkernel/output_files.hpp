// The files of a job's outputs: which there are, and their bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files.hpp"
#include "run_outcome.hpp"

namespace everkernel::cli {

/// Where the outputs of a job go.
struct OutputPlan {
  std::optional<std::string> folder = {};       ///< of every file; nothing if no file is written
  std::string archive = {};                     ///< name of the .npz file that has all outputs
  std::vector<std::string> names = {};          ///< of the file of each output; may be empty
  std::vector<std::uint64_t> byte_counts = {};  ///< of each output
};

/// Plans the files of a job. `target` is the value of --outputs: a folder, or a file FILE.npz.
/// Fails if two outputs have one file, or the outputs do not fit into an archive.
Result<OutputPlan> plan_outputs(const Job& job, const std::optional<std::string>& target);

/// Fails if one of the files could not be written.
Result<void> check_files(const OutputFolder& folder, const OutputPlan& plan);

/// Writes the outputs; a failure leaves the names of no files for the report.
Result<void> write_outputs(OutputFolder& folder, const OutputPlan& plan, RunOutcome& outcome);

}  // namespace everkernel::cli
