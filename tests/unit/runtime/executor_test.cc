// The executor with a group that computes nothing and takes a known time.
#include "runtime/batch/executor.h"
#include "plan/make_planner.h"

#include "support/executor_fixture.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

class Executor : public testing::ExecutorFixture {
 protected:
  StatusCode run(uint32_t tokens, uint64_t budget_ns = 0) {
    request::Request& r = submit(tokens, budget_ns);
    step();
    return r.status;
  }
};

// 128 tokens take 23 ms; batches of 1 to 4 tokens cost 2.5 to 10 ms a token.
TEST_F(Executor, SmallBatchesDoNotCauseRefusalsOfFeasibleRequests) {
  for (uint32_t i = 0; i < 50; ++i) ASSERT_EQ(run(1 + i % 4), StatusCode::kOk);
  EXPECT_EQ(run(128, 40'000'000), StatusCode::kOk);
  EXPECT_EQ(run(512, 80'000'000), StatusCode::kOk);
  // A burst is not refused either: it would wait less than max_wait_ns (1 s).
  std::vector<request::Request*> burst;
  for (int i = 0; i < 8; ++i) burst.push_back(&submit(512));
  while (executor_->num_queued()) step();
  for (const request::Request* r : burst) EXPECT_EQ(r->status, StatusCode::kOk);
}

TEST_F(Executor, RefusesRequestsThatWouldMissTheirDeadline) {
  for (int i = 0; i < 20; ++i)
    for (const uint32_t tokens : {16u, 128u, 400u}) ASSERT_EQ(run(tokens), StatusCode::kOk);
  const uint32_t before = group_.batches;
  EXPECT_EQ(run(512, 20'000'000), StatusCode::kDeadlineLaunch);
  EXPECT_EQ(group_.batches, before);
}

// The batch that is about to run takes 110 ms. A request that waits behind it and could not be
// answered in time learns it before it runs.
TEST_F(Executor, RefusesInfeasibleRequestsBeforeABatchRuns) {
  ExecutorOptions options;
  options.limits.max_requests = 2;
  make_executor(options);
  for (int i = 0; i < 20; ++i)
    for (const uint32_t tokens : {16u, 128u, 400u}) ASSERT_EQ(run(tokens), StatusCode::kOk);
  std::vector<request::Request*> ahead, infeasible, feasible;
  for (int i = 0; i < 2; ++i) ahead.push_back(&submit(500));
  infeasible.push_back(&submit(10, 115'000'000));
  for (int i = 0; i < 2; ++i) feasible.push_back(&submit(10, 400'000'000));
  std::vector<request::Request*> refused;
  group_.on_batch = [&](auto) { refused = completed_; };
  completed_.clear();
  step();
  EXPECT_EQ(refused, infeasible);
  EXPECT_EQ(infeasible.front()->status, StatusCode::kDeadlineLaunch);
  run_all();
  for (const request::Request* r : feasible) EXPECT_EQ(r->status, StatusCode::kOk);
}

// Batches hold one request and take 20 ms, less than the limits allow. The wait follows their pace.
TEST_F(Executor, TheExpectedWaitFollowsThePaceOfSmallBatches) {
  ExecutorOptions options;
  options.limits.max_tokens = 512;
  options.max_wait_ns = 200'000'000;
  make_executor(options);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(run(100), StatusCode::kOk);
  constexpr uint64_t kSlo = 50'000'000;  // batches of at most 20 ms
  std::deque<uint32_t> queued;
  for (int turn = 0; turn < 60; ++turn) {
    for (int i = 0; i < 4; ++i) submit(100, 0, 0, kSlo);
    queued.push_back(executor_->num_queued());
    step();
  }
  // 200 ms of waiting are ten batches of 100 tokens. Full batches would take 40.
  for (size_t turn = 40; turn < queued.size(); ++turn) {
    EXPECT_GE(queued[turn], 9u);
    EXPECT_LE(queued[turn], 14u);
  }
  EXPECT_NEAR(static_cast<double>(executor_->backlog_ns()), 220e6, 40e6);
  run_all();
  EXPECT_EQ(executor_->backlog_ns(), 0u);
}

TEST_F(Executor, SaysHowLongItIsBusy) {
  for (int i = 0; i < 20; ++i)
    for (const uint32_t tokens : {16u, 128u, 400u}) ASSERT_EQ(run(tokens), StatusCode::kOk);
  EXPECT_EQ(busy_until_ns_, 0u) << "nothing runs";
  uint64_t said_ns = 0;
  group_.on_batch = [&](auto) { said_ns = busy_until_ns_; };
  const uint64_t start_ns = clock_.now_ns();
  ASSERT_EQ(run(200), StatusCode::kOk);
  EXPECT_NEAR(static_cast<double>(said_ns - start_ns), 30e6, 3e6);
  EXPECT_EQ(busy_until_ns_, 0u);
}

