// Tuning of shares by the counters of a real stage, with a fake model and a virtual clock.
#include "execution/slice_tuner.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "fake_group.h"
#include "start_eal.h"

namespace itif::execution::test {
namespace {

// A group with an objective, whose batches have one request each.
class SliceTunerTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kObjectiveNs = 10'000'000;
  static constexpr uint64_t kMissNs = 6'000'000;  // longer than a batch's aim
  static constexpr uint64_t kGoodNs = 1'000'000;
  static constexpr uint64_t kPeriodNs = 500'000'000;
  static constexpr uint32_t kId = 1;

  void SetUp() override {
    start_test_eal();
    returned_ = pipeline::ReturnRing::create("returned", 64).value();
    request_.payload_kind = wire::PayloadKind::kTokensU16;
    request_.payload_bytes = sizeof ids_;
    request_.pieces = std::span(&piece_, 1);
    request_.settings.slo_ns = kObjectiveNs;
    auto group = std::make_unique<FakeGroup>();
    group_ = group.get();
    group_->clock = &clock_;
    pipeline::ReturnRing* returns[] = {returned_.get()};
    stage_ = GroupStage::create("stage", std::move(group), device_, clock_, returns, {}).value();
    const slice::GroupTerms terms = {.slo_ns = kObjectiveNs};
    ASSERT_TRUE(tuner_.add(kId, *stage_, terms, clock_.now_ns()));
  }
  void run_batches(uint32_t count, uint64_t batch_ns) {
    group_->cost_ns_per_batch = batch_ns;
    for (uint32_t batch = 0; batch < count; ++batch) {
      request_.complete_ns = clock_.now_ns();
      stage_->inbox().push(&request_);
      stage_->poll();
      pipeline::ReturnRing::Item item;
      do {
        ASSERT_EQ(returned_->pop(&item, 1), 1u);
      } while (!item.has_ended());
      ASSERT_EQ(request_.status, wire::StatusCode::kOk);
      std::free(std::exchange(request_.result.data, nullptr));
    }
  }
  // Returns the group's demand after one more observation.
  double observed_percent() {
    clock_.advance_ns(kPeriodNs);
    tuner_.tick(clock_.now_ns());
    return tuner_.demand_percent(kId);
  }

  VirtualClock clock_;
  FakeDevice device_;
  std::unique_ptr<pipeline::ReturnRing> returned_;
  FakeGroup* group_ = nullptr;
  std::unique_ptr<GroupStage> stage_;
  SliceTuner tuner_{{.period_ns = kPeriodNs}};
  const std::array<uint16_t, 2> ids_ = {5, 6};
  const request::Piece piece_{reinterpret_cast<const std::byte*>(ids_.data()), sizeof ids_};
  request::Request request_;
};

// The stage's counters are read twice a second, and batches take milliseconds.
TEST_F(SliceTunerTest, SeesAnAskForMoreThoughTheLastBatchWasGood) {
  const double before = tuner_.demand_percent(kId);
  run_batches(sched::BatchControl::kNumInRow, kMissNs);
  run_batches(1, kGoodNs);
  const double asked = observed_percent();
  EXPECT_GT(asked, 1.1 * before);
  run_batches(1, kGoodNs);
  EXPECT_EQ(observed_percent(), asked) << "an ask counts in one observation only";
}

TEST_F(SliceTunerTest, SeesNoAskForMoreInFewerMisses) {
  const double before = tuner_.demand_percent(kId);
  run_batches(sched::BatchControl::kNumInRow - 1, kMissNs);
  run_batches(1, kGoodNs);
  EXPECT_EQ(observed_percent(), before);
}

}  // namespace
}  // namespace itif::execution::test
