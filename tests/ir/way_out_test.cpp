// How a long item leaves the interpreter: before its first effect, and as if it had not begun.
#include <algorithm>
#include <iterator>
#include <vector>

#include "support/ir_machine.hpp"
#include "support/results.hpp"

namespace everkernel::test {
namespace {

/// A way out that opens after a number of looks, or at the first long loop.
class Door final : public ir::WayOut {
 public:
  bool look(std::uint64_t turns) override {
    looks.push_back(turns);
    return looks.size() > closed_looks;
  }
  bool expect(std::uint64_t turns) override {
    expected.push_back(turns);
    return opens_before_loops;
  }

  std::size_t closed_looks = 0;
  bool opens_before_loops = false;
  std::vector<std::uint64_t> looks = {};
  std::vector<std::uint64_t> expected = {};
};

std::optional<Outcome> run(Machine& machine, std::string_view body, Door& door) {
  const auto verified = check_text(in_handler(body, ""));
  EXPECT_TRUE(verified) << message_of(verified);
  return machine.run(verified->handlers()[0], door);
}

TEST(WayOut, is_looked_for_every_4096_turns) {
  Machine machine;
  Door door{};
  door.closed_looks = 100;
  EXPECT_EQ(run(machine, "for i in 0 .. 10000 {} each i in 0 .. 3000 {}", door), kDone);
  EXPECT_EQ(door.looks, (std::vector<std::uint64_t>{4096, 8192, 12288}));
  EXPECT_EQ(door.turns_run, 13000u);
}

TEST(WayOut, leaves_the_frame_as_it_was) {
  for (const char* body : {"var x = 0; for i in 0 .. 10000 { x = x + input[0]; } output[0] = x;",
                           "var x = 0; while x < 10000 { x = x + 1; } output[0] = x;",
                           "each i in 0 .. 10000 { if i == 9000 { output[0] = i; } }"}) {
    Machine machine;
    machine.frame.fuel = 20000;
    machine.frame.args[5] = 55;
    const std::vector<Word> args(std::begin(machine.frame.args), std::end(machine.frame.args));
    Door door;
    EXPECT_EQ(run(machine, body, door), std::nullopt) << body;
    EXPECT_EQ(machine.frame.fuel, 20000u) << body;
    EXPECT_TRUE(std::ranges::equal(machine.frame.args, args)) << body;
    EXPECT_EQ(machine.output[0], 0u) << body;
    EXPECT_EQ(door.turns_run, 4096u) << body;
  }
}

TEST(WayOut, is_closed_by_every_effect) {
  const std::string loop = " var x = 0; while x < 10000 { x = x + 1; }";
  for (const char* effect : {"output[7] = 1;", "args[4] = 1;", "printf(1, 2, 3);", "emit(1, 2, 3);",
                             "atomic_add(output[7], 1);", "control[160] = 1;",
                             "let before = atomic_exchange(output[7], 1);"}) {
    Machine machine;
    Door door;
    EXPECT_EQ(run(machine, effect + loop, door), kDone) << effect;
    EXPECT_FALSE(door.looks.empty()) << "others of its handler may follow: " << effect;
  }
}

TEST(WayOut, opens_before_a_long_loop) {
  Machine machine;
  Door door;
  door.opens_before_loops = true;
  EXPECT_EQ(run(machine, "for i in 0 .. 1000000 { output[0] = i; }", door), std::nullopt);
  EXPECT_EQ(door.expected, std::vector<std::uint64_t>{1'000'000});
  EXPECT_EQ(machine.output[0], 0u);
}

TEST(WayOut, counts_a_loop_inside_a_loop_as_64_turns) {
  Machine machine;
  Door door;
  door.opens_before_loops = true;
  EXPECT_EQ(run(machine, "for i in 0 .. 600 { if i == 0 { while output[0] < i {} } }", door),
            std::nullopt);
  EXPECT_EQ(door.expected, std::vector<std::uint64_t>{600 * 64});
  Door short_door;
  short_door.opens_before_loops = true;
  EXPECT_EQ(run(machine, "for i in 0 .. 600 { output[0] = i; }", short_door), kDone);
  EXPECT_TRUE(short_door.expected.empty());
}

}  // namespace
}  // namespace everkernel::test
