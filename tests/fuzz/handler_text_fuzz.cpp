// Any bytes as handler text: parsed, verified, printed, and run for a moment. A text that verifies
// is printed to a fixed point that verifies and gives the same run.
#include <string>
#include <string_view>

#include "handler_run.hpp"

namespace everkernel::fuzz {
namespace {

// A mistake is `invalid_argument`, begins with its place and has a message.
void check_mistake(const Error& error) {
  EVERKERNEL_ASSERT(error.code == Code::invalid_argument);
  EVERKERNEL_ASSERT(!error.message.empty() && error.message[0] >= '1' && error.message[0] <= '9');
}

// Printing adds blanks, so that a text just inside a limit may be outside of it when printed.
// Longer texts are left to the tests.
constexpr std::size_t kLongestText = 16 * 1024;

void check(std::string_view text) {
  if (text.size() > kLongestText) return;
  const auto program = ir::parse(text);
  if (!program) return check_mistake(program.error());
  const std::string printed = ir::print(*program);
  const auto verified = ir::verify(*program);
  if (!verified) return check_mistake(verified.error());
  EVERKERNEL_ASSERT(print(*verified) == printed);
  check_verified(*verified);
  // The same nodes in the same order.
  const auto again = ir::verify(*ir::parse(printed));
  for (std::size_t i = 0; i < again->handlers().size(); ++i) {
    const ir::VerifiedHandler &a = verified->handlers()[i], &b = again->handlers()[i];
    EVERKERNEL_ASSERT(a.types == b.types && a.expr_locals == b.expr_locals);
    EVERKERNEL_ASSERT(a.stmt_locals == b.stmt_locals && a.locals.size() == b.locals.size());
  }
}

}  // namespace
}  // namespace everkernel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  everkernel::fuzz::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
