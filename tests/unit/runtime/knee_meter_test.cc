// The measurement of throughput by share and batch size.
#include "runtime/cost/knee_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device/turn_taking.h"
#include "support/null_stream.h"
#include "support/plain_device.h"

namespace itif::runtime {
namespace {

class FailingStream final : public itif::testing::NullStream {
 public:
  Status synchronize() override { return fail(Code::kInternal, "the device has failed"); }
};

// A model whose passes take `ns_per_request` per request on a share at its knee or above, and more
// in proportion below. The knee of a batch of n requests is 10 % · n, at most 80 %.
class KneeMeterTest : public ::testing::Test {
 protected:
  void use(device::Division division) { device_.divide_by(division); }
  Group::ProfiledWork work() {
    return {.launch_pass = [this](device::Stream&, uint32_t requests, uint32_t tokens) {
      EXPECT_EQ(tokens, 64u);
      passes_.push_back(requests);
      const double knee = std::min(80.0, 10.0 * requests);
      const double slowdown = std::max(1.0, knee / percent_);
      clock_.advance_ns(static_cast<uint64_t>(std::llround(1e6 * requests * slowdown)) +
                        noise_ns_(passes_.size()));
    }};
  }
  std::vector<slice::BatchCurve> measure(const std::vector<double>& percents) {
    KneeMeter meter(device_, clock_, work(),
                    {{.requests = 1, .tokens = 64}, {.requests = 8, .tokens = 64}},
                    percents.size());
    EXPECT_EQ(meter.progress(), 0);
    for (const double percent : percents) {
      percent_ = percent;
      meter.begin(percent);
      while (meter.step(stream_)) {
      }
    }
    EXPECT_EQ(meter.progress(), 1);
    return meter.finish().value();
  }

  itif::testing::PlainDevice device_;
  itif::testing::NullStream stream_;
  VirtualClock clock_;
  double percent_ = 100;
  std::vector<uint32_t> passes_;  // requests of each
  std::function<uint64_t(size_t)> noise_ns_ = [](size_t) { return 0; };
};

TEST_F(KneeMeterTest, FindsTheKneeOfEachBatchSize) {
  for (const auto division : {device::Division::kProcessors, device::Division::kTime}) {
    use(division);
    const auto curves = measure({10, 40, 80, 100});
    ASSERT_EQ(curves.size(), 2u);
    EXPECT_EQ(slice::knee_percent(curves[0].points, 0.1), 10);
    EXPECT_EQ(slice::knee_percent(curves[1].points, 0.1), 80);
    EXPECT_NEAR(curves[0].points[0].throughput, 1000, 1);
    EXPECT_NEAR(curves[1].points[1].throughput, 500, 1);
    EXPECT_EQ(curves[1].points[1].percent, 40);
    slice::KneeProfile profile;
    profile.curves = curves;
    EXPECT_EQ(profile.knee_percent(), 80);
    EXPECT_EQ(profile.knee_percent(1.0), 40);  // half of the throughput is enough
  }
}

// The first pass on a share captures graphs, and others may be late.
TEST_F(KneeMeterTest, TheFastestPassOnSomeProcessorsCounts) {
  use(device::Division::kProcessors);
  noise_ns_ = [](size_t pass) { return pass % 4 == 3 ? 0 : 5'000'000; };
  const auto curves = measure({100});
  EXPECT_NEAR(curves[0].points[0].throughput, 1000, 1);
  EXPECT_NEAR(curves[1].points[0].throughput, 1000, 1);
  EXPECT_EQ(passes_, (std::vector<uint32_t>{1, 1, 1, 1, 8, 8, 8, 8}));
}

// An idle stream has a credit of time, so its first passes are faster than its share allows.
TEST_F(KneeMeterTest, PassesOnATimeShareCountOnceCreditsAreSpent) {
  use(device::Division::kTime);
  uint64_t before_ns = clock_.now_ns();
  noise_ns_ = [&](size_t) { return clock_.now_ns() - before_ns < 140'000'000 ? 0u : 1'000'000u; };
  const auto curves = measure({100});
  EXPECT_NEAR(curves[0].points[0].throughput, 500, 5);
  EXPECT_GE(std::ranges::count(passes_, 8u), 2);
}

TEST_F(KneeMeterTest, AFailedPassEndsTheMeasurement) {
  use(device::Division::kProcessors);
  FailingStream failing;
  KneeMeter meter(device_, clock_, work(), {{.requests = 1, .tokens = 64}}, 2);
  meter.begin(50);
  EXPECT_FALSE(meter.step(failing));
  meter.begin(100);
  EXPECT_FALSE(meter.step(stream_)) << "the failure stays";
  const auto curves = meter.finish();
  ASSERT_FALSE(curves);
  EXPECT_EQ(curves.error().message, "the device has failed");
}

TEST(TimeCompetitor, TakesItsShareOfTheTime) {
  const auto device = device::open_device({.kind = "host", .num_threads = 1}).value();
  const SystemClock clock;
  const auto stream = device
                          ->make_stream({.max_tokens = 64, .max_segments = 1},
                                        {.share = {.percent = 50}, .clock = &clock})
                          .value();
  const auto values = device->allocate(size_t{64 + device->row_slack()} * 768 * 4).value();
  const kernels::RowRange rows{.num_rows = 64};
  uint64_t num_launches = 0;
  const auto compute_for = [&](uint64_t ns) {
    num_launches = 0;
    for (const uint64_t end_ns = clock.now_ns() + ns; clock.now_ns() < end_ns; ++num_launches)
      stream->launch(kernels::BiasActivation{.x = values->data(),
                                             .bias = {},
                                             .width = 768,
                                             .activation = kernels::Activation::kGelu,
                                             .ranges = {&rows, 1}});
    ASSERT_TRUE(stream->wait(stream->record()).status);
  };
  stream->attach_thread();
  auto* const turns = dynamic_cast<device::TurnTaking*>(stream.get());
  ASSERT_NE(turns, nullptr);
  turns->set_background(true);  // where the competitor is
  // Other programs may compute on the same CPU: the most and the least of some runs count.
  uint64_t alone = 0, beside = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    compute_for(100'000'000);
    alone = std::max(alone, num_launches);
  }
  {
    const auto competitor = TimeCompetitor::start(*device, {.percent = 50}, clock);
    ASSERT_TRUE(competitor) << competitor.error().message;
    compute_for(300'000'000);  // spends the credit
    for (int i = 0; i < 3; ++i) {
      compute_for(100'000'000);
      beside = std::min(beside, num_launches);
    }
  }
  EXPECT_LT(static_cast<double>(beside), 0.8 * static_cast<double>(alone));
}

}  // namespace
}  // namespace itif::runtime