// A request that its worker has answered is neither run nor answered again, wherever the group
// finds it: before it is queued, in the queue, or in a chosen batch.
TEST_F(Executor, ExpiredRequestsAreHandedBack) {
  request::Request& queued = submit(10, 900'000'000);
  request::Request& runs = submit(10);
  request::expire(queued);
  request::Request& arrives = requests_.emplace_back();
  arrives.deadline_ns = 1;
  request::expire(arrives);
  executor_->submit(&arrives);
  size_t batch_size = 0;
  group_.on_batch = [&](std::span<const BatchRequest> segments) { batch_size = segments.size(); };
  const BatchFigures figures = step();
  EXPECT_EQ(batch_size, 1u);
  EXPECT_EQ(figures.num_requests, 1u);
  EXPECT_EQ(figures.num_refused, 2u);
  EXPECT_EQ(completed_, (std::vector<request::Request*>{&arrives, &queued, &runs}));
  EXPECT_EQ(queued.result.data, nullptr);
  EXPECT_EQ(queued.chosen_ns, 0u);
}

TEST_F(Executor, AnEstimateThatRefusesEverythingRecovers) {
  group_.slower = 50;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(run(128), StatusCode::kOk);
  group_.slower = 1;
  int refused = 0;
  while (run(128, 40'000'000) != StatusCode::kOk && refused < 100) ++refused;
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 60);
  for (int i = 0; i < 100; ++i) run(128, 40'000'000);
  EXPECT_EQ(run(128, 40'000'000), StatusCode::kOk);
}

// The waiting requests stay, in the order of the new policy.
TEST_F(Executor, ChangesTheSchedulerWhileRequestsWait) {
  ExecutorOptions options;
  options.scheduler = "fcfs";
  options.limits = {.max_tokens = 100, .max_requests = 1};
  make_executor(options);
  request::Request& longest = submit(90);
  request::Request& middle = submit(50);
  request::Request& shortest = submit(10);
  const Status unknown = executor_->set_scheduler("magic");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("'magic' is not one of: fair"), std::string::npos);
  ASSERT_TRUE(executor_->set_scheduler("sjf"));
  EXPECT_EQ(executor_->num_queued(), 3u);
  step();
  EXPECT_EQ(shortest.status, StatusCode::kOk);
  EXPECT_NE(shortest.done_ns, 0u);
  EXPECT_EQ(middle.done_ns + longest.done_ns, 0u);
  ASSERT_TRUE(executor_->set_scheduler("das:eta=0.3,fair"));
  request::Request& later = submit(20);
  while (executor_->num_queued() > 0) step();
  EXPECT_LT(later.done_ns, middle.done_ns);
  EXPECT_LT(middle.done_ns, longest.done_ns);
}

// One tenant floods. Another always has one request, which takes 15 ms alone. With an objective of
// 60 ms, the flood's batches are limited to 24 ms. Now and then aimd tries one with a request more,
// which takes 25 ms. So the request takes at most 25 + 15 = 40 ms. Without an objective, fair lets
// batches take up to 120 ms, and the request runs in one of these. With fcfs and no objective, the
// 100 queued requests of the flood run first, in one batch of 510 ms.
TEST_F(Executor, ALightTenantDoesNotWaitForAFlood) {
  struct Case {
    const char* scheduler;
    uint64_t slo_ns;
    bool is_bounded;
  };
  for (const Case& c : {Case{"fcfs", 0, false}, Case{"fcfs", 60'000'000, true},
                        Case{"fair", 0, true}, Case{"fair", 60'000'000, true}}) {
    ExecutorOptions options;
    options.scheduler = c.scheduler;
    options.max_wait_ns = 0;  // the flood's requests are never refused
    make_executor(options);
    const auto flooded_step = [&] {
      while (executor_->num_queued() < 100) submit(50);
      step();
    };
    uint64_t longest_ns = 0;
    for (int turn = 0; turn < 100; ++turn) {
      const uint64_t arrival_ns = clock_.now_ns() + 1;
      flooded_step();  // the request arrives just after this launch: the worst moment
      request::Request& quiet = submit(50, 0, 1, c.slo_ns);
      while (quiet.done_ns == 0) flooded_step();
      if (turn > 20) longest_ns = std::max(longest_ns, quiet.done_ns - arrival_ns);
    }
    if (c.is_bounded) {
      EXPECT_LE(longest_ns, c.slo_ns == 0 ? 240'000'001u : 40'000'001u) << c.scheduler;
    } else {
      EXPECT_GT(longest_ns, 500'000'000u);
    }
    while (executor_->num_queued()) step();
  }
}

