// Reads the files that a job names and checks that its parts fit together, before anything runs.
#include "job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "everkernel/abi/opcode.hpp"
#include "everkernel/base/suggestion.hpp"
#include "everkernel/runtime/run.hpp"
#include "handle_table.hpp"
#include "handler_file.hpp"
#include "job_files.hpp"
#include "job_format.hpp"
#include "numbers.hpp"

namespace everkernel::cli {
namespace {

// The requirements of an opcode for its items.
struct OpcodeNeeds {
  Word opcode = 0;
  std::string_view name = {};
  std::string_view input = {};   // "reads", "writes" or both; empty if the handler does not use it
  std::string_view output = {};  // likewise
  bool writes_input = false;
  bool writes_output = false;
  bool awaits = false;  // requests IO
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
      row.writes_input = effects.writes_input;
      row.writes_output = effects.writes_output;
    }
    needs.push_back(row);
  }
  std::ranges::sort(needs, {}, &OpcodeNeeds::opcode);
  return needs;
}

// Checks items one after the other; the text of a place is made for an error only.
class ItemChecker {
 public:
  ItemChecker(Job& job, const HandleTable& handles)
      : job_(job), handles_(handles), needs_(needs_of(job.handlers)), last_(&needs_.front()) {
    for (const OpcodeNeeds& row : handlers()) by_name_.emplace(row.name, &row);
  }

  // Checks items `first` to `end`, which the job calls `list`. `names` are the handlers that they
  // name; their opcodes are put in place.
  Result<void> check(std::string_view list, std::size_t first, std::size_t end,
                     std::span<const std::string> names) {
    list_ = list;
    first_ = first;
    std::vector<const OpcodeNeeds*> rows(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) rows[i] = find_name(names[i]);
    for (std::size_t i = first; i < end; ++i) {
      const Word op = job_.items.op(i);
      if (!names.empty() && (op & abi::kReservedOpcodeBit) != 0) {
        const std::size_t name = op & ~abi::kReservedOpcodeBit;
        if (rows[name] == nullptr) return unknown_name(place(i, "op"), names[name]);
        last_ = rows[name];
        job_.items.set_op(i, last_->opcode);
      } else if (op != last_->opcode && !find(op)) {
        return unknown_opcode(place(i, "op"), op);
      }
      EVERKERNEL_TRY(check_item(i));
    }
    return {};
  }
  // As in JobText.
  void set_args(std::span<const std::uint8_t> counts, std::span<const ArgForms> forms) {
    arg_counts_ = counts;
    arg_forms_ = forms;
  }

