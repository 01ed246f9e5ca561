// `everkernel bench`: runs the benchmark programs in the folder of this program and gathers their
// JSON. They are separate programs because they link the libraries that they compare with.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "commands.hpp"
#include "delivery.hpp"
#include "files.hpp"

namespace everkernel::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kSuffix = "_bench";

struct BenchOptions {
  std::vector<std::string> names = {};
  bool smoke = false;
  bool list = false;
  bool json = false;
};

// A temporary folder for the files of the benchmarks; the destructor removes it.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make() {
    std::error_code ignored;
    std::string path = fs::temp_directory_path(ignored) / "everkernel-bench-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return fail(Code::io,
                  fmt::format("cannot make {}: {}", in_quotes(path), std::strerror(errno)), {},
                  errno);
    }
    return ScratchFolder(path);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit ScratchFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// The names of the programs NAME_bench in `folder`, sorted.
std::vector<std::string> found_benchmarks(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename();
    if (!name.ends_with(kSuffix) || ::access(entry.path().c_str(), X_OK) != 0) continue;
    name.resize(name.size() - kSuffix.size());
    names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

Result<std::vector<std::string>> chosen_benchmarks(const BenchOptions& options,
                                                   const fs::path& folder) {
  auto found = found_benchmarks(folder);
  if (found.empty()) {
    return fail(Code::unsupported,
                fmt::format("there are no benchmarks in {}", in_quotes(folder.native())),
                "build them with: cmake --preset release && cmake --build --preset release");
  }
  if (options.names.empty()) return found;
  std::vector<std::string> chosen;
  for (std::string name : options.names) {
    if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
    if (!std::ranges::binary_search(found, name)) {
      return bad_usage(fmt::format("there is no benchmark {}", in_quotes(name)),
                       fmt::format("benchmarks: {}", fmt::join(found, ", ")));
    }
    chosen.push_back(std::move(name));
  }
  return chosen;
}

// How a program failed, in words; empty if it succeeded.
std::string failure_text(int wait_status) {
  if (wait_status == 0) return {};
  if (WIFEXITED(wait_status)) return fmt::format("exit status {}", WEXITSTATUS(wait_status));
  return fmt::format("signal {}", WTERMSIG(wait_status));
}

// Runs a program to its end. Gives how it failed; empty if it succeeded.
std::string run(std::vector<std::string> words, bool quiet) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Standard output takes the JSON object, so the tables go to a terminal on standard error, if
  // any.
  if (quiet && ::isatty(STDERR_FILENO) != 0) {
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  } else if (quiet) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  // This program ignores SIGPIPE; the benchmark must not.
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGXFSZ);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error = posix_spawn(&child, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::strerror(error);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return failure_text(status);
}

// Runs one benchmark and reads its results.
Result<Json> measure(const fs::path& program, const fs::path& scratch,
                     const BenchOptions& options) {
  const fs::path file = scratch / "result.json";
  std::vector<std::string> words = {program, fmt::format("--json={}", file.native())};
  if (options.smoke) words.emplace_back("--smoke");
  const std::string failure = run(std::move(words), options.json);
  if (!failure.empty()) {
    return fail(Code::unsupported,
                fmt::format("{} failed: {}", in_quotes(program.native()), failure),
                "run it directly to see its output");
  }
  const Bytes bytes = EVERKERNEL_TRY(read_file(file));
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  Json result = Json::parse(text, text + bytes.size(), nullptr, false);
  if (!result.is_object()) {
    return fail(Code::unsupported,
                fmt::format("{} wrote no JSON object", in_quotes(program.native())));
  }
  return result;
}

// One object for all results. Machine and commit are the same in each: they appear once.
Json gathered(const std::vector<std::pair<std::string, Json>>& results) {
  Json object = {{"machine", Json::object()}, {"commit", nullptr}, {"benchmarks", Json::object()}};
  for (auto [name, result] : results) {
    for (const char* key : {"cpu", "threads"}) {
      if (result.contains(key)) object["machine"][key] = result[key];
      result.erase(key);
    }
    if (result.contains("commit")) object["commit"] = result["commit"];
    result.erase("commit");
    object["benchmarks"][name] = std::move(result);
  }
  return object;
}

Result<Ending> bench(const BenchOptions& options) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const std::vector<std::string> names = EVERKERNEL_TRY(chosen_benchmarks(options, folder));
  if (options.list) {
    if (options.json) return deliver_text(Json{{"benchmarks", names}}.dump() + "\n");
    return deliver_text(fmt::format("{}\n", fmt::join(names, "\n")));
  }
  const ScratchFolder scratch = EVERKERNEL_TRY(ScratchFolder::make());
  std::vector<std::pair<std::string, Json>> results;
  for (const std::string& name : names) {
    if (!options.json && deliver_text(fmt::format("# {}\n", name)) != Ending::done) {
      return Ending::undelivered;
    }
    const fs::path program = folder / (name + std::string(kSuffix));
    results.emplace_back(name, EVERKERNEL_TRY(measure(program, scratch.path(), options)));
  }
  if (!options.json) return Ending::done;
  return deliver_text(gathered(results).dump() + "\n");
}

}  // namespace

Command bench_command() {
  Command command("bench", "Run the benchmarks");
  BenchOptions& options = command.set_action(bench);
  command.add_list("NAME", options.names, "Benchmarks to run; all by default");
  command.add_flag("--smoke", options.smoke,
                   "Use tiny sizes: shows that the benchmarks work, measures nothing");
  command.add_flag("--list", options.list, "List the benchmarks and run none");
  command.add_json(options.json);
  command.set_footer(
      "Runs the programs NAME_bench in the folder of this program. bench/README.md describes "
      "them.\n"
      "--json prints the machine, the commit, and the median and spread of each measurement.\n"
      "Examples:\n"
      "  everkernel bench --smoke\n"
      "  everkernel bench protocol --json");
  return command;
}

}  // namespace everkernel::cli
