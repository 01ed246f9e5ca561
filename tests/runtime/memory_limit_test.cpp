// Requests beyond the memory that the process may use fail before anything is allocated.
#include <gtest/gtest.h>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/memory/available.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/results.hpp"

namespace everkernel {
namespace {

// The limit is less than the process uses, so every large request is refused.
class MemoryLimit : public ::testing::Test {
 protected:
  MemoryLimit() { memory::set_limit(1); }
  ~MemoryLimit() override { memory::set_limit(0); }

  static constexpr std::size_t kManyWords = std::size_t{1} << 30;
  Megakernel kernel =
      Megakernel::create(backend::cpu::make_backend(), {.slot_count = 64, .workgroup_size = 64})
          .value();
};

TEST_F(MemoryLimit, a_buffer_beyond_it_is_out_of_memory_and_its_handle_stays_free) {
  for (const bool keeps_copy : {false, true}) {
    const auto refused =
        kernel.create_buffer({.handle = 1, .word_count = kManyWords, .keep_host_copy = keeps_copy});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::out_of_memory);
    EXPECT_NE(refused.error().message.find("needs 4294967296 bytes"), std::string::npos)
        << refused.error().message;
  }
  EXPECT_TRUE(kernel.create_buffer({.handle = 1, .word_count = 4}));
}

TEST_F(MemoryLimit, hits_beyond_it_are_out_of_memory) {
  constexpr Word kManyHits = 100'000'000;
  const abi::WorkItem nop{};
  EXPECT_EQ(test::code_of(kernel.run({&nop, 1}, {.hit_capacity = kManyHits})), Code::out_of_memory);
  EXPECT_EQ(kernel.run({&nop, 1}, {.hit_capacity = 1000}).value().items_processed, 1u);
  const std::vector<std::byte> control(640), ring(64 * 64);
  const Submission submission = HostBuffers{.control = control, .ring = ring};
  const std::span submissions(&submission, 1);
  EXPECT_EQ(test::code_of(kernel.dispatch({.submissions = submissions, .hit_capacity = kManyHits})),
            Code::out_of_memory);
  EXPECT_TRUE(kernel.dispatch({.submissions = submissions, .hit_capacity = 1000}));
}

}  // namespace
}  // namespace everkernel
