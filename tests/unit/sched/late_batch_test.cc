// Under overload edf and das chose the requests that were nearly too late, each of which could have
// been met alone, and the full batch answered all of them late.
#include "policy_fixture.h"

namespace itif::sched {
namespace {

class LateBatchTest : public PolicyFixture, public testing::WithParamInterface<const char*> {
 protected:
  // Batches have up to ten requests of 32 tokens, which take 32 ms. One alone takes 3.2 ms.
  void SetUp() override {
    const PolicyOptions options = {.limits = {.max_tokens = 1024, .max_requests = 10}};
    choice.reserve(options);
    make(GetParam(), options);
  }
  void push_requests(int count, uint64_t deadline_ns) {
    for (int i = 0; i < count; ++i) push({.deadline_ns = deadline_ns});
  }
};

TEST_P(LateBatchTest, LeavesOutRequestsThatTheBatchWouldMakeLate) {
  push_requests(5, 10 * kMs);
  push_requests(15, 100 * kMs);
  choose(0);
  EXPECT_EQ(choice.batch.size(), 10u);
  for (const request::Request* r : choice.batch) EXPECT_EQ(r->deadline_ns, 100 * kMs);
  EXPECT_EQ(choice.refused.size(), 5u);  // cannot be met after this batch either
  choose(32 * kMs);
  EXPECT_EQ(choice.batch.size(), 5u);
  EXPECT_EQ(policy->queue().num_requests(), 0u);
}

TEST_P(LateBatchTest, TakesThemIfThereAreNoOthers) {
  push_requests(20, 10 * kMs);
  choose(0);
  EXPECT_EQ(choice.batch.size(), 10u);
}

TEST_P(LateBatchTest, ASmallBatchTakesRequestsThatAFullOneWouldMakeLate) {
  push_requests(2, 10 * kMs);
  push_requests(1, 100 * kMs);
  choose(0);
  EXPECT_EQ(choice.batch.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Indexed, LateBatchTest,
                         testing::Values("sjf", "edf", "das", "slotted_das"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace itif::sched
