// The features of a job and the ways it ends, by name, so that a test can check that the generator
// reaches them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "job_trial.hpp"

namespace everkernel::test {

/// Every feature that the job has.
std::set<std::string> features_of(JobModel& model);
/// Every feature that a generator must reach.
std::vector<std::string> all_features();

}  // namespace everkernel::test
