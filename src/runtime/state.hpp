// State that a megakernel, its buffers and its sessions share.
#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/process.hpp"
#include "everkernel/backend/backend.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "everkernel/runtime/data_buffer.hpp"
#include "everkernel/runtime/dispatch.hpp"
#include "everkernel/runtime/megakernel.hpp"

namespace everkernel {

/// Buffers of a submission, in the kernel's order.
inline constexpr std::size_t kSubmissionBuffers = 4;

/// A mutex with a deadline. std::timed_mutex would do, if ThreadSanitizer knew the call it makes.
class LaunchGate {
 public:
  /// Takes it unless it is still held at the deadline; says whether it did.
  bool try_lock_until(const backend::Deadline& deadline) {
    std::unique_lock held(mutex_);
    const auto is_free = [this] { return !is_taken_; };
    while (!is_free()) {
      const auto look = deadline.next_look();
      if (look == backend::Clock::time_point::max()) {
        freed_.wait(held, is_free);
      } else if (!freed_.wait_until(held, look, is_free) && deadline.has_passed()) {
        return false;
      }
    }
    is_taken_ = true;
    return true;
  }
  /// Gives it back.
  void unlock() {
    {
      const std::scoped_lock held(mutex_);
      is_taken_ = false;
    }
    freed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  bool is_taken_ = false;
};

/// Device memory, and a host copy of its content if one is kept.
struct KeptMemory {
  std::shared_ptr<backend::Memory> memory;  ///< on the device; tables that name it keep it too
  bool keeps_copy = false;                  ///< whether `copy` is kept
  std::vector<std::byte> copy;              ///< its content when it was last written or refreshed

  /// Allocates zeroed memory.
  Result<void> allocate(backend::Backend& backend, std::size_t size_bytes);
  /// Writes, to the copy too.
  Result<void> write(std::size_t offset_bytes, std::span<const std::byte> bytes);
  /// Reads the device memory into the copy, if one is kept.
  Result<void> refresh();
  /// Memory of the same size on a new device, with the content of the copy if there is one.
  Result<std::shared_ptr<backend::Memory>> remake(backend::Backend& backend) const;
};

struct DataBuffer::State {
  HomeProcess home;
  DataBufferOptions options;
  KeptMemory words;
  std::weak_ptr<Megakernel::State> owner;
  mutable std::mutex mutex;  // recovery replaces the memory
};

struct ResidentBuffers::State {
  HomeProcess home;
  std::array<KeptMemory, kSubmissionBuffers> buffers;
  std::uint64_t last_dispatch = 0;  // that used them; under the launch mutex
  std::weak_ptr<Megakernel::State> owner;
  mutable std::mutex mutex;  // recovery replaces the memory
};

/// The buffers that handles named at one moment. It keeps their memory alive, also when a recovery
/// gives the buffers new memory.
struct TableSnapshot {
  memory::BufferTable table;                               ///< in which handlers look up handles
  std::vector<memory::Buffer> entries;                     ///< entries of `table`
  std::vector<std::shared_ptr<DataBuffer::State>> owners;  ///< the buffers of the entries
  std::vector<std::shared_ptr<backend::Memory>> memories;  ///< the memory of the entries
  std::vector<DataBuffer::State*> copied;                  ///< host copies to refresh

  /// Refreshes the host copies of the buffers that handlers may have written.
  Result<void> refresh_copies() const;
};

struct RunMemory;

struct Megakernel::State : std::enable_shared_from_this<State> {
  HomeProcess home;
  std::shared_ptr<backend::Backend> backend;
  backend::KernelOptions options;
  Word worker_groups = 0;

  LaunchGate launch_mutex;                  // one dispatch or recovery at a time
  std::uint64_t dispatches = 0;             // so far
  std::mutex kernel_mutex;                  // held briefly; locked after the launch mutex
  std::shared_ptr<backend::Kernel> kernel;  // replaced by a recovery
  std::uint64_t generation = 0;             // recoveries so far; changed under both mutexes

  std::mutex table_mutex;
  std::map<Word, std::weak_ptr<DataBuffer::State>> buffers;
  std::shared_ptr<TableSnapshot> table;  // null after a change
  std::vector<std::weak_ptr<ResidentBuffers::State>> residents;
  std::size_t resident_sweep = 0;  // length at which expired entries are removed

  std::shared_ptr<RunMemory> run_memory;  // reused by runs; under the launch mutex

  std::mutex sessions_mutex;  // locked before the table mutex
  std::vector<std::weak_ptr<Session::State>> sessions;

  /// The table as it is now.
  std::shared_ptr<TableSnapshot> current_table();
  /// Makes a session follow the table from now on.
  void add_session(const std::shared_ptr<Session::State>& session);
  /// Gives the table as it is now to every session.
  void update_sessions();
  /// The kernel as it is now, and how many recoveries it has seen if that is asked for.
  std::shared_ptr<backend::Kernel> current_kernel(std::uint64_t* seen_generation = nullptr);
  /// Takes the launch mutex. Fails with `timeout` at the deadline; `call` names who waits.
  Result<std::unique_lock<LaunchGate>> lock_launches(std::string_view call,
                                                     const backend::Deadline& deadline);
  /// Recovers unless another recovery happened since `seen_generation`.
  Result<RecoveryDecision> recover(std::uint64_t seen_generation,
                                   const backend::Deadline& deadline);
  /// Recovers if the device was lost; the launch mutex is held. If the code is not there at the
  /// deadline, the new kernel waits for it when it is needed.
  Result<RecoveryDecision> recover_locked(const backend::Deadline& deadline);
  /// Waits a while for a call of another thread that has begun; in a child of fork(), keeps the
  /// state for ever.
  static void let_go(std::shared_ptr<State> state);
};

}  // namespace everkernel
