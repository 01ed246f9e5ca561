// POSIX calls with their errors as text. Short writes and interrupted calls are continued.
#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>
#include <utility>

#include "everkernel/backend/detail/hit_store.hpp"
#include "everkernel/base/duration_text.hpp"
#include "everkernel/memory/available.hpp"
#include "numbers.hpp"

namespace everkernel::cli {
namespace {

// Limit for a pipe, whose length nobody knows.
constexpr std::size_t kMaxStreamBytes = std::size_t{1} << 30;
// How long a pipe may have no writer, and how long its writer may write nothing. The writer of
// `<(command)` is there from the beginning; the command may need time to compute.
constexpr auto kWriterTimeout = std::chrono::seconds(2);
constexpr auto kSilenceTimeout = std::chrono::minutes(1);
// How long the reader of a pipe may read nothing.
constexpr auto kReaderTimeout = std::chrono::minutes(1);
// How often a lock that another process holds is tried.
constexpr auto kLockInterval = std::chrono::milliseconds(5);
constexpr std::size_t kReadBytes = std::size_t{1} << 20;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
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

// Waits until a pipe takes bytes again; false if its reader has not read anything until then. The
// write that follows reports any other problem.
bool wait_for_reader(int descriptor) {
  const std::chrono::milliseconds timeout = kReaderTimeout;
  pollfd entry{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&entry, 1, static_cast<int>(timeout.count())) != 0;
}

// Writes everything; 0 or the errno. `offset` below 0 writes where the descriptor stands.
int write_all(int descriptor, std::span<const std::byte> bytes, off_t offset = -1) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kWriteBytes);
    const ssize_t written = offset < 0 ? ::write(descriptor, bytes.data(), size)
                                       : ::pwrite(descriptor, bytes.data(), size, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // a pipe whose reader is slower
      if (!wait_for_reader(descriptor)) return ETIMEDOUT;
      continue;
    }
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    if (offset >= 0) offset += written;
  }
  return 0;
}

int write_all(int descriptor, const Parts& parts) {
  for (const auto& part : parts) {
    if (const int number = write_all(descriptor, part)) return number;
  }
  return 0;
}

Failure too_long(const std::string& path, std::size_t limit) {
  return fail(Code::io, fmt::format("cannot read {}: it is longer than {} bytes", in_quotes(path),
                                    grouped(limit)));
}

// Reads to the end of the file, or `at_most` bytes, into `target`, behind its first `first`
// records. Gives the number of bytes read; `target` may be longer.
template <class Record>
Result<std::size_t> read_behind(InputFile& file, std::vector<Record>& target, std::size_t first,
                                std::size_t limit, std::uint64_t at_most = kNoLimit) {
  if (!file.size_bytes()) limit = std::min(limit, kMaxStreamBytes);
  const std::uint64_t guess = std::min(file.size_bytes().value_or(kReadBytes), at_most);
  if (guess > limit) return too_long(file.path(), limit);
  const auto grow = [&](std::size_t count) -> Result<void> {
    EVERKERNEL_TRY(check_memory(count * sizeof(Record), in_quotes(file.path())));
    target.resize(count);
    return {};
  };
  // One record more than the size, so that the read that finds the end has a non-empty target.
  EVERKERNEL_TRY(grow(first + guess / sizeof(Record) + 1));
  std::size_t size = 0;
  while (size < at_most) {
    if (size == (target.size() - first) * sizeof(Record)) {
      EVERKERNEL_TRY(
          grow(target.size() + std::max(target.size() - first, kReadBytes / sizeof(Record))));
    }
    const auto all = std::as_writable_bytes(std::span(target)).subspan(first * sizeof(Record));
    const auto room = all.subspan(size);
    const std::uint64_t wanted = std::min<std::uint64_t>(room.size(), at_most - size);
    const std::size_t count = EVERKERNEL_TRY(file.read(room.first(wanted)));
    if (count == 0) return size;
    size += count;
    if (size > limit) return too_long(file.path(), limit);
  }
  return size;
}

Result<Bytes> read_all(InputFile& file, std::size_t limit) {
  Bytes bytes;
  const std::size_t size = EVERKERNEL_TRY(read_behind(file, bytes, 0, limit));
  bytes.resize(size);
  return bytes;
}

