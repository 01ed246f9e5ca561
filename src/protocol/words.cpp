#include "everkernel/protocol/words.hpp"

#include <fmt/format.h>

namespace everkernel::protocol {

Result<PrivateWords> PrivateWords::bind(Buffer buffer, std::span<std::byte> bytes) {
  const std::size_t words = EVERKERNEL_TRY(whole_units(buffer, bytes.size(), abi::kWordBytes));
  return PrivateWords(bytes.data(), words);
}

Result<LiveWords> LiveWords::bind(Buffer buffer, std::span<std::byte> bytes) {
  const std::size_t words = EVERKERNEL_TRY(whole_units(buffer, bytes.size(), abi::kWordBytes));
  const auto misalignment = reinterpret_cast<std::uintptr_t>(bytes.data()) % abi::kSlotBytes;
  if (misalignment != 0) {
    return fail(Code::invalid_argument,
                fmt::format("{}: live memory begins {} bytes behind a {}-byte boundary",
                            buffer_name(buffer), misalignment, abi::kSlotBytes),
                "allocate it with mmap, or with std::aligned_alloc(64, …)");
  }
  return LiveWords(buffer, reinterpret_cast<Word*>(bytes.data()), words);
}

Result<void> LiveWords::copy_to(std::span<std::byte> target) const {
  EVERKERNEL_TRY(check_target(buffer_, target.size(), size_ * abi::kWordBytes));
  for (std::size_t i = 0; i < size_; ++i) {
    const Word word = load_acquire(i);
    std::memcpy(target.data() + i * abi::kWordBytes, &word, sizeof word);
  }
  return {};
}

}  // namespace everkernel::protocol
