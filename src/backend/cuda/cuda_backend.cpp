// Finds driver, device and compiler, and creates the context when it is first needed.
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

// Driver, device and compiler, found without creating a context on the device.
struct Machine {
  Driver driver;
  DeviceFacts facts;
  Nvrtc nvrtc;
};

Result<Machine> find_machine(int ordinal) {
  const Driver driver = EVERKERNEL_TRY(Driver::load());
  DeviceFacts facts = EVERKERNEL_TRY(probe_device(driver, ordinal));
  Nvrtc nvrtc = EVERKERNEL_TRY(Nvrtc::load());
  return Machine{driver, std::move(facts), std::move(nvrtc)};
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
  capabilities.live = true;
  capabilities.shares_slot_across_workers = true;
  return capabilities;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaBackendOptions& options) : machine_(find_machine(options.device)) {
    if (machine_) module_cache_ = std::make_unique<ModuleCache>(machine_->nvrtc, options.cache);
  }

  const Capabilities& capabilities() const override { return capabilities_; }

  Result<std::unique_ptr<Kernel>> compile(const KernelOptions& options) override {
    const auto context = EVERKERNEL_TRY(this->context());
    return CudaKernel::compile(context, *module_cache_, options);
  }

  Result<std::unique_ptr<Memory>> allocate(std::size_t size_bytes) override {
    return CudaMemory::create(EVERKERNEL_TRY(context()), size_bytes);
  }

  // A lost device cannot be brought back in this process.
  Result<void> revive() override {
    EVERKERNEL_TRY(context());
    return {};
  }

 private:
  // Created by the first call that needs it: a context takes tenths of a second and hundreds of
  // megabytes, and most programs that read capabilities() run nothing on the device.
  Result<std::shared_ptr<Context>> context() {
    if (!machine_) return Failure(machine_.error());
    const std::scoped_lock lock(lock_);
    if (context_ == nullptr) {
      context_ = EVERKERNEL_TRY(Context::create(machine_->driver, machine_->facts));
    }
    EVERKERNEL_TRY(context_->check_alive());
    return context_;
  }

  Result<Machine> machine_;
  Capabilities capabilities_ = describe(machine_);
  std::mutex lock_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<ModuleCache> module_cache_;  // null without a machine
};

}  // namespace

std::shared_ptr<Backend> make_backend(const CudaBackendOptions& options) {
  return std::make_shared<CudaBackend>(options);
}

}  // namespace everkernel::backend::cuda
