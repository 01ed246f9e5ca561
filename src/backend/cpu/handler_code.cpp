// Decides when a handler is worth compiling and when an item should wait for it.
#include "backend/cpu/handler_code.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include "backend/cpu/background_compiler.hpp"

namespace everkernel::backend::cpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Costs count the statements and expressions that the interpreter visits.
constexpr std::uint64_t kItemCost = 16;           // of an item, beside its turns
constexpr std::uint64_t kCompileCost = 1 << 16;   // from here on a handler is compiled
constexpr std::uint64_t kWaitCost = 1 << 20;      // from here on an item waits for the code
constexpr auto kTimePerCost = nanoseconds(4);     // at least; the interpreter takes longer
constexpr auto kLongestWait = milliseconds(500);  // of an item
constexpr auto kAbortLookInterval = milliseconds(2);

bool is_set(const Word* word) {
  if (word == nullptr) return false;
  return std::atomic_ref(*const_cast<Word*>(word)).load(std::memory_order_relaxed) != 0;
}

}  // namespace

// The way of one item from the interpreter to native code.
class HandlerCode::Promotion final : public ir::WayOut {
 public:
  Promotion(HandlerCode& code, Word handler, const Word* abort)
      : code_(code), place_(code.places_[handler]), handler_(handler), abort_(abort) {}

  bool look(std::uint64_t turns) override {
    const std::uint64_t before = place_.cost.load(std::memory_order_relaxed);
    if (!has_asked_ && before + turns * place_.turn_cost >= kCompileCost) ask();
    return code_.find(handler_) != nullptr;
  }

  bool expect(std::uint64_t turns) override {
    if (code_.find(handler_) != nullptr) return true;
    const std::uint64_t cost = turns * place_.turn_cost;
    if (cost < kWaitCost || has_waited_) return false;
    has_waited_ = true;
    ask();
    const auto limit = std::min<nanoseconds>(
        kLongestWait,
        kTimePerCost * static_cast<std::int64_t>(std::min(cost, std::uint64_t{1} << 32)));
    static_cast<void>(code_.wait({&handler_, 1}, Clock::now() + limit, abort_));
    return code_.find(handler_) != nullptr;
  }

 private:
  void ask() {
    has_asked_ = true;
    code_.request({&handler_, 1});
  }

  HandlerCode& code_;
  Place& place_;
  const Word handler_;
  const Word* const abort_;
  bool has_asked_ = false;  // a request that fails is not repeated at every look
  bool has_waited_ = false;
};

HandlerCode::HandlerCode(ir::VerifiedProgram program, jit::MemoryUse memory,
                         BackgroundCompiler* compiler, FindCache find_cache)
    : program_(std::move(program)),
      memory_(memory),
      compiler_(compiler),
      find_cache_(std::move(find_cache)),
      entries_(program_.handlers().size()),
      places_(program_.handlers().size()) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const ir::Body& body = program_.handlers()[i].handler.body;
    places_[i].turn_cost = std::max<std::uint64_t>(1, body.exprs.size() + body.stmts.size());
  }
}

ir::Outcome HandlerCode::run(Word handler, ir::ItemFrame& frame) {
  if (compiler_ == nullptr) return interpret(handler, frame);
  Place& place = places_[handler];
  Promotion promotion(*this, handler, frame.abort);
  const auto outcome = ir::interpret(program_.handlers()[handler], frame, promotion);
  if (!outcome) return jit::NativeHandler::run(find(handler), frame);
  const bool has_ended =
      outcome->ending == ir::Ending::done || outcome->ending == ir::Ending::fault;
  if (has_ended) place.interpreted.fetch_add(1, std::memory_order_relaxed);
  if (place.progress.load(std::memory_order_relaxed) == Progress::none) {
    const std::uint64_t cost = kItemCost + (promotion.turns_run + 1) * place.turn_cost;
    const std::uint64_t before = place.cost.fetch_add(cost, std::memory_order_relaxed);
    if (before + cost >= kCompileCost) request({&handler, 1});
  }
  return *outcome;
}

