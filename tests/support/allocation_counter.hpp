// How often this program has called operator new, and for how much. Programs that use it list
// allocation_counter.cpp among their sources.
#pragma once

#include <cstddef>

namespace everkernel::test {

/// Allocations so far, of all threads and through every form of operator new.
std::size_t allocation_count();
/// Bytes of the largest allocation since the last reset.
std::size_t largest_allocation();
void reset_largest_allocation();

}  // namespace everkernel::test