// Appends the records of a file to `records`. `what` names them if the last one is incomplete.
template <class Record>
Result<void> append_records(const std::string& path, std::vector<Record>& records,
                            std::string_view what, std::string_view hint) {
  InputFile file = EVERKERNEL_TRY(InputFile::open(path));
  const std::size_t first = records.size();
  const auto size = read_behind(file, records, first, kMaxFileBytes);
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

void say(std::string_view text) {
  static_cast<void>(write_all(STDERR_FILENO, std::as_bytes(std::span(text))));
}

void say(const Error& error) {
  say(fmt::format("error: {}\n", error.message));
  if (!error.hint.empty()) say(fmt::format("hint: {}\n", error.hint));
}

Result<void> check_memory(std::uint64_t bytes, std::string_view what) {
  auto checked = memory::check_available(bytes, what);
  if (checked) return checked;
  checked.error().code = Code::invalid_argument;  // nothing has failed yet: the request is refused
  checked.error().hint = "use less, or give --memory-limit SIZE if there is more";
  return checked;
}

Result<void> check_hit_capacity(abi::Word hits) {
  return check_memory(backend::HitStore::peak_bytes(hits), "--hit-capacity");
}

Result<Bytes> read_file(const std::string& path, std::size_t limit) {
  InputFile file = EVERKERNEL_TRY(InputFile::open(path));
  return read_all(file, limit);
}

Result<std::vector<abi::WorkItem>> read_items(const std::string& path) {
  std::vector<abi::WorkItem> items;
  EVERKERNEL_TRY(
      append_records(path, items, "items",
                     "an item is four u32 words: op_handle, input_handle, output_handle, param"));
  return items;
}

Result<std::size_t> append_blocks(const std::string& path, std::vector<abi::WorkItem>& blocks) {
  InputFile file = EVERKERNEL_TRY(InputFile::open(path));
  const std::size_t first = blocks.size();
  const auto size = read_behind(file, blocks, first, kMaxFileBytes);
  blocks.resize(first + (size.value_or(0) + sizeof(abi::WorkItem) - 1) / sizeof(abi::WorkItem));
  return size;
}

Result<std::vector<abi::Word>> read_words(const std::string& path) {
  std::vector<abi::Word> words;
  EVERKERNEL_TRY(
      append_records(path, words, "words", "a buffer file holds little-endian u32 words"));
  return words;
}

Result<std::uint64_t> read_padded(InputFile& file, std::uint64_t at_most,
                                  std::vector<abi::Word>& words) {
  const std::size_t size = EVERKERNEL_TRY(read_behind(file, words, 0, kMaxFileBytes, at_most));
  words.resize((size + sizeof(abi::Word) - 1) / sizeof(abi::Word));
  return size;
}

InputFile::InputFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_),
      has_writer_(other.has_writer_),
      is_shared_(other.is_shared_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<InputFile> InputFile::open(const std::string& path) {
  // O_NONBLOCK: open() must not wait for the writer of a pipe.
  return adopt(path, open_retrying(path.c_str(), O_RDONLY | O_NONBLOCK));
}

Result<InputFile> InputFile::standard_input() {
  InputFile file = EVERKERNEL_TRY(
      adopt("standard input", ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)));
  file.has_writer_ = true;  // of a pipe: whoever started this program has opened it
  file.is_shared_ = true;
  return file;
}

Result<InputFile> InputFile::adopt(const std::string& path, int descriptor) {
  InputFile file(path, descriptor);
  if (file.descriptor_ < 0) return io_error("read", path, errno);
  struct stat info {};
  if (::fstat(file.descriptor_, &info) != 0) return io_error("read", path, errno);
  if (S_ISDIR(info.st_mode)) return io_error("read", path, EISDIR);
  if (S_ISREG(info.st_mode)) {
    file.size_bytes_ = static_cast<std::uint64_t>(info.st_size);
  } else if (!S_ISFIFO(info.st_mode) && !S_ISSOCK(info.st_mode)) {
    return fail(Code::io, fmt::format("cannot read {}: it is a device", in_quotes(path)),
                "give a regular file or a pipe");
  }
  return file;
}

