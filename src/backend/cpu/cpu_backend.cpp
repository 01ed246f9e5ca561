// Memory, compiled kernels and launches of the CPU backend. drain.cpp, live_kernel.cpp and
// graph_kernel.cpp do the work.
#include "everkernel/backend/cpu/cpu_backend.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "backend/cpu/background_compiler.hpp"
#include "backend/cpu/deadline_watch.hpp"
#include "backend/cpu/drain.hpp"
#include "backend/cpu/executor.hpp"
#include "backend/cpu/float_guard.hpp"
#include "backend/cpu/graph_kernel.hpp"
#include "backend/cpu/helpers.hpp"
#include "backend/cpu/live_kernel.hpp"
#include "base/process.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/ir/printer.hpp"
#include "everkernel/memory/available.hpp"
#include "everkernel/protocol/packed.hpp"
#include "everkernel/protocol/words.hpp"

namespace everkernel::backend::cpu {
namespace {

// A dispatch shorter than this is not worth waking other threads for.
constexpr auto kCallForHelpAfter = std::chrono::microseconds(5);

class CpuMemory final : public Memory {
 public:
  static Result<std::unique_ptr<Memory>> create(std::size_t size_bytes) {
    if (size_bytes % abi::kWordBytes != 0) {
      return fail(Code::invalid_argument,
                  fmt::format("memory: {} bytes are not whole words", size_bytes));
    }
    const std::size_t padded =
        std::max<std::size_t>((size_bytes + abi::kSlotBytes - 1) / abi::kSlotBytes, 1) *
        abi::kSlotBytes;
    EVERKERNEL_TRY(memory::check_available(size_bytes, "memory"));
    Words words;
    if (padded >= size_bytes) {
      words.reset(static_cast<Word*>(std::aligned_alloc(abi::kSlotBytes, padded)));
    }
    if (words == nullptr) {
      return fail(Code::out_of_memory, fmt::format("memory: no room for {} bytes", size_bytes));
    }
    std::memset(words.get(), 0, padded);
    return std::unique_ptr<Memory>(new CpuMemory(std::move(words), size_bytes));
  }

  std::size_t size_bytes() const override { return size_bytes_; }
  Word* device_address() const override { return words_.get(); }

  Result<void> write(std::size_t offset_bytes, std::span<const std::byte> bytes) override {
    EVERKERNEL_TRY(check(offset_bytes, bytes.size()));
    move_words(words_.get() + offset_bytes / abi::kWordBytes, bytes.size() / abi::kWordBytes,
               [&]<class T>(std::size_t word, T* target) {
                 T value;
                 std::memcpy(&value, bytes.data() + word * abi::kWordBytes, sizeof value);
                 __atomic_store_n(target, value, __ATOMIC_RELAXED);
               });
    return {};
  }

  Result<void> read(std::size_t offset_bytes, std::span<std::byte> bytes) const override {
    EVERKERNEL_TRY(check(offset_bytes, bytes.size()));
    move_words(words_.get() + offset_bytes / abi::kWordBytes, bytes.size() / abi::kWordBytes,
               [&]<class T>(std::size_t word, T* source) {
                 const T value = __atomic_load_n(source, __ATOMIC_RELAXED);
                 std::memcpy(bytes.data() + word * abi::kWordBytes, &value, sizeof value);
               });
    return {};
  }

 private:
  using WordPair __attribute__((may_alias)) = std::uint64_t;
  struct Free {
    void operator()(Word* words) const { std::free(words); }
  };
  using Words = std::unique_ptr<Word, Free>;

  CpuMemory(Words words, std::size_t size_bytes)
      : words_(std::move(words)), size_bytes_(size_bytes) {}

  // Handlers may use the words at the same time, so every access is atomic. Compilers do not merge
  // atomic accesses, so aligned pairs of words are copied as 64 bits here.
  static void move_words(Word* first, std::size_t count, const auto& move) {
    std::size_t i = 0;
    const bool is_odd = reinterpret_cast<std::uintptr_t>(first) % sizeof(WordPair) != 0;
    if (is_odd && count != 0) move(i++, first);
    for (; i + 2 <= count; i += 2) move(i, reinterpret_cast<WordPair*>(first + i));
    if (i < count) move(i, first + i);
  }

