// Any change of the fields of a handler's tree: refused, or printed and run. The input is a text, a
// zero byte, and the choices of the changes.
#include <cstring>
#include <string_view>

#include "handler_run.hpp"
#include "support/tree_mutator.hpp"

namespace everkernel::fuzz {
namespace {

constexpr std::size_t kLongestText = 4 * 1024;
constexpr int kMostChanges = 8;

/// Takes choices from the input; zeros behind its end.
class InputChoices {
 public:
  explicit InputChoices(std::string_view input) : input_(input) {}

  bool is_empty() const { return input_.empty(); }
  Word below(Word count) { return take(count <= 256 ? 1 : 4) % count; }
  Word word() { return take(4); }

 private:
  Word take(std::size_t size_bytes) {
    Word word = 0;
    const std::size_t taken = std::min(size_bytes, input_.size());
    std::memcpy(&word, input_.data(), taken);
    input_.remove_prefix(taken);
    return word;
  }

  std::string_view input_;
};

void check(std::string_view input) {
  const std::size_t end = input.find('\0');
  if (end == std::string_view::npos || end > kLongestText) return;
  auto program = ir::parse(input.substr(0, end));
  if (!program) return;
  InputChoices choices(input.substr(end + 1));
  test::TreeMutator mutator(choices);
  for (int i = 0; i < kMostChanges && !choices.is_empty(); ++i) mutator.mutate(*program);
  const auto verified = ir::verify(*std::move(program));
  if (verified) return check_verified(*verified);
  EVERKERNEL_ASSERT(verified.error().code == Code::invalid_argument);
  EVERKERNEL_ASSERT(!verified.error().message.empty());
}

}  // namespace
}  // namespace everkernel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  everkernel::fuzz::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
