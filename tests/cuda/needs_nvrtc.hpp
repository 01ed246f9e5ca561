// Skips a test that needs NVRTC on machines without it.
#pragma once

#include <gtest/gtest.h>

#include "backend/cuda/nvrtc.hpp"

// Loads NVRTC into `name`, or skips the test. A macro, because only a test's body can skip it.
#define EVERKERNEL_NEEDS_NVRTC(name)                            \
  const auto name = ::everkernel::backend::cuda::Nvrtc::load(); \
  if (!name) GTEST_SKIP() << "there is no NVRTC here: " << name.error().message
