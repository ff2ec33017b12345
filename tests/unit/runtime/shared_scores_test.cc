// Requests of several tenants that share rows, and so matrices of attention scores (the planners
// concat and slotted): each answer is that of the request alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/random.h"
#include "plan/make_planner.h"
#include "runtime/batch/executor.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using testing::Answer;
using testing::TestRequest;

TestRequest shared_request(Random& random, uint32_t slot, uint32_t tokens) {
  TestRequest input{.slot = slot, .kind = wire::ResultKind::kHidden};
  for (uint32_t i = 0; i < tokens; ++i)
    input.ids.push_back(static_cast<uint32_t>(random.below(131)));
  return input;
}

class SharedScores : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    device_ = make_device();
    if (!device_) GTEST_SKIP() << "this machine has no " << GetParam();
    small_ = std::make_unique<testing::SmallGroup>(*device_);
  }

  // "buckets": plain loops over batches that are padded to graph buckets.
  static std::unique_ptr<device::Device> make_device() {
    if (GetParam() != "buckets") return testing::make_device(GetParam());
    auto plain = std::make_unique<testing::PlainDevice>();
    plain->use_buckets_of(128);
    return plain;
  }

  void expect_alone(const TestRequest& input, const Answer& answer, const Answer& alone) const {
    ASSERT_TRUE(answer.ok()) << answer.detail;
    ASSERT_EQ(answer.floats().size(), input.ids.size() * 21);
    if (GetParam() == "bf16")
      EXPECT_GE(testing::cosine(answer.floats(), alone.floats()), 0.999);
    else
      EXPECT_LE(testing::max_difference(answer.floats(), alone.floats()), 1e-4);
  }

  // Runs the inputs as one batch, input i in row row_of[i]. Padding follows each row.
  void expect_each_alone(const std::vector<TestRequest>& inputs,
                         const std::vector<uint32_t>& row_of, const std::vector<Answer>& alone) {
    testing::TestBatch batch(inputs);
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      BatchRequest& segment = batch.segments()[i];
      segment.score_matrix = row_of[i];
      if (i + 1 == inputs.size() || row_of[i + 1] != row_of[i])
        segment.num_rows += (i + row_of[i]) % 3;
    }
    Batch run = batch.batch();
    ASSERT_TRUE(small_->group->forward(*small_->stream, run));
    const std::vector<Answer> answers = batch.answers();
    for (size_t i = 0; i < inputs.size(); ++i) expect_alone(inputs[i], answers[i], alone[i]);
  }

  std::vector<Answer> each_alone(const std::vector<TestRequest>& inputs) {
    std::vector<Answer> alone;
    for (const TestRequest& input : inputs)
      alone.push_back(testing::run_batch(*small_->group, *small_->stream, {input})[0]);
    return alone;
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<testing::SmallGroup> small_;
};

// Four requests of two or three tenants, in every order, divided into rows in every way.
TEST_P(SharedScores, EveryArrangementOfFourRequestsInRows) {
  Random random(1);
  for (const auto& slots : {std::array{0u, 1u, 0u, 1u}, std::array{2u, 0u, 1u, 2u}}) {
    std::vector<TestRequest> inputs;
    for (uint32_t i = 0; i < slots.size(); ++i)
      inputs.push_back(shared_request(random, slots[i], std::array{1u, 9u, 3u, 6u}[i]));
    const std::vector<Answer> alone = each_alone(inputs);
    std::vector<uint32_t> order = {0, 1, 2, 3};
    do {
      for (uint32_t cuts = 0; cuts < 8; ++cuts) {
        std::vector<TestRequest> arranged;
        std::vector<Answer> expected;
        std::vector<uint32_t> row_of;
        for (uint32_t i = 0; i < order.size(); ++i) {
          arranged.push_back(inputs[order[i]]);
          expected.push_back(alone[order[i]]);
          row_of.push_back(i == 0 ? 0 : row_of.back() + (cuts >> (i - 1) & 1));
        }
        expect_each_alone(arranged, row_of, expected);
        if (HasFailure()) return;
      }
    } while (std::ranges::next_permutation(order).found);
  }
}

