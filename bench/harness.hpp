// Measures contenders against a floor in the same run.
//
// On shared machines the speed of memory changes by a third from second to second. Therefore every
// round samples all contenders in turn and takes their ratios to the floor; the result is the
// median and spread of the ratios over all rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace everkernel::bench {

/// A function to time. `run` does the work once and returns a checksum of its results, so that the
/// compiler cannot remove the work. A contender whose figure is not the time of one run (a
/// percentile of many runs, or a part of one) has `measure` instead, which returns nanoseconds.
struct Contender {
  std::string name;
  std::function<std::uint64_t()> run = {};
  std::function<double()> measure = {};
  double least_ratio = 0;  ///< least ratio to the floor that the documents promise; 0 = none
  double most_ns = 0;      ///< longest time that the documents promise; 0 = none
};

/// A question: a floor and contenders that do the same work.
struct Question {
  std::string name;
  std::string text;                   ///< the question in words
  std::uint64_t items = 0;            ///< items one run handles
  std::uint64_t bytes = 0;            ///< bytes one run produces or reads
  std::vector<Contender> contenders;  ///< the first is the floor that ratios refer to
  std::size_t rounds = 0;             ///< 0 = the default; fewer if a run takes seconds
};

/// Options of a benchmark. The smoke size only shows that the benchmark still works.
struct Options {
  bool smoke = false;
  std::string json_path = {};
  std::string only = {};  ///< measure questions whose name contains this; empty = all

  /// Reads `--smoke`, `--json=PATH` and `--only=TEXT`. On any other argument prints an error and
  /// exits with status 2.
  static Options parse(int argc, char** argv);

  /// `full`, or a small number in a smoke run.
  std::size_t scale(std::size_t full, std::size_t smoke_size) const {
    return smoke ? smoke_size : full;
  }
};

/// Collects questions, measures them, prints a table and writes JSON.
class Suite {
 public:
  Suite(std::string name, Options options) : name_(std::move(name)), options_(std::move(options)) {}

  /// Measures one question and prints its rows.
  void ask(const Question& question);
  /// Adds a fact about the machine to the JSON.
  void note(std::string key, std::string value);
  /// Writes the JSON file if --json was given; gives the exit status.
  int finish();

 private:
  std::string name_;
  Options options_;
  std::string rows_;  // JSON objects, separated by commas
  std::vector<std::pair<std::string, std::string>> notes_;
};

}  // namespace everkernel::bench
