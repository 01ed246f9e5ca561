#include "everkernel/protocol/buffer.hpp"

#include <fmt/format.h>

namespace everkernel::protocol {

std::string_view buffer_name(Buffer buffer) {
  switch (buffer) {
    case Buffer::control:
      return "control";
    case Buffer::ring:
      return "ring";
    case Buffer::debug_log:
      return "debug_log";
    case Buffer::io_queue:
      return "io_queue";
  }
  return "unknown";
}

Result<std::size_t> whole_units(Buffer buffer, std::size_t size_bytes, std::size_t unit_bytes) {
  const std::size_t rest = size_bytes % unit_bytes;
  if (rest == 0) return size_bytes / unit_bytes;
  const std::string_view unit = unit_bytes == abi::kWordBytes ? "word" : "slot";
  return fail(Code::corrupt,
              fmt::format("{}: {} bytes are not whole {}s of {} bytes: {} bytes of {} {} are there",
                          buffer_name(buffer), size_bytes, unit, unit_bytes, rest, unit,
                          size_bytes / unit_bytes),
              "the buffer is truncated, or the bytes are of another kind");
}

Result<void> check_target(Buffer buffer, std::size_t target_bytes, std::size_t needed_bytes) {
  if (target_bytes == needed_bytes) return {};
  return fail(Code::invalid_argument,
              fmt::format("{}: the target has {} bytes, the layout needs {}", buffer_name(buffer),
                          target_bytes, needed_bytes),
              fmt::format("take the length from {}_bytes()", buffer_name(buffer)));
}

}  // namespace everkernel::protocol
