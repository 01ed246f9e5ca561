// Any bytes as handler text: parsed, verified, printed, and run for a moment. A text that verifies
// is printed to a fixed point that verifies and gives the same run.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "handler_run.hpp"

namespace everkernel::fuzz {
namespace {

// A mistake is `invalid_argument`, begins with its place and has a message. Every mistake has a
// place in the text, in order, and can be shown.
void check_mistakes(std::string_view text, const Error& error, const ir::Diagnostics& mistakes) {
  EVERKERNEL_ASSERT(error.code == Code::invalid_argument);
  EVERKERNEL_ASSERT(!error.message.empty() && error.message[0] >= '1' && error.message[0] <= '9');
  EVERKERNEL_ASSERT(!mistakes.empty() && mistakes.count() >= mistakes.kept().size());
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  std::pair<std::uint32_t, std::uint32_t> previous = {1, 1};
  for (const ir::Diagnostic& mistake : mistakes.kept()) {
    const std::pair place = {mistake.location.line, mistake.location.column};
    EVERKERNEL_ASSERT(place >= previous && place.first <= lines && place.second >= 1);
    EVERKERNEL_ASSERT(place.second <= text.size() + 1 && !mistake.message.empty());
    EVERKERNEL_ASSERT(mistake.rule < ir::Rule::malformed_tree);
    previous = place;
  }
  constexpr std::size_t kMostBytesEach = 1000;
  EVERKERNEL_ASSERT(ir::render(mistakes, text, "").size() < kMostBytesEach * ir::kMostShown);
}

// Printing adds blanks, so that a text just inside a limit may be outside of it when printed.
// Longer texts are left to the tests.
constexpr std::size_t kLongestText = 16 * 1024;

void check(std::string_view text) {
  if (text.size() > kLongestText) return;
  ir::Diagnostics mistakes;
  const auto program = ir::parse(text, ir::kMaxProgramBytes, &mistakes);
  if (!program) return check_mistakes(text, program.error(), mistakes);
  const std::string printed = ir::print(*program);
  const auto verified = ir::verify(*program, &mistakes);
  if (!verified) return check_mistakes(text, verified.error(), mistakes);
  EVERKERNEL_ASSERT(mistakes.empty());
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
