// Outputs as raw bytes, as .npy files and as members of an .npz file. Words are never copied: a
// file is written in parts, of which some are headers.
#include "output_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "npy.hpp"
#include "numbers.hpp"
#include "zip.hpp"

namespace everkernel::cli {
namespace {

constexpr std::string_view kArrayFile = ".npy";
constexpr std::string_view kArchiveFile = ".npz";

// The lengths of buffers and slices, by handle.
class Lengths {
 public:
  explicit Lengths(const Job& job) : slices_(job.slices) {
    for (const JobBuffer& buffer : job.buffers) bytes_.emplace(buffer.handle, buffer.byte_count);
    std::ranges::sort(slices_, {}, &JobSlices::handle);
  }
  std::uint64_t bytes_of(Word handle) const {
    if (const auto found = bytes_.find(handle); found != bytes_.end()) return found->second;
    const auto behind = std::ranges::upper_bound(slices_, handle, {}, &JobSlices::handle);
    return behind == slices_.begin() ? 0 : std::prev(behind)->word_count * sizeof(Word);
  }

 private:
  std::unordered_map<Word, std::uint64_t> bytes_ = {};
  std::vector<JobSlices> slices_;
};

NpyHeader header_of(Element element, std::uint64_t byte_count) {
  const std::uint64_t words = (byte_count + sizeof(Word) - 1) / sizeof(Word);
  return {.element = element, .count = element == Element::u8 ? byte_count : words};
}

std::string member_name(Word handle) {
  return fmt::format("arr_{}{}", handle, kArrayFile);
}

// The name of the file of an output that names none.
std::string default_name(Word handle) {
  return fmt::format("buffer-{}.bin", handle);
}

// A job may come from somebody else: its files stay in the folder that the caller chose.
Result<void> check_name(const Job& job, std::size_t output) {
  const std::filesystem::path name = job.outputs[output].file;
  const bool leaves =
      name.is_absolute() || std::ranges::find(name, std::filesystem::path("..")) != name.end();
  if (!leaves && name.has_filename()) return {};
  return job_error(job.path, fmt::format("outputs[{}].file", output),
                   fmt::format("{} is not a file in the folder of the outputs",
                               in_quotes(job.outputs[output].file)),
                   "give a path below the folder, and the folder with --outputs DIR");
}

Result<void> check_archive(const Job& job, const OutputPlan& plan) {
  std::uint64_t bytes = kZipEndBytes;
  for (std::size_t i = 0; i < job.outputs.size(); ++i) {
    const NpyHeader header = header_of(job.outputs[i].element, plan.byte_counts[i]);
    bytes += zip_overhead(member_name(job.outputs[i].handle)) + npy_header(header).size() +
             header.data_bytes();
    if (bytes < kMaxZipBytes && i < kMaxZipMembers) continue;
    return fail(Code::invalid_argument,
                fmt::format("--outputs {}: outputs[{}] does not fit: the file has at most {} and "
                            "{}",
                            in_quotes(plan.archive), i, counted(kMaxZipBytes, "byte"),
                            counted(kMaxZipMembers, "output")),
                "give a folder: --outputs DIR");
  }
  return {};
}

Result<void> name_files(const Job& job, bool has_target, OutputPlan& plan) {
  std::unordered_set<std::string> used;
  for (std::size_t i = 0; i < job.outputs.size(); ++i) {
    const OutputText& output = job.outputs[i];
    if (!output.file.empty()) EVERKERNEL_TRY(check_name(job, i));
    if (output.file.empty() && !has_target) continue;
    const std::string name = output.file.empty() ? default_name(output.handle) : output.file;
    if (!used.insert(std::filesystem::path(name).lexically_normal()).second) {
      return job_error(job.path, fmt::format("outputs[{}].file", i),
                       fmt::format("another output has the file {}", in_quotes(name)),
                       "give every output its own file");
    }
    plan.names[i] = name;
  }
  return {};
}

// The content of a file, with the headers that its parts refer to.
struct Content {
  std::deque<std::string> headers = {};  // a deque: its elements do not move
  Parts parts = {};

