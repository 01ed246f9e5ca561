// A trusted handler: code of your own that is not verified, as a C++ function for the CPU and as
// CUDA C++ text for a GPU. Sums the words of a buffer on a GPU if there is one, else on the CPU.
#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/ir/trusted_item.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/runtime/megakernel.hpp"

namespace {

using namespace everkernel;
using abi::Word;

constexpr Word kOpcode = 64;
constexpr Word kNumbers = 1;
constexpr Word kSum = 2;
constexpr Word kCount = 100'000;
constexpr Word kItems = 10;

// Reads the whole buffer at once: no item writes it meanwhile, so that the loop may be vectorised.
ir::Outcome sum_words(ir::TrustedItem& item) {
  const auto words = item.input().readable();
  item.output().atomic_add(0, std::accumulate(words.begin(), words.end(), Word{0}));
  return item.done();
}

// Every thread of the block sums its share of the words, then one thread adds the total to output.
constexpr std::string_view kSumWords = R"(
  template <class Item>
  __device__ Word sum_words(Item& item) {
    const auto words = item.input().readable();
    Word sum = 0;
    for (Word i = item.thread(); i < words.size(); i += item.thread_count()) sum += words[i];
    sum = item.total(sum);
    if (item.leads()) item.output().atomic_add(0, sum);
    return item.done();
  }
)";

// Declares the effects that the verifier would find in a verified handler; the runtime relies on
// them. Items with the same output commute.
ir::TrustedHandler handler() {
  return {.name = "sum_words",
          .opcode = kOpcode,
          .scope = ir::Scope::group,
          .effects = {.reads_input = true, .reads_output = true, .writes_output = true},
          .commutes = true,
          .cpu = sum_words,
          .cuda = std::string(kSumWords)};
}

std::shared_ptr<backend::Backend> find_backend() {
  auto gpu = backend::cuda::make_backend();
  return gpu->capabilities().supported ? gpu : backend::cpu::make_backend();
}

Result<Word> run(const std::shared_ptr<backend::Backend>& backend) {
  auto kernel = Megakernel::create(backend, {.trusted_handlers = {handler()}});
  if (!kernel) return Failure(kernel.error());
  std::vector<Word> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 1u);
  DataBuffer input = EVERKERNEL_TRY(kernel->create_buffer(
      {.handle = kNumbers, .word_count = kCount, .access = memory::Access::read}));
  const DataBuffer output =
      EVERKERNEL_TRY(kernel->create_buffer({.handle = kSum, .word_count = 1}));
  EVERKERNEL_TRY(input.write(0, numbers));

  const protocol::ControlLayout layout;
  std::vector<std::byte> control(*protocol::control_bytes(layout));
  std::vector<std::byte> ring(std::size_t{kernel->slot_count()} * abi::kSlotBytes);
  EVERKERNEL_TRY(protocol::encode_control(layout, control));
  const std::vector<abi::WorkItem> items(kItems, {kOpcode, kNumbers, kSum, 0});
  EVERKERNEL_TRY(protocol::encode_items({.items = items}, ring));
  const Submission submissions[] = {HostBuffers{.control = control, .ring = ring}};
  const auto report = kernel->dispatch({.submissions = submissions, .readback = Readback::none});
  if (!report) return Failure(report.error());
  Word sum = 0;
  EVERKERNEL_TRY(output.read(0, {&sum, 1}));
  return sum;
}

}  // namespace

int main() {
  const auto backend = find_backend();
  const auto sum = run(backend);
  if (!sum) {
    fmt::print("error: {}\n", sum.error().message);
    return 1;
  }
  fmt::print("{} times the sum of 1 … {} on backend {}, modulo 2^32: {}\n", kItems, kCount,
             backend->capabilities().id, *sum);
  constexpr std::uint64_t kExpected = std::uint64_t{kCount} * (kCount + 1) / 2 * kItems;
  return *sum == static_cast<Word>(kExpected) ? 0 : 1;
}
