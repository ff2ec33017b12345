// The longest wait: orders that cannot tell on arrival how long a request will wait refuse it once
// it has waited that long. Under the others admission refuses it on arrival.
#include "policy_fixture.h"

namespace itif::sched {
namespace {

class MaxWaitTest : public PolicyFixture, public testing::WithParamInterface<const char*> {
 protected:
  bool knows_waits() const {
    return std::string_view(GetParam()) == "fair" || std::string_view(GetParam()) == "fcfs";
  }
  void make_policy_with(uint64_t max_wait_ns, bool continuous = false) {
    const PolicyOptions options = {.limits = {.max_tokens = 320, .max_requests = 10},
                                   .continuous = continuous,
                                   .max_wait_ns = max_wait_ns};
    choice.reserve(options);
    make(GetParam(), options);
  }
};

// Short requests of another tenant arrive all the time.
TEST_P(MaxWaitTest, NoRequestWaitsLonger) {
  for (const bool continuous : {false, true}) {
    make_policy_with(500 * kMs, continuous);
    const request::Request& late = push({.slot = 0, .tokens = 300, .at_ns = 0});
    const request::Request& also_late = push({.slot = 0, .tokens = 300, .at_ns = 1});
    const request::Request& recent = push({.slot = 0, .tokens = 300, .at_ns = 2 * kMs});
    for (int i = 0; i < 20; ++i) push({.slot = 1, .tokens = 8, .at_ns = 499 * kMs});
    choose(501 * kMs);
    if (knows_waits()) {
      EXPECT_TRUE(choice.refused.empty());
      continue;
    }
    ASSERT_EQ(choice.refused.size(), 2u);
    EXPECT_EQ(choice.refused[0].request, &late);
    EXPECT_EQ(choice.refused[1].request, &also_late);
    for (const Refused& one : choice.refused) EXPECT_EQ(one.why, DeadlineMiss::kWaitedTooLong);
    if (std::ranges::count(choice.batch, &recent) > 0) continue;  // edf: it is the oldest now
    choose(503 * kMs);
    ASSERT_EQ(choice.refused.size(), 1u);
    EXPECT_EQ(choice.refused[0].request, &recent);
  }
}

TEST_P(MaxWaitTest, WithoutALimitTheyWait) {
  make_policy_with(0);
  push({.slot = 0, .tokens = 300, .at_ns = 0});
  choose(100'000 * kMs);
  EXPECT_TRUE(choice.refused.empty());
  EXPECT_EQ(choice.batch.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, MaxWaitTest,
                         testing::Values("fair", "fcfs", "lcfs", "sjf", "edf", "das",
                                         "slotted_das"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace itif::sched
