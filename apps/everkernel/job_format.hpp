// The format of a job file as tables: the keys of each object, with the kind and range of their
// values, and the texts of the errors about them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "everkernel/abi/control.hpp"
#include "everkernel/abi/opcode.hpp"
#include "everkernel/memory/buffer_table.hpp"

namespace everkernel::cli {

/// What a value is.
enum class Kind {
  number,   ///< a whole number without sign
  integer,  ///< a whole number of 32 bits with a sign
  real,     ///< a number, or "nan", "inf" or "-inf"
  arg,      ///< any of these three: the handler of the item says which
  path,     ///< a text
  base64,   ///< a text
  access,   ///< of a file: "r", "w" or "rw"
  rights,   ///< of a buffer: "r" or "rw"
  element,  ///< the name of a type
  truth,    ///< true or false
  list,     ///< a list
  object,   ///< an object
  opcode,   ///< a number, or a text
  output,   ///< a number, or an object
};

/// A value of the format: a field of an object, or an element of a list.
struct Field {
  std::string_view name = {};
  Kind kind = Kind::number;
  std::uint64_t lowest = 0;   ///< of numbers
  std::uint64_t highest = 0;  ///< of numbers
};

inline constexpr std::uint64_t kMaxWord = 0xFFFFFFFFu;
/// Offsets in files are signed 64-bit numbers.
inline constexpr std::uint64_t kMaxOffset = 0x7FFFFFFFFFFFFFFFu;
/// Opcodes with the highest bit are reserved: the list of items uses it for names.
inline constexpr std::uint64_t kMaxOpcode = abi::kReservedOpcodeBit - 1;

/// Fields of the job.
enum JobField {
  job_handlers,
  job_buffers,
  job_files,
  job_items,
  job_items_file,
  job_ordered,
  job_outputs
};
inline constexpr Field kJobFields[] = {{"handlers", Kind::path},   {"buffers", Kind::list},
                                       {"files", Kind::list},      {"items", Kind::list},
                                       {"items_file", Kind::path}, {"ordered", Kind::truth},
                                       {"outputs", Kind::list}};

/// Fields of an entry of `buffers`. The lists are in the order of Element.
enum BufferField {
  buffer_handle,
  buffer_u32,
  buffer_i32,
  buffer_f32,
  buffer_u8,
  buffer_base64,
  buffer_zeros,
  buffer_file,
  buffer_slice_of,
  buffer_offset,
  buffer_length,
  buffer_count,
  buffer_access,
  buffer_tenant
};
inline constexpr Field kBufferFields[] = {{"handle", Kind::number, 1, memory::kMaxHandle},
                                          {"u32", Kind::list},
                                          {"i32", Kind::list},
                                          {"f32", Kind::list},
                                          {"u8", Kind::list},
                                          {"base64", Kind::base64},
                                          {"zeros", Kind::number, 0, memory::kMaxBufferWords},
                                          {"file", Kind::path},
                                          {"slice_of", Kind::number, 1, memory::kMaxHandle},
                                          {"offset", Kind::number, 0, kMaxOffset},
                                          {"length", Kind::number, 0, kMaxOffset},
                                          {"count", Kind::number, 1, memory::kMaxHandle},
                                          {"access", Kind::rights},
                                          {"tenant", Kind::number, 0, abi::kMaxTenant}};
/// A buffer has exactly one of these fields, as bits.
inline constexpr unsigned kSources = 1u << buffer_u32 | 1u << buffer_i32 | 1u << buffer_f32 |
                                     1u << buffer_u8 | 1u << buffer_base64 | 1u << buffer_zeros |
                                     1u << buffer_file | 1u << buffer_slice_of;

/// Fields of an entry of `files`.
enum FileField { file_handle, file_path, file_access };
inline constexpr Field kFileFields[] = {{"handle", Kind::number, 1, memory::kMaxHandle},
                                        {"path", Kind::path},
                                        {"access", Kind::access}};

/// Fields of an entry of `items`.
enum ItemField {
  item_op,
  item_input,
  item_output,
  item_param,
  item_args,
  item_tenant,
  item_priority
};
inline constexpr Field kItemFields[] = {{"op", Kind::opcode, 0, kMaxOpcode},
                                        {"input", Kind::number, 0, memory::kMaxHandle},
                                        {"output", Kind::number, 0, memory::kMaxHandle},
                                        {"param", Kind::number, 0, kMaxWord},
                                        {"args", Kind::list},
                                        {"tenant", Kind::number, 0, abi::kMaxTenant},
                                        {"priority", Kind::number, 0, abi::kPriorityCount - 1}};
/// The fields that `args` replaces, as bits.
inline constexpr unsigned kNamedArgs = 1u << item_input | 1u << item_output | 1u << item_param;

/// Fields of an entry of `outputs` that is an object.
enum OutputField { output_handle, output_file, output_type };
inline constexpr Field kOutputFields[] = {
    {"handle", Kind::number, 1, memory::kMaxHandle}, {"file", Kind::path}, {"type", Kind::element}};

/// The element of each list of a buffer, in the order of Element.
inline constexpr Field kListElements[] = {
    {.highest = kMaxWord}, {.kind = Kind::integer}, {.kind = Kind::real}, {.highest = 0xFF}};

/// Bytes of the job's text that a message shows at most.
inline constexpr std::size_t kShownBytes = 60;

/// What a value must be: `a whole number 0..28`.
std::string wanted(const Field& field);
/// A hint about how to write a value of this kind.
std::string form_of(Kind kind);
/// The hint for a key that is none of these fields: the nearest, or all of them.
std::string keys_hint(std::string_view name, std::span<const Field> fields);
/// A text of the job in quotes, cut if it is long.
std::string shown(std::string_view text);
/// A key of the job: in quotes unless it looks like an identifier.
std::string shown_key(std::string_view name);

}  // namespace everkernel::cli
