// Work that overlaps with a step of a generating group: new requests, refusals, answers.
#include "support/generation.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

class OverlappedGeneration : public Generation {
 protected:
  OverlappedGeneration() { is_async_ = true; }
  ~OverlappedGeneration() override { stream_clock_.release(); }
};

// While a step computes, requests are accepted and prepared, and refusals are answered.
TEST_F(OverlappedGeneration, AcceptsRequestsWhileAStepRuns) {
  open("beams-4");
  const auto cases = cases_of("beams-4");
  stream_clock_.holds = true;
  const request::Request& first = submit(cases[0].ids);
  BatchFigures figures;
  EXPECT_EQ(executor_->step(*this, figures), 0u);
  EXPECT_EQ(figures.num_tokens, 0u);
  EXPECT_EQ(executor_->num_executing(), 1u);
  const request::Request& second = submit(cases[1].ids);
  const request::Request& bad = submit({97});
  EXPECT_EQ(executor_->step(*this, figures), 1u);
  EXPECT_EQ(figures.num_refused, 1u);
  EXPECT_EQ(figures.num_requests, 0u);
  EXPECT_EQ(order_, std::vector<const request::Request*>{&bad});
  EXPECT_EQ(bad.status, StatusCode::kMalformed);
  EXPECT_EQ(executor_->num_queued(), 1u);
  EXPECT_FALSE(executor_->has_results());
  stream_clock_.release();
  run_all();
  expect_tokens(first, cases[0].tokens);
  expect_tokens(second, cases[1].tokens);
}

// A sequence takes many steps. Only the first reads the request's packets.
TEST_F(OverlappedGeneration, ReleasesPacketsOnceTheSourceIsEncoded) {
  open("beams-4");
  const auto c = cases_of("beams-4")[7];
  ASSERT_GT(c.tokens.size(), 2u);
  stream_clock_.holds = true;
  submit(c.ids);
  BatchFigures figures;
  executor_->step(*this, figures);
  EXPECT_FALSE(executor_->has_read_packets());
  EXPECT_TRUE(released_.empty());
  stream_clock_.release();
  for (int i = 0; i < 10'000'000 && !executor_->has_read_packets(); ++i) std::this_thread::yield();
  ASSERT_TRUE(executor_->has_read_packets());
  executor_->step(*this, figures);
  EXPECT_EQ(released_.size(), 1u);
  EXPECT_EQ(completed_, 0u);
  run_all();
  EXPECT_EQ(released_.size(), 1u);
  expect_tokens(requests_[0], c.tokens);
}

TEST_P(GenerationBothWays, ReleasesEachRequestsPacketsOnce) {
  open("beams-4");
  const auto cases = cases_of("beams-4");
  for (const Case& one : cases) {
    submit(one.ids);
    step();
  }
  run_all();
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(released_.count(&requests_[i]), 1u);
    expect_tokens(requests_[i], cases[i].tokens);
  }
}

// A finished sequence frees its beams and blocks. The next sequence already runs when it is
// answered.
TEST_F(OverlappedGeneration, WaitingSequencesEnterBeforeFinishedOnesAreAnswered) {
  open("beams-4", {.max_beams = 4});
  const auto c = cases_of("beams-4")[7];
  for (int i = 0; i < 3; ++i) submit(c.ids);
  uint32_t steps = 0;
  for (; completed_ < 3; ++steps) {
    ASSERT_GT(step().num_tokens, 0u);
    EXPECT_EQ(executor_->num_executing(), completed_ < 3 ? 1u : 0u);
  }
  EXPECT_EQ(steps, 3 * c.tokens.size());
  for (const request::Request& r : requests_) expect_tokens(r, c.tokens);
}

TEST_F(OverlappedGeneration, FinishEndsTheRunningStepAndBeginsNone) {
  open("beams-4");
  const auto c = cases_of("beams-4")[7];
  submit(c.ids);
  stream_clock_.holds = true;
  BatchFigures figures;
  executor_->step(*this, figures);
  stream_clock_.release();
  executor_->finish(*this, figures);
  EXPECT_EQ(figures.num_tokens, c.ids.size() + 1);
  EXPECT_EQ(executor_->num_executing(), 1u) << "the sequence continues";
  EXPECT_FALSE(executor_->has_results());
  executor_->finish(*this, figures);
  EXPECT_EQ(figures.num_tokens, 0u);
  EXPECT_GT(executor_->cache().num_used, 0u);
  run_all();
  expect_tokens(requests_[0], c.tokens);
}

}  // namespace
}  // namespace itif::runtime
