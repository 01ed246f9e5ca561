// Handles the token stream of nlohmann's parser. The tables of job_format.hpp describe the format.
// That parser keeps its own stack, so that deep nesting cannot overflow ours.
#include "job_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <istream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <streambuf>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base64.hpp"
#include "everkernel/memory/available.hpp"
#include "everkernel/runtime/run.hpp"
#include "files.hpp"
#include "job_format.hpp"
#include "numbers.hpp"

namespace everkernel::cli {
namespace {

// The longest path Linux takes.
constexpr std::size_t kMaxPathBytes = 4096;
// Most bytes between two values, except those of base64: the longest other text is a path.
constexpr std::size_t kMaxTokenBytes = std::size_t{1} << 20;

constexpr Field kWhole{.kind = Kind::object};
constexpr Field kEntry{.kind = Kind::object};
constexpr Field kOutputEntry{.kind = Kind::output, .lowest = 1, .highest = memory::kMaxHandle};
constexpr Field kArg{.kind = Kind::arg};

constexpr const char* kOneSource =
    "give a buffer exactly one of u32, i32, f32, u8, base64, zeros, file and slice_of";

// The part of the job that is being read.
enum class Where {
  start,
  job,
  buffers,
  buffer,
  words,
  files,
  file,
  items,
  item,
  args,
  outputs,
  output
};

std::span<const Field> fields_of(Where where) {
  switch (where) {
    case Where::job:
      return kJobFields;
    case Where::buffer:
      return kBufferFields;
    case Where::file:
      return kFileFields;
    case Where::item:
      return kItemFields;
    case Where::output:
      return kOutputFields;
    case Where::start:
    case Where::buffers:
    case Where::words:
    case Where::files:
    case Where::items:
    case Where::args:
    case Where::outputs:
      break;
  }
  return {};
}

// The f32 nearest to a number of a job. The text is read again: rounded first to a double and then
// to a float, a number may miss the nearest float. Nothing if it is too large.
std::optional<float> nearest_float(double number, const std::string& text) {
  float nearest = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), nearest);
  if (error == std::errc{}) return nearest;
  if (std::abs(number) < 1) return std::copysign(0.0f, static_cast<float>(number));  // too small
  return std::nullopt;
}

std::optional<float> special_float(std::string_view text) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (text == "nan") return std::numeric_limits<float>::quiet_NaN();
  if (text == "inf") return kInfinity;
  if (text == "-inf") return -kInfinity;
  return std::nullopt;
}

// What the parser tells the reader of the file.
struct Reading {
  std::uint64_t value_count = 0;  // keys and values so far
  bool is_long_text = false;      // whether the value may be longer than others: base64
};

// --- the tokens ----------------------------------------------------------------------------------

