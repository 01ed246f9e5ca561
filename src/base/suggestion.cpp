// Optimal string alignment over short words: three rows of at most 33 numbers.
#include "everkernel/base/suggestion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace everkernel {
namespace {

constexpr std::size_t kLongest = 32;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Edits that leave a word recognisable.
std::size_t most_edits(std::size_t size) {
  return size < 3 ? 0 : size < 6 ? 1 : 2;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::array<std::array<std::size_t, kLongest + 1>, 3> rows = {};
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i - 1) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool is_same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (is_same ? 0 : 1)});
      const bool is_swap = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (is_swap) row[j] = std::min(row[j], rows[(i - 2) % 3][j - 2] + 1);
    }
  }
  return rows[a.size() % 3][b.size()];
}

Suggestion::Suggestion(std::string_view word)
    : word_(word), best_distance_(word.size() > kLongest ? 0 : most_edits(word.size()) + 1) {}

void Suggestion::offer(std::string_view candidate) {
  if (candidate.size() > kLongest || best_distance_ == 0) return;
  const std::size_t longer = std::max(candidate.size(), word_.size());
  if (longer - std::min(candidate.size(), word_.size()) >= best_distance_) return;
  const std::size_t distance = edit_distance(word_, candidate);
  // A candidate that shares no letter in its place is no typo: `i` is not meant for `n`.
  if (distance >= best_distance_ || distance >= candidate.size()) return;
  best_distance_ = distance;
  best_ = candidate;
}

std::string Suggestion::hint(std::string_view otherwise) const {
  if (best_.empty()) return std::string(otherwise);
  return fmt::format("did you mean `{}`?", best_);
}

}  // namespace everkernel
