// Reads the files that a job names and checks that its parts fit together, before anything runs.
#include "job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/runtime/run.hpp"
#include "files.hpp"
#include "handler_file.hpp"
#include "job_parser.hpp"
#include "numbers.hpp"

namespace everkernel::cli {
namespace {

// The handles of a job, as a hash table with open addressing: every item looks up two handles.
class HandleSet {
 public:
  // Has room for `count` handles with half of its places free.
  explicit HandleSet(std::size_t count) {
    std::size_t places = 16;
    while (places < count * 2) places *= 2;
    places_.resize(places);
  }
  // Returns whether the handle was new.
  bool insert(Word handle) {
    Word& place = places_[find(handle)];
    return std::exchange(place, handle) != handle;
  }
  bool contains(Word handle) const { return places_[find(handle)] == handle; }

 private:
  std::size_t find(Word handle) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t at = (std::size_t{handle} * 0x9E3779B97F4A7C15u >> 24) & mask;
    while (places_[at] != 0 && places_[at] != handle) at = (at + 1) & mask;
    return at;
  }

  std::vector<Word> places_ = {};  // 0 = free: no handle is 0
};

// The requirements of an opcode for its items.
struct OpcodeNeeds {
  Word opcode = 0;
  std::string_view name = {};
  std::string_view input = {};   // "reads", "writes" or both; empty if the handler does not use it
  std::string_view output = {};  // likewise
  bool awaits = false;           // requests IO
};

std::string_view verb(bool reads, bool writes) {
  if (reads && writes) return "reads and writes";
  return reads ? "reads" : writes ? "writes" : "";
}

// Sorted by opcode. A handler that changes args[0] or args[1] may use any buffer, so that the
// handles of its items are not required.
std::vector<OpcodeNeeds> needs_of(const std::optional<ir::VerifiedProgram>& handlers) {
  std::vector<OpcodeNeeds> needs = {{.opcode = static_cast<Word>(abi::Opcode::nop), .name = "NOP"}};
  if (!handlers) return needs;
  for (const ir::VerifiedHandler& handler : handlers->handlers()) {
    if (handler.handler.is_payload) continue;
    const ir::Effects& effects = handler.effects;
    OpcodeNeeds row{.opcode = handler.handler.opcode,
                    .name = handler.handler.name,
                    .awaits = effects.can_await};
    if (!effects.moves_buffers) {
      row.input = verb(effects.reads_input, effects.writes_input);
      row.output = verb(effects.reads_output, effects.writes_output);
    }
    needs.push_back(row);
  }
  std::ranges::sort(needs, {}, &OpcodeNeeds::opcode);
  return needs;
}

// Checks items one after the other; the text of a place is made for an error only.
class ItemChecker {
 public:
  ItemChecker(const Job& job, const HandleSet& handles)
      : job_(job), handles_(handles), needs_(needs_of(job.handlers)), last_(&needs_.front()) {}

  // Checks items `first` to `end`, which the job calls `list`.
  Result<void> check(std::string_view list, std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      const abi::WorkItem& item = job_.items[i];
      if (item.op_handle != last_->opcode && !find(item.op_handle)) {
        return unknown_opcode(fmt::format("{}[{}].op", list, i - first), item.op_handle);
      }
      if (last_->awaits) return no_io(fmt::format("{}[{}].op", list, i - first));
      if (!fits(item.input_handle, last_->input)) {
        return wrong_handle(fmt::format("{}[{}].input", list, i - first), item.input_handle,
                            "input", last_->input);
      }
      if (!fits(item.output_handle, last_->output)) {
        return wrong_handle(fmt::format("{}[{}].output", list, i - first), item.output_handle,
                            "output", last_->output);
      }
    }
    return {};
  }