  Result<void> check(std::size_t offset_bytes, std::size_t count) const {
    const bool is_whole = offset_bytes % abi::kWordBytes == 0 && count % abi::kWordBytes == 0;
    if (is_whole && offset_bytes <= size_bytes_ && count <= size_bytes_ - offset_bytes) return {};
    return fail(Code::invalid_argument,
                fmt::format("memory: {} bytes from byte {} are not whole words of its {} bytes",
                            count, offset_bytes, size_bytes_));
  }

  Words words_;
  std::size_t size_bytes_;
};

std::span<std::byte> bytes_of(const Memory& memory) {
  return {reinterpret_cast<std::byte*>(memory.device_address()), memory.size_bytes()};
}

// Appends the opcodes of the slots that can run and of the operations packed into them, each once.
void collect_opcodes(std::span<std::byte> ring, std::vector<Word>& opcodes) {
  const auto add = [&](Word opcode) {
    const bool is_last = !opcodes.empty() && opcodes.back() == opcode;
    if (!is_last && opcode >= abi::kFirstFreeOpcode) opcodes.push_back(opcode);
  };
  const auto slots = *protocol::LiveWords::bind(protocol::Buffer::ring, ring);
  for (Word i = 0; i < ring.size() / abi::kSlotBytes; ++i) {
    const abi::Slot slot = slots.load_slot(i);
    if (!abi::is_active(slot.status)) continue;
    add(slot.opcode);
    if (slot.opcode != static_cast<Word>(abi::Opcode::packed_slot)) continue;
    protocol::PackedArgs args;
    std::ranges::copy(slot.args, args.begin());
    const auto packed = protocol::PackedView::parse(args);
    for (Word op = 0; packed && op < packed->op_count(); ++op) add(packed->op(op).opcode);
  }
  std::ranges::sort(opcodes);
  // clang 14 does not take the subrange that std::ranges::unique of libstdc++ 12 gives.
  opcodes.erase(std::unique(opcodes.begin(), opcodes.end()), opcodes.end());
}

Result<void> check_worker_count(Word count) {
  if (count <= kMaxWorkers) return {};
  return fail(Code::invalid_argument,
              fmt::format("megakernel: {} workers are more than {}", count, kMaxWorkers));
}

class CpuKernel final : public Kernel {
 public:
  CpuKernel(const KernelOptions& options, Executor executor, std::string pipeline_id,
            Word worker_count)
      : options_(options),
        executor_(std::make_shared<const Executor>(std::move(executor))),
        pipeline_id_(std::move(pipeline_id)),
        worker_count_(worker_count),
        helpers_(worker_count - 1) {
    job_ = [this] { work([](bool) {}); };
  }

  std::string_view pipeline_id() const override { return pipeline_id_; }
  Word worker_count() const override { return worker_count_; }
  CodeCounts code_counts() const override { return executor_->code_counts(); }
  Result<void> prepare(const CodeRequest& request) override { return executor_->prepare(request); }

  Result<LaunchStats> launch(const Launch& launch) override {
    // If the deadline comes before the code, every item remains.
    const bool has_code = EVERKERNEL_TRY(wait_for_code(launch));
    EVERKERNEL_TRY(prepare_drains(launch));
    const FloatGuard floats;
    std::atomic_ref(abort_).store(has_code ? 0 : 1, std::memory_order_relaxed);
    EVERKERNEL_TRY(watch_.arm(abort_, launch.deadline));
    next_drain_.store(0, std::memory_order_relaxed);
    helpers_.open(job_);
    const auto begin = Clock::now();
    try {
      work([this, begin](bool is_urgent) {
        if (worker_count_ == 1) return;
        if (is_urgent || Clock::now() - begin > kCallForHelpAfter) helpers_.call();
      });
    } catch (...) {
      // Helpers must not use what the caller is about to free. The drain counts a worker that does
      // not come back, so that helpers leave only when they are told to.
      std::atomic_ref(abort_).store(1, std::memory_order_relaxed);
      helpers_.close();
      watch_.disarm();
      throw;
    }
    LaunchStats stats{.kernel_launches = 1, .sync_points = 0};
    if (helpers_.close()) stats.sync_points = 1;
    watch_.disarm();
    for (std::size_t i = 0; i < drain_count_; ++i) launch.counts[i] = drains_[i]->close();
    return stats;
  }

