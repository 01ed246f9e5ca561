// The wire format executed as a reader would do it by hand: one slot after the other, on plain
// vectors.
//
// Several workers may visit slots in many orders. The model is therefore given the words that the
// dispatch left: it runs each slot, in an order of its own, until the slot is as the dispatch left
// it, and then demands that every other word follows from that, and that no slot could still run.
// With one worker it runs in the order of the schedule instead, without those words. Written from
// the wire format alone; numbers are typed here a second time on purpose.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "everkernel/backend/backend.hpp"
#include "ring_handlers.hpp"

namespace everkernel::test {

/// Numbers of the wire format.
namespace wire {
inline constexpr Word kEmpty = 0, kPublished = 1, kClaimed = 2, kDone = 3;
inline constexpr Word kWaitIo = 4, kYield = 5, kRequeue = 6, kFault = 7;
inline constexpr Word kNop = 0, kStore = 1, kAdd = 2, kLoad = 3, kSwap = 4, kCopy = 5, kDfa = 6;
inline constexpr Word kFence = 7, kLoadMiss = 0xFFFD, kPrintf = 0xFFFE;
inline constexpr Word kPacked = 0x80000001u, kShutdown = 0xFFFFFFFFu;
inline constexpr Word kIoDone = 3, kIoOk = 0x10, kIoError = 0x11;
inline constexpr Word kFirstObservable = 160;
}  // namespace wire

/// The four buffers of a submission as words.
struct RingImage {
  std::vector<Word> control = {};
  std::vector<Word> ring = {};
  std::vector<Word> debug_log = {};
  std::vector<Word> io_queue = {};

  Word slot_count() const { return static_cast<Word>(ring.size() / 16); }
  Word io_count() const { return static_cast<Word>(io_queue.size() / 8); }
  Word* slot(Word index) { return ring.data() + std::size_t{index} * 16; }
  const Word* slot(Word index) const { return ring.data() + std::size_t{index} * 16; }
};

/// First slot of each priority and the end, as the control words say.
std::array<Word, 6> partition_offsets(const std::vector<Word>& control, Word slot_count);
/// The partition a slot lies in.
Word partition_of(const std::array<Word, 6>& offsets, Word slot);

/// Which order is fixed, besides the result of every item.
enum class Exactness {
  any_order,      // several workers
  in_partitions,  // one worker, but items come back: the claims of each partition
  in_order,       // one worker: the whole order
};

/// How the model runs.
struct ModelOptions {
  backend::Schedule schedule = backend::Schedule::direct;
  bool has_payload = false;
  Word fuel = 1000;  // turns of loops an item may take
};

/// Runs one submission, from the words before the dispatch to the words after it.
class RingModel {
 public:
  RingModel(RingImage start, std::vector<DataImage>& data, const ModelOptions& options);

  /// Runs every slot until it is as in `seen`, or cannot run.
  void follow(const RingImage& seen);
  /// Runs in the order of one worker until nothing can run or SHUTDOWN is set.
  void run_in_order();
  /// The lowest slot that could still run, or -1.
  std::int64_t next_runnable() const;

  /// The first difference from the words of the dispatch, empty if there is none.
  std::string difference(const RingImage& seen, Exactness exactness) const;

  const RingImage& image() const { return image_; }
  std::uint64_t done() const { return done_; }
  std::uint64_t faulted() const { return faulted_; }
  std::uint64_t printed() const { return records_.size(); }
  /// Whether an item that was put back ran later: a worker that keeps a cursor may then visit it at
  /// another time than the model did.
  bool ran_late() const { return ran_late_; }
  /// Whether items asked for more IO slots than there were.
  bool starved_of_io() const { return starved_of_io_; }

 private:
  struct Request {
    std::array<Word, 8> words = {};
    Word slot = 0;
    bool is_prefetch = false;  // then no slot holds its IO slot
    bool has_tag = true;       // false: the tag may be any word
  };
  struct SlotFacts {
    bool was_put_back = false;     // claimed and given back: the status may show it
    bool has_request = false;      // waits for a request of this dispatch: arg11 is open
    std::vector<Word> codes = {};  // of a fault: the codes it may have
  };

  bool is_offered(Word slot) const;
  bool step(Word slot);
  bool put_back(Word slot);
  bool finish_io(Word slot);
  bool fence_is_ready(Word slot) const;
  bool has_free_io() const;
  void claim(Word slot);
  RunEnd execute(ItemRun& run);
  RunEnd run_builtin(ItemRun& run);
  RunEnd run_copy(const ItemRun& run, ItemWorld& world);
  RunEnd run_dfa(const ItemRun& run, ItemWorld& world);
  RunEnd run_packed(const ItemRun& run);
  void run_fence(const ItemRun& run);
  RunEnd run_load_miss(const ItemRun& run);
  void count_execution(Word opcode);
  void end_run(Word slot, const ItemRun& run, const RunEnd& end);
  void end_as_fault(Word slot, std::vector<Word> codes);
  void end_as_done(Word slot);
  Word priority_of(Word slot) const;
  ItemWorld world() { return {image_.control, *data_, records_, options_.fuel}; }

  bool step_by_priority();
  bool is_as_seen(Word slot, const RingImage& seen) const;
  std::string ring_difference(const RingImage& seen) const;
  std::string control_difference(const RingImage& seen, Exactness exactness) const;
  std::string ticket_difference(const RingImage& seen) const;
  std::string first_observable_difference(const RingImage& seen) const;
  std::string log_difference(const RingImage& seen, Exactness exactness) const;
  std::string io_difference(const RingImage& seen) const;
  Word record_room() const;

  RingImage start_;
  RingImage image_;
  std::vector<DataImage>* data_;
  ModelOptions options_;
  std::array<Word, 6> offsets_ = {};
  std::vector<SlotFacts> facts_;
  std::vector<Record> records_;
  std::vector<Request> requests_;
  std::vector<Word> fences_;  // slots of those that completed, in order
  std::vector<bool> freed_;   // IO slots that were given back
  std::uint64_t done_ = 0;
  std::uint64_t faulted_ = 0;
  bool ran_late_ = false;
  bool starved_of_io_ = false;
};

}  // namespace everkernel::test
