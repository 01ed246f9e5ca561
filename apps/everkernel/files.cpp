// POSIX calls with their errors as text. Short writes and interrupted calls are continued.
#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "numbers.hpp"

namespace everkernel::cli {
namespace {

// No buffer is longer than the largest ring.
constexpr std::size_t kMaxFileBytes = std::size_t{abi::kMaxRingSlots} * abi::kSlotBytes;
// Limit for files without a size (a pipe, /dev/zero), so that reading one cannot fill the memory.
constexpr std::size_t kMaxStreamBytes = std::size_t{1} << 30;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;
// Linux moves at most about 2 GiB a call.
constexpr std::size_t kWriteBytes = std::size_t{1} << 30;
// Temporary names to try: files of an earlier process may still have some of them.
constexpr int kTemporaryNames = 100;

Failure io_error(std::string_view doing, const std::string& path, int number) {
  return fail(Code::io,
              fmt::format("cannot {} {}: {}", doing, in_quotes(path), std::strerror(number)), {},
              number);
}

Failure write_error(int number) {
  return fail(Code::io, fmt::format("cannot write to standard output: {}", std::strerror(number)),
              {}, number);
}

int open_retrying(const char* path, int flags, mode_t mode = 0) {
  for (;;) {
    const int descriptor = ::open(path, flags | O_CLOEXEC, mode);
    if (descriptor >= 0 || errno != EINTR) return descriptor;
  }
}

// Writes everything; 0 or the errno. `offset` below 0 writes where the descriptor stands.
int write_all(int descriptor, std::span<const std::byte> bytes, off_t offset = -1) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kWriteBytes);
    const ssize_t written = offset < 0 ? ::write(descriptor, bytes.data(), size)
                                       : ::pwrite(descriptor, bytes.data(), size, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    if (offset >= 0) offset += written;
  }
  return 0;
}

// Reads to the end of the file into `target`, behind its first `first` records. Gives the number of
// bytes read; `target` may be longer.
template <class Record>
Result<std::size_t> read_behind(int descriptor, const std::string& path,
                                std::vector<Record>& target, std::size_t first) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return io_error("read", path, errno);
  if (S_ISDIR(info.st_mode)) return io_error("read", path, EISDIR);
  const bool is_regular = S_ISREG(info.st_mode);
  const std::size_t limit = is_regular ? kMaxFileBytes : kMaxStreamBytes;
  // One record more than the size, so that the read that finds the end has a non-empty target.
  const std::size_t guess =
      is_regular ? std::min(static_cast<std::size_t>(info.st_size), limit) : kReadBytes;
  target.resize(first + guess / sizeof(Record) + 1);
  std::size_t size = 0;
  for (;;) {
    if (size == (target.size() - first) * sizeof(Record)) {
      target.resize(target.size() + std::max(target.size() - first, kReadBytes / sizeof(Record)));
    }
    const auto room = std::as_writable_bytes(std::span(target)).subspan(first * sizeof(Record));
    const ssize_t count = ::read(descriptor, room.data() + size, room.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error("read", path, errno);
    if (count == 0) return size;
    size += static_cast<std::size_t>(count);
    if (size > limit) {
      return fail(Code::io, fmt::format("cannot read {}: it is longer than {} bytes",
                                        in_quotes(path), grouped(limit)));
    }
  }
}

Result<Bytes> read_all(int descriptor, const std::string& path) {
  Bytes bytes;
  const std::size_t size = EVERKERNEL_TRY(read_behind(descriptor, path, bytes, 0));
  bytes.resize(size);
  return bytes;
}

