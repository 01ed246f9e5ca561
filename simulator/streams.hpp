// Streams, and the thread that runs the kernels in them.
//
// Everything but kernels runs in the thread of a caller, with the driver's lock held: as soon as it
// is the first of its stream. Kernels run in a thread of the simulator without that lock, in turns,
// so that a call never waits for a kernel and a kernel never waits for a call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simulator/cubin.hpp"
#include "simulator/host_driver.hpp"
#include "simulator/machine.hpp"

namespace everkernel::simulator {

/// A requested launch. It keeps its module's code alive.
struct Start {
  std::shared_ptr<const Cubin> cubin = {};
  const Kernel* kernel = nullptr;
  std::shared_ptr<const Program> program = {};
  Launch launch = {};
  std::vector<std::byte> parameters = {};
};

/// A position in a stream, reached when all operations before it are done.
struct Mark {
  bool is_reached = false;
  std::chrono::steady_clock::time_point time = {};
};

/// A kernel in a stream.
class Resident;

/// What a stream does: one of the two is set.
struct Operation {
  std::function<bool()> step = {};  // returns whether it is done; called again until it is
  std::shared_ptr<Resident> kernel = {};
};

// All functions are called with the driver's lock held; those that wait release it meanwhile.

CuStream make_stream();
/// Whether there is such a stream, and nobody has destroyed it.
bool is_stream(CuStream stream);
void destroy_stream(CuStream stream);

void queue_step(CuStream stream, std::function<bool()> step);
void queue_launch(CuStream stream, Start start);
std::shared_ptr<const Mark> put_mark(CuStream stream);
bool is_idle(CuStream stream);

/// Waits until `is_done` is true or the device is lost.
CuResult wait_until(const std::function<bool()>& is_done);
/// 0 if it is done, kCuNotReady if not, or the error of a lost device.
CuResult look(const std::function<bool()>& is_done);

/// A setting of the environment that is a number of at least 1.
int number_from_environment(const char* name, int otherwise);
/// Prints a line on stderr.
void say(const std::string& message);

}  // namespace everkernel::simulator