// The machine runs ten times slower during the flood. The bound is derived from undisturbed times
// (CostFloor), so it must not grow.
TEST_F(Executor, AFloodThatSlowsTheMachineDoesNotLoosenItsBound) {
  ExecutorOptions options;
  options.max_wait_ns = 0;
  make_executor(options);
  uint32_t most_tokens = 0;
  group_.on_batch = [&](std::span<const BatchRequest> segments) {
    most_tokens = std::max(most_tokens, static_cast<uint32_t>(50 * segments.size()));
  };
  for (int i = 0; i < 10; ++i) {
    submit(50, 0, 1);
    step();
  }
  for (int turn = 0; turn < 50; ++turn) {
    if (turn == 10) most_tokens = 0;
    group_.slower = turn % 10 == 0 ? 1 : 10;
    while (executor_->num_queued() < 100) submit(50);
    step();
    if (turn % 5 == 0) submit(50, 0, 1);
  }
  EXPECT_LE(most_tokens, 150u);
  while (executor_->num_queued()) step();
}

// The naive planner pads to the longest request. Rows beyond the workspace go to another pass.
TEST_F(Executor, RunsAPlanPassByPass) {
  std::vector<std::vector<uint32_t>> passes;  // rows of the segments
  std::vector<size_t> completed_before;
  group_.on_batch = [&](std::span<const BatchRequest> segments) {
    completed_before.push_back(completed_.size());
    auto& rows = passes.emplace_back();
    for (const BatchRequest& segment : segments) rows.push_back(segment.num_rows);
  };
  executor_->planner().replace(
      plan::make_planner("naive", {.limits = executor_->planner().limits()}).value());
  for (int i = 0; i < 9; ++i) submit(i == 4 ? 500 : 10, 0, static_cast<uint32_t>(i % 3));
  BatchFigures figures;
  EXPECT_EQ(executor_->step(*this, figures), 9u);
  // Three tenants with 1,500 rows each, in passes of at most 4,096.
  EXPECT_EQ(passes, (std::vector<std::vector<uint32_t>>{std::vector<uint32_t>(6, 500),
                                                        std::vector<uint32_t>(3, 500)}));
  EXPECT_EQ(completed_before, (std::vector<size_t>{0, 6}));
  EXPECT_EQ(figures.num_requests, 9u);
  EXPECT_EQ(figures.num_tokens, 580u);
  EXPECT_EQ(figures.num_rows, 4500u);
  EXPECT_EQ(figures.num_tenants, 3u);
  for (const request::Request& r : requests_) EXPECT_EQ(r.status, StatusCode::kOk);

  executor_->planner().replace(
      plan::make_planner("packed", {.limits = executor_->planner().limits()}).value());
  submit(10);
  submit(20);
  executor_->step(*this, figures);
  EXPECT_EQ(passes.back(), (std::vector<uint32_t>{10, 20}));
  EXPECT_EQ(figures.num_rows, 30u);
}

// The group's layers share weights, and its cache holds one tenant's.
TEST_F(Executor, RunsOneTenantPerPassIfTheGroupSaysSo) {
  group_.limits_of_pass.max_tenants = 1;
  make_executor();
  std::vector<std::vector<uint32_t>> passes;  // slots of the segments
  group_.on_batch = [&](std::span<const BatchRequest> segments) {
    auto& slots = passes.emplace_back();
    for (const BatchRequest& segment : segments) slots.push_back(segment.request->slot);
  };
  for (const uint32_t slot : {2u, 0u, 2u, 1u}) submit(10, 0, slot);
  BatchFigures figures;
  EXPECT_EQ(executor_->step(*this, figures), 4u);
  std::ranges::sort(passes);
  EXPECT_EQ(passes, (std::vector<std::vector<uint32_t>>{{0}, {1}, {2, 2}}));
  EXPECT_EQ(figures.num_tenants, 3u);
  EXPECT_EQ(figures.num_tokens, 40u);
}

TEST_F(Executor, RefusalsDoNotWaitForTheBatch) {
  submit(100);
  request::Request& malformed = requests_.emplace_back();
  malformed.payload_kind = wire::PayloadKind::kTokensU16;
  executor_->submit(&malformed);
  size_t completed_before_begin = 0;
  group_.on_begin = [&] { completed_before_begin = completed_.size(); };
  step();
  EXPECT_EQ(completed_before_begin, 1u);
  EXPECT_EQ(malformed.status, StatusCode::kMalformed);
}

TEST_F(Executor, ResultRowsComeFromTheGroup) {
  request::Request& r = submit(7);
  step();
  EXPECT_EQ(r.result_rows, 1u);
}

}  // namespace
}  // namespace itif::runtime
