// How a queue goes to another process: one socket that holds everything a client needs.
//
// The session's process puts one message with descriptors into a socket and keeps nothing of it;
// whoever has the other end takes the message out. So a queue has one descriptor, which a child
// inherits or a service sends, and exactly one process receives the queue.
#pragma once

#include "base/descriptor.hpp"
#include "everkernel/base/result.hpp"
#include "everkernel/live/ids.hpp"

namespace everkernel::live {

/// What a client gets.
struct Handover {
  TenantId tenant = {};                  ///< whose items they are
  Priority priority = Priority::normal;  ///< how urgent they are
  Descriptor producer_file = {};         ///< an open of its own, which the client locks
  Descriptor kernel_file = {};           ///< can only be read
  Descriptor armed_file = {};            ///< counts workers that sleep; can only be read
  Descriptor bell = {};                  ///< the client's eventfd
  Descriptor kernel_process = {};        ///< a pidfd: readable once that process has ended
};

/// Puts it into a socket and gives the end from which it is received, which exec() closes. Fails
/// with `io`.
Result<Descriptor> send(const Handover& handover);

/// What lies in that socket, which stays the caller's; it is still there afterwards. Fails with
/// `corrupt` for anything that send() did not make or that was taken before, and with `io`.
Result<Handover> receive(int socket);

/// Takes it out. Of several processes that received it, one succeeds; the others fail with
/// `corrupt`.
Result<void> take(int socket);

}  // namespace everkernel::live
