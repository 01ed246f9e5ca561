// What `run` came to, before it becomes JSON (run_json.cpp) or text (run_text.cpp).
#pragma once

#include <string>
#include <vector>

#include "dispatch_outcome.hpp"
#include "everkernel/runtime/run.hpp"
#include "job.hpp"

namespace everkernel::cli {

/// The words of a buffer that the job asks for.
struct RunOutput {
  Word handle = 0;
  std::vector<Word> words = {};
};

/// Everything the report says. Job and report outlive it.
struct RunOutcome {
  const Job& job;
  const RunReport& report;
  std::string backend = {};             ///< `cpu`, `cuda`
  std::string backend_reason = {};      ///< what `auto` decided by
  std::string device = {};              ///< what it ran on, for people
  bool lineage = false;                 ///< whether it was asked for
  std::vector<RunOutput> outputs = {};  ///< in the order of the job
  std::vector<WrittenFile> files = {};  ///< of --outputs
};

/// The name of the handler of an opcode; `NOP` for 0, empty when there is none.
std::string handler_name(const Job& job, Word opcode);

/// The line below a table that leaves rows out; empty when it does not.
std::string more_line(std::size_t hidden);
/// The part of the text about lineage; empty when it was not asked for.
std::string lineage_text(const RunOutcome& outcome);

/// The outcome as one JSON object.
std::string json_text(const RunOutcome& outcome);
/// The outcome as tables of at most 100 columns.
std::string human_text(const RunOutcome& outcome);

}  // namespace everkernel::cli
