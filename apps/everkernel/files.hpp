// Files as the commands use them: read whole, replaced at once, or changed in place; and standard
// output, whose errors count as much as a file's.
//
// Errors are `io`, with the path in the message, unless a call says otherwise.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::cli {

using Bytes = std::vector<std::byte>;

/// Keeps descriptors 0..2 occupied, so that no file is opened in place of a closed standard output
/// and then takes the report. Call it first.
void reserve_standard_streams();

/// Writes text to standard output. Fails when not all of it could be written.
Result<void> print(std::string_view text);

/// Reads a file, pipe or device to its end.
Result<Bytes> read_file(const std::string& path);

/// Reads a file of work items. Fails with `corrupt` when it is not whole items.
Result<std::vector<abi::WorkItem>> read_items(const std::string& path);
/// Reads a file of work items and puts them behind those of `items`. Fails as read_items does.
Result<void> append_items(const std::string& path, std::vector<abi::WorkItem>& items);

/// Reads a file of words. Fails with `corrupt` when it is not whole words.
Result<std::vector<abi::Word>> read_words(const std::string& path);

/// A file that is read piece by piece. Move-only.
class InputFile {
 public:
  /// Opens it for reading.
  static Result<InputFile> open(const std::string& path);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  /// Reads the next bytes, at most as many as `target` has; 0 at the end.
  Result<std::size_t> read(std::span<char> target);

 private:
  InputFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
};

/// Bytes that are to become a file. A regular file is replaced as a whole or not at all: the bytes
/// wait in a temporary file beside it until commit(). A device or a pipe is written to as it is.
class OutputFile {
 public:
  /// Makes everything ready: what can fail fails here.
  static Result<OutputFile> stage(const std::string& path, std::span<const std::byte> bytes);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Removes the temporary file if it was not committed.
  ~OutputFile();

  /// Whether commit() writes to a device or a pipe, which may fail half way.
  bool is_direct() const;
  /// Whether the bytes go to standard output, where nothing else may be printed then.
  bool is_standard_output() const;
  /// Puts the bytes where they belong.
  Result<void> commit();

 private:
  OutputFile() = default;

  std::string path_ = {};                   // as the user wrote it, for errors
  std::string target_ = {};                 // what is renamed over
  std::string temporary_ = {};              // empty when written directly, or committed
  int descriptor_ = -1;                     // of a device or a pipe
  std::span<const std::byte> direct_ = {};  // what goes there
};

/// A folder whose new files appear together, after everything that can fail.
class OutputFolder {
 public:
  /// Makes the folder, and those around it, if they are not there.
  static Result<OutputFolder> open(const std::string& path);

  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  /// Removes what was not committed, and then the folders it made.
  ~OutputFolder();

  /// Makes one file ready; gives its path.
  Result<std::string> stage(const std::string& name, std::span<const std::byte> bytes);
  /// Puts every file where it belongs.
  Result<void> commit();

 private:
  explicit OutputFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;                    // as the user wrote it
  std::vector<std::string> made_ = {};  // folders that were not there, outermost first
  std::vector<OutputFile> files_ = {};  // staged
};

/// A regular file that is changed in place, under a lock that keeps other publishers out.
class InPlaceFile {
 public:
  /// Opens the file for reading and writing and waits for its lock.
  static Result<InPlaceFile> open(const std::string& path);

  InPlaceFile(InPlaceFile&& other) noexcept;
  InPlaceFile& operator=(InPlaceFile&&) = delete;
  InPlaceFile(const InPlaceFile&) = delete;
  InPlaceFile& operator=(const InPlaceFile&) = delete;
  /// Lets go of the lock.
  ~InPlaceFile();

  /// Reads all of it.
  Result<Bytes> read() const;
  /// Overwrites the bytes from `offset` on.
  Result<void> write(std::size_t offset, std::span<const std::byte> bytes) const;

 private:
  InPlaceFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
};

}  // namespace everkernel::cli
