#include "resident_items.hpp"

#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "runtime/state.hpp"

namespace everkernel::bench {

using abi::WorkItem;

ir::VerifiedProgram program_of(std::string_view handlers) {
  return must(ir::verify(must(ir::parse(handlers))));
}

MegakernelOptions options_for(std::string_view handlers, Word slots) {
  return {.slot_count = slots, .handlers = program_of(handlers)};
}

std::vector<std::byte> fresh_control() {
  const protocol::ControlLayout layout{.tenant_count = 1};
  std::vector<std::byte> control(must(protocol::control_bytes(layout)));
  must(protocol::encode_control(layout, control));
  return control;
}

std::vector<WorkItem> numbered_items(Word opcode, Word count) {
  std::vector<WorkItem> items(count, WorkItem{opcode, kInput, kOutput, 0});
  for (Word i = 0; i < count; ++i) items[i].param = i;
  return items;
}

ResidentRing::ResidentRing(const Peers& peers, Megakernel& kernel, std::span<const WorkItem> items)
    : peers_(peers), kernel_(kernel), slots_(static_cast<Word>(items.size())) {
  std::vector<std::byte> ring(must(protocol::ring_bytes(slots_)));
  must(protocol::encode_items({.items = items}, ring));
  buffers_.emplace(must(kernel_.make_resident({.control = fresh_control(), .ring = ring})));
}

void ResidentRing::republish() {
  Word* const ring = buffers_->state().buffers[1].memory->device_address();
  peers_.launch(peers_.kernel("republish"), peers_.whole_device(), ring, slots_);
  peers_.wait();
}

void ResidentRing::dispatch() {
  const Submission submission(&*buffers_);
  const auto report = must(kernel_.dispatch(
      {.submissions = {&submission, 1}, .readback = Readback::none, .workspace = &workspace_}));
  expect(report.stats.items_done == slots_, "a dispatch runs every slot");
}

double ResidentRing::dispatch_ns() {
  republish();
  return host_ns([this] { dispatch(); });
}

DataBuffer make_buffer(Megakernel& kernel, Word handle, std::size_t word_count,
                       memory::Access access) {
  return must(kernel.create_buffer({.handle = handle, .word_count = word_count, .access = access}));
}

Word saxpy_after(std::size_t i, int runs) {
  float value = std::bit_cast<float>(saxpy_y(i));
  for (int run = 0; run < runs; ++run) {
    const float product = kFactor * std::bit_cast<float>(saxpy_x(i));
    value = product + value;
  }
  return std::bit_cast<Word>(value);
}

SaxpyItems::SaxpyItems(const Peers& peers, const std::shared_ptr<backend::Backend>& cuda,
                       std::string_view handler, Word items)
    : kernel_(must(Megakernel::create(cuda, options_for(handler, items)))),
      x_(make_buffer(kernel_, kInput, words_of(items), memory::Access::read)),
      y_(make_buffer(kernel_, kOutput, words_of(items))),
      ring_(peers, kernel_, numbered_items(64, items)) {
  fill_saxpy(x_, y_, words_of(items));
  ring_.dispatch();
  check_saxpy(y_, words_of(items), 1);
}

}  // namespace everkernel::bench
