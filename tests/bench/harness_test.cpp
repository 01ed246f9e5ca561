// What a benchmark says about its contenders, with figures that are given instead of measured.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "support/temp_dir.hpp"

namespace everkernel::bench {
namespace {

using nlohmann::json;

// A contender with these figures in every round.
Contender given(std::string name, std::vector<double> figures,
                std::vector<Comparison> comparisons = {}) {
  return {.name = std::move(name),
          .measure_all = [figures = std::move(figures)] { return figures; },
          .comparisons = std::move(comparisons)};
}

class Harness : public testing::Test {
 protected:
  Options options_with(std::string only = {}) const {
    return {.json_path = (dir_.path() / "rows.json").string(), .only = std::move(only)};
  }
  json rows() const { return json::parse(test::read_text(dir_.path() / "rows.json"))["results"]; }

  test::TempDir dir_;
};

Question question_of(std::vector<Contender> contenders) {
  return {.name = "item",
          .text = "an item",
          .items = 1,
          .contenders = std::move(contenders),
          .rounds = 3,
          .figures = {"p50", "p99"}};
}

TEST_F(Harness, makes_a_question_of_each_figure) {
  Suite suite("given", options_with());
  suite.ask(question_of({given("floor", {10, 20}), given("other", {20, 100})}));
  const json found = rows();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[1]["question"], "item_p50");
  EXPECT_EQ(found[1]["median_ns"], 20);
  EXPECT_EQ(found[1]["ratio_to_floor"], 0.5);
  EXPECT_EQ(found[3]["question"], "item_p99");
  EXPECT_EQ(found[3]["median_ns"], 100);
  EXPECT_EQ(found[3]["ratio_to_floor"], 0.2);
  EXPECT_EQ(suite.finish(), 0);
}

TEST_F(Harness, compares_a_figure_with_the_same_of_another_contender) {
  Suite suite("given", options_with());
  suite.ask(question_of({given("floor", {10, 10}), given("alone", {100, 200}),
                         given("beside", {150, 700},
                               {{.than = "alone", .figure = "p50", .most_times = 1.6},
                                {.than = "alone", .figure = "p99", .most_times = 3}})}));
  const json found = rows();
  const json& p50 = found[2];
  EXPECT_EQ(p50["meets_target"], true);
  ASSERT_EQ(p50["comparisons"].size(), 1u);
  EXPECT_EQ(p50["comparisons"][0]["than"], "alone");
  EXPECT_EQ(p50["comparisons"][0]["times"], 1.5);
  EXPECT_EQ(p50["comparisons"][0]["more_ns"], 50);
  EXPECT_EQ(p50["comparisons"][0]["most_times"], 1.6);
  EXPECT_EQ(found[5]["meets_target"], false) << "3.5 times";
  EXPECT_FALSE(found[1].contains("meets_target")) << "nothing is promised";
}

TEST_F(Harness, judges_by_difference_and_by_the_worst_of_several_limits) {
  Suite suite("given", options_with());
  const std::vector<Comparison> tight{{.than = "floor", .figure = "p50", .most_more_ns = 49},
                                      {.than = "floor", .figure = "p50", .most_times = 9}};
  const std::vector<Comparison> loose{{.than = "floor", .figure = "p50", .most_more_ns = 50}};
  const std::vector<Comparison> none{{.than = "floor", .figure = "p50"}};
  suite.ask(question_of({given("floor", {10, 10}), given("tight", {60, 10}, tight),
                         given("loose", {60, 10}, loose), given("none", {60, 10}, none)}));
  const json found = rows();
  EXPECT_EQ(found[1]["meets_target"], false);
  EXPECT_EQ(found[2]["meets_target"], true);
  EXPECT_FALSE(found[3].contains("meets_target"));
  EXPECT_EQ(found[3]["comparisons"][0]["times"], 6);
}

TEST_F(Harness, asks_a_question_that_is_named_by_a_figure) {
  Suite suite("given", options_with("item_p99"));
  suite.ask(question_of({given("floor", {1, 1})}));
  EXPECT_EQ(suite.finish(), 0);
  EXPECT_EQ(rows().size(), 2u);
  Suite other("given", options_with("item_p999"));
  other.ask(question_of({given("floor", {1, 1})}));
  EXPECT_EQ(other.finish(), 2);
}

TEST_F(Harness, keeps_the_rows_of_others_when_a_contender_fails) {
  Suite suite("given", options_with());
  int runs = 0;
  const Contender failing{.name = "failing", .measure_all = [&]() -> std::vector<double> {
                            ++runs;
                            throw std::runtime_error("it fails");
                          }};
  const std::vector<Comparison> with_failing{{.than = "failing", .figure = "p50", .most_times = 1}};
  EXPECT_THROW(suite.ask(question_of(
                   {given("floor", {10, 10}), failing, given("other", {20, 20}, with_failing)})),
               std::runtime_error);
  EXPECT_EQ(runs, 1);
  const json found = rows();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[1]["contender"], "other");
  EXPECT_FALSE(found[1].contains("meets_target")) << "there is nothing to compare with";
}

TEST_F(Harness, keeps_the_rows_so_far_when_a_contender_does_not_end) {
  const Contender stuck{.name = "stuck", .measure = [] {
                          std::this_thread::sleep_for(std::chrono::minutes(1));
                          return 1.0;
                        }};
  EXPECT_EXIT(
      {
        Suite suite("given", options_with());
        suite.set_patience(std::chrono::seconds(1));
        suite.ask(question_of({given("floor", {1, 1})}));
        suite.ask({.name = "wait", .text = "a wait", .items = 1, .contenders = {stuck}});
      },
      testing::ExitedWithCode(1), "wait: stuck has not ended in 1 s");
  EXPECT_EQ(rows().size(), 2u);
}

}  // namespace
}  // namespace everkernel::bench
