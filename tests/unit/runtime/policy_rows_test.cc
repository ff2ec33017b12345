// The rows and slots that a batch policy decides are those that the pass computes, and each answer
// is that of the request alone. A second policy, asked the same, gives the expected decision.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "runtime/batch/executor.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using testing::Answer;
using testing::TestRequest;

// The requests of each row or slot, in any order.
using Layout = std::multiset<std::set<const request::Request*>>;

struct Pass {
  Layout layout;
  std::set<uint32_t> matrix_rows;  // of its score matrices; 0: requests share none
};

class PolicyRows : public ::testing::Test, protected CompletionSink {
 protected:
  static constexpr uint32_t kMaxTokens = 120;
  static constexpr uint32_t kRowTokens = 40;
  static constexpr uint32_t kLongest = 30;

  PolicyRows() {
    small_ = std::make_unique<testing::SmallGroup>(
        device_, testing::odd_spec(),
        GroupOptions{.max_tokens = kMaxTokens, .max_requests = 16, .max_tenants = 6});
    device_.state().on_operator = [this](const kernels::Operator& op) {
      const auto* attention = std::get_if<const kernels::Attention*>(&op);
      if (attention == nullptr || !runs_executor_) return;
      segments_.assign((*attention)->segments.begin(), (*attention)->segments.end());
      matrices_.assign((*attention)->score_matrices.begin(), (*attention)->score_matrices.end());
    };
  }