class JobParser final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JobParser(const std::string& name) : name_(name) {}

  // The error, after parsing failed.
  const Error& error() const { return error_; }
  JobText take() { return std::move(job_); }
  const Reading& reading() const { return reading_; }

  bool null() override { return mismatch("null"); }
  bool boolean(bool truth) override;
  bool number_integer(std::int64_t number) override;
  bool number_unsigned(std::uint64_t number) override;
  bool number_float(double number, const std::string& text) override;
  bool string(std::string& text) override;
  bool binary(nlohmann::json::binary_t&) override { return mismatch("binary"); }
  bool start_object(std::size_t) override;
  bool key(std::string& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& failure) override;

 private:
  const Field& expected() const;
  std::string place() const;
  template <class Record>
  bool has_room(const std::vector<Record>& list);
  bool may_take(std::uint64_t bytes, std::string_view what);
  bool may_keep(std::uint64_t bytes);
  bool fail_at(const std::string& place, const std::string& message, std::string hint = {});
  bool fail_in(const Field& field, const std::string& message, std::string hint);
  bool mismatch(const std::string& got);
  bool missing(std::string_view name, std::string hint);
  bool store(std::uint64_t number);
  bool store_element(Word number);
  bool store_real(float number);
  bool store_arg(Word number, ArgForm form);
  void store_buffer(std::uint64_t number);
  void store_item(Word number);
  bool store_path(std::string& text);
  bool store_base64(std::string& text);
  bool store_name(std::string& text);
  bool store_word_of(std::span<const std::string_view> words, std::string_view text);
  bool end_buffer();
  bool end_slice();
  bool end_item();
  bool end_file();
  bool end_output();

  // The field that is being read, as an index into fields_of(where_).
  std::size_t index() const { return static_cast<std::size_t>(field_ - fields_of(where_).data()); }
  bool has(unsigned field) const { return (seen_ >> field & 1) != 0; }

  const std::string& name_;  // of the file, in errors
  Reading reading_ = {};
  JobText job_ = {};
  Error error_ = {};
  Where where_ = Where::start;
  const Field* field_ = nullptr;    // of the current object, once its key was read
  const Field* element_ = nullptr;  // of the current list of a buffer
  bool is_byte_list_ = false;       // whether that packs four elements into a word
  unsigned job_seen_ = 0;           // fields of the job that were given
  unsigned seen_ = 0;               // fields of the current entry that were given
  std::uint64_t kept_bytes_ = 0;    // of small blocks, since the memory was last looked at
  std::size_t entry_ = 0;           // index of the current entry in its list
  BufferText buffer_ = {};
  SliceText slice_ = {};  // of the current entry of `buffers`, if that is none of its own
  OutputText output_ = {};
  Word op_ = 0;
  std::array<Word, abi::kSlotArgs> args_ = {};  // of the current item
  std::size_t arg_count_ = 0;                   // of its list
  ArgForms arg_forms_ = 0;
  backend::Origin origin_ = {};
  std::unordered_map<std::string, Word> names_ = {};  // of handlers, with their indices
  std::string last_name_ = {};                        // items that follow each other often share it
  Word last_op_ = 0;
};

const Field& JobParser::expected() const {
  switch (where_) {
    case Where::start:
      return kWhole;
    case Where::job:
    case Where::buffer:
    case Where::file:
    case Where::item:
    case Where::output:
      return *field_;
    case Where::buffers:
    case Where::files:
    case Where::items:
      return kEntry;
    case Where::words:
      return *element_;
    case Where::args:
      return kArg;
    case Where::outputs:
      return kOutputEntry;
  }
  return kWhole;
}

// The place of the current value: `buffers[2].u32[5]`.
std::string JobParser::place() const {
  const auto entry = [this](std::string_view list) {
    const std::string name = fmt::format("{}[{}]", list, entry_);
    return field_ == nullptr ? name : fmt::format("{}.{}", name, field_->name);
  };
  switch (where_) {
    case Where::start:
      return {};
    case Where::job:
      return field_ == nullptr ? "" : std::string(field_->name);
    case Where::buffers:
    case Where::buffer:
      return entry("buffers");
    case Where::words:
      return fmt::format("{}[{}]", entry("buffers"),
                         is_byte_list_ ? buffer_.byte_count : buffer_.words.size());
    case Where::files:
    case Where::file:
      return entry("files");
    case Where::items:
    case Where::item:
      return entry("items");
    case Where::args:
      return fmt::format("{}[{}]", entry("items"), arg_count_);
    case Where::outputs:
    case Where::output:
      return entry("outputs");
  }
  return {};
}

bool JobParser::fail_at(const std::string& place, const std::string& message, std::string hint) {
  error_ = job_error(name_, place, message, std::move(hint)).value();
  return false;
}

// Fails at a field of the current entry.
bool JobParser::fail_in(const Field& field, const std::string& message, std::string hint) {
  field_ = &field;
  return fail_at(place(), message, std::move(hint));
}

bool JobParser::may_take(std::uint64_t bytes, std::string_view what) {
  const auto checked = check_memory(bytes, what);
  return checked || fail_at(place(), checked.error().message, checked.error().hint);
}

// Whether a list may grow: its memory doubles each time it is full.
template <class Record>
bool JobParser::has_room(const std::vector<Record>& list) {
  if (list.size() < list.capacity()) return true;
  return may_take(2 * list.size() * sizeof(Record), "the list");
}

// Whether a small block may be kept: together they are looked at each time they have become large.
bool JobParser::may_keep(std::uint64_t bytes) {
  kept_bytes_ += bytes;
  return kept_bytes_ < memory::kCheckedBytes || may_take(std::exchange(kept_bytes_, 0), "the job");
}

