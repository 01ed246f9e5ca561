// Words of other languages that people write in handlers.
#include "ir/foreign_words.hpp"

#include <utility>

namespace everkernel::ir {
namespace {

constexpr std::pair<std::string_view, std::string_view> kForeignWords[] = {
    {"length", "len"},     {"size", "len"},        {"count", "len"},     {"float", "f32"},
    {"int", "i32"},        {"uint", "u32"},        {"unsigned", "u32"},  {"elif", "else if"},
    {"elseif", "else if"}, {"pow2", "exp2"},       {"print", "printf"},  {"mut", "var"},
    {"const", "let"},      {"foreach", "each"},    {"parallel", "each"}, {"loop", "while"},
    {"exit", "return"},    {"throw", "fault"},     {"abort", "fault"},   {"mem", "buffer"},
    {"arg", "args"},       {"popcnt", "popcount"}, {"ctz", "clz"},
};

}  // namespace

std::string_view foreign_word(std::string_view word) {
  Suggestion nearest(word);
  for (const auto& [foreign, ours] : kForeignWords) {
    if (foreign == word) return ours;
    if (foreign.size() >= 5) nearest.offer(foreign);  // `lenght` is `len`, too
  }
  for (const auto& [foreign, ours] : kForeignWords) {
    if (foreign == nearest.best()) return ours;
  }
  return {};
}

}  // namespace everkernel::ir
