// Last come, first served: the newest requests of all tenants.
#include "policy_fixture.h"

namespace itif::sched {
namespace {

class LcfsTest : public PolicyFixture {
 protected:
  // Batches have up to three requests of 32 tokens, which take 9.6 ms.
  void SetUp() override { make_policy_with({.limits = {.max_requests = 3}}); }
  void make_policy_with(const PolicyOptions& options) {
    choice.reserve(options);
    make("lcfs", options);
  }
  std::vector<uint64_t> arrivals() const {
    std::vector<uint64_t> arrivals;
    for (const request::Request* r : choice.batch) arrivals.push_back(r->complete_ns);
    return arrivals;
  }
};

TEST_F(LcfsTest, TakesTheNewestOfAllTenants) {
  const uint32_t slots[] = {0, 1, 1, 2, 0};
  for (uint64_t i = 0; i < 5; ++i) push({.slot = slots[i], .at_ns = i});
  choose(10);
  EXPECT_EQ(arrivals(), (std::vector<uint64_t>{4, 3, 2}));
  push({.slot = 2, .at_ns = 11});
  choose(12);
  EXPECT_EQ(arrivals(), (std::vector<uint64_t>{11, 1, 0}));
}

// Four arrive while a batch of three runs.
TEST_F(LcfsTest, UnderOverloadTheNewestWaitForOneBatchAndTheOldestAreRefused) {
  make_policy_with({.limits = {.max_requests = 3}, .max_wait_ns = 100 * kMs});
  size_t num_refused = 0;
  for (uint64_t batch = 1; batch <= 100; ++batch) {
    const uint64_t now_ns = batch * 10 * kMs;
    for (uint64_t i = 0; i < 4; ++i)
      push({.slot = static_cast<uint32_t>(i % 2), .at_ns = now_ns - (4 - i) * kMs});
    choose(now_ns);
    ASSERT_EQ(choice.batch.size(), 3u);
    for (const request::Request* r : choice.batch) EXPECT_LE(now_ns - r->complete_ns, 3 * kMs);
    for (const Refused& one : choice.refused) EXPECT_EQ(one.why, DeadlineMiss::kWaitedTooLong);
    num_refused += choice.refused.size();
  }
  EXPECT_EQ(num_refused, 90u);  // one of each batch, 100 ms later
}

// A request waits longer if others arrive after it, which its arrival cannot tell.
TEST_F(LcfsTest, PromisesNoWait) {
  for (uint64_t i = 0; i < 5; ++i) push({.at_ns = i});
  EXPECT_EQ(policy->backlog_ahead(0).num_requests, 0);
}

}  // namespace
}  // namespace itif::sched
