// Draws of arrivals, lengths and deadlines, against their distributions' moments.
#include "sim/workload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

namespace itif::sim {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

std::vector<Draw> draw(const Scenario& scenario, uint32_t max_tokens = 512) {
  auto workload = Workload::make(scenario, scenario.duration_ns, max_tokens, 7);
  EXPECT_TRUE(workload) << (workload ? "" : workload.error().message);
  std::vector<Draw> all;
  while (const auto next = workload->next()) all.push_back(*next);
  return all;
}

// Variance over mean of the counts per window: 0 for a clock, 1 for Poisson, more for bursts.
double dispersion(const std::vector<Draw>& draws, uint64_t duration_ns, uint64_t window_ns) {
  std::vector<double> counts(duration_ns / window_ns);
  for (const Draw& d : draws)
    if (d.arrival_ns / window_ns < counts.size()) ++counts[d.arrival_ns / window_ns];
  double mean = 0, square = 0;
  for (const double count : counts) mean += count / static_cast<double>(counts.size());
  for (const double count : counts)
    square += (count - mean) * (count - mean) / static_cast<double>(counts.size());
  return square / mean;
}

Scenario of(ArrivalKind kind) {
  Scenario s;
  s.duration_ns = 200 * kSecond;
  s.arrivals.kind = kind;
  s.arrivals.rate = 200;
  return s;
}

TEST(Workload, EveryArrivalKindKeepsItsRate) {
  for (const ArrivalKind kind : {ArrivalKind::kPoisson, ArrivalKind::kConstant,
                                 ArrivalKind::kBursty, ArrivalKind::kDiurnal}) {
    Scenario s = of(kind);
    s.arrivals.period_ns = 20 * kSecond;
    const auto draws = draw(s);
    EXPECT_NEAR(static_cast<double>(draws.size()), 40'000,
                kind == ArrivalKind::kBursty ? 4000 : 700)
        << static_cast<int>(kind);
    for (size_t i = 1; i < draws.size(); ++i)
      ASSERT_GE(draws[i].arrival_ns, draws[i - 1].arrival_ns);
  }
}

TEST(Workload, ArrivalKindsDifferInDispersion) {
  const uint64_t window = kSecond / 4;
  const auto of_kind = [&](ArrivalKind kind) {
    return dispersion(draw(of(kind)), 200 * kSecond, window);
  };
  EXPECT_LT(of_kind(ArrivalKind::kConstant), 0.05);
  EXPECT_NEAR(of_kind(ArrivalKind::kPoisson), 1, 0.25);
  EXPECT_GT(of_kind(ArrivalKind::kBursty), 5);
}

TEST(Workload, DiurnalArrivalsFollowTheSine) {
  Scenario s = of(ArrivalKind::kDiurnal);
  s.arrivals.period_ns = 200 * kSecond;
  size_t first_half = 0;
  const auto draws = draw(s);
  for (const Draw& d : draws) first_half += d.arrival_ns < 100 * kSecond;
  // ∫ (1 + 0.8 sin) over half a period, over the whole: 1/2 + 0.8/π.
  EXPECT_NEAR(static_cast<double>(first_half) / static_cast<double>(draws.size()), 0.5 + 0.8 / M_PI,
              0.02);
}

TEST(Workload, ThePapersNormalLengths) {
  const auto draws = draw(of(ArrivalKind::kConstant));
  double mean = 0, square = 0;
  for (const Draw& d : draws) {
    ASSERT_GE(d.num_tokens, 3u);
    ASSERT_LE(d.num_tokens, 100u);
    mean += d.num_tokens / static_cast<double>(draws.size());
  }
  for (const Draw& d : draws)
    square += (d.num_tokens - mean) * (d.num_tokens - mean) / static_cast<double>(draws.size());
  EXPECT_NEAR(mean, 20, 0.2);
  EXPECT_NEAR(square, 20, 1);
}

TEST(Workload, DrawsDeadlinesAndCutsLengths) {
  Scenario s = of(ArrivalKind::kConstant);
  s.lengths = {.kind = LengthKind::kUniform, .from = 1, .to = 50};
  s.deadlines = {.kind = DeadlineKind::kByLength, .from_ns = 1000, .token_ns = 10};
  for (const Draw& d : draw(s, 40)) {
    ASSERT_LE(d.num_tokens, 40u);
    ASSERT_EQ(d.deadline_ns, 1000 + 10 * d.num_tokens);
  }
  s.deadlines = {.kind = DeadlineKind::kUniform, .from_ns = 1000, .to_ns = 2000};
  double mean = 0;
  const auto draws = draw(s);
  for (const Draw& d : draws)
    mean += static_cast<double>(d.deadline_ns) / static_cast<double>(draws.size());
  EXPECT_NEAR(mean, 1500, 10);
}

class TraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/itif-trace-XXXXXX";
    close(mkstemp(name));
    path_ = name;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  Scenario scenario(const std::string& text) {
    std::ofstream(path_) << text;
    Scenario s = of(ArrivalKind::kTrace);
    s.tenants = {{.name = "a"}, {.name = "b"}};
    s.arrivals.trace = path_;
    return s;
  }
  std::string error_of(const std::string& text) {
    const Scenario s = scenario(text);
    const auto made = Workload::make(s, s.duration_ns, 512, 1);
    return made ? "" : made.error().message;
  }
  std::string path_;
};

TEST_F(TraceTest, IsReplayedAsWritten) {
  const auto draws = draw(scenario("# a comment\n0.5 10 1 25\n\n1 20 0\n1.5 30\n"));
  ASSERT_EQ(draws.size(), 3u);
  EXPECT_EQ(draws[0].arrival_ns, kSecond / 2);
  EXPECT_EQ(draws[0].num_tokens, 10u);
  EXPECT_EQ(draws[0].tenant, 1u);
  EXPECT_EQ(draws[0].deadline_ns, 25'000'000u);
  EXPECT_EQ(draws[1].tenant, 0u);
  EXPECT_EQ(draws[2].num_tokens, 30u);
}

TEST_F(TraceTest, ErrorsNameTheLine) {
  EXPECT_NE(error_of("1 5\n0 5\n").find(":2: times must not decrease"), std::string::npos);
  EXPECT_NE(error_of("1 0\n").find(":1: a request has at least one token"), std::string::npos);
  EXPECT_NE(error_of("1 5 2\n").find(":1: the scenario has no such tenant"), std::string::npos);
  EXPECT_NE(error_of("x\n").find(":1: expected"), std::string::npos);
  EXPECT_NE(error_of("1 5 0 1 9\n").find(":1: more fields"), std::string::npos);
  EXPECT_NE(error_of("1 5 0 -5\n").find(":1: a deadline is above 0"), std::string::npos);
  EXPECT_NE(error_of("1e300 5\n").find(":1: a trace has at most 30 days"), std::string::npos);
  EXPECT_NE(error_of("# nothing\n").find("has no requests"), std::string::npos);
}

}  // namespace
}  // namespace itif::sim
