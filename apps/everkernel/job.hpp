// A job: the work queue that `run` takes, from a JSON file and the files it names.
//
// The text goes through job_parser.hpp, which knows the format; read_job then opens what the job
// names and checks that everything fits together. A mistake is an error that names its place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/item.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/memory/buffer_table.hpp"

namespace everkernel::cli {

using abi::Word;

/// A buffer of a job.
struct JobBuffer {
  Word handle = 0;                    ///< what items call it by
  Word owner = memory::kEveryTenant;  ///< the tenant that may use it
  std::size_t word_count = 0;         ///< its length
  std::vector<Word> words = {};       ///< what it begins with; empty means zeros
};

/// A job that can run.
struct Job {
  std::string path = {};                             ///< of its file
  std::optional<ir::VerifiedProgram> handlers = {};  ///< what its opcodes run
  std::vector<JobBuffer> buffers = {};               ///< each handle once
  std::vector<abi::WorkItem> items = {};             ///< of `items`, then of `items_file`
  std::vector<backend::Origin> origins = {};         ///< one an item, or empty: all are the default
  bool ordered = true;                               ///< whether items keep their order
  std::vector<Word> outputs = {};                    ///< handles whose words are asked for
};

/// Reads a job and everything it names, and checks it whole. Fails with `invalid_argument`, `io` or
/// `corrupt`, and then the message names the place: `JOB.json: items[17].op: …`. Buffers of more
/// than `memory_bytes` in all are refused.
Result<Job> read_job(const std::string& path, std::uint64_t memory_bytes);

}  // namespace everkernel::cli