bool JobParser::mismatch(const std::string& got) {
  return fail_at(place(), fmt::format("{} is not {}", got, wanted(expected())),
                 where_ == Where::start ? "a job is an object: { \"items\": [ {\"op\": 64} ] }"
                                        : form_of(expected().kind));
}

bool JobParser::missing(std::string_view name, std::string hint) {
  field_ = nullptr;
  return fail_at(fmt::format("{}.{}", place(), name), "the key is missing", std::move(hint));
}

// --- values --------------------------------------------------------------------------------------

bool JobParser::boolean(bool truth) {
  if (expected().kind != Kind::truth) return mismatch(truth ? "true" : "false");
  job_.ordered = truth;
  return true;
}

bool JobParser::store_real(float number) {
  const Word word = std::bit_cast<Word>(number);
  return where_ == Where::args ? store_arg(word, ArgForm::real_number) : store_element(word);
}

// A number with a sign, which may be -0.
bool JobParser::number_integer(std::int64_t number) {
  ++reading_.value_count;
  const Kind kind = expected().kind;
  const bool is_word = number < 0 && number >= std::numeric_limits<std::int32_t>::min();
  if (kind == Kind::integer && (is_word || number == 0)) {
    return store_element(static_cast<Word>(number));
  }
  if (kind == Kind::arg && is_word) {
    return store_arg(static_cast<Word>(number), ArgForm::negative_number);
  }
  if (kind == Kind::real || kind == Kind::arg) {
    return store_real(number == 0 ? -0.0f : static_cast<float>(number));
  }
  return mismatch(std::to_string(number));
}

bool JobParser::number_float(double number, const std::string& text) {
  ++reading_.value_count;
  const Kind kind = expected().kind;
  if (kind == Kind::real || kind == Kind::arg) {
    if (const auto nearest = nearest_float(number, text)) return store_real(*nearest);
  }
  return mismatch(text.substr(0, kShownBytes));
}

bool JobParser::number_unsigned(std::uint64_t number) {
  ++reading_.value_count;
  const Field& field = expected();
  switch (field.kind) {
    case Kind::number:
      if (number < field.lowest || number > field.highest) break;
      if (where_ == Where::words) return store_element(static_cast<Word>(number));
      return store(number);
    case Kind::opcode:
    case Kind::output:
      if (number >= field.lowest && number <= field.highest) return store(number);
      break;
    case Kind::integer:
      if (number > std::numeric_limits<std::int32_t>::max()) break;
      return store_element(static_cast<Word>(number));
    case Kind::arg:
      if (number <= kMaxWord) {
        return store_arg(static_cast<Word>(number), ArgForm::unsigned_number);
      }
      return store_real(static_cast<float>(number));
    case Kind::real:
      return store_real(static_cast<float>(number));
    case Kind::path:
    case Kind::base64:
    case Kind::access:
    case Kind::rights:
    case Kind::element:
    case Kind::truth:
    case Kind::list:
    case Kind::object:
      break;
  }
  return mismatch(std::to_string(number));
}

bool JobParser::store(std::uint64_t number) {
  const auto word = static_cast<Word>(number);
  switch (where_) {
    case Where::item:
      store_item(word);
      return true;
    case Where::buffer:
      store_buffer(number);
      return true;
    case Where::output:
      output_.handle = word;
      return true;
    case Where::outputs:
      output_ = {.handle = word};
      return end_output();
    case Where::start:
    case Where::job:
    case Where::buffers:
    case Where::files:
    case Where::file:
    case Where::items:
    case Where::words:
    case Where::args:
      return true;  // a field of `files`, which this version does not use
  }
  return true;
}

// Lists may have a hundred million elements: those of words are counted at the end.
bool JobParser::store_element(Word number) {
  std::vector<Word>& words = buffer_.words;
  if (is_byte_list_) {
    const std::size_t shift = buffer_.byte_count++ % sizeof(Word) * 8;
    if (shift != 0) {
      words.back() |= number << shift;
      return true;
    }
  }
  if (!has_room(words)) return false;
  words.push_back(number);
  return true;
}

bool JobParser::store_arg(Word number, ArgForm form) {
  if (arg_count_ == args_.size()) {
    return fail_at(place(), fmt::format("an item has at most {} args", args_.size()),
                   "hand over more in a buffer");
  }
  arg_forms_ |= static_cast<ArgForms>(form) << 2 * arg_count_;
  args_[arg_count_++] = number;
  return true;
}