void HandlerCode::request(std::span<const Word> handlers) noexcept {
  for (const Word handler : handlers) {
    Progress expected = Progress::none;
    if (!places_[handler].progress.compare_exchange_strong(expected, Progress::requested,
                                                           std::memory_order_acq_rel)) {
      continue;
    }
    // Items ask too, and an item must not end the process for want of memory.
    try {
      auto queued = queue(handler);
      if (!queued) settle(handler, Progress::none, std::move(queued).error());
    } catch (const std::bad_alloc&) {
      settle(handler, Progress::none, {.code = Code::out_of_memory});
    }
  }
}

Result<void> HandlerCode::queue(Word handler) {
  if (compiler_ != nullptr) return compiler_->add(shared_from_this(), handler);
  return fail(Code::unsupported, "native code: this build has no LLVM",
              "run the handlers with the interpreter");
}

bool HandlerCode::is_requested(Word handler) const {
  return places_[handler].progress.load(std::memory_order_acquire) == Progress::requested;
}

// After a failed attempt the cost is counted from zero, so that items do not try again at once.
void HandlerCode::settle(Word handler, Progress progress, Error failure) noexcept {
  Place& place = places_[handler];
  {
    const std::scoped_lock held(mutex_);
    place.cost.store(0, std::memory_order_relaxed);
    place.failure = std::move(failure);
    place.progress.store(progress, std::memory_order_release);
  }
  settled_.notify_all();
}

bool HandlerCode::wait(std::span<const Word> handlers, const Deadline& deadline,
                       const Word* abort) {
  const auto is_done = [&] {
    return std::ranges::none_of(handlers, [this](Word handler) { return is_requested(handler); });
  };
  if (is_done()) return true;
  if (compiler_ != nullptr) compiler_->move_to_front(*this, handlers);
  std::unique_lock held(mutex_);
  for (;;) {
    if (is_done()) return true;
    if (deadline.has_passed() || is_set(abort)) return false;
    settled_.wait_until(held, std::min(deadline.next_look(), Clock::now() + kAbortLookInterval));
  }
}

std::optional<Error> HandlerCode::find_failure(std::span<const Word> handlers) const {
  for (const Word handler : handlers) {
    if (find(handler) != nullptr) continue;
    const std::scoped_lock held(mutex_);
    const Error& failure = places_[handler].failure;
    if (!failure.message.empty()) return failure;
    // There was no memory for a message when the attempt failed.
    return fail(Code::out_of_memory, "native code: no memory to compile a handler",
                "raise the memory limit of the process (ulimit -v), then try again", ENOMEM)
        .value();
  }
  return std::nullopt;
}

CodeCounts HandlerCode::counts() const {
  CodeCounts counts{.compiled = compiled_.load(std::memory_order_relaxed),
                    .from_cache = loaded_.load(std::memory_order_relaxed),
                    .compile_ns = compile_ns_.load(std::memory_order_relaxed)};
  for (const Place& place : places_) {
    counts.items_interpreted += place.interpreted.load(std::memory_order_relaxed);
  }
  return counts;
}

void HandlerCode::compile(Word handler) {
  try {
    compile_now(handler);
  } catch (const std::bad_alloc&) {
    settle(handler, Progress::none, {.code = Code::out_of_memory});
  }
}

void HandlerCode::compile_now(Word handler) {
  const auto begin = Clock::now();
  Place& place = places_[handler];
  auto native = jit::NativeHandler::compile(
      program_.handlers()[handler],
      {.memory = memory_, .cache = find_cache_(), .is_cancelled = &is_cancelled_});
  const nanoseconds taken = Clock::now() - begin;
  compile_ns_.fetch_add(static_cast<std::uint64_t>(taken.count()), std::memory_order_relaxed);
  if (!native) return settle(handler, Progress::failed, std::move(native).error());
  (native->is_from_cache() ? loaded_ : compiled_).fetch_add(1, std::memory_order_relaxed);
  place.native = std::move(*native);
  entries_[handler].store(place.native->entry(), std::memory_order_release);
  settle(handler, Progress::ready);
}

}  // namespace everkernel::backend::cpu
