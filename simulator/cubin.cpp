// Parses the ELF file. The file is not trusted: an offset outside of the file or of its section is
// an error.
#include "simulator/cubin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "simulator/instruction.hpp"

namespace everkernel::simulator {
namespace {

static_assert(std::endian::native == std::endian::little,
              "words of the file are copied without conversion");

// Fields of the ELF header. Since CUDA 13 the architecture is in another byte of the flags.
constexpr std::array<unsigned char, 7> kMagic = {0x7F, 'E', 'L', 'F', 2, 1, 1};
constexpr std::uint8_t kOldAbi = 0x33;
constexpr std::uint8_t kNewAbi = 0x41;
constexpr std::uint16_t kExecutable = 2;
constexpr std::uint16_t kCudaMachine = 190;
constexpr std::uint32_t kArchitecture = 90;

constexpr std::uint32_t kRelocationsWithAddends = 4;
constexpr std::uint32_t kNoBits = 8;
constexpr std::uint32_t kPlainRelocations = 9;
constexpr std::uint8_t kFunction = 2;
constexpr std::uint8_t kEntry =
    0x10;  // bit of Symbol::other: a kernel, not a function that kernels call

// Attributes in .nv.info.
constexpr std::uint8_t kMaxThreads = 0x05;
constexpr std::uint8_t kParameterBank = 0x0a;
constexpr std::uint8_t kRequiredThreads = 0x10;
constexpr std::uint8_t kFrameSize = 0x11;
constexpr std::uint8_t kMinStackSize = 0x12;
constexpr std::uint8_t kParameterInfo = 0x17;
constexpr std::uint8_t kRegisterCount = 0x2f;
constexpr std::uint8_t kSizedFormat = 4;

// Relocations.
constexpr std::uint32_t kAddress64 = 2;
constexpr std::uint32_t kGenericAddress64 = 4;
constexpr std::uint32_t kImmediateLow = 0x38;
constexpr std::uint32_t kImmediateHigh = 0x39;
constexpr std::size_t kImmediateAt = 4;  // offset in an instruction's bytes

constexpr std::uint32_t kParametersBegin = 0x210;
// A section of shared memory begins with the bytes that the system reserves in every block.
constexpr std::uint64_t kReservedShared = 0x400;
constexpr std::uint64_t kMostShared = 228 << 10;
constexpr std::uint64_t kMostGlobals = std::uint64_t{1} << 30;
constexpr std::uint32_t kMostThreads = 1024;

using Bytes = std::span<const std::byte>;

template <class... Parts>
Failure corrupt(fmt::format_string<Parts...> format, Parts&&... parts) {
  return fail(Code::corrupt, "cubin: " + fmt::format(format, std::forward<Parts>(parts)...));
}

template <class... Parts>
Failure unsupported(fmt::format_string<Parts...> format, Parts&&... parts) {
  return fail(Code::unsupported, "cubin: " + fmt::format(format, std::forward<Parts>(parts)...));
}

// The caller has checked that the value lies inside.
template <class T>
T value_at(Bytes bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Structures of the file.
struct Header {
  std::array<unsigned char, 7> magic;
  std::uint8_t abi;
  std::array<std::uint8_t, 8> rest;
  std::uint16_t type;
  std::uint16_t machine;
  std::uint32_t version;
  std::uint64_t entry;
  std::uint64_t program_headers_at;
  std::uint64_t section_headers_at;
  std::uint32_t flags;
  std::uint16_t header_bytes;
  std::uint16_t program_header_bytes;
  std::uint16_t program_header_count;
  std::uint16_t section_header_bytes;
  std::uint16_t section_count;
  std::uint16_t names_index;
};
static_assert(sizeof(Header) == 64);

struct SectionHeader {
  std::uint32_t name_at;
  std::uint32_t type;
  std::uint64_t flags;
  std::uint64_t address;
  std::uint64_t offset;
  std::uint64_t size;
  std::uint32_t link;
  std::uint32_t info;
  std::uint64_t alignment;
  std::uint64_t entry_size;
};
static_assert(sizeof(SectionHeader) == 64);

struct SymbolRow {
  std::uint32_t name_at;
  std::uint8_t kind;
  std::uint8_t other;
  std::uint16_t section;
  std::uint64_t value;
  std::uint64_t size;
};
static_assert(sizeof(SymbolRow) == 24);

struct Relocation {
  std::uint64_t at;
  std::uint32_t type;
  std::uint32_t symbol;
  std::int64_t addend;
};
static_assert(sizeof(Relocation) == 24);

struct Section : SectionHeader {
  std::string name = {};
  Bytes bytes = {};  // empty if the section has no bits in the file
};

struct Symbol : SymbolRow {
  std::string name = {};
};

struct Attribute {
  std::uint8_t id;
  Bytes value;
};

Result<std::string> name_at(const Section& names, std::uint32_t at) {
  if (at >= names.bytes.size()) return corrupt("a name at byte {} of {}", at, names.name);
  const auto* const begin = reinterpret_cast<const char*>(names.bytes.data()) + at;
  const auto* const end = static_cast<const char*>(std::memchr(begin, 0, names.bytes.size() - at));
  if (end == nullptr) return corrupt("a name at byte {} of {} has no end", at, names.name);
  return std::string(begin, end);
}

// Sections for debuggers, linkers and other tools, which running the code does not need.
bool is_of_no_use(std::string_view name) {
  constexpr std::string_view kNames[] = {"",           ".shstrtab",     ".strtab",
                                         ".symtab",    ".nv.callgraph", ".nv.prototype",
                                         ".nv.compat", ".nv.rel.action"};
  constexpr std::string_view kBeginnings[] = {".debug_", ".nv_debug_", ".note.",
                                              ".nv.shared.reserved."};
  return std::ranges::find(kNames, name) != std::end(kNames) ||
         std::ranges::any_of(kBeginnings, [&](auto part) { return name.starts_with(part); });
}

Result<std::vector<Attribute>> read_attributes(const Section& section) {
  std::vector<Attribute> attributes;
  for (std::size_t at = 0; at != section.bytes.size();) {
    if (section.bytes.size() - at < 4) return corrupt("{} ends in an attribute", section.name);
    const auto format = value_at<std::uint8_t>(section.bytes, at);
    const auto id = value_at<std::uint8_t>(section.bytes, at + 1);
    if (format == 0 || format > kSizedFormat) {
      return corrupt("{} has an attribute of format {}", section.name, format);
    }
    const std::size_t size =
        format == kSizedFormat ? value_at<std::uint16_t>(section.bytes, at + 2) : 0;
    at += 4;
    if (section.bytes.size() - at < size) {
      return corrupt("{} ends in attribute {:#x}", section.name, id);
    }
    attributes.push_back({id, section.bytes.subspan(at, size)});
    at += size;
  }
  return attributes;
}

// The file's tables of sections and symbols.
class File {
 public:
  static Result<File> read(Bytes bytes) {
    File file;
    EVERKERNEL_TRY(file.read_sections(bytes));
    EVERKERNEL_TRY(file.read_symbols());
    return file;
  }

  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }
  const Section* find(std::string_view name) const {
    const auto found = std::ranges::find(sections_, name, &Section::name);
    return found == sections_.end() ? nullptr : &*found;
  }
  std::size_t index_of(const Section& section) const {
    return static_cast<std::size_t>(&section - sections_.data());
  }

 private:
  static Result<Header> read_header(Bytes bytes) {
    if (bytes.size() < sizeof(Header)) return corrupt("{} bytes are no file", bytes.size());
    const auto header = value_at<Header>(bytes, 0);
    if (header.magic != kMagic) return corrupt("no ELF file of 64 bits");
    if (header.machine != kCudaMachine) return corrupt("made for machine {}", header.machine);
    if (header.type != kExecutable) return unsupported("a file that is still to be linked");
    if (header.abi != kOldAbi && header.abi != kNewAbi) {
      return unsupported("ABI {:#x}", header.abi);
    }
    const std::uint32_t sm = (header.abi == kNewAbi ? header.flags >> 8 : header.flags) & 0xFF;
    if (sm != kArchitecture) return unsupported("made for sm_{}, not sm_{}", sm, kArchitecture);
    if (header.section_header_bytes != sizeof(SectionHeader)) {
      return corrupt("section headers of {} bytes", header.section_header_bytes);
    }
    return header;
  }

  Result<void> read_sections(Bytes bytes) {
    const Header header = EVERKERNEL_TRY(read_header(bytes));
    const std::uint64_t at = header.section_headers_at;
    const std::size_t count = header.section_count;
    if (at > bytes.size() || count * sizeof(SectionHeader) > bytes.size() - at) {
      return corrupt("{} section headers from byte {} on", count, at);
    }
    for (std::size_t i = 0; i < count; ++i) {
      Section section{value_at<SectionHeader>(bytes, at + i * sizeof(SectionHeader))};
      if (section.type != kNoBits) {
        if (section.offset > bytes.size() || section.size > bytes.size() - section.offset) {
          return corrupt("section {} has bytes outside of the file", i);
        }
        section.bytes = bytes.subspan(section.offset, section.size);
      }
      sections_.push_back(std::move(section));
    }
    if (header.names_index >= count) return corrupt("sections have no names");
    for (Section& section : sections_) {
      section.name = EVERKERNEL_TRY(name_at(sections_[header.names_index], section.name_at));
    }
    return {};
  }

  Result<void> read_symbols() {
    const Section* const table = find(".symtab");
    if (table == nullptr) return corrupt("there is no .symtab");
    if (table->link >= sections_.size()) return corrupt("symbols have no names");
    for (std::size_t at = 0; at + sizeof(SymbolRow) <= table->bytes.size();
         at += sizeof(SymbolRow)) {
      Symbol symbol{value_at<SymbolRow>(table->bytes, at)};
      symbol.name = EVERKERNEL_TRY(name_at(sections_[table->link], symbol.name_at));
      symbols_.push_back(std::move(symbol));
    }
    return {};
  }

  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
};

// The memory to which a section was copied.
struct Place {
  std::span<std::byte> bytes = {};
  std::optional<std::uint64_t> address = {};  // if code may refer to it
};

// Copies all sections to their places, then applies relocations.
class Loader {
 public:
  explicit Loader(const File& file) : file_(file), places_(file.sections().size()) {}

