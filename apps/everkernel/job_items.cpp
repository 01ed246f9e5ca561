// Lists of items, which grow wider when an item needs it, and files of items.
#include "job_items.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "files.hpp"
#include "numbers.hpp"

namespace everkernel::cli {
namespace {

// A file of wider items begins with these characters, the words of a record and a word that is 0:
// as long as a WorkItem. As one, it would name buffers that no job has.
constexpr std::string_view kMagic = "EKITEMS2";
constexpr std::size_t kMaxRecordWords = 1 + abi::kSlotArgs;

bool has_magic(const abi::WorkItem& header) {
  return std::memcmp(&header, kMagic.data(), kMagic.size()) == 0;
}

Failure wrong_header(const std::string& path, const std::string& message) {
  return fail(Code::corrupt, fmt::format("{}: {}", in_quotes(path), message),
              "the header is EKITEMS2, the words of an item (1..13), and a word that is 0");
}

Failure not_whole(const std::string& path, std::size_t bytes, std::size_t record_bytes,
                  std::string hint) {
  return fail(
      Code::corrupt,
      fmt::format("{}: {} are not whole items of {} bytes: {} left over", in_quotes(path),
                  counted(bytes, "byte"), record_bytes, counted(bytes % record_bytes, "byte")),
      std::move(hint));
}

std::span<const Word> without_zeros(std::span<const Word> args) {
  while (!args.empty() && args.back() == 0) args = args.first(args.size() - 1);
  return args;
}

}  // namespace

Word JobItems::arg(std::size_t item, std::size_t index) const {
  if (!is_compact()) return 1 + index < stride_ ? wide_[item * stride_ + 1 + index] : 0;
  const abi::WorkItem& compact = compact_[item];
  const Word args[kCompactArgs] = {compact.input_handle, compact.output_handle, compact.param};
  return index < kCompactArgs ? args[index] : 0;
}

std::size_t JobItems::used_args(std::size_t item) const {
  std::size_t count = is_compact() ? kCompactArgs : stride_ - 1;
  while (count > 0 && arg(item, count - 1) == 0) --count;
  return count;
}

std::uint64_t JobItems::growth_bytes(std::size_t arg_count) const {
  if (is_compact() && arg_count <= kCompactArgs) {
    return compact_.size() < compact_.capacity() ? 0 : 2 * compact_.size() * sizeof(abi::WorkItem);
  }
  const std::size_t stride = std::max(stride_, arg_count + 1);
  const std::size_t needed = (size() + 1) * stride;
  return needed <= wide_.capacity() ? 0 : 2 * needed * sizeof(Word);
}

void JobItems::widen(std::size_t stride) {
  if (is_compact()) {
    wide_.reserve((compact_.size() + 1) * stride);
    wide_.resize(compact_.size() * stride);
    for (std::size_t i = 0; i < compact_.size(); ++i) {
      std::memcpy(&wide_[i * stride], &compact_[i], sizeof(abi::WorkItem));
    }
    compact_ = {};
  } else {
    const std::size_t count = size();
    wide_.resize(count * stride);
    for (std::size_t i = count; i-- > 0;) {  // the last first: records move to higher places
      const auto from = wide_.begin() + static_cast<std::ptrdiff_t>(i * stride_);
      const auto to = wide_.begin() + static_cast<std::ptrdiff_t>(i * stride);
      const auto words = static_cast<std::ptrdiff_t>(stride_);
      std::copy_backward(from, from + words, to + words);
      std::fill(to + words, to + static_cast<std::ptrdiff_t>(stride), 0);
    }
  }
  stride_ = stride;
}

void JobItems::add(Word op, std::span<const Word> args) {
  args = without_zeros(args);
  if (is_compact() && args.size() <= kCompactArgs) {
    abi::WorkItem item{.op_handle = op, .input_handle = 0, .output_handle = 0, .param = 0};
    if (args.size() > 0) item.input_handle = args[0];
    if (args.size() > 1) item.output_handle = args[1];
    if (args.size() > 2) item.param = args[2];
    compact_.push_back(item);
    return;
  }
  if (stride_ < args.size() + 1) widen(std::max(args.size(), kCompactArgs) + 1);
  wide_.push_back(op);
  wide_.insert(wide_.end(), args.begin(), args.end());
  wide_.resize((wide_.size() + stride_ - 1) / stride_ * stride_);
}

Result<ItemFileForm> JobItems::append_file(const std::string& path) {
  // Read in place: a file without a header is the memory of its items.
  const std::size_t first = compact_.size();
  const std::size_t bytes = EVERKERNEL_TRY(append_blocks(path, compact_));
  if (bytes >= sizeof(abi::WorkItem) && has_magic(compact_[first])) {
    return append_records(path, first, bytes);
  }
  if (bytes % sizeof(abi::WorkItem) != 0) {
    return not_whole(path, bytes, sizeof(abi::WorkItem),
                     "an item is four u32 words: op_handle, input_handle, output_handle, param");
  }
  const ItemFileForm form{.has_header = false, .arg_count = kCompactArgs};
  if (is_compact()) return form;
  for (const abi::WorkItem& item : compact_) {
    add(item.op_handle, std::array{item.input_handle, item.output_handle, item.param});
  }
  compact_ = {};
  return form;
}

// The blocks from `first` on are a header and records of its length.
Result<ItemFileForm> JobItems::append_records(const std::string& path, std::size_t first,
                                              std::size_t bytes) {
  const std::vector<abi::WorkItem> blocks(compact_.begin() + static_cast<std::ptrdiff_t>(first),
                                          compact_.end());
  compact_.resize(first);
  const std::size_t words = blocks.front().output_handle;
  if (words < 1 || words > kMaxRecordWords) {
    return wrong_header(path, fmt::format("items of {}", counted(words, "word")));
  }
  if (blocks.front().param != 0) return wrong_header(path, "the fourth word is not 0");
  const std::size_t record_bytes = words * sizeof(Word);
  const std::size_t data_bytes = bytes - sizeof(abi::WorkItem);
  if (data_bytes % record_bytes != 0) {
    return not_whole(path, data_bytes, record_bytes, "a record is a u32 op and its u32 args");
  }
  const std::size_t count = data_bytes / record_bytes;
  EVERKERNEL_TRY(check_memory(growth_bytes(words - 1) + data_bytes, in_quotes(path)));
  const auto data = std::as_bytes(std::span(blocks)).subspan(sizeof(abi::WorkItem));
  std::array<Word, kMaxRecordWords> record = {};
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(record.data(), &data[i * record_bytes], record_bytes);
    add(record[0], std::span(record).subspan(1, words - 1));
  }
  return ItemFileForm{.has_header = true, .arg_count = words - 1};
}

}  // namespace everkernel::cli
