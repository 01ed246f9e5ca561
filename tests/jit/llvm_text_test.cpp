// The LLVM IR of handlers: atomic or plain accesses, and its length.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "everkernel/ir/parser.hpp"
#include "skip.hpp"

namespace everkernel::test {
namespace {

// The LLVM IR of one handler for a use of memory.
std::string llvm_of(std::string_view text, jit::MemoryUse memory) {
  auto parsed = ir::parse(text);
  auto verified = ir::verify(*std::move(parsed));
  return *jit::emit_llvm(*verified, {.memory = memory});
}

std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

constexpr std::string_view kPlain = "handler h = 1000 { output[0] = atomic_add(output[1], 2); }";
constexpr std::string_view kCommuting =
    "handler h = 1000 commutes { atomic_add(output[1], input[0]); }";
constexpr std::string_view kControl =
    "handler h = 1000 { control[160] = control[161]; atomic_add(control[162], 1); "
    "atomic_cas(control[163], 1, 2); }";

TEST(LlvmText, a_plan_lets_handlers_use_words_as_if_they_were_alone) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  EXPECT_EQ(llvm_of(kPlain, jit::MemoryUse::planned), llvm_of(kPlain, jit::MemoryUse::exclusive));
  EXPECT_NE(llvm_of(kPlain, jit::MemoryUse::planned), llvm_of(kPlain, jit::MemoryUse::shared));
}

TEST(LlvmText, a_plan_has_commuting_handlers_share_their_words) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  const std::string planned = llvm_of(kCommuting, jit::MemoryUse::planned);
  EXPECT_EQ(planned, llvm_of(kCommuting, jit::MemoryUse::shared));
  EXPECT_EQ(count_of(planned, "atomicrmw add"), 1u);
}

TEST(LlvmText, a_plan_judges_handlers_of_one_program_one_by_one) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  const std::string text =
      fmt::format("{}\nhandler k = 1001 {{ atomic_add(output[0], 1); }}", kCommuting);
  EXPECT_EQ(count_of(llvm_of(text, jit::MemoryUse::planned), "atomicrmw add"), 1u);
  EXPECT_EQ(count_of(llvm_of(text, jit::MemoryUse::shared), "atomicrmw add"), 2u);
}

TEST(LlvmText, control_words_are_shared_whatever_the_use_of_buffers) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  const std::string shared = llvm_of(kControl, jit::MemoryUse::shared);
  EXPECT_EQ(count_of(shared, "load atomic"), 1u);
  EXPECT_EQ(count_of(shared, "store atomic"), 1u);
  EXPECT_EQ(count_of(shared, "atomicrmw add"), 1u);
  EXPECT_EQ(count_of(shared, "cmpxchg"), 1u);
  EXPECT_EQ(llvm_of(kControl, jit::MemoryUse::exclusive), shared);
  EXPECT_EQ(llvm_of(kControl, jit::MemoryUse::planned), shared);
}

// Each name is used twice by the next one: a search for bounds that follows every use doubles its
// time with each name.
TEST(LlvmText, code_for_a_chain_of_names_grows_with_the_chain_only) {
  EVERKERNEL_NEEDS_NATIVE_CODE();
  const auto code_bytes = [](int steps) {
    std::string text = "handler h = 1000 { for i in 0 .. len(output) { let v0 = i & 1; ";
    for (int i = 1; i <= steps; ++i) {
      text += fmt::format("let v{} = v{} + v{}; ", i, i - 1, i - 1);
    }
    text += fmt::format("output[v{}] = i; }} }}", steps);
    auto parsed = ir::parse(text);
    auto verified = ir::verify(*std::move(parsed));
    return jit::emit_llvm(*verified, {.memory = jit::MemoryUse::exclusive})->size();
  };
  EXPECT_LT(code_bytes(12), 2 * code_bytes(6));
}

}  // namespace
}  // namespace everkernel::test
