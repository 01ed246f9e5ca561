// One file an entry: a header with key, length and checksum, then the payload.
//
// Entries are not synced to disk. After a power loss an entry may be short or empty, which the
// checksum detects; compiling again costs less than waiting for the disk at every compile.
#include "everkernel/jit/code_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/descriptor.hpp"
#include "base/sha256.hpp"

namespace everkernel::jit {
namespace {

constexpr std::uint32_t kFormatVersion = 2;
constexpr std::array<char, 8> kMagic = {'E', 'K', 'C', 'O', 'D', 'E', '\r', '\n'};
constexpr std::string_view kEntrySuffix = ".code";
constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr std::time_t kStaleAfterSeconds = 3600;  // no write of an entry takes that long

/// The header of an entry. It is little-endian, like the machines that are supported.
struct EntryHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kFormatVersion;
  std::uint32_t reserved = 0;
  Sha256Digest key = {};
  std::uint64_t payload_bytes = 0;
  Sha256Digest checksum = {};

  friend bool operator==(const EntryHeader&, const EntryHeader&) = default;
};
static_assert(sizeof(EntryHeader) == 88 && std::has_unique_object_representations_v<EntryHeader>);
static_assert(offsetof(EntryHeader, key) == 16 && offsetof(EntryHeader, payload_bytes) == 48 &&
              offsetof(EntryHeader, checksum) == 56);
static_assert(std::endian::native == std::endian::little);

// A signal may interrupt the call on a network file system.
int open_at(int folder, const char* name, int flags, mode_t mode = 0) {
  for (;;) {
    const int number = ::openat(folder, name, flags, mode);
    if (number >= 0 || errno != EINTR) return number;
  }
}

bool read_all(int file, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

// Sets the time of last use. File times set by the kernel advance in steps of milliseconds, which
// is too coarse for the order of use.
void touch(int file) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, now};
  ::futimens(file, times);
}

bool is_ours_alone(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string entry_name(const CodeKey& key) {
  return key.text() + std::string(kEntrySuffix);
}

// Whether this is the name of an entry, of this format or of an older one with shorter keys.
bool is_entry_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::size_t digits = std::min(name.find_first_not_of(kDigits), name.size());
  return digits > 0 && name.substr(digits) == kEntrySuffix;
}

/// The folder of the cache; none if caching is off.
Result<std::optional<std::filesystem::path>> choose_directory(
    const std::filesystem::path& directory) {
  if (!directory.empty()) return directory;
  if (const char* const own = ::secure_getenv("EVERKERNEL_CACHE_DIR"); own != nullptr) {
    const std::string_view value = own;
    if (value.empty() || value == "off") return std::nullopt;
    return std::filesystem::path(value);
  }
  // The XDG specification says to ignore a relative path in XDG_CACHE_HOME.
  const char* const xdg = ::secure_getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg == '/') return std::filesystem::path(xdg) / "everkernel";
  const char* const home = ::secure_getenv("HOME");
  if (home != nullptr && *home == '/') {
    return std::filesystem::path(home) / ".cache" / "everkernel";
  }
  return fail(Code::unsupported, "code cache: no home folder to keep it in",
              "set EVERKERNEL_CACHE_DIR to a folder, or to off");
}

Failure refused(std::string_view call, const std::filesystem::path& path, int number) {
  return fail(Code::io,
              fmt::format("code cache: {} {}: {}", call, path.string(), std::strerror(number)),
              "set EVERKERNEL_CACHE_DIR to a folder of yours, or to off", number);
}

Result<Descriptor> open_directory(std::filesystem::path path) {
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // a/b/ is a/b
  // New folders are for this user alone, the ones above the cache too: another user who can write
  // there could replace the cache.
  std::filesystem::path made;
  int not_made = 0;
  for (const auto& name : path) {
    made /= name;
    not_made = ::mkdir(made.c_str(), 0700) == 0 ? 0 : errno;
  }
  Descriptor directory(
      open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory.is_open() && errno == ENOENT) return refused("cannot make", path, not_made);
  if (!directory.is_open()) return refused("cannot open", path, errno);
  struct stat status {};
  if (::fstat(directory.get(), &status) != 0) return refused("cannot look at", path, errno);
  if (!is_ours_alone(status)) {
    return fail(
        Code::unsupported,
        fmt::format("code cache: {} is another user's, or others can write to it", path.string()),
        "remove it, or chmod go-w, or set EVERKERNEL_CACHE_DIR to a folder of yours");
  }
  return directory;
}

}  // namespace

