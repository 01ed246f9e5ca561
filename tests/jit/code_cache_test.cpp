// The cache of compiled code: which entries are hits, and which must be misses.
#include "everkernel/jit/code_cache.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include "support/temp_dir.hpp"

namespace everkernel::jit {
namespace {

using test::TempDir;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kHeaderBytes = 88;
constexpr std::size_t kLengthOffset = 48;
constexpr ::uid_t kSomebodyElse = 65534;

CodeKey key_number(unsigned number) {
  CodeKey key;
  key.bytes.fill(std::byte{0xA0});
  key.bytes[31] = static_cast<std::byte>(number);
  return key;
}

// The first 31 bytes of those keys in hexadecimal.
const std::string kKeyStart = "a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0";

std::string name_of(const CodeKey& key) {
  return key.text() + ".code";
}

Bytes payload_of(std::size_t size_bytes, unsigned seed = 1) {
  Bytes bytes(size_bytes);
  for (std::size_t i = 0; i < size_bytes; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + seed * 7 + (i >> 8));
  }
  return bytes;
}

/// A cache in a folder of its own.
class CodeCacheTest : public testing::Test {
 protected:
  CodeCache open(std::uint64_t max_bytes = 1 << 20) {
    auto cache = CodeCache::open({.directory = dir_.path(), .max_bytes = max_bytes});
    if (!cache) ADD_FAILURE() << cache.error().message;
    return *std::move(cache);
  }
  // Expects a miss that removes the unusable entry.
  void expect_rejected(CodeCache& cache, const CodeKey& key, const std::string& what) {
    const CodeCacheCounters before = cache.counters();
    EXPECT_FALSE(cache.get(key)) << what;
    EXPECT_EQ(cache.counters().misses, before.misses + 1) << what;
    EXPECT_EQ(cache.counters().rejected, before.rejected + 1) << what;
    EXPECT_FALSE(
        std::filesystem::exists(std::filesystem::symlink_status(dir_.path() / name_of(key))))
        << what;
    EXPECT_NE(cache.last_problem(), "") << what;
  }
  void write_entry(const Bytes& bytes) {
    dir_.write(name_of(key_), bytes);
    ::chmod((dir_.path() / name_of(key_)).c_str(), 0600);  // independent of the umask
  }
  std::vector<std::string> names() const { return dir_.names(); }