  void make_executor(const std::string& policy, const std::string& planner) {
    executor_ = GroupExecutor::create(
                    *small_->group, *small_->stream, clock_,
                    {.limits = {.max_tokens = kMaxTokens, .max_requests = 16}, .scheduler = policy})
                    .value();
    const Status set = executor_->set_planner(planner, device_.info(), nullptr);
    ASSERT_TRUE(set) << set.error().message;
  }
  // Requests of 1 to kLongest tokens, each length once: a pass's segments tell them apart.
  std::vector<TestRequest> inputs_of(Random& random, size_t count) {
    std::vector<uint32_t> lengths(kLongest);
    for (uint32_t i = 0; i < kLongest; ++i) lengths[i] = i + 1;
    for (uint32_t i = kLongest - 1; i > 0; --i) std::swap(lengths[i], lengths[random.below(i + 1)]);
    std::vector<TestRequest> inputs;
    for (size_t i = 0; i < count; ++i) {
      TestRequest& input = inputs.emplace_back();
      input.slot = static_cast<uint32_t>(random.below(num_tenants_));
      input.kind = wire::ResultKind::kHidden;
      for (uint32_t token = 0; token < lengths[i]; ++token)
        input.ids.push_back(static_cast<uint32_t>(random.below(131)));
    }
    return inputs;
  }
  // The executor's next pass.
  Pass run_pass(std::vector<request::Request>& requests) {
    BatchFigures figures;
    segments_.clear();
    matrices_.clear();
    runs_executor_ = true;
    executor_->step(*this, figures);
    runs_executor_ = false;
    Pass pass;
    std::map<uint32_t, std::set<const request::Request*>> of_matrix;  // by its first row
    for (const kernels::SegmentRows& segment : segments_) {
      const auto request =
          std::ranges::find(requests, segment.num_rows, &request::Request::num_tokens);
      EXPECT_NE(request, requests.end());
      const auto matrix = std::ranges::find_if(matrices_, [&](const kernels::SegmentRows& of) {
        return segment.first_row >= of.first_row &&
               segment.first_row + segment.num_rows <= of.first_row + of.num_rows;
      });
      const bool shares = matrix != matrices_.end();
      of_matrix[shares ? matrix->first_row : segment.first_row].insert(&*request);
      pass.matrix_rows.insert(shares ? matrix->num_rows : 0);
    }
    for (auto& [row, members] : of_matrix) pass.layout.insert(members);
    return pass;
  }
  // The rows (or slots) of a choice.
  static Layout layout_of(const std::vector<request::Request*>& batch,
                          uint32_t request::Request::*number,
                          const std::map<const request::Request*, const request::Request*>& of) {
    std::map<uint32_t, std::set<const request::Request*>> by_number;
    for (const request::Request* r : batch) by_number[r->*number].insert(of.at(r));
    Layout layout;
    for (auto& [row, members] : by_number) layout.insert(members);
    return layout;
  }
  static std::set<const request::Request*> requests_of(const Layout& layout) {
    std::set<const request::Request*> all;
    for (const auto& row : layout) all.insert(row.begin(), row.end());
    return all;
  }
  // Runs random batches. Returns how many rows or slots held several requests.
  size_t expect_rows_of(const std::string& policy_name, const std::string& planner,
                        const sched::BatchRows& rows) {
    SCOPED_TRACE(policy_name + " " + planner);
    const bool slotted = planner.starts_with("slotted");
    size_t num_shared = 0;
    Random random(4);
    for (int round = 0; round < 12; ++round) {
      make_executor(policy_name, planner);
      const auto policy =
          sched::make_policy(policy_name,
                             {.limits = {.max_tokens = kMaxTokens, .max_requests = 16}})
              .value();
      const std::vector<TestRequest> inputs = inputs_of(random, 6 + random.below(20));
      testing::TestBatch batch(inputs);
      std::vector<request::Request> copies(batch.requests().size());
      std::map<const request::Request*, const request::Request*> of;
      for (size_t i = 0; i < copies.size(); ++i) {
        request::Request& r = batch.requests()[i];
        if (random.below(2)) r.deadline_ns = 1'000'000'000 + random.below(1000);
        copies[i] = r;
        of[&copies[i]] = &r;
        EXPECT_TRUE(policy->push(&copies[i], clock_.now_ns(), {}));
        executor_->submit(&r);
      }
      sched::Choice choice;
      while (executor_->num_queued() > 0) {
        policy->choose({.rows = rows}, choice);
        const Pass pass = run_pass(batch.requests());
        const bool in_slots = slotted && choice.slot_tokens > 0;
        const Layout decided = layout_of(
            choice.batch, in_slots ? &request::Request::row_slot : &request::Request::row, of);
        // The planner may fill other rows instead, which may be more for several tenants.
        EXPECT_EQ(requests_of(pass.layout), requests_of(decided));
        if (num_tenants_ == 1) {
          EXPECT_LE(pass.layout.size(), decided.size());
        }
        EXPECT_EQ(pass.matrix_rows, std::set<uint32_t>{in_slots ? choice.slot_tokens : kRowTokens});
        num_shared += static_cast<size_t>(
            std::ranges::count_if(decided, [](const auto& row) { return row.size() > 1; }));
        if (HasFailure()) return 0;
      }
      EXPECT_EQ(policy->num_waiting(), 0u);
      expect_each_alone(inputs, batch.answers());
    }
    return num_shared;
  }
  void expect_each_alone(const std::vector<TestRequest>& inputs,
                         const std::vector<Answer>& answers) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Answer alone = testing::run_batch(*small_->group, *small_->stream, {inputs[i]})[0];
      ASSERT_TRUE(answers[i].ok()) << answers[i].detail;
      EXPECT_LE(testing::max_difference(answers[i].floats(), alone.floats()), 1e-4);
    }
  }
  void complete(std::span<request::Request* const>) noexcept override {}

  testing::PlainDevice device_;
  VirtualClock clock_;
  std::unique_ptr<testing::SmallGroup> small_;
  std::unique_ptr<GroupExecutor> executor_;
  bool runs_executor_ = false;
  uint32_t num_tenants_ = 5;
  std::vector<kernels::SegmentRows> segments_, matrices_;  // of the executor's last attention
};

constexpr sched::BatchRows kRows{.number = 3, .tokens = 40};

