// Reads the limits of the machine, of the control groups and of the process.
#include "everkernel/memory/available.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

#include "memory/control_groups.hpp"

namespace everkernel::memory {
namespace {

namespace fs = std::filesystem;

// For code, stacks and small allocations, which are not checked.
constexpr std::uint64_t kReserveBytes = std::uint64_t{32} << 20;
// A version 1 group without a limit shows a number near 2^63.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

std::atomic<std::uint64_t> given_limit{0};

// A file of the kernel; empty if it cannot be read. They have no size: one reads to the end.
std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return std::nullopt;  // "max" has no number
  return number;
}

// The number behind `key` at the beginning of a line; 0 if there is none.
std::uint64_t field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const auto digits = line.find_first_of("0123456789", key.size());
    if (digits == line.npos) return 0;
    return number_in(std::string_view(line).substr(digits)).value_or(0);
  }
  return 0;
}

std::uint64_t difference(std::uint64_t limit, std::uint64_t used) {
  return limit - std::min(limit, used);
}

// The names of the files of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cached[2];  // fields of memory.stat: pages of files, which the kernel can drop
};
constexpr GroupFiles kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", {"inactive_file", "active_file"}};

std::optional<Available> available_in(const fs::path& group, const GroupFiles& files) {
  const auto limit = number_in(text_of(group / files.limit));
  const auto used = number_in(text_of(group / files.used));
  if (!limit || !used || *limit >= kNoLimit) return std::nullopt;
  const std::string stat = text_of(group / "memory.stat");
  std::uint64_t cached = 0;
  for (const char* const key : files.cached) cached += field(stat, fmt::format("{} ", key));
  return Available{
      difference(*limit, difference(*used, cached)),
      fmt::format("the limit of {} bytes in {}", *limit, (group / files.limit).native())};
}

void keep_smaller(std::optional<Available>& smallest, std::optional<Available> other) {
  if (other && (!smallest || other->bytes < smallest->bytes)) smallest = std::move(other);
}

// Looks at a group and at all groups above it. In a container the path may be that of the host and
// not exist here: then the walk reaches the folders that do.
std::optional<Available> walk(const fs::path& mount, std::string_view group,
                              const GroupFiles& files) {
  std::optional<Available> smallest = available_in(mount, files);
  fs::path path = mount;
  for (const fs::path& part : fs::path(group).relative_path()) {
    path /= part;
    keep_smaller(smallest, available_in(path, files));
  }
  return smallest;
}

// Bytes of this process: the address space, and what is in memory.
struct OwnSize {
  std::uint64_t virtual_bytes = 0;
  std::uint64_t resident_bytes = 0;
};

OwnSize own_size() {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::istringstream pages(text_of("/proc/self/statm"));
  OwnSize size;
  pages >> size.virtual_bytes >> size.resident_bytes;
  return {size.virtual_bytes * page, size.resident_bytes * page};
}

std::optional<Available> available_on_machine() {
  const std::string text = text_of("/proc/meminfo");
  constexpr std::uint64_t kUnit = 1024;  // the file counts kilobytes
  const std::uint64_t bytes = (field(text, "MemAvailable:") + field(text, "SwapFree:")) * kUnit;
  if (bytes == 0) return std::nullopt;
  return Available{bytes, "the free memory of the machine"};
}

std::optional<Available> available_addresses(const OwnSize& own) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return Available{difference(limit.rlim_cur, own.virtual_bytes),
                   fmt::format("the limit of {} bytes of address space", limit.rlim_cur)};
}

}  // namespace

std::optional<Available> available_in_groups(std::string_view membership, const fs::path& root) {
  std::optional<Available> smallest;
  std::istringstream lines{std::string(membership)};
  // A line is NUMBER:CONTROLLERS:PATH. Version 2 has number 0 and no list of controllers.
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string_view group = std::string_view(line).substr(second + 1);
    if (controllers == ",,") {
      keep_smaller(smallest, walk(root, group, kVersion2));
      keep_smaller(smallest, walk(root / "unified", group, kVersion2));
    } else if (controllers.find(",memory,") != controllers.npos) {
      keep_smaller(smallest, walk(root / "memory", group, kVersion1));
    }
  }
  return smallest;
}

Available available() {
  const OwnSize own = own_size();
  std::optional<Available> smallest;
  if (const std::uint64_t given = given_limit.load(std::memory_order_relaxed); given != 0) {
    smallest = Available{difference(given, own.resident_bytes),
                         fmt::format("the given limit of {} bytes", given)};
  } else {
    smallest = available_on_machine();
    keep_smaller(smallest, available_in_groups(text_of("/proc/self/cgroup"), "/sys/fs/cgroup"));
  }
  keep_smaller(smallest, available_addresses(own));
  if (!smallest) return {.bytes = kNoLimit, .limited_by = "nothing"};
  smallest->bytes = difference(smallest->bytes, kReserveBytes);
  return *smallest;
}

Result<void> check_available(std::uint64_t bytes, std::string_view what) {
  if (bytes < kCheckedBytes) return {};
  const Available here = available();
  if (bytes <= here.bytes) return {};
  return fail(Code::out_of_memory,
              fmt::format("{}: needs {} bytes of memory, but {} are available because of {}", what,
                          bytes, here.bytes, here.limited_by),
              "use less, or raise the limit");
}

void set_limit(std::uint64_t bytes) {
  given_limit.store(bytes, std::memory_order_relaxed);
}

}  // namespace everkernel::memory
