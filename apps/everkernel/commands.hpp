// The commands of the program. Each lives in a file of its name, with the struct of its options.
//
// main.cpp adds them all, parses, and runs the one that was asked for.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "everkernel/base/result.hpp"

namespace everkernel::cli {

/// How a command ended that did what it was asked.
enum class Ending {
  done,        ///< all of it
  incomplete,  ///< it ran, but items became FAULT or remain
};

/// The ending of a command that runs no items.
inline Result<Ending> ended(const Result<void>& result) {
  return result.map([] { return Ending::done; });
}

/// What a parsed command does: reads its files, prints its report, writes its files. Anything it
/// writes to a file comes last, so that nothing is written when it fails.
using Action = std::function<Result<Ending>()>;

/// Adds `bench`: runs the benchmarks.
void add_bench(CLI::App& program, Action& action);
/// Adds `check`: verifies handlers.
void add_check(CLI::App& program, Action& action);
/// Adds `info`: what this program is and what it can do.
void add_info(CLI::App& program, Action& action);
/// Adds `dispatch`: runs what is published in a ring file.
void add_dispatch(CLI::App& program, Action& action);
/// Adds `encode`: makes fresh buffers.
void add_encode(CLI::App& program, Action& action);
/// Adds `publish`: puts work into a ring file.
void add_publish(CLI::App& program, Action& action);
/// Adds `run`: runs a work queue from a job file.
void add_run(CLI::App& program, Action& action);
/// Adds `inspect`: decodes buffers for people and programs.
void add_inspect(CLI::App& program, Action& action);

}  // namespace everkernel::cli