std::string CodeKey::text() const {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

CodeKey make_code_key(std::span<const CodeKeyPart> parts) {
  Sha256 hash;
  const auto add_number = [&hash](const auto& number) {
    hash.add(std::as_bytes(std::span(&number, 1)));
  };
  const auto add = [&](std::string_view bytes) {
    add_number(std::uint64_t{bytes.size()});
    hash.add(std::as_bytes(std::span(bytes)));
  };
  add_number(kFormatVersion);
  for (const CodeKeyPart& part : parts) {
    add(part.label);
    add(part.value);
  }
  return {hash.finish()};
}

/// The open folder and the operations on it. Names are resolved against its descriptor, so that the
/// folder that was checked is the one that is used.
class CodeCache::Folder {
 public:
  Folder(std::filesystem::path path, Descriptor directory, const CodeCacheOptions& options)
      : path_(std::move(path)),
        directory_(std::move(directory)),
        max_bytes_(options.max_bytes),
        max_entries_(options.max_entries) {}

  std::optional<std::vector<std::byte>> get(const CodeKey& key);
  void put(const CodeKey& key, std::span<const std::byte> payload);
  void reject(const std::string& name, std::string_view reason);
  void remove_stale_temporaries();

  const std::filesystem::path& path() const { return path_; }
  CodeCacheCounters counters() const {
    const std::scoped_lock held(mutex_);
    return counters_;
  }
  std::string last_problem() const {
    const std::scoped_lock held(mutex_);
    return last_problem_;
  }

 private:
  struct Entry {
    std::string name;
    std::uint64_t size_bytes;
    timespec used;
  };

  bool is_usable();
  bool store(const CodeKey& key, std::span<const std::byte> payload);
  std::optional<std::vector<std::byte>> read_entry(const CodeKey& key, std::string& problem);
  bool write_file(const std::string& name, const CodeKey& key, std::span<const std::byte> payload);
  void shrink(const std::string& kept_name);
  std::vector<Entry> list_entries() const;
  void for_each_name(const auto& visit) const;

  void count(std::uint64_t CodeCacheCounters::*counter) {
    const std::scoped_lock held(mutex_);
    ++(counters_.*counter);
  }
  void note(std::string problem) {
    const std::scoped_lock held(mutex_);
    last_problem_ = std::move(problem);
  }
  void note_errno(std::string_view call) {
    note(fmt::format("code cache: {}: {}", call, std::strerror(errno)));
  }

  const std::filesystem::path path_;
  const Descriptor directory_;
  const std::uint64_t max_bytes_;
  const std::uint64_t max_entries_;
  mutable std::mutex mutex_;
  CodeCacheCounters counters_;
  std::string last_problem_;
};

// Checked before every use: access rights may change while the folder is open.
bool CodeCache::Folder::is_usable() {
  struct stat status {};
  if (::fstat(directory_.get(), &status) == 0 && is_ours_alone(status)) return true;
  note("code cache: its folder is another user's, or others can write to it");
  return false;
}

std::optional<std::vector<std::byte>> CodeCache::Folder::get(const CodeKey& key) {
  std::string problem;
  if (is_usable()) {
    if (auto payload = read_entry(key, problem)) {
      count(&CodeCacheCounters::hits);
      return payload;
    }
    if (!problem.empty()) reject(entry_name(key), problem);
  }
  count(&CodeCacheCounters::misses);
  return std::nullopt;
}

// Returns the payload. If there is no entry, it returns none and leaves `problem` empty.
std::optional<std::vector<std::byte>> CodeCache::Folder::read_entry(const CodeKey& key,
                                                                    std::string& problem) {
  // Non-blocking, because opening a pipe of that name would otherwise wait for a writer.
  const Descriptor file(open_at(directory_.get(), entry_name(key).c_str(),
                                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno != ENOENT) problem = std::strerror(errno);
    return std::nullopt;
  }
  const auto refuse = [&problem](const char* reason) {
    problem = reason;
    return std::nullopt;
  };
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return refuse("cannot be looked at");
  if (!S_ISREG(status.st_mode)) return refuse("not a plain file");
  if (!is_ours_alone(status)) return refuse("another user's, or others can write to it");
  EntryHeader header;
  if (!read_all(file.get(), std::as_writable_bytes(std::span(&header, 1)))) {
    return refuse("shorter than its header");
  }
  const EntryHeader expected{
      .key = key.bytes, .payload_bytes = header.payload_bytes, .checksum = header.checksum};
  if (header != expected) return refuse("its header is another's");
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  if (file_bytes < sizeof header || file_bytes - sizeof header != header.payload_bytes) {
    return refuse("its length is wrong");
  }
  // A sparse file may claim more bytes than the machine has memory.
  if (file_bytes > max_bytes_) return refuse("larger than the whole cache may be");
  std::vector<std::byte> payload(header.payload_bytes);
  if (!read_all(file.get(), payload)) return refuse("cannot be read to its end");
  if (sha256(payload) != header.checksum) return refuse("its checksum is wrong");
  touch(file.get());
  return payload;
}

void CodeCache::Folder::reject(const std::string& name, std::string_view reason) {
  // A folder of that name cannot be removed here; it is a miss every time.
  ::unlinkat(directory_.get(), name.c_str(), 0);
  note(fmt::format("code cache: entry {} removed: {}", name, reason));
  count(&CodeCacheCounters::rejected);
}

void CodeCache::Folder::put(const CodeKey& key, std::span<const std::byte> payload) {
  if (!store(key, payload)) count(&CodeCacheCounters::not_stored);
}

// Whether the entry was stored; if not, the reason is noted.
bool CodeCache::Folder::store(const CodeKey& key, std::span<const std::byte> payload) {
  if (!is_usable()) return false;
  if (payload.size() > max_bytes_ || max_bytes_ - payload.size() < sizeof(EntryHeader)) {
    note(fmt::format("code cache: an entry of {} bytes has no room in {} bytes",
                     payload.size() + sizeof(EntryHeader), max_bytes_));
    return false;
  }
  std::uint64_t random = 0;
  ssize_t size = -1;
  do {
    size = ::getrandom(&random, sizeof random, GRND_NONBLOCK);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    note_errno("getrandom");
    return false;
  }
  const std::string temporary = fmt::format("{}{:016x}", kTemporaryPrefix, random);
  const std::string name = entry_name(key);
  if (!write_file(temporary, key, payload)) return false;
  if (::renameat(directory_.get(), temporary.c_str(), directory_.get(), name.c_str()) != 0) {
    note_errno("cannot rename an entry");
    ::unlinkat(directory_.get(), temporary.c_str(), 0);
    return false;
  }
  count(&CodeCacheCounters::stored);
  shrink(name);
  return true;
}

// Writes a temporary file; removes it if that fails.
bool CodeCache::Folder::write_file(const std::string& name, const CodeKey& key,
                                   std::span<const std::byte> payload) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  Descriptor file(open_at(directory_.get(), name.c_str(), kFlags, 0600));
  if (!file.is_open()) {
    note_errno("cannot write to its folder");
    return false;
  }
  const EntryHeader header{
      .key = key.bytes, .payload_bytes = payload.size(), .checksum = sha256(payload)};
  bool is_written =
      write_all(file.get(), std::as_bytes(std::span(&header, 1))) && write_all(file.get(), payload);
  if (is_written) {
    touch(file.get());
    is_written = file.close();
  }
  if (is_written) return true;
  note_errno("cannot write an entry");
  ::unlinkat(directory_.get(), name.c_str(), 0);
  return false;
}