 private:
  Result<void> check_item(std::size_t item) const {
    if (last_->awaits) return no_io(place(item, "op"));
    if (item < arg_forms_.size() && arg_forms_[item] != 0) return no_word(item);
    const Word input = job_.items.arg(item, 0);
    if (!fits(input, last_->input, last_->writes_input) && is_buffer(item, last_->input)) {
      return wrong_handle(place(item, "input", 0), input, "input", last_->input);
    }
    const Word output = job_.items.arg(item, 1);
    if (!fits(output, last_->output, last_->writes_output) && is_buffer(item, last_->output)) {
      return wrong_handle(place(item, "output", 1), output, "output", last_->output);
    }
    return {};
  }
  // Handlers have no types for their args: each is a word. `item` has one that is written
  // otherwise.
  Failure no_word(std::size_t item) const {
    std::size_t arg = 0;
    while (form_of(arg_forms_[item], arg) == ArgForm::unsigned_number) ++arg;
    const Word word = job_.items.arg(item, arg);
    const std::string number = form_of(arg_forms_[item], arg) == ArgForm::negative_number
                                   ? fmt::format("{}", static_cast<std::int32_t>(word))
                                   : fmt::format("{:.10g}", std::bit_cast<float>(word));
    return job_error(job_.path, place(item, "args", arg),
                     fmt::format("{} is not a whole number 0..{}", number, kMaxWord),
                     "args of handlers without parameters are words: give the bits of the number");
  }
  // Whether a wrong handle is meant as one: `input` and `output` of an item always are, an arg is
  // if the handler uses it so.
  bool is_buffer(std::size_t item, std::string_view use) const {
    return !use.empty() || arg_count(item) == 0;
  }
  std::uint8_t arg_count(std::size_t item) const {
    return item < arg_counts_.size() ? arg_counts_[item] : 0;
  }
  std::string place(std::size_t item, std::string_view field, std::size_t arg = 0) const {
    const std::string entry = fmt::format("{}[{}]", list_, item - first_);
    if (field == "op" || arg_count(item) == 0) return fmt::format("{}.{}", entry, field);
    if (arg + 1 < arg_count(item)) return fmt::format("{}.args[{}]", entry, arg);
    return entry + ".args";
  }
  // Items with the same opcode often follow each other: check() compares with the last row first.
  bool find(Word opcode) {
    const auto found = std::ranges::lower_bound(needs_, opcode, {}, &OpcodeNeeds::opcode);
    if (found == needs_.end() || found->opcode != opcode) return false;
    last_ = &*found;
    return true;
  }
  // The rows behind that of NOP, which has the lowest opcode.
  std::span<const OpcodeNeeds> handlers() const { return std::span(needs_).subspan(1); }
  const OpcodeNeeds* find_name(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  bool fits(Word handle, std::string_view use, bool is_written) const {
    if (handle == 0) return use.empty();
    const Named named = handles_.find(handle);
    return named == Named::writable || (named == Named::read_only && !is_written);
  }
  Failure unknown_name(const std::string& place, const std::string& name) const {
    Suggestion suggestion(name);
    for (const OpcodeNeeds& row : handlers()) suggestion.offer(row.name);
    const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
    return job_error(job_.path, place, fmt::format("no handler is named {}", shown(name)),
                     is_number ? "write an opcode without quotes"
                     : job_.handlers
                         ? suggestion.hint(fmt::format("the handlers are {}", this->names()))
                         : "name the file of the handlers: \"handlers\": \"FILE.ek\"");
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
    if (handles_.contains(handle)) {
      return job_error(job_.path, place,
                       fmt::format("handler {} {} its {}, but buffer {} is read-only", last_->name,
                                   use, which, handle),
                       "drop \"access\": \"r\" of the buffer, or name another one");
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

  Job& job_;
  const HandleTable& handles_;
  std::vector<OpcodeNeeds> needs_;
  std::unordered_map<std::string_view, const OpcodeNeeds*> by_name_ = {};
  const OpcodeNeeds* last_;
  std::string_view list_ = {};  // being checked
  std::size_t first_ = 0;       // of its items
  std::span<const std::uint8_t> arg_counts_ = {};
  std::span<const ArgForms> arg_forms_ = {};
};

// --- the parts of a job -------------------------------------------------------------------------

Result<void> read_handlers(const JobText& text, const JobLimits& limits, Job& job) {
  if (!text.handlers) return {};
  const std::string path = beside(job, *text.handlers);
  auto file = check_handlers(path, limits.handlers_bytes);
  if (!file) return at_place(job, "handlers", file.error());
  auto verified = verified_program(std::move(*file));
  if (!verified) {
    verified.error().message = fmt::format("{}: handlers: {}", job.path, verified.error().message);
    return Failure(std::move(verified).error());
  }
  job.handlers = *std::move(verified);
  return {};
}

// Appends the items of `items_file`, with their numbers of args.
Result<void> read_more_items(JobText& text, Job& job) {
  if (!text.items_file) {
    if (text.has_items) return {};
    return job_error(job.path, "items", "the job has neither items nor an items_file",
                     "\"items\": [ {\"op\": 64, \"input\": 1, \"output\": 2} ]");
  }
  const std::size_t first = job.items.size();
  const auto args = job.items.append_file(beside(job, *text.items_file));
  if (!args) return at_place(job, "items_file", args.error());
  if (job.items.size() > kMaxRunItems) {
    return job_error(job.path, "items_file",
                     counted(job.items.size(), "item") + " are too many for a run",
                     fmt::format("a run has at most {}", grouped(kMaxRunItems)));
  }
  if (!job.origins.empty()) job.origins.resize(job.items.size());
  if (args->has_header) {
    text.arg_counts.resize(first);
    text.arg_counts.resize(job.items.size(), static_cast<std::uint8_t>(args->arg_count + 1));
  }
  return {};
}

// Runs take items of up to three args.
Result<void> check_width(const Job& job, std::size_t inline_count) {
  if (job.items.is_compact()) return {};
  std::size_t item = 0;
  while (job.items.used_args(item) <= kCompactArgs) ++item;
  const bool is_inline = item < inline_count;
  return job_error(job.path,
                   fmt::format("{}[{}].args", is_inline ? "items" : "items_file",
                               item - (is_inline ? 0 : inline_count)),
                   fmt::format("{} are used, but this version runs items of at most {}",
                               counted(job.items.used_args(item), "arg"), kCompactArgs),
                   "put what the handler needs into a buffer, and name it as input");
}

Result<void> check_served(const JobText& text, const Job& job) {
  if (text.file_count == 0) return {};
  return job_error(
      job.path, "files", "this version has no IO service",
      "use \"buffers\": [ {\"handle\": 1, \"file\": \"data.bin\"} ] to give handlers the "
      "words of a file");
}

}  // namespace

std::string folder_of(const Job& job) {
  return job.path == kStandardInputName ? "" : std::filesystem::path(job.path).parent_path();
}

Result<Job> read_job(const std::string& path, const JobLimits& limits) {
  const std::string name = path == kStandardInput ? kStandardInputName : path;
  JobText text = EVERKERNEL_TRY(parse_job(path, name));
  Job job{.path = name,
          .items = std::move(text.items),
          .origins = std::move(text.origins),
          .ordered = text.ordered,
          .outputs = std::move(text.outputs)};
  HandleTable handles(text.buffers.size() + text.slices.size());
  EVERKERNEL_TRY(check_handles(text, job, handles));
  EVERKERNEL_TRY(read_handlers(text, limits, job));
  const std::size_t inline_count = job.items.size();
  EVERKERNEL_TRY(read_more_items(text, job));
  ItemChecker checker(job, handles);
  checker.set_args(text.arg_counts, text.arg_forms);
  EVERKERNEL_TRY(checker.check("items", 0, inline_count, text.names));
  EVERKERNEL_TRY(checker.check("items_file", inline_count, job.items.size(), {}));
  EVERKERNEL_TRY(check_width(job, inline_count));
  // The words of the buffers come last, because reading them may take long.
  EVERKERNEL_TRY(check_total(text, job, limits.memory));
  EVERKERNEL_TRY(read_buffers(text, job));
  EVERKERNEL_TRY(read_slices(text, job));
  EVERKERNEL_TRY(check_served(text, job));
  return job;
}

}  // namespace everkernel::cli
