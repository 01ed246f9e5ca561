// The files and buffers that a job names: reads them and checks that they fit together.
#pragma once

#include <string>
#include <string_view>

#include "handle_table.hpp"
#include "job.hpp"

namespace everkernel::cli {

/// The path of a file that a job names.
std::string beside(const Job& job, const std::string& path);

/// The error of a file, with the place in the job that names the file.
Failure at_place(const Job& job, std::string_view place, Error error);

/// Adds every handle of `buffers` to the table and checks `outputs`. Fails at a handle that is
/// named twice, or at an output that names none.
Result<void> check_handles(const JobText& text, const Job& job, HandleTable& handles);

/// Fails if the buffers of a job are longer than buffers may be, or do not fit in the memory.
Result<void> check_total(const JobText& text, const Job& job, const memory::Available& memory);

/// Reads the content of the buffers, and moves them from the text to the job.
Result<void> read_buffers(JobText& text, Job& job);

/// Moves the slices from the text to the job. Fails at one that does not lie in a buffer.
Result<void> read_slices(const JobText& text, Job& job);

}  // namespace everkernel::cli
