// The executor on an asynchronous stream: what it prepares while a batch computes, and when.
#include "plan/make_planner.h"
#include "support/executor_fixture.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

constexpr uint64_t kOverlapMs = 1'000'000;

class OverlappedExecutor : public testing::ExecutorFixture {
 protected:
  OverlappedExecutor() { stream_.is_async = true; }
  // Teaches the executor the cost of batches: 10 ms plus 0.1 ms a token.
  void learn() {
    for (int i = 0; i < 100; ++i) {
      submit(50 + 50 * (i % 3));
      run_all();
    }
    stream_.idle_ns = 0;
    group_.batches = 0;
    completed_.clear();
  }
};

TEST_F(OverlappedExecutor, BeginsABatchAndDoesNotWaitForIt) {
  request::Request& r = submit(100);
  EXPECT_EQ(step().num_requests, 0u);
  EXPECT_EQ(executor_->num_executing(), 1u);
  EXPECT_FALSE(executor_->has_results());
  EXPECT_TRUE(completed_.empty());
  clock_.advance_ns(20 * kOverlapMs);
  EXPECT_TRUE(executor_->has_results());
  const BatchFigures figures = step();
  EXPECT_EQ(figures.num_requests, 1u);
  EXPECT_EQ(figures.num_tokens, 100u);
  EXPECT_EQ(figures.execute_ns, 20 * kOverlapMs);
  EXPECT_EQ(completed_, (std::vector<request::Request*>{&r}));
  EXPECT_EQ(r.status, StatusCode::kOk);
  EXPECT_EQ(executor_->num_executing(), 0u);
}

TEST_F(OverlappedExecutor, ExecuteTimeExcludesTheBatchAhead) {
  for (const uint32_t tokens : {100, 10}) {
    submit(tokens);
    step();
  }
  ASSERT_EQ(group_.batches, 2u);
  clock_.advance_ns(40 * kOverlapMs);  // the host notices late
  EXPECT_EQ(step().execute_ns, 20 * kOverlapMs);
  EXPECT_EQ(step().execute_ns, 11 * kOverlapMs);
}

// The stage `launch` ends when the device begins with the batch, not when it gets it.
TEST_F(OverlappedExecutor, ABatchBeginsAfterTheBatchAhead) {
  request::Request& first = submit(100);
  step();
  request::Request& second = submit(10);
  step();
  ASSERT_EQ(group_.batches, 2u);
  const uint64_t start_ns = clock_.now_ns();
  clock_.advance_ns(20 * kOverlapMs);
  step();
  EXPECT_EQ(first.launched_ns, start_ns);
  EXPECT_EQ(first.done_ns, start_ns + 20 * kOverlapMs);
  clock_.advance_ns(11 * kOverlapMs);
  step();
  EXPECT_EQ(second.planned_ns, start_ns);
  EXPECT_EQ(second.launched_ns, start_ns + 20 * kOverlapMs);
  EXPECT_EQ(second.done_ns, start_ns + 31 * kOverlapMs);
}

// The second batch stays open until shortly before the first ends, so late arrivals still join it.
TEST_F(OverlappedExecutor, ChoosesTheNextBatchAsLateAsPossible) {
  learn();
  submit(100);
  step();
  const uint64_t end_ns = stream_.end_ns();
  submit(10);
  step();
  EXPECT_EQ(group_.batches, 1u);
  const uint64_t next_ns = executor_->next_step_ns();
  EXPECT_LT(next_ns, end_ns);
  EXPECT_GT(next_ns, end_ns - 2 * kOverlapMs);
  clock_.advance_ns(next_ns - 1 - clock_.now_ns());
  submit(20);
  step();
  EXPECT_EQ(group_.batches, 1u);
  clock_.advance_ns(1);
  size_t batch_size = 0;
  group_.on_batch = [&](std::span<const BatchRequest> segments) { batch_size = segments.size(); };
  EXPECT_EQ(step().num_requests, 0u) << "the first still runs";
  EXPECT_EQ(group_.batches, 2u);
  EXPECT_EQ(batch_size, 2u);
  EXPECT_EQ(executor_->num_executing(), 3u);
  run_all();
  EXPECT_EQ(stream_.idle_ns, 0u);
}

