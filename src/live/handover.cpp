// One message with descriptors in a socket.
#include "live/handover.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/queue.hpp"

namespace everkernel::live {
namespace {

constexpr std::size_t kDescriptors = 5;

// The bytes beside the descriptors.
struct Letter {
  Word magic = abi::kQueueMagic;
  Word version = abi::kQueueVersion;
  Word tenant = 0;
  Word priority = 0;
};

// A letter with room for descriptors, as the system wants it.
struct Parcel {
  Parcel() {
    header.msg_iov = &text;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  Parcel(const Parcel&) = delete;  // it refers to itself
  Parcel& operator=(const Parcel&) = delete;

  Letter letter = {};
  iovec text{.iov_base = &letter, .iov_len = sizeof letter};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> control = {};
  msghdr header = {};
};

Failure refused(std::string_view call) {
  return fail(Code::io, fmt::format("queue: {}: {}", call, std::strerror(errno)),
              "raise the limit of open files (ulimit -n)", errno);
}

Failure not_a_queue(std::string_view why) {
  return fail(Code::corrupt, fmt::format("queue: the descriptor {}", why),
              "pass the descriptor that Queue::descriptor() gave, to one process and once");
}

Failure taken_before() {
  return not_a_queue("is empty: its queue was received before");
}

}  // namespace

Result<Descriptor> send(const Handover& handover) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return refused("socketpair");
  }
  const Descriptor sender(ends[0]);
  Descriptor receiver(ends[1]);
  Parcel parcel;
  parcel.letter.tenant = handover.tenant.number;
  parcel.letter.priority = static_cast<Word>(handover.priority);
  cmsghdr* const header = CMSG_FIRSTHDR(&parcel.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(kDescriptors * sizeof(int));
  const std::array<int, kDescriptors> numbers{handover.producer_file.get(),
                                              handover.kernel_file.get(), handover.armed_file.get(),
                                              handover.bell.get(), handover.kernel_process.get()};
  std::memcpy(CMSG_DATA(header), numbers.data(), sizeof numbers);
  ssize_t length = 0;
  do {
    length = ::sendmsg(sender.get(), &parcel.header, MSG_NOSIGNAL);
  } while (length < 0 && errno == EINTR);
  if (length != sizeof(Letter)) return refused("sendmsg");
  return receiver;
}

Result<Handover> receive(int socket) {
  Parcel parcel;
  const Letter& letter = parcel.letter;
  ssize_t length = 0;
  do {
    length = ::recvmsg(socket, &parcel.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT | MSG_PEEK);
  } while (length < 0 && errno == EINTR);
  if (length < 0 && errno == ENOTSOCK) return not_a_queue("is not that of a queue");
  if (length < 0) return refused("recvmsg");
  if (length == 0) return taken_before();

  std::array<Descriptor, kDescriptors> received;
  const cmsghdr* const header = CMSG_FIRSTHDR(&parcel.header);
  std::size_t count = 0;
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    count = std::min((header->cmsg_len - CMSG_LEN(0)) / sizeof(int), kDescriptors);
    std::array<int, kDescriptors> numbers{};
    std::memcpy(numbers.data(), CMSG_DATA(header), count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) received[i] = Descriptor(numbers[i]);
  }
  const bool is_whole = length == sizeof letter && count == kDescriptors &&
                        (parcel.header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (!is_whole || letter.magic != abi::kQueueMagic || letter.tenant > abi::kMaxTenant ||
      letter.priority >= abi::kPriorityCount) {
    return not_a_queue("holds something that is not a queue");
  }
  if (letter.version != abi::kQueueVersion) {
    return not_a_queue(fmt::format("holds a queue of version {}, this library knows version {}",
                                   letter.version, abi::kQueueVersion));
  }
  return Handover{.tenant = TenantId(letter.tenant),
                  .priority = Priority{letter.priority},
                  .producer_file = std::move(received[0]),
                  .kernel_file = std::move(received[1]),
                  .armed_file = std::move(received[2]),
                  .bell = std::move(received[3]),
                  .kernel_process = std::move(received[4])};
}

Result<void> take(int socket) {
  Letter letter{.magic = 0};
  ssize_t length = 0;
  do {  // without room for descriptors, the copies in the socket are closed
    length = ::recv(socket, &letter, sizeof letter, MSG_DONTWAIT);
  } while (length < 0 && errno == EINTR);
  return length > 0 ? Result<void>() : taken_before();
}

}  // namespace everkernel::live
