// Which process an object belongs to: after fork(), a child has a copy of every object, but not the
// threads and not the shared memory behind them.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "everkernel/base/result.hpp"

namespace everkernel {

/// The process that made an object. The check costs one load and one comparison, so that every
/// call of a hot path can afford it.
class HomeProcess {
 public:
  /// The calling process.
  HomeProcess();

  /// Whether the calling process is the one that made the object.
  bool is_here() const { return word_->load(std::memory_order_relaxed) == id_; }
  /// Fails with `unsupported` in any other process; `what` names the object.
  Result<void> check(std::string_view what) const {
    if (is_here()) [[likely]]
      return {};
    return refuse(what);
  }

 private:
  Failure refuse(std::string_view what) const;

  const std::atomic<int>* word_;  // the id of the calling process, 0 if it is not known yet
  int id_;
};

/// Keeps an object of another process for ever: its destructor would wait for threads and free
/// memory that belong to that process.
void abandon(std::shared_ptr<void> object);

/// Deletes an object in the process that made it, and keeps it for ever in any other.
class DeleteAtHome {
 public:
  /// Deletes or keeps it.
  void operator()(auto* object) const {
    if (home_.is_here()) {
      delete object;
    } else {
      abandon(std::shared_ptr<void>(object, [](void*) {}));
    }
  }

 private:
  HomeProcess home_;
};

}  // namespace everkernel
