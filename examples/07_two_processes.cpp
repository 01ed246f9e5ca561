// Two processes: the parent runs the kernel, and its child publishes items and reads their answers.
// The queue is the only thing they share. A child that crashes, or writes nonsense into its queue,
// hurts nobody else. The kernel runs on the GPU if there is one, otherwise on the CPU.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/runtime/megakernel.hpp"

namespace {

using namespace everkernel;
using abi::Word;

constexpr Word kAdd = 64;
constexpr Word kItems = 1000;
constexpr auto kTimeout = std::chrono::seconds(30);

// The child: publishes questions, 100 at a time, and checks the answers.
Result<bool> ask(int descriptor) {
  Queue queue = EVERKERNEL_TRY(attach_queue(descriptor));
  for (Word first = 0; first < kItems; first += 100) {
    std::array<abi::WorkItem, 100> questions;
    for (Word i = 0; i < 100; ++i) questions[i] = {kAdd, first + i, 1000, 0};
    const TicketRange tickets = EVERKERNEL_TRY(queue.publish_items(questions, kTimeout));
    for (Word i = 0; i < 100; ++i) {
      const Completion answer = EVERKERNEL_TRY(queue.wait(tickets[i], kTimeout));
      if (!answer.is_done() || answer.results[0] != first + i + 1000) return false;
    }
  }
  return true;
}

std::shared_ptr<backend::Backend> find_backend() {
  auto gpu = backend::cuda::make_backend();
  return gpu->capabilities().supported ? gpu : backend::cpu::make_backend();
}

// The parent: the queue it opened decides whose items they are and how urgent, whatever the child
// writes.
Result<bool> run() {
  ir::Program program =
      EVERKERNEL_TRY(ir::parse("handler add = 64 { args[9] = args[0] + args[1]; }"));
  const auto handlers = EVERKERNEL_TRY(ir::verify(std::move(program)));
  Megakernel kernel = EVERKERNEL_TRY(Megakernel::create(find_backend(), {.handlers = handlers}));
  Session session = EVERKERNEL_TRY(kernel.start());
  Queue queue =
      EVERKERNEL_TRY(session.open_queue({.tenant = TenantId(1), .capacity = 256, .results = true}));
  const int descriptor = EVERKERNEL_TRY(queue.descriptor());

  const pid_t child = ::fork();
  if (child == 0) {
    const auto is_right = ask(descriptor);
    if (!is_right) fmt::print("child: {}\n", is_right.error().message);
    ::_exit(is_right && *is_right ? 0 : 1);
  }
  ::close(descriptor);
  int status = 0;
  ::waitpid(child, &status, 0);
  queue.close(StopMode::drain);
  const StopReport report = session.stop(StopMode::drain);
  fmt::print("the child asked {} questions and {}\n", report.done,
             status == 0 ? "got the right answers" : "did not get the right answers");
  return status == 0 && report.done == kItems && report.faulted == 0;
}

}  // namespace

int main() {
  const auto is_right = run();
  if (!is_right) fmt::print("error: {}\n", is_right.error().message);
  return is_right && *is_right ? 0 : 1;
}