void JobParser::store_buffer(std::uint64_t number) {
  const auto word = static_cast<Word>(number);
  switch (static_cast<BufferField>(index())) {
    case buffer_handle:
      buffer_.handle = word;
      return;
    case buffer_zeros:
      buffer_.zeros = word;
      return;
    case buffer_tenant:
      buffer_.owner = word;
      return;
    case buffer_slice_of:
      slice_.slice_of = word;
      return;
    case buffer_offset:
      buffer_.offset = number;
      return;
    case buffer_length:
      buffer_.length = number;
      return;
    case buffer_count:
      slice_.count = word;
      return;
    case buffer_u32:
    case buffer_i32:
    case buffer_f32:
    case buffer_u8:
    case buffer_base64:
    case buffer_file:
    case buffer_access:
      return;  // no numbers
  }
}

void JobParser::store_item(Word number) {
  switch (static_cast<ItemField>(index())) {
    case item_op:
      op_ = number;
      return;
    case item_input:
      args_[0] = number;
      return;
    case item_output:
      args_[1] = number;
      return;
    case item_param:
      args_[2] = number;
      return;
    case item_tenant:
      origin_.tenant = static_cast<std::uint8_t>(number);
      return;
    case item_priority:
      origin_.priority = static_cast<std::uint8_t>(number);
      return;
    case item_args:
      return;  // a list
  }
}

bool JobParser::string(std::string& text) {
  ++reading_.value_count;
  reading_.is_long_text = false;
  constexpr std::string_view kAccesses[] = {"r", "w", "rw"};
  constexpr std::string_view kRights[] = {"r", "rw"};
  switch (expected().kind) {
    case Kind::path:
      return store_path(text);
    case Kind::base64:
      return store_base64(text);
    case Kind::opcode:
      return store_name(text);
    case Kind::real:
    case Kind::arg:
      if (const auto special = special_float(text)) return store_real(*special);
      break;
    case Kind::access:
      return store_word_of(kAccesses, text);
    case Kind::rights:
      buffer_.access = text == "r" ? memory::Access::read : memory::Access::read_write;
      return store_word_of(kRights, text);
    case Kind::element:
      for (std::size_t i = 0; i < kElements.size(); ++i) {
        if (text != kElements[i].name) continue;
        output_.element = static_cast<Element>(i);
        return true;
      }
      break;
    case Kind::number:
    case Kind::integer:
    case Kind::truth:
    case Kind::list:
    case Kind::object:
    case Kind::output:
      break;
  }
  return mismatch(shown(text));
}

bool JobParser::store_word_of(std::span<const std::string_view> words, std::string_view text) {
  return std::ranges::find(words, text) != words.end() || mismatch(shown(text));
}

bool JobParser::store_path(std::string& text) {
  if (text.empty()) return fail_at(place(), "the path is empty", "give the path of a file");
  if (text.size() > kMaxPathBytes || text.find('\0') != text.npos) {
    return fail_at(place(), fmt::format("{} is not a path", shown(text)),
                   fmt::format("a path has at most {} bytes, none of them 0", kMaxPathBytes));
  }
  if (where_ == Where::buffer) buffer_.file = std::move(text);
  if (where_ == Where::output) output_.file = std::move(text);
  if (where_ == Where::job) (index() == job_handlers ? job_.handlers : job_.items_file) = text;
  return true;
}

bool JobParser::store_base64(std::string& text) {
  if (!may_take(base64_bytes(text), "the buffer")) return false;
  auto words = decode_base64(text);
  if (!words) return fail_at(place(), words.error().message, words.error().hint);
  buffer_.words = std::move(*words);
  buffer_.byte_count = base64_bytes(text);
  text = {};  // may be the largest allocation of the process
  return true;
}

// Handlers are known once the whole job has been read: until then names have numbers.
bool JobParser::store_name(std::string& text) {
  if (last_op_ == 0 || text != last_name_) {
    const auto [place, is_new] = names_.try_emplace(text, static_cast<Word>(names_.size()));
    if (is_new) {
      if (!may_keep(2 * text.size() + sizeof(std::string)) || !has_room(job_.names)) return false;
      job_.names.push_back(text);
    }
    last_name_ = text;
    last_op_ = abi::kReservedOpcodeBit | place->second;
  }
  op_ = last_op_;
  return true;
}