// Without the mask a request would attend to its neighbours. The test's tolerance would show it.
TEST_P(SharedScores, RequestsOfARowWouldChangeEachOtherWithoutTheMask) {
  Random random(2);
  const std::vector<TestRequest> inputs = {shared_request(random, 0, 5),
                                           shared_request(random, 0, 7)};
  TestRequest joined = inputs[0];
  joined.ids.insert(joined.ids.end(), inputs[1].ids.begin(), inputs[1].ids.end());
  const Answer whole = testing::run_batch(*small_->group, *small_->stream, {joined})[0];
  const Answer alone = each_alone(inputs)[0];
  const std::vector<float> together = whole.floats(), own = alone.floats();
  const std::vector<float> first(together.begin(),
                                 together.begin() + static_cast<ptrdiff_t>(own.size()));
  EXPECT_LT(testing::cosine(first, own), 0.99);
  EXPECT_GT(testing::max_difference(first, own), 0.05);
  expect_each_alone(inputs, {0, 0}, each_alone(inputs));
}

// Through executor and planner, many batches, every planner that shares scores.
TEST_P(SharedScores, PlannedBatchesEqualEachRequestAlone) {
  struct Sink : CompletionSink {
    void complete(std::span<request::Request* const>) noexcept override {}
  } sink;
  VirtualClock clock;
  const auto executor = GroupExecutor::create(*small_->group, *small_->stream, clock,
                                              {.limits = {.max_tokens = 200, .max_requests = 16}})
                            .value();
  Random random(3);
  for (const char* planner :
       {"concat", "concat:row_tokens=60", "slotted:slot_tokens=12", "slotted:row_tokens=100"}) {
    const Status set = executor->set_planner(planner, device_->info(), nullptr);
    ASSERT_TRUE(set) << set.error().message;
    for (int round = 0; round < 5; ++round) {
      std::vector<TestRequest> inputs;
      for (uint32_t i = 0; i < 2 + random.below(8); ++i)
        inputs.push_back(shared_request(random, static_cast<uint32_t>(random.below(5)),
                                        static_cast<uint32_t>(1 + random.below(30))));
      const std::vector<Answer> alone = each_alone(inputs);
      testing::TestBatch batch(inputs);
      for (request::Request& request : batch.requests()) executor->submit(&request);
      BatchFigures figures;
      while (executor->num_queued() > 0 || executor->num_executing() > 0)
        executor->step(sink, figures);
      EXPECT_GE(figures.num_rows, figures.num_tokens);
      EXPECT_EQ(figures.planner,
                std::string_view(planner).substr(0, 6) == "concat" ? "concat" : "slotted");
      const std::vector<Answer> answers = batch.answers();
      for (size_t i = 0; i < inputs.size(); ++i) {
        SCOPED_TRACE(planner);
        expect_alone(inputs[i], answers[i], alone[i]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SharedScores,
                         ::testing::Values("plain", "buckets", "f32", "bf16"),
                         [](const auto& info) { return info.param; });

// Attention gets the score matrices of the plan.
class SharedMatrices : public ::testing::Test {
 protected:
  SharedMatrices() {
    device_.use_buckets_of(64);
    small_ = std::make_unique<testing::SmallGroup>(device_);
    device_.state().on_operator = [this](const kernels::Operator& op) {
      if (const auto* attention = std::get_if<const kernels::Attention*>(&op)) {
        matrices_.clear();
        num_matrices_ = (*attention)->score_matrices.size();
        std::ranges::copy_if(
            (*attention)->score_matrices, std::back_inserter(matrices_),
            [](const kernels::SegmentRows& matrix) { return matrix.num_rows > 0; });
        num_segments_ = (*attention)->segments.size();
        max_bucket_rows_ = (*attention)->max_bucket_rows;
      }
    };
  }
  testing::PlainDevice device_;
  std::unique_ptr<testing::SmallGroup> small_;
  // These describe the last attention.
  std::vector<kernels::SegmentRows> matrices_;  // without empty ones
  size_t num_matrices_ = 0, num_segments_ = 0;  // empty ones included
  uint32_t max_bucket_rows_ = 0;
};

// The bucket pads each tenant's range to 16 rows. The padding of tenant 0's range is within the
// first row, which tenant 1 shares.
TEST_F(SharedMatrices, RowsReachAttentionInAGraphBucket) {
  testing::TestBatch batch(
      {{.slot = 0, .ids = {1, 2, 3}}, {.slot = 1, .ids = {4}}, {.slot = 1, .ids = {5, 6}}});
  const uint32_t rows[] = {3, 3, 6}, matrices[] = {0, 0, 1};
  for (size_t i = 0; i < 3; ++i) {
    batch.segments()[i].num_rows = rows[i];
    batch.segments()[i].score_matrix = matrices[i];
  }
  Batch run = batch.batch();
  ASSERT_TRUE(small_->group->forward(*small_->stream, run));
  for (const Answer& answer : batch.answers()) EXPECT_TRUE(answer.ok()) << answer.detail;
  ASSERT_EQ(matrices_.size(), 2u);
  EXPECT_EQ(matrices_[0].first_row, 0u);
  EXPECT_EQ(matrices_[0].num_rows, 16u + 3u);
  EXPECT_EQ(matrices_[1].first_row, 19u);
  EXPECT_EQ(matrices_[1].num_rows, 6u);
  EXPECT_EQ(max_bucket_rows_, 32u);
  EXPECT_EQ(run.num_padding_rows, 32u - 12u) << "beside the plan's";
  EXPECT_EQ(num_matrices_, num_segments_) << "as many in each batch of the bucket";
  // The same requests, packed, share nothing.
  (void)testing::run_batch(*small_->group, *small_->stream, {{.slot = 0, .ids = {1, 2, 3}}});
  EXPECT_EQ(num_matrices_, 0u);
  EXPECT_GT(max_bucket_rows_, 0u);
}

// Rows that no bucket holds have the lengths that the plan gave them.
TEST_F(SharedMatrices, LargeRowsTakeNoGraphBucket) {
  Random random(4);
  testing::TestBatch batch({shared_request(random, 0, 30), shared_request(random, 1, 30),
                            shared_request(random, 1, 12)});
  const uint32_t matrices[] = {0, 0, 1};
  for (size_t i = 0; i < 3; ++i) batch.segments()[i].score_matrix = matrices[i];
  Batch run = batch.batch();
  ASSERT_TRUE(small_->group->forward(*small_->stream, run));
  for (const Answer& answer : batch.answers()) EXPECT_TRUE(answer.ok()) << answer.detail;
  ASSERT_EQ(matrices_.size(), 2u);
  EXPECT_EQ(matrices_[0].num_rows, 60u);
  EXPECT_EQ(matrices_[1].num_rows, 12u);
  EXPECT_EQ(max_bucket_rows_, 0u);
}

TEST_F(SharedMatrices, ARefusedRequestLeavesItsRow) {
  testing::TestBatch batch({{.slot = 5, .ids = {1}},  // no tenant
                            {.slot = 0, .ids = {1, 2, 3}},
                            {.slot = 5, .ids = {1}},
                            {.slot = 5, .ids = {1, 2}},  // a row of its own
                            {.slot = 1, .ids = {5, 6}}});
  const uint32_t matrices[] = {0, 0, 0, 1, 2};
  for (size_t i = 0; i < 5; ++i) batch.segments()[i].score_matrix = matrices[i];
  Batch run = batch.batch();
  ASSERT_TRUE(small_->group->forward(*small_->stream, run));
  const std::vector<Answer> answers = batch.answers();
  for (const size_t i : {1u, 4u}) EXPECT_TRUE(answers[i].ok()) << i;
  ASSERT_EQ(matrices_.size(), 2u);
  EXPECT_EQ(matrices_[0].num_rows, 3u);
  EXPECT_EQ(matrices_[1].first_row, 16u) << "after the padding of the first range";
  EXPECT_EQ(matrices_[1].num_rows, 2u);
}

TEST_F(SharedMatrices, TheThesissAttentionRefusesThem) {
  testing::SmallGroup thesis(device_, testing::odd_spec(),
                             {.max_tokens = 200, .max_requests = 16, .max_tenants = 6},
                             {.fusion_mode = backbone::FusionMode::kThesis});
  VirtualClock clock;
  const auto executor = GroupExecutor::create(*thesis.group, *thesis.stream, clock, {}).value();
  for (const char* planner : {"concat", "slotted:slot_tokens=8"}) {
    const Status refused = executor->set_planner(planner, device_.info(), nullptr);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kUnsupported);
    EXPECT_NE(refused.error().message.find(planner), std::string::npos);
  }
  EXPECT_TRUE(executor->set_planner("packed", device_.info(), nullptr));
}

}  // namespace
}  // namespace itif::runtime
