// Sessions: starting, publishing, waiting, looking, stopping, recovering.
#include <fmt/format.h>

#include <atomic>

#include "base/descriptor.hpp"
#include "everkernel/ir/parser.hpp"
#include "everkernel/ir/verifier.hpp"
#include "injection.hpp"
#include "operations_detail.hpp"
#include "runtime_world.hpp"

namespace everkernel::test {
namespace {

using protocol::Operation;
constexpr auto kPatience = std::chrono::seconds(20);

class SessionWorld : public RuntimeWorld {
 public:
  void prepare() override {
    RuntimeWorld::prepare();
    session.emplace(*kernel->start());
  }

 protected:
  /// Publishes one item that the world needs.
  Ticket give(Word opcode, Word param) {
    const std::array<Word, 3> args{1, 2, param};
    return *session->publish({opcode, args}, {.timeout = kPatience});
  }
  /// Drains, and tells what there was.
  std::string drained() {
    const StopReport report = session->stop(StopMode::drain, kPatience);
    return fmt::format("{} done, {} faulted, {} cancelled", report.done, report.faulted,
                       report.cancelled) +
           results();
  }
  std::optional<Session> session;
};

class Start final : public RuntimeWorld {
 public:
  Result<void> act() override {
    session_.emplace(EVERKERNEL_TRY(kernel->start()));
    return {};
  }
  std::string look() override {
    const std::array<Word, 3> args{1, 2, 5};
    const auto ticket = session_->publish({64, args});
    const bool is_done = session_->wait(*ticket, kPatience)->is_done();
    return fmt::format("{}", is_done) + results();
  }

 private:
  std::optional<Session> session_;
};

// One call of a session. `Call` publishes, waits or looks.
class Call final : public SessionWorld {
 public:
  using Function = std::function<Result<std::string>(Session&, std::vector<Ticket>&)>;
  Call(Function call, std::vector<std::pair<Word, Word>> before)
      : call_(std::move(call)), before_(std::move(before)) {}
  void prepare() override {
    SessionWorld::prepare();
    for (const auto& [opcode, param] : before_) tickets_.push_back(give(opcode, param));
  }
  Result<void> act() override {
    text_ = EVERKERNEL_TRY(call_(*session, tickets_));
    return {};
  }
  std::string look() override { return text_ + drained(); }

 private:
  Function call_;
  std::vector<std::pair<Word, Word>> before_;
  std::vector<Ticket> tickets_;
  std::string text_;
};

// stop() reports instead of failing. What it does without memory is seen by the second call, which
// gives the same report.
class Stop final : public SessionWorld {
 public:
  explicit Stop(StopMode mode) : mode_(mode) {}
  void prepare() override {
    SessionWorld::prepare();
    static_cast<void>(session->set_tenant_enabled(TenantId(5), false));
    for (Word i = 0; i < 3; ++i) give(67, 6);
    const std::array<Word, 3> args{1, 2, 1};
    for (Word i = 0; i < 6; ++i)
      static_cast<void>(session->publish({64, args}, {.tenant = TenantId(5)}));
  }
  Result<void> act() override {
    report_ = session->stop(mode_, std::chrono::milliseconds(1));
    return {};
  }
  std::string look() override {
    return fmt::format("{} ended", report_.done + report_.faulted + report_.cancelled) + results();
  }

 private:
  const StopMode mode_;
  StopReport report_;
};

// A session that is dropped while items wait, also those that would note an outcome.
class Drop final : public SessionWorld {
 public:
  void prepare() override {
    SessionWorld::prepare();
    static_cast<void>(session->set_tenant_enabled(TenantId(5), false));
    const std::array<Word, 3> args{1, 2, 1};
    for (Word i = 0; i < 12; ++i)
      static_cast<void>(session->publish({64, args}, {.tenant = TenantId(5)}));
  }
  Result<void> act() override {
    session.reset();
    return {};
  }
  std::string look() override { return results(); }
};

// An item that cannot run is waited for.
class WaitInVain final : public SessionWorld {
 public:
  void prepare() override {
    SessionWorld::prepare();
    static_cast<void>(session->set_tenant_enabled(TenantId(5), false));
    const std::array<Word, 3> args{1, 2, 1};
    ticket_ = *session->publish({64, args}, {.tenant = TenantId(5)});
  }
  Result<void> act() override {
    const auto ended = session->wait(ticket_, std::chrono::milliseconds(1));
    if (ended || ended.error().code != Code::timeout) return Failure(ended.error());
    return {};
  }
  std::string look() override {
    static_cast<void>(session->set_tenant_enabled(TenantId(5), true));
    return drained();
  }

