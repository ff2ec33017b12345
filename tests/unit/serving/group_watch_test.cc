// Reports of a group watch over time: rates, latencies and limits of the last seconds.
#include "serving/group_watch.h"

#include <atomic>
#include <thread>

#include "tenant_service_fixture.h"

namespace itif::serving::test {
namespace {

constexpr uint64_t kWatchSecond = 1'000'000'000;

// The service's clock is the system's; the watch has its own.
class GroupWatchTest : public TenantServiceTest {
 protected:
  void SetUp() override {
    TenantServiceTest::SetUp();
    watch = std::make_unique<GroupWatch>(*pipeline, *service, watch_clock);
    ASSERT_TRUE(admit(settings(1)));
  }
  GroupReport read(uint64_t after_ns = kWatchSecond) {
    watch_clock.advance_ns(after_ns);
    const std::vector<GroupReport> reports = watch->read();
    EXPECT_EQ(reports.size(), 1u);
    return reports.empty() ? GroupReport() : reports.front();
  }
  // Lets the group run a request, as a worker would.
  void run_request() {
    request::Request one;
    const uint16_t id = 5;
    const request::Piece piece{reinterpret_cast<const std::byte*>(&id), 2};
    one.payload_kind = wire::PayloadKind::kTokensU16;
    one.payload_bytes = 2;
    one.pieces = std::span(&piece, 1);
    inbox()->push(&one);
    pipeline::ReturnRing& returns = pipeline->workers()[0]->returns();
    do {
      while (returns.pop(&item_, 1) == 0) std::this_thread::yield();
    } while (!item_.has_ended());
    std::free(one.result.data);
    while (info().batches == num_batches_) std::this_thread::yield();
    num_batches_ = info().batches;
  }

  VirtualClock watch_clock;
  std::unique_ptr<GroupWatch> watch;

 private:
  pipeline::ReturnRing::Item item_{};
  uint64_t num_batches_ = 0;
};

TEST_F(GroupWatchTest, AnIdleGroupIsLimitedByItsClients) {
  const GroupReport report = read();
  EXPECT_EQ(report.name, info().name);
  EXPECT_EQ(report.verdict.limit, telemetry::Limit::kClients);
  EXPECT_EQ(report.load.answered, 0u);
  EXPECT_EQ(report.gue, 0);
  EXPECT_EQ(report.share_percent, 100);
  EXPECT_NEAR(report.load.interval_s, 1, 1e-9);
}

// Each call that comes a second after the last one begins an interval.
TEST_F(GroupWatchTest, AReadingCoversTheTimeSinceACallASecondAgo) {
  EXPECT_NEAR(read(5 * kWatchSecond).load.interval_s, 5, 1e-9) << "since the start";
  EXPECT_NEAR(read(kWatchSecond).load.interval_s, 1, 1e-9);
  EXPECT_NEAR(read(kWatchSecond / 2).load.interval_s, 1.5, 1e-9) << "another client called";
  EXPECT_NEAR(read(kWatchSecond / 2).load.interval_s, 1, 1e-9);
  EXPECT_NEAR(read(30 * kWatchSecond).load.interval_s, 30, 1e-9);
}

// Other callers come meanwhile, also in the same second.
TEST_F(GroupWatchTest, CallersDoNotShortenTheIntervalsOfOthers) {
  read();
  for (int turn = 0; turn < 3; ++turn) {
    run_request();
    read();  // begins an interval of 20 s
    for (int i = 1; i < 200; ++i) read(kWatchSecond / 10);
    watch_clock.advance_ns(kWatchSecond / 10);
    const GroupReport report = watch->read(20 * kWatchSecond).front();
    EXPECT_GE(report.load.interval_s, 20);
    EXPECT_LE(report.load.interval_s, 22);
  }
  watch_clock.advance_ns(100 * kWatchSecond);
  EXPECT_NEAR(watch->read(kWatchSecond).front().load.interval_s, 100, 1);
  EXPECT_GE(watch->read(150 * kWatchSecond).front().load.interval_s, 150);
}

TEST_F(GroupWatchTest, FullnessIsOfTheBatchesOfTheInterval) {
  EXPECT_EQ(read().load.batch_fullness, 0);
  run_request();
  const GroupReport report = read();
  EXPECT_NEAR(report.load.batch_fullness, 1.0 / config.batching.max_requests, 1e-9);
  EXPECT_EQ(read(2 * kWatchSecond).load.batch_fullness, 0) << "none ran since";
}

// GUE's time is that of the batches, by the executor's counts.
TEST_F(GroupWatchTest, TheTimeOfBatchesIsOfTheInterval) {
  EXPECT_EQ(read().batch_ns, 0) << "nothing was answered";
  run_request();
  run_request();
  const GroupInfo group = info();
  EXPECT_EQ(group.answered, 2u);
  const GroupReport report = read();
  EXPECT_NEAR(report.batch_ns, static_cast<double>(group.execute_ns) / 2, 1);
  EXPECT_GT(report.batch_ns, 0);
  EXPECT_EQ(report.gue, telemetry::gue(report.requests_per_s, report.batch_ns));
  EXPECT_EQ(read(2 * kWatchSecond).batch_ns, 0) << "none ran since";
}

// A batch may take longer than the interval.
TEST_F(GroupWatchTest, ARunningBatchCountsWithItsPart) {
  std::atomic<bool> goes_on{false};
  groups[0]->on_forward = [&] {
    while (!goes_on) std::this_thread::yield();
  };
  read();
  std::thread worker([&] { run_request(); });
  while (info().running_ns < 50'000'000) std::this_thread::yield();
  EXPECT_EQ(info().busy_ns, 0u);
  const GroupReport during = read();
  EXPECT_EQ(during.load.answered, 0u);
  EXPECT_GE(during.load.device_busy, 0.05);
  goes_on = true;
  worker.join();
  EXPECT_EQ(info().running_ns, 0u);
  EXPECT_EQ(read().load.device_busy, 0) << "counted before";
}

// A group that is made again counts from 0, and its name is the same.
TEST_F(GroupWatchTest, AGroupThatIsMadeAgainCountsFromZero) {
  for (int i = 0; i < 3; ++i) run_request();
  read();
  ASSERT_TRUE(service->remove(1, kLong));
  EXPECT_TRUE(watch->read().empty());
  ASSERT_TRUE(admit(settings(2)));
  const GroupReport report = read();
  EXPECT_LE(report.load.device_busy, 1);
  EXPECT_EQ(report.load.batch_fullness, 0);
  EXPECT_EQ(report.verdict.limit, telemetry::Limit::kClients);
}

}  // namespace
}  // namespace itif::serving::test
