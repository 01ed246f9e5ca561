// Section 4 of the wire format: opcodes, which of them may be published, and fault codes.
#include "everkernel/abi/opcode.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <string_view>

#include "everkernel/abi/fault.hpp"

namespace everkernel::abi {
namespace {

struct OpcodeRow {
  Opcode opcode;
  Word number;
  std::string_view name;
  Word argument_count;
};

constexpr OpcodeRow kRows[] = {
    {Opcode::nop, 0, "NOP", 0},
    {Opcode::store_u32, 1, "STORE_U32", 2},
    {Opcode::atomic_add, 2, "ATOMIC_ADD", 2},
    {Opcode::load_u32, 3, "LOAD_U32", 2},
    {Opcode::compare_swap, 4, "COMPARE_SWAP", 3},
    {Opcode::memcpy, 5, "MEMCPY", 3},
    {Opcode::dfa_step, 6, "DFA_STEP", 4},
    {Opcode::batch_fence, 7, "BATCH_FENCE", 2},
    {Opcode::load_miss, 0xFFFD, "LOAD_MISS", 2},
    {Opcode::printf, 0xFFFE, "PRINTF", 3},
    {Opcode::packed_slot, 0x80000001, "PACKED_SLOT", 12},
    {Opcode::shutdown, 0xFFFFFFFF, "SHUTDOWN", 0},
};

TEST(Opcode, numbers_names_and_operands_are_those_of_the_format) {
  ASSERT_EQ(std::size(kOpcodes), std::size(kRows));
  for (const OpcodeRow& row : kRows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(static_cast<Word>(row.opcode), row.number);
    const OpcodeInfo* found = find_opcode(row.number);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->opcode, row.opcode);
    EXPECT_EQ(found->name, row.name);
    EXPECT_EQ(found->argument_count, row.argument_count);
  }
  EXPECT_TRUE(opcode_table_is_sound());
}

TEST(Opcode, numbers_of_handlers_and_holes_have_no_row) {
  EXPECT_EQ(find_opcode(8), nullptr);
  EXPECT_EQ(find_opcode(0xFFF0), nullptr);
  EXPECT_EQ(find_opcode(0xFFFF), nullptr);
  EXPECT_EQ(find_opcode(0x80000000), nullptr);
}

TEST(Opcode, reserved_ranges_are_those_of_the_format) {
  EXPECT_EQ(kFirstFreeOpcode, 8u);
  EXPECT_EQ(kFirstReservedOpcode, 0xFFF0u);
  EXPECT_EQ(kLastReservedOpcode, 0xFFFFu);
  EXPECT_EQ(kReservedOpcodeBit, 0x80000000u);
}

struct EdgeRow {
  Word opcode;
  bool reserved, publishable;
};

// Both sides of each edge; a reserved number may be published only if it is built in.
constexpr EdgeRow kEdges[] = {
    {0, true, true},          {7, true, true},           {8, false, true},
    {0xFFEF, false, true},    {0xFFF0, true, false},     {0xFFFC, true, false},
    {0xFFFD, true, true},     {0xFFFE, true, true},      {0xFFFF, true, false},
    {0x10000, false, true},   {0x7FFFFFFF, false, true}, {0x80000000, true, false},
    {0x80000001, true, true}, {0x80000002, true, false}, {0xFFFFFFFE, true, false},
    {0xFFFFFFFF, true, true},
};

TEST(Opcode, edges_of_the_ranges_are_exact) {
  for (const EdgeRow& row : kEdges) {
    SCOPED_TRACE(row.opcode);
    EXPECT_EQ(is_reserved_opcode(row.opcode), row.reserved);
    EXPECT_EQ(is_publishable_opcode(row.opcode), row.publishable);
  }
}

struct FaultRow {
  FaultCode code;
  Word number;
  std::string_view name;
};

constexpr FaultRow kFaults[] = {
    {FaultCode::none, 0, "none"},
    {FaultCode::unknown_opcode, 1, "unknown_opcode"},
    {FaultCode::index_out_of_range, 2, "index_out_of_range"},
    {FaultCode::tenant_out_of_range, 3, "tenant_out_of_range"},
    {FaultCode::fuel_exhausted, 4, "fuel_exhausted"},
    {FaultCode::permission_denied, 5, "permission_denied"},
    {FaultCode::bad_packed_payload, 6, "bad_packed_payload"},
    {FaultCode::bad_fence, 7, "bad_fence"},
    {FaultCode::io_error, 8, "io_error"},
    {FaultCode::bad_buffer_handle, 9, "bad_buffer_handle"},
    {FaultCode::deadline, 10, "deadline"},
    {FaultCode::maybe_executed, 11, "maybe_executed"},
    {FaultCode::input_faulted, 12, "input_faulted"},
    {FaultCode::bad_entry, 13, "bad_entry"},
};

TEST(Fault, numbers_and_names_are_those_of_the_format) {
  for (const FaultRow& row : kFaults) {
    EXPECT_EQ(static_cast<Word>(row.code), row.number);
    EXPECT_EQ(fault_name(row.number), row.name);
  }
}

TEST(Fault, codes_of_handlers_begin_at_256) {
  EXPECT_EQ(kFirstUserFault, 256u);
  EXPECT_EQ(kMaxUserFault, 65279u);
  EXPECT_STREQ(fault_name(14), "unknown");
  EXPECT_STREQ(fault_name(255), "unknown");
  EXPECT_STREQ(fault_name(256), "user");
  EXPECT_STREQ(fault_name(65535), "user");
  EXPECT_STREQ(fault_name(65536), "unknown");
}

}  // namespace
}  // namespace everkernel::abi
