// Replaces the #include lines of the embedded device headers by their texts, each once.
#include "everkernel/backend/cuda/translation_unit.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "backend/cuda/device_source.hpp"
#include "everkernel/base/assert.hpp"
#include "everkernel/jit/cuda_source.hpp"

namespace everkernel::backend::cuda {
namespace {

// Compilers drop device functions that no kernel calls.
constexpr std::string_view kKernel = R"(
/// Runs one item of the handler that its opcode names, or of the payload.
extern "C" __global__ void everkernel_run_item(
    const __grid_constant__ everkernel::device::Item before, everkernel::device::Item* after,
    everkernel::device::Word* outcome) {
  using namespace everkernel::device;
  Item item = before;
  const Word handler = kPayload != kNoHandler ? kPayload : find_handler(item.opcode);
  const Word traits = traits_of(handler);
  if ((traits & kTraitGroup) != 0) {
    *outcome = run_group_handler(handler, item);
  } else if ((traits & kTraitWarp) != 0) {
    *outcome = run_warp_handler(handler, item);
  } else {
    *outcome = run_lane_handler(handler, item);
  }
  *after = item;
}
)";

class Unit {
 public:
  // Appends a text, line by line.
  void add(std::string_view text) {
    constexpr std::string_view kInclude = "#include \"";
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end);
      if (line.starts_with(kInclude)) {
        add_header(line.substr(kInclude.size(), line.rfind('"') - kInclude.size()));
      } else if (!line.starts_with("#pragma once")) {
        text_ += line;
      }
    }
  }

  void add_header(std::string_view name) {
    if (!included_.insert(name).second) return;
    const auto headers = device_headers();
    const auto header = std::ranges::find(headers, name, &SourceText::name);
    EVERKERNEL_ASSERT(header != headers.end());
    add(header->text);
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::set<std::string_view> included_;  // views of the embedded texts
};

}  // namespace

std::string emit_translation_unit(const ir::VerifiedProgram& program) {
  Unit unit;
  unit.add_header("jit/device/handler.cuh");
  unit.add(jit::emit_cuda(program, {.payload = program.payload() != nullptr}));
  unit.add(kKernel);
  return unit.take();
}

}  // namespace everkernel::backend::cuda
