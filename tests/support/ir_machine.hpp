// Runs one item on the reference interpreter or in a trusted handler, with buffers, control words
// and hooks that tests check afterwards.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "everkernel/ir/interpreter.hpp"
#include "everkernel/ir/trusted.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "support/ir_text.hpp"

namespace everkernel::ir {

/// Prints an outcome in failed expectations.
inline void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << "ending " << static_cast<Word>(outcome.ending) << ", code " << outcome.fault_code;
}

}  // namespace everkernel::ir

namespace everkernel::test {

using abi::FaultCode;
using abi::Word;
using ir::Ending;
using ir::Outcome;

inline constexpr Outcome kDone{Ending::done, 0};

constexpr Outcome faulted(FaultCode code) {
  return {Ending::fault, static_cast<Word>(code)};
}

/// An item of tenant 0 whose input is buffer 1 {10, 20, 30, 40} and whose output is buffer 2, eight
/// zeros.
class Machine {
 public:
  Machine() {
    const auto words = add({.handle = 1, .word_count = 4});
    for (Word i = 0; i < 4; ++i) words[i] = 10 * (i + 1);
    output = add({.handle = 2, .word_count = 8});
    frame.args[0] = 1;
    frame.args[1] = 2;
    frame.control = control.data();
    frame.control_words = static_cast<Word>(control.size());
    frame.hooks = &hooks_;
    hooks_.self = this;
    hooks_.print = [](void* self, Word fmt, Word a, Word b) {
      static_cast<Machine*>(self)->prints.push_back({fmt, a, b});
    };
    hooks_.emit = [](void* self, Word a, Word b, Word c) {
      static_cast<Machine*>(self)->hits.push_back({a, b, c});
    };
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Puts a buffer into the table.
  std::span<Word> add(const memory::BufferOptions& options) {
    auto buffer = table_.create(options);
    EXPECT_TRUE(buffer.has_value());
    buffers_.push_back(*std::move(buffer));
    return buffers_.back().words();
  }

  /// Runs a body once.
  Outcome run(std::string_view body, std::string_view attributes = "") {
    const auto verified = check_text(in_handler(body, attributes));
    EXPECT_TRUE(verified.has_value()) << body << ": " << verified.error().message;
    if (!verified) return {Ending::fault, 0xFFFFFFFF};
    return run(verified->handlers()[0]);
  }

  /// Runs a handler once.
  Outcome run(const ir::VerifiedHandler& handler) {
    frame.buffers = table_.view();
    return ir::interpret(handler, frame);
  }

  /// Runs a handler once, unless it takes the way out.
  std::optional<Outcome> run(const ir::VerifiedHandler& handler, ir::WayOut& way_out) {
    frame.buffers = table_.view();
    return ir::interpret(handler, frame, way_out);
  }

  /// Runs the C++ function of a trusted handler once.
  Outcome run(const ir::TrustedHandler& handler) {
    frame.buffers = table_.view();
    return ir::run_trusted(handler, frame);
  }

  std::vector<Word> control = std::vector<Word>(200);
  std::span<Word> output;
  std::vector<std::vector<Word>> prints, hits;
  ir::ItemFrame frame;

 private:
  ir::ItemHooks hooks_;
  memory::BufferTable table_;
  std::deque<memory::Buffer> buffers_;
};

/// The word a u32 expression gives.
inline Word value_of(std::string_view expression) {
  Machine machine;
  EXPECT_EQ(machine.run("output[0] = " + std::string(expression) + ";"), kDone) << expression;
  return machine.output[0];
}

}  // namespace everkernel::test
