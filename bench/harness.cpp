#include "harness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <thread>

#include "everkernel/base/assert.hpp"
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
  std::vector<double> nanoseconds;  // of each figure
  std::uint64_t checksum = 0;
};

Sample time_once(const Contender& contender) {
  if (contender.measure_all) return {contender.measure_all()};
  if (contender.measure) return {{contender.measure()}};
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t checksum = contender.run();
  const auto end = std::chrono::steady_clock::now();
  return {{std::chrono::duration<double, std::nano>(end - start).count()}, checksum};
}

// The name of a figure in tables and in the JSON.
std::string row_name(const std::string& question, const std::string& figure) {
  return figure.empty() ? question : question + "_" + figure;
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
std::string find_commit() {
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

const std::string& commit() {
  static const std::string found = find_commit();
  return found;
}

// Ratios and times as JSON numbers with three decimals.
std::string decimal(double number) {
  return fmt::format("{:.3f}", number);
}

// What the documents promise about a row and whether it holds, as text and as JSON members. A smoke
// run does not judge.
struct TargetText {
  bool judges = true;
  std::string shown = {};
  std::string json = {};
  bool has_target = false;
  bool is_met = true;

  void add(std::string_view promise, bool holds) {
    shown += promise;
    if (judges) shown += holds ? ": met" : ": MISSED";
    has_target = true;
    is_met = is_met && holds;
  }
};

// A figure beside that of another contender, over all rounds.
struct Compared {
  Spread times;
  Spread more_ns;
};

Compared compare(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> times, more;
  for (std::size_t round = 0; round < ours.size(); ++round) {
    times.push_back(ours[round] / theirs[round]);
    more.push_back(ours[round] - theirs[round]);
  }
  return {spread_of(times), spread_of(more)};
}

void add_comparison(TargetText& text, std::string& list, const Comparison& promised,
                    const Compared& found) {
  text.shown += fmt::format("\n      {:.2f} ({:.2f}..{:.2f}) times and {:+.2f} us beside \"{}\"",
                            found.times.median, found.times.p10, found.times.p90,
                            found.more_ns.median / 1000, promised.than);
  list += fmt::format(
      "{}{{\"than\":\"{}\",\"times\":{},\"times_p10\":{},\"times_p90\":{},\"more_ns\":{}",
      list.empty() ? "" : ",", promised.than, decimal(found.times.median), decimal(found.times.p10),
      decimal(found.times.p90), decimal(found.more_ns.median));
  if (promised.most_times != 0) {
    text.add(fmt::format(", at most {:.2f} times", promised.most_times),
             found.times.median <= promised.most_times);
    list += fmt::format(",\"most_times\":{}", decimal(promised.most_times));
  }
  if (promised.most_more_ns != 0) {
    text.add(fmt::format(", at most {:+.2f} us", promised.most_more_ns / 1000),
             found.more_ns.median <= promised.most_more_ns);
    list += fmt::format(",\"most_more_ns\":{}", decimal(promised.most_more_ns));
  }
  list += "}";
}

void add_floor_targets(TargetText& text, const Contender& contender, const Spread& time,
                       const Spread& ratio) {
  if (contender.least_ratio != 0) {
    text.add(fmt::format("   at least {:.2f} x floor", contender.least_ratio),
             ratio.median >= contender.least_ratio);
    text.json += fmt::format(",\"least_ratio\":{}", decimal(contender.least_ratio));
  }
  if (contender.most_ns != 0) {
    text.add(fmt::format("   at most {:.2f} us", contender.most_ns / 1000),
             time.median <= contender.most_ns);
    text.json += fmt::format(",\"most_ns\":{}", decimal(contender.most_ns));
  }
}

}  // namespace

// The figures of all contenders in all rounds.
class Suite::Samples {
 public:
  Samples(std::size_t figures, std::size_t contenders)
      : times_(figures, std::vector<std::vector<double>>(contenders)),
        checksums_(contenders),
        failures_(contenders) {}

  void add(std::size_t contender, const Sample& sample) {
    EVERKERNEL_ASSERT(sample.nanoseconds.size() == times_.size());
    for (std::size_t figure = 0; figure < times_.size(); ++figure) {
      times_[figure][contender].push_back(sample.nanoseconds[figure]);
    }
    checksums_[contender] = sample.checksum;
  }
  void fail(std::size_t contender, std::exception_ptr failure) {
    failures_[contender] = std::move(failure);
  }
  bool has_failed(std::size_t contender) const { return failures_[contender] != nullptr; }
  // Throws what the first of those threw that have failed.
  void rethrow() const {
    for (const std::exception_ptr& failure : failures_) {
      if (failure) std::rethrow_exception(failure);
    }
  }
  void forget_times() {
    for (auto& figure : times_) {
      for (auto& times : figure) times.clear();
    }
  }

  const std::vector<double>& times(std::size_t figure, std::size_t contender) const {
    return times_[figure][contender];
  }
  // Rates over those of the floor.
  std::vector<double> ratios(std::size_t figure, std::size_t contender) const {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < times(figure, 0).size(); ++round) {
      ratios.push_back(times(figure, 0)[round] / times(figure, contender)[round]);
    }
    return ratios;
  }
  std::uint64_t checksum(std::size_t contender) const { return checksums_[contender]; }
  std::size_t rounds() const { return times(0, 0).size(); }

 private:
  std::vector<std::vector<std::vector<double>>> times_;  // by figure, contender, round
  std::vector<std::uint64_t> checksums_;
  std::vector<std::exception_ptr> failures_;
};

