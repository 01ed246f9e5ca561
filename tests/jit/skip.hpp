// What every test of native code begins with.
#pragma once

#include <gtest/gtest.h>

#include "everkernel/jit/native.hpp"

// A macro, because only the body of a test can skip it.
#define EVERKERNEL_NEEDS_NATIVE_CODE()                                            \
  do {                                                                            \
    if (!::everkernel::jit::has_native_code()) {                                  \
      GTEST_SKIP() << "this build has no LLVM: there is no native code to check"; \
    }                                                                             \
  } while (false)
