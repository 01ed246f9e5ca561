// Macros with which every test of compiled code begins.
#pragma once

#include <gtest/gtest.h>

#include "everkernel/jit/native.hpp"
#include "support/jit_trial.hpp"

// Macros, because only the body of a test can skip it.

// For tests of the kind of code that EVERKERNEL_SUBJECT names.
#define EVERKERNEL_NEEDS_SUBJECT()                                             \
  do {                                                                         \
    const std::string reason = ::everkernel::test::chosen_subject().why_not(); \
    if (!reason.empty()) GTEST_SKIP() << reason;                               \
  } while (false)

// For tests of native code alone.
#define EVERKERNEL_NEEDS_NATIVE_CODE()                                            \
  do {                                                                            \
    if (!::everkernel::jit::has_native_code()) {                                  \
      GTEST_SKIP() << "this build has no LLVM: there is no native code to check"; \
    }                                                                             \
  } while (false)