  const CodeKey key_ = key_number(1);
  TempDir dir_;
};

TEST_F(CodeCacheTest, what_was_stored_is_found) {
  CodeCache cache = open();
  const Bytes payload = payload_of(5000);
  cache.put(key_, payload);
  EXPECT_EQ(cache.get(key_), payload);
  EXPECT_EQ(cache.counters().stored, 1u);
  EXPECT_EQ(cache.counters().hits, 1u);
  EXPECT_EQ(cache.counters().misses, 0u);
  EXPECT_EQ(cache.last_problem(), "");
}

TEST_F(CodeCacheTest, what_was_not_stored_is_a_miss) {
  CodeCache cache = open();
  cache.put(key_number(2), payload_of(10));
  EXPECT_FALSE(cache.get(key_));
  EXPECT_EQ(cache.counters().misses, 1u);
  EXPECT_EQ(cache.counters().rejected, 0u);
}

TEST_F(CodeCacheTest, entries_outlive_the_cache_that_stored_them) {
  open().put(key_, payload_of(100));
  EXPECT_EQ(open().get(key_), payload_of(100));
}

TEST_F(CodeCacheTest, a_later_entry_takes_the_place_of_an_earlier_one) {
  CodeCache cache = open();
  cache.put(key_, payload_of(100, 1));
  cache.put(key_, payload_of(90, 2));
  EXPECT_EQ(cache.get(key_), payload_of(90, 2));
  EXPECT_EQ(names().size(), 1u);
}

// Magic, version 2 and a reserved word, the key, the length, and the digest that SHA-256 gives for
// no bytes at all.
const Bytes kEmptyEntry = test::bytes_of({0x4f434b45, 0x0a0d4544, 2,          0,           //
                                          0xa0a0a0a0, 0xa0a0a0a0, 0xa0a0a0a0, 0xa0a0a0a0,  //
                                          0xa0a0a0a0, 0xa0a0a0a0, 0xa0a0a0a0, 0x01a0a0a0,  //
                                          0,          0,                                   //
                                          0x42c4b0e3, 0x141cfc98, 0xc8f4fb9a, 0x24b96f99,  //
                                          0xe441ae27, 0x4c939b64, 0x1b9995a4, 0x55b85278});

TEST_F(CodeCacheTest, an_entry_is_the_bytes_of_its_format) {
  open().put(key_, {});
  EXPECT_EQ(names(), std::vector<std::string>{kKeyStart + "01.code"});
  EXPECT_EQ(dir_.read(name_of(key_)), kEmptyEntry);
}

TEST_F(CodeCacheTest, bytes_of_the_format_are_an_entry) {
  write_entry(kEmptyEntry);
  EXPECT_EQ(open().get(key_), Bytes{});
}

TEST_F(CodeCacheTest, folder_and_files_are_for_their_owner_alone) {
  const ::mode_t before = ::umask(0);
  const auto folder = dir_.path() / "a" / "b";
  auto cache = CodeCache::open({.directory = folder});
  ASSERT_TRUE(cache) << cache.error().message;
  cache->put(key_, payload_of(10));
  ::umask(before);
  struct stat status {};
  for (const auto& path : {dir_.path() / "a", folder}) {
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0700u);
  }
  ASSERT_EQ(::stat((folder / name_of(key_)).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

// ---- damage ----

struct Damage {
  const char* what;
  std::size_t offset;
};
class DamagedHeader : public CodeCacheTest, public testing::WithParamInterface<Damage> {};

TEST_P(DamagedHeader, is_a_miss_and_the_entry_is_gone) {
  CodeCache cache = open();
  cache.put(key_, payload_of(64));
  Bytes entry = dir_.read(name_of(key_));
  entry[GetParam().offset] ^= std::byte{2};
  write_entry(entry);
  expect_rejected(cache, key_, GetParam().what);
}

INSTANTIATE_TEST_SUITE_P(Fields, DamagedHeader,
                         testing::Values(Damage{"magic", 0}, Damage{"version", 8},
                                         Damage{"reserved", 12}, Damage{"key", 16},
                                         Damage{"length", 48}, Damage{"high_length", 55},
                                         Damage{"checksum", 56}),
                         [](const auto& row) { return std::string(row.param.what); });

TEST_F(CodeCacheTest, an_entry_of_every_shorter_length_is_a_miss) {
  CodeCache cache = open();
  cache.put(key_, payload_of(200));
  const Bytes entry = dir_.read(name_of(key_));
  ASSERT_EQ(entry.size(), kHeaderBytes + 200);
  for (std::size_t size = 0; size < entry.size(); ++size) {
    write_entry(Bytes(entry.begin(), entry.begin() + std::ptrdiff_t(size)));
    expect_rejected(cache, key_, std::to_string(size) + " bytes");
  }
}

TEST_F(CodeCacheTest, an_entry_with_a_byte_too_many_is_a_miss) {
  CodeCache cache = open();
  cache.put(key_, payload_of(200));
  Bytes entry = dir_.read(name_of(key_));
  entry.push_back(std::byte{0});
  write_entry(entry);
  expect_rejected(cache, key_, "a byte more");
}

// Length of an entry that would take more memory than a machine has, if it were read.
constexpr std::uint64_t kHugeBytes = std::uint64_t{1} << 40;

// The header says what the file has, all of it zeros that take no room on the disk.
TEST_F(CodeCacheTest, an_entry_larger_than_the_whole_cache_is_never_read) {
  CodeCache cache = open();
  cache.put(key_, payload_of(200));
  Bytes entry = dir_.read(name_of(key_));
  std::memcpy(entry.data() + kLengthOffset, &kHugeBytes, sizeof kHugeBytes);
  write_entry(entry);
  const auto path = dir_.path() / name_of(key_);
  if (::truncate(path.c_str(), static_cast<off_t>(kHeaderBytes + kHugeBytes)) != 0) {
    GTEST_SKIP() << "the file system has no sparse files of 1 TiB: " << std::strerror(errno);
  }
  expect_rejected(cache, key_, "sparse file");
}

TEST_F(CodeCacheTest, a_header_that_claims_more_than_the_file_has_is_a_miss) {
  CodeCache cache = open();
  for (const std::uint64_t claimed : {std::uint64_t{201}, kHugeBytes, ~std::uint64_t{0}}) {
    cache.put(key_, payload_of(200));
    Bytes entry = dir_.read(name_of(key_));
    std::memcpy(entry.data() + kLengthOffset, &claimed, sizeof claimed);
    write_entry(entry);
    expect_rejected(cache, key_, std::to_string(claimed));
  }
}

TEST_F(CodeCacheTest, any_flipped_bit_is_a_miss) {
  CodeCache cache = open();
  cache.put(key_, payload_of(100));
  const Bytes entry = dir_.read(name_of(key_));
  for (std::size_t bit = 0; bit < entry.size() * 8; ++bit) {
    Bytes flipped = entry;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    write_entry(flipped);
    expect_rejected(cache, key_, "bit " + std::to_string(bit));
  }
}

TEST_F(CodeCacheTest, an_entry_under_the_name_of_another_is_a_miss) {
  CodeCache cache = open();
  cache.put(key_, payload_of(20));
  std::filesystem::rename(dir_.path() / name_of(key_), dir_.path() / name_of(key_number(2)));
  expect_rejected(cache, key_number(2), "renamed");
}

TEST_F(CodeCacheTest, two_entries_that_were_swapped_are_misses) {
  CodeCache cache = open();
  cache.put(key_, payload_of(20, 1));
  cache.put(key_number(2), payload_of(20, 2));
  const auto at = [this](const std::string& name) { return dir_.path() / name; };
  std::filesystem::rename(at(name_of(key_)), at("aside"));
  std::filesystem::rename(at(name_of(key_number(2))), at(name_of(key_)));
  std::filesystem::rename(at("aside"), at(name_of(key_number(2))));
  expect_rejected(cache, key_, "first");
  expect_rejected(cache, key_number(2), "second");
}

TEST_F(CodeCacheTest, an_entry_that_is_rejected_by_its_user_is_gone) {
  CodeCache cache = open();
  cache.put(key_, payload_of(20));
  cache.reject(key_, "no good");
  EXPECT_FALSE(cache.get(key_));
  EXPECT_EQ(cache.counters().rejected, 1u);
  EXPECT_NE(cache.last_problem().find("no good"), std::string::npos);
}

// ---- files and folders of other users ----

TEST_F(CodeCacheTest, a_symbolic_link_is_not_followed) {
  CodeCache cache = open();
  cache.put(key_, payload_of(20));
  std::filesystem::rename(dir_.path() / name_of(key_), dir_.path() / "real");
  std::filesystem::create_symlink("real", dir_.path() / name_of(key_));
  expect_rejected(cache, key_, "link");
  EXPECT_TRUE(std::filesystem::exists(dir_.path() / "real")) << "only the link goes";
}

TEST_F(CodeCacheTest, storing_over_a_symbolic_link_leaves_what_it_points_to) {
  CodeCache cache = open();
  dir_.write("precious", payload_of(3));
  std::filesystem::create_symlink("precious", dir_.path() / name_of(key_));
  cache.put(key_, payload_of(20));
  EXPECT_EQ(dir_.read("precious"), payload_of(3));
  EXPECT_EQ(cache.get(key_), payload_of(20));
}

TEST_F(CodeCacheTest, an_entry_that_others_can_write_is_not_used) {
  CodeCache cache = open();
  for (const ::mode_t mode : {0666u, 0620u, 0602u}) {
    cache.put(key_, payload_of(20));
    ASSERT_EQ(::chmod((dir_.path() / name_of(key_)).c_str(), mode), 0);
    expect_rejected(cache, key_, std::to_string(mode));
  }
}

TEST_F(CodeCacheTest, an_entry_of_another_user_is_not_used) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  CodeCache cache = open();
  cache.put(key_, payload_of(20));
  ASSERT_EQ(::chown((dir_.path() / name_of(key_)).c_str(), kSomebodyElse, 0), 0);
  expect_rejected(cache, key_, "another user's");
}

TEST_F(CodeCacheTest, a_pipe_in_the_place_of_an_entry_holds_nobody_up) {
  CodeCache cache = open();
  ASSERT_EQ(::mkfifo((dir_.path() / name_of(key_)).c_str(), 0600), 0);
  expect_rejected(cache, key_, "pipe");
}

TEST_F(CodeCacheTest, a_pipe_in_the_place_of_the_folder_is_an_error) {
  const auto path = dir_.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto cache = CodeCache::open({.directory = path});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, Code::io);
}

// Calls `act` while a process holds the entry of `key_` under an exclusive flock, a lock of all
// bytes, and a lease, which makes whoever opens the file without O_NONBLOCK wait for 45 s.
void while_a_process_holds(const std::filesystem::path& path, const std::function<void()>& act) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGIO, SIG_IGN);  // how the system says that somebody wants the file
    const int file = ::open(path.c_str(), O_RDWR);
    struct flock whole {};
    whole.l_type = F_WRLCK;
    const bool is_held = ::flock(file, LOCK_EX | LOCK_NB) == 0 &&
                         ::fcntl(file, F_SETLK, &whole) == 0 &&
                         ::fcntl(file, F_SETLEASE, F_WRLCK) == 0;
    const char answer = is_held ? 'y' : 'n';
    if (::write(ready[1], &answer, 1) == 1) ::pause();
    ::_exit(0);
  }
  char answer = 0;
  EXPECT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y') << "the file system has no leases";
  act();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

