// A trusted handler: code of your own that nobody verifies, as a C++ function for the CPU and as
// CUDA C++ text for a GPU. Sums the words of a buffer on whichever of the two is there.
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

// The whole buffer at once: nobody writes it meanwhile, so that the loop may be vectorised.
ir::Outcome sum_words(ir::TrustedItem& item) {
  const auto words = item.input().readable();
  item.output().atomic_add(0, std::accumulate(words.begin(), words.end(), Word{0}));
  return item.done();
}

// Every thread of the block adds up its share, then one of them stores what all have.
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

// What the verifier would find out is declared, and believed: items on one output commute.
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
