// A job: the items, buffers and handlers of `run`, from a JSON file and the files that it names.
//
// job_parser.hpp parses the text; read_job then reads the files that the job names and checks that
// everything fits together. An error names its place in the job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/item.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/memory/available.hpp"
#include "everkernel/memory/buffer_table.hpp"

namespace everkernel::cli {

using abi::Word;

/// A buffer of a job.
struct JobBuffer {
  Word handle = 0;                    ///< by which items name it
  Word owner = memory::kEveryTenant;  ///< the tenant that may use it
  std::size_t word_count = 0;         ///< its length
  std::vector<Word> words = {};       ///< its first content; empty means zeros
};

/// A job that can run.
struct Job {
  std::string path = {};                             ///< of its file
  std::optional<ir::VerifiedProgram> handlers = {};  ///< of its opcodes
  std::vector<JobBuffer> buffers = {};               ///< each handle once
  std::vector<abi::WorkItem> items = {};             ///< of `items`, then of `items_file`
  std::vector<backend::Origin> origins = {};  ///< one for each item; empty if all are the default
  bool ordered = true;                        ///< whether items keep their order
  std::vector<Word> outputs = {};             ///< handles of the buffers to report
};

/// Limits of what a job may name.
struct JobLimits {
  memory::Available memory = {};     ///< for all buffers together
  std::uint64_t handlers_bytes = 0;  ///< of the file of handlers
};

/// Reads a job and the files that it names, and checks all of it. Fails with `invalid_argument`,
/// `io` or `corrupt`; the message names the place: `JOB.json: items[17].op: …`. Fails if
/// something exceeds the limits.
Result<Job> read_job(const std::string& path, const JobLimits& limits);

}  // namespace everkernel::cli