 private:
  Ticket ticket_{};
};

class RecoverSession final : public SessionWorld {
 public:
  void prepare() override {
    SessionWorld::prepare();
    device->lose_device();
    for (Word i = 0; i < 4; ++i) give(64, 1);
  }
  Result<void> act() override { return session->recover(); }
  std::string look() override { return drained(); }
};

class Callback final : public SessionWorld {
 public:
  void prepare() override {
    SessionWorld::prepare();
    ticket_ = give(68, 2000);
  }
  Result<void> act() override {
    return session->on_complete(ticket_, [this](Ticket, Completion, bool) { ++calls_; });
  }
  std::string look() override {
    const std::string text = drained();
    return fmt::format("{} calls, ", calls_.load()) + text;
  }

 private:
  Ticket ticket_{};
  std::atomic<int> calls_{0};
};

// Callbacks of items that stop() cancels: the thread that calls them has nobody to tell.
class CancelledCallbacks final : public SessionWorld {
 public:
  void prepare() override {
    SessionWorld::prepare();
    static_cast<void>(session->set_tenant_enabled(TenantId(5), false));
    const std::array<Word, 3> args{1, 2, 1};
    for (Word i = 0; i < 6; ++i) {
      const auto ticket = session->publish({64, args}, {.tenant = TenantId(5)});
      static_cast<void>(session->on_complete(
          *ticket, [this](Ticket, Completion, bool cancelled) { calls_ += cancelled ? 1 : 0; }));
    }
  }
  Result<void> act() override {
    session->stop(StopMode::cancel, kPatience);
    return {};
  }
  std::string look() override { return fmt::format("{} calls", calls_.load()) + results(); }

 private:
  std::atomic<int> calls_{0};
};

// A queue is given away, and attached to, as if by another process.
class Attach final : public SessionWorld {
 public:
  explicit Attach(bool gives) : gives_(gives) {}
  void prepare() override {
    SessionWorld::prepare();
    given_.emplace(*session->open_queue({.tenant = TenantId(3)}));
    if (!gives_) descriptor_ = Descriptor(*given_->descriptor());
  }
  Result<void> act() override {
    if (gives_) {
      descriptor_ = Descriptor(EVERKERNEL_TRY(given_->descriptor()));
    } else {
      attached_.emplace(EVERKERNEL_TRY(attach_queue(descriptor_.get())));
    }
    return {};
  }
  std::string look() override {
    if (gives_) attached_.emplace(*attach_queue(descriptor_.get()));
    static constexpr std::array<Word, 3> kArgs{1, 2, 1};
    const auto ticket = attached_->publish({64, kArgs}, kPatience);
    const bool is_done = attached_->wait(*ticket, kPatience)->is_done();
    attached_.reset();
    return fmt::format("{}, ", is_done) + drained();
  }

 private:
  const bool gives_;
  std::optional<Queue> given_;
  std::optional<Queue> attached_;
  Descriptor descriptor_;
};

// A callback of a queue that another process would have.
class AttachedCallback final : public SessionWorld {
 public:
  void prepare() override {
    SessionWorld::prepare();
    given_.emplace(*session->open_queue({.tenant = TenantId(3)}));
    const Descriptor descriptor(*given_->descriptor());
    attached_.emplace(*attach_queue(descriptor.get()));
    static constexpr std::array<Word, 3> kArgs{1, 2, 1};
    ticket_ = *attached_->publish({64, kArgs}, kPatience);
  }
  Result<void> act() override {
    return attached_->on_complete(ticket_, [this](Ticket, Completion, bool) { ++calls_; });
  }
  std::string look() override {
    attached_->close(StopMode::drain, kPatience);
    const std::string text = drained();
    return fmt::format("{} calls, ", calls_.load()) + text;
  }

