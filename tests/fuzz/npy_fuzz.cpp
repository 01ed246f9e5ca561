// Any bytes as the header of a .npy file: it is read or refused with a message and a hint, and what
// is read can be written again to a header that reads the same.
#include "npy.hpp"

#include <string>

#include "fuzz.hpp"

namespace everkernel::fuzz {
namespace {

using cli::NpyHeader;

template <class T>
bool is_refused(const Result<T>& result) {
  if (result) return false;
  const Error& error = result.error();
  EVERKERNEL_ASSERT(error.code == Code::corrupt || error.code == Code::invalid_argument);
  EVERKERNEL_ASSERT(!error.message.empty() && !error.hint.empty());
  return true;
}

void check_header(std::span<const std::byte> bytes) {
  const auto header = cli::parse_npy_header(bytes);
  if (is_refused(header)) return;
  EVERKERNEL_ASSERT(header->data_bytes() <= std::uint64_t{1} << 62);
  const std::string text = cli::npy_header(*header);
  const auto again = cli::parse_npy_header(std::as_bytes(std::span(text)));
  EVERKERNEL_ASSERT(again && text.size() % 64 == 0);
  EVERKERNEL_ASSERT(again->element == header->element && again->count == header->count);
}

}  // namespace
}  // namespace everkernel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace everkernel;
  const std::span bytes = fuzz::input_bytes(data, size);
  const auto length = cli::npy_header_bytes(bytes);
  if (!fuzz::is_refused(length) && *length <= size) fuzz::check_header(bytes.first(*length));
  fuzz::check_header(bytes);
  return 0;
}