// --- structure -----------------------------------------------------------------------------------

bool JobParser::start_object(std::size_t) {
  if (expected().kind != Kind::object && expected().kind != Kind::output) {
    return mismatch("an object");
  }
  field_ = nullptr;
  seen_ = 0;
  switch (where_) {
    case Where::start:
      where_ = Where::job;
      return true;
    case Where::buffers:
      where_ = Where::buffer;
      buffer_ = {.entry = static_cast<Word>(entry_)};
      slice_ = {.entry = static_cast<Word>(entry_)};
      return true;
    case Where::files:
      where_ = Where::file;
      return true;
    case Where::items:
      where_ = Where::item;
      op_ = 0;
      args_.fill(0);
      arg_count_ = 0;
      arg_forms_ = 0;
      origin_ = {};
      return true;
    case Where::outputs:
      where_ = Where::output;
      output_ = {};
      return true;
    case Where::job:
    case Where::buffer:
    case Where::words:
    case Where::file:
    case Where::item:
    case Where::args:
    case Where::output:
      break;
  }
  return mismatch("an object");
}

bool JobParser::key(std::string& name) {
  ++reading_.value_count;
  const auto fields = fields_of(where_);
  const auto found = std::ranges::find(fields, std::string_view(name), &Field::name);
  field_ = nullptr;
  if (found == fields.end()) {
    const std::string around = place();
    return fail_at(fmt::format("{}{}{}", around, around.empty() ? "" : ".", shown_key(name)),
                   "unknown key", keys_hint(name, fields));
  }
  field_ = &*found;
  unsigned& seen = where_ == Where::job ? job_seen_ : seen_;
  const unsigned bit = 1u << index();
  if ((seen & bit) != 0) return fail_at(place(), "the key is given twice", "give it once");
  if (where_ == Where::buffer && (bit & kSources) != 0 && (seen & kSources) != 0) {
    return fail_at(place(), "the buffer already has a source of words", kOneSource);
  }
  seen |= bit;
  if (where_ == Where::item && has(item_args) && (seen & kNamedArgs) != 0) {
    return fail_at(place(), "an item has either args or input, output and param",
                   "args[0] is input, args[1] output and args[2] param: \"args\": [1, 2, 7]");
  }
  reading_.is_long_text = field_->kind == Kind::base64;
  return true;
}

bool JobParser::start_array(std::size_t) {
  if (expected().kind != Kind::list) return mismatch("a list");
  if (where_ == Where::buffer) {
    element_ = &kListElements[index() - buffer_u32];
    is_byte_list_ = index() == buffer_u8;
    where_ = Where::words;
    return true;
  }
  if (where_ == Where::item) {
    where_ = Where::args;
    return true;
  }
  entry_ = 0;
  const auto list = static_cast<JobField>(index());
  field_ = nullptr;
  if (list == job_buffers) where_ = Where::buffers;
  if (list == job_files) where_ = Where::files;
  if (list == job_items) where_ = Where::items;
  if (list == job_outputs) where_ = Where::outputs;
  job_.has_items = job_.has_items || list == job_items;
  return true;
}

bool JobParser::end_array() {
  if (where_ == Where::words && !is_byte_list_) {
    buffer_.byte_count = buffer_.words.size() * sizeof(Word);
  }
  where_ = where_ == Where::words  ? Where::buffer
           : where_ == Where::args ? Where::item
                                   : Where::job;
  return true;
}

bool JobParser::end_object() {
  field_ = nullptr;
  switch (where_) {
    case Where::buffer:
      return has(buffer_slice_of) ? end_slice() : end_buffer();
    case Where::item:
      return end_item();
    case Where::file:
      return end_file();
    case Where::output:
      if (!has(output_handle)) return missing("handle", "give the output the handle of a buffer");
      where_ = Where::outputs;
      return end_output();
    case Where::start:
    case Where::job:
    case Where::buffers:
    case Where::words:
    case Where::files:
    case Where::items:
    case Where::args:
    case Where::outputs:
      break;
  }
  where_ = Where::start;
  return true;
}

bool JobParser::end_file() {
  if (!has(file_handle)) return missing("handle", "give the file a handle and a path");
  if (!has(file_path)) return missing("path", "give the file a handle and a path");
  where_ = Where::files;
  ++job_.file_count;
  ++entry_;
  return true;
}

