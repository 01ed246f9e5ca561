// A queue of handlers and the thread that empties it.
#include "backend/cpu/background_compiler.hpp"

#include <algorithm>
#include <new>
#include <unordered_set>

#include "backend/cpu/handler_code.hpp"

namespace everkernel::backend::cpu {

BackgroundCompiler::~BackgroundCompiler() {
  {
    const std::scoped_lock held(mutex_);
    queue_.clear();
    if (compiling_ != nullptr) compiling_->cancel();
  }
  thread_.request_stop();
}

Result<void> BackgroundCompiler::add(const std::shared_ptr<HandlerCode>& code, Word handler) {
  const std::scoped_lock held(mutex_);
  if (!thread_.joinable()) {
    thread_ = EVERKERNEL_TRY(Thread::start([this](const std::stop_token& stop) { run(stop); }));
  }
  queue_.push_back({.code = code, .owner = code.get(), .handler = handler});
  changed_.notify_one();
  return {};
}

void BackgroundCompiler::move_to_front(const HandlerCode& code,
                                       std::span<const Word> handlers) noexcept {
  try {
    const std::unordered_set<Word> urgent(handlers.begin(), handlers.end());
    const std::scoped_lock held(mutex_);
    // clang 14 does not take the subrange that std::ranges::stable_partition of libstdc++ 12 gives.
    std::stable_partition(queue_.begin(), queue_.end(), [&](const Request& request) {
      return request.owner == &code && urgent.contains(request.handler);
    });
  } catch (const std::bad_alloc&) {  // the handlers are compiled in their turn
  }
}

void BackgroundCompiler::run(const std::stop_token& stop) {
  std::unique_lock held(mutex_);
  for (;;) {
    if (!changed_.wait(held, stop, [this] { return !queue_.empty(); })) return;
    const Request request = std::move(queue_.front());
    queue_.pop_front();
    // The kernel may be destroyed meanwhile; this reference keeps what the compilation reads.
    auto code = request.code.lock();
    if (code == nullptr) continue;
    compiling_ = code.get();
    held.unlock();
    code->compile(request.handler);
    held.lock();
    compiling_ = nullptr;
    held.unlock();
    code.reset();  // may be the last reference: mapped code goes without the lock held
    held.lock();
  }
}

}  // namespace everkernel::backend::cpu