 private:
  // Items with the same opcode often follow each other: check() compares with the last row first.
  bool find(Word opcode) {
    const auto found = std::ranges::lower_bound(needs_, opcode, {}, &OpcodeNeeds::opcode);
    if (found == needs_.end() || found->opcode != opcode) return false;
    last_ = &*found;
    return true;
  }
  bool fits(Word handle, std::string_view use) const {
    return handle == 0 ? use.empty() : handles_.contains(handle);
  }
  Failure unknown_opcode(const std::string& place, Word opcode) const {
    if (abi::find_opcode(opcode) != nullptr) {
      return job_error(
          job_.path, place,
          fmt::format("{} ({}) is an operation for rings only", opcode_text(opcode), opcode),
          "items of a run name a handler or NOP (0)");
    }
    return job_error(job_.path, place, fmt::format("no handler has opcode {}", opcode),
                     job_.handlers ? fmt::format("the handlers are {}", names())
                                   : "name the file of the handlers: \"handlers\": \"FILE.ek\"");
  }
  Failure no_io(const std::string& place) const {
    return job_error(
        job_.path, place,
        fmt::format("handler {} awaits IO, but this version has no IO service", last_->name),
        "use a buffer with \"file\" to give handlers the words of a file");
  }
  Failure wrong_handle(const std::string& place, Word handle, std::string_view which,
                       std::string_view use) const {
    if (handle == 0) {
      return job_error(
          job_.path, place,
          fmt::format("handler {} {} its {}, but the item names none", last_->name, use, which),
          "name the handle of a buffer");
    }
    return job_error(job_.path, place, fmt::format("no buffer has handle {}", handle),
                     "\"buffers\" lists every buffer with its handle");
  }
  std::string names() const {
    constexpr std::size_t kShown = 8;
    std::string text;
    for (const OpcodeNeeds& row : std::span(needs_).first(std::min(needs_.size(), kShown))) {
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", row.name, row.opcode);
    }
    return needs_.size() > kShown ? text + ", ..." : text;
  }

  const Job& job_;
  const HandleSet& handles_;
  std::vector<OpcodeNeeds> needs_;
  const OpcodeNeeds* last_;
};

// --- the files of a job --------------------------------------------------------------------------

std::string beside(const std::string& job, const std::string& path) {
  return std::filesystem::path(job).parent_path() / path;
}

// The error of a file, with the place in the job that names the file.
Failure at_place(const std::string& path, std::string_view place, Error error) {
  error.message = fmt::format("{}: {}: {}", path, place, error.message);
  if (error.hint.empty()) error.hint = "paths in a job are relative to its file";
  return Failure(std::move(error));
}

Result<void> read_handlers(const JobText& text, const JobLimits& limits, Job& job) {
  if (!text.handlers) return {};
  const std::string path = beside(job.path, *text.handlers);
  auto file = check_handlers(path, limits.handlers_bytes);
  if (!file) return at_place(job.path, "handlers", file.error());
  auto verified = verified_program(std::move(*file));
  if (!verified) {
    verified.error().message = fmt::format("{}: handlers: {}", job.path, verified.error().message);
    return Failure(std::move(verified).error());
  }
  job.handlers = *std::move(verified);
  return {};
}

// The field that determines the length of a buffer, and the number of words.
std::pair<std::string_view, std::uint64_t> length_of(const Job& job, const BufferText& buffer) {
  if (buffer.words) return {"u32", buffer.words->size()};
  if (buffer.zeros) return {"zeros", *buffer.zeros};
  std::error_code ignored;  // reading the file later reports the error
  const auto bytes = std::filesystem::file_size(beside(job.path, *buffer.file), ignored);
  return {"file", ignored ? 0 : bytes / sizeof(Word)};
}

Result<void> check_total(const JobText& text, const Job& job, const memory::Available& memory) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < text.buffers.size(); ++i) {
    const auto [source, words] = length_of(job, text.buffers[i]);
    if (words > memory::kMaxBufferWords) {
      return job_error(job.path, fmt::format("buffers[{}].{}", i, source),
                       fmt::format("{} are too many for a buffer", counted(words, "word")),
                       fmt::format("a buffer has at most {}", grouped(memory::kMaxBufferWords)));
    }
    total += words * sizeof(Word);
    if (total > memory.bytes) {
      return job_error(
          job.path, fmt::format("buffers[{}].{}", i, source),
          fmt::format("with this one the buffers take {}, but {} are available because of {}",
                      counted(total, "byte"), grouped(memory.bytes), memory.limited_by),
          "use smaller or fewer buffers, or give --memory-limit SIZE if there is more");
    }
  }
  return {};
}

