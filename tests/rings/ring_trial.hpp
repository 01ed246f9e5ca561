// Dispatches generated rings on one megakernel and compares the result with the model.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "everkernel/runtime/megakernel.hpp"
#include "ring_generator.hpp"
#include "support/backend_under_test.hpp"

namespace everkernel::test {

/// How a megakernel of these tests is made.
struct KernelShape {
  Word slot_count = 1;
  Word workgroup_size = 1;
  Word worker_count = 1;
  backend::Schedule schedule = backend::Schedule::direct;
  backend::Execution execution = usual_execution();
  bool has_payload = false;
  Word fuel = 1000;  // turns of loops an item may take
};

/// The shape as text.
std::string describe(const KernelShape& shape);

/// Changes between two dispatches of the same rings.
struct Between {
  bool enables_everyone = false;  // masks and quotas
  bool serves_io = false;         // requests are answered, half of them with an error
};

/// The rings of one call of dispatch.
struct RingTrial {
  std::vector<GeneratedRing> rings = {};
  std::vector<bool> is_resident = {};  // one for each ring: buffers on the device, not host bytes
  std::vector<DataImage> data = {};
  bool has_workspace = true;  // false: the report owns its storage
  // Whether to clear SHUTDOWN and dispatch the remaining items again.
  std::optional<Between> between = {};
  // A ring of these tests takes microseconds; a dispatch that takes seconds hangs.
  std::chrono::nanoseconds timeout = std::chrono::seconds(20);
};

/// The result of a trial.
struct TrialResult {
  std::string difference = {};    // empty: as the model computes
  bool was_skipped = false;       // the order of this ring is not defined on this kernel
  bool did_workers_meet = false;  // two items were in a loop at one time
};

/// A compiled megakernel with the buffers of the handlers.
class RingKernel {
 public:
  /// Fails as Megakernel::create and create_buffer do.
  static Result<RingKernel> make(const KernelShape& shape, const std::vector<DataImage>& data);

  TrialResult run(const RingTrial& trial);
  const KernelShape& shape() const { return shape_; }

 private:
  RingKernel(const KernelShape& shape, Megakernel kernel)
      : shape_(shape), kernel_(std::move(kernel)) {}

  struct Pass;
  bool order_is_open(const RingTrial& trial) const;
  std::string dispatch(const RingTrial& trial, Pass& pass);
  std::string check(Pass& pass);
  std::string check_ring(Pass& pass, std::size_t index);
  std::string check_data(const Pass& pass);
  bool did_workers_meet();
  Exactness exactness(const GeneratedRing& ring) const;
  ModelOptions model_options() const;

  KernelShape shape_;
  Megakernel kernel_;
  std::vector<DataBuffer> buffers_ = {};
  std::optional<DataBuffer> meeting_ = {};
  Workspace workspace_ = {};
};

/// The same trial with as few slots as still show a difference.
RingTrial shrunk(RingKernel& kernel, RingTrial trial);

}  // namespace everkernel::test
