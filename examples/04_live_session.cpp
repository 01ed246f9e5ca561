// A live session: the kernel keeps running, two threads publish at one time, and any thread may
// take a snapshot. It runs on the GPU if there is one, otherwise on the CPU.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"

namespace {

using namespace everkernel;
using abi::Word;

constexpr Word kItems = 20'000;
constexpr auto kTimeout = std::chrono::seconds(30);

// Adds 1 to an observable kItems times, as one tenant, and waits for the last item.
Result<void> produce(Session& session, Word tenant) {
  const std::array<Word, 2> args{1, abi::kControlWords + tenant};
  Ticket last = {};
  for (Word i = 0; i < kItems; ++i) {
    last = EVERKERNEL_TRY(session.publish({.opcode = Word(abi::Opcode::atomic_add), .args = args},
                                          {.tenant = TenantId(tenant), .timeout = kTimeout}));
  }
  return session.wait(last, kTimeout).map([](const Completion&) {});
}

std::shared_ptr<backend::Backend> find_backend() {
  auto gpu = backend::cuda::make_backend();
  return gpu->capabilities().supported ? gpu : backend::cpu::make_backend();
}

Result<bool> run(const std::shared_ptr<backend::Backend>& backend) {
  Megakernel kernel = EVERKERNEL_TRY(Megakernel::create(backend));
  Session session = EVERKERNEL_TRY(kernel.start({.tenant_count = 2, .observable_slots = 2}));

  std::array<Result<void>, 2> ends;
  {
    std::jthread first([&] { ends[0] = produce(session, 0); });
    std::jthread second([&] { ends[1] = produce(session, 1); });
  }
  for (const auto& end : ends) EVERKERNEL_TRY(end);
  EVERKERNEL_TRY(session.wait_all(kTimeout));

  SessionSnapshot look;
  EVERKERNEL_TRY(session.snapshot(look));
  const auto& claims = look.telemetry.control.tenant_fairness;
  const std::array<Word, 2> sums{*session.observable(0), *session.observable(1)};
  const StopReport report = session.stop(StopMode::drain, kTimeout);
  fmt::print("{}: {} items done; tenant 0: {} claims, sum {}; tenant 1: {} claims, sum {}\n",
             backend->capabilities().id, report.done, claims[0], sums[0], claims[1], sums[1]);
  return report.done == 2 * kItems && report.faulted == 0 && report.cancelled == 0 &&
         look.counters.kernel.done == 2 * kItems && sums[0] == kItems && sums[1] == kItems;
}

}  // namespace

int main() {
  const auto is_right = run(find_backend());
  if (!is_right) fmt::print("error: {}\n", is_right.error().message);
  return is_right && *is_right ? 0 : 1;
}