// Appends the records of a file to `records`. `what` names them if the last one is incomplete.
template <class Record>
Result<void> append_records(const std::string& path, std::vector<Record>& records,
                            std::string_view what, std::string_view hint) {
  const int descriptor = open_retrying(path.c_str(), O_RDONLY);
  if (descriptor < 0) return io_error("read", path, errno);
  const std::size_t first = records.size();
  const auto size = read_behind(descriptor, path, records, first);
  ::close(descriptor);
  records.resize(first + (size ? *size / sizeof(Record) : 0));
  if (!size) return Failure(size.error());
  const std::size_t rest = *size % sizeof(Record);
  if (rest == 0) return {};
  return fail(Code::corrupt,
              fmt::format("{}: {} are not whole {} of {} bytes: {} left over", in_quotes(path),
                          counted(*size, "byte"), what, sizeof(Record), counted(rest, "byte")),
              std::string(hint));
}

bool is_standard_output(const struct stat& info) {
  struct stat standard {};
  return ::fstat(STDOUT_FILENO, &standard) == 0 && standard.st_dev == info.st_dev &&
         standard.st_ino == info.st_ino;
}

// The file behind symbolic links, so that a link to a buffer stays a link when it is replaced.
std::string resolved(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) != nullptr ? std::string(buffer) : path;
}

// Creates a new temporary file in the folder of `target`, with the permissions of any new file.
Result<int> create_beside(const std::string& target, std::string& temporary) {
  static int files = 0;  // staged so far: several exist at one time
  const auto folder = std::filesystem::path(target).parent_path();
  for (int i = 0; i < kTemporaryNames; ++i) {
    temporary = folder / fmt::format(".everkernel-{}-{}.tmp", ::getpid(), files++);
    const int descriptor = open_retrying(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (descriptor >= 0) return descriptor;
    if (errno != EEXIST) break;
  }
  const int number = errno;
  temporary.clear();
  return io_error("write", target, number);
}

}  // namespace

void reserve_standard_streams() {
  // Opened for reading only: a write to a closed standard output must still fail.
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    if (::open("/dev/null", O_RDONLY) < 0) return;  // takes the lowest free number: this one
  }
}

Result<void> print(std::string_view text) {
  const int number = write_all(STDOUT_FILENO, std::as_bytes(std::span(text)));
  if (number != 0) return write_error(number);
  return {};
}

Result<Bytes> read_file(const std::string& path) {
  const int descriptor = open_retrying(path.c_str(), O_RDONLY);
  if (descriptor < 0) return io_error("read", path, errno);
  auto bytes = read_all(descriptor, path);
  ::close(descriptor);
  return bytes;
}

Result<std::vector<abi::WorkItem>> read_items(const std::string& path) {
  std::vector<abi::WorkItem> items;
  EVERKERNEL_TRY(append_items(path, items));
  return items;
}

Result<void> append_items(const std::string& path, std::vector<abi::WorkItem>& items) {
  return append_records(path, items, "items",
                        "an item is four u32 words: op_handle, input_handle, output_handle, param");
}

Result<std::vector<abi::Word>> read_words(const std::string& path) {
  std::vector<abi::Word> words;
  EVERKERNEL_TRY(
      append_records(path, words, "words", "a buffer file holds little-endian u32 words"));
  return words;
}

InputFile::InputFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<InputFile> InputFile::open(const std::string& path) {
  InputFile file(path, open_retrying(path.c_str(), O_RDONLY));
  if (file.descriptor_ < 0) return io_error("read", path, errno);
  return file;
}

Result<std::size_t> InputFile::read(std::span<char> target) {
  for (;;) {
    const ssize_t count = ::read(descriptor_, target.data(), target.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return io_error("read", path_, errno);
  }
}

Result<OutputFile> OutputFile::stage(const std::string& path, std::span<const std::byte> bytes) {
  OutputFile file;
  file.path_ = path;
  file.target_ = path;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return io_error("write", path, EISDIR);
    if (cli::is_standard_output(info)) {
      file.descriptor_ = STDOUT_FILENO;
      file.direct_ = bytes;
      return file;
    }
    if (!S_ISREG(info.st_mode)) {
      file.descriptor_ = open_retrying(path.c_str(), O_WRONLY);
      if (file.descriptor_ < 0) return io_error("write", path, errno);
      file.direct_ = bytes;
      return file;
    }
    // rename() checks only the folder: a file without write permission must not be replaced.
    if (::access(path.c_str(), W_OK) != 0) return io_error("write", path, errno);
    file.target_ = resolved(path);
  } else if (errno != ENOENT) {
    return io_error("write", path, errno);
  }
  const auto descriptor = create_beside(file.target_, file.temporary_);
  if (!descriptor) return io_error("write", path, static_cast<int>(descriptor.error().native));
  int number = write_all(*descriptor, bytes);
  if (::close(*descriptor) != 0 && number == 0) number = errno;
  if (number != 0) return io_error("write", path, number);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      direct_(other.direct_) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (descriptor_ > STDERR_FILENO) ::close(descriptor_);
}

