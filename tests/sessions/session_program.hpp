// Random handlers of a session, and the model that says how one item of them ends.
//
// A handler is a row of steps, printed as text for the kernel and walked by the model. Every item
// has a word of its own in the trace buffer, named by its param: it counts the effects that the
// item has had, in order. So the trace tells of an item that was cancelled or aborted how far it
// came, and what it then left in every other buffer follows.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "everkernel/abi/control.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "support/jit_random.hpp"

namespace everkernel::test {

using abi::Word;

/// The handles of a session.
namespace session_handle {
inline constexpr Word kTrace = 1;     ///< a word for each item of a handler: effects it has had
inline constexpr Word kPeak = 2;      ///< by tenant: items that run; from word 32: the most of them
inline constexpr Word kSums = 3;      ///< sums of everyone
inline constexpr Word kOwned = 4;     ///< sums that belong to one tenant
inline constexpr Word kReadOnly = 5;  ///< items may not write it
inline constexpr Word kShort = 6;     ///< too short for some indices
inline constexpr Word kMoving = 7;    ///< comes and goes while items run; word 0 is its number
inline constexpr Word kSource = 8;    ///< is read
inline constexpr Word kAbsent = 9;    ///< never there
inline constexpr Word kSeen = 10;     ///< for each item of `look`: the number it saw, plus 1
}  // namespace session_handle

/// Words of the observables that items change: the rest is not looked at.
namespace session_observable {
inline constexpr Word kCount = 256;         ///< of a session
inline constexpr Word kFirstSum = 1;        ///< ATOMIC_ADD
inline constexpr Word kFirstStore = 17;     ///< STORE_U32, each word always the same value
inline constexpr Word kFirstSwap = 40;      ///< COMPARE_SWAP from 0, each word to the same value
inline constexpr Word kFirstScratch = 100;  ///< what is written here is not compared
inline constexpr Word kWords = 16;          ///< of each of these
}  // namespace session_observable

/// An atomic operation that commutes with itself. Each has words of its own in a buffer of sums.
enum class SumKind : Word { add, bit_or, bit_xor, most, least };
inline constexpr Word kSumKinds = 5;
inline constexpr Word kSumWords = 16;  ///< words of each kind

/// One thing that a handler does.
struct HandlerStep {
  enum class Kind { mix, read, sum, leave, fault, end, who, note, reply, meet, spin };
  Kind kind = Kind::mix;
  Word a = 0, b = 0, c = 0;  ///< what they mean follows from the kind
};

/// A handler of a random session.
struct SessionHandler {
  Word opcode = 0;
  Word salt = 0;
  std::vector<HandlerStep> steps = {};
  bool can_leave = false;  ///< it may yield
  bool has_loops = false;  ///< it can be aborted
};

/// The handlers of a session.
struct SessionProgram {
  std::vector<SessionHandler> handlers = {};
  Word look_opcode = 0;  ///< reads word 0 of its input and notes it
  std::uint64_t fuel = 0;
  bool is_native = false;  ///< compiled beside the items, which wait for it
  std::string text = {};

  /// The handler of an opcode, null if there is none.
  const SessionHandler* find(Word opcode) const;
};

/// Handlers that follow from the random numbers.
SessionProgram generate_session_program(Random& random);

/// A buffer that exists while a session runs.
struct SessionBuffer {
  Word handle = 0;
  std::vector<Word> words = {};  ///< at the beginning
  memory::Access access = memory::Access::read_write;
  Word owner = memory::kEveryTenant;
};

/// An item of a plan: an operation, or several packed ones.
struct PlannedItem {
  Word opcode = 0;
  Word arg_count = 0;
  std::array<Word, 12> args = {};
  std::vector<PlannedItem> inner = {};  ///< of a packed one
};

/// What an item changes, in order. `trace` is the word of the trace buffer that counts it.
struct SessionEffect {
  Word trace = 0;
  bool begins_run = false;  ///< a run of the item began; nothing else changed
  SumKind kind = SumKind::add;
  Word handle = 0, index = 0, value = 0;
};

/// A change of an observable.
struct ObservableEffect {
  bool is_sum = false;  ///< else the word has this value afterwards
  Word observable = 0, value = 0;
};

/// How an item ends when nothing disturbs it.
struct ItemModel {
  std::vector<SessionEffect> effects = {};
  std::vector<std::size_t> rests = {};  ///< effects before each yield
  std::vector<ObservableEffect> observables = {};
  std::vector<Word> executed = {};  ///< opcodes that reach DONE in it, of packed ones also inside
  Word runs = 1;                    ///< claims that are counted
  Word fault_code = 0;              ///< 0 = DONE
  std::array<Word, 3> results = {};
  bool is_look = false;   ///< whether it is DONE depends on the moving buffer
  bool is_fence = false;  ///< whether it is DONE depends on its ticket
};

/// The circumstances of an item.
struct ItemPlace {
  Word tenant = 0;
  Word priority = 0;
};

/// Runs an item in the model.
ItemModel model_item(const SessionProgram& program, const std::vector<SessionBuffer>& buffers,
                     const PlannedItem& item, const ItemPlace& place);

/// Applies an effect to the words of a buffer of sums.
void apply_sum(SumKind kind, Word value, Word& word);

/// The value of a word that STORE_U32 and COMPARE_SWAP of a plan write there.
constexpr Word stored_value(Word observable) {
  return observable * 77 + 5;
}

}  // namespace everkernel::test
