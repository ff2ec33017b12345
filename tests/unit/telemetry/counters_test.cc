#include "telemetry/counters.h"

#include <gtest/gtest.h>

#include <thread>

namespace itif::telemetry {
namespace {

TEST(Counters, ReaderSeesAMonotonicCountAndTheExactSumAtRest) {
  WorkerCounters counters;
  constexpr uint64_t kTimes = 200'000;
  std::thread reader([&] {
    uint64_t last = 0;
    while (last < kTimes) {
      const uint64_t now = counters.received.read();
      ASSERT_GE(now, last);
      last = now;
    }
  });
  for (uint64_t i = 0; i < kTimes; ++i) counters.received.add();
  reader.join();
  EXPECT_EQ(counters.received.read(), kTimes);
}

TEST(Counters, TotalUnusedIsTheSumOfTheReasons) {
  WorkerCounters counters;
  uint64_t expected = 0;
  for (size_t i = 0; i < kMaxDropReasons; ++i) {
    counters.dropped[i].add(i + 1);
    expected += i + 1;
  }
  EXPECT_EQ(counters.total_unused(), expected);
}

// Two workers' counters, or two tenants', never share a cache line.
TEST(Counters, OwnersShareNoCacheLine) {
  EXPECT_EQ(alignof(WorkerCounters) % kCacheLineBytes, 0u);
  EXPECT_EQ(sizeof(WorkerCounters) % kCacheLineBytes, 0u);
  EXPECT_EQ(sizeof(TenantCounters) % kCacheLineBytes, 0u);
  EXPECT_EQ(sizeof(ExecutorCounters) % kCacheLineBytes, 0u);
}

TEST(Counters, EveryTenantHasARow) {
  TenantCounterTable table;
  table[0].requests.add(2);
  table[kMaxTenants - 1].requests.add(3);
  EXPECT_EQ(table[0].requests.read(), 2u);
  EXPECT_EQ(table[1].requests.read(), 0u);
  EXPECT_EQ(table[kMaxTenants - 1].requests.read(), 3u);
}

}  // namespace
}  // namespace itif::telemetry
