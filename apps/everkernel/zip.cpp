// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT: local headers (4.3.7), the central
// directory (4.3.12) and its end (4.3.16).
#include "zip.hpp"

#include <array>
#include <initializer_list>

#include "everkernel/base/assert.hpp"

namespace everkernel::cli {
namespace {

constexpr std::size_t kTables = 8;

// tables[0] is the CRC-32 of each byte; tables[k] the same with k zero bytes behind it. Eight bytes
// are looked up at once, since outputs may have gigabytes.
constexpr std::array<std::array<std::uint32_t, 256>, kTables> make_tables() {
  std::array<std::array<std::uint32_t, 256>, kTables> tables = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < kTables; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}
constexpr auto kCrc = make_tables();

// Numbers of the format are little-endian.
struct Number {
  std::uint64_t value;
  int bytes;
};

void append(std::string& text, std::initializer_list<Number> numbers) {
  for (const Number& number : numbers) {
    for (int i = 0; i < number.bytes; ++i) {
      text += static_cast<char>(number.value >> 8 * i & 0xFF);
    }
  }
}

// Version 2.0 is needed to extract; no flags, no compression; made at midnight of 1980-01-01, so
// that equal results are equal files.
constexpr std::uint64_t kVersion = 20;
constexpr std::uint64_t kDate = 0x21;

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc) {
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  crc = ~crc;
  for (; bytes.size() >= kTables; bytes = bytes.subspan(kTables)) {
    crc ^= at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
    crc = kCrc[7][crc & 0xFF] ^ kCrc[6][crc >> 8 & 0xFF] ^ kCrc[5][crc >> 16 & 0xFF] ^
          kCrc[4][crc >> 24] ^ kCrc[3][at(4)] ^ kCrc[2][at(5)] ^ kCrc[1][at(6)] ^ kCrc[0][at(7)];
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) crc = crc >> 8 ^ kCrc[0][(crc ^ at(i)) & 0xFF];
  return ~crc;
}

std::string ZipWriter::add(std::string_view name,
                           std::span<const std::span<const std::byte>> parts) {
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  for (const auto& part : parts) {
    size += part.size();
    crc = crc32(part, crc);
  }
  std::string fields;
  append(fields, {{kVersion, 2}, {0, 2}, {0, 2}, {0, 2}, {kDate, 2}, {crc, 4}});
  append(fields, {{size, 4}, {size, 4}, {name.size(), 2}, {0, 2}});
  std::string header;
  append(header, {{0x04034B50, 4}});
  header += fields;
  header += name;

  append(directory_, {{0x02014B50, 4}, {kVersion, 2}});
  directory_ += fields;
  append(directory_, {{0, 2}, {0, 2}, {0, 2}, {0, 4}, {offset_, 4}});
  directory_ += name;
  offset_ += header.size() + size;
  ++count_;
  EVERKERNEL_ASSERT(count_ <= kMaxZipMembers && offset_ < kMaxZipBytes);
  return header;
}

std::string ZipWriter::end() const {
  std::string text = directory_;
  append(text, {{0x06054B50, 4}, {0, 2}, {0, 2}, {count_, 2}, {count_, 2}});
  append(text, {{directory_.size(), 4}, {offset_, 4}, {0, 2}});
  return text;
}

}  // namespace everkernel::cli
