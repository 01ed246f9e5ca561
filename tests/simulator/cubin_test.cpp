// Loads cubins that NVRTC made, intact and damaged: the result is a value or an error, never
// undefined behaviour.
#include "simulator/cubin.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/needs_nvrtc.hpp"
#include "simulator/machine.hpp"

namespace everkernel::simulator {
namespace {

constexpr std::string_view kSource = R"(
struct Four { unsigned a, b, c, d; };
__device__ unsigned numbers[4] = {0x11111111, 2, 3, 4};
__device__ unsigned zeros[300];
__device__ unsigned* pointer = numbers + 2;
__constant__ unsigned constants[3] = {0xC0FFEE, 5, 6};
extern "C" __global__ void first(unsigned* out, unsigned char small, unsigned long long wide,
                                 Four four) {
  __shared__ unsigned board[25];
  board[threadIdx.x] = four.c + small;
  __syncthreads();
  out[threadIdx.x] = board[24 - threadIdx.x] + (unsigned)wide + numbers[out[0] % 4];
}
extern "C" __global__ void __launch_bounds__(64) second(unsigned* out) {
  unsigned local[64];
  for (unsigned i = 0; i < 64; ++i) local[i] = out[i];
  for (unsigned i = 0; i < 64; ++i) local[local[i] % 64] += i;
  out[threadIdx.x] = local[out[5] % 64] + *pointer + constants[out[1] % 3] + zeros[out[2] % 300];
}
extern "C" __global__ void third() {}
)";

Result<std::vector<std::byte>> compile(const backend::cuda::Nvrtc& nvrtc, int architecture) {
  const auto code =
      nvrtc.compile({.source = {"cubin_test.cu", kSource}, .architecture = architecture});
  if (!code) return Failure(code.error());
  return code->bytes;
}

class CubinTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EVERKERNEL_NEEDS_NVRTC(nvrtc);
    static const auto compiled = compile(*nvrtc, 90);
    ASSERT_TRUE(compiled) << compiled.error().message;
    bytes_ = *compiled;
  }
  Cubin load() const {
    auto cubin = Cubin::load(bytes_);
    EXPECT_TRUE(cubin) << cubin.error().message;
    return cubin ? *std::move(cubin) : Cubin();
  }

  std::vector<std::byte> bytes_ = {};
};

