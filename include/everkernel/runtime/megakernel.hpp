// The megakernel: compiled once; then it drains rings (dispatch), runs planned work (run) or stays
// and takes items from queues (start).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "everkernel/backend/backend.hpp"
#include "everkernel/ir/trusted.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/runtime/data_buffer.hpp"
#include "everkernel/runtime/dispatch.hpp"
#include "everkernel/runtime/run.hpp"
#include "everkernel/runtime/session.hpp"

namespace everkernel {

/// The options of a megakernel.
struct MegakernelOptions {
  Word slot_count = abi::kDefaultSlotCount;                ///< slots of its rings
  Word workgroup_size = abi::kDefaultWorkgroupSize;        ///< lanes of a group
  std::optional<ir::VerifiedProgram> handlers = {};        ///< code of user opcodes
  std::vector<ir::TrustedHandler> trusted_handlers = {};   ///< your own code for other opcodes
  bool payload = false;                                    ///< run the payload for every slot
  backend::Schedule schedule = backend::Schedule::direct;  ///< how a dispatch visits slots
  backend::Execution execution = backend::Execution::automatic;  ///< how handlers run
  std::uint64_t fuel_per_item = ir::kDefaultFuel;  ///< turns of loops an item may take
  Word worker_count = 0;                           ///< 0 = as many as the device can keep busy
  /// How long create() waits for a device that must compile all handlers before it can run any.
  /// When it is over, or 0, dispatches and runs wait for the code, up to their own deadlines, and
  /// report what the compiler refuses. A CPU compiles beside the items, and create() never waits.
  std::chrono::nanoseconds compile_timeout = std::chrono::nanoseconds::max();
};

/// The result of a recovery.
struct RecoveryDecision {
  bool recompiled = false;           ///< the kernel was compiled again
  std::size_t buffers_restored = 0;  ///< buffers written back from their host copies
  std::size_t buffers_lost = 0;      ///< buffers without a host copy: they are zero now
};

/// A compiled megakernel and the buffers its handlers see. Thread-safe; dispatches run one after
/// the other. Move-only. Sessions and buffers may outlive it. It belongs to the process that made
/// it: in a child of fork(), calls fail with `unsupported`, pipeline_id() is empty and
/// worker_count() is 0.
class Megakernel {
 public:
  /// Compiles. Fails with `invalid_argument` for a geometry that does not fit (the slot count is a
  /// positive multiple of the workgroup size), a missing payload or trusted handlers that do not
  /// fit (see ir::check_trusted), and with `unsupported` for an option that the backend does not
  /// support, such as a trusted handler without code for it.
  static Result<Megakernel> create(std::shared_ptr<backend::Backend> backend,
                                   const MegakernelOptions& options = {});

  Megakernel(Megakernel&&) noexcept;             ///< takes over
  Megakernel& operator=(Megakernel&&) noexcept;  ///< drops its own, takes over
  /// Waits at most a minute for a dispatch, run or recovery of another thread that has begun. One
  /// that takes longer goes on, and what it uses is freed when it returns. In a child of fork() it
  /// does nothing.
  ~Megakernel();

  /// Makes a buffer of zeros that handlers of later dispatches and sessions find by its handle.
  /// Fails with `invalid_argument` for a bad handle, owner or length or a handle in use, and with
  /// `out_of_memory`.
  Result<DataBuffer> create_buffer(const DataBufferOptions& options);
  /// Copies the four buffers to the device to stay there. Fails with `corrupt` or
  /// `invalid_argument` for bytes that do not fit the wire format or this megakernel, and with
  /// `out_of_memory`.
  Result<ResidentBuffers> make_resident(const HostBuffers& buffers,
                                        const ResidentOptions& options = {});

  /// Drains every submission. Returns when nothing can run, or at the deadline; the report says
  /// which items remain. Fails with `corrupt` or `invalid_argument` for bytes that do not fit, and
  /// with `device_lost`; then the last report of the workspace is unchanged.
  Result<DispatchReport> dispatch(const DispatchOptions& options);

  /// Plans a whole work queue, runs it and reports: the result is that of running the items one
  /// after the other. Items are opcodes of the handlers and NOP; there are 0
  /// to kMaxRunItems of them. No other call may use the buffers meanwhile. Fails with
  /// `invalid_argument` for an item or setting that is not allowed (the message names it) and a
  /// budget in which an item does not fit, with `unsupported` for an option that the backend does
  /// not support, and with `device_lost`.
  Result<RunReport> run(std::span<const abi::WorkItem> items, const RunOptions& options = {});

  /// Starts the kernel to stay and take items from queues until the session ends. Items see the
  /// buffers that exist when they begin. Fails with `invalid_argument` for options that cannot be
  /// (the message names them), with `unsupported` or `io`, with `device_lost`, and with
  /// `out_of_memory` or `unsupported` if a thread cannot be made (the message names the limit);
  /// then no thread is left behind.
  Result<Session> start(const SessionOptions& options = {});

  /// Brings a lost device back: compiles again and restores every buffer that has a host copy. If
  /// the device was not lost since the kernel was compiled, it does nothing, and `recompiled` is
  /// false. May be called beside a session: a session that was lost with the device keeps its old
  /// memory until its own recover(). Waits at most `timeout` for a dispatch or run of another
  /// thread and for the code: code that comes later is waited for when it is needed. Restoring is
  /// not interrupted. Fails with `timeout`, and with
  /// `device_lost` when the device stays away; then nothing is changed.
  Result<RecoveryDecision> recover(std::chrono::nanoseconds timeout = kDefaultDispatchTimeout);

  /// Names the compiled code: equal ids, equal code.
  std::string_view pipeline_id() const;
  /// Slots of its rings.
  Word slot_count() const;
  /// Lanes of a group.
  Word workgroup_size() const;
  /// Groups that cover every slot.
  Word worker_groups() const;
  /// Workers it runs with.
  Word worker_count() const;

  /// Everything a megakernel shares with its buffers and sessions.
  struct State;

 private:
  explicit Megakernel(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace everkernel
