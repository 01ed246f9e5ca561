// Two threads that load the two parts of a kernel's code.
#include "backend/cuda/code_loader.hpp"

namespace everkernel::backend::cuda {

CodeLoader::CodeLoader(const std::shared_ptr<Context>& context, ModuleCache& module_cache,
                       MegakernelCode code, bool is_planned)
    : code_(std::move(code)) {
  const auto begin = [&](Part& target, CodePart part) {
    target.task = std::packaged_task<Loaded()>([this, context, &module_cache, part] {
      return code_.load(context, module_cache, part, &is_cancelled_);
    });
    target.loaded = target.task.get_future();
    auto thread = Thread::start([&target](const std::stop_token&) { target.task(); });
    if (thread) {
      target.thread = std::move(*thread);
    } else {
      target.task();
    }
  };
  // A kernel that drains rings has the code of planned work too: a run that needs it may have a
  // deadline shorter than its compilation.
  begin(graph_, CodePart::graph);
  if (!is_planned) begin(drain_, CodePart::drain);
}

// The members wait for their threads.
CodeLoader::~CodeLoader() {
  is_cancelled_.store(true, std::memory_order_relaxed);
}

bool CodeLoader::wait(const Deadline& deadline) const {
  for (const auto* loaded : {&drain_.loaded, &graph_.loaded}) {
    if (!loaded->valid()) continue;
    // Never waits until the end of all time, which the library's clocks cannot represent.
    constexpr auto kLongestLook = std::chrono::hours(1);
    const auto look = [&] {
      return loaded->wait_until(std::min(deadline.next_look(), Clock::now() + kLongestLook));
    };
    while (look() != std::future_status::ready) {
      if (deadline.has_passed()) return false;
    }
  }
  return true;
}

Result<KernelModules> CodeLoader::take() {
  KernelModules modules;
  auto graph = graph_.loaded.get();
  if (drain_.loaded.valid()) modules.drain = EVERKERNEL_TRY(drain_.loaded.get());
  modules.graph = EVERKERNEL_TRY(std::move(graph));
  return modules;
}

}  // namespace everkernel::backend::cuda
