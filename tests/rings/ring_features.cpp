// The features that the generator of rings reached, and rings as text.
#include <fmt/format.h>

#include <algorithm>

#include "everkernel/abi/fault.hpp"
#include "ring_generator.hpp"

namespace everkernel::test {
namespace {

using namespace wire;

struct Named {
  Word number;
  const char* name;
};

constexpr Named kStatuses[] = {
    {kEmpty, "empty"},    {kPublished, "published"}, {kClaimed, "claimed"}, {kDone, "done"},
    {kWaitIo, "wait_io"}, {kYield, "yield"},         {kRequeue, "requeue"}, {kFault, "fault"},
};
constexpr Named kOpcodes[] = {
    {kNop, "NOP"},
    {kStore, "STORE_U32"},
    {kAdd, "ATOMIC_ADD"},
    {kLoad, "LOAD_U32"},
    {kSwap, "COMPARE_SWAP"},
    {kCopy, "MEMCPY"},
    {kDfa, "DFA_STEP"},
    {kFence, "BATCH_FENCE"},
    {kLoadMiss, "LOAD_MISS"},
    {kPrintf, "PRINTF"},
    {kPacked, "PACKED_SLOT"},
    {kShutdown, "SHUTDOWN"},
    {handler::kCountdown, "countdown"},
    {handler::kFaulter, "faulter"},
    {handler::kLooper, "looper"},
    {handler::kTwice, "twice"},
    {handler::kObserve, "observe"},
    {handler::kMover, "mover"},
    {handler::kStamp, "stamp"},
    {handler::kTotal, "total"},
    {handler::kPrinter, "printer"},
    {handler::kWaiter, "waiter"},
};
constexpr Named kIoStatuses[] = {{0, "empty"}, {1, "published"}, {2, "claimed"},
                                 {3, "done"},  {0x10, "ok"},     {0x11, "error"}};

template <std::size_t kCount>
const char* name_of(const Named (&rows)[kCount], Word number, const char* otherwise) {
  for (const Named& row : rows) {
    if (row.number == number) return row.name;
  }
  return otherwise;
}

bool is_claimable(Word status) {
  return status == kPublished || status == kYield || status == kRequeue;
}

void add_slot_features(const RingImage& image, Word index, std::set<std::string>& features) {
  const Word* const words = image.slot(index);
  features.insert(fmt::format("status {}", name_of(kStatuses, words[0], "unknown")));
  if (words[0] == kWaitIo) {
    const Word io = words[15];
    features.insert(io < image.io_count()
                        ? fmt::format("waits for {}",
                                      name_of(kIoStatuses, image.io_queue[io * 8 + 6], "unknown"))
                        : "waits for no IO slot");
  }
  if (!is_claimable(words[0])) return;
  features.insert(name_of(kOpcodes, words[1], "unknown opcode"));
  if (words[2] > 28) features.insert("tenant above 28");
  if ((words[3] & 0xFFFF) > 4) features.insert("priority above 4");
  if (words[1] == kFence && words[4] > 0 && words[4] <= index) {
    bool is_nested = false;
    bool is_stuck = false;
    for (Word i = 1; i <= words[4]; ++i) {
      const Word* const before = image.slot(index - i);
      is_nested |= is_claimable(before[0]) && before[1] == kFence;
      is_stuck |= before[0] == kClaimed || before[0] == kWaitIo || before[0] > kFault;
    }
    if (is_nested) features.insert("fence over a fence");
    if (is_stuck) features.insert("fence over a stuck slot");
  }
}

void add_control_features(const GeneratedRing& ring, std::set<std::string>& features) {
  const auto& control = ring.image.control;
  if (control[0] != 0) features.insert("shutdown at entry");
  if (control[2] != 3) features.insert("another tenant base");
  if (control[1] > 100) features.insert("counters about to wrap");
  if (control[142] != 0) features.insert("a ticket lap of its own");
  if (control[134] != 0) features.insert("own priority offsets");
  if (control.size() == 160) features.insert("no observables");
  for (Word i = 3; i < 32; ++i) {
    if (control[i] == 0) features.insert("mask 0");
    if (control[i + 29] == 0) features.insert("quota 0");
    if (control[i + 29] == 1) features.insert("quota 1");
  }
  if (ring.without_log) features.insert("without a debug log");
  if (ring.without_queue) features.insert("without an IO queue");
  if (ring.image.debug_log.size() == 1) features.insert("no room for records");
}

}  // namespace

std::set<std::string> features_of(const GeneratedRing& ring) {
  std::set<std::string> features;
  for (Word i = 0; i < ring.image.slot_count(); ++i) add_slot_features(ring.image, i, features);
  add_control_features(ring, features);
  return features;
}

std::set<std::string> endings_of(const RingImage& start, const RingModel& end) {
  std::set<std::string> endings;
  for (Word i = 0; i < start.slot_count(); ++i) {
    const Word* const before = start.slot(i);
    const Word* const after = end.image().slot(i);
    if (std::equal(before, before + 16, after)) {
      if (!is_claimable(before[0])) continue;
      endings.insert(before[1] == kFence ? "a fence that stays" : "an item that stays");
    } else if (after[0] == kFault) {
      endings.insert(fmt::format("fault {}", abi::fault_name(after[3] >> 16)));
    } else {
      endings.insert(name_of(kStatuses, after[0], "unknown"));
    }
    const Word op_count = before[4] & 0xFF;
    if (before[1] == kPacked && after[0] == kFault && (after[3] >> 16) != 6 && op_count > 1) {
      endings.insert("a packed slot that faults on its way");
    }
  }
  const std::size_t room = start.debug_log.empty() ? 0 : (start.debug_log.size() - 1) / 4;
  if (end.printed() > room) endings.insert("records dropped");
  if (end.starved_of_io()) endings.insert("no free IO slot");
  if (end.image().control[0] != start.control[0]) endings.insert("shutdown");
  return endings;
}

std::vector<std::string> all_features() {
  std::vector<std::string> all = {"status unknown",
                                  "unknown opcode",
                                  "tenant above 28",
                                  "priority above 4",
                                  "fence over a fence",
                                  "fence over a stuck slot",
                                  "shutdown at entry",
                                  "mask 0",
                                  "quota 0",
                                  "quota 1",
                                  "no observables",
                                  "another tenant base",
                                  "counters about to wrap",
                                  "a ticket lap of its own",
                                  "own priority offsets",
                                  "without a debug log",
                                  "without an IO queue",
                                  "no room for records",
                                  "waits for unknown",
                                  "waits for no IO slot"};
  for (const Named& row : kStatuses) all.push_back(fmt::format("status {}", row.name));
  for (const Named& row : kOpcodes) all.emplace_back(row.name);
  for (const Named& row : kIoStatuses) all.push_back(fmt::format("waits for {}", row.name));
  return all;
}

std::vector<std::string> all_endings() {
  std::vector<std::string> all = {"done",
                                  "wait_io",
                                  "a fence that stays",
                                  "an item that stays",
                                  "a packed slot that faults on its way",
                                  "records dropped",
                                  "no free IO slot",
                                  "shutdown"};
  for (Word code = 1; code <= 9; ++code)
    all.push_back(fmt::format("fault {}", abi::fault_name(code)));
  all.emplace_back("fault user");
  return all;
}

std::string describe(const GeneratedRing& ring) {
  const RingImage& image = ring.image;
  std::string text = fmt::format(
      "  {} control words{}{}{}\n   ", image.control.size(), ring.is_in_order ? ", in order" : "",
      ring.without_log ? ", no debug log" : "", ring.without_queue ? ", no IO queue" : "");
  // Observables begin with random words; only words that steer the workers are printed.
  for (std::size_t i = 0; i < 160; ++i) {
    const bool is_usual = image.control[i] == (i >= 32 && i < 64 ? 1'000'000u : 0u);
    if (!is_usual) text += fmt::format(" [{}]={:#x}", i, image.control[i]);
  }
  text += '\n';
  for (Word i = 0; i < image.slot_count(); ++i) {
    const Word* const words = image.slot(i);
    if (words[0] == kEmpty) continue;
    text += fmt::format("  slot {}: {} {} tenant {:#x} priority {:#x} args", i,
                        name_of(kStatuses, words[0], "unknown"),
                        name_of(kOpcodes, words[1], fmt::format("{:#x}", words[1]).c_str()),
                        words[2], words[3]);
    for (Word k = 4; k < 16; ++k) text += fmt::format(" {:#x}", words[k]);
    text += '\n';
  }
  for (Word i = 0; i < image.io_count(); ++i) {
    text += fmt::format("  IO slot {}: {}\n", i,
                        name_of(kIoStatuses, image.io_queue[i * 8 + 6], "unknown"));
  }
  if (!image.debug_log.empty()) {
    text += fmt::format("  debug log: {} words, cursor {}\n", image.debug_log.size(),
                        image.debug_log[0]);
  }
  return text;
}

}  // namespace everkernel::test
