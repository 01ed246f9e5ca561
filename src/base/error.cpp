// Makes every error of the library; names of the codes.
#include "everkernel/base/error.hpp"

#include "everkernel/base/result.hpp"

namespace everkernel {

Failure fail(Code code, std::string message, std::string hint, std::int64_t native) {
  return Failure(Error{
      .code = code, .message = std::move(message), .hint = std::move(hint), .native = native});
}

std::string_view code_name(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::queue_full:
      return "queue_full";
    case Code::device_lost:
      return "device_lost";
    case Code::unsupported:
      return "unsupported";
    case Code::timeout:
      return "timeout";
    case Code::io:
      return "io";
    case Code::corrupt:
      return "corrupt";
    case Code::out_of_memory:
      return "out_of_memory";
  }
  return "unknown";
}

}  // namespace everkernel
