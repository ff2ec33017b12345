// LoRA adapters as tenants: their results are those of merged weights, and their rows run in the
// base's GEMMs, beside full models.
#include <set>

#include "adapters_fixture.h"
#include "support/image_requests.h"

namespace itif::runtime {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Families, Adapters,
    ::testing::Combine(::testing::Values("bert", "roberta", "distilbert", "albert"),
                       ::testing::Values("plain", "f32", "bf16")),
    [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param); });

TEST_P(Adapters, AnswerAsMergedWeightsInOneBatchWithFullModels) {
  const std::string usual = make_adapter("usual", {.rank = 8, .seed = 3});
  const std::string all =
      make_adapter("all", {.targets = all_modules(), .rank = 3, .alpha = 4, .seed = 4});
  const std::string stable = make_adapter(
      "stable", {.rank = 12, .alpha = 5, .is_rank_stabilized = true, .dtype = DType::kF32});
  const std::string headed = make_adapter("headed", {.rank = 4, .num_labels = 5, .seed = 6});
  const std::string tuned = make("tuned", 2);
  std::map<uint32_t, std::string> models;
  models[admit(base_)] = base_;
  models[admit({usual, base_})] = merged(usual);
  models[admit(tuned)] = tuned;
  models[admit({all, base_})] = merged(all);
  models[admit({stable, base_})] = merged(stable);
  models[admit({headed, base_})] = merged(headed);
  std::vector<TestRequest> requests = requests_of({0, 1, 1, 3, 2, 5, 4, 0, 3, 2, 1, 5});
  for (TestRequest& request : requests) request.kind = logits();
  expect_answers(*group_, requests, models);
  for (uint32_t slot = 0; slot < 6; ++slot) expect_answers(*group_, requests_of({slot, slot}), {});
}

TEST_P(Adapters, AnswerWithoutTheirBaseAsTenant) {
  const std::string adapter = make_adapter("a", {.rank = 8, .seed = 3});
  const uint32_t slot = admit({adapter, base_});
  auto requests = requests_of({slot, slot});
  for (TestRequest& request : requests) request.kind = logits();
  expect_answers(*group_, requests, {{slot, merged(adapter)}});
}

TEST_P(Adapters, RunInTheGemmsOfTheirBase) {
  if (std::get<1>(GetParam()) != "plain") GTEST_SKIP() << "only the plain device tells its GEMMs";
  const std::string adapter = make_adapter("a", {.rank = 8, .seed = 3});
  const std::string other = make_adapter("b", {.targets = all_modules(), .rank = 3, .seed = 4});
  admit(base_);
  admit({adapter, base_});
  admit({other, base_});
  admit(make("tuned", 2));
  auto& state = static_cast<testing::PlainDevice&>(*device_).state();
  std::set<size_t> num_ranges;
  size_t num_updates = 0;
  state.on_gemm = [&](const kernels::GroupedGemm& gemm) { num_ranges.insert(gemm.ranges.size()); };
  state.on_operator = [&](const kernels::Operator& op) {
    num_updates += std::holds_alternative<const kernels::AddLowRank*>(op);
  };
  run(*group_, *device_, requests_of({0, 1, 2, 1, 0, 2}));
  EXPECT_EQ(num_ranges, (std::set<size_t>{1}));
  EXPECT_GT(num_updates, 0u);
  num_ranges.clear();
  run(*group_, *device_, requests_of({0, 1, 2, 3}));
  EXPECT_EQ(num_ranges, (std::set<size_t>{2}));
  num_updates = 0;
  run(*group_, *device_, requests_of({0, 3}));
  EXPECT_EQ(num_updates, 0u);
}

TEST_P(Adapters, HavePartsOfTheirGemmsProducts) {
  admit(base_);
  admit({make_adapter("a", {.rank = 5, .seed = 3}), base_});
  const auto weights = group_->pass_weights();
  EXPECT_TRUE(weights->update_shares(0).empty());
  ASSERT_EQ(weights->update_shares(1).size(), weights->kinds.size());
  size_t num_changed = 0;
  for (const float share : weights->update_shares(1)) {
    if (share == 0) continue;
    ++num_changed;
    // Query and value of three modules, at rank 8: that of 5 is padded.
    EXPECT_FLOAT_EQ(share, 2 * 8 * (24 + 24) / (3 * 24 * 24.0f));
  }
  EXPECT_GT(num_changed, 0u);
}

