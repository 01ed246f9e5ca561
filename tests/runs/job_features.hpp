// What is in a job and how it ends, by name, so that a test can say what the generator reaches.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "job_trial.hpp"

namespace everkernel::test {

/// Everything that the job has.
std::set<std::string> features_of(JobModel& model);
/// Everything a generator must reach.
std::vector<std::string> all_features();

}  // namespace everkernel::test
