// Lengths of time as a person writes them.
#pragma once

#include <chrono>
#include <string>

namespace everkernel {

/// The time in the largest unit in which it is at least 1, with three digits: "1.22 ms", "30 s",
/// "2 min 5 s", "3 h 10 min".
std::string duration_text(std::chrono::nanoseconds duration);

}  // namespace everkernel
