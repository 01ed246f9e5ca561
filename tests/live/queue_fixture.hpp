// A session on two workers with handlers that answer, spin, yield and add.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/live/queue.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/ir_text.hpp"
#include "support/results.hpp"

namespace everkernel::test {

using abi::EntryFormat;
using protocol::Operation;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr auto kPatience = seconds(30);
inline constexpr Word kAnswer = 64;   // args 9, 10 and 11 become sums of args 0 and 1
inline constexpr Word kSpin = 65;     // runs until it is aborted
inline constexpr Word kForever = 66;  // yields for ever
inline constexpr Word kAdd = 67;      // adds param to word 0 of its output

class Queues : public testing::Test {
 protected:
  void SetUp() override {
    auto program = check_text(
        "handler answer = 64 { args[9] = args[0] + args[1]; args[10] = args[0]; args[11] = 7; }"
        "handler spin = 65 { while true { args[0] = args[0] + 1; } }"
        "handler forever = 66 { yield; }"
        "handler add = 67 { atomic_add(output[0], param); }");
    ASSERT_TRUE(program) << message_of(program);
    auto made = Megakernel::create(
        backend::cpu::make_backend(),
        {.handlers = *program, .fuel_per_item = std::uint64_t{1} << 60, .worker_count = 2});
    ASSERT_TRUE(made) << message_of(made);
    kernel.emplace(std::move(*made));
    auto started = kernel->start();
    ASSERT_TRUE(started) << message_of(started);
    session.emplace(std::move(*started));
  }
  Queue open(const QueueOptions& options = {}) {
    auto opened = session->open_queue(options);
    EXPECT_TRUE(opened) << message_of(opened);
    return std::move(*opened);
  }

  std::optional<Megakernel> kernel;
  std::optional<Session> session;
};

}  // namespace everkernel::test