std::string refusal(std::span<const std::byte> bytes) {
  const auto cubin = Cubin::load(bytes);
  return cubin ? std::string("it was loaded") : cubin.error().message;
}
std::string refusal(std::string_view text) {
  return refusal(std::as_bytes(std::span(text.data(), text.size())));
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
// An offset, or a number of bytes.
std::size_t find_word(std::span<const std::byte> bytes, std::uint32_t word) {
  std::size_t at = 0;
  while (at < bytes.size() && word_at(bytes, at) != word) at += 4;
  return at;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Cubin, bytes_that_are_no_module_are_refused) {
  EXPECT_HAS(refusal(std::string_view()), "cubin: 0 bytes are no file");
  EXPECT_HAS(refusal("\x7F"
                     "ELF"),
             "cubin: 4 bytes are no file");
  EXPECT_HAS(refusal(std::string(1000, 'x')), "cubin: no ELF file");
  EXPECT_HAS(refusal(std::string(1000, '\0')), "cubin: no ELF file");
  EXPECT_HAS(refusal(".version 9.0\n.target sm_90\n.address_size 64\n// " + std::string(80, '-')),
             "cubin: no ELF file");
}

TEST_F(CubinTest, kernels_say_what_they_need) {
  const Cubin cubin = load();
  ASSERT_EQ(cubin.kernels().size(), 3u);
  const Kernel& first = cubin.kernels().at("first");
  EXPECT_EQ(first.name, "first");
  ASSERT_EQ(first.parameters.size(), 4u);
  const std::uint32_t places[][2] = {{0, 8}, {8, 1}, {16, 8}, {24, 16}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(first.parameters[i].offset, places[i][0]);
    EXPECT_EQ(first.parameters[i].size, places[i][1]);
  }
  EXPECT_EQ(first.parameter_offset, 0x210u);
  EXPECT_EQ(first.constants.size(), 0x210u + 40);
  EXPECT_EQ(first.shared_bytes, 100u);
  EXPECT_EQ(first.local_bytes, 0u);
  EXPECT_EQ(first.max_threads, 1024u);
  EXPECT_FALSE(first.code.empty());
  const Kernel& second = cubin.kernels().at("second");
  EXPECT_EQ(second.shared_bytes, 0u);
  EXPECT_EQ(second.local_bytes, 256u);
  EXPECT_EQ(second.max_threads, 64u);
  const Kernel& third = cubin.kernels().at("third");
  EXPECT_TRUE(third.parameters.empty());
  for (const auto& [name, kernel] : cubin.kernels()) {
    EXPECT_GT(kernel.register_count, 0u) << name;
    EXPECT_LE(kernel.register_count, 64u) << name;
    EXPECT_EQ(kernel.code.size() % 16, 0u) << name;
  }
}

TEST_F(CubinTest, variables_begin_with_their_values) {
  const Cubin cubin = load();
  const auto globals = cubin.globals();
  const std::size_t at = find_word(globals, 0x11111111);
  ASSERT_LE(at + 16, globals.size());
  for (std::uint32_t i = 1; i < 4; ++i) EXPECT_EQ(word_at(globals, at + 4 * i), i + 1);
  EXPECT_GE(globals.size(), 16u + 1200 + 8);
  // The pointer variable holds an address of this process.
  const auto target = reinterpret_cast<std::uint64_t>(globals.data()) + at + 8;
  const std::size_t pointer = find_word(globals, static_cast<std::uint32_t>(target));
  ASSERT_LE(pointer + 8, globals.size());
  EXPECT_EQ(word_at(globals, pointer + 4), target >> 32);
}

TEST_F(CubinTest, constants_begin_with_their_values) {
  const Cubin cubin = load();
  const auto constants = cubin.constants(3);
  const std::size_t at = find_word(constants, 0xC0FFEE);
  ASSERT_LE(at + 12, constants.size());
  EXPECT_EQ(word_at(constants, at + 4), 5u);
  EXPECT_EQ(word_at(constants, at + 8), 6u);
  EXPECT_TRUE(cubin.constants(17).empty());
}

TEST_F(CubinTest, what_one_module_does_to_its_variables_another_one_does_not_see) {
  const Cubin one = load(), other = load();
  const std::size_t at = find_word(one.globals(), 0x11111111);
  ASSERT_LT(at, one.globals().size());
  one.globals()[at] = std::byte{9};
  EXPECT_EQ(find_word(other.globals(), 0x11111111), at);
}

TEST_F(CubinTest, every_kernel_can_be_read) {
  const Cubin cubin = load();
  for (const auto& [name, kernel] : cubin.kernels()) {
    const auto program = read_program(kernel);
    EXPECT_TRUE(program) << program.error().message;
  }
}

TEST_F(CubinTest, another_architecture_is_refused_by_its_name) {
  EVERKERNEL_NEEDS_NVRTC(nvrtc);
  for (const int architecture : {nvrtc->architectures().front(), nvrtc->architectures().back()}) {
    if (architecture == 90) continue;
    const auto code = compile(*nvrtc, architecture);
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(refusal(*code), fmt::format("cubin: made for sm_{}, not sm_90", architecture));
  }
}

TEST_F(CubinTest, a_module_that_is_cut_off_is_refused) {
  for (std::size_t size = 0; size < bytes_.size(); ++size) {
    // An exact copy, so that a sanitizer sees a read behind its end.
    const std::vector<std::byte> some(bytes_.begin(),
                                      bytes_.begin() + static_cast<std::ptrdiff_t>(size));
    const auto cubin = Cubin::load(some);
    if (cubin) {
      EXPECT_EQ(cubin->kernels().size(), 3u) << size;
    } else {
      EXPECT_TRUE(cubin.error().message.starts_with("cubin: ")) << cubin.error().message;
    }
  }
}

TEST_F(CubinTest, a_module_with_any_byte_changed_is_loaded_or_refused) {
  std::size_t refused = 0;
  for (std::size_t at = 0; at < bytes_.size(); ++at) {
    const std::byte before = bytes_[at];
    for (const unsigned change : {0x01u, 0x80u, 0xFFu}) {
      bytes_[at] = before ^ static_cast<std::byte>(change);
      const auto cubin = Cubin::load(bytes_);
      refused += !cubin;
      if (!cubin) {
        EXPECT_TRUE(cubin.error().message.starts_with("cubin: ")) << cubin.error().message;
      }
    }
    bytes_[at] = before;
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_TRUE(Cubin::load(bytes_));
}

}  // namespace
}  // namespace everkernel::simulator
