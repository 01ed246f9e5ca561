// Rows 17, 22, 23: every public operation, with the n-th allocation, thread creation or system call
// failing, once and for ever, for every n until the operation passes.
//
// A failed operation says so with a typed error (or lets std::bad_alloc through), and the same call
// succeeds afterwards with the result that it has without a fault. Each operation runs in a child
// process, so that a crash, a hang or a leak is found and named.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <new>
#include <set>

#include "child.hpp"
#include "injection.hpp"
#include "operations.hpp"

namespace everkernel::test {
namespace {

constexpr int kSecondsPerOperation = 60;
constexpr std::uint64_t kMostFaults = 5000;

// How one attempt ended.
struct Attempt {
  bool is_done = false;
  std::string problem = {};  // other than that the resource is missing
  std::string failed_call = {};
  bool has_failed = false;  // whether any call failed
};

Attempt attempt(World& world, const Injection& injection, const std::set<Code>& allowed) {
  Attempt result;
  const Injected injected(injection);
  try {
    const auto ended = world.act();
    result.is_done = ended.has_value();
    if (!ended && !allowed.contains(ended.error().code)) {
      result.problem = fmt::format("{}: {}", code_name(ended.error().code), ended.error().message);
    }
  } catch (const std::bad_alloc&) {
    if (!allowed.contains(Code::out_of_memory)) result.problem = "bad_alloc";
  } catch (const std::exception& thrown) {
    result.problem = fmt::format("exception {}", thrown.what());
  }
  result.has_failed = injected.has_failed();
  result.failed_call = injected.first_failed();
  return result;
}

// Tries an operation with one fault; false once the operation needs no more calls.
bool try_fault(const Trial& trial, const Injection& injection, const std::set<Code>& allowed,
               const std::string& expected, Journal& journal) {
  journal.note(fmt::format(
      "{}, call {} {}{}", trial.name, injection.skip + 1,
      injection.for_ever ? "and all later ones" : "alone",
      injection.resource == Resource::system_call ? ": " + fault_name(injection.call_fault) : ""));
  const auto world = trial.make();
  world->prepare();
  const Attempt first = attempt(*world, injection, allowed);
  if (!first.problem.empty())
    journal.fail(fmt::format("{} ({})", first.problem, first.failed_call));
  if (!first.is_done) {
    const Attempt second = attempt(*world, {}, {});
    if (!second.is_done) {
      journal.fail(
          fmt::format("({}) the next call fails too: {}", first.failed_call, second.problem));
      return first.has_failed;
    }
  }
  const std::string found = world->look();
  if (found != expected) {
    journal.fail(fmt::format("({}) it leaves\n    {}\n  instead of\n    {}", first.failed_call,
                             found, expected));
  }
  return first.has_failed;
}

void try_all(const Trial& trial, Injection injection, const std::set<Code>& allowed,
             Journal& journal) {
  journal.note(trial.name + " without a fault");
  std::string expected;
  for (int i = 0; i < 2; ++i) {  // twice, so that lazily made tables of libraries are there
    const auto world = trial.make();
    world->prepare();
    if (!attempt(*world, {}, {}).is_done) journal.fail("it fails");
    expected = world->look();
  }
  for (const bool for_ever : {false, true}) {
    injection.for_ever = for_ever;
    injection.skip = 0;
    while (try_fault(trial, injection, allowed, expected, journal)) {
      if (++injection.skip == kMostFaults) return journal.fail("no end of faults");
    }
  }
}

class Operations : public testing::TestWithParam<std::size_t> {
 protected:
  static const Trial& trial() { return trials()[GetParam()]; }
  void expect_survived(const Injection& injection, const std::set<Code>& allowed) {
    const std::string problem = run_in_child(kSecondsPerOperation, [&](Journal& journal) {
      try_all(trial(), injection, allowed, journal);
    });
    EXPECT_EQ(problem, "");
  }
};

TEST_P(Operations, survive_every_allocation_that_fails) {
  expect_survived({.resource = Resource::allocation}, {Code::out_of_memory});
}

TEST_P(Operations, survive_allocations_of_workers_that_fail) {
  if (trial().compiles) GTEST_SKIP() << "LLVM ends the process when it has no memory";
  expect_survived({.resource = Resource::allocation, .all_threads = true}, {Code::out_of_memory});
}

TEST_P(Operations, survive_every_thread_that_cannot_be_made) {
  expect_survived({.resource = Resource::thread, .all_threads = true},
                  {Code::out_of_memory, Code::unsupported, Code::io});
}

TEST_P(Operations, survive_every_system_call_that_fails) {
  for (const CallFault fault : {CallFault::no_space, CallFault::io_error, CallFault::too_many_files,
                                CallFault::no_memory}) {
    expect_survived({.resource = Resource::system_call, .all_threads = true, .call_fault = fault},
                    {Code::out_of_memory, Code::io});
  }
}

TEST_P(Operations, notice_no_system_call_that_is_interrupted_or_short) {
  for (const CallFault fault : {CallFault::interrupted, CallFault::short_transfer}) {
    expect_survived({.resource = Resource::system_call, .all_threads = true, .call_fault = fault},
                    {});
  }
}

std::string name_of_trial(const testing::TestParamInfo<std::size_t>& info) {
  std::string name;
  for (const char c : trials()[info.param].name) name += std::isalnum(c) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(all, Operations, testing::Range<std::size_t>(0, trials().size()),
                         name_of_trial);

}  // namespace
}  // namespace everkernel::test