// The limit of a test is far below the 45 s of a lease and far above the time that this takes.
TEST_F(CodeCacheTest, an_entry_that_another_process_locks_holds_nobody_up) {
  CodeCache cache = open();
  cache.put(key_, payload_of(20));
  const auto start = std::chrono::steady_clock::now();
  while_a_process_holds(dir_.path() / name_of(key_), [&] {
    EXPECT_FALSE(cache.get(key_));
    cache.put(key_, payload_of(30));
    EXPECT_EQ(cache.get(key_), payload_of(30));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(CodeCacheTest, a_folder_in_the_place_of_an_entry_is_a_miss) {
  CodeCache cache = open();
  std::filesystem::create_directory(dir_.path() / name_of(key_));
  EXPECT_FALSE(cache.get(key_));
  cache.put(key_, payload_of(20));
  EXPECT_EQ(cache.counters().stored, 0u);
  EXPECT_NE(cache.last_problem(), "");
  EXPECT_EQ(names().size(), 1u) << "no temporary is left";
}

TEST_F(CodeCacheTest, a_folder_that_others_can_write_is_refused) {
  for (const ::mode_t mode : {0777u, 0770u, 0702u, 01777u}) {
    ASSERT_EQ(::chmod(dir_.path().c_str(), mode), 0);
    const auto cache = CodeCache::open({.directory = dir_.path()});
    ASSERT_FALSE(cache) << mode;
    EXPECT_EQ(cache.error().code, Code::unsupported);
  }
}

TEST_F(CodeCacheTest, a_folder_that_others_come_to_write_is_not_used_any_more) {
  CodeCache cache = open();
  cache.put(key_, payload_of(20));
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0777), 0);
  EXPECT_FALSE(cache.get(key_));
  cache.put(key_number(2), payload_of(20));
  EXPECT_EQ(cache.counters().stored, 1u);
  EXPECT_EQ(cache.counters().rejected, 0u);
  EXPECT_EQ(names().size(), 1u);
}

TEST_F(CodeCacheTest, a_folder_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::chown(dir_.path().c_str(), kSomebodyElse, 0), 0);
  const auto cache = CodeCache::open({.directory = dir_.path()});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, Code::unsupported);
}