  Result<void> load() {
    EVERKERNEL_TRY(place_globals());
    for (const Section& section : file_.sections()) {
      if (section.name.starts_with(".text.")) EVERKERNEL_TRY(add_kernel(section));
    }
    for (const Section& section : file_.sections()) EVERKERNEL_TRY(add_section(section));
    for (auto& [index, kernel] : kernels_) EVERKERNEL_TRY(check(kernel));
    for (const Section& section : file_.sections()) EVERKERNEL_TRY(relocate(section));
    return {};
  }

  std::map<std::size_t, Kernel> kernels_ = {};  // by index of their section
  std::map<std::size_t, std::vector<std::byte>> constants_ = {};
  std::unique_ptr<std::byte[]> globals_ = {};
  std::size_t global_bytes_ = 0;

 private:
  // A vector that already has content must not move: `places_` refers to it.
  Result<void> place(const Section& section, std::vector<std::byte>& target) {
    if (!target.empty()) return corrupt("{} is there twice", section.name);
    target.assign(section.bytes.begin(), section.bytes.end());
    places_[file_.index_of(section)] = {target, {}};
    return {};
  }

  // Both sections in one allocation: initialised variables, then zeroed ones.
  Result<void> place_globals() {
    constexpr std::string_view kNames[] = {".nv.global.init", ".nv.global"};
    std::uint64_t most = 0;
    for (const auto name : kNames) {
      const Section* const section = file_.find(name);
      if (section == nullptr) continue;
      if (section->alignment > 4096 || section->size > kMostGlobals) {
        return corrupt("{} of {} bytes, aligned to {}", name, section->size, section->alignment);
      }
      most += section->size + section->alignment;
    }
    globals_ = std::make_unique<std::byte[]>(most);
    const auto base = reinterpret_cast<std::uintptr_t>(globals_.get());
    for (const auto name : kNames) {
      const Section* const section = file_.find(name);
      if (section == nullptr) continue;
      const std::uint64_t alignment = std::max<std::uint64_t>(section->alignment, 1);
      const std::uint64_t begin =
          (base + global_bytes_ + alignment - 1) / alignment * alignment - base;
      const std::span<std::byte> bytes(globals_.get() + begin, section->size);
      std::ranges::copy(section->bytes, bytes.begin());
      places_[file_.index_of(*section)] = {bytes, base + begin};
      global_bytes_ = begin + section->size;
    }
    return {};
  }

