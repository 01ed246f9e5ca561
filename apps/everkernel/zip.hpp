// Archives of the zip format whose members are not compressed, as numpy.savez() writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace everkernel::cli {

/// Most members and most bytes of an archive: the format without its 64-bit extension.
inline constexpr std::size_t kMaxZipMembers = 0xFFFF;
/// The whole archive must be smaller than this.
inline constexpr std::uint64_t kMaxZipBytes = 0xFFFFFFFF;

/// Bytes of the archive that a member takes beside its content.
constexpr std::uint64_t zip_overhead(std::string_view name) {
  return 30 + 46 + 2 * name.size();
}
/// Bytes of the archive behind its last member.
inline constexpr std::uint64_t kZipEndBytes = 22;

/// The CRC-32 of the format, of `bytes` behind bytes whose CRC-32 is `crc`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc = 0);

/// Makes the bytes around the contents of the members. The archive is: for each member the text
/// that add() gives, then its content; then the text of end().
class ZipWriter {
 public:
  /// Adds a member whose content is `parts`, one after the other. The archive must keep the limits
  /// above.
  std::string add(std::string_view name, std::span<const std::span<const std::byte>> parts);
  /// The list of all members.
  std::string end() const;

 private:
  std::string directory_ = {};
  std::uint64_t offset_ = 0;
  std::size_t count_ = 0;
};

}  // namespace everkernel::cli
