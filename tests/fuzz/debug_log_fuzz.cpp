// Any bytes as a debug log: the view stays inside, and so does a writer that appends until full.
#include <algorithm>

#include "everkernel/protocol/debug_log.hpp"
#include "fuzz.hpp"

namespace everkernel::fuzz {
namespace {

using abi::Word;
using protocol::DebugLogView;
using protocol::DebugLogWriter;

// Appending the records to a log of the same size gives the same records.
void check_records(const DebugLogView& view, std::span<const std::byte> input) {
  EVERKERNEL_ASSERT(view.record_count() <= view.record_capacity());
  test::Bytes rebuilt(input.size());
  auto writer = *DebugLogWriter::bind(rebuilt);
  for (Word i = 0; i < view.record_count(); ++i) EVERKERNEL_ASSERT(writer.append(view.record(i)));
  const std::size_t used = (1 + std::size_t{view.record_count()} * 4) * 4;
  EVERKERNEL_ASSERT(std::ranges::equal(std::span(rebuilt).first(used), input.first(used)));
}

void check_appends(std::span<const std::byte> input, bool is_sound) {
  test::Bytes copy(input.begin(), input.end());
  auto writer = *DebugLogWriter::bind(copy);
  const std::size_t capacity = (input.size() / 4 - 1) / 4;
  std::size_t appended = 0;
  while (writer.append({1, {2, 3, 4}})) {
    ++appended;
    EVERKERNEL_ASSERT(appended <= capacity);
  }
  const std::size_t before = is_sound ? test::word_at(input, 0) / 4 : capacity;
  EVERKERNEL_ASSERT(appended == capacity - before);
  if (appended == 0) EVERKERNEL_ASSERT(std::ranges::equal(copy, input));
  // Words behind the last whole record are never written.
  const std::size_t end = (1 + capacity * 4) * 4;
  EVERKERNEL_ASSERT(std::ranges::equal(std::span(copy).subspan(end), input.subspan(end)));
}

void run(std::span<const std::byte> input) {
  const bool has_cursor = input.size() % 4 == 0 && input.size() >= 4;
  const Word cursor = has_cursor ? test::word_at(input, 0) : 0;
  const bool is_sound = has_cursor && cursor % 4 == 0 && cursor / 4 <= (input.size() / 4 - 1) / 4;
  const auto view = DebugLogView::parse(input);
  if (check_accepted(view, is_sound)) check_records(*view, input);
  if (has_cursor) check_appends(input, is_sound);
}

}  // namespace
}  // namespace everkernel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  everkernel::fuzz::run(everkernel::fuzz::input_bytes(data, size));
  return 0;
}
