// Measures contenders against a floor in the same run.
//
// The machines this runs on are shared: the speed of memory moves by a third from second to second.
// So contenders are sampled in turn, round after round, and a ratio is taken within each round; its
// median and spread over all rounds is the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace everkernel::bench {

/// Something to time. `run` does the work once and returns a checksum of what it made, so that
/// nothing can be optimised away. A contender whose figure is not the time of one run (a percentile
/// of many, or a part of it) gives `measure` instead, which returns nanoseconds.
struct Contender {
  std::string name;
  std::function<std::uint64_t()> run = {};
  std::function<double()> measure = {};
  double least_ratio = 0;  ///< rate x floor that the documents promise; 0 = nothing
  double most_ns = 0;      ///< time that they promise; 0 = nothing
};

/// A question and everything needed to answer it.
struct Question {
  std::string name;
  std::string text;                   ///< what the figures say, in words
  std::uint64_t items = 0;            ///< items one run handles
  std::uint64_t bytes = 0;            ///< bytes one run produces or reads
  std::vector<Contender> contenders;  ///< the first is the floor that ratios refer to
  std::size_t rounds = 0;             ///< 0 = as many as usual; fewer for what takes seconds
};

/// How much to do: the smoke size proves that a benchmark still runs, nothing else.
struct Options {
  bool smoke = false;
  std::string json_path = {};
  std::string only = {};  ///< questions whose name has this in it; empty = all

  /// Reads `--smoke`, `--json=PATH` and `--only=TEXT`; prints what is wrong and exits with 2 on
  /// anything else.
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
  /// Something about the machine that belongs into the JSON.
  void note(std::string key, std::string value);
  /// Writes the JSON file if one was asked for; gives the exit status.
  int finish();

 private:
  std::string name_;
  Options options_;
  std::string rows_;  // JSON objects, separated by commas
  std::vector<std::pair<std::string, std::string>> notes_;
};

}  // namespace everkernel::bench
