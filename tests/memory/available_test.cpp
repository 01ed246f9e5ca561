// The memory that a process may still use: limits of control groups, and requests beyond them.
#include "everkernel/memory/available.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "memory/control_groups.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::memory {
namespace {

// Folders that look like /sys/fs/cgroup.
class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const auto path = dir.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::uint64_t available_for(const char* membership) const {
    const auto found = available_in_groups(membership, dir.path());
    return found ? found->bytes : 0;
  }
  test::TempDir dir;
};

TEST_F(ControlGroups, version_2_gives_the_limit_less_the_use_without_cached_files) {
  write("a/memory.max", "1000\n");
  write("a/memory.current", "600\n");
  write("a/memory.stat", "anon 300\nfile 300\ninactive_file 100\nactive_file 50\n");
  EXPECT_EQ(available_for("0::/a\n"), 550u);
}

TEST_F(ControlGroups, the_tightest_group_above_counts) {
  write("memory.max", "max\n");
  write("memory.current", "5\n");
  write("a/memory.max", "500\n");
  write("a/memory.current", "450\n");
  write("a/b/memory.max", "1000\n");
  write("a/b/memory.current", "100\n");
  const auto found = available_in_groups("0::/a/b\n", dir.path());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->bytes, 50u);
  EXPECT_EQ(found->limited_by,
            "the limit of 500 bytes in " + (dir.path() / "a/memory.max").native());
}

TEST_F(ControlGroups, version_1_is_found_among_other_controllers) {
  write("memory/x/memory.limit_in_bytes", "1000\n");
  write("memory/x/memory.usage_in_bytes", "900\n");
  write("memory/x/memory.stat", "total_inactive_file 200\ntotal_active_file 100\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(available_for("5:cpu,cpuacct:/x\n4:hugetlb,memory:/x\n0::/\n"), 400u);
}

// In a container the path is that of the host, and the files are at the root of the mount.
TEST_F(ControlGroups, a_path_that_does_not_exist_leaves_the_root) {
  write("memory.max", "100\n");
  write("memory.current", "30\n");
  EXPECT_EQ(available_for("0::/system.slice/docker-1234.scope\n"), 70u);
}

TEST_F(ControlGroups, no_limit_and_damaged_files_limit_nothing) {
  write("memory.max", "max\n");
  write("memory.current", "30\n");
  write("a/memory.max", "?\n");
  EXPECT_EQ(available_in_groups("0::/a\nnonsense\n::\n", dir.path()), std::nullopt);
}

TEST_F(ControlGroups, a_group_over_its_limit_leaves_nothing) {
  write("memory.max", "100\n");
  write("memory.current", "130\n");
  const auto found = available_in_groups("0::/\n", dir.path());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->bytes, 0u);
}

TEST(Available, a_request_beyond_the_given_limit_fails_and_a_small_one_does_not) {
  set_limit(std::uint64_t{1} << 20);  // less than the process uses
  const auto refused = check_available(kCheckedBytes, "test");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::out_of_memory);
  EXPECT_NE(refused.error().message.find("test: needs 16777216 bytes of memory, but 0 are"),
            std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(check_available(kCheckedBytes - 1, "test"));
  set_limit(0);
  EXPECT_TRUE(check_available(kCheckedBytes, "test"));
}

}  // namespace
}  // namespace everkernel::memory
