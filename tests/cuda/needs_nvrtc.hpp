// What every test that really compiles begins with.
#pragma once

#include <gtest/gtest.h>

#include "backend/cuda/nvrtc.hpp"

// Defines `name`, or skips. A macro, because only the body of a test can skip it.
#define EVERKERNEL_NEEDS_NVRTC(name)                            \
  const auto name = ::everkernel::backend::cuda::Nvrtc::load(); \
  if (!name) GTEST_SKIP() << "there is no NVRTC here: " << name.error().message