  void add_header(std::string text) {
    parts.push_back(std::as_bytes(std::span(headers.emplace_back(std::move(text)))));
  }
  std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& part : parts) bytes += part.size();
    return bytes;
  }
};

std::span<const std::byte> bytes_of(const RunOutput& output, std::uint64_t count) {
  return std::as_bytes(std::span(output.words)).first(count);
}

Content array_of(const RunOutput& output) {
  const NpyHeader header = header_of(output.element, output.byte_count);
  Content content;
  content.add_header(npy_header(header));
  content.parts.push_back(bytes_of(output, header.data_bytes()));
  return content;
}

Content archive_of(std::span<const RunOutput> outputs) {
  ZipWriter zip;
  Content archive;
  for (const RunOutput& output : outputs) {
    const Content array = array_of(output);
    archive.add_header(zip.add(member_name(output.handle), array.parts));
    archive.add_header(array.headers.front());
    archive.parts.push_back(array.parts.back());
  }
  archive.add_header(zip.end());
  return archive;
}

// Stages a file and gives its path.
Result<std::string> stage(OutputFolder& folder, const std::string& name, const Content& content,
                          std::vector<WrittenFile>& files) {
  std::string path = EVERKERNEL_TRY(folder.stage(name, content.parts));
  files.push_back({.path = path, .bytes = content.bytes()});
  return path;
}

}  // namespace

Result<OutputPlan> plan_outputs(const Job& job, const std::optional<std::string>& target) {
  OutputPlan plan;
  const Lengths lengths(job);
  for (const OutputText& output : job.outputs) {
    plan.byte_counts.push_back(lengths.bytes_of(output.handle));
  }
  plan.names.resize(job.outputs.size());
  const auto or_here = [](std::string folder) { return folder.empty() ? "." : folder; };
  if (target && target->ends_with(kArchiveFile)) {
    const std::filesystem::path path = *target;
    plan.folder = or_here(path.parent_path());
    plan.archive = path.filename();
    EVERKERNEL_TRY(check_archive(job, plan));
    return plan;
  }
  EVERKERNEL_TRY(name_files(job, target.has_value(), plan));
  const auto is_named = [](const std::string& name) { return !name.empty(); };
  if (target) plan.folder = *target;
  if (!target && std::ranges::any_of(plan.names, is_named)) plan.folder = or_here(folder_of(job));
  return plan;
}

Result<void> check_files(const OutputFolder& folder, const OutputPlan& plan) {
  if (!plan.archive.empty()) return folder.check(plan.archive);
  for (const std::string& name : plan.names) {
    if (!name.empty()) EVERKERNEL_TRY(folder.check(name));
  }
  return {};
}

Result<void> write_outputs(OutputFolder& folder, const OutputPlan& plan, RunOutcome& outcome) {
  std::vector<WrittenFile> files;
  std::vector<std::string> paths(outcome.outputs.size());
  if (!plan.archive.empty()) {
    const Content archive = archive_of(outcome.outputs);
    paths.assign(paths.size(), EVERKERNEL_TRY(stage(folder, plan.archive, archive, files)));
  }
  for (std::size_t i = 0; i < plan.names.size(); ++i) {
    const RunOutput& output = outcome.outputs[i];
    if (plan.names[i].empty()) continue;
    Content content;
    if (plan.names[i].ends_with(kArrayFile)) {
      content = array_of(output);
    } else {
      content.parts = {bytes_of(output, output.byte_count)};
    }
    paths[i] = EVERKERNEL_TRY(stage(folder, plan.names[i], content, files));
  }
  EVERKERNEL_TRY(folder.commit());
  outcome.files = std::move(files);
  for (std::size_t i = 0; i < paths.size(); ++i) outcome.outputs[i].file = std::move(paths[i]);
  return {};
}

}  // namespace everkernel::cli
