// The handlers of the random rings: their text, and beside it the effects of each of them, written
// a second time in plain C++ so that the model needs neither interpreter nor code generator.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "everkernel/abi/platform.hpp"

namespace everkernel::test {

using abi::Word;

/// Opcodes of the handlers. Numbers up to 255 fit a packed slot, those below 32 have a metric.
namespace handler {
inline constexpr Word kCountdown = 8;        // comes back args[3] times
inline constexpr Word kFaulter = 9;          // adds, then faults with its own code
inline constexpr Word kLooper = 10;          // args[3] turns, perhaps more than its fuel
inline constexpr Word kTwice = 16;           // adds twice; for packed slots
inline constexpr Word kObserve = 31;         // writes control words
inline constexpr Word kMover = 64;           // reads a word and writes another: order matters
inline constexpr Word kMark = 200;           // as kStamp; for packed slots
inline constexpr Word kTotal = 255;          // an each over the group
inline constexpr Word kPrinter = 0xFFEF;     // prints, yields, prints
inline constexpr Word kStamp = 0x10000;      // writes the words it sees of its slot, and an arg
inline constexpr Word kWaiter = 0x7FFFFFFF;  // awaits, then adds
}  // namespace handler

/// Text of the program.
std::string_view handlers_text();

/// A buffer that handlers reach.
struct DataImage {
  Word handle = 0;
  Word access = 3;           // 1 = load, 2 = store, 3 = both and atomics
  Word owner = 0xFFFFFFFFu;  // a tenant, or all of them
  std::vector<Word> words = {};
};

/// Handles of the buffers; every other number names nothing.
namespace handle {
inline constexpr Word kShared = 1;           // for all tenants
inline constexpr Word kTable = 2;            // read only
inline constexpr Word kWriteOnly = 3;        // write only
inline constexpr Word kPayload = 5;          // to which the payload adds
inline constexpr Word kMeeting = 6;          // items in a loop now, and most at one time
inline constexpr Word kOwned = 77;           // of one tenant
inline constexpr Word kLarge = 0x7FFFFFFFu;  // for all tenants; the highest handle there is
}  // namespace handle
inline constexpr Word kOwnerOfOwned = 3;
inline constexpr Word kPayloadWords = 64;

/// A PRINTF record.
using Record = std::array<Word, 4>;

/// The memory that items touch besides their slot.
struct ItemWorld {
  std::vector<Word>& control;
  std::vector<DataImage>& data;
  std::vector<Record>& records;
  Word fuel = 0;  // turns of loops an item may take
};

/// One run of one item.
struct ItemRun {
  std::array<Word, 12> args = {};
  Word opcode = 0;
  Word tenant = 0;
  Word priority = 0;
  Word slot = 0;
};

/// How a run ended. Where a run breaks several rules at once, any of the codes may be reported.
struct RunEnd {
  enum class Kind { done, yield, requeue, wait_io, fault };
  Kind kind = Kind::done;
  std::vector<Word> codes = {};
  std::array<Word, 8> request = {};  // of wait_io: the words of the IO slot, with any tag
};

/// Whether there is a handler with this opcode.
bool is_handler(Word opcode);
/// Whether a handler can yield, requeue or wait.
bool can_return(Word opcode);
/// Whether the next run of this item asks for IO.
bool will_await(Word opcode, const std::array<Word, 12>& args);

/// Runs a handler once.
RunEnd run_handler(ItemRun& run, ItemWorld& world);
/// Runs the payload once.
RunEnd run_payload(ItemRun& run, ItemWorld& world);

/// The word at `index` of a buffer for that kind of access (1 = load, 2 = store, 3 = atomics);
/// null, with the fault codes in `codes`, if the access is not allowed.
Word* data_word(ItemWorld& world, Word handle, std::uint64_t index, Word access, Word tenant,
                std::vector<Word>& codes);
/// A control word to write; null as above.
Word* control_word(ItemWorld& world, std::uint64_t index, Word tenant, std::vector<Word>& codes);

}  // namespace everkernel::test