  // Functions that a kernel calls follow it in its section. A function in a section of its own
  // would need linking, which is not supported.
  Result<void> add_kernel(const Section& section) {
    const std::size_t index = file_.index_of(section);
    const auto found = std::ranges::find_if(file_.symbols(), [&](const Symbol& symbol) {
      return symbol.section == index && (symbol.kind & 0xF) == kFunction &&
             (symbol.other & kEntry) != 0;
    });
    if (found == file_.symbols().end()) {
      return unsupported("{} is code without a kernel", section.name);
    }
    if (found->value != 0) return unsupported("{} does not begin with its kernel", section.name);
    if (section.bytes.empty() || section.bytes.size() % kInstructionBytes != 0) {
      return corrupt("{} has {} bytes", section.name, section.bytes.size());
    }
    Kernel& kernel = kernels_[index];
    kernel.name = found->name;
    kernel.parameter_offset = kParametersBegin;
    kernel.register_count = section.info >> 24;
    return place(section, kernel.code);
  }

  Result<Kernel*> kernel_of(const Section& section) {
    const auto found = kernels_.find(section.info);
    if (found == kernels_.end()) return corrupt("{} is of no kernel", section.name);
    return &found->second;
  }

  Result<void> add_section(const Section& section) {
    const std::string_view name = section.name;
    const bool is_placed = name.starts_with(".text.") || name == ".nv.global.init";
    const bool is_relocations =
        section.type == kRelocationsWithAddends || section.type == kPlainRelocations;
    if (is_placed || is_relocations || is_of_no_use(name)) return {};
    if (name == ".nv.global") {
      if (section.type != kNoBits) return unsupported("{} with bytes", name);
      return {};
    }
    if (name == ".nv.info") return add_attributes(section);
    if (name == ".nv.constant3" || name == ".nv.constant4") {
      return place(section, constants_[name == ".nv.constant3" ? 3 : 4]);
    }
    constexpr std::string_view kOfKernel[] = {".nv.info.", ".nv.shared.", ".nv.constant0.",
                                              ".nv.constant2."};
    if (std::ranges::none_of(kOfKernel, [&](auto part) { return name.starts_with(part); })) {
      return unsupported("section {}", name);
    }
    Kernel& kernel = *EVERKERNEL_TRY(kernel_of(section));
    if (name.starts_with(".nv.info.")) return add_attributes(section, kernel);
    if (name.starts_with(".nv.shared.")) return add_shared(section, kernel);
    auto& bank = name.starts_with(".nv.constant0.") ? kernel.constants : kernel.tables;
    return place(section, bank);
  }

