// A custom operation: the text of a handler is verified and compiled. The handler uses data in
// buffers, which work items name by handle.
#include <fmt/format.h>

#include <bit>
#include <vector>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/runtime/megakernel.hpp"

namespace {

using namespace everkernel;
using abi::Word;

constexpr std::string_view kSaxpy = R"(
  // y[i] = a * x[i] + y[i] on f32 words; param holds the bits of a
  handler saxpy = 64 {
    let a = bits_f32(param);
    let n = min(len(input), len(output));
    for i in 0 .. n {
      output[i] = bits_u32(a * bits_f32(input[i]) + bits_f32(output[i]));
    }
  }
)";
constexpr Word kOpcode = 64;
constexpr Word kX = 1;
constexpr Word kY = 2;
constexpr std::size_t kWords = 10'000;

Result<Megakernel> compile() {
  ir::Program program = EVERKERNEL_TRY(ir::parse(kSaxpy));
  const ir::VerifiedProgram verified = EVERKERNEL_TRY(ir::verify(std::move(program)));
  return Megakernel::create(backend::cpu::make_backend(), {.handlers = verified});
}

// A buffer with the bits of these floats.
Result<DataBuffer> upload(Megakernel& kernel, Word handle, std::span<const float> values) {
  std::vector<Word> words;
  for (const float value : values) words.push_back(std::bit_cast<Word>(value));
  auto buffer = kernel.create_buffer({.handle = handle, .word_count = words.size()});
  if (buffer) EVERKERNEL_TRY(buffer->write(0, words));
  return buffer;
}

Result<bool> run() {
  Megakernel kernel = EVERKERNEL_TRY(compile());
  std::vector<float> x(kWords), y(kWords);
  for (std::size_t i = 0; i < kWords; ++i) {
    x[i] = static_cast<float>(i);
    y[i] = 1.0f;
  }
  const DataBuffer input = EVERKERNEL_TRY(upload(kernel, kX, x));
  const DataBuffer output = EVERKERNEL_TRY(upload(kernel, kY, y));

  const protocol::ControlLayout layout;
  std::vector<std::byte> control(*protocol::control_bytes(layout));
  std::vector<std::byte> ring(std::size_t{kernel.slot_count()} * abi::kSlotBytes);
  EVERKERNEL_TRY(protocol::encode_control(layout, control));
  const abi::WorkItem items[] = {{.op_handle = kOpcode,
                                  .input_handle = kX,
                                  .output_handle = kY,
                                  .param = std::bit_cast<Word>(0.5f)}};
  EVERKERNEL_TRY(protocol::encode_items({.items = items}, ring));
  const Submission submissions[] = {HostBuffers{.control = control, .ring = ring}};
  const DispatchReport report =
      EVERKERNEL_TRY(kernel.dispatch({.submissions = submissions, .readback = Readback::none}));

  std::vector<Word> result(kWords);
  EVERKERNEL_TRY(output.read(0, result));
  bool is_right = report.stats.items_done == 1;
  for (std::size_t i = 0; i < kWords; ++i) {
    is_right = is_right && std::bit_cast<float>(result[i]) == 0.5f * x[i] + y[i];
  }
  fmt::print("saxpy of {} words: y[4] = {}\n", kWords, std::bit_cast<float>(result[4]));
  return is_right;
}

}  // namespace

int main() {
  const auto is_right = run();
  if (!is_right) fmt::print("error: {}\n", is_right.error().message);
  return is_right && *is_right ? 0 : 1;
}
