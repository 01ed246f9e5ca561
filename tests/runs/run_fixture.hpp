// A megakernel with handlers and buffers, for jobs written by hand.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "everkernel/runtime/megakernel.hpp"
#include "support/backend_under_test.hpp"
#include "support/ir_text.hpp"
#include "support/results.hpp"

namespace everkernel::test {

/// Opcodes of kHandlers.
enum : Word {
  kNop = 0,
  kCopy = 64,      ///< pure: output[0] = input[0] + param
  kAdd = 65,       ///< commutes: output[0] += param; faults with param 666
  kScale = 66,     ///< output[0] = output[0] * 3 + param; faults with param 666
  kMove = 67,      ///< output[0] = input[0] * 2 + param; faults with param 666
  kPeek = 68,      ///< reads input
  kSet = 69,       ///< pure: output[0] = param
  kSlowMove = 70,  ///< as kMove, after a delay
  kByHandle = 71,  ///< barrier: buffer(9)[0] = buffer(8)[0] * 3 + param
  kControl = 72,   ///< barrier: an observable
  kMoveArg = 73,   ///< barrier: stores to args[1]
  kAnyArg = 74,    ///< barrier: stores to args at no constant index
  kMax = 75,       ///< pure commutes: output[0] = max(output[0], input[0])
  kLowest = 76,    ///< pure: an atomic on output
  kEmit = 77,      ///< emits param times
  kWork = 78,      ///< takes param turns, then adds 1 to output[0]
  kWho = 79,       ///< output: tenant, priority
  kObserve = 80,   ///< output[0] = the observable of kControl
  kAddFrom = 81,   ///< commutes: output[0] += input[0]
};

inline constexpr std::string_view kHandlers = R"(
handler copy = 64 pure { output[0] = input[0] + param; }
handler add = 65 commutes { if param == 666 { fault 6; } atomic_add(output[0], param); }
handler scale = 66 { if param == 666 { fault 6; } output[0] = output[0] * 3 + param; }
handler move = 67 { if param == 666 { fault 6; } output[0] = input[0] * 2 + param; }
handler peek = 68 { if input[0] == 0xffffffff { emit(1, 1, 1); } }
handler set = 69 pure { if param == 666 { fault 6; } output[0] = param; }
handler slow_move = 70 {
  var x = 0;
  for i in 0 .. 20000 { x = rotl(x, 3) ^ i; }
  if x == 1 { fault 1; }
  output[0] = input[0] * 2 + param;
}
handler by_handle = 71 { buffer(9)[0] = buffer(8)[0] * 3 + param; }
handler set_control = 72 { control[160] = control[160] * 3 + param; }
handler move_arg = 73 { args[1] = 9; output[0] = output[0] * 3 + param; }
handler any_arg = 74 { args[1 + param % 1] = 9; output[0] = output[0] * 3 + param; }
handler largest = 75 pure commutes { atomic_max(output[0], input[0]); }
handler lowest = 76 pure { atomic_min(output[0], input[0]); }
handler report = 77 { for i in 0 .. param { emit(i, param, 7); } }
handler work = 78 {
  var x = 0;
  for i in 0 .. param { x = rotl(x, 3) ^ i; }
  if x == 1 { fault 1; }
  output[0] = output[0] + 1;
}
handler who = 79 { output[0] = tenant; output[1] = priority; }
handler observe = 80 { output[0] = control[160]; }
handler add_from = 81 commutes { atomic_add(output[0], input[0]); }
)";

/// Buffers 1 … 20 of four words, all of them their handle; jobs run on several workers.
class Runner {
 public:
  explicit Runner(const MegakernelOptions& options = {.slot_count = 64,
                                                      .workgroup_size = 1,
                                                      .worker_count = 4},
                  std::string_view text = kHandlers)
      : Runner(backend_under_test(), options, text) {}
  Runner(std::shared_ptr<backend::Backend> backend, MegakernelOptions options,
         std::string_view text) {
    auto program = check_text(text);
    EXPECT_TRUE(program) << message_of(program);
    options.handlers = *program;
    options.execution = usual_execution();
    auto made = Megakernel::create(std::move(backend), options);
    EXPECT_TRUE(made) << message_of(made);
    kernel.emplace(*std::move(made));
    for (Word handle = 1; handle <= 20; ++handle) add_buffer({.handle = handle, .word_count = 4});
  }

  void add_buffer(const DataBufferOptions& options) {
    auto made = kernel->create_buffer(options);
    ASSERT_TRUE(made) << message_of(made);
    const std::vector<Word> words(options.word_count, options.handle);
    ASSERT_TRUE(made->write(0, words));
    buffers.emplace(options.handle, *std::move(made));
  }

  /// Runs the items; an error fails the test.
  RunReport run(const std::vector<abi::WorkItem>& items, const RunOptions& options = {}) {
    auto report = kernel->run(items, options);
    EXPECT_TRUE(report) << message_of(report);
    if (!report) return {.outcomes = std::vector<Word>(items.size())};
    EXPECT_EQ(report->items_processed + report->items_faulted + report->items_remaining,
              items.size());
    EXPECT_EQ(report->outcomes.size(), items.size());
    return *std::move(report);
  }

  /// A word of a buffer.
  Word word(Word handle, Word index = 0) const {
    Word word = 0;
    EXPECT_TRUE(buffers.at(handle).read(index, std::span(&word, 1)));
    return word;
  }
  void set_word(Word handle, Word value) {
    EXPECT_TRUE(buffers.at(handle).write(0, std::span(&value, 1)));
  }

  std::optional<Megakernel> kernel = {};
  std::map<Word, DataBuffer> buffers = {};
};

/// The items of every region; needs lineage.
inline std::vector<std::vector<Word>> regions_of(const RunReport& report) {
  std::vector<std::vector<Word>> regions;
  for (std::size_t r = 0; r < report.region_count(); ++r) {
    const RegionView view = report.region(r);
    regions.emplace_back(view.items.begin(), view.items.end());
  }
  return regions;
}

/// Fault codes of all items, 0 for those that are processed.
inline std::vector<Word> codes_of(const RunReport& report) {
  std::vector<Word> codes;
  for (std::size_t i = 0; i < report.outcomes.size(); ++i) {
    EXPECT_NE(report.end_of(i), ItemEnd::remaining) << "item " << i;
    codes.push_back(report.fault_code(i));
  }
  return codes;
}

}  // namespace everkernel::test
