// Handles the token stream of nlohmann's parser. Tables describe the format: the keys of each
// object with kind and range. That parser keeps its own stack, so that deep nesting cannot overflow
// ours.
#include "job_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <istream>
#include <nlohmann/json.hpp>
#include <span>
#include <streambuf>
#include <string_view>
#include <utility>

#include "everkernel/abi/control.hpp"
#include "everkernel/memory/available.hpp"
#include "everkernel/runtime/run.hpp"
#include "files.hpp"
#include "numbers.hpp"

namespace everkernel::cli {
namespace {

// --- the format ----------------------------------------------------------------------------------

enum class Kind { number, text, truth, list, object };

// A value of the format: a field of an object, or an element of a list.
struct Field {
  std::string_view name = {};
  Kind kind = Kind::number;
  std::uint64_t lowest = 0;
  std::uint64_t highest = 0;
};

constexpr std::uint64_t kMaxWord = 0xFFFFFFFFu;
// The longest path Linux takes.
constexpr std::size_t kMaxPathBytes = 4096;
// Most bytes between two values: the longest text that a job needs is a path.
constexpr std::size_t kMaxTokenBytes = std::size_t{1} << 20;
// Bytes of the job's text that a message shows at most.
constexpr std::size_t kShownBytes = 60;

constexpr Field kWhole{.kind = Kind::object};
constexpr Field kEntry{.kind = Kind::object};
constexpr Field kWordElement{.highest = kMaxWord};
constexpr Field kHandleElement{.lowest = 1, .highest = memory::kMaxHandle};

enum JobField { handlers, buffers, files, items, items_file, ordered, outputs };
constexpr Field kJobFields[] = {{"handlers", Kind::text},   {"buffers", Kind::list},
                                {"files", Kind::list},      {"items", Kind::list},
                                {"items_file", Kind::text}, {"ordered", Kind::truth},
                                {"outputs", Kind::list}};

enum BufferField { buffer_handle, buffer_u32, buffer_zeros, buffer_file, buffer_tenant };
constexpr Field kBufferFields[] = {{"handle", Kind::number, 1, memory::kMaxHandle},
                                   {"u32", Kind::list},
                                   {"zeros", Kind::number, 0, memory::kMaxBufferWords},
                                   {"file", Kind::text},
                                   {"tenant", Kind::number, 0, abi::kMaxTenant}};
constexpr unsigned kSources = 1u << buffer_u32 | 1u << buffer_zeros | 1u << buffer_file;

constexpr const char* kOneSource = "give a buffer exactly one of u32, zeros and file";

enum FileField { file_handle, file_path, file_access };
constexpr Field kFileFields[] = {
    {"handle", Kind::number, 1, memory::kMaxHandle}, {"path", Kind::text}, {"access", Kind::text}};

enum ItemField { item_op, item_input, item_output, item_param, item_tenant, item_priority };
constexpr Field kItemFields[] = {{"op", Kind::number, 0, kMaxWord},
                                 {"input", Kind::number, 0, memory::kMaxHandle},
                                 {"output", Kind::number, 0, memory::kMaxHandle},
                                 {"param", Kind::number, 0, kMaxWord},
                                 {"tenant", Kind::number, 0, abi::kMaxTenant},
                                 {"priority", Kind::number, 0, abi::kPriorityCount - 1}};

// The part of the job that is being read.
enum class Where { start, job, buffers, buffer, words, files, file, items, item, outputs };

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
    case Where::start:
    case Where::buffers:
    case Where::words:
    case Where::files:
    case Where::items:
    case Where::outputs:
      break;
  }
  return {};
}

std::string shown(std::string_view text) {
  if (text.size() <= kShownBytes) return in_quotes(text);
  return in_quotes(text.substr(0, kShownBytes)) + "...";
}

// The key, in quotes unless it looks like an identifier.
std::string shown_key(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  const bool plain =
      !name.empty() && name.size() <= kShownBytes && std::ranges::all_of(name, is_plain);
  return plain ? std::string(name) : shown(name);
}

std::string names_of(std::span<const Field> fields) {
  std::string names;
  for (const Field& field : fields) {
    names += names.empty() ? "" : ", ";
    names += field.name;
  }
  return names;
}

std::string wanted(const Field& field) {
  switch (field.kind) {
    case Kind::number:
      return fmt::format("a whole number {}..{}", field.lowest, field.highest);
    case Kind::text:
      return field.name == "access" ? "\"r\", \"w\" or \"rw\"" : "a path in quotes";
    case Kind::truth:
      return "true or false";
    case Kind::list:
      return "a list: [...]";
    case Kind::object:
      return "an object: {...}";
  }
  return {};
}