bool JobParser::end_output() {
  if (!may_keep(output_.file.size()) || !has_room(job_.outputs)) return false;
  job_.outputs.push_back(std::move(output_));
  ++entry_;
  return true;
}

bool JobParser::end_buffer() {
  if (!has(buffer_handle))
    return missing("handle", "give the buffer a handle, by which items name it");
  if ((seen_ & kSources) == 0)
    return fail_at(place(), "the buffer has no source of words", kOneSource);
  for (const BufferField part : {buffer_offset, buffer_length, buffer_count}) {
    if (!has(part) || (has(buffer_file) && part != buffer_count)) continue;
    return fail_in(kBufferFields[part], "the buffer has no part",
                   "offset and length belong to file and slice_of, count to slice_of");
  }
  buffer_.source = has(buffer_file)    ? Source::file
                   : has(buffer_zeros) ? Source::zeros
                                       : Source::data;
  buffer_.source_field = static_cast<std::uint8_t>(std::countr_zero(seen_ & kSources));
  // The vector grew by doubling; unused capacity would stay for the whole run.
  buffer_.words.shrink_to_fit();
  if (!may_keep(buffer_.words.size() * sizeof(Word) + buffer_.file.size()) ||
      !has_room(job_.buffers)) {
    return false;
  }
  job_.buffers.push_back(std::move(buffer_));
  where_ = Where::buffers;
  ++entry_;
  return true;
}

bool JobParser::end_slice() {
  if (!has(buffer_handle))
    return missing("handle", "give the slice a handle, by which items name it");
  if (!has(buffer_length)) return missing("length", "give the slice its length in words");
  if (buffer_.length == 0) {
    return fail_in(kBufferFields[buffer_length], "a slice has at least one word",
                   "slices count words of 4 bytes");
  }
  for (const BufferField right : {buffer_access, buffer_tenant}) {
    if (!has(right)) continue;
    return fail_in(kBufferFields[right], "a slice has the access and the tenant of its buffer",
                   "give them to the buffer that slice_of names");
  }
  slice_.handle = buffer_.handle;
  slice_.offset = buffer_.offset;
  slice_.length = buffer_.length;
  if (slice_.count - 1 > memory::kMaxHandle - slice_.handle) {
    return fail_in(kBufferFields[buffer_count],
                   fmt::format("the handles of the slices end behind {}", memory::kMaxHandle),
                   "handles of a family follow each other: give it a lower handle");
  }
  if (!has_room(job_.slices)) return false;
  job_.slices.push_back(slice_);
  where_ = Where::buffers;
  ++entry_;
  return true;
}

// Appends to a list that has an element for each item once one is not the default.
template <class Value>
void append_rare(std::vector<Value>& list, std::size_t item, const Value& value) {
  if (list.empty() && value == Value{}) return;
  list.resize(item);
  list.push_back(value);
}

bool JobParser::end_item() {
  if (!has(item_op)) return missing("op", "give the item an op, the opcode of its handler");
  const std::size_t item = job_.items.size();
  if (item == kMaxRunItems) {
    return fail_at(place(), fmt::format("a run has at most {} items", grouped(kMaxRunItems)),
                   "split the job into several");
  }
  std::size_t used = has(item_args) ? arg_count_ : kCompactArgs;
  while (used > 0 && args_[used - 1] == 0) --used;
  const auto arg_count = static_cast<std::uint8_t>(has(item_args) ? arg_count_ + 1 : 0);
  // These take memory only if an item of the job has one that is not the default; few jobs do.
  const bool first_origin = origin_ != backend::Origin{} && job_.origins.empty();
  if (first_origin && !may_keep(item * sizeof(backend::Origin))) return false;
  if (arg_count != 0 && job_.arg_counts.empty() && !may_keep(item)) return false;
  const bool first_forms = arg_forms_ != 0 && job_.arg_forms.empty();
  if (first_forms && !may_keep(item * sizeof(ArgForms))) return false;
  const std::uint64_t growth = job_.items.growth_bytes(used);
  if ((growth != 0 && !may_take(growth, "the list")) || !has_room(job_.origins) ||
      !has_room(job_.arg_counts) || !has_room(job_.arg_forms)) {
    return false;
  }
  append_rare(job_.origins, item, origin_);
  append_rare(job_.arg_counts, item, arg_count);
  append_rare(job_.arg_forms, item, arg_forms_);
  job_.items.add(op_, std::span(args_).first(used));
  where_ = Where::items;
  ++entry_;
  return true;
}

