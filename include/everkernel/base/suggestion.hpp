// "Did you mean …?": the known word that is nearest to one that is not known.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace everkernel {

/// Receives candidates and keeps the nearest to a word. The cost of a candidate is bounded: words
/// longer than 32 bytes are near to nothing.
class Suggestion {
 public:
  /// Looks for a word near to `word`, which must outlive this object.
  explicit Suggestion(std::string_view word);

  /// Compares a candidate, which must outlive this object.
  void offer(std::string_view candidate);
  /// The nearest candidate; empty if none is near.
  std::string_view best() const { return best_; }
  /// `did you mean NAME?`, or `otherwise` if no candidate is near.
  std::string hint(std::string_view otherwise) const;

 private:
  std::string_view word_;
  std::string_view best_ = {};
  std::size_t best_distance_;  // one more than what counts as near, before the first candidate
};

/// The least number of letters to insert, delete, replace or swap with their neighbour between two
/// words of at most 32 bytes; ignores case.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace everkernel
