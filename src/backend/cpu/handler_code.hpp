// The native code of a program's handlers, which comes while they run.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "everkernel/backend/backend.hpp"
#include "everkernel/ir/interpreter.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/jit/native.hpp"

namespace everkernel::backend::cpu {

class BackgroundCompiler;

/// One entry for each handler: null until its native code is there. Interpreter and native code
/// give the same results bit for bit, so every item may use what is there when it starts.
/// Thread-safe.
class HandlerCode : public std::enable_shared_from_this<HandlerCode> {
 public:
  /// Returns the cache for native code, or null; called only if there is something to compile.
  using FindCache = std::function<jit::CodeCache*()>;
  using Entry = jit::NativeHandler::Entry;

  /// The code of a program. Without a compiler every handler stays interpreted. Compiler and cache
  /// must outlive it.
  HandlerCode(ir::VerifiedProgram program, jit::MemoryUse memory, BackgroundCompiler* compiler,
              FindCache find_cache);

  /// The native code of each handler, null where it is not there; to be read with acquire.
  const std::atomic<Entry>* entries() const { return entries_.data(); }
  /// The native code of a handler, null if it is not there.
  Entry find(Word handler) const { return entries_[handler].load(std::memory_order_acquire); }

  /// Runs an item whose handler had no native code a moment ago: with the interpreter, or with
  /// native code if the item turns out to be long and the code comes in time. Asks for the code
  /// of a handler whose items have cost enough.
  ir::Outcome run(Word handler, ir::ItemFrame& frame);
  /// Runs an item with the interpreter.
  ir::Outcome interpret(Word handler, ir::ItemFrame& frame) const {
    return ir::interpret(program_.handlers()[handler], frame);
  }

  /// Asks for the code of handlers, those that are needed most first. Without memory or a thread
  /// for a handler nothing changes but find_failure(), and a later request tries again.
  void request(std::span<const Word> handlers) noexcept;
  /// Waits until no request for one of the handlers is open; false if the deadline comes or `abort`
  /// (may be null) is set first.
  bool wait(std::span<const Word> handlers, const Deadline& deadline, const Word* abort);
  /// After wait(): why one of the handlers has no native code; nothing if all of them have it.
  std::optional<Error> find_failure(std::span<const Word> handlers) const;

  /// Counts since it was created.
  CodeCounts counts() const;

  /// Ends a compilation that is under way early: nobody waits for its code any more.
  void cancel() { is_cancelled_.store(true, std::memory_order_relaxed); }
  /// Compiles a handler; called by the compiler's thread.
  void compile(Word handler);

 private:
  // none: not requested, or the last attempt lacked memory or a thread.
  // failed: a further attempt would fail too.
  enum class Progress : std::uint8_t { none, requested, ready, failed };

  // Of one handler. On a line of its own: workers count the items they interpret in it.
  struct alignas(64) Place {
    std::atomic<Progress> progress{Progress::none};
    std::atomic<std::uint64_t> cost{0};         // of the items interpreted so far
    std::atomic<std::uint64_t> interpreted{0};  // items that ended on the interpreter
    std::uint64_t turn_cost = 1;                // cost of a turn
    std::optional<jit::NativeHandler> native;   // written before its entry
    Error failure;                              // of the last attempt; under the mutex
  };
  class Promotion;

  Result<void> queue(Word handler);
  void compile_now(Word handler);
  bool is_requested(Word handler) const;
  void settle(Word handler, Progress progress, Error failure = {}) noexcept;

  const ir::VerifiedProgram program_;
  const jit::MemoryUse memory_;
  BackgroundCompiler* const compiler_;
  const FindCache find_cache_;
  std::vector<std::atomic<Entry>> entries_;
  std::vector<Place> places_;
  mutable std::mutex mutex_;
  std::condition_variable settled_;
  std::atomic<bool> is_cancelled_{false};
  std::atomic<std::uint64_t> compiled_{0};
  std::atomic<std::uint64_t> loaded_{0};
  std::atomic<std::uint64_t> compile_ns_{0};
};

}  // namespace everkernel::backend::cpu
