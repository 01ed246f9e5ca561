// Creates a megakernel and its buffers, and recovers both after the device was lost.
#include "everkernel/runtime/megakernel.hpp"

#include <fmt/format.h>

#include <utility>

#include "everkernel/base/assert.hpp"
#include "everkernel/protocol/geometry.hpp"
#include "runtime/out_of_memory.hpp"
#include "runtime/session_state.hpp"
#include "runtime/state.hpp"

namespace everkernel {
namespace {

// How long a destructor waits for a call of another thread that has begun.
constexpr auto kLetGoTimeout = std::chrono::seconds(60);

Result<std::shared_ptr<Megakernel::State>> make_state(std::shared_ptr<backend::Backend> backend,
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
  auto state = std::make_shared<Megakernel::State>();
  state->options = {.geometry = geometry,
                    .schedule = options.schedule,
                    .program = options.handlers,
                    .trusted_handlers = options.trusted_handlers,
                    .payload = options.payload,
                    .execution = options.execution,
                    .fuel_per_item = options.fuel_per_item,
                    .worker_count = options.worker_count,
                    .compile_deadline = backend::deadline_after(options.compile_timeout)};
  auto kernel = EVERKERNEL_TRY(backend->compile(state->options));
  state->options.compile_deadline = {};
  state->backend = std::move(backend);
  state->worker_groups = worker_groups;
  state->kernel = std::move(kernel);
  return state;
}

}  // namespace

Result<Megakernel> Megakernel::create(std::shared_ptr<backend::Backend> backend,
                                      const MegakernelOptions& options) {
  auto state = EVERKERNEL_TRY(
      or_out_of_memory("megakernel", [&] { return make_state(std::move(backend), options); }));
  return Megakernel(std::move(state));
}

Megakernel::Megakernel(std::shared_ptr<State> state) : state_(std::move(state)) {}
Megakernel::Megakernel(Megakernel&&) noexcept = default;

Megakernel& Megakernel::operator=(Megakernel&& other) noexcept {
  if (this != &other) State::let_go(std::exchange(state_, std::move(other.state_)));
  return *this;
}

Megakernel::~Megakernel() {
  State::let_go(std::move(state_));
}

void Megakernel::State::let_go(std::shared_ptr<State> state) {
  if (state == nullptr) return;
  if (!state->home.is_here()) return abandon(std::move(state));
  // A call that still runs at the deadline shares the state, and frees it when it returns.
  const bool is_idle = state->launch_mutex.try_lock_until(backend::deadline_after(kLetGoTimeout));
  if (is_idle) state->launch_mutex.unlock();
}

Result<std::unique_lock<LaunchGate>> Megakernel::State::lock_launches(
    std::string_view call, const backend::Deadline& deadline) {
  if (launch_mutex.try_lock_until(deadline)) return std::unique_lock(launch_mutex, std::adopt_lock);
  return fail(Code::timeout,
              fmt::format("{}: another dispatch, run or recovery held the megakernel until the "
                          "deadline",
                          call),
              "raise `timeout`, or create another megakernel");
}

// A child of fork() has copies of locks that other threads of its parent may have held.
std::string_view Megakernel::pipeline_id() const {
  return state_->home.is_here() ? state_->current_kernel()->pipeline_id() : std::string_view();
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
  return state_->home.is_here() ? state_->current_kernel()->worker_count() : 0;
}

namespace {

// Memory that was allocated before a recovery is lost.
Failure lost_meanwhile() {
  return fail(Code::device_lost, "buffer: the device was lost and recovered while it was made",
              "make the buffer again");
}

Result<std::shared_ptr<DataBuffer::State>> make_buffer(Megakernel::State& state,
                                                       const DataBufferOptions& options) {
  auto buffer = std::make_shared<DataBuffer::State>();
  buffer->options = options;
  buffer->words.keeps_copy = options.keep_host_copy;
  buffer->owner = state.weak_from_this();
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
  std::uint64_t generation = 0;
  static_cast<void>(state.current_kernel(&generation));
  EVERKERNEL_TRY(buffer->words.allocate(*state.backend, options.word_count * abi::kWordBytes));
  const std::scoped_lock held(state.table_mutex);
  if (state.generation != generation) return lost_meanwhile();
  if (!state.buffers.emplace(options.handle, buffer).second) {
    return fail(Code::invalid_argument, fmt::format("buffer: handle {} is in use", options.handle));
  }
  state.table = nullptr;
  return buffer;
}

}  // namespace

Result<DataBuffer> Megakernel::create_buffer(const DataBufferOptions& options) {
  EVERKERNEL_TRY(state_->home.check("megakernel"));
  auto buffer =
      EVERKERNEL_TRY(or_out_of_memory("buffer", [&] { return make_buffer(*state_, options); }));
  DataBuffer made(std::move(buffer));
  EVERKERNEL_TRY(or_out_of_memory("buffer", [&]() -> Result<void> {
    state_->update_sessions();
    return {};
  }));
  return made;
}

std::shared_ptr<TableSnapshot> Megakernel::State::current_table() {
  const std::scoped_lock held(table_mutex);
  if (table != nullptr) return table;
  auto fresh = std::make_shared<TableSnapshot>();
  fresh->entries.reserve(buffers.size());
  fresh->owners.reserve(buffers.size());
  fresh->memories.reserve(buffers.size());
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
    fresh->memories.push_back(buffer->words.memory);
    fresh->owners.push_back(std::move(buffer));
  }
  table = fresh;
  return fresh;
}