 private:
  std::optional<Queue> given_;
  std::optional<Queue> attached_;
  Ticket ticket_{};
  std::atomic<int> calls_{0};
};

void add_call(std::vector<Trial>& all, std::string name, Call::Function call,
              std::vector<std::pair<Word, Word>> before = {}) {
  all.push_back({std::move(name), [call = std::move(call), before = std::move(before)] {
                   return std::make_unique<Call>(call, before);
                 }});
}

constexpr std::array<Word, 3> kArgs{1, 2, 1};
constexpr std::array<Operation, 2> kOperations{{{64, kArgs}, {64, kArgs}}};

void add_publish_trials(std::vector<Trial>& all) {
  add_call(all, "Session::publish", [](Session& session, auto&) -> Result<std::string> {
    EVERKERNEL_TRY(session.publish({64, kArgs}));
    return std::string("published ");
  });
  add_call(all, "Session::publish of a fence",
           [](Session& session, auto&) -> Result<std::string> {
             static constexpr std::array<Word, 2> kFence{1, 7};
             EVERKERNEL_TRY(session.publish({7, kFence}));
             return std::string("published ");
           },
           {{64, 1}});
  add_call(all, "Session::publish of a bad item", [](Session& session, auto&) {
    const auto ticket = session.publish({64, kArgs}, {.tenant = TenantId(99)});
    if (ticket.error().code == Code::out_of_memory)
      return Result<std::string>(Failure(ticket.error()));
    return Result<std::string>(ticket.error().message);
  });
  add_call(all, "Session::publish_items", [](Session& session, auto&) -> Result<std::string> {
    static constexpr std::array<abi::WorkItem, 3> kItems{
        {{64, 1, 2, 1}, {65, 1, 2, 1}, {67, 1, 2, 6}}};
    EVERKERNEL_TRY(session.publish_items(kItems));
    return std::string("published ");
  });
  add_call(all, "Session::publish_packed", [](Session& session, auto&) -> Result<std::string> {
    static constexpr std::array<protocol::PackedOp, 1> kPacked{{{64, kArgs}}};
    EVERKERNEL_TRY(session.publish_packed(kPacked));
    return std::string("published ");
  });
  add_call(all, "Session::publish_batch", [](Session& session, auto&) -> Result<std::string> {
    EVERKERNEL_TRY(session.publish_batch(kOperations, 7));
    return std::string("published ");
  });
  add_call(
      all, "Session::publish into a full ring",
      [](Session& session, auto&) {
        // Every item that is waited for has faulted, so its outcome is noted.
        const auto ticket = session.publish({64, kArgs}, {.timeout = kPatience});
        if (!ticket) return Result<std::string>(Failure(ticket.error()));
        return Result<std::string>("published ");
      },
      std::vector<std::pair<Word, Word>>(15, {67, 6}));
}

void add_following_trials(std::vector<Trial>& all) {
  const std::vector<std::pair<Word, Word>> faults(9, {67, 6});
  add_call(
      all, "Session::wait",
      [](Session& session, auto& tickets) -> Result<std::string> {
        const auto ended = EVERKERNEL_TRY(session.wait(tickets.back(), kPatience));
        const Spared spared;
        return fmt::format("code {} ", ended.fault_code);
      },
      faults);
  add_call(
      all, "Session::wait_all",
      [](Session& session, auto&) -> Result<std::string> {
        EVERKERNEL_TRY(session.wait_all(kPatience));
        return std::string("all ");
      },
      faults);
  add_call(
      all, "Session::poll",
      [](Session& session, auto& tickets) -> Result<std::string> {
        for (const Ticket ticket : tickets) {
          while (!EVERKERNEL_TRY(session.poll(ticket))) {
          }
        }
        return std::string("all ");
      },
      faults);
  add_call(
      all, "Session::snapshot",
      [](Session& session, auto&) -> Result<std::string> {
        const std::array<Word, 2> opcodes{64, 67};
        EVERKERNEL_TRY(session.wait_all(kPatience));  // items end in any order
        SessionSnapshot target;
        EVERKERNEL_TRY(session.snapshot(target, opcodes));
        const Spared spared;
        return fmt::format("{} faulted ", target.counters.kernel.faulted);
      },
      faults);
  add_call(
      all, "Session::running",
      [](Session& session, auto&) -> Result<std::string> {
        EVERKERNEL_TRY(session.wait_all(kPatience));
        EVERKERNEL_TRY(session.running());
        return std::string("seen ");
      },
      faults);
  add_call(
      all, "Session::counters and observable",
      [](Session& session, auto&) -> Result<std::string> {
        EVERKERNEL_TRY(session.wait_all(kPatience));
        std::vector<std::byte> log;
        session.copy_debug_log(log);
        const std::uint64_t faulted = session.counters().kernel.faulted;
        const Word observed = EVERKERNEL_TRY(session.observable(3));
        const Spared spared;
        return fmt::format("{} faulted, {} ", faulted, observed);
      },
      faults);
}

void add_changing_trials(std::vector<Trial>& all) {
  add_call(all, "Session::set_tenant_enabled and set_tenant_quota",
           [](Session& session, auto&) -> Result<std::string> {
             EVERKERNEL_TRY(session.set_tenant_enabled(TenantId(3), false));
             EVERKERNEL_TRY(session.set_tenant_quota(TenantId(3), 1));
             return std::string("set ");
           });
  add_call(all, "Session::parked", [](Session& session, auto&) -> Result<std::string> {
    int calls = 0;
    const auto parked = session.parked([&calls] { ++calls; });
    if (!parked && calls != 0) return std::string("called and failed ");
    EVERKERNEL_TRY(parked);
    return fmt::format("called {} times ", calls);
  });
  add_call(all, "Session::replace_handlers", [](Session& session, auto&) -> Result<std::string> {
    auto program = EVERKERNEL_TRY(ir::parse("handler other = 90 { }"));
    const auto handlers = EVERKERNEL_TRY(ir::verify(std::move(program)));
    EVERKERNEL_TRY(session.replace_handlers(handlers));
    return std::string("replaced ");
  });
}

}  // namespace

void add_session_trials(std::vector<Trial>& all) {
  all.push_back({"Megakernel::start", make<Start>});
  add_publish_trials(all);
  add_following_trials(all);
  add_changing_trials(all);
  all.push_back({"Session::wait that times out", make<WaitInVain>});
  all.push_back({"Session::on_complete", make<Callback>});
  all.push_back({"Session::stop with callbacks", make<CancelledCallbacks>});
  all.push_back(
      {"Session::stop with drain", [] { return std::make_unique<Stop>(StopMode::drain); }});
  all.push_back(
      {"Session::stop with cancel", [] { return std::make_unique<Stop>(StopMode::cancel); }});
  all.push_back({"Session::~Session", make<Drop>});
  all.push_back({"Session::recover", make<RecoverSession>});
  add_call(all, "Session::open_queue", [](Session& session, auto&) -> Result<std::string> {
    EVERKERNEL_TRY(session.open_queue({.results = true, .item_timeout = kPatience}));
    return std::string("opened ");
  });
  all.push_back({"Queue::descriptor", [] { return std::make_unique<Attach>(true); }});
  all.push_back({"Queue::on_complete, attached", make<AttachedCallback>});
  all.push_back({"attach_queue", [] { return std::make_unique<Attach>(false); }});
}

const std::vector<Trial>& trials() {
  static const std::vector<Trial> all = [] {
    std::vector<Trial> list;
    add_pure_trials(list);
    add_runtime_trials(list);
    add_session_trials(list);
    return list;
  }();
  return all;
}

}  // namespace everkernel::test