  static Result<void> add_shared(const Section& section, Kernel& kernel) {
    if (section.type != kNoBits || section.size < kReservedShared || section.size > kMostShared) {
      return corrupt("{} of {} bytes", section.name, section.size);
    }
    kernel.shared_bytes = static_cast<std::uint32_t>(section.size - kReservedShared);
    return {};
  }

  // Attributes of all kernels, and of functions that they call.
  Result<void> add_attributes(const Section& section) {
    const std::vector<Attribute> attributes = EVERKERNEL_TRY(read_attributes(section));
    for (const auto& [id, value] : attributes) {
      if (id != kRegisterCount && id != kFrameSize && id != kMinStackSize) continue;
      if (value.size() != 8) return corrupt("attribute {:#x} of {} bytes", id, value.size());
      const auto index = value_at<std::uint32_t>(value, 0);
      if (index >= file_.symbols().size()) return corrupt("attribute {:#x} of no symbol", id);
      const Symbol& symbol = file_.symbols()[index];
      const auto kernel = kernels_.find(symbol.section);
      if (kernel == kernels_.end() || kernel->second.name != symbol.name) continue;
      const auto number = value_at<std::uint32_t>(value, 4);
      auto& known =
          id == kRegisterCount ? kernel->second.register_count : kernel->second.local_bytes;
      known = std::max(known, number);
    }
    return {};
  }

  static Result<void> add_attributes(const Section& section, Kernel& kernel) {
    const std::vector<Attribute> attributes = EVERKERNEL_TRY(read_attributes(section));
    std::map<std::uint16_t, Parameter> parameters;
    for (const auto& [id, value] : attributes) {
      const bool is_wide = id == kParameterInfo || id == kMaxThreads || id == kRequiredThreads;
      if (!is_wide && id != kParameterBank) continue;
      if (value.size() != (is_wide ? 12 : 8)) {
        return corrupt("{}: attribute {:#x} of {} bytes", section.name, id, value.size());
      }
      if (id == kParameterBank) {
        kernel.parameter_offset = value_at<std::uint16_t>(value, 4);
      } else if (id == kParameterInfo) {
        // Bits 18 and up of the last word are the size.
        parameters[value_at<std::uint16_t>(value, 4)] = {value_at<std::uint16_t>(value, 6),
                                                         value_at<std::uint32_t>(value, 8) >> 18};
      } else {
        std::uint64_t threads = 1;
        for (std::size_t at = 0; at < value.size(); at += 4) {
          const auto count = value_at<std::uint32_t>(value, at);
          threads *= std::min(count, kMostThreads);
        }
        kernel.max_threads =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(threads, kMostThreads));
      }
    }
    for (const auto& [index, parameter] : parameters) {
      if (index != kernel.parameters.size()) {
        return corrupt("{}: no parameter {}", section.name, kernel.parameters.size());
      }
      kernel.parameters.push_back(parameter);
    }
    return {};
  }