TEST_F(CodeCacheTest, a_folder_behind_a_symbolic_link_is_refused) {
  std::filesystem::create_directory(dir_.path() / "real");
  std::filesystem::create_symlink("real", dir_.path() / "link");
  for (const char* name : {"link", "link/"}) {
    const auto cache = CodeCache::open({.directory = dir_.path() / name});
    ASSERT_FALSE(cache) << name;
    EXPECT_EQ(cache.error().code, Code::io);
  }
}

TEST_F(CodeCacheTest, a_folder_that_cannot_be_made_is_an_error) {
  dir_.write("file", payload_of(1));
  const auto cache = CodeCache::open({.directory = dir_.path() / "file" / "cache"});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, Code::io);
}

// ---- storage that fails ----

// Access rights do not bind root: as root, a child process does this under another user id.
bool holds_for_a_plain_user(const std::filesystem::path& folder,
                            const std::function<bool()>& statement) {
  if (::geteuid() != 0) return statement();
  if (::chown(folder.c_str(), kSomebodyElse, 0) != 0) return false;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::seteuid(kSomebodyElse) == 0 && statement() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST_F(CodeCacheTest, a_folder_that_cannot_be_written_is_read_all_the_same) {
  EXPECT_TRUE(holds_for_a_plain_user(dir_.path(), [this] {
    open().put(key_, payload_of(20));
    ::chmod(dir_.path().c_str(), 0500);
    CodeCache cache = open();
    const bool is_hit = cache.get(key_) == payload_of(20);
    cache.put(key_number(2), payload_of(20));
    const bool is_miss = !cache.get(key_number(2));
    ::chmod(dir_.path().c_str(), 0700);
    return is_hit && is_miss && cache.counters().stored == 0 && cache.counters().not_stored == 1 &&
           !cache.last_problem().empty();
  }));
}

TEST_F(CodeCacheTest, a_full_disk_stores_nothing_and_leaves_nothing) {
  CodeCache cache = open();
  std::signal(SIGXFSZ, SIG_IGN);
  ::rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const ::rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  cache.put(key_, payload_of(5000));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(cache.counters().stored, 0u);
  EXPECT_EQ(cache.counters().not_stored, 1u);
  EXPECT_NE(cache.last_problem(), "");
  EXPECT_EQ(names(), std::vector<std::string>{});
  EXPECT_FALSE(cache.get(key_));
}

void set_age(const std::filesystem::path& path, std::chrono::seconds age) {
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - age);
}