TEST_F(OverlappedExecutor, TheDeviceIsNeverIdleWhileRequestsWait) {
  learn();
  ExecutorOptions options;
  options.limits.max_tokens = 200;
  options.max_wait_ns = 0;
  make_executor(options);
  learn();
  for (int i = 0; i < 100; ++i) submit(100);
  run_all();
  EXPECT_EQ(group_.batches, 50u);
  EXPECT_EQ(stream_.idle_ns, 0u);
  EXPECT_EQ(completed_.size(), 100u);
  for (size_t i = 1; i < completed_.size(); ++i)
    EXPECT_LE(completed_[i - 1]->done_ns, completed_[i]->done_ns);
  for (const request::Request* r : completed_) EXPECT_EQ(r->status, StatusCode::kOk);
}

TEST_F(OverlappedExecutor, AtMostTwoBatchesAreInFlight) {
  // Without known costs the second batch begins immediately. A third must wait.
  for (int i = 0; i < 3; ++i) {
    submit(10);
    step();
  }
  EXPECT_EQ(group_.batches, 2u);
  EXPECT_EQ(executor_->num_queued(), 1u);
  EXPECT_EQ(executor_->next_step_ns(), 0u);
  run_all();
  EXPECT_EQ(group_.batches, 3u);
  EXPECT_EQ(completed_.size(), 3u);
}

// Otherwise the next batch's launches would run between two passes of this one.
TEST_F(OverlappedExecutor, TheNextBatchDoesNotInterleaveWithPasses) {
  executor_->planner().replace(
      plan::make_planner("naive", {.limits = executor_->planner().limits()}).value());
  std::vector<size_t> passes;
  group_.on_batch = [&](std::span<const BatchRequest> segments) {
    passes.push_back(segments.size());
  };
  for (int i = 0; i < 9; ++i) submit(i == 4 ? 500 : 10, 0, static_cast<uint32_t>(i % 3));
  step();
  submit(10);
  uint32_t refused = 0, requests = 0;
  while (executor_->num_queued() > 0 || executor_->num_executing() > 0) {
    const BatchFigures figures = step();
    requests += figures.num_requests;
    refused += figures.num_refused;
    pass_time();
  }
  EXPECT_EQ(passes, (std::vector<size_t>{6, 3, 1}));
  EXPECT_EQ(requests, 10u);
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(completed_.size(), 10u);
}

using Requests = std::vector<request::Request*>;

TEST_F(OverlappedExecutor, ReleasesPacketsOnceTheyAreRead) {
  stream_.reading_ns = 2 * kOverlapMs;
  request::Request& first = submit(100);
  step();
  clock_.advance_ns(2 * kOverlapMs - 1);
  EXPECT_FALSE(executor_->has_read_packets());
  step();
  EXPECT_TRUE(released_.empty());
  clock_.advance_ns(1);
  EXPECT_TRUE(executor_->has_read_packets());
  EXPECT_FALSE(executor_->has_results());
  EXPECT_EQ(step().num_requests, 0u);
  EXPECT_EQ(released_, (Requests{&first}));
  EXPECT_TRUE(completed_.empty());
  EXPECT_EQ(executor_->num_executing(), 1u);
  EXPECT_FALSE(executor_->has_read_packets());

  request::Request& second = submit(10);
  step();
  EXPECT_EQ(group_.batches, 2u);
  EXPECT_FALSE(executor_->has_read_packets()) << "it runs after the first";
  clock_.advance_ns(18 * kOverlapMs);
  step();
  EXPECT_EQ(completed_, (Requests{&first}));
  EXPECT_EQ(released_.size(), 1u);
  clock_.advance_ns(2 * kOverlapMs);
  step();
  EXPECT_EQ(released_, (Requests{&first, &second}));
  run_all();
  EXPECT_EQ(completed_, (Requests{&first, &second}));
  EXPECT_EQ(second.status, StatusCode::kOk);
}

TEST_F(OverlappedExecutor, CompletionReturnsPacketsNotYetReleased) {
  for (const uint64_t reading_ns : {UINT64_MAX, uint64_t{1}}) {
    stream_.reading_ns = reading_ns;
    submit(100);
    step();
    clock_.advance_ns(30 * kOverlapMs);
    step();
  }
  EXPECT_EQ(completed_.size(), 2u);
  EXPECT_TRUE(released_.empty());
}

