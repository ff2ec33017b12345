#include "pipeline/doorbell.h"

#include <gtest/gtest.h>

#include <thread>

#include "pipeline/lcores.h"
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

TEST(CpuPlan, AdaptiveSharesAllCpusAndBusyGivesWorkersSeparateCpus) {
  config::Config config;
  config.ports.resize(1);
  config.ports[0].num_queues = 1;
  auto plan = plan_cpus(config, {0, 1}).value();
  EXPECT_EQ(plan.eal_args.back(), "--lcores=0@(0,1),1@(0,1)");
  EXPECT_TRUE(plan.executor_cpus.empty());
  config.data_plane.polling = "busy";
  plan = plan_cpus(config, {0, 1, 2, 3}).value();
  EXPECT_EQ(plan.eal_args.back(), "--lcores=0@(0,1,2,3),1@3");
  EXPECT_EQ(plan.executor_cpus, (std::vector<unsigned>{0, 1, 2}));
  EXPECT_FALSE(plan_cpus(config, {0}));
  config.eal.args = {"-l", "0-1"};
  EXPECT_EQ(plan_cpus(config, {0, 1}).value().eal_args, config.eal.args);
}

}  // namespace
}  // namespace itif::pipeline