void Megakernel::State::add_session(const std::shared_ptr<Session::State>& session) {
  {
    const std::scoped_lock held(sessions_mutex);
    std::erase_if(sessions, [](const auto& weak) { return weak.expired(); });
    sessions.push_back(session);
  }
  update_sessions();
}

void Megakernel::State::update_sessions() {
  const std::scoped_lock held(sessions_mutex);
  for (const auto& weak : sessions) {
    if (const auto session = weak.lock()) session->set_buffers(current_table());
  }
}

std::shared_ptr<backend::Kernel> Megakernel::State::current_kernel(std::uint64_t* seen_generation) {
  const std::scoped_lock held(kernel_mutex);
  if (seen_generation != nullptr) *seen_generation = generation;
  return kernel;
}

Result<RecoveryDecision> Megakernel::recover(std::chrono::nanoseconds timeout) {
  const auto state = state_;
  EVERKERNEL_TRY(state->home.check("megakernel"));
  const backend::Deadline deadline(backend::deadline_after(timeout));
  const auto held = EVERKERNEL_TRY(state->lock_launches("recover", deadline));
  return or_out_of_memory("recover", [&] { return state->recover_locked(deadline); });
}

Result<RecoveryDecision> Megakernel::State::recover(std::uint64_t seen_generation,
                                                    const backend::Deadline& deadline) {
  const auto held = EVERKERNEL_TRY(lock_launches("recover", deadline));
  if (generation != seen_generation) return RecoveryDecision{};
  return recover_locked(deadline);
}

namespace {

// The memory that a recovery gives to one buffer.
struct Remade {
  std::mutex* mutex;
  KeptMemory* kept;
  std::shared_ptr<backend::Memory> memory;
};

// Memory for every buffer, made before any buffer is changed. The table mutex is held.
Result<std::vector<Remade>> remake_buffers(Megakernel::State& state,
                                           std::vector<std::shared_ptr<void>>& keep_alive) {
  std::vector<Remade> remade;
  const auto remake = [&](std::mutex& mutex, KeptMemory& kept) -> Result<void> {
    const std::scoped_lock held(mutex);
    remade.push_back({&mutex, &kept, EVERKERNEL_TRY(kept.remake(*state.backend))});
    return {};
  };
  for (const auto& [handle, weak] : state.buffers) {
    const auto buffer = weak.lock();
    if (buffer == nullptr) continue;
    keep_alive.push_back(buffer);
    EVERKERNEL_TRY(remake(buffer->mutex, buffer->words));
  }
  std::erase_if(state.residents, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : state.residents) {
    const auto resident = weak.lock();
    if (resident == nullptr) continue;
    keep_alive.push_back(resident);
    for (KeptMemory& kept : resident->buffers) EVERKERNEL_TRY(remake(resident->mutex, kept));
  }
  return remade;
}

}  // namespace

Result<RecoveryDecision> Megakernel::State::recover_locked(const backend::Deadline& deadline) {
  if (kernel->health()) return RecoveryDecision{};
  EVERKERNEL_TRY(backend->revive());
  backend::KernelOptions same_options = options;
  same_options.compile_deadline = deadline;
  auto compiled = EVERKERNEL_TRY(backend->compile(same_options));
  RecoveryDecision decision{.recompiled = true};
  std::vector<std::shared_ptr<void>> keep_alive;
  const std::scoped_lock held(table_mutex);
  auto remade = EVERKERNEL_TRY(remake_buffers(*this, keep_alive));
  for (Remade& one : remade) {
    // Sessions and tables that use the old memory keep it until they end.
    const std::scoped_lock buffer_held(*one.mutex);
    one.kept->memory.swap(one.memory);
    ++(one.kept->keeps_copy ? decision.buffers_restored : decision.buffers_lost);
  }
  table = nullptr;
  const std::scoped_lock kernel_held(kernel_mutex);
  kernel = std::move(compiled);
  ++generation;
  return decision;
}

}  // namespace everkernel