TEST_F(PolicyRows, DasFillsTheRowsOfConcat) {
  for (num_tenants_ = 1; num_tenants_ <= 5; num_tenants_ += 4) {
    EXPECT_GT(expect_rows_of("das", "concat:row_tokens=40", kRows), 30u);
    EXPECT_GT(expect_rows_of("das:eta=0.2,fair,weighted", "concat:row_tokens=40", kRows), 30u);
  }
}

TEST_F(PolicyRows, SlottedDasFillsTheSlotsOfSlotted) {
  EXPECT_GT(expect_rows_of("slotted_das", "slotted:row_tokens=40", kRows), 10u);
  EXPECT_GT(expect_rows_of("slotted_das", "slotted:row_tokens=40,slot_tokens=9", kRows), 10u);
}

// Without row_tokens a batch is one row of max_tokens, which slotted_das divides.
TEST_F(PolicyRows, SlottedDasFillsSlotsWithoutRows) {
  EXPECT_GT(expect_rows_of("slotted_das", "slotted", {}), 10u);
}

// The planner concat computes whole rows, whatever their slots.
TEST_F(PolicyRows, ConcatTakesTheRowsOfSlottedDas) {
  for (num_tenants_ = 1; num_tenants_ <= 5; num_tenants_ += 4)
    EXPECT_GT(expect_rows_of("slotted_das", "concat:row_tokens=40", kRows), 10u);
}

// Rows of 40 tokens in slots of 30: the planner fills the slots.
TEST_F(PolicyRows, SlottedFillsSlotsWithTheRequestsOfDas) {
  make_executor("das", "slotted:row_tokens=40,slot_tokens=30");
  Random random(6);
  const std::vector<TestRequest> inputs = inputs_of(random, 14);
  testing::TestBatch batch(inputs);
  for (request::Request& r : batch.requests()) executor_->submit(&r);
  while (executor_->num_queued() > 0)
    EXPECT_EQ(run_pass(batch.requests()).matrix_rows, std::set<uint32_t>{30});
  expect_each_alone(inputs, batch.answers());
}

// These requests fit three rows of 40 tokens only with the longest first: the planner fills them.
TEST_F(PolicyRows, OtherPoliciesLeaveTheRowsToThePlanner) {
  for (const std::string policy : {"fair", "fcfs", "lcfs", "sjf", "edf"}) {
    make_executor(policy, "concat:row_tokens=40");
    std::vector<TestRequest> inputs;
    for (const uint32_t tokens : {12u, 13u, 14u, 26u, 27u, 28u}) {
      inputs.push_back({.slot = 0, .kind = wire::ResultKind::kHidden});
      inputs.back().ids.assign(tokens, 7);
    }
    testing::TestBatch batch(inputs);
    for (request::Request& r : batch.requests()) executor_->submit(&r);
    EXPECT_EQ(run_pass(batch.requests()).layout.size(), 3u) << policy;
    EXPECT_EQ(executor_->num_queued(), 0u);
    expect_each_alone(inputs, batch.answers());
  }
}

// A planner that is replaced takes its rows with it.
TEST_F(PolicyRows, RowsAreWhatThePlannerOfThisBatchOffers) {
  make_executor("das", "concat:row_tokens=40");
  Random random(9);
  const std::vector<TestRequest> inputs = inputs_of(random, 12);
  testing::TestBatch batch(inputs);
  for (request::Request& r : batch.requests()) executor_->submit(&r);
  EXPECT_EQ(run_pass(batch.requests()).matrix_rows, std::set<uint32_t>{40});
  ASSERT_TRUE(executor_->set_planner("packed", device_.info(), nullptr));
  while (executor_->num_queued() > 0)
    EXPECT_EQ(run_pass(batch.requests()).matrix_rows, std::set<uint32_t>{0});
  expect_each_alone(inputs, batch.answers());
}

}  // namespace
}  // namespace itif::runtime
