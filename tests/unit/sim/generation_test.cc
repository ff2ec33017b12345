// Simulations of models that generate: lengths of answers, joining and cleaning, beams, memory.
#include <gtest/gtest.h>

#include "sim/scenario_file.h"
#include "world.h"

namespace itif::sim {
namespace {

using test::run;

// A small Marian on a V100.
Scenario generating() {
  Scenario s = test::small_scenario();
  s.model = {.preset = "marian-tiny", .decoder_layers = 2, .vocab = 1024};
  s.passes_marks = true;
  s.arrivals.rate = 200;
  s.output = {.kind = OutputKind::kUniform, .from = 2, .to = 40};
  s.tenants = {{.name = "a"}, {.name = "b", .share = 2}};
  return s;
}

void expect_all_right(const Results& r, const std::string& what) {
  const TenantResults all = r.total();
  EXPECT_GT(all.sent, 100u) << what;
  EXPECT_EQ(all.answered, all.sent) << what;
  EXPECT_EQ(r.wrong_answers, 0u) << what;
}

TEST(Generation, AnswersHaveTheTokensOfTheirRequests) {
  const Results r = run(generating());
  expect_all_right(r, "uniform");
  const TenantResults all = r.total();
  EXPECT_NEAR(static_cast<double>(all.output_tokens) / static_cast<double>(all.answered), 21, 2);
  EXPECT_TRUE(r.generates);
}

TEST(Generation, OutputsAreAsLongAsTheScenarioSays) {
  Scenario s = generating();
  s.output = {};
  Results r = run(s);
  expect_all_right(r, "as_source");
  EXPECT_EQ(r.total().output_tokens, r.total().tokens);
  s.output = {.kind = OutputKind::kFixed, .from = 7};
  r = run(s);
  expect_all_right(r, "fixed");
  EXPECT_EQ(r.total().output_tokens, 7 * r.total().answered);
}

TEST(Generation, EveryJoiningCleaningAndPlannerAnswersRight) {
  for (const char* joining : {"steps", "batches"})
    for (const char* cleaning : {"sequence", "slot", "batch"})
      for (const char* planner :
           {"packed", "naive", "concat:row_tokens=100", "slotted:row_tokens=200,slot_tokens=100"}) {
        Scenario s = generating();
        s.duration_ns = 600'000'000;
        s.arrivals.rate = 600;
        s.batching.joining = joining;
        s.batching.cleaning = cleaning;
        s.batching.planner = planner;
        s.batching.max_beams = 32;
        expect_all_right(run(s), fmt::format("{} {} {}", joining, cleaning, planner));
      }
}

TEST(Generation, BeamsAnswerAsAGreedySearch) {
  Scenario s = generating();
  s.output.beams = 4;
  const Results r = run(s);
  expect_all_right(r, "4 beams");
  s.output.beams = 1;
  EXPECT_EQ(r.total().output_tokens, run(s).total().output_tokens);
}

TEST(Generation, OneSeedGivesOneEventLog) {
  Scenario s = generating();
  s.link.loss = s.link.duplication = 0.05;
  const Results first = run(s, true), second = run(s, true);
  EXPECT_GT(first.log_events, 1000u);
  EXPECT_EQ(first.log_events, second.log_events);
  EXPECT_EQ(first.log_hash, second.log_hash);
  s.seed = 2;
  EXPECT_NE(run(s, true).log_hash, first.log_hash);
}

// Batches that run to their end leave beams unused towards it.
TEST(Generation, JoiningAtStepsAnswersMoreUnderLoad) {
  Scenario s = generating();
  s.passes_marks = false;
  s.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = 64};
  s.batching.max_beams = 16;
  const double steps = static_cast<double>(run(s).total().answered);
  s.batching.joining = "batches";
  EXPECT_GT(steps, 1.2 * static_cast<double>(run(s).total().answered));
}

// A cache of 64 blocks has room for few sequences, whose worst case is reserved.
TEST(Generation, AFullCacheMakesSequencesWait) {
  Scenario s = generating();
  s.passes_marks = false;
  s.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = 64};
  const Results roomy = run(s);
  s.batching.kv_cache_bytes = 1u << 20;
  const Results tight = run(s);
  EXPECT_EQ(tight.total().answered, tight.total().sent);
  EXPECT_LT(tight.total().answered, roomy.total().answered);
}

TEST(Generation, OtherPlannersAreRefusedByName) {
  for (const char* planner : {"turbo", "itif", "joint", "auto"}) {
    Scenario s = generating();
    s.batching.planner = planner;
    const Status refused = check(s);
    ASSERT_FALSE(refused) << planner;
    EXPECT_NE(refused.error().message.find(fmt::format("batching.planner: '{}'", planner)),
              std::string::npos)
        << refused.error().message;
  }
}

TEST(Generation, SettingsOfADecoderAreRefusedWithoutOne) {
  Scenario s = test::small_scenario();
  s.output.kind = OutputKind::kFixed;
  EXPECT_NE(check(s).error().message.find("output"), std::string::npos);
  s.output = {};
  s.model.decoder_layers = 2;
  EXPECT_NE(check(s).error().message.find("model.decoder_layers"), std::string::npos);
  s = generating();
  s.device.profile = "costs.txt";
  EXPECT_NE(check(s).error().message.find("device.profile"), std::string::npos);
  s = generating();
  s.model.vocab = 100;
  EXPECT_NE(check(s).error().message.find("model.vocab"), std::string::npos);
}

}  // namespace
}  // namespace itif::sim
