#include "support/jit_stage.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace everkernel::test {

ir::ItemFrame& Stage::set(const FrameSpec& spec) {
  fill_buffers(spec);
  const std::span<Word> control = control_.place(spec.control.size(), spec.control_edge);
  std::ranges::copy(spec.control, control.begin());
  calls_.clear();
  frame_ = {};
  std::ranges::copy(spec.args, frame_.args);
  frame_.opcode = spec.opcode;
  frame_.tenant = spec.tenant;
  frame_.priority = spec.priority;
  frame_.slot = spec.slot;
  frame_.lanes = spec.lanes;
  frame_.control_words = static_cast<Word>(control.size());
  frame_.control = control.data();
  frame_.buffers = table_->view();
  frame_.fuel = spec.fuel;
  Word* const abort = abort_.place(1, Edge::end).data();
  *abort = Word{spec.abort == Abort::set};
  frame_.abort = spec.abort == Abort::absent ? nullptr : abort;
  frame_.hooks = spec.has_hooks ? &hooks_ : nullptr;
  return frame_;
}

RunResult Stage::collect(ir::Outcome outcome) const {
  RunResult result{.outcome = outcome, .fuel = frame_.fuel, .io = frame_.io};
  std::ranges::copy(frame_.args, result.args.begin());
  result.calls = calls_;
  result.is_intact = control_.is_intact() && abort_.is_intact();
  for (const memory::Buffer& buffer : buffers_) {
    result.buffers.emplace_back(buffer.words().begin(), buffer.words().end());
  }
  for (const GuardedRegion& region : regions_) result.is_intact &= region.is_intact();
  result.control.assign(control_.words().begin(), control_.words().end());
  return result;
}

void Stage::fill_buffers(const FrameSpec& spec) {
  buffers_.clear();
  table_.emplace();
  while (regions_.size() < spec.buffers.size()) regions_.emplace_back();
  std::vector<std::span<Word>> memory;
  for (std::size_t i = 0; i < spec.buffers.size(); ++i) {
    const BufferSpec& buffer = spec.buffers[i];
    if (buffer.alias_of) {
      memory.push_back(memory[*buffer.alias_of].subspan(buffer.alias_first, buffer.words.size()));
    } else {
      memory.push_back(regions_[i].place(buffer.words.size(), buffer.edge));
      std::ranges::copy(buffer.words, memory.back().begin());
    }
    auto adopted = table_->adopt(
        {.handle = buffer.handle, .access = buffer.access, .owner = buffer.owner}, memory.back());
    if (!adopted) {
      std::fprintf(stderr, "the frame is wrong: %s\n", adopted.error().message.c_str());
      std::abort();
    }
    buffers_.push_back(*std::move(adopted));
  }
}

void Stage::print(void* self, Word a, Word b, Word c) {
  static_cast<Stage*>(self)->calls_.push_back({0, a, b, c});
}
void Stage::emit(void* self, Word a, Word b, Word c) {
  static_cast<Stage*>(self)->calls_.push_back({1, a, b, c});
}

}  // namespace everkernel::test
