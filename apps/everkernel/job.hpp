// A job: the items, buffers and handlers of `run`, from a JSON file and the files that it names.
//
// job_parser.hpp parses the text; read_job then reads the files that the job names and checks that
// everything fits together. An error names its place in the job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "everkernel/backend/item.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/memory/available.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "job_items.hpp"
#include "job_parser.hpp"

namespace everkernel::cli {

/// A buffer of a job.
struct JobBuffer {
  Word handle = 0;                                     ///< by which items name it
  Word owner = memory::kEveryTenant;                   ///< the tenant that may use it
  memory::Access access = memory::Access::read_write;  ///< of handlers
  std::size_t word_count = 0;                          ///< its length
  std::uint64_t byte_count = 0;  ///< its length; the last word may be padded with zeros
  std::vector<Word> words = {};  ///< its first content; empty means zeros
};

/// Slices of a buffer of a job, side by side. They have its tenant and its access.
struct JobSlices {
  Word entry = 0;                ///< its index in `buffers`
  Word handle = 0;               ///< of the first; the others follow
  Word count = 1;                ///< how many
  Word buffer = 0;               ///< handle of the buffer
  std::uint64_t first_word = 0;  ///< of the buffer, where the first begins
  std::uint64_t word_count = 0;  ///< of each
};

/// A job that can run.
struct Job {
  std::string path = {};  ///< of its file; `standard input` if it came from there
  std::optional<ir::VerifiedProgram> handlers = {};  ///< of its opcodes
  std::vector<JobBuffer> buffers = {};               ///< each handle once
  std::vector<JobSlices> slices = {};                ///< of these buffers; other handles
  JobItems items = {};                               ///< of `items`, then of `items_file`
  std::vector<backend::Origin> origins = {};  ///< one for each item; empty if all are the default
  bool ordered = true;                        ///< whether items keep their order
  std::vector<OutputText> outputs = {};       ///< buffers to report and write
};

/// Limits of what a job may name.
struct JobLimits {
  memory::Available memory = {};     ///< for all buffers together
  std::uint64_t handlers_bytes = 0;  ///< of the file of handlers
};

/// The folder that paths in a job are relative to; empty for the working directory.
std::string folder_of(const Job& job);

/// Reads a job and the files that it names, and checks all of it; `-` is standard input. Fails with
/// `invalid_argument`, `io` or `corrupt`; the message names the place: `JOB.json: items[17].op: …`.
/// Fails if something exceeds the limits.
Result<Job> read_job(const std::string& path, const JobLimits& limits);

}  // namespace everkernel::cli
