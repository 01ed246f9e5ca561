// Creates a megakernel and its buffers, and recovers both after the device was lost.
#include "everkernel/runtime/megakernel.hpp"

#include <fmt/format.h>

#include "everkernel/base/assert.hpp"
#include "everkernel/protocol/geometry.hpp"
#include "runtime/state.hpp"

namespace everkernel {

Result<Megakernel> Megakernel::create(std::shared_ptr<backend::Backend> backend,
                                      const MegakernelOptions& options) {
  if (backend == nullptr) {
    return fail(Code::invalid_argument, "megakernel: the backend is null",
                "create one, for example with backend::cpu::make_backend()");
  }
  const backend::Capabilities& capabilities = backend->capabilities();
  if (!capabilities.supported) {
    return fail(Code::unsupported, fmt::format("megakernel: backend {} cannot run here: {}",
                                               capabilities.id, capabilities.reason));
  }
  const protocol::Geometry geometry{options.slot_count, options.workgroup_size};
  const Word worker_groups = EVERKERNEL_TRY(protocol::worker_groups_for_geometry(geometry));
  if (options.slot_count > abi::kMaxRingSlots) {
    return fail(Code::invalid_argument, fmt::format("megakernel: {} slots are more than {}",
                                                    options.slot_count, abi::kMaxRingSlots));
  }
  auto state = std::make_shared<State>();
  state->options = {.geometry = geometry,
                    .schedule = options.schedule,
                    .program = options.handlers,
                    .trusted_handlers = options.trusted_handlers,
                    .payload = options.payload,
                    .execution = options.execution,
                    .fuel_per_item = options.fuel_per_item,
                    .worker_count = options.worker_count};
  auto kernel = EVERKERNEL_TRY(backend->compile(state->options));
  state->backend = std::move(backend);
  state->worker_groups = worker_groups;
  state->kernel = std::move(kernel);
  return Megakernel(std::move(state));
}

Megakernel::Megakernel(std::shared_ptr<State> state) : state_(std::move(state)) {}
Megakernel::Megakernel(Megakernel&&) noexcept = default;
Megakernel& Megakernel::operator=(Megakernel&&) noexcept = default;
Megakernel::~Megakernel() = default;

std::string_view Megakernel::pipeline_id() const {
  return state_->current_kernel()->pipeline_id();
}

Word Megakernel::slot_count() const {
  return state_->options.geometry.slot_count;
}

Word Megakernel::workgroup_size() const {
  return state_->options.geometry.workgroup_size;
}

Word Megakernel::worker_groups() const {
  return state_->worker_groups;
}

Word Megakernel::worker_count() const {
  return state_->current_kernel()->worker_count();
}

Result<DataBuffer> Megakernel::create_buffer(const DataBufferOptions& options) {
  auto buffer = std::make_shared<DataBuffer::State>();
  buffer->options = options;
  buffer->words.keeps_copy = options.keep_host_copy;
  buffer->owner = state_;
  {
    // The buffer table checks handle and owner.
    memory::BufferTable rules;
    static Word none = 0;
    EVERKERNEL_TRY(rules.adopt(
        {.handle = options.handle, .access = options.access, .owner = options.owner}, {&none, 1}));
    if (options.word_count > memory::kMaxBufferWords) {
      return fail(Code::invalid_argument,
                  fmt::format("buffer {}: {} words are more than {}", options.handle,
                              options.word_count, memory::kMaxBufferWords));
    }
  }
  EVERKERNEL_TRY(buffer->words.allocate(*state_->backend, options.word_count * abi::kWordBytes));
  const std::scoped_lock held(state_->table_mutex);
  if (!state_->buffers.emplace(options.handle, buffer).second) {
    return fail(Code::invalid_argument, fmt::format("buffer: handle {} is in use", options.handle));
  }
  state_->table = nullptr;
  return DataBuffer(std::move(buffer));
}

std::shared_ptr<TableSnapshot> Megakernel::State::current_table() {
  const std::scoped_lock held(table_mutex);
  if (table != nullptr) return table;
  auto fresh = std::make_shared<TableSnapshot>();
  fresh->entries.reserve(buffers.size());
  fresh->owners.reserve(buffers.size());
  for (const auto& [handle, weak] : buffers) {
    auto buffer = weak.lock();
    if (buffer == nullptr) continue;
    // The table only stores device addresses; host code does not dereference them.
    auto entry = fresh->table.adopt(
        {.handle = handle, .access = buffer->options.access, .owner = buffer->options.owner},
        {buffer->words.memory->device_address(), buffer->options.word_count});
    EVERKERNEL_ASSERT(entry.has_value());
    fresh->entries.push_back(std::move(*entry));
    const bool is_written = buffer->options.access != memory::Access::read;
    if (is_written && buffer->words.keeps_copy) fresh->copied.push_back(buffer.get());
    fresh->owners.push_back(std::move(buffer));
  }
  table = fresh;
  return fresh;
}

std::shared_ptr<backend::Kernel> Megakernel::State::current_kernel(std::uint64_t* seen_generation) {
  const std::scoped_lock held(kernel_mutex);
  if (seen_generation != nullptr) *seen_generation = generation;
  return kernel;
}

Result<RecoveryDecision> Megakernel::recover() {
  const std::scoped_lock held(state_->launch_mutex);
  return state_->recover_locked();
}

Result<RecoveryDecision> Megakernel::State::recover(std::uint64_t seen_generation) {
  const std::scoped_lock held(launch_mutex);
  if (generation != seen_generation) return RecoveryDecision{};
  return recover_locked();
}

Result<RecoveryDecision> Megakernel::State::recover_locked() {
  EVERKERNEL_TRY(backend->revive());
  auto compiled = EVERKERNEL_TRY(backend->compile(options));
  RecoveryDecision decision{.recompiled = true};
  const auto count = [&decision](Result<bool> restored) -> Result<void> {
    const bool had_copy = EVERKERNEL_TRY(std::move(restored));
    ++(had_copy ? decision.buffers_restored : decision.buffers_lost);
    return {};
  };
  const std::scoped_lock held(table_mutex);
  for (const auto& [handle, weak] : buffers) {
    const auto buffer = weak.lock();
    if (buffer == nullptr) continue;
    const std::scoped_lock buffer_held(buffer->mutex);
    EVERKERNEL_TRY(count(buffer->words.restore(*backend)));
  }
  std::erase_if(residents, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : residents) {
    const auto resident = weak.lock();
    if (resident == nullptr) continue;
    const std::scoped_lock resident_held(resident->mutex);
    for (KeptMemory& memory : resident->buffers) EVERKERNEL_TRY(count(memory.restore(*backend)));
  }
  table = nullptr;
  const std::scoped_lock kernel_held(kernel_mutex);
  kernel = std::move(compiled);
  ++generation;
  return decision;
}

}  // namespace everkernel
