// The memory that one execution of an item uses, set from a FrameSpec. Buffers touch forbidden
// pages.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "everkernel/memory/buffer_table.hpp"
#include "support/jit_trial.hpp"

namespace everkernel::test {

/// Kept between runs, because mapping pages costs more than a run.
class Stage {
 public:
  /// The frame of an item; valid until the next call.
  ir::ItemFrame& set(const FrameSpec& spec);
  /// The words and calls that a run of that frame left.
  RunResult collect(ir::Outcome outcome) const;

 private:
  void fill_buffers(const FrameSpec& spec);
  static void print(void* self, Word a, Word b, Word c);
  static void emit(void* self, Word a, Word b, Word c);

  std::deque<GuardedRegion> regions_;
  GuardedRegion control_;
  GuardedRegion abort_;
  std::optional<memory::BufferTable> table_;
  std::vector<memory::Buffer> buffers_;
  std::vector<HookCall> calls_;
  ir::ItemHooks hooks_{.self = this, .print = &Stage::print, .emit = &Stage::emit};
  ir::ItemFrame frame_;
};

}  // namespace everkernel::test