// Counts the adapters' ranges of rows in the updates of batches that an executor makes.
class AdapterRanges final : public CompletionSink {
 public:
  AdapterRanges(testing::PlainDevice& device, EncoderGroup& group)
      : stream_(device.make_stream(group.stream_limits()).value()),
        executor_(GroupExecutor::create(group, *stream_, clock_,
                                        {.limits = {.max_tokens = 300, .max_requests = 24}})
                      .value()) {
    device.state().on_operator = [this](const kernels::Operator& op) {
      if (const auto* update = std::get_if<const kernels::AddLowRank*>(&op))
        ranges_.insert((*update)->adapters.size());
    };
  }
  std::set<size_t> of(const std::vector<TestRequest>& requests) {
    ranges_.clear();
    testing::TestBatch batch(requests);
    for (request::Request& request : batch.requests()) executor_->submit(&request);
    BatchFigures figures;
    while (executor_->num_queued() + executor_->num_executing() > 0)
      executor_->step(*this, figures);
    for (const Answer& answer : batch.answers()) EXPECT_TRUE(answer.ok()) << answer.detail;
    return ranges_;
  }
  void complete(std::span<request::Request* const>) noexcept override {}

 private:
  VirtualClock clock_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<GroupExecutor> executor_;
  std::set<size_t> ranges_;
};

TEST_P(Adapters, RequestsOfAnAdapterTakeOneUpdate) {
  if (std::get<1>(GetParam()) != "plain") GTEST_SKIP() << "only the plain device tells its updates";
  admit(base_);
  admit({make_adapter("a", {.rank = 8, .seed = 3}), base_});
  admit({make_adapter("b", {.rank = 4, .seed = 4}), base_});
  AdapterRanges ranges(static_cast<testing::PlainDevice&>(*device_), *group_);
  EXPECT_EQ(ranges.of(requests_of({1, 2, 0, 1, 2, 0, 1, 2})), (std::set<size_t>{2}));
  EXPECT_EQ(ranges.of(requests_of({1, 0, 1})), (std::set<size_t>{1}));
}

// A base without head, whose tensors have no prefix, and a head of the adapter.
TEST_P(Adapters, BringTheirOwnHead) {
  const std::string bare = make("bare", 9, mkmodel::HeadChoice::kNone);
  mkmodel::AdapterOptions options{.rank = 8, .num_labels = 3, .seed = 3};
  const std::string adapter = make_adapter("a", options);
  if (spec_.family != "roberta") {  // the others' heads have a layer that the base lacks
    const auto refused = group_->admit({adapter, bare}, nullptr);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("expected"), std::string::npos);
    return;
  }
  const uint32_t slot = admit({adapter, bare});
  EXPECT_EQ(group_->model(slot)->head.spec.labels.size(), 3u);
  auto requests = requests_of({slot});
  for (TestRequest& request : requests) request.kind = logits();
  expect_answers(*group_, requests, {{slot, merged(adapter, bare)}});
}

// The thesis fusion mode has no operator for updates: it merges them.
TEST_P(Adapters, AreMergedInTheThesisFusionMode) {
  const std::string adapter = make_adapter("a", {.targets = all_modules(), .rank = 8, .seed = 3});
  group_ = make_group(*device_, backbone::FusionMode::kThesis);
  admit(base_);
  const uint32_t slot = admit({adapter, base_});
  EXPECT_NE(group_->model(0)->weight_slot, group_->model(slot)->weight_slot);
  EXPECT_EQ(group_->model(slot)->adapter_bytes, 0u);
  auto requests = requests_of({0, slot});
  for (TestRequest& request : requests) request.kind = logits();
  expect_answers(*group_, requests, {{0, base_}, {slot, merged(adapter)}});
}

}  // namespace
}  // namespace itif::runtime
