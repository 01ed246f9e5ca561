// Parses the text of a job file token by token, without a tree: an item takes 16 bytes of memory.
//
// The parser checks that every field is known, given once, and has the right type and range.
// job.cpp checks that the fields fit together.
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

/// A buffer of the job file. It has exactly one of the three sources of words.
struct BufferText {
  Word handle = 0;
  Word owner = memory::kEveryTenant;
  std::optional<std::vector<Word>> words = {};  ///< `u32`
  std::optional<Word> zeros = {};               ///< length
  std::optional<std::string> file = {};         ///< path
};

/// The content of a job file.
struct JobText {
  std::optional<std::string> handlers = {};    ///< path
  std::vector<BufferText> buffers = {};        ///< in order
  std::size_t file_count = 0;                  ///< entries of `files`
  bool has_items = false;                      ///< whether the job has `items`
  std::vector<abi::WorkItem> items = {};       ///< in order
  std::vector<backend::Origin> origins = {};   ///< one for each item; empty if all are the default
  std::optional<std::string> items_file = {};  ///< path
  bool ordered = true;
  std::vector<Word> outputs = {};  ///< handles
};

/// The error of a place in a job: `JOB.json: items[17].op: message`.
Failure job_error(const std::string& path, const std::string& place, const std::string& message,
                  std::string hint);

/// Reads a job file. Fails with `invalid_argument` and the place of the first mistake, or with
/// `io`.
Result<JobText> parse_job(const std::string& path);

}  // namespace everkernel::cli
