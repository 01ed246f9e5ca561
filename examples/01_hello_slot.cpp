// The smallest program: starts the kernel once, publishes one slot and reads the result.
#include <fmt/format.h>

#include <array>
#include <chrono>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"

int main() {
  using namespace everkernel;
  // [readme]
  auto kernel = Megakernel::create(backend::cpu::make_backend()).value();
  auto session = kernel.start().value();  // from here on the kernel stays; nothing is launched

  const std::array<abi::Word, 2> args{5, 160};  // control[160] += 5
  const auto ticket =
      session.publish({.opcode = abi::Word(abi::Opcode::atomic_add), .args = args}).value();
  const auto completion = session.wait(ticket, std::chrono::seconds(10)).value();

  const auto sum = session.observable(0).value();  // control word 160
  fmt::print("{}, the sum is {}\n", completion.is_done() ? "done" : "fault", sum);
  // [/readme]
  return completion.is_done() && sum == 5 ? 0 : 1;
}