Result<void> read_buffers(JobText& text, Job& job) {
  for (std::size_t i = 0; i < text.buffers.size(); ++i) {
    BufferText& given = text.buffers[i];
    JobBuffer buffer{.handle = given.handle, .owner = given.owner};
    if (given.file) {
      auto words = read_words(beside(job.path, *given.file));
      if (!words) return at_place(job.path, fmt::format("buffers[{}].file", i), words.error());
      buffer.words = std::move(*words);
    } else if (given.words) {
      buffer.words = std::move(*given.words);
    }
    buffer.word_count = given.zeros ? *given.zeros : buffer.words.size();
    job.buffers.push_back(std::move(buffer));
  }
  return {};
}

Result<void> read_more_items(const JobText& text, Job& job) {
  if (!text.items_file) {
    if (text.has_items) return {};
    return job_error(job.path, "items", "the job has neither items nor an items_file",
                     "\"items\": [ {\"op\": 64, \"input\": 1, \"output\": 2} ]");
  }
  const auto read = append_items(beside(job.path, *text.items_file), job.items);
  if (!read) return at_place(job.path, "items_file", read.error());
  if (job.items.size() > kMaxRunItems) {
    return job_error(job.path, "items_file",
                     counted(job.items.size(), "item") + " are too many for a run",
                     fmt::format("a run has at most {}", grouped(kMaxRunItems)));
  }
  if (!job.origins.empty()) job.origins.resize(job.items.size());
  return {};
}

// --- consistency ---------------------------------------------------------------------------------

Result<void> check_handles(const JobText& text, const Job& job, HandleSet& handles) {
  for (std::size_t i = 0; i < text.buffers.size(); ++i) {
    if (handles.insert(text.buffers[i].handle)) continue;
    return job_error(job.path, fmt::format("buffers[{}].handle", i),
                     fmt::format("another buffer has handle {}", text.buffers[i].handle),
                     "give every buffer its own handle");
  }
  HandleSet named(job.outputs.size());
  for (std::size_t i = 0; i < job.outputs.size(); ++i) {
    const std::string place = fmt::format("outputs[{}]", i);
    if (!handles.contains(job.outputs[i])) {
      return job_error(job.path, place, fmt::format("no buffer has handle {}", job.outputs[i]),
                       "\"buffers\" lists every buffer with its handle");
    }
    if (!named.insert(job.outputs[i])) {
      return job_error(job.path, place, fmt::format("handle {} is named twice", job.outputs[i]),
                       "name it once");
    }
  }
  return {};
}

Result<void> check_served(const JobText& text, const Job& job) {
  if (text.file_count == 0) return {};
  return job_error(
      job.path, "files", "this version has no IO service",
      "use \"buffers\": [ {\"handle\": 1, \"file\": \"data.bin\"} ] to give handlers the "
      "words of a file");
}

}  // namespace

Result<Job> read_job(const std::string& path, const JobLimits& limits) {
  JobText text = EVERKERNEL_TRY(parse_job(path));
  Job job{.path = path,
          .items = std::move(text.items),
          .origins = std::move(text.origins),
          .ordered = text.ordered,
          .outputs = std::move(text.outputs)};
  HandleSet handles(text.buffers.size());
  EVERKERNEL_TRY(check_handles(text, job, handles));
  EVERKERNEL_TRY(read_handlers(text, limits, job));
  const std::size_t inline_count = job.items.size();
  EVERKERNEL_TRY(read_more_items(text, job));
  ItemChecker checker(job, handles);
  EVERKERNEL_TRY(checker.check("items", 0, inline_count));
  EVERKERNEL_TRY(checker.check("items_file", inline_count, job.items.size()));
  // The words of the buffers come last, because reading them may take long.
  EVERKERNEL_TRY(check_total(text, job, limits.memory));
  EVERKERNEL_TRY(read_buffers(text, job));
  EVERKERNEL_TRY(check_served(text, job));
  return job;
}

}  // namespace everkernel::cli
