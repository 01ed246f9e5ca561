// Buffers of a job: from lists, files, parts of files and .npy files; and slices of them.
#include "job_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <unordered_map>
#include <utility>

#include "files.hpp"
#include "job_format.hpp"
#include "npy.hpp"
#include "numbers.hpp"

namespace everkernel::cli {
namespace {

std::string place_of(const BufferText& buffer) {
  return fmt::format("buffers[{}].{}", buffer.entry, kBufferFields[buffer.source_field].name);
}

std::uint64_t words_of(std::uint64_t bytes) {
  return bytes / sizeof(Word) + (bytes % sizeof(Word) == 0 ? 0 : 1);
}

bool has_part(const BufferText& buffer) {
  return buffer.offset != 0 || buffer.length != kToTheEnd;
}

// Words of a buffer, as far as they can be told without reading its file.
std::uint64_t length_of(const Job& job, const BufferText& buffer) {
  if (buffer.source == Source::zeros) return buffer.zeros;
  if (buffer.source == Source::data) return buffer.words.size();
  std::error_code ignored;  // reading the file later reports the error
  const auto bytes = std::filesystem::file_size(beside(job, buffer.file), ignored);
  if (ignored) return 0;
  return words_of(std::min(bytes - std::min<std::uint64_t>(bytes, buffer.offset), buffer.length));
}

// --- files ---------------------------------------------------------------------------------------

Failure ends_early(const InputFile& file, std::uint64_t size, const BufferText& part) {
  const bool is_behind = size < part.offset;
  return fail(Code::corrupt,
              fmt::format("{} has {}, but the part {} at {}", in_quotes(file.path()),
                          counted(size, "byte"), is_behind ? "begins" : "ends",
                          grouped(is_behind ? part.offset : part.offset + part.length)),
              "offset and length count bytes of the file");
}

// The bytes of a file, or of a part of it.
Result<void> read_raw(InputFile& file, const BufferText& part, JobBuffer& buffer) {
  if (part.length != kToTheEnd && part.length > kMaxOffset - part.offset) {
    return fail(Code::invalid_argument, "offset and length together are too large",
                "offset and length count bytes of the file");
  }
  std::uint64_t wanted = part.length;
  if (const auto size = file.size_bytes(); size && has_part(part)) {
    const std::uint64_t left = *size - std::min(*size, part.offset);
    const bool is_behind = *size < part.offset || (wanted != kToTheEnd && wanted > left);
    if (is_behind) return ends_early(file, *size, part);
    wanted = std::min(wanted, left);
  }
  EVERKERNEL_TRY(file.skip(part.offset));
  buffer.byte_count = EVERKERNEL_TRY(read_padded(file, wanted, buffer.words));
  if (part.length != kToTheEnd && buffer.byte_count < part.length) {
    return ends_early(file, part.offset + buffer.byte_count, part);
  }
  return {};
}

Result<std::size_t> read_bytes(InputFile& file, std::span<std::byte> target) {
  std::size_t size = 0;
  while (size < target.size()) {
    const std::size_t count = EVERKERNEL_TRY(file.read(target.subspan(size)));
    if (count == 0) break;
    size += count;
  }
  return size;
}

Result<NpyHeader> read_npy_header(InputFile& file) {
  std::vector<std::byte> bytes(kNpyPrefixBytes);
  const auto all = std::span(bytes);
  const std::size_t prefix = EVERKERNEL_TRY(read_bytes(file, all));
  const std::size_t length = EVERKERNEL_TRY(npy_header_bytes(all.first(prefix)));
  bytes.resize(length);
  const std::size_t rest =
      EVERKERNEL_TRY(read_bytes(file, std::span(bytes).subspan(kNpyPrefixBytes)));
  bytes.resize(kNpyPrefixBytes + rest);
  return parse_npy_header(bytes);
}

// The elements of a .npy file. Its header must tell their number truly.
Result<void> read_npy(InputFile& file, const BufferText& part, JobBuffer& buffer) {
  if (has_part(part)) {
    return fail(Code::invalid_argument, "offset and length are for files without a header",
                "take a part of an array with slice_of");
  }
  const auto header = read_npy_header(file);
  if (!header) {
    Error error = header.error();
    error.message = fmt::format("{}: {}", in_quotes(file.path()), error.message);
    return Failure(std::move(error));
  }
  const std::uint64_t wanted = header->data_bytes();
  if (!file.size_bytes() || *file.size_bytes() >= wanted) {
    buffer.byte_count = EVERKERNEL_TRY(read_padded(file, wanted, buffer.words));
    std::array<std::byte, 1> behind;
    const std::size_t more = EVERKERNEL_TRY(read_bytes(file, behind));
    if (buffer.byte_count == wanted && more == 0) return {};
  }
  const std::string found =
      buffer.byte_count == wanted ? "the file goes on behind them" : "the file ends before them";
  return fail(Code::corrupt,
              fmt::format("{}: its header promises {} of elements, but {}", in_quotes(file.path()),
                          counted(wanted, "byte"), found),
              "a .npy file holds one array: save it again");
}

Result<void> read_file_of(const BufferText& text, const Job& job, JobBuffer& buffer) {
  InputFile file = EVERKERNEL_TRY(InputFile::open(beside(job, text.file)));
  const auto read =
      text.file.ends_with(".npy") ? read_npy(file, text, buffer) : read_raw(file, text, buffer);
  if (!read) return read;
  buffer.words.shrink_to_fit();
  return {};
}

}  // namespace

std::string beside(const Job& job, const std::string& path) {
  return std::filesystem::path(folder_of(job)) / path;
}

Failure at_place(const Job& job, std::string_view place, Error error) {
  error.message = fmt::format("{}: {}: {}", job.path, place, error.message);
  if (error.hint.empty()) error.hint = "paths in a job are relative to its file";
  return Failure(std::move(error));
}

// --- handles -------------------------------------------------------------------------------------

namespace {

Failure taken(const Job& job, std::size_t entry, const std::string& what) {
  return job_error(job.path, fmt::format("buffers[{}].handle", entry), what,
                   "give every buffer its own handle");
}

Result<void> check_outputs(const Job& job, const HandleTable& handles) {
  HandleTable named(job.outputs.size());
  for (std::size_t i = 0; i < job.outputs.size(); ++i) {
    const Word handle = job.outputs[i].handle;
    const std::string place = fmt::format("outputs[{}]", i);
    if (!handles.contains(handle)) {
      return job_error(job.path, place, fmt::format("no buffer has handle {}", handle),
                       "\"buffers\" lists every buffer with its handle");
    }
    if (!named.insert(handle)) {
      return job_error(job.path, place, fmt::format("handle {} is named twice", handle),
                       "name it once");
    }
  }
  return {};
}

}  // namespace

Result<void> check_handles(const JobText& text, const Job& job, HandleTable& handles) {
  const auto add = [&](const auto& entry, bool is_read_only) -> Result<void> {
    if (handles.insert(entry.handle, is_read_only)) return {};
    return taken(job, entry.entry, fmt::format("another buffer has handle {}", entry.handle));
  };
  for (const BufferText& buffer : text.buffers) {
    EVERKERNEL_TRY(add(buffer, buffer.access == memory::Access::read));
  }
  for (const SliceText& slice : text.slices) {
    const bool is_read_only = handles.find(slice.slice_of) == Named::read_only;
    if (slice.count == 1) {
      EVERKERNEL_TRY(add(slice, is_read_only));
    } else {
      handles.add_family(slice.handle, slice.handle + slice.count - 1, is_read_only, slice.entry);
    }
  }
  if (const auto collision = handles.seal()) {
    return taken(job, collision->entry,
                 fmt::format("another buffer has handle {}, which is one of this family",
                             collision->handle));
  }
  return check_outputs(job, handles);
}

Result<void> check_total(const JobText& text, const Job& job, const memory::Available& memory) {
  std::uint64_t total = 0;
  for (const BufferText& buffer : text.buffers) {
    const std::uint64_t words = length_of(job, buffer);
    if (words > memory::kMaxBufferWords) {
      return job_error(job.path, place_of(buffer),
                       fmt::format("{} are too many for a buffer", counted(words, "word")),
                       fmt::format("a buffer has at most {}", grouped(memory::kMaxBufferWords)));
    }
    total += words * sizeof(Word);
    if (total > memory.bytes) {
      return job_error(
          job.path, place_of(buffer),
          fmt::format("with this one the buffers take {}, but {} are available because of {}",
                      counted(total, "byte"), grouped(memory.bytes), memory.limited_by),
          "use smaller or fewer buffers, or give --memory-limit SIZE if there is more");
    }
  }
  return {};
}

Result<void> read_buffers(JobText& text, Job& job) {
  for (BufferText& given : text.buffers) {
    JobBuffer buffer{.handle = given.handle, .owner = given.owner, .access = given.access};
    if (given.source == Source::file) {
      const auto read = read_file_of(given, job, buffer);
      if (!read) return at_place(job, place_of(given), read.error());
    } else {
      buffer.words = std::move(given.words);
      buffer.byte_count = given.byte_count;
    }
    if (given.source == Source::zeros) buffer.byte_count = std::uint64_t{given.zeros} * 4;
    buffer.word_count = words_of(buffer.byte_count);
    job.buffers.push_back(std::move(buffer));
  }
  return {};
}

Result<void> read_slices(const JobText& text, Job& job) {
  if (text.slices.empty()) return {};
  std::unordered_map<Word, std::uint64_t> lengths;  // in whole words
  for (const JobBuffer& buffer : job.buffers) {
    lengths.emplace(buffer.handle, buffer.byte_count / sizeof(Word));
  }
  for (const SliceText& slice : text.slices) {
    const std::string place = fmt::format("buffers[{}]", slice.entry);
    const auto found = lengths.find(slice.slice_of);
    if (found == lengths.end()) {
      const bool is_slice = std::ranges::any_of(text.slices, [&](const SliceText& other) {
        return slice.slice_of - other.handle < other.count;
      });
      return job_error(job.path, place + ".slice_of",
                       is_slice ? fmt::format("handle {} is a slice itself", slice.slice_of)
                                : fmt::format("no buffer has handle {}", slice.slice_of),
                       is_slice ? "name the buffer that it is a slice of, and add the offsets"
                                : "\"buffers\" lists every buffer with its handle");
    }
    // Compared by division: count × length may not fit 64 bits.
    const std::uint64_t left = found->second - std::min(found->second, slice.offset);
    if (slice.offset > found->second || slice.length > left / slice.count) {
      return job_error(
          job.path, place + ".length",
          fmt::format("{} of {} from word {} on hang over the end of buffer {}, which has {}",
                      counted(slice.count, "slice"), counted(slice.length, "word"),
                      grouped(slice.offset), slice.slice_of, counted(found->second, "word")),
          "slices count whole words of 4 bytes, whatever the type of the buffer");
    }
    job.slices.push_back({.entry = slice.entry,
                          .handle = slice.handle,
                          .count = slice.count,
                          .buffer = slice.slice_of,
                          .first_word = slice.offset,
                          .word_count = slice.length});
  }
  return {};
}

}  // namespace everkernel::cli
