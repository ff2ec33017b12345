#include "sched/quota.h"

#include <gtest/gtest.h>

#include <memory>

namespace itif::sched {
namespace {

TEST(Quota, UnlimitedAdmitsAll) {
  auto quota = std::make_unique<Quota>();
  uint32_t retry = 0;
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(quota->admit(3, 0, 5, retry));
}

TEST(Quota, LongRunRateIsTheQuota) {
  auto quota = std::make_unique<Quota>();
  uint32_t retry = 0, admitted = 0;
  const uint64_t start = 1'000'000'000;
  for (uint64_t us = 0; us < 10'000'000; us += 100)  // 10,000/s offered for 10 s, 500/s allowed
    admitted += quota->admit(1, 500, start + us * 1000, retry);
  EXPECT_GE(admitted, 5000u);
  EXPECT_LE(admitted, 5000u + 51u);  // plus the burst
}

TEST(Quota, RetryAfterIsWhenTheNextIsAdmitted) {
  auto quota = std::make_unique<Quota>();
  uint32_t retry = 0;
  uint64_t now = 1'000'000'000;
  while (quota->admit(1, 10, now, retry)) {
  }
  ASSERT_GT(retry, 0u);
  uint32_t ignored = 0;
  EXPECT_FALSE(quota->admit(1, 10, now + (retry - 2) * 1000ull, ignored));
  EXPECT_TRUE(quota->admit(1, 10, now + retry * 1000ull, ignored));
}

TEST(Quota, TenantsAreIndependentAndResetForgets) {
  auto quota = std::make_unique<Quota>();
  uint32_t retry = 0;
  while (quota->admit(1, 10, 1000, retry)) {
  }
  EXPECT_TRUE(quota->admit(2, 10, 1000, retry));
  quota->reset(1);
  EXPECT_TRUE(quota->admit(1, 10, 1000, retry));
}

}  // namespace
}  // namespace itif::sched
