// Measures contenders against a floor in the same run.
//
// On shared machines the speed of memory changes by a third from second to second. Therefore every
// round samples all contenders in turn and takes their ratios to the floor; the result is the
// median and spread of the ratios over all rounds.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace everkernel::bench {

/// A figure of a contender beside the same figure of another contender, round by round. Without a
/// limit the table and the JSON show how they compare; with one they also say whether it is kept.
struct Comparison {
  std::string than;         ///< name of the other contender of the question
  std::string figure = {};  ///< one of the question's figures; empty if it has none
  double most_times = 0;    ///< the figure is at most this multiple of the other; 0 = no limit
  double most_more_ns = 0;  ///< the figure is at most this much above the other; 0 = no limit
};

/// A function to time. `run` does the work once and returns a checksum of its results, so that the
/// compiler cannot remove the work. A contender whose figure is not the time of one run (a
/// percentile of many runs, or a part of one) has `measure` instead, which returns nanoseconds, and
/// one that yields several figures at once has `measure_all`.
struct Contender {
  std::string name;
  std::function<std::uint64_t()> run = {};
  std::function<double()> measure = {};
  /// Nanoseconds for each of the question's figures, in their order.
  std::function<std::vector<double>()> measure_all = {};
  double least_ratio = 0;  ///< least ratio to the floor that the documents promise; 0 = none
  double most_ns = 0;      ///< longest time that the documents promise; 0 = none
  std::vector<Comparison> comparisons = {};  ///< with other contenders of the question
};

/// A question: a floor and contenders that do the same work.
struct Question {
  std::string name;
  std::string text;                   ///< the question in words
  std::uint64_t items = 0;            ///< items one run handles
  std::uint64_t bytes = 0;            ///< bytes one run produces or reads
  std::vector<Contender> contenders;  ///< the first is the floor that ratios refer to
  std::size_t rounds = 0;             ///< 0 = the default; fewer if a run takes seconds
  /// Names of the figures that every contender yields by `measure_all`; empty = one, without a
  /// name. Each becomes a table and a question of the JSON, NAME_FIGURE. `least_ratio` and
  /// `most_ns` refer to the first.
  std::vector<std::string> figures = {};
};

/// Options of a benchmark. The smoke size only shows that the benchmark still works.
struct Options {
  bool smoke = false;
  std::string json_path = {};
  std::string only = {};  ///< measure questions one of whose names has this; empty = all

  /// Reads `--smoke`, `--json=PATH` and `--only=TEXT`. On any other argument prints an error and
  /// exits with status 2.
  static Options parse(int argc, char** argv);

  /// `full`, or a small number in a smoke run.
  std::size_t scale(std::size_t full, std::size_t smoke_size) const {
    return smoke ? smoke_size : full;
  }
  /// Whether a question of that name, or one of its figures, is asked for.
  bool asks_for(const std::string& name, const std::vector<std::string>& figures = {}) const;
};

/// Collects questions, measures them, prints a table and writes JSON.
class Suite {
 public:
  Suite(std::string name, Options options);
  Suite(const Suite&) = delete;
  Suite& operator=(const Suite&) = delete;
  ~Suite();

  /// Measures one question and prints its rows. If --json was given, the file then has all rows so
  /// far, so that the end of the program takes none with it. What a contender throws is thrown at
  /// the end, when the rows of the others are there; without the floor there are none.
  void ask(const Question& question);
  /// From now on and as long as the suite exists, ends the program with an error if no contender
  /// ends for that long. For programs that wait for a device.
  void set_patience(std::chrono::seconds patience);
  /// Adds a fact about the machine to the JSON.
  void note(std::string key, std::string value);
  /// Writes the JSON file if --json was given; gives the exit status.
  int finish();

 private:
  class Samples;
  class Watchdog;
  Samples measure(const Question& question);
  void report(const Question& question, const Samples& samples, std::size_t figure);
  bool write_json() const;

  std::string name_;
  Options options_;
  std::string rows_;  // JSON objects, separated by commas
  std::vector<std::pair<std::string, std::string>> notes_;
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace everkernel::bench