  static Result<void> check(const Kernel& kernel) {
    if (kernel.register_count == 0 || kernel.register_count > 255) {
      return corrupt("{} has {} registers", kernel.name, kernel.register_count);
    }
    if (kernel.constants.size() < kernel.parameter_offset) {
      return corrupt("{}: no parameters in its bank of {} bytes", kernel.name,
                     kernel.constants.size());
    }
    const std::size_t room = kernel.constants.size() - kernel.parameter_offset;
    std::size_t end = 0;
    for (const Parameter& parameter : kernel.parameters) {
      end = std::max<std::size_t>(end, parameter.offset + std::size_t{parameter.size});
    }
    if (end != room) {
      return corrupt("{}: parameters of {} bytes in room for {}", kernel.name, end, room);
    }
    return {};
  }

  // The address of a relocation's symbol, as seen from code in section `target`.
  Result<std::uint64_t> address_of(const Relocation& row, std::size_t target) const {
    if (row.symbol >= file_.symbols().size()) return corrupt("no symbol {}", row.symbol);
    const Symbol& symbol = file_.symbols()[row.symbol];
    if (symbol.section == 0) return unsupported("{} is not in this file", symbol.name);
    if (symbol.section >= places_.size()) return corrupt("no section of {}", symbol.name);
    const Place& place = places_[symbol.section];
    const std::uint64_t offset = symbol.value + static_cast<std::uint64_t>(row.addend);
    if (symbol.value > place.bytes.size() || offset > place.bytes.size()) {
      return corrupt("{} + {} lies outside of its section", symbol.name, row.addend);
    }
    // Within a kernel's own code, an address is an offset in that code.
    if (symbol.section == target && kernels_.contains(target)) return offset;
    if (!place.address) {
      return unsupported("the address of {} in {}", symbol.name,
                         file_.sections()[symbol.section].name);
    }
    return *place.address + offset;
  }

  Result<void> relocate(const Section& section) {
    const bool has_addends = section.type == kRelocationsWithAddends;
    if ((!has_addends && section.type != kPlainRelocations) || section.bytes.empty()) return {};
    if (section.info >= places_.size()) return corrupt("{} is of no section", section.name);
    if (is_of_no_use(file_.sections()[section.info].name)) return {};
    if (!has_addends) return unsupported("{}: relocations without addends", section.name);
    if (section.bytes.size() % sizeof(Relocation) != 0) {
      return corrupt("{} has {} bytes", section.name, section.bytes.size());
    }
    for (std::size_t at = 0; at < section.bytes.size(); at += sizeof(Relocation)) {
      EVERKERNEL_TRY(relocate(section, value_at<Relocation>(section.bytes, at)));
    }
    return {};
  }

  Result<void> relocate(const Section& section, const Relocation& row) {
    const std::uint64_t address = EVERKERNEL_TRY(address_of(row, section.info));
    const bool is_whole = row.type == kAddress64 || row.type == kGenericAddress64;
    const bool is_half = row.type == kImmediateLow || row.type == kImmediateHigh;
    if (!is_whole && !is_half) return unsupported("{}: type {:#x}", section.name, row.type);
    const std::size_t size = is_whole ? 8 : kInstructionBytes;
    const std::span<std::byte> bytes = places_[section.info].bytes;
    if (row.at > bytes.size() || size > bytes.size() - row.at) {
      return corrupt("{}: byte {} lies outside", section.name, row.at);
    }
    std::byte* const target = bytes.data() + row.at;
    if (is_whole) {
      std::memcpy(target, &address, 8);
    } else {
      const auto half =
          static_cast<std::uint32_t>(row.type == kImmediateLow ? address : address >> 32);
      std::memcpy(target + kImmediateAt, &half, sizeof half);
    }
    return {};
  }

  const File& file_;
  std::vector<Place> places_;  // by index of the section
};

}  // namespace

Result<Cubin> Cubin::load(std::span<const std::byte> file) {
  const File elf = EVERKERNEL_TRY(File::read(file));
  Loader loader(elf);
  EVERKERNEL_TRY(loader.load());
  Cubin cubin;
  for (auto& [index, kernel] : loader.kernels_) {
    std::string name = kernel.name;
    if (!cubin.kernels_.emplace(name, std::move(kernel)).second) {
      return corrupt("there are two kernels {}", name);
    }
  }
  cubin.constants_ = std::move(loader.constants_);
  cubin.globals_ = std::move(loader.globals_);
  cubin.global_bytes_ = loader.global_bytes_;
  return cubin;
}

std::span<const std::byte> Cubin::constants(std::size_t bank) const {
  const auto found = constants_.find(bank);
  return found == constants_.end() ? std::span<const std::byte>() : std::span(found->second);
}

}  // namespace everkernel::simulator
