// Megakernels, buffers, dispatches and runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/testing/faulty_backend.hpp"
#include "everkernel/jit/native.hpp"
#include "injection.hpp"
#include "operations_detail.hpp"
#include "runtime_world.hpp"

namespace everkernel::test {
namespace {

class CreateMegakernel : public World {
 public:
  explicit CreateMegakernel(MegakernelOptions options) : options_(std::move(options)) {}
  Result<void> act() override {
    made_.emplace(EVERKERNEL_TRY(Megakernel::create(device_, options_)));
    return {};
  }
  std::string look() override { return std::string(made_->pipeline_id()); }

 private:
  std::shared_ptr<backend::Backend> device_ = backend::cpu::make_backend();
  MegakernelOptions options_;
  std::optional<Megakernel> made_;
};

class CreateBuffer final : public RuntimeWorld {
 public:
  Result<void> act() override {
    made_.emplace(EVERKERNEL_TRY(
        kernel->create_buffer({.handle = 7, .word_count = 100, .keep_host_copy = true})));
    return {};
  }
  std::string look() override {
    dispatch_one({64, 1, 7, 5});
    return words_of_buffer(*made_) + results();
  }

 private:
  std::optional<DataBuffer> made_;
};

class WriteBuffer final : public RuntimeWorld {
 public:
  Result<void> act() override {
    const std::array<Word, 3> words{1, 2, 3};
    EVERKERNEL_TRY(output->write(1, words));
    std::array<Word, 4> read{};
    return output->read(0, read);
  }
  std::string look() override { return words_of_buffer(*output); }
};

class MakeResident final : public RuntimeWorld {
 public:
  Result<void> act() override {
    made_.emplace(
        EVERKERNEL_TRY(kernel->make_resident(sample.buffers(), {.keep_host_copy = true})));
    Bytes bytes(64);
    EVERKERNEL_TRY(made_->write(protocol::Buffer::ring, 0, bytes));
    return made_->read(protocol::Buffer::ring, 0, bytes);
  }
  std::string look() override {
    return fmt::format("{}", made_->size_bytes(protocol::Buffer::ring)) + results();
  }

 private:
  std::optional<ResidentBuffers> made_;
};

// A dispatch with every kind of item. A failed one must leave the buffers and the last report of
// the workspace as they were.
class Dispatch final : public RuntimeWorld {
 public:
  Dispatch(backend::Schedule schedule, bool is_resident, bool is_warm)
      : RuntimeWorld({.schedule = schedule}), is_resident_(is_resident), is_warm_(is_warm) {}

  void prepare() override {
    RuntimeWorld::prepare();
    if (is_resident_) resident_.emplace(*kernel->make_resident(sample.buffers()));
    if (!is_warm_) return;
    const Submission empty = quiet.buffers();
    auto report = kernel->dispatch({.submissions = {&empty, 1}, .workspace = &workspace_});
    if (!report) throw std::runtime_error(report.error().message);
  }
  Result<void> act() override {
    Submission submission = sample.buffers();
    if (is_resident_) submission = &*resident_;
    const std::array<Submission, 2> submissions{submission, quiet.buffers()};
    const auto report = EVERKERNEL_TRY(kernel->dispatch({.submissions = submissions,
                                                         .workspace = &workspace_,
                                                         .timeout = std::chrono::seconds(20),
                                                         .hit_capacity = 8}));
    const Spared spared;
    text_ = fmt::format("{} done, {} faulted, {} remain, {} hits, {}", report.stats.items_done,
                        report.stats.items_faulted, report.stats.items_remaining,
                        report.submissions[0].hits.size(),
                        fmt::join(statuses(report.submissions[0].ring), " "));
    return {};
  }
  std::string look() override { return text_ + results(); }

 private:
  const bool is_resident_;
  const bool is_warm_;
  std::optional<ResidentBuffers> resident_;
  Workspace workspace_;
  std::string text_;
};

// A dispatch of an item that is worth native code. The caller runs it, and asks for the code.
class NativeDispatch final : public RuntimeWorld {
 public:
  explicit NativeDispatch(backend::Execution execution) : RuntimeWorld({}, execution) {
    std::vector<SlotWords> slots(16);
    slots[0] = {1, 68, 0, 2, 1, 2, 20'000};
    ring_ = ring_of(slots);
  }
  Result<void> act() override {
    const Submission submission = HostBuffers{.control = sample.control, .ring = ring_};
    const auto report = EVERKERNEL_TRY(
        kernel->dispatch({.submissions = {&submission, 1}, .timeout = std::chrono::seconds(20)}));
    const Spared spared;
    text_ = fmt::format("{} done, {} faulted, {} remain", report.stats.items_done,
                        report.stats.items_faulted, report.stats.items_remaining);
    return {};
  }
  std::string look() override { return text_; }

 private:
  Bytes ring_;
  std::string text_;
};

class BadDispatch final : public RuntimeWorld {
 public:
  Result<void> act() override {
    const Bytes bytes(100);
    const Submission bad = HostBuffers{.control = bytes, .ring = bytes};
    const auto report = kernel->dispatch({.submissions = {&bad, 1}});
    if (report.has_value() || report.error().code == Code::out_of_memory) {
      return Failure(report.error());
    }
    const Spared spared;
    text_ = report.error().message;
    return {};
  }
  std::string look() override { return text_ + results(); }

