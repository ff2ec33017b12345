// The search for the highest rate, against simulated servers, and the judgement of its trials.
#include "tools/itif-loadgen/search.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "tests/unit/client/loadgen_options.h"
#include "tools/itif-loadgen/sweep_plot.h"
#include "tools/itif-loadgen/trial.h"
#include "tools/itif-loadgen/trials.h"

namespace itif::loadgen {
namespace {

constexpr uint32_t kMostTrials = 60;

// A server that answers all requests up to a rate, and a generator that sends up to a rate.
struct Bench {
  double server_limit = 1e12;
  double generator_limit = 1e12;
  std::vector<double> rates = {};

  Found find(const SearchBounds& bounds) {
    return find_rate(bounds, [&](double rate) {
      rates.push_back(rate);
      EXPECT_LE(rates.size(), kMostTrials);
      if (rates.size() > kMostTrials) return Verdict::kInterrupted;
      if (rate > generator_limit) return Verdict::kGenerator;
      return rate > server_limit ? Verdict::kServer : Verdict::kPassed;
    });
  }
};

TEST(Search, FindsTheLimitWithinThePrecisionFromAnyStart) {
  for (const double limit : {0.2, 37.0, 812.5, 99'999.0}) {
    for (const double start : {0.1, 100.0, 1e6}) {
      for (const double precision : {10.0, 1.0, 0.1}) {
        Bench bench{.server_limit = limit};
        const Found found = bench.find({.start = start, .precision_percent = precision});
        EXPECT_LE(found.rate, limit);
        EXPECT_GE(found.rate, limit * (1 - precision / 100)) << limit << " from " << start;
        EXPECT_EQ(found.limited_by, LimitedBy::kServer);
      }
    }
  }
}

TEST(Search, NoTrialIsAboveTheHighestRate) {
  Bench bench{.server_limit = 700};
  const Found found = bench.find({.start = 1000, .highest = 1000});
  EXPECT_NEAR(found.rate, 700, 7);
  EXPECT_EQ(*std::ranges::max_element(bench.rates), 1000);

  Bench fast;
  const Found highest = fast.find({.start = 1000, .highest = 1000});
  EXPECT_EQ(highest.rate, 1000);
  EXPECT_EQ(highest.limited_by, LimitedBy::kHighest);
  EXPECT_EQ(fast.rates.size(), 1u);
  // From below, the highest rate is itself tried.
  Bench doubled;
  EXPECT_EQ(doubled.find({.start = 300, .highest = 1000}).rate, 1000);
  EXPECT_EQ(doubled.rates, (std::vector<double>{300, 600, 1000}));
}

TEST(Search, AServerThatAlwaysLosesGivesZero) {
  Bench bench{.server_limit = 0};
  const Found found = bench.find({.start = 100, .lowest = 1});
  EXPECT_EQ(found.rate, 0);
  EXPECT_EQ(found.limited_by, LimitedBy::kServer);
  EXPECT_EQ(bench.rates.back(), 1);
  EXPECT_LE(bench.rates.size(), 9u);
}

TEST(Search, NamesTheGeneratorIfItSetTheUpperBound) {
  Bench bench{.server_limit = 5000, .generator_limit = 3000};  // its failed trials run twice
  const Found found = bench.find({});
  EXPECT_NEAR(found.rate, 3000, 30);
  EXPECT_EQ(found.limited_by, LimitedBy::kGenerator);
  // It is too slow for the first bounds only.
  Bench slow{.server_limit = 2990, .generator_limit = 3000};
  EXPECT_EQ(slow.find({.precision_percent = 0.1}).limited_by, LimitedBy::kServer);
}

// A stall of the machine once set the upper bound.
TEST(Search, RepeatsATrialThatTheGeneratorLimited) {
  std::vector<double> stalled;
  const Found found = find_rate({}, [&](double rate) {
    if (std::ranges::find(stalled, rate) == stalled.end()) {
      stalled.push_back(rate);
      return Verdict::kGenerator;
    }
    return rate > 812.5 ? Verdict::kServer : Verdict::kPassed;
  });
  EXPECT_NEAR(found.rate, 812.5, 8.2);
  EXPECT_EQ(found.limited_by, LimitedBy::kServer);
}

TEST(Search, EndsWithTheBestRateAtAnInterrupt) {
  uint32_t trials = 0;
  const Found found = find_rate(
      {}, [&](double) { return ++trials == 3 ? Verdict::kInterrupted : Verdict::kPassed; });
  EXPECT_EQ(found.rate, 200);
  EXPECT_EQ(found.limited_by, LimitedBy::kInterrupted);
  EXPECT_EQ(trials, 3u);
}

// Near its limit the server passes a trial by chance only: from 900/s always, above 1100/s never.
TEST(Search, RepeatsOverANoisyServerSpreadOverItsNoise) {
  Random random(3);
  std::vector<double> rates;
  SearchBounds bounds;
  for (int repeat = 0; repeat < 21; ++repeat) {
    const Found found = find_rate(bounds, [&](double rate) {
      return rate > 900 + 200 * random.uniform() ? Verdict::kServer : Verdict::kPassed;
    });
    rates.push_back(bounds.start = found.rate);
  }
  const Spread spread = spread_of(rates);
  EXPECT_GE(spread.least, 900 * 0.99);
  EXPECT_LE(spread.most, 1100);
  EXPECT_NEAR(spread.median, 1000, 60);
  EXPECT_GT(spread.percent(), 1);
}

TEST(Search, SpreadIsOfTheMedian) {
  const double odd[] = {30, 10, 20}, even[] = {10, 30, 20, 40}, none[] = {0, 0};
  EXPECT_EQ(spread_of(odd).median, 20);
  EXPECT_EQ(spread_of(odd).percent(), 100);
  EXPECT_EQ(spread_of(even).median, 25);
  EXPECT_EQ(spread_of(none).percent(), 0);
}

// 1000 requests sent in 1 s, of which `missing` are lost.
Results results_of(uint64_t sent, uint64_t missing) {
  Results results(2);
  results.targets[0].sent = sent;
  results.targets[0].answered = results.targets[0].in_time = sent - missing;
  results.targets[0].lost = missing;
  results.measured_ns = 1'000'000'000;
  return results;
}

TEST(Judge, AllowsTheLossOfTheGoal) {
  const Options options = basic_options();
  EXPECT_EQ(judge(options, results_of(1000, 0), 0).verdict, Verdict::kPassed);
  const Judgement lost = judge(options, results_of(1000, 1), 0);
  EXPECT_EQ(lost.verdict, Verdict::kServer);
  EXPECT_NE(lost.reason.find("1 of 1000"), std::string::npos) << lost.reason;
  EXPECT_EQ(judge(options, results_of(1000, 5), 0.5).verdict, Verdict::kPassed);
  EXPECT_EQ(judge(options, results_of(1000, 6), 0.5).verdict, Verdict::kServer);
  EXPECT_EQ(judge(options, results_of(199, 1), 0.5).verdict, Verdict::kServer);
}

TEST(Judge, RefusedAndLateRequestsAreLost) {
  const Options options = basic_options();
  Results refused = results_of(1000, 1);
  refused.targets[0].lost = 0;
  refused.targets[0].refused = 1;
  EXPECT_EQ(judge(options, refused, 0).verdict, Verdict::kServer);
  Results late = results_of(1000, 0);
  late.targets[0].in_time = 990;
  EXPECT_EQ(judge(options, late, 0.5).verdict, Verdict::kServer);
  EXPECT_DOUBLE_EQ(loss_percent(late.total()), 1);
}

TEST(Judge, ATrialThatWasNotOfferedIsNotTheServersLimit) {
  const Options options = basic_options();
  Results unsent = results_of(1000, 0);
  unsent.unsent = 20;
  EXPECT_EQ(judge(options, unsent, 0).verdict, Verdict::kGenerator);
  // The answers of a program that is too slow are late, too.
  unsent.targets[0].in_time = 500;
  EXPECT_EQ(judge(options, unsent, 0).verdict, Verdict::kGenerator);
  // All were sent, but the last of them 20 ms after the second.
  Results late = results_of(1000, 0);
  late.last_lateness_ns = 20'000'000;
  const Judgement judged = judge(options, late, 0);
  EXPECT_EQ(judged.verdict, Verdict::kGenerator);
  EXPECT_NE(judged.reason.find("98.0 %"), std::string::npos) << judged.reason;
  late.last_lateness_ns = 5'000'000;
  EXPECT_EQ(judge(options, late, 0).verdict, Verdict::kPassed);
  EXPECT_EQ(judge(options, Results(2), 0).verdict, Verdict::kGenerator);
}

TEST(Judge, AFullWindowIsTheServersLimitOnlyIfRequestsWereLost) {
  const Options options = basic_options();
  Results full = results_of(1000, 0);
  full.unsent = 200;
  full.was_full = true;
  const Judgement judged = judge(options, full, 0);
  EXPECT_EQ(judged.verdict, Verdict::kGenerator);
  EXPECT_NE(judged.reason.find("--max-in-flight"), std::string::npos) << judged.reason;
  Results lossy = results_of(1000, 10);
  lossy.unsent = 200;
  lossy.was_full = true;
  EXPECT_EQ(judge(options, lossy, 0).verdict, Verdict::kServer);
}

TEST(Judge, AnswersDroppedHereAreNotTheServersLoss) {
  const Options options = basic_options();
  Results results = results_of(1000, 10);
  results.dropped_here = 9;
  EXPECT_EQ(judge(options, results, 0).verdict, Verdict::kServer);
  results.dropped_here = 10;
  EXPECT_EQ(judge(options, results, 0).verdict, Verdict::kGenerator);
  results.dropped_here = 5;
  EXPECT_EQ(judge(options, results, 0.5).verdict, Verdict::kGenerator);
}

TEST(SearchReport, NamesMedianSpreadAndLimits) {
  Options options = basic_options();
  options.goals = {{"NDR", 0}, {"PDR 1 %", 1}};
  options.repeats = 3;
  SearchResults ndr{.goal = options.goals[0],
                    .repeats = 3,
                    .found = {{800, LimitedBy::kServer},
                              {1000, LimitedBy::kServer},
                              {900, LimitedBy::kGenerator}},
                    .trials = {}};
  Trial trial{.repeat = 1, .rate = 800, .results = results_of(1000, 10), .judgement = {}};
  trial.judgement = judge(options, trial.results, 0);
  ndr.trials.push_back(trial);
  SearchResults pdr{
      .goal = options.goals[1], .repeats = 1, .found = {{0, LimitedBy::kServer}}, .trials = {}};
  EXPECT_TRUE(ndr.succeeded());
  EXPECT_FALSE(pdr.succeeded());
  const std::string text = search_table({ndr, pdr});
  for (const char* part :
       {"NDR: 900 requests/s (median of 3; 800 to 1000, a spread of 22 %); limited by the server "
        "(2 of 3), this program (1 of 3)\n",
        "PDR 1 %: 0 requests/s", "no rate passed", "10 of 1000 without an answer in time"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  const auto json = search_json(options, {ndr, pdr});
  EXPECT_EQ(json["mode"], "search");
  EXPECT_EQ(json["configuration"]["repeats"], 3);
  EXPECT_EQ(json["configuration"].contains("rate"), false);
  const auto& first = json["searches"][0];
  EXPECT_EQ(first["goal"], "ndr");
  EXPECT_EQ(first["rate"]["median"], 900);
  EXPECT_EQ(first["found"][2]["limited_by"], "generator");
  EXPECT_EQ(first["trials"][0]["result"], "server");
  EXPECT_EQ(first["trials"][0]["total"]["lost"], 10);
  EXPECT_EQ(first["trials"][0]["loss_percent"], 1.0);
  EXPECT_EQ(json["searches"][1]["allowed_loss_percent"], 1.0);
  EXPECT_EQ(json["searches"][1]["succeeded"], false);
}

TEST(SweepFigure, HasPercentilesAndLossByRate) {
  std::vector<Trial> trials;
  for (const double rate : {100.0, 200.0}) {
    Trial trial{.repeat = 1, .rate = rate, .results = results_of(1000, 50), .judgement = {}};
    if (rate == 100) trial.results.targets[0].latency_ns.record(2'000'000);
    trials.push_back(trial);
  }
  const bench::Figure figure = sweep_figure(trials, "x");
  ASSERT_EQ(figure.panels.size(), 2u);
  ASSERT_EQ(figure.panels[0].lines.size(), 2u);
  EXPECT_EQ(figure.panels[0].lines[0].x, "100");
  ASSERT_TRUE(figure.panels[0].lines[0].y[1]);
  EXPECT_NEAR(*figure.panels[0].lines[0].y[1], 2, 0.04);
  EXPECT_FALSE(figure.panels[0].lines[1].y[0]) << "a rate without answers has no latency";
  EXPECT_EQ(figure.panels[1].lines[1].y[0], 5.0);
  trials.erase(trials.begin());
  const bench::Figure loss = sweep_figure(trials, "x");
  ASSERT_EQ(loss.panels.size(), 1u) << "gnuplot fails if a panel has no value";
  EXPECT_EQ(loss.panels[0].series[0], "loss");
  const Status plotted = plot_sweep(trials, "/nonexistent/x.svg");
  ASSERT_FALSE(plotted);
  EXPECT_EQ(plotted.error().code, Code::kPermission);
  EXPECT_TRUE(plotted.error().message.starts_with("--plot: ")) << plotted.error().message;
}

}  // namespace
}  // namespace itif::loadgen
