// The processor time that an idle session takes.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"
#include "support/results.hpp"

namespace everkernel {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

microseconds processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto time = [](const timeval& value) {
    return seconds(value.tv_sec) + microseconds(value.tv_usec);
  };
  return time(usage.ru_utime) + time(usage.ru_stime);
}

TEST(IdleSession, uses_less_than_a_thousandth_of_a_core) {
  auto kernel = Megakernel::create(backend::cpu::make_backend(), {.worker_count = 4});
  ASSERT_TRUE(kernel);
  auto session = kernel->start();
  ASSERT_TRUE(session);
  const auto ticket = session->publish({});
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(session->wait(*ticket, seconds(5)));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // workers go to sleep
  const auto before = processor_time();
  std::this_thread::sleep_for(seconds(3));
  EXPECT_LT(processor_time() - before, std::chrono::milliseconds(3));
  // The session still runs items.
  const auto late = session->publish({});
  ASSERT_TRUE(late);
  EXPECT_TRUE(session->wait(*late, seconds(5)));
}

}  // namespace
}  // namespace everkernel
