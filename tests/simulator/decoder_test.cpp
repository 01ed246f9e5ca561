// Instructions and their text forms. The bits are from code that NVRTC made, the texts from
// NVIDIA's disassembler (CUDA 11.8).
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "simulator/instruction.hpp"

namespace everkernel::simulator {
namespace {

struct Typed {
  std::uint64_t low = 0, high = 0;
  std::string_view text = {};
  std::size_t place = 0;  // for branches, whose targets are relative
};

constexpr Typed kInstructions[] = {
    // Registers, immediates, signs.
    {0x0000000911127810, 0x000fd60007ffe1ff, "IADD3 R18, -R17, 0x9, RZ"},
    {0x0000000302037210, 0x0000000007b5e928, "IADD3 R3, P2, P3, -R2, R3, -R40"},
    {0xffffffff1b0e7810, 0x00000000017e650e, "IADD3.X R14, ~R27, -0x1, R14, P2, P3"},
    {0x0000000503037c10, 0x000fe200087fe4ff, "IADD3.X R3, R3, UR5, RZ, P0, !PT"},
    {0x8000000f27275c10, 0x000000000fffe0ff, "@P5 IADD3 R39, R39, -UR15, RZ"},
    {0xb0800001192b7824, 0x001fc800078e02ff, "IMAD R43, R25, -0x4f7fffff, RZ"},
    {0x0000000124242824, 0x000fe200078e0a1a, "@P2 IMAD.IADD R36, R36, 0x1, -R26"},
    {0x000000ffff247224, 0x000fe200078e0a1a, "IMAD.MOV R36, RZ, RZ, -R26"},
    {0x00000004ff1d7e24, 0x000fe2000f8e00ff, "IMAD.U32 R29, RZ, RZ, UR4"},
    {0x000000011a0d7824, 0x00000000000e0e0d, "IMAD.X R13, R26, 0x1, ~R13, P0"},
    {0x0000009813167825, 0x002fca00078e0016, "IMAD.WIDE.U32 R22, R19, 0x98, R22"},
    {0x0000002b19187227, 0x000fc800078e0018, "IMAD.HI.U32 R24, R25, R43, R24"},
    {0x0000000428064811, 0x000fe400078e40ff, "@P4 LEA R6, R40, 0x4, 0x8"},
    {0x00000039110b7211, 0x002fe200010f240e, "LEA.HI.X R11, R17, R57, R14, 0x4, P2"},
    {0x0000000e11117419, 0x000fca0000010e0e, "SHF.L.W.U32.HI R17, R17, R14, 0xe"},
    {0x0000001fff2a7819, 0x000fe4000001141f, "SHF.R.S32.HI R42, RZ, 0x1f, R31"},
    {0x000003ff21227812, 0x000000000788c0ff, "LOP3.LUT P4, R34, R33, 0x3ff, RZ, 0xc0, !PT"},
    {0x0000991011117816, 0x000fca00000000ff, "PRMT R17, R17, 0x9910, RZ"},
    {0x000000ff06067207, 0x008fe40000000000, "SEL R6, R6, RZ, P0"},
    // Predicates.
    {0x0000002b3100820c, 0x0000000006f83560, "@!P0 ISETP.LE.U32.OR.EX P4, PT, R49, R43, !P5, P6"},
    {0x0000000d1a00720c, 0x0000000003f05300, "ISETP.NE.AND.EX P0, PT, R26, R13, PT, P0"},
    {0x000000000000781c, 0x000fe40001703070, "PLOP3.LUT P0, PT, P2, P1, PT, 0x80, 0x0"},
    {0x00000008ff167803, 0x001fe40000000000, "P2R R22, PR, RZ, 0x8"},
    {0x0000000314007804, 0x000fe20000000000, "R2P PR, R20, 0x3"},
    // Floats.
    {0xc140000000007421, 0x000fe20000000000, "FADD R0, R0, -12"},
    {0x80000004ff177e21, 0x000fc60008010100, "FADD.FTZ R23, -RZ, -UR4"},
    {0x3f80000000157423, 0x008fc80000000015, "FFMA R21, R0, R21, 1"},
    {0x0000001719177223, 0x000fe20000004014, "FFMA.RM R23, R25, R23, R20"},
    {0xffffffff14007902, 0x000f220000020000, "FCHK P1, R20, -QNAN"},
    {0xc09000000e00780b, 0x0000000003f66000, "FSETP.GE.AND P3, PT, R14, -4.5, PT"},
    {0x7f8000000d00780b, 0x0000000003f3c200, "FSETP.GTU.FTZ.AND P1, PT, |R13|, +INF, PT"},
    {0x000000001e147209, 0x000fe20007800000, "FMNMX R20, R30, R0, !PT"},
    {0x0000002a002a7308, 0x001e220000001000, "MUFU.RCP R42, R42"},
    {0x0000000c00168305, 0x0000e4000020f000, "@!P0 F2I.U32.TRUNC.NTZ R22, R12"},
    {0x0000001900197305, 0x000e24000021f000, "F2I.FTZ.U32.TRUNC.NTZ R25, R25"},
    {0x00000017000d7245, 0x000fe40000201000, "I2FP.F32.U32 R13, R23"},
    {0x3f8000001c1d780a, 0x000fe4000380c000, "FSET.BF.GTU.AND R29, R28, 1, PT"},
    {0x0000000d000d720a, 0x004fca0003801000, "FSET.BF.LT.AND R13, R0, R13, PT"},
    // Barriers in registers: derived from the order of the moves in code of known meaning.
    {0x0000000004087355, 0x000e2c0000100000, "BMOV.32.CLEAR R8, B4"},
    {0x000000000bff7355, 0x000fea0000100000, "BMOV.32.CLEAR RZ, B11"},
    {0x0000001e0b007356, 0x0003ea0000000000, "BMOV.32 B11, R30"},
    // Floats of 64 bits: derived from code of known meaning, and the immediates are printed as the
    // shortest text.
    {0x0000000002067229, 0x148fe20000000004, "DADD R6, R2, R4"},
    {0x0000000002087229, 0x140fe40000000804, "DADD R8, R2, -R4"},
    {0x0000000002027229, 0x000fe20000000304, "DADD R2, -|R2|, R4"},
    {0x00000006020e7e29, 0x040fe40008000000, "DADD R14, R2, UR6"},
    {0x3ff80000020a7429, 0x004fc40000000000, "DADD R10, R2, 1.5"},
    {0x0000000002067229, 0x040fe4000000c004, "DADD.RZ R6, R2, R4"},
    {0x0000000402067228, 0x0c8fe20000000000, "DMUL R6, R2, R4"},
    {0x8000000402027228, 0x000fc60000000000, "DMUL R2, R2, -R4"},
    {0xbfe00000020c7828, 0x040fe40000000000, "DMUL R12, R2, -0.5"},
    {0x00000006020a7c28, 0x040fe40008000000, "DMUL R10, R2, UR6"},
    {0x00000004020a7228, 0x000fc60000004000, "DMUL.RM R10, R2, R4"},
    {0x3ff000000608742b, 0x001fd00000000102, "DFMA R8, -R6, R2, 1"},
    {0x3ff800000202782b, 0x000fe20000000006, "DFMA R2, R2, 1.5, R6"},
    {0x00000006020c7e2b, 0x0c0fe40008000004, "DFMA R12, R2, R4, UR6"},
    {0x00000006020e7c2b, 0x040fe40008000004, "DFMA R14, R2, UR6, R4"},
    {0x00000004020c722b, 0x1c0fe40000008008, "DFMA.RP R12, R2, R4, R8"},
    {0x000000080600722a, 0x004fcc0003f0e000, "DSETP.GEU.AND P0, PT, R6, R8, PT"},
    {0x800000080600722a, 0x008fcc0003f06200, "DSETP.GE.AND P0, PT, |R6|, -R8, PT"},
    {0x3ff800000600742a, 0x008fcc0003f04000, "DSETP.GT.AND P0, PT, R6, 1.5, PT"},
    {0x0000000400047310, 0x004e260000201800, "F2F.F64.F32 R4, R4"},
    {0x00000006001a7d10, 0x000e240008201800, "F2F.F64.F32 R26, UR6"},
    {0x4000000c000c7310, 0x004e640000201800, "F2F.F64.F32 R12, |R12|"},
    {0x8000000400057310, 0x004e240000301000, "F2F.F32.F64 R5, -R4"},
    {0x0000000a000f7310, 0x000ff0000030d000, "F2F.F32.F64.RZ R15, R10"},
    {0x0000000700037308, 0x004e220000001800, "MUFU.RCP64H R3, R7"},
    {0x0000000000007307, 0x000e220000205000, "FRND.FLOOR R0, R0"},
    // Uniform registers and predicates.
    {0x8000000a3f107290, 0x0000000008ffe43f, "UIADD3.X UR16, URZ, ~UR10, URZ, UP1, !UPT"},
    {0x9e3779b1050478a4, 0x000fc8000f8e023f, "UIMAD UR4, UR5, -0x61c8864f, URZ"},
    {0xaefca1b004047891, 0x000fc8000f8ff83f, "ULEA.HI UR4, UR4, 0xaefca1b0, URZ, 0x1f"},
    {0x0000003f0f00728c, 0x000000000bf06100, "UISETP.GE.U32.AND.EX UP0, UPT, UR15, URZ, UPT, UP0"},
    {0x000000053f077887, 0x000fe40008000000, "USEL UR7, URZ, 0x5, UP0"},
    {0x0000003f00047c82, 0x000fe20008000000, "UMOV UR4, URZ"},
    {0x00000000010772ca, 0x000fe200000e0000, "R2UR UR7, R1"},
    {0x0000000000047886, 0x000fe200038e0100, "VOTEU.ANY UR4, UPT, PT"},
    // Constants and special registers.
    {0x00000a00ff017b82, 0x000e220000000800, "LDC R1, c[0x0][0x28]"},
    {0x00008400ff167b82, 0x000e620000000a00, "LDC.64 R22, c[0x0][0x210]"},
    {0x0000820000087ab9, 0x000fe20000000a00, "ULDC.64 UR8, c[0x0][0x208]"},
    {0x00815c002a2a7abb, 0x000fe40008000800, "ULDC UR42, c[0x2][UR42+0x570]"},
    {0x0000000000137919, 0x000e6e0000002500, "S2R R19, SR_CTAID.X"},
    {0x00000000000579c3, 0x000e220000008800, "S2UR UR5, SR_CgaCtaId"},
    {0x0000000000021805, 0x000fe2000001ff00, "@P1 CS2R R2, SRZ"},
    // Memory.
    {0x000014081a1a7981, 0x000ea2000c1e9900, "LDG.E.CONSTANT R26, [R26.64+0x14]"},
    {0x00000204060b7981, 0x000ea2000c1e1700, "LDG.E.S16 R11, [R6.64+0x2]"},
    {0x000000022400a986, 0x0001e2000c10f908, "@!P2 STG.E.STRONG.GPU [R36.64], R2"},
    {0x0000000c0a007986, 0x0003e6000c101d0c, "STG.E.128 [R10.64], R12"},
    {0x000048ff01007387, 0x000fe80000100800, "STL [R1+0x48], RZ"},
    {0x00000012ff007987, 0x0003e20008100807, "STL [UR7], R18"},
    {0x00000207ff127984, 0x000e640008000400, "LDS.U16 R18, [UR7+0x2]"},
    {0x00000004ff027983, 0x001ea20008100800, "LDL R2, [UR4]"},
    {0x0000000a360a29a8, 0x000ea200081ee5cc,
     "@P2 ATOMG.E.ADD.64.STRONG.GPU PT, R10, [R54.64], R10"},
    {0x000240354200198e, 0x0023e4000c10e18c, "@P1 REDG.E.ADD.STRONG.GPU [R66.64+0x240], R53"},
    {0x00000018151a738d, 0x000e24000180041a, "ATOMS.CAST.SPIN.64 R26, [R21], R24, R26"},
    {0x00002000ffff198c, 0x0001e20008800204, "@P1 ATOMS.MIN.S32 RZ, [UR4+0x20], R0"},
    {0x0000000000007992, 0x000fec0000002000, "MEMBAR.SC.GPU"},
    {0x00000000ff00798f, 0x004fe20002000000, "CCTL.IVALL"},
    // Collectives.
    {0x04200000080b7989, 0x004e6200000200ff, "SHFL.UP P1, R11, R8, 0x1, RZ"},
    {0x08301f0000057f89, 0x0004e200000e0000, "SHFL.DOWN PT, R5, R0, 0x1, 0x101f"},
    {0x00001fff11117589, 0x020ea200000e0000, "SHFL.IDX PT, R17, R17, RZ, 0x1f"},
    {0x0000000000ff7806, 0x000fc80004000000, "VOTE.ALL P0, !P0"},
    {0x00000000070973a1, 0x00072200000e8000, "MATCH.ANY R9, R7"},
    // Made from PTX of known meaning; no disassembler has seen these.
    {0x00000000000f73a1, 0x000e620000040000, "MATCH.ALL P2, R15, R0"},
    {0x00000000040073a1, 0x0040640000000200, "MATCH.ALL.U64 P0, R0, R4"},
    {0x00000000040673a1, 0x0000e400000e8200, "MATCH.ANY.U64 R6, R4"},
    {0x0000000b02ff198a, 0x000fe800081ee1c4, "@P1 ATOM.E.ADD.STRONG.GPU PT, RZ, [R2.64], R11"},
    {0x0000080e02ff738b, 0x020fe200001ee10f, "ATOM.E.CAS.STRONG.GPU PT, RZ, [R2.64+0x8], R14, R15"},
    {0x00000004020573a9, 0x004ea800001ea105, "ATOMG.E.CAS.STRONG.SM PT, R5, [R2.64], R4, R5"},
    {0x00000002040279a8, 0x004ea800089ee7c4, "ATOMG.E.MIN.S64.STRONG.GPU PT, R2, [R4.64], R2"},
    {0x0000301004007986, 0x008fe8000c001d04, "STG.E.EF.128 [R4.64+0x30], R16"},
    {0x000000040000795c, 0x000fe20000300000, "BPT.TRAP 0x1"},
    {0x000000640000795d, 0x000fea0003800000, "NANOSLEEP 0x64"},
    {0x00000000000679c3, 0x000e620000005200, "S2UR UR6, SR_GLOBALTIMERLO"},
    {0x0000000000047805, 0x001fca0000015000, "CS2R R4, SR_CLOCKLO"},
    {0x0000000000057919, 0x000e2e0000004300, "S2R R5, SR_VIRTUALSMID"},
    {0x00000000100573c4, 0x000e240000000000, "REDUX UR5, R16"},
    {0x00000000000873c4, 0x000e620000014200, "REDUX.MAX.S32 UR8, R0"},
    {0x0000000000007b1d, 0x000fec0004014000, "BAR.RED.POPC.DEFER_BLOCKING 0x0, !P0"},
    {0x0000000000007b1d, 0x000fe20000010000, "BAR.SYNC.DEFER_BLOCKING 0x0"},
    {0x0000000000ff731c, 0x000e240000024000, "B2R.RESULT RZ, P1"},
    {0x0000000000007348, 0x000fea0003800000, "WARPSYNC R0"},
    {0x0000000000007948, 0x000fea0003800000, "WARPSYNC.ALL"},
    // Control flow.
    {0xfffffd482a847958, 0x000fe4000b83ffff, "BRXU UR42 0x0", 0x2b5e0},
    {0x00000000001c7947, 0x000fea0003800000, "BRA 0x1460", 0x13e0},
    {0x0000000a05307947, 0x000fea000b800000, "BRA.DIV UR5, 0x14b0", 0xbe0},
    {0x0000006000007945, 0x000fe20003800000, "BSSY B0, 0x9a0", 0x930},
    {0x0000000000007941, 0x000fea0003800000, "BSYNC B0"},
    {0x0000000000012942, 0x000fea0003800000, "@P2 BREAK B1"},
    {0x0000000800a47944, 0x007fea0003c00000, "CALL.REL.NOINC 0x20f0", 0x1650},
    {0xffffffe002241950, 0x002fea0003c3ffff, "@P1 RET.REL.NODEC R2 0x0", 0x1f60},
    {0x0000000018087348, 0x007fea0003c00000, "WARPSYNC.COLLECTIVE R24, 0x1500", 0x14d0},
    {0x000000000000794d, 0x000fea0003800000, "EXIT"},
};

// Instructions that this disassembler does not know. The texts follow from the source that was
// compiled to them.
constexpr Typed kOthers[] = {
    {0xffffffb001017836, 0x001fc40000000000, "VIADD R1, R1, -0x50"},
    {0x00000001201e7848, 0x002fca0007fe0000, "VIMNMX.U32 R30, R32, 0x1, !PT"},
    {0x0000000c200a7e46, 0x000fca000f80001b, "VIADDMNMX.U32 R10, R32, R27, UR12, !PT"},
};

Result<Instruction> decode_bits(std::uint64_t low, std::uint64_t high, std::size_t place = 0) {
  std::array<std::byte, kInstructionBytes> bytes{};
  std::memcpy(bytes.data(), &low, sizeof low);
  std::memcpy(bytes.data() + sizeof low, &high, sizeof high);
  return decode(bytes, place);
}
std::string text_of(const Typed& typed) {
  const auto instruction = decode_bits(typed.low, typed.high, typed.place);
  return instruction ? to_text(*instruction) : instruction.error().message;
}
std::string refusal(std::uint64_t low, std::uint64_t high) {
  const auto instruction = decode_bits(low, high);
  if (instruction) return "it is " + to_text(*instruction);
  EXPECT_EQ(instruction.error().code, Code::unsupported);
  return instruction.error().message;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Decoder, instructions_are_what_nvidia_writes_for_them) {
  for (const Typed& typed : kInstructions) EXPECT_EQ(text_of(typed), typed.text);
}

TEST(Decoder, instructions_that_an_older_disassembler_does_not_know) {
  for (const Typed& typed : kOthers) EXPECT_EQ(text_of(typed), typed.text);
}

TEST(Decoder, a_constant_has_a_bank_and_maybe_a_register) {
  const auto direct = decode_bits(0x00008400ff167b82, 0x000e620000000a00);
  ASSERT_TRUE(direct) << direct.error().message;
  EXPECT_EQ(direct->operands[1].kind, OperandKind::constant);
  EXPECT_EQ(direct->operands[1].bank, 0);
  EXPECT_EQ(direct->operands[1].value, 0x210u);
  // Bank 3, byte R5 + 0x210.
  const auto indirect = decode_bits(0x00c0840005167b82, 0x000e620000000a00);
  ASSERT_TRUE(indirect) << indirect.error().message;
  EXPECT_EQ(indirect->operands[1].kind, OperandKind::indirect_constant);
  EXPECT_EQ(indirect->operands[1].index, 5);
  EXPECT_EQ(to_text(*indirect), "LDC.64 R22, c[0x3][R5+0x210]");
}

TEST(Decoder, operands_are_kept_in_the_order_in_which_they_are_written) {
  const auto instruction = decode_bits(0x0000002b3100820c, 0x0000000006f83560);
  ASSERT_TRUE(instruction) << instruction.error().message;
  EXPECT_EQ(instruction->name, "ISETP.LE.U32.OR.EX");
  EXPECT_EQ(instruction->guard, (Operand{.kind = OperandKind::predicate, .is_negative = true}));
  ASSERT_EQ(instruction->operand_count, 6u);
  EXPECT_EQ(instruction->operands[0], (Operand{.kind = OperandKind::predicate, .index = 4}));
  EXPECT_EQ(instruction->operands[1], (Operand{.kind = OperandKind::predicate, .index = kTrue}));
  EXPECT_EQ(instruction->operands[2], (Operand{.kind = OperandKind::reg, .index = 49}));
  EXPECT_EQ(instruction->operands[4],
            (Operand{.kind = OperandKind::predicate, .index = 5, .is_negative = true}));
}

TEST(Decoder, a_branch_goes_where_its_own_place_says) {
  const auto text = [](std::size_t place) {
    return text_of({0x00000000001c7947, 0x000fea0003800000, {}, place});
  };
  EXPECT_EQ(text(0), "BRA 0x80");
  EXPECT_EQ(text(0x13e0), "BRA 0x1460");
  // A branch to itself, and one to before the beginning of the code.
  EXPECT_EQ(text_of({0xfffffffc00fc7947, 0x000fc0000383ffff, {}, 0x40}), "BRA 0x40");
  EXPECT_HAS(text_of({0xffffffe000007947, 0x000fc0000383ffff, {}, 0x40}), "outside of the code");
}

TEST(Decoder, how_an_instruction_is_scheduled_is_of_no_interest) {
  constexpr std::uint64_t kScheduling = ~std::uint64_t{0} << (105 - 64);
  for (const Typed& typed : kInstructions) {
    Typed other = typed;
    other.high ^= kScheduling;
    EXPECT_EQ(text_of(other), typed.text);
  }
}

TEST(Decoder, an_operation_that_it_does_not_know_is_refused_with_its_bits) {
  for (const std::uint64_t low : {0x0000000000007000ull, 0x0000000000000000ull,
                                  0xffffffffffffffffull, 0x000000040200722cull}) {
    const auto message = refusal(low, 0x000fe20000000000);
    EXPECT_HAS(message, "no known instruction");
    EXPECT_HAS(message, "0x000fe20000000000");
  }
  EXPECT_HAS(refusal(0x0123456789abc000, 0), "0x0123456789abc000 0x0000000000000000");
}

TEST(Decoder, bits_that_have_no_meaning_are_refused_with_all_bits) {
  // EXIT with a register, NOP with an operand, a move of some bytes, a rounding mode of a move.
  EXPECT_HAS(refusal(0x000000000001794d, 0x000fea0003800000), "0x000000000001794d");
  EXPECT_HAS(refusal(0x0000000000007918, 0x000fe20000000001), "0x000fe20000000001");
  EXPECT_HAS(refusal(0x0000166000067802, 0x000fce0000000e00), "0x0000166000067802");
  EXPECT_HAS(refusal(0x000000ff06067207, 0x008fe40000004000), "bits that have no meaning");
  // A fourth way to combine predicates, an access of an undefined size.
  EXPECT_HAS(refusal(0x0000000d1a00720c, 0x0000000003f05f00), "0x0000000d1a00720c");
  EXPECT_HAS(refusal(0x000014081a1a7981, 0x000ea2000c1e9f00), "0x000014081a1a7981");
  // A special register that is not known.
  EXPECT_HAS(refusal(0x0000000000137919, 0x000e6e000000fe00), "no known instruction");
}

// An access to global memory names a uniform register with the memory descriptor. The result does
// not depend on it.
bool is_ignored(const Typed& typed, unsigned bit) {
  if (typed.text.find(".64]") == std::string_view::npos &&
      typed.text.find(".64+") == std::string_view::npos) {
    return false;
  }
  const unsigned first = typed.text.starts_with("LDG") ? 32 : 64;
  return bit >= first && bit < first + 6;
}

TEST(Decoder, a_changed_bit_gives_another_instruction_or_is_refused) {
  for (const Typed& typed : kInstructions) {
    const auto instruction = decode_bits(typed.low, typed.high, typed.place);
    ASSERT_TRUE(instruction) << instruction.error().message;
    for (unsigned bit = 0; bit < 105; ++bit) {
      const std::uint64_t low = typed.low ^ (bit < 64 ? std::uint64_t{1} << bit : 0);
      const std::uint64_t high = typed.high ^ (bit < 64 ? 0 : std::uint64_t{1} << (bit - 64));
      const auto changed = decode_bits(low, high, typed.place);
      if (!changed) {
        EXPECT_HAS(changed.error().message, "no known instruction");
      } else if (!is_ignored(typed, bit)) {
        EXPECT_FALSE(*changed == *instruction) << typed.text << ", bit " << bit;
        EXPECT_FALSE(to_text(*changed).empty());
      }
    }
  }
}

}  // namespace
}  // namespace everkernel::simulator