bool OutputFile::is_direct() const {
  return descriptor_ >= 0;
}

bool OutputFile::is_standard_output() const {
  return descriptor_ == STDOUT_FILENO;
}

Result<void> OutputFile::commit() {
  if (is_direct()) {
    const int number = write_all(descriptor_, direct_);
    if (number != 0) return io_error("write", path_, number);
    return {};
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return io_error("write", path_, errno);
  temporary_.clear();
  return {};
}

Result<OutputFolder> OutputFolder::open(const std::string& path) {
  OutputFolder folder(path);
  std::filesystem::path so_far;
  for (const auto& part : std::filesystem::path(path)) {
    so_far /= part;
    if (::mkdir(so_far.c_str(), 0777) == 0) {
      folder.made_.push_back(so_far);
    } else if (errno != EEXIST) {
      return io_error("make", path, errno);
    }
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return io_error("write to", path, errno);
  if (!S_ISDIR(info.st_mode)) return io_error("write to", path, ENOTDIR);
  if (::access(path.c_str(), W_OK | X_OK) != 0) return io_error("write to", path, errno);
  return folder;
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : path_(std::move(other.path_)),
      made_(std::exchange(other.made_, {})),
      files_(std::exchange(other.files_, {})) {}

OutputFolder::~OutputFolder() {
  files_.clear();
  // rmdir() keeps a folder in which another process has put a file.
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) ::rmdir(folder->c_str());
}

Result<std::string> OutputFolder::stage(const std::string& name, std::span<const std::byte> bytes) {
  const std::string path = std::filesystem::path(path_) / name;
  OutputFile file = EVERKERNEL_TRY(OutputFile::stage(path, bytes));
  // Bytes written to a device could not be taken back if another file failed.
  if (file.is_direct()) {
    return fail(Code::io,
                fmt::format("cannot write {}: it is not a regular file", in_quotes(path)));
  }
  files_.push_back(std::move(file));
  return path;
}

Result<void> OutputFolder::commit() {
  for (OutputFile& file : files_) EVERKERNEL_TRY(file.commit());
  made_.clear();
  return {};
}

InPlaceFile::InPlaceFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

InPlaceFile::InPlaceFile(InPlaceFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

InPlaceFile::~InPlaceFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<InPlaceFile> InPlaceFile::open(const std::string& path) {
  // O_NONBLOCK: open() must not wait for the other end of a pipe, which is refused below.
  InPlaceFile file(path, open_retrying(path.c_str(), O_RDWR | O_NONBLOCK));
  if (file.descriptor_ < 0) return io_error("change", path, errno);
  struct stat info {};
  if (::fstat(file.descriptor_, &info) != 0) return io_error("change", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return fail(Code::io,
                fmt::format("cannot change {}: it is not a regular file", in_quotes(path)));
  }
  // Without the lock, two publishers could both find a slot free, and one operation would be lost.
  // On a file system without locks (ENOLCK, EOPNOTSUPP) users must avoid that themselves.
  while (::flock(file.descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
  return file;
}

Result<Bytes> InPlaceFile::read() const {
  return read_all(descriptor_, path_);
}

Result<void> InPlaceFile::write(std::size_t offset, std::span<const std::byte> bytes) const {
  const int number = write_all(descriptor_, bytes, static_cast<off_t>(offset));
  if (number != 0) return io_error("change", path_, number);
  return {};
}

}  // namespace everkernel::cli