Result<std::size_t> InputFile::read(std::span<std::byte> target) {
  if (is_shared_ && !size_bytes_) EVERKERNEL_TRY(wait_for_data());
  for (;;) {
    const ssize_t count = ::read(descriptor_, target.data(), target.size());
    if (count > 0) has_writer_ = true;
    // A pipe that no program has opened for writing yet reads like an empty file.
    if (count > 0 || (count == 0 && (size_bytes_ || has_writer_))) {
      return static_cast<std::size_t>(count);
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return io_error("read", path_, errno);
    if (count < 0) has_writer_ = true;
    EVERKERNEL_TRY(wait_for_data());
  }
}

Result<void> InputFile::skip(std::uint64_t bytes) {
  if (size_bytes_) {
    const std::uint64_t step = std::min(bytes, *size_bytes_);
    if (::lseek(descriptor_, static_cast<off_t>(step), SEEK_CUR) >= 0) return {};
    return io_error("read", path_, errno);
  }
  std::array<std::byte, 1 << 16> dropped;
  while (bytes > 0) {
    const std::uint64_t step = std::min<std::uint64_t>(bytes, dropped.size());
    const std::size_t count = EVERKERNEL_TRY(read(std::span(dropped).first(step)));
    if (count == 0) return {};
    bytes -= count;
  }
  return {};
}

// Waits until the pipe has data or its writer has closed it.
Result<void> InputFile::wait_for_data() {
  const std::chrono::milliseconds timeout = has_writer_ ? kSilenceTimeout : kWriterTimeout;
  pollfd entry{.fd = descriptor_, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&entry, 1, static_cast<int>(timeout.count()));
  if (ready < 0 && errno != EINTR) return io_error("read", path_, errno);
  if (ready > 0) has_writer_ = true;
  if (ready != 0) return {};
  return fail(Code::io,
              fmt::format("cannot read {}: {} for {}", in_quotes(path_),
                          has_writer_ ? "its writer wrote nothing" : "no program writes to it",
                          duration_text(timeout)),
              "it is a pipe: start the program that writes to it first, or give a regular file");
}

Result<OutputFile> OutputFile::stage(const std::string& path, Parts parts) {
  OutputFile file;
  file.path_ = path;
  file.target_ = path;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return io_error("write", path, EISDIR);
    if (cli::is_standard_output(info)) {
      file.descriptor_ = STDOUT_FILENO;
      file.direct_ = std::move(parts);
      return file;
    }
    if (!S_ISREG(info.st_mode)) {
      // O_NONBLOCK: open() must not wait for the reader of a pipe.
      file.descriptor_ = open_retrying(path.c_str(), O_WRONLY | O_NONBLOCK);
      if (file.descriptor_ < 0) return io_error("write", path, errno);
      file.direct_ = std::move(parts);
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
  int number = write_all(*descriptor, parts);
  if (::close(*descriptor) != 0 && number == 0) number = errno;
  if (number != 0) return io_error("write", path, number);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      direct_(std::move(other.direct_)) {}

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
      files_(std::exchange(other.files_, {})),
      committed_(other.committed_) {}

OutputFolder::~OutputFolder() {
  files_.clear();
  // rmdir() keeps a folder in which another process has put a file.
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) ::rmdir(folder->c_str());
}

std::string OutputFolder::path_of(const std::string& name) const {
  return path_ == "." ? name : (std::filesystem::path(path_) / name).string();
}

Result<void> OutputFolder::check(const std::string& name) const {
  const std::string path = path_of(name);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const auto parent = std::filesystem::path(path_) / std::filesystem::path(name).parent_path();
    if (errno != ENOENT || ::stat(parent.c_str(), &info) != 0) {
      return io_error("write", path, errno);
    }
    return {};
  }
  if (S_ISDIR(info.st_mode)) return io_error("write", path, EISDIR);
  // Bytes written to a device could not be taken back if another file failed.
  if (!S_ISREG(info.st_mode)) {
    return fail(Code::io,
                fmt::format("cannot write {}: it is not a regular file", in_quotes(path)));
  }
  if (::access(path.c_str(), W_OK) != 0) return io_error("write", path, errno);
  return {};
}

std::string OutputFolder::free_name(const std::string& name) const {
  const std::filesystem::path file(name);
  for (int i = 1; i < kTemporaryNames; ++i) {
    const std::string number = i == 1 ? "" : fmt::format("-{}", i);
    const std::string tried = file.stem().string() + number + file.extension().string();
    struct stat info {};
    const std::string path = path_of(tried);
    if (::lstat(path.c_str(), &info) != 0 && errno == ENOENT) return tried;
  }
  return {};
}

Result<std::string> OutputFolder::stage(const std::string& name, Parts parts) {
  EVERKERNEL_TRY(check(name));
  const std::string path = path_of(name);
  files_.push_back(EVERKERNEL_TRY(OutputFile::stage(path, std::move(parts))));
  return path;
}

Result<void> OutputFolder::commit() {
  for (OutputFile& file : files_) {
    auto done = file.commit();
    if (!done) {
      files_.clear();
      return done;
    }
    ++committed_;
    made_.clear();
  }
  made_.clear();
  files_.clear();
  return {};
}

InPlaceFile::InPlaceFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

InPlaceFile::InPlaceFile(InPlaceFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

InPlaceFile::~InPlaceFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<InPlaceFile> InPlaceFile::open(const std::string& path,
                                      std::chrono::nanoseconds lock_timeout) {
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
  const auto deadline = std::chrono::steady_clock::now() + lock_timeout;
  while (::flock(file.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) break;
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Code::io,
                  fmt::format("cannot change {}: another process held its lock for {}",
                              in_quotes(path), duration_text(lock_timeout)),
                  "`lslocks` names the process; end it, or give a longer --lock-timeout");
    }
    std::this_thread::sleep_for(kLockInterval);
  }
  return file;
}

Result<Bytes> InPlaceFile::read() const {
  InputFile file =
      EVERKERNEL_TRY(InputFile::adopt(path_, ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0)));
  return read_all(file, kMaxFileBytes);
}

Result<void> InPlaceFile::write(std::size_t offset, std::span<const std::byte> bytes) const {
  const int number = write_all(descriptor_, bytes, static_cast<off_t>(offset));
  if (number != 0) return io_error("change", path_, number);
  return {};
}

}  // namespace everkernel::cli