// A hint about how to write a value of this kind.
std::string form_of(Kind kind) {
  switch (kind) {
    case Kind::number:
      return "write a number without quotes, sign, point or exponent: 1000, not 1e3";
    case Kind::text:
      return "write a text in quotes: \"ops.ek\"";
    case Kind::truth:
      return "write true or false without quotes";
    case Kind::list:
      return "write a list in brackets, even if it has one value";
    case Kind::object:
      return "write a list of objects as [ {\"handle\": 1, \"zeros\": 8}, ... ]";
  }
  return {};
}

// --- the tokens ----------------------------------------------------------------------------------

class JobParser final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JobParser(const std::string& path) : path_(path) {}

  // The error, after parsing failed.
  const Error& error() const { return error_; }
  JobText take() { return std::move(job_); }
  // Keys and numbers so far.
  const std::uint64_t& value_count() const { return value_count_; }

  bool null() override { return mismatch("null"); }
  bool boolean(bool truth) override;
  bool number_integer(std::int64_t number) override;
  bool number_unsigned(std::uint64_t number) override;
  bool number_float(double, const std::string& text) override;
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
  bool may_keep(std::uint64_t bytes);
  bool fail_at(const std::string& place, const std::string& message, std::string hint = {});
  bool mismatch(const std::string& got);
  bool missing(std::string_view name, std::string hint);
  void store(Word number);
  void store_item(Word number);
  bool store_text(std::string& text);
  bool end_buffer();
  bool end_item();

  // The field that is being read, as an index into fields_of(where_).
  std::size_t index() const { return static_cast<std::size_t>(field_ - fields_of(where_).data()); }
  bool has(unsigned field) const { return (seen_ >> field & 1) != 0; }

  const std::string& path_;
  std::uint64_t value_count_ = 0;
  JobText job_ = {};
  Error error_ = {};
  Where where_ = Where::start;
  const Field* field_ = nullptr;  // of the current object, once its key was read
  unsigned job_seen_ = 0;         // fields of the job that were given
  unsigned seen_ = 0;             // fields of the current entry that were given
  std::uint64_t kept_bytes_ = 0;  // of small blocks, since the memory was last looked at
  std::size_t entry_ = 0;         // index of the current entry in its list
  BufferText buffer_ = {};
  abi::WorkItem item_ = {};
  backend::Origin origin_ = {};
};

const Field& JobParser::expected() const {
  switch (where_) {
    case Where::start:
      return kWhole;
    case Where::job:
    case Where::buffer:
    case Where::file:
    case Where::item:
      return *field_;
    case Where::buffers:
    case Where::files:
    case Where::items:
      return kEntry;
    case Where::words:
      return kWordElement;
    case Where::outputs:
      return kHandleElement;
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
      return fmt::format("buffers[{}].u32[{}]", entry_, buffer_.words->size());
    case Where::files:
    case Where::file:
      return entry("files");
    case Where::items:
    case Where::item:
      return entry("items");
    case Where::outputs:
      return fmt::format("outputs[{}]", job_.outputs.size());
  }
  return {};
}

bool JobParser::fail_at(const std::string& place, const std::string& message, std::string hint) {
  error_ = job_error(path_, place, message, std::move(hint)).value();
  return false;
}

// Whether a list may grow: its memory doubles each time it is full.
template <class Record>
bool JobParser::has_room(const std::vector<Record>& list) {
  if (list.size() < list.capacity()) return true;
  const auto checked = check_memory(2 * list.size() * sizeof(Record), "the list");
  return checked || fail_at(place(), checked.error().message, checked.error().hint);
}