  Result<std::unique_ptr<LiveKernel>> start(const LiveLaunch& launch) override {
    if (launch.multiprocessors != 0) {
      return fail(Code::unsupported, "session: a CPU has no multiprocessors to choose",
                  "leave `multiprocessors` at 0; `worker_count` of the megakernel limits workers");
    }
    const Word workers = EVERKERNEL_TRY(choose_workers(launch.worker_count));
    return CpuLiveKernel::start(launch, executor_, options_.fuel_per_item, workers);
  }

  Result<void> take_over(LiveKernel& live, Clock::time_point deadline) override {
    return static_cast<CpuLiveKernel&>(live).replace(executor_, options_.fuel_per_item, deadline);
  }

  Result<std::unique_ptr<GraphKernel>> start_graph(const GraphLaunch& launch) override {
    const Word workers = EVERKERNEL_TRY(choose_workers(launch.worker_count));
    return CpuGraphKernel::start(launch, executor_, options_.fuel_per_item, workers);
  }

 private:
  Result<Word> choose_workers(Word asked) const {
    EVERKERNEL_TRY(check_worker_count(asked));
    return asked != 0 ? asked : worker_count_;
  }

  // Waits for the code of every item, if items may not be interpreted.
  Result<bool> wait_for_code(const Launch& launch) {
    if (!executor_->is_only_native()) return true;
    needed_opcodes_.clear();
    for (const DeviceBuffers& buffers : launch.submissions) {
      collect_opcodes(bytes_of(*buffers.ring), needed_opcodes_);
    }
    auto prepared = executor_->prepare({.opcodes = needed_opcodes_, .deadline = launch.deadline});
    if (!prepared && prepared.error().code != Code::timeout) return Failure(prepared.error());
    return prepared.has_value();
  }

  Result<void> prepare_drains(const Launch& launch) {
    drain_count_ = launch.submissions.size();
    while (drains_.size() < drain_count_) drains_.push_back(std::make_unique<Drain>());
    for (std::size_t i = 0; i < drain_count_; ++i) {
      const DeviceBuffers& buffers = launch.submissions[i];
      EVERKERNEL_TRY(
          drains_[i]->prepare({.control = bytes_of(*buffers.control),
                               .slots = bytes_of(*buffers.ring),
                               .debug_log = bytes_of(*buffers.debug_log),
                               .io_queue = bytes_of(*buffers.io_queue),
                               .buffers = launch.buffers,
                               .executor = executor_.get(),
                               .schedule = options_.schedule,
                               .fuel_per_item = options_.fuel_per_item,
                               .worker_count = worker_count_,
                               .abort = &abort_,
                               .hits = launch.hits.empty() ? HitBuffer{} : launch.hits[i]}));
    }
    return {};
  }

  // Each worker first drains whole submissions alone, then helps with those that are not finished.
  void work(const Drain::CallForHelp& call_for_help) {
    for (;;) {
      const std::size_t index = next_drain_.fetch_add(1, std::memory_order_relaxed);
      if (index >= drain_count_) break;
      drains_[index]->work(call_for_help);
    }
    for (std::size_t i = 0; i < drain_count_; ++i) {
      if (!drains_[i]->is_finished()) drains_[i]->work(call_for_help);
    }
  }