TEST_F(CodeCacheTest, what_a_dead_writer_left_goes_after_an_hour) {
  for (const char* name : {".tmp-0000000000000001", ".tmp-0000000000000002"}) {
    dir_.write(name, payload_of(10));
  }
  set_age(dir_.path() / ".tmp-0000000000000001", std::chrono::minutes(61));
  set_age(dir_.path() / ".tmp-0000000000000002", std::chrono::minutes(59));
  open();
  EXPECT_EQ(names(), std::vector<std::string>{".tmp-0000000000000002"});
}

TEST_F(CodeCacheTest, files_of_others_stay_whatever_their_age) {
  dir_.write("notes.txt", payload_of(5000));
  set_age(dir_.path() / "notes.txt", std::chrono::hours(1000));
  CodeCache cache = open(1000);
  cache.put(key_, payload_of(500));
  cache.put(key_number(2), payload_of(500));
  EXPECT_TRUE(std::filesystem::exists(dir_.path() / "notes.txt"));
  EXPECT_EQ(cache.counters().evicted, 1u);
}

// Names of entries of an older format are shorter. Nothing reads them any more.
TEST_F(CodeCacheTest, entries_of_an_older_format_go_when_room_is_needed) {
  dir_.write("a0a0a0a0a0a0a0a0a0a0a0a0a0a0a001.code", payload_of(500));
  CodeCache cache = open(1000);
  cache.put(key_, payload_of(500));
  EXPECT_EQ(names(), std::vector<std::string>{name_of(key_)});
}

// ---- size ----

std::uint64_t bytes_in(const std::filesystem::path& folder) {
  std::uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) sum += entry.file_size();
  return sum;
}

TEST_F(CodeCacheTest, its_size_stays_within_the_bound) {
  CodeCache cache = open(10 * (kHeaderBytes + 100));
  for (unsigned i = 0; i < 100; ++i) {
    cache.put(key_number(i), payload_of(100));
    ASSERT_LE(bytes_in(dir_.path()), 10 * (kHeaderBytes + 100));
  }
  EXPECT_EQ(names().size(), 10u);
  EXPECT_EQ(cache.counters().evicted, 90u);
}

TEST_F(CodeCacheTest, its_number_of_entries_stays_within_the_bound) {
  auto cache = CodeCache::open({.directory = dir_.path(), .max_entries = 10});
  ASSERT_TRUE(cache);
  for (unsigned i = 0; i < 30; ++i) {
    cache->put(key_number(i), payload_of(1));
    ASSERT_LE(names().size(), 10u);
  }
  EXPECT_EQ(cache->counters().evicted, 20u);
  EXPECT_TRUE(cache->get(key_number(20)));
}

TEST_F(CodeCacheTest, the_entry_used_longest_ago_goes_first) {
  CodeCache cache = open(3 * (kHeaderBytes + 100));
  for (unsigned i = 0; i < 3; ++i) cache.put(key_number(i), payload_of(100));
  EXPECT_TRUE(cache.get(key_number(0)));
  cache.put(key_number(3), payload_of(100));
  EXPECT_TRUE(cache.get(key_number(0)));
  EXPECT_FALSE(cache.get(key_number(1)));
  EXPECT_TRUE(cache.get(key_number(2)));
  EXPECT_TRUE(cache.get(key_number(3)));
}

