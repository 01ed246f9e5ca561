#include "harness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "everkernel/base/json_writer.hpp"
#include "everkernel/base/version.hpp"

namespace everkernel::bench {
namespace {

constexpr std::size_t kWarmups = 3;
constexpr std::size_t kRounds = 41;
constexpr std::size_t kSmokeRounds = 3;
constexpr std::size_t kFewWarmups = 1;  // for a question with few rounds

/// Median, and the middle 80 % of the samples.
struct Spread {
  double p10 = 0, median = 0, p90 = 0;
};

Spread spread_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto at = [&](double share) {
    const double last = static_cast<double>(samples.size() - 1);
    return samples[static_cast<std::size_t>(last * share + 0.5)];
  };
  return {at(0.1), at(0.5), at(0.9)};
}

struct Sample {
  double nanoseconds;
  std::uint64_t checksum;
};

Sample time_once(const Contender& contender) {
  if (contender.measure) return {contender.measure(), 0};
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t checksum = contender.run();
  const auto end = std::chrono::steady_clock::now();
  return {std::chrono::duration<double, std::nano>(end - start).count(), checksum};
}

std::string first_line(const char* path, std::string_view prefix) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(prefix)) continue;
    const std::size_t colon = line.find(": ");
    return colon == std::string::npos ? line : line.substr(colon + 2);
  }
  return "unknown";
}

// EVERKERNEL_COMMIT gives the commit if the program runs outside of its repository.
std::string commit() {
  if (const char* const given = std::getenv("EVERKERNEL_COMMIT")) return given;
  std::FILE* pipe = popen("git rev-parse --short HEAD 2>/dev/null", "r");
  if (pipe == nullptr) return "unknown";
  char line[64] = {};
  const bool is_read = std::fgets(line, sizeof line, pipe) != nullptr;
  pclose(pipe);
  std::string text = is_read ? line : "unknown";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Ratios and times as JSON numbers with three decimals.
std::string decimal(double number) {
  return fmt::format("{:.3f}", number);
}

bool meets_target(const Contender& contender, const Spread& time, const Spread& ratio) {
  const bool is_fast_enough = contender.most_ns == 0 || time.median <= contender.most_ns;
  return is_fast_enough && ratio.median >= contender.least_ratio;
}

// Whether the figures that the documents promise hold, as text and as JSON members; empty in a
// smoke run.
struct TargetText {
  std::string shown = {};
  std::string json = {};
};

TargetText target_text(const Contender& contender, const Spread& time, const Spread& ratio) {
  TargetText text;
  if (contender.least_ratio != 0) {
    text.shown += fmt::format("   at least {:.2f} x floor", contender.least_ratio);
    text.json += fmt::format(",\"least_ratio\":{}", decimal(contender.least_ratio));
  }
  if (contender.most_ns != 0) {
    text.shown += fmt::format("   at most {:.2f} us", contender.most_ns / 1000);
    text.json += fmt::format(",\"most_ns\":{}", decimal(contender.most_ns));
  }
  if (text.shown.empty()) return text;
  const bool is_met = meets_target(contender, time, ratio);
  text.shown += is_met ? ": met" : ": MISSED";
  text.json += fmt::format(",\"meets_target\":{}", is_met);
  return text;
}

}  // namespace

Options Options::parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--smoke") {
      options.smoke = true;
    } else if (arg.starts_with("--json=")) {
      options.json_path = arg.substr(7);
    } else if (arg.starts_with("--only=")) {
      options.only = arg.substr(7);
    } else {
      fmt::print(stderr, "error: unknown option {}\nhint: --smoke, --json=PATH, --only=TEXT\n",
                 arg);
      std::exit(2);
    }
  }
  return options;
}

void Suite::ask(const Question& question) {
  if (question.name.find(options_.only) == std::string::npos) return;
  const std::size_t usual = options_.smoke ? kSmokeRounds : kRounds;
  const std::size_t rounds = question.rounds == 0 ? usual : std::min(usual, question.rounds);
  const std::size_t warmups = question.rounds == 0 ? kWarmups : kFewWarmups;
  const std::size_t count = question.contenders.size();
  std::vector<std::vector<double>> times(count), ratios(count);
  std::vector<std::uint64_t> checksums(count);
  for (std::size_t round = 0; round < warmups + rounds; ++round) {
    std::vector<double> this_round(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Sample sample = time_once(question.contenders[i]);
      this_round[i] = sample.nanoseconds;
      checksums[i] = sample.checksum;
    }
    if (round < warmups) continue;
    for (std::size_t i = 0; i < count; ++i) {
      times[i].push_back(this_round[i]);
      ratios[i].push_back(this_round[0] / this_round[i]);  // rate of i over rate of the floor
    }
  }

  fmt::print("{}: {}\n", question.name, question.text);
  for (std::size_t i = 0; i < count; ++i) {
    const Spread time = spread_of(times[i]);
    const Spread ratio = spread_of(ratios[i]);
    const double gigabytes = static_cast<double>(question.bytes) / time.median;
    const double per_item = time.median / static_cast<double>(question.items);
    const Contender& contender = question.contenders[i];
    const TargetText target = options_.smoke ? TargetText{} : target_text(contender, time, ratio);
    fmt::print(
        "  {:<28} {:>9.2f} us {:>7.2f} GB/s {:>8.2f} ns/item   rate x floor {:.2f} "
        "({:.2f}..{:.2f})   checksum {:016x}{}\n",
        contender.name, time.median / 1000, gigabytes, per_item, ratio.median, ratio.p10, ratio.p90,
        checksums[i], target.shown);
    rows_ += fmt::format(
        "{}{{\"question\":\"{}\",\"contender\":\"{}\",\"items\":{},\"bytes\":{},\"rounds\":{},"
        "\"median_ns\":{},\"p10_ns\":{},\"p90_ns\":{},\"ratio_to_floor\":{},\"ratio_p10\":{},"
        "\"ratio_p90\":{}{}}}",
        rows_.empty() ? "" : ",\n", question.name, contender.name, question.items, question.bytes,
        rounds, decimal(time.median), decimal(time.p10), decimal(time.p90), decimal(ratio.median),
        decimal(ratio.p10), decimal(ratio.p90), target.json);
  }
}

void Suite::note(std::string key, std::string value) {
  notes_.emplace_back(std::move(key), std::move(value));
}

int Suite::finish() {
  if (!options_.only.empty() && rows_.empty()) {
    fmt::print(stderr, "error: no question has {} in its name\n", options_.only);
    return 2;
  }
  if (options_.json_path.empty()) return 0;
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("suite", name_).field("version", version());
  json.field("commit", commit()).field("smoke", options_.smoke);
  json.field("cpu", first_line("/proc/cpuinfo", "model name"));
  json.field("threads", std::thread::hardware_concurrency());
  for (const auto& [key, value] : notes_) json.field(key, value);
  json.key("results").begin_array().end_array().end_object();
  text.insert(text.size() - 2, "\n" + rows_ + "\n");  // the rows go between the brackets
  std::ofstream file(options_.json_path);
  file << text << '\n';
  file.close();
  if (!file) {
    fmt::print(stderr, "error: cannot write {}\n", options_.json_path);
    return 2;
  }
  return 0;
}

}  // namespace everkernel::bench
