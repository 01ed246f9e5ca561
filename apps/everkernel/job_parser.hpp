// Parses the text of a job file token by token, without a tree: an item takes 16 bytes of memory.
//
// The parser checks that every field is known, given once, and has the right type and range.
// job.cpp checks that the fields fit together.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "element.hpp"
#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/item.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "job_items.hpp"

namespace everkernel::cli {

using abi::Word;

/// Where the words of a buffer come from.
enum class Source : std::uint8_t { none, data, zeros, file };

/// The length of a part of a file that has none: the part ends where the file does.
inline constexpr std::uint64_t kToTheEnd = std::numeric_limits<std::uint64_t>::max();

/// A buffer of the job file that has words of its own.
struct BufferText {
  Word entry = 0;  ///< its index in `buffers`
  Word handle = 0;
  Word owner = memory::kEveryTenant;
  memory::Access access = memory::Access::read_write;
  Source source = Source::none;
  std::uint8_t source_field = 0;     ///< BufferField of the source, for messages
  Word zeros = 0;                    ///< words of Source::zeros
  std::vector<Word> words = {};      ///< of Source::data: lists and base64
  std::uint64_t byte_count = 0;      ///< of `words`: the last one may be padded
  std::string file = {};             ///< path of Source::file
  std::uint64_t offset = 0;          ///< byte of the file at which the part begins
  std::uint64_t length = kToTheEnd;  ///< bytes of the part
};

/// A slice, or a family of slices, of another buffer of the job file.
struct SliceText {
  Word entry = 0;            ///< its index in `buffers`
  Word handle = 0;           ///< of the first
  Word slice_of = 0;         ///< handle of the buffer
  Word count = 1;            ///< slices, side by side
  std::uint64_t offset = 0;  ///< word at which the first begins
  std::uint64_t length = 0;  ///< words of each
};

/// An output of the job file.
struct OutputText {
  Word handle = 0;
  Element element = Element::u32;  ///< of a .npy file
  std::string file = {};           ///< name of its file; empty if the job names none
};

/// How a job writes an arg. Its word is the number's: unsigned, in two's complement, or as f32.
enum class ArgForm : std::uint8_t {
  unsigned_number,  ///< a whole number 0 … 2^32−1
  negative_number,  ///< a whole number −2^31 … −1
  real_number,      ///< any other number that fits an f32
};

/// The forms of the args of an item, two bits each.
using ArgForms = Word;

/// The form of an arg.
constexpr ArgForm form_of(ArgForms forms, std::size_t arg) {
  return static_cast<ArgForm>(forms >> 2 * arg & 3);
}

/// The content of a job file.
struct JobText {
  std::optional<std::string> handlers = {};  ///< path
  std::vector<BufferText> buffers = {};      ///< in order
  std::vector<SliceText> slices = {};        ///< in order
  std::size_t file_count = 0;                ///< entries of `files`
  bool has_items = false;                    ///< whether the job has `items`
  /// In order. An opcode with the reserved bit is an index into `names`.
  JobItems items = {};
  std::vector<std::string> names = {};  ///< of handlers that items name, each once
  /// For each item 1 + the number of its `args`, 0 if it has none; empty if no item has.
  std::vector<std::uint8_t> arg_counts = {};
  /// For each item the forms of its `args`; empty if all are unsigned numbers.
  std::vector<ArgForms> arg_forms = {};
  std::vector<backend::Origin> origins = {};   ///< one for each item; empty if all are the default
  std::optional<std::string> items_file = {};  ///< path
  bool ordered = true;
  std::vector<OutputText> outputs = {};  ///< in order
};

/// The path that stands for standard input.
inline constexpr const char* kStandardInput = "-";
/// How messages call it.
inline constexpr const char* kStandardInputName = "standard input";

/// The error of a place in a job: `JOB.json: items[17].op: message`.
Failure job_error(const std::string& path, const std::string& place, const std::string& message,
                  std::string hint);

/// Reads a job file, which messages call `name`. Fails with `invalid_argument` and the place of the
/// first mistake, or with `io`.
Result<JobText> parse_job(const std::string& path, const std::string& name);

}  // namespace everkernel::cli
