#include "pipeline/doorbell.h"

#include <gtest/gtest.h>

#include <thread>

#include "pipeline/tenant_latency.h"

namespace itif::pipeline {
namespace {

// After a lost wake-up the sleeper would sleep for a minute, and the test would time out.
TEST(Doorbell, NoWakeUpIsLost) {
  Doorbell bell;
  std::atomic<int> work{0};
  constexpr int kRounds = 20'000;
  std::thread consumer([&] {
    for (int done = 0; done < kRounds;) {
      const int now = work.load(std::memory_order_acquire);
      if (now > done) {
        done = now;
      } else {
        bell.wait(60'000'000'000, [&] { return work.load(std::memory_order_acquire) > done; });
      }
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    work.fetch_add(1, std::memory_order_release);
    bell.ring();
  }
  consumer.join();
}

TEST(TenantLatency, BucketsCoverAndOrder) {
  size_t last = 0;
  for (uint64_t ns = 1; ns < 20'000'000'000; ns += ns / 7 + 1) {
    const size_t bucket = TenantLatencyTable::bucket_of(ns);
    EXPECT_GE(bucket, last);
    EXPECT_LE(bucket - last, 1u);
    last = bucket;
    if (bucket + 1 < TenantLatencyTable::kBuckets) {
      EXPECT_LT(ns, TenantLatencyTable::upper_edge_ns(bucket));
      EXPECT_LE(static_cast<double>(TenantLatencyTable::upper_edge_ns(bucket)),
                1.26 * static_cast<double>(ns) + 1024);
    }
  }
}

}  // namespace
}  // namespace itif::pipeline
