// The text of a job file, read token by token: a million items take their 16 bytes each and never
// become a tree.
//
// Here every field has its type and range, is known, and is given once; what fields mean to each
// other is job.cpp's to check.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/item.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/memory/buffer_table.hpp"

namespace everkernel::cli {

using abi::Word;

/// A buffer as the job says it: exactly one of the three sources is there.
struct BufferText {
  Word handle = 0;
  Word owner = memory::kEveryTenant;
  std::optional<std::vector<Word>> words = {};  ///< `u32`
  std::optional<Word> zeros = {};               ///< length
  std::optional<std::string> file = {};         ///< path
};

/// A job as its file says it.
struct JobText {
  std::optional<std::string> handlers = {};    ///< path
  std::vector<BufferText> buffers = {};        ///< in order
  std::size_t file_count = 0;                  ///< entries of `files`
  bool has_items = false;                      ///< whether `items` is there
  std::vector<abi::WorkItem> items = {};       ///< in order
  std::vector<backend::Origin> origins = {};   ///< one an item, or empty: all are the default
  std::optional<std::string> items_file = {};  ///< path
  bool ordered = true;
  std::vector<Word> outputs = {};  ///< handles
};

/// The error of a place in a job: `JOB.json: items[17].op: message`.
Failure job_error(const std::string& path, const std::string& place, const std::string& message,
                  std::string hint);

/// Reads a job file. Fails with `invalid_argument` at the first mistake, whose place it names, and
/// with `io`.
Result<JobText> parse_job(const std::string& path);

}  // namespace everkernel::cli
