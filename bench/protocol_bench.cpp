// How does the speed of encoding, publishing and decoding compare with copying the same bytes?
//
// The floor is memcpy of the bytes that each call writes or reads. A ring of a million slots has 64
// MB, so that memory bandwidth is the limit, not instructions.
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <random>
#include <span>

#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/ring.hpp"
#include "everkernel/protocol/ring_writer.hpp"
#include "everkernel/telemetry/decode.hpp"
#include "harness.hpp"

namespace everkernel::bench {
namespace {

using abi::Word;

constexpr Word kWindowOpcode = 64;

/// Memory from mmap, as a live ring has it.
class Pages {
 public:
  explicit Pages(std::size_t size)
      : size_(size),
        data_(static_cast<std::byte*>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0))) {
    if (data_ == MAP_FAILED) std::abort();
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(data_, size_); }

  std::span<std::byte> span() { return {data_, size_}; }

 private:
  std::size_t size_;
  std::byte* data_;
};

Word word_at(std::span<const std::byte> bytes, std::size_t index) {
  Word word;
  std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  return word;
}

std::uint64_t probe(std::span<const std::byte> bytes) {
  const std::size_t words = bytes.size() / sizeof(Word);
  return (std::uint64_t{word_at(bytes, words / 2 + 4)} << 32) | word_at(bytes, words - 16);
}

std::vector<abi::WorkItem> make_items(std::size_t count) {
  std::mt19937 random(1);
  std::vector<abi::WorkItem> items(count);
  for (abi::WorkItem& item : items) {
    item = {kWindowOpcode + Word(random()) % 8, Word(random()), Word(random()), Word(random())};
  }
  return items;
}

Contender copy_of(std::span<const std::byte> source, std::span<std::byte> target) {
  return {"memcpy", [=] {
            std::memcpy(target.data(), source.data(), source.size());
            return probe(target);
          }};
}

void ask_encode(Suite& suite, std::size_t slots) {
  const auto items = make_items(slots);
  Pages source(slots * abi::kSlotBytes), copy(source.span().size()), ring(source.span().size());
  if (!protocol::encode_items({.tenant = 3, .items = items}, source.span())) std::abort();
  suite.ask(
      {.name = "encode_items",
       .text = "a fresh ring of work items, against a copy of that ring",
       .items = slots,
       .bytes = source.span().size(),
       .contenders = {copy_of(source.span(), copy.span()),
                      {"encode_items", [&] {
                         if (!protocol::encode_items({.tenant = 3, .items = items}, ring.span())) {
                           std::abort();
                         }
                         return probe(ring.span());
                       }}}});
}

// Marks the window DONE again, as workers would; not timed.
void complete(std::span<std::byte> ring) {
  const Word done = static_cast<Word>(abi::SlotStatus::done);
  for (std::size_t at = 0; at < ring.size(); at += abi::kSlotBytes) {
    std::memcpy(ring.data() + at, &done, sizeof done);
  }
}

// The publisher finds every slot DONE and stores 64 bytes over it. Its floor also touches each line
// twice: a status store per slot, then the copy.
void ask_publish(Suite& suite, std::size_t slots, std::size_t window, std::size_t laps) {
  const auto items = make_items(slots);
  Pages source(slots * abi::kSlotBytes), copy(source.span().size()), ring(source.span().size());
  if (!protocol::encode_items({.items = items}, source.span())) std::abort();
  auto writer = *protocol::LiveRingWriter::bind(ring.span());
  const auto publish_lap = [&] {
    for (std::size_t first = 0; first < slots; first += window) {
      const auto count = writer.publish_items({.first_slot = static_cast<Word>(first),
                                               .items = std::span(items).subspan(first, window)});
      if (!count) std::abort();
    }
  };
  suite.ask({.name = "publish_items_live_" + std::to_string(slots),
             .text = "windows of " + std::to_string(window) + " into a live ring of " +
                     std::to_string(slots) + " slots, against copying the slots",
             .items = slots * laps,
             .bytes = source.span().size() * laps,
             .contenders = {{"memcpy",
                             [&] {
                               for (std::size_t lap = 0; lap < laps; ++lap) {
                                 complete(copy.span());
                                 std::memcpy(copy.span().data(), source.span().data(),
                                             source.span().size());
                               }
                               return probe(copy.span());
                             }},
                            {"publish_items", [&] {
                               for (std::size_t lap = 0; lap < laps; ++lap) {
                                 complete(ring.span());
                                 publish_lap();
                               }
                               return probe(ring.span());
                             }}}});
}

// Slots in every state, in windows of `window` slots with the given order of tickets.
void fill_windows(std::span<std::byte> ring, std::size_t window, bool is_shuffled) {
  std::mt19937 random(2);
  const std::size_t slots = ring.size() / abi::kSlotBytes;
  for (std::size_t i = 0; i < slots; ++i) {
    abi::Slot slot{abi::SlotStatus{Word(random()) % 8}, kWindowOpcode, Word(i % 29), 2, {}};
    slot.args[0] = is_shuffled ? Word(random()) % Word(slots / window + 1) : Word(i / window);
    slot.args[1] = Word(i % 2);
    std::memcpy(ring.data() + i * abi::kSlotBytes, &slot, sizeof slot);
  }
}

void ask_decode(Suite& suite, std::size_t slots, std::size_t window, bool is_shuffled) {
  Pages ring(slots * abi::kSlotBytes), copy(ring.span().size());
  fill_windows(ring.span(), window, is_shuffled);
  const protocol::ControlLayout layout{.tenant_count = 29, .observable_slots = 64};
  std::vector<std::byte> control(*protocol::control_bytes(layout));
  if (!protocol::encode_control(layout, control)) std::abort();
  telemetry::RingTelemetry telemetry;
  telemetry::DecodeScratch scratch;
  suite.ask({.name = "decode_windows_of_" + std::to_string(window) + (is_shuffled ? "_random" : ""),
             .text = is_shuffled ? "telemetry with windows whose slots lie anywhere in the ring"
                                 : "telemetry with windows, against a copy of the ring",
             .items = slots,
             .bytes = ring.span().size(),
             .contenders = {copy_of(ring.span(), copy.span()),
                            {"decode", [&] {
                               if (!telemetry::decode({.control = control,
                                                       .ring = ring.span(),
                                                       .window_opcodes = {&kWindowOpcode, 1}},
                                                      scratch, telemetry)) {
                                 std::abort();
                               }
                               return std::uint64_t{telemetry.occupancy.queue_depth()} +
                                      (std::uint64_t{telemetry.windows.size()} << 32);
                             }}}});
}

int run(int argc, char** argv) {
  const Options options = Options::parse(argc, argv);
  Suite suite("protocol", options);
  const std::size_t slots = options.scale(1 << 20, 1 << 10);
  ask_encode(suite, slots);
  ask_publish(suite, options.scale(1024, 256), 256, options.scale(256, 2));
  ask_publish(suite, slots, 256, 1);
  ask_decode(suite, slots, 32, false);
  ask_decode(suite, slots, 32, true);
  ask_decode(suite, slots, 1, false);
  return suite.finish();
}

}  // namespace
}  // namespace everkernel::bench

int main(int argc, char** argv) {
  return everkernel::bench::run(argc, argv);
}
