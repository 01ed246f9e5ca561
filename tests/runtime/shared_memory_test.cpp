// The memory a session's ring lies in.
#include "memory/shared_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "support/results.hpp"

namespace everkernel::memory {
namespace {

TEST(SharedMemory, has_zeroed_parts_that_begin_on_pages) {
  const auto memory = SharedMemory::create(std::array<std::size_t, 3>{640, 64, 4097});
  ASSERT_TRUE(memory) << test::message_of(memory);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->part(i).data()) % 4096, 0u);
    for (const std::byte byte : memory->part(i)) ASSERT_EQ(byte, std::byte{0});
  }
  EXPECT_EQ(memory->part(2).size(), 4097u);
  EXPECT_EQ(memory->size_bytes(), 4u * 4096);
}

TEST(SharedMemory, another_mapping_of_its_descriptor_sees_the_same_bytes) {
  const auto memory = SharedMemory::create(std::array<std::size_t, 1>{64});
  ASSERT_TRUE(memory);
  void* const other = ::mmap(nullptr, 64, PROT_READ, MAP_SHARED, memory->file_descriptor(), 0);
  ASSERT_NE(other, MAP_FAILED);
  memory->part(0)[5] = std::byte{42};
  EXPECT_EQ(static_cast<const std::byte*>(other)[5], std::byte{42});
  ::munmap(other, 64);
}

TEST(SharedMemory, nobody_can_make_it_shorter) {
  const auto memory = SharedMemory::create(std::array<std::size_t, 1>{8192});
  ASSERT_TRUE(memory);
  EXPECT_NE(::ftruncate(memory->file_descriptor(), 0), 0);
}

TEST(SharedMemory, a_length_that_overflows_is_an_error) {
  EXPECT_EQ(test::code_of(SharedMemory::create(std::array{~std::size_t{0}, std::size_t{64}})),
            Code::out_of_memory);
}

TEST(SharedMemory, moving_leaves_the_other_empty) {
  auto first = SharedMemory::create(std::array<std::size_t, 1>{64});
  ASSERT_TRUE(first);
  const std::byte* const bytes = first->part(0).data();
  SharedMemory second = std::move(*first);
  EXPECT_EQ(second.part(0).data(), bytes);
  EXPECT_EQ(first->file_descriptor(), -1);
}

}  // namespace
}  // namespace everkernel::memory