// The exception's text is `[…] parse error at line 3, column 9: what; last read: '…'`.
bool JobParser::parse_error(std::size_t, const std::string& token,
                            const nlohmann::json::exception& failure) {
  constexpr int kNumberOverflow = 406;  // nlohmann's code for a number that no double can hold
  if (failure.id == kNumberOverflow) return mismatch(shown(token));
  std::string_view text = failure.what();
  const std::size_t line = text.find("line ");
  if (line != text.npos) text.remove_prefix(line);
  const std::size_t read = text.find("; last read: ");
  std::string message(text.substr(0, read));
  if (read != text.npos) {
    const std::size_t begin = read + 2;
    message += fmt::format("; {}", text.substr(begin, kShownBytes));
    if (text.size() > begin + kShownBytes) message += "...";
  }
  error_ = job_error(name_, {}, message, "a job file is JSON text").value();
  return false;
}

// --- the bytes -----------------------------------------------------------------------------------

// Reads the file piece by piece for the parser, and keeps the error of a failed read.
class FileText final : public std::streambuf {
 public:
  FileText(InputFile file, const std::string& name, const Reading* reading)
      : file_(std::move(file)), name_(name), reading_(reading) {}
  const Result<std::size_t>& last_read() const { return last_read_; }

 protected:
  int_type underflow() override {
    if (reading_->value_count != seen_values_) bytes_since_value_ = 0;
    seen_values_ = reading_->value_count;
    if (last_read_) bytes_since_value_ += *last_read_;
    if (last_read_) check_length();
    if (last_read_) last_read_ = file_.read(std::as_writable_bytes(std::span(bytes_)));
    if (!last_read_ || *last_read_ == 0) return traits_type::eof();
    setg(bytes_.data(), bytes_.data(), bytes_.data() + *last_read_);
    return traits_type::to_int_type(bytes_.front());
  }

 private:
  // The parser keeps a text until it ends, and a pipe may hold one that never does.
  void check_length() {
    if (bytes_since_value_ <= kMaxTokenBytes) {
      checked_bytes_ = memory::kCheckedBytes;
    } else if (!reading_->is_long_text) {
      last_read_ = job_error(
          name_, {}, fmt::format("more than {} bytes hold no value", grouped(kMaxTokenBytes)),
          "a job file is JSON text; its longest texts are paths and base64");
    } else if (bytes_since_value_ >= checked_bytes_) {
      // The parser keeps the text twice, in memory that it doubles.
      checked_bytes_ = 2 * bytes_since_value_;
      const auto checked = check_memory(2 * checked_bytes_, "the text in base64");
      if (!checked) {
        last_read_ = job_error(name_, {}, checked.error().message, checked.error().hint);
      }
    }
  }

  InputFile file_;
  const std::string& name_;
  const Reading* const reading_;
  std::uint64_t seen_values_ = 0;
  std::uint64_t bytes_since_value_ = 0;
  std::uint64_t checked_bytes_ = memory::kCheckedBytes;  // of a long text that fit
  Result<std::size_t> last_read_ = std::size_t{0};
  std::array<char, 1 << 16> bytes_ = {};
};

}  // namespace

Failure job_error(const std::string& path, const std::string& place, const std::string& message,
                  std::string hint) {
  const std::string where = place.empty() ? "" : place + ": ";
  return fail(Code::invalid_argument, fmt::format("{}: {}{}", path, where, message),
              std::move(hint));
}

Result<JobText> parse_job(const std::string& path, const std::string& name) {
  InputFile file =
      EVERKERNEL_TRY(path == kStandardInput ? InputFile::standard_input() : InputFile::open(path));
  JobParser parser(name);
  const auto text = std::make_unique<FileText>(std::move(file), name, &parser.reading());
  std::istream stream(text.get());
  const bool parsed = nlohmann::json::sax_parse(stream, &parser);
  if (!text->last_read()) return Failure(text->last_read().error());
  if (!parsed) return Failure(parser.error());
  return parser.take();
}

}  // namespace everkernel::cli
