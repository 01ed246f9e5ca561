// The end of a command that ran items: its report goes to standard output, its files are in place.
// If one of them fails, the other is not lost, and a message says what is where.
#pragma once

#include <string>

#include "command.hpp"
#include "files.hpp"

namespace everkernel::cli {

/// The results of a command that ran.
struct Delivery {
  std::string report = {};          ///< text for standard output
  std::string report_name = {};     ///< the report's file if it cannot be printed and that is free
  OutputFolder* folder = nullptr;   ///< null if the command writes no files
  Result<void> files_written = {};  ///< of OutputFolder::commit(), or why nothing was staged
  Ending ending = Ending::done;     ///< if everything is delivered
};

/// Prints the report. Gives `ending`, or `undelivered` after saying what is where.
Ending deliver(const Delivery& delivery);

/// Prints a text that is all that a command does.
Ending deliver_text(std::string_view text);

}  // namespace everkernel::cli
