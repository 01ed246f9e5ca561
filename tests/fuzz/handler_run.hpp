// What the fuzz targets of handlers do with a program that verifies: print it, parse it again, and
// run both for a moment.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "everkernel/base/assert.hpp"
#include "everkernel/ir/interpreter.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/printer.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::fuzz {

using abi::Word;

inline constexpr std::uint64_t kFuel = 200;

// The words and the outcome of a run.
struct Trace {
  ir::Outcome outcome;
  std::vector<Word> words;
};

inline Trace run(const ir::VerifiedHandler& handler) {
  std::array<Word, 4> input = {0, 1, 0x3F800000, 0xFFFFFFFF};
  std::array<Word, 8> output = {};
  std::vector<Word> control(168);
  memory::BufferTable table;
  const auto first = table.adopt({.handle = 1, .access = memory::Access::read}, input);
  const auto second = table.adopt({.handle = 2}, output);
  EVERKERNEL_ASSERT(first && second);
  ir::ItemFrame frame{.args = {1, 2, 3, 4}, .opcode = 64, .tenant = 1, .lanes = 4};
  frame.control = control.data();
  frame.control_words = static_cast<Word>(control.size());
  frame.buffers = table.view();
  frame.fuel = kFuel;
  Trace trace;
  ir::ItemHooks hooks{.self = &trace.words};
  hooks.print = hooks.emit = [](void* words, Word a, Word b, Word c) {
    static_cast<std::vector<Word>*>(words)->insert(static_cast<std::vector<Word>*>(words)->end(),
                                                   {a, b, c});
  };
  frame.hooks = &hooks;
  trace.outcome = ir::interpret(handler, frame);
  EVERKERNEL_ASSERT(frame.fuel <= kFuel);
  EVERKERNEL_ASSERT((trace.outcome.ending == ir::Ending::fault) == (trace.outcome.fault_code != 0));
  EVERKERNEL_ASSERT((input == std::array<Word, 4>{0, 1, 0x3F800000, 0xFFFFFFFF}));
  EVERKERNEL_ASSERT(
      std::all_of(control.begin(), control.begin() + 160, [](Word w) { return w == 0; }));
  trace.words.insert(trace.words.end(), output.begin(), output.end());
  trace.words.insert(trace.words.end(), control.begin(), control.end());
  trace.words.insert(trace.words.end(), std::begin(frame.args), std::end(frame.args));
  return trace;
}

inline std::string print(const ir::VerifiedProgram& verified) {
  return ir::print(verified.source());
}

// A program that verifies is printed to a fixed point that verifies and gives the same run.
inline void check_verified(const ir::VerifiedProgram& verified) {
  const std::string printed = print(verified);
  const auto parsed = ir::parse(printed);
  EVERKERNEL_ASSERT(parsed.has_value());
  const auto again = ir::verify(*parsed);
  EVERKERNEL_ASSERT(again.has_value());
  EVERKERNEL_ASSERT(print(*again) == printed);
  EVERKERNEL_ASSERT(again->handlers().size() == verified.handlers().size());
  for (std::size_t i = 0; i < again->handlers().size(); ++i) {
    const Trace x = run(verified.handlers()[i]), y = run(again->handlers()[i]);
    EVERKERNEL_ASSERT(x.outcome == y.outcome && x.words == y.words);
  }
}

}  // namespace everkernel::fuzz
