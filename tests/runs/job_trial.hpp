// Runs jobs on one megakernel and compares the results with the model.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "everkernel/runtime/megakernel.hpp"
#include "job_model.hpp"
#include "support/backend_under_test.hpp"

namespace everkernel::test {

/// How a megakernel of these tests is made.
struct JobKernelShape {
  Word slot_count = 2;
  Word workgroup_size = 1;
  Word worker_count = 1;
  backend::Execution execution = usual_execution();
};

/// How a job is run on it.
struct RunChoice {
  bool dedupe = true;
  bool fuse = true;
  bool lineage = true;
  bool has_progress = false;
  Word worker_count = 0;
  backend::Execution execution = backend::Execution::automatic;
  Word hit_capacity = 0;
  std::uint64_t budget_bytes = 0;
  std::vector<Word> quotas = {};
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);  // a run that takes longer hangs
};

/// Shape and choice as text.
std::string describe(const JobKernelShape& shape, const RunChoice& choice);

/// The model of one job, whose parts are computed on demand.
class JobModel {
 public:
  JobModel(const JobProgram& program, const Job& job, Word workgroup_size)
      : program_(program), job_(job), workgroup_size_(workgroup_size) {}

  const std::vector<Word>& keepers(bool dedupe);
  const JobEnd& end(bool dedupe);
  const std::vector<std::vector<Word>>& regions(bool dedupe, bool fuse);
  const std::vector<std::uint64_t>& contributors(bool dedupe);
  const std::vector<Word>& opcodes(bool dedupe);

  /// The results of the job if only these items run.
  JobEnd end_of_some(bool dedupe, const std::vector<Word>& items);

  const JobProgram& program() const { return program_; }
  const Job& job() const { return job_; }

 private:
  const JobProgram& program_;
  const Job& job_;
  Word workgroup_size_;
  std::map<bool, std::vector<Word>> keepers_ = {};
  std::map<bool, JobEnd> ends_ = {};
  std::map<std::pair<bool, bool>, std::vector<std::vector<Word>>> regions_ = {};
  std::map<bool, std::vector<std::uint64_t>> contributors_ = {};
  std::map<bool, std::vector<Word>> opcodes_ = {};
};

/// A megakernel with the buffers of a batch.
class JobKernel {
 public:
  /// Fails as Megakernel::create and create_buffer do.
  static Result<JobKernel> make(const JobKernelShape& shape, const JobProgram& program,
                                const std::vector<JobBuffer>& buffers);

  /// The first difference, empty if there is none.
  std::string run(JobModel& model, const RunChoice& choice);
  const JobKernelShape& shape() const { return shape_; }
  /// The report of the last run that succeeded.
  const std::optional<RunReport>& last_report() const { return last_report_; }

 private:
  JobKernel(const JobKernelShape& shape, Megakernel kernel)
      : shape_(shape), kernel_(std::move(kernel)) {}
  std::string check_words(const JobEnd& end) const;
  std::string check_part(JobModel& model, const RunChoice& choice) const;

  JobKernelShape shape_;
  Megakernel kernel_;
  std::vector<DataBuffer> buffers_ = {};
  std::optional<RunReport> last_report_ = {};
};

/// The same job with as few items as still show a difference.
Job shrunk(JobKernel& kernel, const JobProgram& program, Job job, const RunChoice& choice);

}  // namespace everkernel::test
