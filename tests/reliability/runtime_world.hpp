// A world with a megakernel: two workers, three buffers, and handlers on the interpreter unless the
// operation asks for native code.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <stdexcept>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/testing/faulty_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "operations_detail.hpp"
#include "support/ir_text.hpp"
#include "support/wire_bytes.hpp"

namespace everkernel::test {

/// One submission of 16 slots.
struct SampleBuffers {
  explicit SampleBuffers(bool is_quiet) {
    std::vector<SlotWords> slots(16);
    if (!is_quiet) {
      slots[0] = {1, 64, 0, 2, 1, 2, 5};
      slots[1] = {1, 65, 0, 2, 1, 2, 7};
      slots[2] = {1, 66, 0, 2, 1, 2, 2};
      slots[3] = {1, 67, 0, 2, 1, 2, 6};
      slots[4] = {1, 7, 0, 2, 4, 9};          // BATCH_FENCE over four slots
      slots[5] = {1, 0xFFFE, 0, 2, 1, 1, 2};  // PRINTF
      slots[6] = {1, 0xFFFD, 0, 2, 3};        // LOAD_MISS
      slots[7] = {1, 64, 5, 2, 1, 2, 1};      // of a disabled tenant
      slots[8] = {1, 9999, 0, 2};             // no handler
      slots[9] = {1, 0x80000001, 0, 2, 0x00010201, 3, 161};
    }
    ring = ring_of(slots);
  }
  HostBuffers buffers() const {
    return {.control = control, .ring = ring, .debug_log = debug_log, .io_queue = io_queue};
  }
  Bytes control = control_of({{3, 1}, {32, 1'000'000}}, 170);
  Bytes ring;
  Bytes debug_log = Bytes(36);
  Bytes io_queue = Bytes(64);
};

class RuntimeWorld : public World {
 public:
  explicit RuntimeWorld(const MegakernelOptions& options = {},
                        backend::Execution execution = backend::Execution::interpreter)
      : options_(options), execution_(execution) {}

  static MegakernelOptions options_with_handlers(
      MegakernelOptions options, backend::Execution execution = backend::Execution::interpreter) {
    options.slot_count = 16;
    options.workgroup_size = 1;
    options.handlers = *check_text(kSampleHandlers);
    options.execution = execution;
    options.worker_count = 2;
    return options;
  }

  void prepare() override {
    device = backend::FaultyBackend::wrap(backend::cpu::make_backend({.cache = {}}));
    kernel.emplace(*Megakernel::create(device, options_with_handlers(options_, execution_)));
    input.emplace(*kernel->create_buffer({.handle = 1, .word_count = 4, .keep_host_copy = true}));
    output.emplace(*kernel->create_buffer({.handle = 2, .word_count = 8, .keep_host_copy = true}));
    second.emplace(*kernel->create_buffer({.handle = 3, .word_count = 8, .keep_host_copy = true}));
  }

 protected:
  static std::string words_of_buffer(const DataBuffer& buffer) {
    std::vector<Word> words(buffer.word_count());
    if (!buffer.read(0, words)) return "unreadable";
    return fmt::format("[{}]", fmt::join(words, " "));
  }
  static std::vector<Word> statuses(std::span<const std::byte> ring) {
    std::vector<Word> found;
    for (std::size_t word = 0; word < ring.size() / 4; word += 16) {
      found.push_back(word_at(ring, word));
    }
    return found;
  }
  /// The words of the buffers, which every item that ran changes.
  std::string results() const {
    return words_of_buffer(*input) + words_of_buffer(*output) + words_of_buffer(*second);
  }
  void dispatch_one(const abi::WorkItem& item) const {
    std::vector<SlotWords> slots(16);
    slots[0] = {1, item.op_handle, 0, 2, item.input_handle, item.output_handle, item.param};
    const Bytes ring = ring_of(slots);
    const Submission submission = HostBuffers{.control = sample.control, .ring = ring};
    const auto report =
        const_cast<Megakernel&>(*kernel).dispatch({.submissions = {&submission, 1}});
    if (!report || report->stats.items_done != 1) throw std::runtime_error("an item did not run");
  }

  const SampleBuffers sample{false};
  const SampleBuffers quiet{true};
  std::shared_ptr<backend::FaultyBackend> device;
  std::optional<Megakernel> kernel;
  std::optional<DataBuffer> input, output, second;

 private:
  MegakernelOptions options_;
  backend::Execution execution_;
};

}  // namespace everkernel::test
