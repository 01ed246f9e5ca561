// The CUDA backend as the runtime sees it. context.cpp and cuda_memory.cpp do the work.
#include "everkernel/backend/cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include <mutex>
#include <string>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda_kernel.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/module.hpp"
#include "backend/cuda/nvrtc.hpp"

namespace everkernel::backend::cuda {
namespace {

// What there is to work with, found without touching the device.
struct Machine {
  Driver driver;
  DeviceFacts facts;
  Nvrtc nvrtc;
};

Result<Machine> find_machine(int ordinal) {
  auto driver = Driver::load();
  if (!driver) return Failure(std::move(driver).error());
  auto facts = probe_device(*driver, ordinal);
  if (!facts) return Failure(std::move(facts).error());
  auto nvrtc = Nvrtc::load();
  if (!nvrtc) return Failure(std::move(nvrtc).error());
  return Machine{*driver, std::move(*facts), std::move(*nvrtc)};
}

Capabilities describe(const Result<Machine>& machine) {
  if (!machine) {
    const Error& error = machine.error();
    Capabilities none = Capabilities::unsupported(
        error.hint.empty() ? error.message : fmt::format("{}; {}", error.message, error.hint));
    none.id = "cuda";
    return none;
  }
  const DeviceFacts& facts = machine->facts;
  Capabilities capabilities = Capabilities::with_workers(facts.max_worker_count());
  capabilities.id = "cuda";
  capabilities.device =
      fmt::format("{}, {} SMs, compute capability {}.{}", facts.name, facts.sm_count,
                  facts.architecture / 10, facts.architecture % 10);
  capabilities.memory_bytes = facts.memory_bytes;
  capabilities.native_code = true;
  capabilities.shares_slot_across_workers = true;
  return capabilities;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaBackendOptions& options) : machine_(find_machine(options.device)) {
    if (machine_) shelf_ = std::make_shared<ModuleShelf>(machine_->nvrtc, options.cache);
  }

  const Capabilities& capabilities() const override { return capabilities_; }

  Result<std::unique_ptr<Kernel>> compile(const KernelOptions& options) override {
    const auto context = this->context();
    if (!context) return Failure(context.error());
    return CudaKernel::compile(*context, shelf_, options);
  }

  Result<std::unique_ptr<Memory>> allocate(std::size_t size_bytes) override {
    const auto context = this->context();
    if (!context) return Failure(context.error());
    return CudaMemory::create(*context, size_bytes);
  }

  // A lost device is lost to this process for good.
  Result<void> revive() override {
    const auto context = this->context();
    if (!context) return Failure(context.error());
    return {};
  }

 private:
  // Made late: it takes tenths of a second and hundreds of megabytes, and most who ask what a
  // backend can do do not want to run anything.
  Result<std::shared_ptr<Context>> context() {
    if (!machine_) return Failure(machine_.error());
    const std::scoped_lock lock(lock_);
    if (context_ == nullptr) {
      auto created = Context::create(machine_->driver, machine_->facts);
      if (!created) return Failure(std::move(created).error());
      context_ = std::move(*created);
    }
    EVERKERNEL_TRY(context_->check_alive());
    return context_;
  }

  Result<Machine> machine_;
  Capabilities capabilities_ = describe(machine_);
  std::mutex lock_;
  std::shared_ptr<Context> context_;
  std::shared_ptr<ModuleShelf> shelf_;  // where there is a machine
};

}  // namespace

std::shared_ptr<Backend> make_backend(const CudaBackendOptions& options) {
  return std::make_shared<CudaBackend>(options);
}

}  // namespace everkernel::backend::cuda