 private:
  std::string text_;
};

// A run of items that depend on each other, fault, come back and emit. A run without memory for its
// report fails although items have run, so that the results of these items do not depend on how
// often they run.
class Run final : public RuntimeWorld {
 public:
  explicit Run(bool has_everything) : has_everything_(has_everything) {
    for (Word i = 0; i < 60; ++i) items_.push_back({69, 1, 2 + i % 2, 1 + i / 2});
    origins_.resize(items_.size(), backend::Origin{.priority = 1});
  }
  Result<void> act() override {
    const RunOptions everything{.origins = origins_,
                                .lineage = true,
                                .timeout = std::chrono::seconds(20),
                                .execution = backend::Execution::interpreter,
                                .memory_budget_bytes = 64 << 10,
                                .tenant_quotas = quotas_};
    const RunOptions plain{.timeout = std::chrono::seconds(20),
                           .execution = backend::Execution::interpreter};
    const auto report = EVERKERNEL_TRY(kernel->run(items_, has_everything_ ? everything : plain));
    const Spared spared;
    text_ = fmt::format("{} processed, {} faulted, {} remain, {} hits, {} regions",
                        report.items_processed, report.items_faulted, report.items_remaining,
                        report.hits.size(), report.region_count());
    return {};
  }
  std::string look() override { return text_ + results(); }

 private:
  const bool has_everything_;
  std::vector<abi::WorkItem> items_ = {{69, 1, 2, 5}, {70, 1, 2, 7}, {66, 1, 2, 2}, {67, 1, 3, 6},
                                       {67, 3, 2, 1}, {69, 1, 3, 4}, {69, 1, 3, 4}, {0, 0, 0, 0}};
  std::vector<backend::Origin> origins_;
  const std::array<Word, 3> quotas_{2, 2, 2};
  std::string text_;
};

// Brings a lost device back; a second attempt must not find less than the first.
class Recover final : public RuntimeWorld {
 public:
  void prepare() override {
    RuntimeWorld::prepare();
    resident_.emplace(*kernel->make_resident(sample.buffers(), {.keep_host_copy = true}));
    device->lose_device();
  }
  Result<void> act() override {
    const auto decision = EVERKERNEL_TRY(kernel->recover());
    const Spared spared;
    text_ = fmt::format("{} restored, {} lost", decision.buffers_restored, decision.buffers_lost);
    return {};
  }
  std::string look() override {
    dispatch_one({64, 1, 2, 5});
    return text_ + results();
  }

 private:
  std::optional<ResidentBuffers> resident_;
  std::string text_;
};

}  // namespace

void add_runtime_trials(std::vector<Trial>& all) {
  all.push_back({"Megakernel::create",
                 [] { return std::make_unique<CreateMegakernel>(MegakernelOptions{}); }});
  all.push_back(
      {"Megakernel::create with handlers",
       [] { return std::make_unique<CreateMegakernel>(RuntimeWorld::options_with_handlers({})); }});
  all.push_back({"Megakernel::create_buffer", make<CreateBuffer>});
  all.push_back({"DataBuffer::write and read", make<WriteBuffer>});
  all.push_back({"Megakernel::make_resident", make<MakeResident>});
  for (const auto schedule :
       {backend::Schedule::direct, backend::Schedule::priority, backend::Schedule::ticket}) {
    for (const bool is_resident : {false, true}) {
      for (const bool is_warm : {false, true}) {
        all.push_back({fmt::format("Megakernel::dispatch, {}, {} buffers, {} workspace",
                                   backend::schedule_name(schedule),
                                   is_resident ? "resident" : "host", is_warm ? "used" : "new"),
                       [=] { return std::make_unique<Dispatch>(schedule, is_resident, is_warm); }});
      }
    }
  }
  for (const auto execution : {backend::Execution::automatic, backend::Execution::native}) {
    if (!jit::has_native_code()) break;
    const bool is_native = execution == backend::Execution::native;
    all.push_back({fmt::format("Megakernel::dispatch, {} code", is_native ? "native" : "automatic"),
                   [=] { return std::make_unique<NativeDispatch>(execution); }, true});
  }
  all.push_back({"Megakernel::dispatch of bytes that do not fit", make<BadDispatch>});
  all.push_back({"Megakernel::run", [] { return std::make_unique<Run>(false); }});
  all.push_back({"Megakernel::run with every option", [] { return std::make_unique<Run>(true); }});
  all.push_back({"Megakernel::recover", make<Recover>});
}

}  // namespace everkernel::test