// Whether a small block may be kept: together they are looked at each time they have become large.
bool JobParser::may_keep(std::uint64_t bytes) {
  kept_bytes_ += bytes;
  if (kept_bytes_ < memory::kCheckedBytes) return true;
  const auto checked = check_memory(std::exchange(kept_bytes_, 0), "the job");
  return checked || fail_at(place(), checked.error().message, checked.error().hint);
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

bool JobParser::number_integer(std::int64_t number) {
  return mismatch(std::to_string(number));
}

bool JobParser::number_float(double, const std::string& text) {
  return mismatch(text.substr(0, kShownBytes));
}

bool JobParser::number_unsigned(std::uint64_t number) {
  ++value_count_;
  const Field& field = expected();
  if (field.kind != Kind::number || number < field.lowest || number > field.highest) {
    return mismatch(std::to_string(number));
  }
  if (where_ == Where::words && !has_room(*buffer_.words)) return false;
  if (where_ == Where::outputs && !has_room(job_.outputs)) return false;
  store(static_cast<Word>(number));
  return true;
}

void JobParser::store(Word number) {
  switch (where_) {
    case Where::words:
      buffer_.words->push_back(number);
      return;
    case Where::outputs:
      job_.outputs.push_back(number);
      return;
    case Where::item:
      return store_item(number);
    case Where::buffer:
      if (index() == buffer_handle) buffer_.handle = number;
      if (index() == buffer_zeros) buffer_.zeros = number;
      if (index() == buffer_tenant) buffer_.owner = number;
      return;
    case Where::start:
    case Where::job:
    case Where::buffers:
    case Where::files:
    case Where::file:
    case Where::items:
      return;  // a field of `files`, which this version does not use
  }
}

void JobParser::store_item(Word number) {
  switch (static_cast<ItemField>(index())) {
    case item_op:
      item_.op_handle = number;
      return;
    case item_input:
      item_.input_handle = number;
      return;
    case item_output:
      item_.output_handle = number;
      return;
    case item_param:
      item_.param = number;
      return;
    case item_tenant:
      origin_.tenant = static_cast<std::uint8_t>(number);
      return;
    case item_priority:
      origin_.priority = static_cast<std::uint8_t>(number);
      return;
  }
}

bool JobParser::string(std::string& text) {
  if (expected().kind != Kind::text) return mismatch(shown(text));
  return store_text(text);
}

bool JobParser::store_text(std::string& text) {
  if (where_ == Where::file && index() == file_access) {
    if (text == "r" || text == "w" || text == "rw") return true;
    return mismatch(shown(text));
  }
  if (text.empty()) return fail_at(place(), "the path is empty", "give the path of a file");
  if (text.size() > kMaxPathBytes || text.find('\0') != text.npos) {
    return fail_at(place(), fmt::format("{} is not a path", shown(text)),
                   fmt::format("a path has at most {} bytes, none of them 0", kMaxPathBytes));
  }
  if (where_ == Where::buffer) buffer_.file = std::move(text);
  if (where_ == Where::job) (index() == handlers ? job_.handlers : job_.items_file) = text;
  return true;
}

// --- structure -----------------------------------------------------------------------------------

bool JobParser::start_object(std::size_t) {
  if (expected().kind != Kind::object) return mismatch("an object");
  field_ = nullptr;
  seen_ = 0;
  switch (where_) {
    case Where::start:
      where_ = Where::job;
      return true;
    case Where::buffers:
      where_ = Where::buffer;
      buffer_ = {};
      return true;
    case Where::files:
      where_ = Where::file;
      return true;
    case Where::items:
      where_ = Where::item;
      item_ = {};
      origin_ = {};
      return true;
    case Where::job:
    case Where::buffer:
    case Where::words:
    case Where::file:
    case Where::item:
    case Where::outputs:
      break;
  }
  return mismatch("an object");
}

bool JobParser::key(std::string& name) {
  ++value_count_;
  const auto fields = fields_of(where_);
  const auto found = std::ranges::find(fields, std::string_view(name), &Field::name);
  field_ = nullptr;
  if (found == fields.end()) {
    const std::string around = place();
    return fail_at(fmt::format("{}{}{}", around, around.empty() ? "" : ".", shown_key(name)),
                   "unknown key", fmt::format("the keys are {}", names_of(fields)));
  }
  field_ = &*found;
  unsigned& seen = where_ == Where::job ? job_seen_ : seen_;
  const unsigned bit = 1u << index();
  if ((seen & bit) != 0) return fail_at(place(), "the key is given twice", "give it once");
  if (where_ == Where::buffer && (bit & kSources) != 0 && (seen & kSources) != 0) {
    return fail_at(place(), "the buffer already has a source of words", kOneSource);
  }
  seen |= bit;
  return true;
}

bool JobParser::start_array(std::size_t) {
  if (expected().kind != Kind::list) return mismatch("a list");
  entry_ = where_ == Where::job ? 0 : entry_;
  if (where_ == Where::buffer) {
    buffer_.words.emplace();
    where_ = Where::words;
    return true;
  }
  const auto list = static_cast<JobField>(index());
  field_ = nullptr;
  if (list == buffers) where_ = Where::buffers;
  if (list == files) where_ = Where::files;
  if (list == items) where_ = Where::items;
  if (list == outputs) where_ = Where::outputs;
  job_.has_items = job_.has_items || list == items;
  return true;
}

bool JobParser::end_array() {
  where_ = where_ == Where::words ? Where::buffer : Where::job;
  return true;
}

bool JobParser::end_object() {
  field_ = nullptr;
  if (where_ == Where::buffer) return end_buffer();
  if (where_ == Where::item) return end_item();
  if (where_ == Where::job) {
    where_ = Where::start;
    return true;
  }
  if (!has(file_handle)) return missing("handle", "give the file a handle and a path");
  if (!has(file_path)) return missing("path", "give the file a handle and a path");
  where_ = Where::files;
  ++job_.file_count;
  ++entry_;
  return true;
}

bool JobParser::end_buffer() {
  if (!has(buffer_handle))
    return missing("handle", "give the buffer a handle, by which items name it");
  if ((seen_ & kSources) == 0)
    return fail_at(place(), "the buffer has no source of words", kOneSource);
  // The vector grew by doubling; unused capacity would stay for the whole run.
  if (buffer_.words) buffer_.words->shrink_to_fit();
  const std::size_t words = buffer_.words ? buffer_.words->size() : 0;
  if (!may_keep(words * sizeof(Word) + buffer_.file.value_or("").size()) ||
      !has_room(job_.buffers)) {
    return false;
  }
  job_.buffers.push_back(std::move(buffer_));
  where_ = Where::buffers;
  ++entry_;
  return true;
}

bool JobParser::end_item() {
  if (!has(item_op)) return missing("op", "give the item an op, the opcode of its handler");
  if (job_.items.size() == kMaxRunItems) {
    return fail_at(place(), fmt::format("a run has at most {} items", grouped(kMaxRunItems)),
                   "split the job into several");
  }
  if (!has_room(job_.items) || !has_room(job_.origins)) return false;
  // Origins take memory only if an item of the job has one; few jobs do.
  if (origin_ != backend::Origin{} && job_.origins.empty()) {
    if (!may_keep(job_.items.size() * sizeof(backend::Origin))) return false;
    job_.origins.resize(job_.items.size());
    job_.origins.push_back(origin_);
  } else if (!job_.origins.empty()) {
    job_.origins.push_back(origin_);
  }
  job_.items.push_back(item_);
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
  error_ = job_error(path_, {}, message, "a job file is JSON text").value();
  return false;
}

// --- the bytes -----------------------------------------------------------------------------------

// Reads the file piece by piece for the parser, and keeps the error of a failed read.
class FileText final : public std::streambuf {
 public:
  // `value_count` is the number of values that the parser has read so far.
  FileText(InputFile file, const std::uint64_t* value_count)
      : file_(std::move(file)), value_count_(value_count) {}
  const Result<std::size_t>& last_read() const { return last_read_; }

 protected:
  int_type underflow() override {
    // The parser keeps a text until it ends, and a pipe may hold one that never does.
    if (*value_count_ != seen_values_) bytes_since_value_ = 0;
    seen_values_ = *value_count_;
    if (last_read_) bytes_since_value_ += *last_read_;
    if (bytes_since_value_ > kMaxTokenBytes) {
      last_read_ =
          job_error(file_.path(), {},
                    fmt::format("more than {} bytes hold no value", grouped(kMaxTokenBytes)),
                    "a job file is JSON text; its longest texts are paths");
    }
    if (last_read_) last_read_ = file_.read(std::as_writable_bytes(std::span(bytes_)));
    if (!last_read_ || *last_read_ == 0) return traits_type::eof();
    setg(bytes_.data(), bytes_.data(), bytes_.data() + *last_read_);
    return traits_type::to_int_type(bytes_.front());
  }

 private:
  InputFile file_;
  const std::uint64_t* const value_count_;
  std::uint64_t seen_values_ = 0;
  std::uint64_t bytes_since_value_ = 0;
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

Result<JobText> parse_job(const std::string& path) {
  InputFile file = EVERKERNEL_TRY(InputFile::open(path));
  JobParser parser(path);
  const auto text = std::make_unique<FileText>(std::move(file), &parser.value_count());
  std::istream stream(text.get());
  const bool parsed = nlohmann::json::sax_parse(stream, &parser);
  if (!text->last_read()) return Failure(text->last_read().error());
  if (!parsed) return Failure(parser.error());
  return parser.take();
}

}  // namespace everkernel::cli
