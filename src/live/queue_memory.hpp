// The memory of a queue: two sealed files, one written by the producer, one by the kernel side.
#pragma once

#include <memory>

#include "everkernel/protocol/queue.hpp"
#include "memory/shared_memory.hpp"

namespace everkernel::live {

/// Owns both files and their mappings.
class QueueMemory {
 public:
  /// A queue without entries, its state open. Fails with `invalid_argument` for a shape that cannot
  /// be, with `io` and `out_of_memory`.
  static Result<std::shared_ptr<const QueueMemory>> create(const protocol::QueueShape& shape);

  /// The files of a queue of another process: one that this process alone writes, and one that it
  /// can only read. Fails with `corrupt` if they are not those of a queue, with `queue_full` if
  /// another process holds the queue, with `io` and `out_of_memory`.
  static Result<std::shared_ptr<const QueueMemory>> attach(Descriptor producer_file,
                                                           Descriptor kernel_file);

  /// The producer's file as another process gets it: an open of its own, to be locked. Fails with
  /// `io`.
  Result<Descriptor> open_for_client() const;
  /// The kernel's file. Owned by this object.
  int kernel_file() const { return kernel_file_.file_descriptor(); }
  /// Whether no other process holds the producer file: it has ended, or has not attached yet.
  bool has_no_client() const;

  /// The header of both files.
  const abi::QueueHeader& header() const { return header_; }
  /// The producer's view.
  protocol::QueueProducer producer() const {
    return {header_, producer_file_.part(0).data(), kernel_file_.part(0).data()};
  }
  /// The kernel's view, of the process that made the files.
  protocol::QueueKernel kernel() const {
    return {header_, producer_file_.part(0).data(), kernel_file_.part(0).data()};
  }
  /// Length of both files.
  std::size_t size_bytes() const { return producer_file_.size_bytes() + kernel_file_.size_bytes(); }

 private:
  QueueMemory(const abi::QueueHeader& header, memory::SharedMemory producer_file,
              memory::SharedMemory kernel_file)
      : header_(header),
        producer_file_(std::move(producer_file)),
        kernel_file_(std::move(kernel_file)) {}

  abi::QueueHeader header_;
  memory::SharedMemory producer_file_;
  memory::SharedMemory kernel_file_;
};

}  // namespace everkernel::live