  KernelOptions options_;
  std::shared_ptr<const Executor> executor_;
  std::string pipeline_id_;
  Word worker_count_;
  std::vector<std::unique_ptr<Drain>> drains_;
  std::size_t drain_count_ = 0;
  std::vector<Word> needed_opcodes_;
  std::atomic<std::size_t> next_drain_{0};
  Word abort_ = 0;
  std::function<void()> job_;
  DeadlineWatch watch_;
  Helpers helpers_;
};

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

Capabilities ask_machine() {
  const Word threads = std::clamp<Word>(std::thread::hardware_concurrency(), 1, kMaxWorkers);
  Capabilities capabilities = Capabilities::with_workers(threads);
  capabilities.id = "cpu";
  capabilities.device =
      fmt::format("{}, {} thread{}", processor_name(), threads, threads == 1 ? "" : "s");
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    capabilities.memory_bytes =
        static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  }
  capabilities.native_code = jit::has_native_code();
  capabilities.interpreter = true;
  capabilities.live = true;
  return capabilities;
}

// A function of a trusted handler is identified by its address in this process.
std::string name_of(const ir::TrustedHandler& handler) {
  const auto effects =
      std::bit_cast<std::array<std::uint8_t, sizeof(ir::Effects)>>(handler.effects);
  return fmt::format("trusted {} = {} {} {} {} {} {} {:x}\n", handler.name, handler.opcode,
                     ir::scope_name(handler.scope), handler.is_pure, handler.commutes,
                     handler.is_short, fmt::join(effects, ""),
                     reinterpret_cast<std::uintptr_t>(handler.cpu));
}

std::string make_pipeline_id(const KernelOptions& options, bool is_native) {
  std::string text, trusted;
  if (options.program) {
    for (const ir::VerifiedHandler& verified : options.program->handlers()) {
      text += ir::print({.handlers = {verified.handler}});
    }
  }
  for (const ir::TrustedHandler& handler : options.trusted_handlers) trusted += name_of(handler);
  const std::string fuel = fmt::format("{}", options.fuel_per_item);
  const jit::CodeKeyPart parts[] = {{"fuel", fuel}, {"program", text}, {"trusted", trusted}};
  return fmt::format("cpu-{}-{}x{}-{}{}{}-{}", schedule_name(options.schedule),
                     options.geometry.slot_count, options.geometry.workgroup_size,
                     is_native ? "native" : "interpreter", options.planned ? "-planned" : "",
                     options.payload ? "-payload" : "", jit::make_code_key(parts).text());
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuBackendOptions& options) : options_(options) {}

  const Capabilities& capabilities() const override { return capabilities_; }

  Result<std::unique_ptr<Kernel>> compile(const KernelOptions& options) override {
    EVERKERNEL_TRY(home_.check("backend cpu"));
    EVERKERNEL_TRY(check_worker_count(options.worker_count));
    Executor executor =
        EVERKERNEL_TRY(Executor::create(options, compiler_, [this] { return cache(); }));
    const Word workers =
        options.worker_count != 0 ? options.worker_count : capabilities_.max_worker_count;
    std::string id = make_pipeline_id(options, executor.is_native());
    return std::unique_ptr<Kernel>(
        std::make_unique<CpuKernel>(options, std::move(executor), std::move(id), workers));
  }

  Result<std::unique_ptr<Memory>> allocate(std::size_t size_bytes) override {
    EVERKERNEL_TRY(home_.check("backend cpu"));
    return CpuMemory::create(size_bytes);
  }

  Result<void> revive() override { return {}; }

 private:
  // Opened at the first compilation: a backend that is only asked for capabilities needs no cache.
  jit::CodeCache* cache() {
    std::call_once(is_cache_opened_, [this] {
      if (!options_.cache) return;
      if (auto opened = jit::CodeCache::open(*options_.cache)) cache_ = std::move(*opened);
    });
    return cache_ ? &*cache_ : nullptr;
  }

  HomeProcess home_;  // a child of fork() has no thread that compiles
  CpuBackendOptions options_;
  Capabilities capabilities_ = ask_machine();
  std::once_flag is_cache_opened_;
  std::optional<jit::CodeCache> cache_;
  BackgroundCompiler compiler_;  // last, because its thread uses the cache
};

}  // namespace

std::shared_ptr<Backend> make_backend(const CpuBackendOptions& options) {
  return {new CpuBackend(options), DeleteAtHome()};
}

}  // namespace everkernel::backend::cpu