// Lists the whole folder, because a sum kept in memory would miss entries of other processes. That
// takes microseconds an entry, so that the number of entries is limited too.
void CodeCache::Folder::shrink(const std::string& kept_name) {
  std::vector<Entry> entries = list_entries();
  std::uint64_t total = 0;
  for (const Entry& entry : entries) total += entry.size_bytes;
  std::uint64_t left = entries.size();
  const auto fits = [&] { return total <= max_bytes_ && left <= max_entries_; };
  if (fits()) return;
  std::ranges::sort(entries, {}, [](const Entry& entry) {
    return std::tuple(entry.used.tv_sec, entry.used.tv_nsec, std::string_view(entry.name));
  });
  for (const Entry& entry : entries) {
    if (fits()) return;
    if (entry.name == kept_name) continue;
    if (::unlinkat(directory_.get(), entry.name.c_str(), 0) == 0) {
      count(&CodeCacheCounters::evicted);
    } else if (errno != ENOENT) {  // ENOENT: another process has removed it
      note_errno("cannot remove an entry");
      continue;
    }
    total -= entry.size_bytes;
    --left;
  }
}

std::vector<CodeCache::Folder::Entry> CodeCache::Folder::list_entries() const {
  std::vector<Entry> entries;
  for_each_name([&](const char* name) {
    struct stat status {};
    if (!is_entry_name(name)) return;
    if (::fstatat(directory_.get(), name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (!S_ISREG(status.st_mode)) return;
    entries.push_back({name, static_cast<std::uint64_t>(status.st_size), status.st_mtim});
  });
  return entries;
}

void CodeCache::Folder::remove_stale_temporaries() {
  const std::time_t now = ::time(nullptr);
  for_each_name([&](const char* name) {
    struct stat status {};
    if (!std::string_view(name).starts_with(kTemporaryPrefix)) return;
    if (::fstatat(directory_.get(), name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (now - status.st_mtim.tv_sec <= kStaleAfterSeconds) return;
    ::unlinkat(directory_.get(), name, 0);
  });
}

void CodeCache::Folder::for_each_name(const auto& visit) const {
  // Each listing needs a descriptor of its own, because the descriptor holds the position and
  // several threads may list at one time.
  const int copy = open_at(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  const auto close = [](DIR* stream) { ::closedir(stream); };  // also if `visit` throws
  const std::unique_ptr<DIR, decltype(close)> stream(::fdopendir(copy));
  if (stream == nullptr) {
    ::close(copy);
    return;
  }
  while (const dirent* const found = ::readdir(stream.get())) visit(found->d_name);
}

CodeCache::CodeCache(std::unique_ptr<Folder> folder) : folder_(std::move(folder)) {}
CodeCache::CodeCache(CodeCache&&) noexcept = default;
CodeCache& CodeCache::operator=(CodeCache&&) noexcept = default;
CodeCache::~CodeCache() = default;

Result<CodeCache> CodeCache::open(const CodeCacheOptions& options) {
  const auto path = EVERKERNEL_TRY(choose_directory(options.directory));
  if (!path) return CodeCache(nullptr);
  auto directory = EVERKERNEL_TRY(open_directory(*path));
  auto folder = std::make_unique<Folder>(*path, std::move(directory), options);
  folder->remove_stale_temporaries();
  return CodeCache(std::move(folder));
}

bool CodeCache::is_enabled() const {
  return folder_ != nullptr;
}

std::filesystem::path CodeCache::directory() const {
  return folder_ ? folder_->path() : std::filesystem::path();
}

std::optional<std::vector<std::byte>> CodeCache::get(const CodeKey& key) {
  return folder_ ? folder_->get(key) : std::nullopt;
}

void CodeCache::put(const CodeKey& key, std::span<const std::byte> bytes) {
  if (folder_) folder_->put(key, bytes);
}

void CodeCache::reject(const CodeKey& key, std::string_view reason) {
  if (folder_) folder_->reject(entry_name(key), reason);
}

CodeCacheCounters CodeCache::counters() const {
  return folder_ ? folder_->counters() : CodeCacheCounters{};
}

std::string CodeCache::last_problem() const {
  return folder_ ? folder_->last_problem() : std::string();
}

}  // namespace everkernel::jit
