// What tenants of a session do beside others: they flood, fill their queues, die, write nonsense,
// or do nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "everkernel/runtime/session.hpp"
#include "live/handover.hpp"

namespace everkernel::bench {

/// Publishes batches of an item as fast as the queue takes them, for as long as it exists.
class Flood {
 public:
  Flood(Queue& queue, const abi::WorkItem& item, std::size_t batch);

 private:
  std::jthread thread_;
};

/// Fills an empty queue with an item, and leaves it so: nobody reads how they end.
void fill(Queue& queue, const abi::WorkItem& item);

/// Reserves a ticket as a process would that dies before it fills the entry. Fails with `io`.
Result<void> reserve_and_die(Queue& queue);

/// The memory that a client of a queue can write, mapped as a client maps it.
class ClientMemory {
 public:
  /// Maps the producer file of what a client was given. Fails with `io`.
  static Result<ClientMemory> map(const live::Handover& given);
  ClientMemory(ClientMemory&& other) noexcept : words_(std::exchange(other.words_, {})) {}
  ClientMemory& operator=(ClientMemory&&) = delete;
  ~ClientMemory();

  /// Writes a random word somewhere.
  void scribble(std::mt19937_64& random);

 private:
  explicit ClientMemory(std::span<Word> words) : words_(words) {}
  std::span<Word> words_;
};

/// A client that scribbles at full speed, in a thread of this process, for as long as it exists.
class Scribbler {
 public:
  /// Takes the queue away as for another process. Fails as Queue::descriptor() does.
  static Result<std::unique_ptr<Scribbler>> start(Queue& queue);

 private:
  explicit Scribbler(ClientMemory memory);
  ClientMemory memory_;
  std::jthread thread_;
};

/// Queues of all tenants, each of which has been used once and in which nothing happens. Raises the
/// limit of open files as far as it goes. Fails as Session::open_queue() does.
Result<std::vector<Queue>> open_quiet_queues(Session& session, Word count);

}  // namespace everkernel::bench
