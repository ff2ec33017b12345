#include "report/timing.h"

#include <gtest/gtest.h>

namespace itif::bench {
namespace {

Samples samples_of(const std::vector<double>& ns) {
  Samples samples;
  for (const double one : ns) samples.add(one);
  return samples;
}

// Each call takes the next of `seconds` on the clock; further calls take the last.
class Work {
 public:
  Work(VirtualClock& clock, std::vector<double> seconds)
      : clock_(clock), seconds_(std::move(seconds)) {}
  std::function<void()> function() {
    return [this] {
      clock_.advance_ns(
          static_cast<uint64_t>(seconds_[std::min(calls, seconds_.size() - 1)] * 1e9));
      ++calls;
    };
  }
  size_t calls = 0;

 private:
  VirtualClock& clock_;
  const std::vector<double> seconds_;
};

TEST(Timing, MedianAndSpreadOfFewSamples) {
  EXPECT_EQ(samples_of({7}).median(), 7);
  EXPECT_EQ(samples_of({7}).spread(), 0);
  EXPECT_EQ(samples_of({9, 5}).median(), 7);
  EXPECT_EQ(samples_of({9, 5, 6}).median(), 6);
  EXPECT_EQ(samples_of({4, 1, 3, 2}).median(), 2.5);
  EXPECT_EQ(samples_of({9, 5, 6}).spread(), 4.0 / 6);
}

TEST(Timing, PairedRatiosIgnoreLoadThatLastsOverBothCalls) {
  // The machine becomes three times slower in the middle: the medians' quotient would be 4.
  const Samples ratios = paired_ratios(samples_of({4, 12, 12}), samples_of({2, 3, 6}));
  EXPECT_EQ(ratios.in_order, (std::vector<double>{2, 4, 2}));
  EXPECT_EQ(ratios.median(), 2);
  EXPECT_EQ(ratios.spread(), 1);
}

TEST(Timing, WarmUpCallsDoNotCount) {
  VirtualClock clock;
  Work work(clock, {0.1, 0.1, 0.01});
  const Samples samples =
      measure({work.function()}, {.seconds = 0, .least = 5, .warm_ups = 2}, clock)[0];
  EXPECT_EQ(work.calls, 7u);
  ASSERT_EQ(samples.ns.size(), 5u);
  EXPECT_EQ(samples.ns.back(), 1e7);
}

TEST(Timing, LongCallsWarmUpOnce) {
  VirtualClock clock;
  Work work(clock, {3});
  EXPECT_EQ(measure({work.function()}, {.least = 3, .warm_ups = 2}, clock)[0].ns.size(), 3u);
  EXPECT_EQ(work.calls, 4u);
}

// A function finds its own data in the caches. One that takes long needs no call for that.
TEST(Timing, ShortCallsWarmUpBeforeEachSample) {
  VirtualClock clock;
  Work fast(clock, {0.001}), slow(clock, {0.5});
  const auto samples = measure({fast.function(), slow.function()},
                               {.seconds = 0, .least = 4, .warm_ups = 0, .warm_each = true}, clock);
  EXPECT_EQ(samples[0].ns.size(), 4u);
  EXPECT_EQ(fast.calls, 8u);
  EXPECT_EQ(slow.calls, 5u);
}

TEST(Timing, SamplesFillTheGivenSeconds) {
  VirtualClock clock;
  Work a(clock, {0.25}), b(clock, {0.75});
  const auto samples = measure({a.function(), b.function()}, {.seconds = 9.5, .least = 2}, clock);
  EXPECT_EQ(samples[0].ns.size(), 10u);
  EXPECT_EQ(samples[1].ns.size(), 10u);
}

TEST(Timing, TwoSamplesAreEnoughIfAllAgree) {
  const Effort effort{.seconds = 1, .least = 3, .warm_ups = 0, .settled = 0.02};
  VirtualClock clock;
  Work close(clock, {1.00, 1.01}), apart(clock, {1.00, 1.05});
  EXPECT_EQ(measure({close.function()}, effort, clock)[0].ns.size(), 2u);
  close.calls = 0;
  EXPECT_EQ(measure({close.function(), apart.function()}, effort, clock)[1].ns.size(), 3u);
}

TEST(Timing, TwoSamplesAreEnoughAfterThePatience) {
  VirtualClock clock;
  Work apart(clock, {4, 5, 6});
  const Effort effort{.seconds = 1, .least = 3, .warm_ups = 0, .patience = 8};
  EXPECT_EQ(measure({apart.function()}, effort, clock)[0].ns.size(), 2u);
}

TEST(Timing, WideSpreadsAreMeasuredAgain) {
  const Effort effort{.seconds = 0, .least = 3, .warm_ups = 0, .reruns = 2};
  VirtualClock clock;
  Work steady(clock, {1}), disturbed(clock, {1, 2, 3, 4, 4, 4.2, 9, 9, 9});
  const auto samples = measure({steady.function(), disturbed.function()}, effort, clock);
  EXPECT_EQ(disturbed.calls, 6u) << "the second run is steady";
  EXPECT_EQ(samples[0].ns.size(), 3u);
  EXPECT_DOUBLE_EQ(samples[1].median(), 4e9);

  Work worse(clock, {1, 2, 3, 1, 5, 9, 1, 1, 2});
  EXPECT_DOUBLE_EQ(measure({worse.function()}, effort, clock)[0].spread(), 1)
      << "of three runs the one whose spread is smallest counts";
  EXPECT_EQ(worse.calls, 9u);
}

}  // namespace
}  // namespace itif::bench
