#include "simulator/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string>
#include <vector>

#include "simulator/warp.hpp"

namespace everkernel::simulator {
namespace {

constexpr std::uint32_t kSharedUnit = 128;  // granularity of shared memory

// Offsets in constant bank 0 of values that a launch sets.
constexpr std::size_t kBlockSize = 0x0, kGridSize = 0xC;  // three words each
constexpr std::size_t kLocalWindow = 0x20, kStackTop = 0x28;

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t offset, const T& value) {
  if (bytes.size() < offset + sizeof value) bytes.resize(offset + sizeof value);
  std::memcpy(&bytes[offset], &value, sizeof value);
}

std::vector<std::byte> bank_of(const Kernel& kernel, const Launch& launch,
                               std::uint32_t local_bytes) {
  std::vector<std::byte> bank = kernel.constants;
  // Words that the real driver sets and whose meaning is not known hold a recognisable pattern.
  std::fill_n(bank.begin(), std::min<std::size_t>(bank.size(), kernel.parameter_offset),
              std::byte{0xA5});
  const std::uint32_t block[3] = {launch.thread_count, 1, 1};
  const std::uint32_t grid[3] = {launch.block_count, 1, 1};
  put(bank, kBlockSize, block);
  put(bank, kGridSize, grid);
  put(bank, kLocalWindow, kLocalAddress);
  put(bank, kStackTop, local_bytes);
  bank.resize(
      std::max<std::size_t>(bank.size(), kernel.parameter_offset + launch.parameters.size()));
  std::ranges::copy(launch.parameters, bank.begin() + kernel.parameter_offset);
  return bank;
}

}  // namespace

class Program {
 public:
  Kernel kernel = {};
  std::vector<Step> steps = {};
};

Result<std::shared_ptr<const Program>> read_program(const Kernel& kernel) {
  auto program = std::make_shared<Program>();
  program->kernel = kernel;
  for (std::size_t place = 0; place + kInstructionBytes <= kernel.code.size();
       place += kInstructionBytes) {
    const std::span<const std::byte, kInstructionBytes> bytes(&kernel.code[place],
                                                              kInstructionBytes);
    const Instruction instruction = EVERKERNEL_TRY(decode(bytes, place));
    auto step = step_of(instruction);
    if (!step) {
      return fail(Code::unsupported, fmt::format("{}, {:#x}: {}: {}", kernel.name, place,
                                                 to_text(instruction), step.error().message));
    }
    program->steps.push_back(*std::move(step));
  }
  return std::shared_ptr<const Program>(std::move(program));
}

// ---- a launch ----

struct Grid::State {
  std::shared_ptr<const Program> program;
  Launch launch;
  Memory memory;
  std::vector<std::unique_ptr<Block>> blocks = {};
  std::uint64_t executed = 0;
};

Grid::Grid(std::shared_ptr<const Program> program, const Cubin& cubin, const Launch& launch,
           MayAccess may_access)
    : state_(std::make_unique<State>()) {
  const Kernel& kernel = program->kernel;
  const std::uint32_t local_bytes = (kernel.local_bytes + 15) / 16 * 16;
  const std::uint32_t shared_bytes =
      (kReservedShared + kernel.shared_bytes + launch.shared_bytes + kSharedUnit - 1) /
      kSharedUnit * kSharedUnit;
  state_->launch = launch;
  state_->launch.parameters = {};
  state_->memory.may_access = std::move(may_access);
  state_->memory.banks[0] = bank_of(kernel, launch, local_bytes);
  state_->memory.banks[2] = kernel.tables;
  for (const std::size_t bank : {3u, 4u}) {
    const auto constants = cubin.constants(bank);
    state_->memory.banks[bank].assign(constants.begin(), constants.end());
  }
  for (std::uint32_t i = 0; i < launch.block_count; ++i) {
    state_->blocks.push_back(std::make_unique<Block>(Place{.block = i,
                                                           .thread_count = launch.thread_count,
                                                           .sm_count = launch.sm_count,
                                                           .shared_bytes = shared_bytes,
                                                           .local_bytes = local_bytes,
                                                           .seed = launch.seed},
                                                     state_->memory));
  }
  state_->program = std::move(program);
}
Grid::~Grid() = default;

std::uint64_t Grid::instructions() const {
  return state_->executed;
}

std::uint64_t Grid::write_count() const {
  return state_->memory.write_count;
}

Result<bool> Grid::run(std::uint64_t instruction_count, const std::atomic<bool>* is_disturbed) {
  State& state = *state_;
  const std::uint64_t end = state.executed + instruction_count;
  while (state.executed < end) {
    if (is_disturbed != nullptr && is_disturbed->load(std::memory_order_relaxed)) break;
    bool is_over = true;
    for (const auto& block : state.blocks) {
      const std::uint64_t executed = block->run(state.program->steps);
      state.executed += executed;
      if (!block->failure().empty()) {
        return fail(Code::corrupt, fmt::format("{}, block {}: {}", state.program->kernel.name,
                                               block->place().block, block->failure()));
      }
      is_over = is_over && block->is_over();
      if (executed == 0 && !block->is_over()) {
        return fail(Code::corrupt,
                    fmt::format("{}, block {}: no lane can go on: {}", state.program->kernel.name,
                                block->place().block, block->where()));
      }
    }
    if (is_over) return true;
    if (state.executed > state.launch.instruction_limit) {
      return fail(Code::timeout, fmt::format("{} ran too long", state.program->kernel.name));
    }
  }
  return false;
}

}  // namespace everkernel::simulator
