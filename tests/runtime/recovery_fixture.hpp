// A megakernel on a device that tests can make fail.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "everkernel/abi/fault.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/testing/faulty_backend.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/bytes.hpp"
#include "support/ir_text.hpp"
#include "support/results.hpp"

namespace everkernel::test {

using backend::FaultKind;
using backend::FaultStep;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr Word kSlots = 8;
/// Adds 1 to word 0 of its output: a second run changes the result.
inline constexpr Word kCount = 64;
/// Writes its parameter to its output: a second run does not change the result.
inline constexpr Word kFill = 65;

inline constexpr std::string_view kHandlers = R"(
handler count = 64 { atomic_add(output[0], 1); }
handler fill = 65 pure { output[0] = param; }
)";

/// A megakernel over a faulty CPU backend, and host buffers for it.
class OnAFaultyDevice : public testing::Test {
 protected:
  void SetUp() override {
    device = backend::FaultyBackend::wrap(backend::cpu::make_backend());
    auto program = check_text(kHandlers);
    ASSERT_TRUE(program);
    auto made = Megakernel::create(
        device,
        {.slot_count = kSlots, .workgroup_size = 1, .handlers = *program, .worker_count = 2});
    ASSERT_TRUE(made) << message_of(made);
    kernel.emplace(std::move(*made));
    control.resize(*protocol::control_bytes({.tenant_count = 4, .observable_slots = 4}));
    ASSERT_TRUE(protocol::encode_control({.tenant_count = 4, .observable_slots = 4}, control));
    ring.resize(*protocol::ring_bytes(kSlots));
  }

  /// The ring holds these items from slot 0 on.
  void fill_ring(const std::vector<abi::WorkItem>& items) {
    ASSERT_TRUE(protocol::encode_items({.items = items}, ring));
  }

  Submission host() const { return HostBuffers{.control = control, .ring = ring}; }

  Result<DispatchReport> dispatch(const Submission& submission, DispatchOptions options = {}) {
    options.submissions = {&submission, 1};
    return kernel->dispatch(options);
  }

  DataBuffer buffer(Word handle, bool keep_host_copy) {
    auto made = kernel->create_buffer(
        {.handle = handle, .word_count = 4, .keep_host_copy = keep_host_copy});
    EXPECT_TRUE(made) << message_of(made);
    return std::move(*made);
  }

  static Word first_word(const DataBuffer& buffer) {
    Word word = 0;
    EXPECT_TRUE(buffer.read(0, {&word, 1}));
    return word;
  }

  std::shared_ptr<backend::FaultyBackend> device;
  std::optional<Megakernel> kernel;
  Bytes control;
  Bytes ring;
};

}  // namespace everkernel::test