TEST_F(CodeCacheTest, a_large_entry_takes_the_place_of_several) {
  CodeCache cache = open(4 * (kHeaderBytes + 100));
  for (unsigned i = 0; i < 4; ++i) cache.put(key_number(i), payload_of(100));
  cache.put(key_number(4), payload_of(300));
  EXPECT_EQ(names(), (std::vector{name_of(key_number(3)), name_of(key_number(4))}));
}

TEST_F(CodeCacheTest, an_entry_stored_now_stays_even_if_clocks_disagree) {
  CodeCache cache = open(kHeaderBytes + 100);
  cache.put(key_number(0), payload_of(100));
  set_age(dir_.path() / name_of(key_number(0)), std::chrono::hours(-1));  // from the future
  cache.put(key_number(1), payload_of(100));
  EXPECT_EQ(names(), std::vector{name_of(key_number(1))});
}

TEST_F(CodeCacheTest, an_entry_larger_than_the_bound_is_not_stored) {
  CodeCache cache = open(kHeaderBytes + 100);
  cache.put(key_number(0), payload_of(100));
  cache.put(key_number(1), payload_of(101));
  EXPECT_EQ(names(), std::vector{name_of(key_number(0))});
  EXPECT_NE(cache.last_problem(), "");
}

// ---- several processes and threads at one time ----

// Every reader finds no entry or one whole entry; `failures` counts anything else.
int hammer(CodeCache& cache, unsigned seed) {
  int failures = 0;
  for (unsigned turn = 0; turn < 200; ++turn) {
    const unsigned number = (turn * 7 + seed) % 5;
    cache.put(key_number(number), payload_of(300, number));
    const auto found = cache.get(key_number((number + 1) % 5));
    if (found && *found != payload_of(300, (number + 1) % 5)) ++failures;
  }
  return failures;
}

TEST_F(CodeCacheTest, threads_that_store_at_one_time_leave_whole_entries) {
  CodeCache cache = open(4 * (kHeaderBytes + 300));
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back([&, i] { failures += hammer(cache, i); });
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(cache.counters().rejected, 0u);
  // A folder that changes while it is listed may show too few entries; the next store() sees them
  // all.
  cache.put(key_number(0), payload_of(300, 0));
  EXPECT_LE(bytes_in(dir_.path()), 4 * (kHeaderBytes + 300));
}