// Ends the program if nothing is heard for too long: a wait for a device need not return.
class Suite::Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds patience)
      : thread_([this, patience](const std::stop_token& stop) { watch(stop, patience); }) {}

  void hear(std::string doing) {
    const std::scoped_lock held(mutex_);
    doing_ = std::move(doing);
    ++heard_;
    changed_.notify_all();
  }

 private:
  void watch(const std::stop_token& stop, std::chrono::seconds patience) {
    std::unique_lock held(mutex_);
    while (!stop.stop_requested()) {
      const auto before = heard_;
      const auto is_heard = [&] { return heard_ != before; };
      if (changed_.wait_for(held, stop, patience, is_heard) || stop.stop_requested()) continue;
      std::fflush(stdout);
      fmt::print(stderr, "error: {} has not ended in {} s\nhint: run it alone with --only=TEXT\n",
                 doing_, patience.count());
      std::_Exit(1);  // whoever waits would not return from exit() either
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string doing_ = "the preparation";
  std::uint64_t heard_ = 0;
  std::jthread thread_;  // last: it uses the others
};

Suite::Suite(std::string name, Options options)
    : name_(std::move(name)), options_(std::move(options)) {}
Suite::~Suite() = default;

void Suite::set_patience(std::chrono::seconds patience) {
  watchdog_ = std::make_unique<Watchdog>(patience);
}

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

bool Options::asks_for(const std::string& name, const std::vector<std::string>& figures) const {
  const auto has_text = [&](const std::string& row) { return row.find(only) != std::string::npos; };
  return has_text(name) || std::ranges::any_of(figures, [&](const std::string& figure) {
           return has_text(row_name(name, figure));
         });
}

Suite::Samples Suite::measure(const Question& question) {
  const std::size_t usual = options_.smoke ? kSmokeRounds : kRounds;
  const std::size_t rounds = question.rounds == 0 ? usual : std::min(usual, question.rounds);
  const std::size_t warmups = question.rounds == 0 ? kWarmups : kFewWarmups;
  Samples samples(std::max(std::size_t{1}, question.figures.size()), question.contenders.size());
  for (std::size_t round = 0; round < warmups + rounds; ++round) {
    if (round == warmups) samples.forget_times();
    for (std::size_t i = 0; i < question.contenders.size(); ++i) {
      const Contender& contender = question.contenders[i];
      if (samples.has_failed(i)) continue;
      if (watchdog_) watchdog_->hear(fmt::format("{}: {}", question.name, contender.name));
      try {
        samples.add(i, time_once(contender));
      } catch (...) {
        if (i == 0) throw;  // no ratios without a floor
        samples.fail(i, std::current_exception());
      }
    }
  }
  if (watchdog_) watchdog_->hear("what follows " + question.name);
  return samples;
}

void Suite::ask(const Question& question) {
  if (!options_.asks_for(question.name, question.figures)) return;
  const Samples samples = measure(question);
  const std::size_t figures = std::max(std::size_t{1}, question.figures.size());
  for (std::size_t figure = 0; figure < figures; ++figure) report(question, samples, figure);
  std::fflush(stdout);
  static_cast<void>(write_json());  // finish() reports a file that cannot be written
  samples.rethrow();
}

void Suite::report(const Question& question, const Samples& samples, std::size_t figure) {
  const std::string& figure_name = question.figures.empty() ? "" : question.figures[figure];
  const std::string name = row_name(question.name, figure_name);
  fmt::print("{}: {}\n", name, question.text);
  for (std::size_t i = 0; i < question.contenders.size(); ++i) {
    const Contender& contender = question.contenders[i];
    if (samples.has_failed(i)) {
      fmt::print("  {:<28} FAILED\n", contender.name);
      continue;
    }
    const Spread time = spread_of(samples.times(figure, i));
    const Spread ratio = spread_of(samples.ratios(figure, i));
    TargetText target{.judges = !options_.smoke};
    if (figure == 0 && !options_.smoke) add_floor_targets(target, contender, time, ratio);
    std::string comparisons;
    for (const Comparison& promised : contender.comparisons) {
      if (promised.figure != figure_name) continue;
      const auto than = std::ranges::find(question.contenders, promised.than, &Contender::name);
      EVERKERNEL_ASSERT(than != question.contenders.end());
      const auto other = static_cast<std::size_t>(than - question.contenders.begin());
      if (samples.has_failed(other)) continue;
      add_comparison(target, comparisons, promised,
                     compare(samples.times(figure, i), samples.times(figure, other)));
    }
    if (!comparisons.empty()) target.json += fmt::format(",\"comparisons\":[{}]", comparisons);
    if (target.has_target && target.judges) {
      target.json += fmt::format(",\"meets_target\":{}", target.is_met);
    }
    fmt::print(
        "  {:<28} {:>9.2f} us {:>7.2f} GB/s {:>8.2f} ns/item   rate x floor {:.2f} "
        "({:.2f}..{:.2f})   checksum {:016x}{}\n",
        contender.name, time.median / 1000, static_cast<double>(question.bytes) / time.median,
        time.median / static_cast<double>(question.items), ratio.median, ratio.p10, ratio.p90,
        samples.checksum(i), target.shown);
    rows_ += fmt::format(
        "{}{{\"question\":\"{}\",\"contender\":\"{}\",\"items\":{},\"bytes\":{},\"rounds\":{},"
        "\"median_ns\":{},\"p10_ns\":{},\"p90_ns\":{},\"ratio_to_floor\":{},\"ratio_p10\":{},"
        "\"ratio_p90\":{}{}}}",
        rows_.empty() ? "" : ",\n", name, contender.name, question.items, question.bytes,
        samples.rounds(), decimal(time.median), decimal(time.p10), decimal(time.p90),
        decimal(ratio.median), decimal(ratio.p10), decimal(ratio.p90), target.json);
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
  if (!write_json()) {
    fmt::print(stderr, "error: cannot write {}\n", options_.json_path);
    return 2;
  }
  return 0;
}

bool Suite::write_json() const {
  if (options_.json_path.empty()) return true;
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
  return static_cast<bool>(file);
}

}  // namespace everkernel::bench
