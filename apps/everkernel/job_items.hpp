// The items of a job: an opcode and up to 12 args each.
//
// An item whose args behind the third are 0 is a WorkItem, which takes 16 bytes. As soon as one
// item is wider, all items are records of equal length.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::cli {

using abi::Word;

/// Args of an item that a WorkItem holds.
inline constexpr std::size_t kCompactArgs = 3;

/// The form of a file of items.
struct ItemFileForm {
  bool has_header = false;    ///< whether its records are of any length
  std::size_t arg_count = 0;  ///< of each record
};

/// Items in order. Args that are not given are 0.
class JobItems {
 public:
  /// Items so far.
  std::size_t size() const { return is_compact() ? compact_.size() : wide_.size() / stride_; }
  bool empty() const { return size() == 0; }
  /// Whether every item is a WorkItem.
  bool is_compact() const { return stride_ == 0; }
  /// The items, if they are compact.
  std::span<const abi::WorkItem> compact() const { return compact_; }
  /// The items as records of opcode and args, if they are not compact.
  std::span<const Word> records() const { return wide_; }
  /// Words of a record.
  std::size_t stride() const { return stride_; }

  /// The opcode of an item.
  Word op(std::size_t item) const {
    return is_compact() ? compact_[item].op_handle : wide_[item * stride_];
  }
  /// Replaces the opcode of an item.
  void set_op(std::size_t item, Word op) {
    (is_compact() ? compact_[item].op_handle : wide_[item * stride_]) = op;
  }
  /// An arg of an item.
  Word arg(std::size_t item, std::size_t index) const;
  /// Args of an item up to its last one that is not 0.
  std::size_t used_args(std::size_t item) const;

  /// Bytes that add() of so many args would allocate; 0 if there is room.
  std::uint64_t growth_bytes(std::size_t arg_count) const;
  /// Appends an item of at most 12 args.
  void add(Word op, std::span<const Word> args);
  /// Appends the items of a file: 16-byte records of op, input, output and param, or records of op
  /// and args behind a header. Fails with `io`, and with `corrupt` if the file is not whole items.
  Result<ItemFileForm> append_file(const std::string& path);

 private:
  void widen(std::size_t stride);
  Result<ItemFileForm> append_records(const std::string& path, std::size_t first,
                                      std::size_t bytes);

  std::vector<abi::WorkItem> compact_ = {};
  std::vector<Word> wide_ = {};
  std::size_t stride_ = 0;  // 0 = compact
};

}  // namespace everkernel::cli
