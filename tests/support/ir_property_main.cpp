// main() of ir_property_test where support/property_main.cpp is not there: prints its seed, and
// takes it from EVERKERNEL_SEED to replay a run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* const given = std::getenv("EVERKERNEL_SEED");
  const std::string seed = given != nullptr ? given : std::to_string(std::random_device{}());
  const char* const params = std::getenv("RC_PARAMS");
  const std::string all =
      "max_success=1000 " + (params != nullptr ? std::string(params) : "") + " seed=" + seed;
  setenv("RC_PARAMS", all.c_str(), 1);
  std::cout << "EVERKERNEL_SEED=" << seed << std::endl;
  return RUN_ALL_TESTS();
}
