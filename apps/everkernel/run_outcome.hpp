// The outcome of `run`, which run_json.cpp prints as JSON and run_text.cpp as text.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "dispatch_outcome.hpp"
#include "everkernel/runtime/run.hpp"
#include "job.hpp"

namespace everkernel::cli {

/// The words of an output of the job.
struct RunOutput {
  Word handle = 0;
  Element element = Element::u32;  ///< of its file, if that says a type
  std::uint64_t byte_count = 0;    ///< its length; the last word may be padded
  std::vector<Word> words = {};
  std::string file = {};  ///< path of the file it was written to; empty if there is none
};

/// Where the time of the command went beside the run.
struct CommandTimes {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();  ///< when the command began
  std::chrono::nanoseconds read_job = {};  ///< reading and checking the job
  std::chrono::nanoseconds prepare = {};   ///< finding the backend, making kernel and buffers
  std::chrono::nanoseconds outputs = {};   ///< reading outputs back and writing files

  /// The time since `begin`.
  std::chrono::nanoseconds total() const { return Clock::now() - begin; }
};

/// Everything that the report shows. Refers to the job and the report.
struct RunOutcome {
  const Job& job;
  const RunReport& report;
  std::string backend = {};             ///< `cpu`, `cuda`
  std::string backend_reason = {};      ///< why `auto` chose it; empty if the user named it
  std::string device = {};              ///< the device, for people
  bool lineage = false;                 ///< whether --lineage was given
  CommandTimes times = {};              ///< of the command, beside the run
  std::vector<RunOutput> outputs = {};  ///< in the order of the job
  std::vector<WrittenFile> files = {};  ///< of --outputs
};

/// The name of the handler of an opcode; `NOP` for 0, empty if no handler has it.
std::string handler_name(const Job& job, Word opcode);

/// The line below a table about rows that it does not show; empty if it shows all.
std::string more_line(std::size_t hidden);
/// The part of the text about lineage; empty without --lineage.
std::string lineage_text(const RunOutcome& outcome);

/// The outcome as one JSON object.
std::string json_text(const RunOutcome& outcome);
/// The outcome as tables of at most 100 columns.
std::string human_text(const RunOutcome& outcome);

}  // namespace everkernel::cli
