// Random rings with every feature of the wire format, and with many violations of it.
//
// Workers may visit slots in any order, so the effects of the items of one ring must not depend on
// the order: sums go to shared words, every other result to words that only one slot writes. Rings
// made `in_order` are for one worker and break that rule wherever the order of that worker is
// fixed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ring_model.hpp"
#include "support/jit_random.hpp"

namespace everkernel::test {

/// How a ring is made.
struct RingShape {
  Word slot_count = 1;
  Word submission = 0;       // its place among the submissions of one dispatch
  bool is_in_order = false;  // one worker: effects may depend on the order
  bool is_busy = false;      // many items that take long, so that several run at one time
  Word fuel = 1000;          // turns of loops an item may take
};

/// Most submissions of one dispatch.
inline constexpr Word kMaxSubmissions = 4;

/// A ring and its neighbours before a dispatch.
struct GeneratedRing {
  RingImage image = {};
  bool is_in_order = false;    // effects depend on the order
  bool has_returns = false;    // items come back: only the order inside a partition is fixed
  bool without_log = false;    // dispatched without a debug log
  bool without_queue = false;  // dispatched without an IO queue: there is one of one slot
};

/// The buffers that handlers of these rings use.
std::vector<DataImage> generate_data(Random& random, Word slot_count);
GeneratedRing generate_ring(Random& random, const RingShape& shape);

/// The features of a ring, by name.
std::set<std::string> features_of(const GeneratedRing& ring);
/// How its items ended.
std::set<std::string> endings_of(const RingImage& start, const RingModel& end);
/// Every feature and ending that a generator must reach.
std::vector<std::string> all_features();
std::vector<std::string> all_endings();

/// The ring as text: the words that are not zero.
std::string describe(const GeneratedRing& ring);

}  // namespace everkernel::test
