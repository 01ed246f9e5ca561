// Every public operation of the library, each with a world of its own in which it can be tried.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "everkernel/base/result.hpp"

namespace everkernel::test {

/// A world in which one operation is tried.
class World {
 public:
  virtual ~World() = default;
  /// Makes what the operation needs. Does not fail.
  virtual void prepare() {}
  /// The operation. May be called again if it failed.
  virtual Result<void> act() = 0;
  /// The result, and all state that the operation may have changed, as text. Only after act() has
  /// succeeded.
  virtual std::string look() = 0;
};

/// An operation and how to make its world.
struct Trial {
  std::string name = {};
  std::function<std::unique_ptr<World>()> make = {};
  bool compiles = false;  ///< whether LLVM works for it, which ends the process without memory
};

/// All of them.
const std::vector<Trial>& trials();

}  // namespace everkernel::test
