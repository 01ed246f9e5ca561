// How the lanes of a warp or group run one handler together: effects that take place once for all
// lanes, the turns of an each spread over the lanes, and updates that may be delayed until the
// turns are over.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "skip.hpp"
#include "support/jit_trial.hpp"

namespace everkernel::test {
namespace {

std::vector<Word> counted(std::size_t count, Word step) {
  std::vector<Word> words(count);
  for (std::size_t i = 0; i < count; ++i) {
    words[i] = static_cast<Word>(i * step * 2654435761u >> 7);
  }
  return words;
}

FrameSpec group_frame(std::size_t input_words, std::size_t output_words) {
  FrameSpec spec;
  spec.args = {1, 2, 3, 7, 5};
  spec.lanes = 64;
  spec.tenant = 4;
  spec.fuel = 1'000'000;
  spec.control.assign(200, 6);
  spec.buffers = {{.handle = 1, .words = counted(input_words, 3)},
                  {.handle = 2, .words = counted(output_words, 5)},
                  {.handle = 3, .words = counted(40, 7), .access = memory::Access::read}};
  return spec;
}

std::string program_of(std::string_view declaration, std::span<const std::string_view> bodies) {
  std::string text;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    text += fmt::format("handler h_{} = {} {} {{ {} }}\n", i, 1000 + i, declaration, bodies[i]);
  }
  return text;
}

// Turns that read and write words of their own, with statements before and after them.
constexpr std::string_view kBodies[] = {
    "each i in 0 .. len(output) { output[i] = input[i % len(input)] + lane; }",
    "output[0] = 41; output[0] = output[0] + 1; each i in 1 .. len(output) { output[i] = output[0] "
    "* i; } args[5] = output[1];",
    "each i in 0 .. len(output) { output[i] = i; } var s = 0; for i in 0 .. len(output) { s = s + "
    "output[i]; } args[5] = s;",
    "for r in 0 .. 3 { each i in 0 .. len(output) { output[i] = output[i] + r; } args[5] = "
    "args[5] + output[r]; }",
    "args[5] = atomic_add(output[0], 5); args[6] = atomic_exchange(output[1], 9); args[7] = "
    "atomic_cas(output[1], 9, args[6]);",
    "control[160] = control[161] + 1; each i in 0 .. 20 { control[170 + i] = control[160] + i; } "
    "args[5] = control[171];",
    "each i in 0 .. 5000 { if i == 4000 { fault 3; } if i == 333 { fault 2; } }",
    "each i in 0 .. len(output) + 1 { output[i] = 1; } args[5] = 1;",
    "each i in 0 .. 100 { for k in 0 .. i { output[i] = output[i] + k; } } args[5] = output[50];",
    "each i in 0 .. 100 { var n = 0; while n < 100 - i { n = n + 3; } output[i] = n; }",
    "each i in 0 .. 9 { printf(i, lane, 2); emit(i, lanes, 3); } printf(7, 7, 7);",
    "printf(1, 2, 3); emit(4, 5, 6); if output[0] > 3 { printf(9, 9, 9); }",
    "each i in -40i .. 40i { output[u32(i + 40i)] = u32(i); }",
    "each i in 0 .. 3000 { if (i & 1) == 1 { continue; } output[i % len(output)] = 5; }",
    "each i in 0 .. 60 { atomic_add(output[i % 3], i); atomic_xor(output[3 + i % 2], i); }",
    "each i in 0 .. 30 { output[i] = buffer(3)[i] + buffer(param)[i + 2] + input[i]; }",
    "each i in 0 .. 45 { output[i] = buffer(3)[i] + input[i]; } args[5] = 1;",
    "each i in 0 .. 30 { let a = input[i]; let b = output[i]; output[i] = a + b; }",
    "each i in 0 .. 30 { let a = input[i * 2]; let b = input[a % len(input)]; output[i] = b; }",
    "each i in 0 .. 30 { let a = input[i + 1000000]; output[i] = a; }",
    "each i in 0 .. 30 { if i > 20 && input[i + 60] > 3 { output[i] = 7; } }",
    "each i in 0 .. 30 { let a = atomic_add(output[i], 5); let b = output[i]; output[i] = a ^ b; }",
    "each i in 0 .. 30 { output[i] = input[i] + 1; let c = input[i]; output[i + 30] = c; }",
    "await read(input[0], output[0], 3, 4);",
    "if input[0] == output[0] { yield; } if input[1] > 0 { requeue; } output[0] = 3;",
    "each i in 0 .. 1 { } each i in 5 .. 5 { fault 1; } each i in 0 .. 70000 { } args[5] = 1;",
};

TEST(Groups, lanes_act_as_one_thread_outside_each_and_as_many_inside) {
  EVERKERNEL_NEEDS_SUBJECT();
  for (const std::string_view scope : {"scope group", "scope warp", ""}) {
    const Trial trial = Trial::from_text(program_of(scope, kBodies));
    for (std::size_t i = 0; i < std::size(kBodies); ++i) {
      for (const std::size_t words : {100u, 2000u, 1u}) {
        FrameSpec spec = group_frame(words, words);
        if (scope.empty()) spec.lanes = 1;
        EXPECT_EQ(trial.run(i, spec).difference, "") << scope << " " << kBodies[i] << " " << words;
        spec.args[1] = 1;  // input and output are one buffer
        EXPECT_EQ(trial.run(i, spec).difference, "")
            << scope << " " << kBodies[i] << " " << words << ", one buffer";
        spec.args[1] = 2;
        spec.args[0] = 3;  // the input buffer is read only
        EXPECT_EQ(trial.run(i, spec).difference, "")
            << scope << " " << kBodies[i] << " " << words << ", read-only input";
      }
    }
  }
}

// The leading lane makes several effects for all lanes and then sends a value to the others. Idle
// lanes must not have run ahead by then.
constexpr std::string_view kLeaderBodies[] = {
    "output[0] = 1; output[1] = 2; args[5] = output[0] + input[1];",
    "atomic_add(output[0], 1); atomic_add(output[1], 2); args[5] = input[2]; args[6] = input[3];",
    "var n = 0; while n < 3 { n = n + 1; for i in 0 .. len(input) { atomic_min(output[i], 7); for "
    "k "
    "in 2 .. 3 { if lane <= 13 { atomic_min(output[k % len(output)], k); } atomic_min(output[i * 3 "
    "+ 1], k); } atomic_min(output[0], args[2]); if true { break; } } atomic_min(output[0], n); "
    "args[5] = args[5] + input[n]; }",
    "var n = 0; while n < 9 { n = n + 1; if len(output) != 0 { output[0] = n; } output[n % "
    "len(output)] = n; args[5] = args[5] + input[n]; }",
    "var n = 0; while n < 9 { n = n + 1; if input[n] > 50 { atomic_add(output[0], n); } else { "
    "atomic_xor(output[1], n); } atomic_add(output[2], n); args[5] = args[5] * 3 + input[n]; }",
    "for i in 0 .. 5 { for k in 0 .. 9 { atomic_add(output[k], i); if k == i { break; } } "
    "atomic_add(output[0], i); args[5] = args[5] + input[i] + output[i]; }",
    "var n = 0; while n < 4 { n = n + 1; if args[2] > 2 { printf(n, 1, 2); } emit(n, 1, 2); if "
    "input[n] % 2 == 0 { continue; } output[n] = input[n + 1]; } args[5] = output[1];",
    "if input[0] % 2 == 0 { output[0] = 3; } else { output[1] = 4; } output[2] = 5; if input[1] > "
    "9 { output[3] = 6; return; } output[4] = input[4];",
    "for i in 0 .. 20 { if input[i] % 3 == 0 { output[i] = i; continue; } if input[i] % 3 == 1 { "
    "control[160 + i] = i; } output[i + 1] = output[i] + control[160 + i]; }",
    // Random programs in which idle lanes had run ahead.
    "atomic_min(output[(param ^ 4 | min(3472883712, 11)) % len(output)], input[(param >> 38) "
    "% len(input)]); atomic_min(output[len(output) % len(output)], -((3 & 3) / abs(lane))); "
    "if param >= popcount(~2476865838) { if select(14i > 12i, 3i != i32(3212836864), false && "
    "false) { atomic_min(output[len(output) % len(output)], select(abs(args[2]) < "
    "len(output), input[(args[2] ^ 12) % len(input)], ~(1078530011 | 4290772993))); "
    "atomic_min(output[rotl(2139095039, 33) % len(output)], lane * 219682418); var v0 = "
    "(16777216.0 - bits_f32(2147483648)) * (bits_f32(256) - 2147483600.0); } "
    "atomic_min(output[(args[2] >> min(14, 13) - input[param % len(input)]) % len(output)], "
    "lanes % ~abs(4290772993)); } else { var v0 = bits_f32(select(args[2] > lanes, "
    "input[param % len(input)], param / param)); var v1 = 0; while v1 < 3 { v1 = v1 + 1; for "
    "v2 in 0 .. (max(lane, v1) | input[lane % len(input)]) % 16 { v0 = f32((v1 | 2139095041) "
    "+ (7 - v1)); if -2143289344i <= 5i { for v3 in 0 .. len(output) { "
    "atomic_min(output[input[(max(v1, lanes) - u32(-2i)) % len(input)] % len(output)], "
    "u32(sqrt(1.0e-40))); } for v3 in -0i .. 0i { atomic_min(output[v2], input[v2 % "
    "len(input)]); } atomic_min(output[v2 >> 2], args[2]); atomic_min(output[v2 * 0], "
    "8388607); } let v3 = v1 >> 17; each v4 in 0 .. abs(input[lanes % len(input)]) % 1 { "
    "atomic_min(output[v4 + 1], v1 / (0 % v2) % (max(param, v3) << 32)); } } for v2 in 0 .. "
    "len(input) { atomic_min(output[v2], -max(1333788672, param)); for v3 in 2 .. 3 { if lane "
    "<= 13 || (false || false) { atomic_min(output[v3 % len(output)], clz(13) * v3); } "
    "atomic_min(output[v2 * 3 + 1], v3); } atomic_min(output[0], args[2]); if true { break; } "
    "} atomic_min(output[lane % len(output)], v1); v0 = bits_f32(1333788672); } if false { "
    "return; } } let v0 = param; var v1 = 1.0;",
    "var v0 = i32(-4i % -13i) * -13i; let v1 = bits_f32(4290772993); let v2 = 14i > "
    "-1333788671i; output[output[min(4294967295, args[3]) % len(output)] % len(output)] = "
    "bits_u32(bits_f32(3472883712)); if tenant < input[6 % len(input)] != (input[opcode % "
    "len(input)] != args[2]) { v0 = bits_i32(-16777216.0); atomic_min(output[bits_u32(v1 + "
    "bits_f32(8388607)) % len(output)], bits_u32(8388607i % 864026624i)); var v3 = 2.0 + v1; "
    "if -0.1 != f32(v0) { await write(1, 16777217 - 33, args[5], slot / lanes); } } else { "
    "each v3 in 0 .. len(output) { atomic_cas(output[v3 + 2], 4286578688, v3 & 10); "
    "emit(input[opcode % len(input)], v3 & 8388608, abs(v3)); let v4 = len(output); } "
    "atomic_max(output[(16777217 >> 23) / abs(lanes) % len(output)], u32(11i | "
    "i32(2147483648))); v0 = bits_i32(v1); var v3 = atomic_or(output[0], 10 & param); } v0 = "
    "v0 & 16i; control[160 + (select(true, lane, lane) + 2139095039 & 7)] = "
    "u32(bits_i32(v0)); if (args[2] & slot) < ~args[1] { fault select(true, slot, lane); }",
};

TEST(Groups, what_one_lane_does_for_all_leaves_nobody_behind) {
  EVERKERNEL_NEEDS_SUBJECT();
  for (const std::string_view scope : {"scope group", "scope warp", ""}) {
    const Trial trial = Trial::from_text(program_of(scope, kLeaderBodies));
    for (std::size_t i = 0; i < std::size(kLeaderBodies); ++i) {
      for (const std::size_t words : {37u, 1u}) {
        for (const Word input : {1u, 2u, 3u}) {
          FrameSpec spec = group_frame(words, words);
          if (scope.empty()) spec.lanes = 1;
          spec.args[0] = input;
          EXPECT_EQ(trial.run(i, spec).difference, "")
              << scope << " " << kLeaderBodies[i] << " " << words << ", input " << input;
        }
      }
    }
  }
}

constexpr std::string_view kAtomics[] = {"atomic_add", "atomic_min", "atomic_max",
                                         "atomic_and", "atomic_or",  "atomic_xor"};
// {0} is an atomic.
constexpr std::string_view kUpdates[] = {
    "each i in 0 .. len(input) {{ {0}(output[input[i] % len(output)], i * 77); }}",
    "each i in 0 .. len(input) {{ {0}(output[i % 5], input[i]); }} {0}(output[0], 99);",
    "{0}(output[0], 7); each i in 0 .. len(input) {{ {0}(output[0], i); }}",
    "each i in 0 .. len(input) {{ {0}(output[i], 0x5555); }}",  // some indices are out of range
    "for r in 0 .. 2 {{ each i in 0 .. len(input) {{ {0}(output[(i + r) % 3], i); }} }}",
    "each i in 0 .. len(input) {{ {0}(output[0], i); {0}(buffer(2)[0], i + 1); }}",
    "each i in 0 .. len(input) {{ for k in 0 .. 3 {{ {0}(output[k], input[i]); }} }}",
    "each i in 0 .. len(input) {{ {0}(output[0], i); if i == 70 {{ fault 5; }} }}",
    // A turn reads a word after its own update, where input and output are one buffer.
    "each i in 0 .. 3 {{ {0}(output[i], 3); {0}(control[160 + i], input[i]); }}",
    "each i in 0 .. 3 {{ {0}(output[i], 3); {0}(control[160 + i], buffer(args[0])[i]); }}",
    // Handles that are computed inside a turn.
    "each i in 1 .. 2 {{ {0}(output[0], buffer(i)[i]); }}",
    "each i in 0 .. len(input) {{ let h = 1; {0}(output[i % 5], buffer(h)[i]); }}",
    // Turns that compute and then update. Some of the words that they update or read last are out
    // of range.
    "each i in 0 .. len(input) {{ {0}(output[input[i] % (len(output) + 3)], i); }}",
    "each i in 0 .. len(input) {{ let a = input[i]; var b = a % 9; b = b + i; {0}(output[b % 6], "
    "buffer(3)[a % 41]); }}",
    "each i in 0 .. len(input) {{ let a = input[i]; {0}(output[buffer(3)[(a + lane) % 41] % 5], a "
    "^ i); }}",
    "each i in 0 .. len(input) {{ {0}(output[input[i] % 4], 3); if input[i] % 3 == 0 {{ continue; "
    "}} {0}(control[160 + i % 4], i); }}",
};

TEST(Groups, updates_that_commute_all_arrive_wherever_they_wait) {
  EVERKERNEL_NEEDS_SUBJECT();
  std::vector<std::string> made;
  for (const std::string_view update : kUpdates) {
    for (const std::string_view atomic : kAtomics) {
      made.push_back(fmt::format(fmt::runtime(update), atomic));
    }
  }
  const std::vector<std::string_view> bodies(made.begin(), made.end());
  const Trial trial = Trial::from_text(program_of("scope group commutes", bodies));
  struct Shape {
    std::size_t input_words, output_words;
  };
  // Few and many turns for each word of output; an output as long as a tile, and longer outputs.
  for (const Shape shape :
       {Shape{100, 20}, {3000, 256}, {10, 256}, {300, 1}, {16'500, 4096}, {17'000, 4097}, {3, 0}}) {
    for (const Word input : {1u, 2u, 4u}) {
      FrameSpec spec = group_frame(shape.input_words, shape.output_words);
      spec.args[0] = input;
      // A part of output, under another handle.
      if (shape.output_words > 2) {
        spec.buffers.push_back({.handle = 4,
                                .words = std::vector<Word>(shape.output_words - 1),
                                .alias_of = 1,
                                .alias_first = 1});
      }
      for (std::size_t i = 0; i < bodies.size(); ++i) {
        EXPECT_EQ(trial.run(i, spec).difference, "")
            << bodies[i] << "\ninput " << input << " of " << shape.input_words << ", output "
            << shape.output_words;
      }
    }
  }
}

TEST(Groups, an_abort_ends_an_item_before_its_turns) {
  EVERKERNEL_NEEDS_SUBJECT();
  const Trial trial = Trial::from_text(
      "handler a = 1000 scope group { each i in 0 .. 9 { output[i] = 1; } }\n"
      "handler b = 1001 scope group { output[0] = 1; for i in 0 .. 9 { each k in 0 .. 3 { "
      "output[k] = i; } } }\n"
      "handler c = 1002 scope group { each i in 5 .. 5 { output[i] = 1; } output[1] = 9; }\n");
  FrameSpec spec = group_frame(10, 10);
  spec.abort = Abort::set;
  const Word codes[] = {10, 10, 0};
  for (std::size_t i = 0; i < std::size(codes); ++i) {
    const auto compared = trial.run(i, spec);
    EXPECT_EQ(compared.difference, "") << i;
    EXPECT_EQ(compared.interpreted.outcome.fault_code, codes[i]) << i;
  }
}

}  // namespace
}  // namespace everkernel::test