TEST_F(CodeCacheTest, processes_that_store_at_one_time_leave_whole_entries) {
  std::vector<pid_t> children;
  for (unsigned i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      CodeCache cache = open(4 * (kHeaderBytes + 300));
      ::_exit(hammer(cache, i) == 0 && cache.counters().rejected == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  open(4 * (kHeaderBytes + 300)).put(key_number(0), payload_of(300, 0));
  for (const std::string& name : names()) EXPECT_TRUE(name.ends_with(".code")) << name;
  EXPECT_LE(names().size(), 4u);
}

// ---- keys ----

TEST(CodeKey, changes_with_every_label_and_value) {
  const auto key = [](const char* label, const char* value, const char* last) {
    const CodeKeyPart parts[] = {{label, value}, {"last", last}};
    return make_code_key(parts);
  };
  const CodeKey base = key("a", "b", "c");
  EXPECT_EQ(key("a", "b", "c"), base);
  EXPECT_NE(key("x", "b", "c"), base);
  EXPECT_NE(key("a", "x", "c"), base);
  EXPECT_NE(key("a", "b", "x"), base);
}

// Two values that XXH3, a hash that is not cryptographic, cannot tell apart in the input of a key
// with this label: in 64-byte stripes 1 and 2 the first word meets a constant of the hash that
// cancels its low half, so that one high half may grow by what the other one loses.
std::string value_that_collides(unsigned moved) {
  std::string value(480, '.');
  const auto put = [&value](std::size_t at, std::uint32_t low, std::uint32_t high) {
    std::memcpy(value.data() + at, &low, sizeof low);
    std::memcpy(value.data() + at + sizeof low, &high, sizeof high);
  };
  put(32, 0x2c81017c, 100 + moved);
  put(96, 0xe96dd4de, 200 - moved);
  return value;
}

TEST(CodeKey, values_made_to_collide_in_a_fast_hash_have_different_keys) {
  const std::string one = value_that_collides(0);
  const std::string other = value_that_collides(1);
  const CodeKeyPart one_part[] = {{"program-text", one}};
  const CodeKeyPart other_part[] = {{"program-text", other}};
  EXPECT_NE(make_code_key(one_part), make_code_key(other_part));
}

TEST(CodeKey, parts_do_not_run_into_each_other) {
  const CodeKeyPart one[] = {{"a", "bc"}};
  const CodeKeyPart other[] = {{"ab", "c"}};
  const CodeKeyPart split[] = {{"a", "b"}, {"", "c"}};
  const CodeKeyPart longer[] = {{"a", "bc"}, {"", ""}};
  EXPECT_NE(make_code_key(one), make_code_key(other));
  EXPECT_NE(make_code_key(one), make_code_key(split));
  EXPECT_NE(make_code_key(one), make_code_key(longer));
  EXPECT_NE(make_code_key({}), make_code_key(longer));
}

TEST(CodeKey, prints_as_hexadecimal) {
  EXPECT_EQ(key_number(255).text(), kKeyStart + "ff");
}

// ---- the default folder ----

/// Sets the variables that name the default folder, and restores their values at the end.
class DefaultPlace : public CodeCacheTest {
 protected:
  static constexpr const char* kNames[] = {"EVERKERNEL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};

  void SetUp() override {
    for (const char* name : kNames) {
      const char* const value = std::getenv(name);
      before_.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      before_[i] ? ::setenv(kNames[i], before_[i]->c_str(), 1) : ::unsetenv(kNames[i]);
    }
  }
  void set(const char* name, const std::filesystem::path& value) {
    ::setenv(name, value.c_str(), 1);
  }
  bool stores_in(const std::filesystem::path& folder) {
    auto cache = CodeCache::open({});
    if (!cache) return false;
    cache->put(key_, payload_of(10));
    return std::filesystem::exists(folder / name_of(key_));
  }

 private:
  std::vector<std::optional<std::string>> before_;
};

TEST_F(DefaultPlace, is_the_folder_that_the_environment_names) {
  set("EVERKERNEL_CACHE_DIR", dir_.path() / "own");
  set("XDG_CACHE_HOME", dir_.path() / "xdg");
  set("HOME", dir_.path() / "home");
  EXPECT_TRUE(stores_in(dir_.path() / "own"));
  EXPECT_EQ(names(), std::vector<std::string>{"own"});
}

TEST_F(DefaultPlace, is_else_in_the_cache_folder_of_the_desktop) {
  set("XDG_CACHE_HOME", dir_.path() / "xdg");
  set("HOME", dir_.path() / "home");
  EXPECT_TRUE(stores_in(dir_.path() / "xdg" / "everkernel"));
}

TEST_F(DefaultPlace, is_else_in_the_home_folder) {
  set("XDG_CACHE_HOME", "relative");
  set("HOME", dir_.path() / "home");
  EXPECT_TRUE(stores_in(dir_.path() / "home" / ".cache" / "everkernel"));
}

TEST_F(DefaultPlace, without_any_of_them_is_an_error) {
  const auto cache = CodeCache::open({});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, Code::unsupported);
}

TEST_F(DefaultPlace, can_be_switched_off) {
  set("HOME", dir_.path());
  for (const char* value : {"", "off"}) {
    set("EVERKERNEL_CACHE_DIR", value);
    auto cache = CodeCache::open({});
    ASSERT_TRUE(cache);
    EXPECT_FALSE(cache->is_enabled());
    EXPECT_EQ(cache->directory(), "");
    cache->put(key_, payload_of(10));
    EXPECT_FALSE(cache->get(key_));
    cache->reject(key_, "no good");
    EXPECT_EQ(cache->counters().misses + cache->counters().stored, 0u);
    EXPECT_EQ(cache->last_problem(), "");
  }
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(DefaultPlace, gives_way_to_a_folder_that_the_program_names) {
  set("EVERKERNEL_CACHE_DIR", "off");
  EXPECT_TRUE(open().is_enabled());
  EXPECT_EQ(open().directory(), dir_.path());
}

}  // namespace
}  // namespace everkernel::jit