// The packets of later passes have not been read yet.
TEST_F(OverlappedExecutor, EachPassReleasesOnlyItsOwnPackets) {
  executor_->planner().replace(
      plan::make_planner("naive", {.limits = executor_->planner().limits()}).value());
  stream_.reading_ns = kOverlapMs;
  std::vector<size_t> passes;
  group_.on_batch = [&](std::span<const BatchRequest> segments) {
    passes.push_back(segments.size());
    EXPECT_EQ(released_.size(), completed_.size()) << "passes run one by one";
    for (const BatchRequest& segment : segments)
      EXPECT_EQ(segment.request->pieces.front().data, ids_);
  };
  for (int i = 0; i < 9; ++i) submit(i == 4 ? 500 : 10, 0, static_cast<uint32_t>(i % 3));
  for (step(); executor_->num_executing() > 0; step()) clock_.advance_ns(kOverlapMs / 2);
  EXPECT_EQ(passes, (std::vector<size_t>{6, 3}));
  EXPECT_EQ(completed_.size(), 9u);
  EXPECT_EQ(released_, completed_);
}

TEST_F(OverlappedExecutor, AFailureAfterTheGatherAnswersRequestsWithoutPackets) {
  stream_.reading_ns = kOverlapMs;
  request::Request& r = submit(100);
  step();
  clock_.advance_ns(kOverlapMs);
  step();
  EXPECT_EQ(released_, (Requests{&r}));
  stream_.fails = true;
  run_all();
  EXPECT_EQ(completed_, (Requests{&r}));
  EXPECT_EQ(r.status, StatusCode::kDeviceFailed);
}

// The running batch counts: alone the late request would be in time.
TEST_F(OverlappedExecutor, DeadlinesIncludeTheRunningBatch) {
  learn();
  submit(100);
  step();
  clock_.advance_ns(executor_->next_step_ns() == 0 ? 15 * kOverlapMs : 0);
  request::Request& late = submit(100, 22 * kOverlapMs);  // 5 ms of the first batch, 20 of its own
  request::Request& in_time = submit(100, 60 * kOverlapMs);  // both together take 35 ms
  run_all();
  EXPECT_EQ(late.status, StatusCode::kDeadlineLaunch);
  EXPECT_EQ(in_time.status, StatusCode::kOk);
}

TEST_F(OverlappedExecutor, AFailedDeviceAnswersBothBatchesAndTheQueue) {
  for (int i = 0; i < 2; ++i) {
    submit(10);
    step();
  }
  submit(10);
  EXPECT_EQ(executor_->num_executing(), 2u);
  stream_.fails = true;
  run_all();
  EXPECT_TRUE(executor_->device_failed());
  EXPECT_EQ(group_.batches, 2u);
  ASSERT_EQ(completed_.size(), 3u);
  for (const request::Request* r : completed_) EXPECT_EQ(r->status, StatusCode::kDeviceFailed);
}

TEST_F(OverlappedExecutor, FinishEndsRunningBatchesAndBeginsNone) {
  for (int i = 0; i < 3; ++i) {
    submit(10);
    step();
  }
  BatchFigures figures;
  EXPECT_EQ(executor_->finish(*this, figures), 1u);
  EXPECT_EQ(figures.num_tokens, 10u);
  EXPECT_EQ(executor_->finish(*this, figures), 1u);
  EXPECT_EQ(executor_->finish(*this, figures), 0u);
  EXPECT_EQ(executor_->num_queued(), 1u);
  EXPECT_EQ(group_.batches, 2u);
}

// The bound of a synchronous stream (executor_test.cc) plus 0.5 ms, since batches are chosen early.
TEST_F(OverlappedExecutor, ALightTenantDoesNotWaitForAFlood) {
  make_executor({.max_wait_ns = 0});  // the flood's requests are never refused
  uint64_t longest_ns = 0;
  const auto flood = [&] {
    while (executor_->num_queued() < 100) submit(50);
    step();
    pass_time();
  };
  for (int turn = 0; turn < 100; ++turn) {
    const uint32_t before = group_.batches;
    while (group_.batches == before) flood();
    // Just after a batch was launched: the worst moment.
    const uint64_t arrival_ns = clock_.now_ns();
    request::Request& quiet = submit(50, 0, 1);
    while (quiet.done_ns == 0) flood();
    if (turn > 20) longest_ns = std::max(longest_ns, quiet.done_ns - arrival_ns);
  }
  EXPECT_LE(longest_ns, 240 * kOverlapMs);  // two batches of eight times its time alone
  run_all();
}

}  // namespace
}  // namespace itif::runtime
