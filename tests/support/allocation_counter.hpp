// How often this program has called operator new. Programs that ask list allocation_counter.cpp
// among their sources.
#pragma once

#include <cstddef>

namespace everkernel::test {

/// Allocations so far, of all threads and through every form of operator new.
std::size_t allocation_count();

}  // namespace everkernel::test
