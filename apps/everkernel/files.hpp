// Files of the commands: read whole, replaced atomically, or changed in place; and standard output,
// whose errors are reported like those of files.
//
// Functions fail with `io` and the path in the message, unless their comment says otherwise.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::cli {

using Bytes = std::vector<std::byte>;

/// Opens closed descriptors among 0..2, so that no file gets the descriptor of standard output and
/// receives the report. Must be called before any file is opened.
void reserve_standard_streams();

/// Writes text to standard output. Fails when not all of it could be written.
Result<void> print(std::string_view text);
/// Writes text to standard error. A failure is ignored: the exit status still tells the result.
void say(std::string_view text);
/// Writes an error to standard error, as `error:` and `hint:`.
void say(const Error& error);

/// Fails with `invalid_argument` if `bytes` are more than this process may use; `what` names what
/// needs them.
Result<void> check_memory(std::uint64_t bytes, std::string_view what);

/// As check_memory, for the value of --hit-capacity.
Result<void> check_hit_capacity(abi::Word hits);

/// Most bytes of a file unless its kind has a limit of its own: no buffer is longer than the
/// largest ring.
inline constexpr std::size_t kMaxFileBytes = std::size_t{abi::kMaxRingSlots} * abi::kSlotBytes;

// Inputs are regular files or pipes. Before one is read, its length is compared with the limit of
// its kind and with the memory of the process. A device is refused; a pipe must have a writer
// within seconds, and the writer must write something every minute.

/// Reads a file to its end.
Result<Bytes> read_file(const std::string& path, std::size_t limit = kMaxFileBytes);

/// Reads a file of work items. Fails with `corrupt` when it is not whole items.
Result<std::vector<abi::WorkItem>> read_items(const std::string& path);
/// Appends the bytes of a file to `blocks`, the last one padded; gives the number of bytes.
Result<std::size_t> append_blocks(const std::string& path, std::vector<abi::WorkItem>& blocks);

/// Reads a file of words. Fails with `corrupt` when it is not whole words.
Result<std::vector<abi::Word>> read_words(const std::string& path);

class InputFile;

/// Reads the bytes of a file into words, at most `at_most` and no more than a buffer may have; the
/// last word is padded with zeros. Gives the number of bytes.
Result<std::uint64_t> read_padded(InputFile& file, std::uint64_t at_most,
                                  std::vector<abi::Word>& words);

/// A file or pipe that is read piece by piece. Move-only.
class InputFile {
 public:
  /// Opens it for reading, without waiting.
  static Result<InputFile> open(const std::string& path);
  /// Standard input: a file, a pipe or a socket.
  static Result<InputFile> standard_input();
  /// Takes over a descriptor of the file; one below 0 is the failure that errno names.
  static Result<InputFile> adopt(const std::string& path, int descriptor);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  /// Reads at most `target.size()` bytes; gives their number, 0 at the end of the file. Waits for
  /// the writer of a pipe, but not for ever.
  Result<std::size_t> read(std::span<std::byte> target);
  /// Goes on behind the next `bytes` bytes, or to the end of the file if they are more.
  Result<void> skip(std::uint64_t bytes);
  /// The length of a regular file, nothing for a pipe.
  std::optional<std::uint64_t> size_bytes() const { return size_bytes_; }
  /// As the user wrote it.
  const std::string& path() const { return path_; }

 private:
  InputFile(std::string path, int descriptor);
  Result<void> wait_for_data();

  std::string path_;
  int descriptor_;
  std::optional<std::uint64_t> size_bytes_ = {};
  bool has_writer_ = false;  // of a pipe: whether one was seen
  bool is_shared_ = false;   // with other processes: reading may wait, since O_NONBLOCK is theirs
};

/// The content of a file, in pieces that follow each other.
using Parts = std::vector<std::span<const std::byte>>;

/// Bytes that will become a file. A regular file is replaced atomically: until commit() the bytes
/// are in a temporary file in the same folder. A device or a pipe is written to directly.
class OutputFile {
 public:
  /// Writes the temporary file, so that commit() of a regular file only renames it.
  static Result<OutputFile> stage(const std::string& path, Parts parts);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Removes the temporary file if it was not committed.
  ~OutputFile();

  /// Whether commit() writes to a device or a pipe, which may fail in the middle.
  bool is_direct() const;
  /// Whether the bytes go to standard output; then no report may be printed there.
  bool is_standard_output() const;
  /// Puts the file in place.
  Result<void> commit();

 private:
  OutputFile() = default;

  std::string path_ = {};       // as the user wrote it, for errors
  std::string target_ = {};     // file that the temporary one replaces
  std::string temporary_ = {};  // empty when written directly, or committed
  int descriptor_ = -1;         // of a device or a pipe
  Parts direct_ = {};           // bytes to write there
};

/// A folder whose files are all staged first and then put in place together.
class OutputFolder {
 public:
  /// Creates the folder and its parents if they do not exist.
  static Result<OutputFolder> open(const std::string& path);

  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  /// Without a commit, removes the staged files and the folders that open() created.
  ~OutputFolder();

  /// Fails if stage() of this name could not replace what is there: a folder, a device, or a file
  /// without write permission; or if the name's own folder is not there. For a check before the
  /// work whose results are staged.
  Result<void> check(const std::string& name) const;
  /// `name`, or the first of `name-2`, `name-3` … (before its extension) that no file has; empty
  /// if a hundred files have them.
  std::string free_name(const std::string& name) const;
  /// Stages one file; gives its path.
  Result<std::string> stage(const std::string& name, Parts parts);
  /// Puts every staged file in place. If it fails, the files behind the one that failed are
  /// dropped.
  Result<void> commit();
  /// Files that commit() has put in place so far.
  std::size_t committed() const { return committed_; }
  /// As the user wrote it.
  const std::string& path() const { return path_; }

 private:
  explicit OutputFolder(std::string path) : path_(std::move(path)) {}
  std::string path_of(const std::string& name) const;

  std::string path_;                    // as the user wrote it
  std::vector<std::string> made_ = {};  // folders that were not there, outermost first
  std::vector<OutputFile> files_ = {};  // staged
  std::size_t committed_ = 0;
};

/// A regular file that is changed in place under an exclusive lock.
class InPlaceFile {
 public:
  /// Opens the file for reading and writing and waits for its lock, at most `lock_timeout`.
  static Result<InPlaceFile> open(const std::string& path, std::chrono::nanoseconds lock_timeout);

  InPlaceFile(InPlaceFile&& other) noexcept;
  InPlaceFile& operator=(InPlaceFile&&) = delete;
  InPlaceFile(const InPlaceFile&) = delete;
  InPlaceFile& operator=(const InPlaceFile&) = delete;
  /// Releases the lock.
  ~InPlaceFile();

  /// Reads the whole file.
  Result<Bytes> read() const;
  /// Overwrites the bytes from `offset` on.
  Result<void> write(std::size_t offset, std::span<const std::byte> bytes) const;

 private:
  InPlaceFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
};

}  // namespace everkernel::cli
